//! The rig itself: a test that cannot trust its server proves nothing.

use std::time::Duration;

use crate::rig::redis::{Aof, RedisOptions, RedisServer};

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
