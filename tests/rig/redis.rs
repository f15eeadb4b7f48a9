//! A private Redis: its own folder, a unix socket and a free port of 127.0.0.1; killed and removed when dropped.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use redis::FromRedisValue;

use super::{PATIENCE, eventually_blocking, free_port, signal};

/// How a server keeps its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aof {
    /// In memory only: gone with the process.
    #[default]
    Off,
    /// `appendfsync everysec`.
    EverySec,
    /// `appendfsync always`.
    Always,
}

/// How a server is started.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    /// How it keeps its data.
    pub aof: Aof,
    /// Whether it is a node of a Redis Cluster.
    pub cluster: bool,
    /// More arguments, as redis-server takes them: `["--maxmemory", "8mb"]`.
    pub args: Vec<String>,
    /// The arguments that name its certificate and key; with them its port speaks TLS and nothing else.
    pub tls: Vec<String>,
    /// What its environment has besides.
    pub env: Vec<(String, String)>,
}

impl RedisOptions {
    /// The defaults with this AOF.
    pub fn aof(aof: Aof) -> Self {
        Self { aof, ..Self::default() }
    }

    /// The defaults with these arguments.
    pub fn args(args: &[&str]) -> Self {
        Self { args: args.iter().map(|a| (*a).to_owned()).collect(), ..Self::default() }
    }
}

/// A private Redis server. Everything blocks for a moment; none of it needs a runtime.
pub struct RedisServer {
    options: RedisOptions,
    dir: tempfile::TempDir,
    port: u16,
    bus_port: u16,
    process: Option<Process>,
    /// Whether an answer that it is still loading is enough to call it started.
    loads: bool,
}

/// The server's process, and the one that ends it should the test binary die without dropping anything.
struct Process {
    server: Child,
    watchdog: Child,
}

impl RedisServer {
    /// Starts a server and waits until it answers.
    pub fn start(options: RedisOptions) -> Self {
        let dir = tempfile::Builder::new().prefix("duewheel-redis-").tempdir().expect("a temp dir");
        let mut server = Self { options, dir, port: 0, bus_port: 0, process: None, loads: false };
        // Another process can take a free port between the look and the start; then the next one is tried.
        for _ in 0..10 {
            (server.port, server.bus_port) = (free_port(), free_port());
            if server.spawn() {
                return server;
            }
        }
        panic!("redis-server did not start:\n{}", server.log());
    }

    /// One server for all tests that only need *a* Redis: they take a wheel name of [`super::unique`] each and leave its settings alone.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<RedisServer> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(RedisOptions::default()))
    }

    fn spawn(&mut self) -> bool {
        let dir = self.dir.path();
        let log = std::fs::File::options().create(true).append(true).open(dir.join("log")).expect("a log");
        let (appendonly, fsync) = match self.options.aof {
            Aof::Off => ("no", "everysec"),
            Aof::EverySec => ("yes", "everysec"),
            Aof::Always => ("yes", "always"),
        };
        let mut command = Command::new(engine());
        command.current_dir(dir).stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
        command.arg("--dir").arg(dir).arg("--unixsocket").arg(self.socket());
        command.args(["--bind", "127.0.0.1", "--save", ""]);
        let port = self.port.to_string();
        match self.options.tls.as_slice() {
            [] => command.args(["--port", &port]),
            tls => command.args(["--port", "0", "--tls-port", &port]).args(tls),
        };
        command.args(["--appendonly", appendonly, "--appendfsync", fsync]);
        command.args(["--maxmemory-policy", "noeviction", "--enable-debug-command", "yes"]);
        if self.options.cluster {
            command.args(["--cluster-enabled", "yes", "--cluster-port", &self.bus_port.to_string()]);
            // A node of a loaded machine may be slow to answer; no test wants it declared failed.
            command.args(["--cluster-node-timeout", "60000"]);
        }
        let env = self.options.env.iter().map(|(name, value)| (name, value));
        let mut server = command.args(&self.options.args).envs(env).spawn().expect("redis-server starts");
        let answers = eventually_blocking(PATIENCE, || match server.try_wait() {
            Ok(Some(_)) => Some(false),
            _ => match self.try_command::<String>(&["PING"]) {
                Ok(_) => Some(true),
                Err(e) => (self.loads && e.code() == Some("LOADING")).then_some(true),
            },
        });
        if answers {
            let watchdog = watch(server.id(), dir);
            self.process = Some(Process { server, watchdog });
        }
        answers
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// `unix://…/redis.sock`: as fast as Redis can be reached.
    pub fn unix_url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The port on 127.0.0.1; the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of the cluster bus; nobody listens on it unless the server is a cluster node.
    pub fn bus_port(&self) -> u16 {
        self.bus_port
    }

    /// The server's process id.
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("the server runs").server.id()
    }

    /// The server's folder: AOF, log, socket.
    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }

    /// Ends the process at once, as a crash would. [`Self::restart`] brings it back.
    pub fn kill9(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.end();
        }
    }

    /// Starts the server again in the same folder and on the same port, with what the AOF kept; ends it first if it runs.
    pub fn restart(&mut self) {
        self.kill9();
        assert!(self.spawn(), "redis-server did not come back:\n{}", self.log());
    }

    /// [`Self::restart`] with more arguments, and without waiting until it has loaded its data.
    pub fn restart_slowly(&mut self, args: &[&str]) {
        self.kill9();
        self.options.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self.loads = true;
        assert!(self.spawn(), "redis-server did not come back:\n{}", self.log());
        self.loads = false;
    }

    /// Stops the process without closing anything (SIGSTOP): connections stay open and nothing answers.
    pub fn pause(&self) {
        signal(self.pid(), "STOP");
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        signal(self.pid(), "CONT");
    }

    /// Runs one command: `server.command::<String>(&["CONFIG", "SET", "maxmemory", "8mb"])`.
    pub fn command<T: FromRedisValue>(&self, args: &[&str]) -> T {
        self.try_command(args).unwrap_or_else(|e| panic!("{args:?}: {e}"))
    }

    /// Runs one command that may be refused.
    pub fn try_command<T: FromRedisValue>(&self, args: &[&str]) -> redis::RedisResult<T> {
        let client = redis::Client::open(self.unix_url())?;
        let mut connection = client.get_connection_with_timeout(Duration::from_secs(5))?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let (name, rest) = args.split_first().expect("a command");
        redis::cmd(name).arg(rest).query(&mut connection)
    }

    /// A number of `INFO`: `info("used_memory")`.
    pub fn info(&self, field: &str) -> String {
        let all: String = self.command(&["INFO", "everything"]);
        let line = all.lines().find_map(|l| l.strip_prefix(field)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("INFO has no {field}")).trim().to_owned()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill9();
    }
}

impl Process {
    fn end(&mut self) {
        // Kill and wait act on the child itself, so no other process can be meant; a server that is gone already is no surprise.
        self.server.kill().ok();
        self.server.wait().ok();
        if let Some(mut stdin) = self.watchdog.stdin.take() {
            stdin.write_all(b"done\n").ok();
        }
        self.watchdog.wait().ok();
    }
}

/// A shell that waits on a pipe to this process: a line means that all is well, its end that the test binary died.
pub(super) fn watch(pid: u32, dir: &std::path::Path) -> Child {
    let script = r#"read -r _ && exit 0; kill -9 "$1"; rm -rf -- "$2""#;
    Command::new("sh")
        .args(["-c", script, "watchdog", &pid.to_string()])
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("sh runs")
}

/// The binary: `DUEWHEEL_TEST_REDIS_BIN`, else `redis-server` or `valkey-server` on PATH.
pub fn engine() -> PathBuf {
    if let Some(given) = std::env::var_os("DUEWHEEL_TEST_REDIS_BIN") {
        return given.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = ["redis-server", "valkey-server"]
        .iter()
        .find_map(|name| folders.iter().map(|f| f.join(name)).find(|file| file.is_file()));
    found.expect(
        "redis-server or valkey-server on PATH (apt-get install redis-server), or DUEWHEEL_TEST_REDIS_BIN",
    )
}
