//! A database server of a test's own, to be killed and started again.

use std::path::Path;
use std::process::{Child, Command};

use super::redis::watch;
use super::shop::Kind;
use super::{PATIENCE, eventually_blocking, signal};

/// A server in a folder of its own; killed and removed when dropped.
pub struct DatabaseServer {
    kind: Kind,
    watchdog: Option<Child>,
    dir: tempfile::TempDir,
}

impl DatabaseServer {
    pub fn start(kind: Kind) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::Builder::new().prefix("duewheel-db-").tempdir().expect("a temp dir");
        // PostgreSQL runs as a user of its own, where the tests run as root.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).expect("a mode");
        let mut server = Self { kind, watchdog: None, dir };
        server.spawn();
        server
    }

    fn word(&self) -> &'static str {
        if self.kind == Kind::Postgres { "postgres" } else { "mariadb" }
    }

    fn spawn(&mut self) {
        let services = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/services");
        let log = std::fs::File::create(self.dir.path().join("services.log")).expect("a log");
        let mut command = Command::new(services);
        command.arg("start").arg(self.dir.path()).arg(self.word()).stdin(std::process::Stdio::null());
        // Not a pipe: the server keeps it open.
        command.stdout(log.try_clone().expect("a log")).stderr(log);
        let started = command.status().expect("scripts/services runs").success();
        let said = std::fs::read_to_string(self.dir.path().join("services.log")).unwrap_or_default();
        assert!(started, "{said}");
        self.watchdog = Some(watch(self.pid(), self.dir.path()));
    }

    fn pid_file(&self) -> &'static str {
        if self.kind == Kind::Postgres { "postgres/postmaster.pid" } else { "mariadb.pid" }
    }

    fn pid(&self) -> u32 {
        let text = std::fs::read_to_string(self.dir.path().join(self.pid_file())).expect("a pid file");
        text.lines().next().expect("a line").trim().parse().expect("a pid")
    }

    /// Its own URL, with another port after each start.
    pub fn url(&self) -> url::Url {
        let file = self.dir.path().join(format!("{}.url", self.word()));
        std::fs::read_to_string(file).expect("a url").trim().parse().expect("a url")
    }

    /// Its port of 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.url().port().expect("a port")
    }

    /// Ends it as a crash would, with every session; what was committed is in its log.
    pub fn crash(&mut self) {
        let pid = self.pid();
        // PostgreSQL's parts are processes of their own: told by SIGQUIT they go at once, without a word to the disk.
        signal(pid, if self.kind == Kind::Postgres { "QUIT" } else { "KILL" });
        let stat = format!("/proc/{pid}/stat");
        eventually_blocking(PATIENCE, || match std::fs::read_to_string(&stat) {
            // Ended, and nobody has asked how.
            Ok(stat) => stat.rsplit_once(") ")?.1.starts_with('Z').then_some(()),
            Err(_) => Some(()),
        });
        std::fs::remove_file(self.dir.path().join(self.pid_file())).ok();
        if let Some(mut watchdog) = self.watchdog.take() {
            use std::io::Write as _;
            if let Some(mut stdin) = watchdog.stdin.take() {
                stdin.write_all(b"done\n").ok();
            }
            watchdog.wait().ok();
        }
    }

    /// Starts it again with what its log has kept.
    pub fn restart(&mut self) {
        self.spawn();
    }
}

impl Drop for DatabaseServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The watchdog ends it.
            let log = std::fs::read_to_string(self.dir.path().join(format!("{}.log", self.word())));
            eprintln!("{}:\n{}", self.word(), log.unwrap_or_default());
        } else if self.watchdog.is_some() {
            self.crash();
        }
    }
}
