//! Sentinels that watch a master and put a replica in its place.

use std::process::{Child, Command, Stdio};

use super::redis::{RedisServer, engine};
use super::{PATIENCE, eventually_blocking};

/// Three sentinels; killed when dropped.
pub struct Sentinels {
    running: Vec<(Child, u16)>,
    dir: tempfile::TempDir,
}

impl Sentinels {
    /// Starts them and waits until each knows the master, its replica and the other two.
    pub fn watch(master: &RedisServer, service: &str) -> Self {
        Self::watch_with(master, service, &[])
    }

    /// The same with these arguments, which make their port speak TLS, and with the servers, too.
    pub fn watch_with(master: &RedisServer, service: &str, tls: &[String]) -> Self {
        let dir = tempfile::Builder::new().prefix("duewheel-sentinels-").tempdir().expect("a temp dir");
        let start = |n: usize| {
            let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let file = dir.path().join(format!("{n}.conf"));
            let ports =
                if tls.is_empty() { format!("port {port}") } else { format!("port 0\ntls-port {port}") };
            let files = tls.chunks(2).map(|pair| format!("{} {}\n", &pair[0][2..], pair[1]));
            let watched = format!(
                "{ports}\n{}bind 127.0.0.1\ndir {}\nunixsocket {}\nsentinel monitor {service} 127.0.0.1 {} 2\n\
                 sentinel down-after-milliseconds {service} 3000\nsentinel failover-timeout {service} 5000\n",
                files.collect::<String>(),
                dir.path().display(),
                socket(&dir, port).display(),
                master.port()
            );
            std::fs::write(&file, watched).expect("a file");
            let mut command = Command::new(engine());
            command.arg(&file).arg("--sentinel").current_dir(dir.path());
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            (child.expect("a sentinel starts"), port)
        };
        let running: Vec<_> = (0..3).map(start).collect();
        let sentinels = Self { running, dir };
        for n in 0..3 {
            eventually_blocking(PATIENCE, || {
                let known: Vec<String> = sentinels.ask(n, &["SENTINEL", "MASTER", service]).ok()?;
                let field =
                    |name: &str| known.iter().position(|word| word == name).map(|n| known[n + 1].as_str());
                (field("num-slaves") == Some("1") && field("num-other-sentinels") == Some("2")).then_some(())
            });
        }
        sentinels
    }

    /// Tells the first of them to put the replica in the master's place, which still runs.
    pub fn fail_over(&self, service: &str) {
        // They may not have agreed yet that the replica is fit.
        eventually_blocking(PATIENCE, || self.ask::<String>(0, &["SENTINEL", "FAILOVER", service]).ok());
    }

    fn ask<T: redis::FromRedisValue>(&self, n: usize, words: &[&str]) -> redis::RedisResult<T> {
        let at = format!("unix://{}", socket(&self.dir, self.running[n].1).display());
        let mut at = redis::Client::open(at)?.get_connection()?;
        redis::cmd(words[0]).arg(&words[1..]).query(&mut at)
    }

    /// `127.0.0.1:PORT,…`, the first of them where nobody listens.
    pub fn hosts(&self) -> String {
        let ports = self.running.iter().map(|(_, port)| format!("127.0.0.1:{port}"));
        std::iter::once("127.0.0.1:1".to_owned()).chain(ports).collect::<Vec<_>>().join(",")
    }
}

fn socket(dir: &tempfile::TempDir, port: u16) -> std::path::PathBuf {
    dir.path().join(format!("{port}.sock"))
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        for (child, _) in &mut self.running {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
