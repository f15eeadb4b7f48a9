//! The worker under a service manager that listens (systemd, `Type=notify`): what it is told, and when.

use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::rig::cli::Cli;
use crate::rig::redis::RedisServer;
use crate::rig::{PATIENCE, eventually_blocking, free_port, signal};

/// The manager's end of the socket.
struct Manager {
    socket: UnixDatagram,
    path: std::path::PathBuf,
}

impl Manager {
    fn listen(cli: &Cli) -> Self {
        let path = cli.dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, path }
    }

    /// The next message, as its lines.
    fn hears(&self) -> Vec<String> {
        let mut bytes = [0; 1024];
        let length = self.socket.recv(&mut bytes).expect("the worker speaks");
        std::str::from_utf8(&bytes[..length]).unwrap().lines().map(str::to_owned).collect()
    }

    /// The next message that is no sign of life.
    fn hears_news(&self) -> Vec<String> {
        loop {
            let message = self.hears();
            if message != ["WATCHDOG=1"] {
                return message;
            }
        }
    }
}

fn start(cli: &Cli, manager: &Manager, watchdog: Option<Duration>) -> Child {
    cli.write("duewheel.toml", format!("[wheel.{}.hook]\nkind = 'log'\n", cli.wheel));
    let mut command = cli.command(&["worker"]);
    command.env("NOTIFY_SOCKET", &manager.path).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(watchdog) = watchdog {
        command.env("WATCHDOG_USEC", watchdog.as_micros().to_string());
    }
    command.spawn().unwrap()
}

#[test]
fn the_service_manager_hears_of_begin_reload_life_and_end() {
    let cli = Cli::new(RedisServer::shared());
    let manager = Manager::listen(&cli);
    let mut worker = start(&cli, &manager, Some(Duration::from_millis(400)));
    assert_eq!(manager.hears(), ["READY=1".to_owned(), format!("STATUS=serving {}", cli.wheel)]);
    // A sign of life within each half of what is allowed, as long as it works.
    let began = Instant::now();
    for _ in 0..5 {
        assert_eq!(manager.hears(), ["WATCHDOG=1"]);
    }
    // The first comes at once, four more after 200 ms each.
    assert!(began.elapsed() >= Duration::from_millis(700), "{:?}", began.elapsed());
    signal(worker.id(), "HUP");
    let message = manager.hears_news();
    assert_eq!(message[0], "RELOADING=1");
    assert!(message[1].starts_with("MONOTONIC_USEC="), "{message:?}");
    assert_eq!(manager.hears_news()[0], "READY=1");
    signal(worker.id(), "TERM");
    assert_eq!(manager.hears_news(), ["STOPPING=1", "STATUS=draining"]);
    assert!(eventually_blocking(PATIENCE, || worker.try_wait().unwrap()).success());
}

#[test]
fn a_worker_that_hangs_gives_no_sign_of_life() {
    let cli = Cli::new(RedisServer::shared());
    let manager = Manager::listen(&cli);
    let mut worker = start(&cli, &manager, Some(Duration::from_millis(200)));
    assert_eq!(manager.hears()[0], "READY=1");
    signal(worker.id(), "STOP");
    manager.socket.set_read_timeout(Some(Duration::from_millis(600))).unwrap();
    // What was on its way may still come.
    let mut bytes = [0; 64];
    let silent = (0..20).any(|_| manager.socket.recv(&mut bytes).is_err());
    assert!(silent, "a stopped process spoke");
    signal(worker.id(), "CONT");
    manager.socket.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(manager.hears(), ["WATCHDOG=1"]);
    signal(worker.id(), "TERM");
    assert!(eventually_blocking(PATIENCE, || worker.try_wait().unwrap()).success());
}

#[test]
fn a_service_manager_that_went_away_stops_nothing() {
    let cli = Cli::new(RedisServer::shared());
    let manager = Manager::listen(&cli);
    let mut worker = start(&cli, &manager, None);
    assert_eq!(manager.hears()[0], "READY=1");
    drop(manager);
    cli.run(&["enqueue", "o-1", "--in", "0s"]).ends(0);
    eventually_blocking(PATIENCE, || (cli.stat("ended") == 1).then_some(()));
    signal(worker.id(), "TERM");
    assert!(eventually_blocking(PATIENCE, || worker.try_wait().unwrap()).success());
}

/// One request of a probe, whole.
fn probe(port: u16, path: &str) -> Option<String> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_server_says_the_same_and_shows_that_no_worker_is_left() {
    let cli = Cli::new(RedisServer::shared());
    cli.run(&["enqueue", "o-1", "--in", "1h"]).ends(0);
    let manager = Manager::listen(&cli);
    let port = free_port();
    let mut command = cli.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("DUEWHEEL_METRICS__LISTEN", format!("127.0.0.1:{port}"));
    command.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "400000");
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert_eq!(manager.hears()[0], "READY=1");
    assert_eq!(manager.hears(), ["WATCHDOG=1"]);
    assert!(probe(port, "/livez").unwrap().starts_with("HTTP/1.1 200"));
    assert!(probe(port, "/readyz").unwrap().starts_with("HTTP/1.1 200"));
    let nobody = format!("duewheel_workers{{wheel=\"{}\",state=\"serving\"}} 0", cli.wheel);
    let scraped =
        eventually_blocking(PATIENCE, || probe(port, "/metrics").filter(|text| text.contains(&nobody)));
    assert!(scraped.contains("duewheel_scheduled"), "{scraped}");
    signal(server.id(), "TERM");
    assert_eq!(manager.hears_news()[0], "STOPPING=1");
    assert!(eventually_blocking(PATIENCE, || server.try_wait().unwrap()).success());
}
