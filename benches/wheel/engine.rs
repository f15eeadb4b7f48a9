//! A private Redis for a benchmark, and what it has spent.

use std::fmt;
use std::ops::{Add, Div, Sub};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A redis-server on a unix socket with AOF everysec; killed and removed when dropped.
pub struct Engine {
    dir: tempfile::TempDir,
    process: Child,
    connection: std::cell::RefCell<redis::Connection>,
}

impl Engine {
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("duewheel-bench-").tempdir().unwrap();
        let socket = dir.path().join("redis.sock");
        let binary = std::env::var("DUEWHEEL_TEST_REDIS_BIN").unwrap_or_else(|_| "redis-server".to_owned());
        let mut process = Command::new(binary)
            .args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"])
            .arg("--dir")
            .arg(dir.path())
            .arg("--unixsocket")
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server on PATH, or DUEWHEEL_TEST_REDIS_BIN");
        let client = redis::Client::open(format!("unix://{}", socket.display())).unwrap();
        let began = Instant::now();
        let connection = loop {
            if let Ok(connection) = client.get_connection() {
                break connection;
            }
            if began.elapsed() > Duration::from_secs(10) {
                process.kill().ok();
                panic!("redis-server did not start");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Self { dir, process, connection: connection.into() }
    }

    pub fn url(&self) -> String {
        format!("unix://{}/redis.sock", self.dir.path().display())
    }

    pub fn command(&self, args: &[&str]) -> redis::Value {
        redis::cmd(args[0]).arg(&args[1..]).query(&mut *self.connection.borrow_mut()).unwrap()
    }

    /// What Redis has spent so far.
    pub fn cost(&self) -> Cost {
        let mut info = redis::cmd("INFO");
        let text: String =
            info.arg("cpu").arg("commandstats").query(&mut *self.connection.borrow_mut()).unwrap();
        let seconds = |field: &str| -> f64 {
            let line = text.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':'));
            line.and_then(|n| n.trim().parse().ok()).unwrap_or(0.0)
        };
        let script_us = |command: &str| -> f64 {
            let line = text
                .lines()
                .find_map(|l| l.strip_prefix("cmdstat_")?.strip_prefix(command)?.strip_prefix(':'));
            let usec = line.and_then(|l| l.split(',').find_map(|f| f.strip_prefix("usec=")));
            usec.and_then(|n| n.parse().ok()).unwrap_or(0.0)
        };
        Cost {
            scripts: script_us("evalsha") + script_us("eval"),
            all: (seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread")) * 1e6,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Redis's time, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// In scripts, what they call included.
    scripts: f64,
    /// Of the main thread in all: reading, parsing, answering and the AOF besides.
    all: f64,
}

impl Cost {
    /// The share of one of `count`.
    pub fn per(self, count: usize) -> Self {
        Self { scripts: self.scripts / count as f64, all: self.all / count as f64 }
    }

    /// The median of each part.
    pub fn median(rounds: Vec<Self>) -> Self {
        let middle = |part: fn(&Self) -> f64| {
            let mut parts: Vec<f64> = rounds.iter().map(part).collect();
            parts.sort_by(f64::total_cmp);
            parts[parts.len() / 2]
        };
        Self { scripts: middle(|c| c.scripts), all: middle(|c| c.all) }
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { scripts: self.scripts - before.scripts, all: self.all - before.all }
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, next: Self) -> Self {
        Self { scripts: self.scripts + next.scripts, all: self.all + next.all }
    }
}

impl Div for Cost {
    type Output = Self;

    fn div(self, floor: Self) -> Self {
        Self { scripts: self.scripts / floor.scripts, all: self.all / floor.all }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:5.2} / {:5.2}", self.scripts, self.all)
    }
}
