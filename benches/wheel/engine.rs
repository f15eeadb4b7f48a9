//! A private Redis for a benchmark, and what it has spent.

use std::fmt;
use std::ops::Sub;
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
            script_us: script_us("evalsha") + script_us("eval"),
            cpu_us: (seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread")) * 1e6,
            deadlines: 0,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// Redis's time, and for how many deadlines.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cost {
    script_us: f64,
    cpu_us: f64,
    deadlines: u64,
}

impl Cost {
    pub fn add(&mut self, spent: Self, deadlines: u64) {
        self.script_us += spent.script_us;
        self.cpu_us += spent.cpu_us;
        self.deadlines += deadlines;
    }

    pub fn is_known(&self) -> bool {
        self.deadlines > 0
    }

    /// One deadline's cost of this step and another, one after the other.
    pub fn and(self, next: Self) -> Self {
        let per = |cost: Self| (cost.script_us / cost.deadlines as f64, cost.cpu_us / cost.deadlines as f64);
        let ((script_a, cpu_a), (script_b, cpu_b)) = (per(self), per(next));
        Self { script_us: script_a + script_b, cpu_us: cpu_a + cpu_b, deadlines: 1 }
    }

    /// How much more this is than `floor`, as text.
    pub fn times(self, floor: Self) -> String {
        let ratio = |ours: f64, raw: f64| (ours / self.deadlines as f64) / (raw / floor.deadlines as f64);
        let (scripts, all) = (ratio(self.script_us, floor.script_us), ratio(self.cpu_us, floor.cpu_us));
        format!("{scripts:.2} x the scripts, {all:.2} x all")
    }
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { script_us: self.script_us - before.script_us, cpu_us: self.cpu_us - before.cpu_us, ..self }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deadlines = self.deadlines as f64;
        write!(f, "{:.2} us scripts / {:.2} us all", self.script_us / deadlines, self.cpu_us / deadlines)
    }
}
