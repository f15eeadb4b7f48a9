//! The rig itself: a test that cannot trust its server proves nothing.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use crate::rig::cluster::RedisCluster;
use crate::rig::proxy::{Proxy, Way};
use crate::rig::redis::{Aof, RedisOptions, RedisServer};
use crate::rig::{PATIENCE, eventually_blocking};

#[test]
fn a_server_with_aof_keeps_its_data_through_kill_and_restart() {
    let mut server = RedisServer::start(RedisOptions::aof(Aof::Always));
    let port = server.port();
    server.command::<String>(&["SET", "kept", "yes"]);
    server.restart();
    assert_eq!(server.port(), port);
    assert_eq!(server.command::<String>(&["GET", "kept"]), "yes");
    assert_eq!(server.info("maxmemory_policy"), "noeviction");
}

#[test]
fn a_paused_server_answers_nothing_until_it_is_resumed() {
    let server = RedisServer::start(RedisOptions::default());
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    server.pause();
    assert!(redis::cmd("PING").query::<String>(&mut connection).unwrap_err().is_timeout());
    server.resume();
    assert_eq!(server.command::<String>(&["PING"]), "PONG");
}

#[test]
fn nothing_is_left_of_a_dropped_server() {
    let server = RedisServer::start(RedisOptions::default());
    let (pid, dir) = (server.pid(), server.dir().to_owned());
    drop(server);
    assert!(!dir.exists());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_key_moves_alone_in_an_open_migration_and_its_hash_slot_follows() {
    let cluster = RedisCluster::start();
    let slot = cluster.hash_slot("{orders.7}:a");
    let from = cluster.first_owner(slot);
    let to = 1 - from;
    for key in ["{orders.7}:a", "{orders.7}:b"] {
        cluster.nodes[from].command::<String>(&["SET", key, "here"]);
    }
    cluster.open_migration(slot, from, to);
    cluster.move_keys(from, to, &["{orders.7}:a", "{orders.7}:absent"]);
    assert_eq!(cluster.keys_in(to, slot), ["{orders.7}:a"]);
    assert_eq!(cluster.keys_in(from, slot), ["{orders.7}:b"]);
    cluster.close_migration(slot, from, to);
    assert_eq!(cluster.nodes[to].command::<String>(&["GET", "{orders.7}:b"]), "here");
}

fn connect(proxy: &Proxy) -> redis::Connection {
    let client = redis::Client::open(proxy.redis_url()).unwrap();
    let connection = client.get_connection_with_timeout(Duration::from_secs(5)).unwrap();
    connection.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    connection
}

fn set(connection: &mut redis::Connection, key: &str, value: &str) -> redis::RedisResult<String> {
    redis::cmd("SET").arg(key).arg(value).query(connection)
}

#[test]
fn a_lost_reply_leaves_the_command_carried_out_and_the_caller_without_an_answer() {
    let server = RedisServer::start(RedisOptions::default());
    let proxy = Proxy::start(server.port());
    let mut connection = connect(&proxy);
    proxy.lose_reply(2, b"SET");
    assert_eq!(set(&mut connection, "a", "1").unwrap(), "OK");
    assert_eq!(redis::cmd("PING").query::<String>(&mut connection).unwrap(), "PONG");
    let lost = set(&mut connection, "a", "2").unwrap_err();
    assert!(lost.is_io_error(), "{lost}");
    assert!(proxy.lost_a_reply());
    assert_eq!(server.command::<String>(&["GET", "a"]), "2");
    assert_eq!(set(&mut connect(&proxy), "a", "3").unwrap(), "OK");
}

#[test]
fn a_swallowed_request_is_never_carried_out_and_a_held_one_is_when_healed() {
    let server = RedisServer::start(RedisOptions::default());
    let proxy = Proxy::start(server.port());
    let mut connection = connect(&proxy);
    proxy.swallow(Way::Up);
    assert!(set(&mut connection, "swallowed", "1").unwrap_err().is_timeout());
    proxy.hold(Way::Up);
    let mut second = connect_raw(&proxy);
    let before = proxy.bytes(Way::Up);
    second.write_all(b"SET held 1\r\n").unwrap();
    eventually_blocking(PATIENCE, || (proxy.bytes(Way::Up) > before).then_some(()));
    assert_eq!(server.command::<Option<String>>(&["GET", "held"]), None);
    proxy.heal();
    let mut reply = [0; 5];
    second.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+OK\r\n");
    assert_eq!(server.command::<Option<String>>(&["GET", "swallowed"]), None);
}

fn connect_raw(proxy: &Proxy) -> std::net::TcpStream {
    std::net::TcpStream::connect(("127.0.0.1", proxy.port())).unwrap()
}

#[test]
fn a_cut_ends_in_good_order_a_reset_does_not_and_a_server_that_is_down_takes_nobody() {
    let server = RedisServer::start(RedisOptions::default());
    let proxy = Proxy::start(server.port());
    let mut nothing = [0; 1];
    // A connection is open once a command was answered.
    let open = || {
        let mut stream = connect_raw(&proxy);
        stream.write_all(b"PING\r\n").unwrap();
        stream.read_exact(&mut [0; 7]).unwrap();
        stream
    };
    let mut stream = open();
    proxy.cut();
    assert_eq!(stream.read(&mut nothing).unwrap(), 0);
    let mut stream = open();
    proxy.reset();
    assert_eq!(stream.read(&mut nothing).unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    proxy.down();
    let refused = redis::Client::open(proxy.redis_url()).unwrap().get_connection();
    assert!(refused.is_err());
    proxy.heal();
    open();
}

#[test]
fn a_delay_is_added_to_each_reply() {
    let server = RedisServer::start(RedisOptions::default());
    let proxy = Proxy::start(server.port());
    let mut connection = connect(&proxy);
    proxy.delay(Way::Down, Duration::from_millis(40));
    let began = std::time::Instant::now();
    set(&mut connection, "late", "1").unwrap();
    assert!(began.elapsed() >= Duration::from_millis(40));
}
