//! Sentinels that watch a master and put a replica in its place.

use std::process::{Child, Command, Stdio};

use super::redis::{RedisServer, engine};
use super::{PATIENCE, eventually_blocking};

/// Three sentinels; killed when dropped.
pub struct Sentinels {
    running: Vec<(Child, u16)>,
    _dir: tempfile::TempDir,
}

impl Sentinels {
    /// Starts them and waits until each knows the master, its replica and the other two.
    pub fn watch(master: &RedisServer, service: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("duewheel-sentinels-").tempdir().expect("a temp dir");
        let start = |n: usize| {
            let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let file = dir.path().join(format!("{n}.conf"));
            let watched = format!(
                "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {service} 127.0.0.1 {} 2\n\
                 sentinel down-after-milliseconds {service} 3000\nsentinel failover-timeout {service} 5000\n",
                dir.path().display(),
                master.port()
            );
            std::fs::write(&file, watched).expect("a file");
            let mut command = Command::new(engine());
            command.arg(&file).arg("--sentinel").current_dir(dir.path());
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            (child.expect("a sentinel starts"), port)
        };
        let running: Vec<_> = (0..3).map(start).collect();
        for (_, port) in &running {
            eventually_blocking(PATIENCE, || {
                let mut at =
                    redis::Client::open(format!("redis://127.0.0.1:{port}")).ok()?.get_connection().ok()?;
                let known: Vec<String> =
                    redis::cmd("SENTINEL").arg("MASTER").arg(service).query(&mut at).ok()?;
                let field =
                    |name: &str| known.iter().position(|word| word == name).map(|n| known[n + 1].as_str());
                (field("num-slaves") == Some("1") && field("num-other-sentinels") == Some("2")).then_some(())
            });
        }
        Self { running, _dir: dir }
    }

    /// `127.0.0.1:PORT,…`, the first of them where nobody listens.
    pub fn hosts(&self) -> String {
        let ports = self.running.iter().map(|(_, port)| format!("127.0.0.1:{port}"));
        std::iter::once("127.0.0.1:1".to_owned()).chain(ports).collect::<Vec<_>>().join(",")
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        for (child, _) in &mut self.running {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
