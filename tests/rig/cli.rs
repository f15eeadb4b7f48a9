//! The program itself, run as a person would: an environment of its own, a folder of its own, a wheel of its own.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::redis::RedisServer;

/// The program, cleared of this process's environment.
pub fn duewheel() -> Command {
    build(Path::new(env!("CARGO_BIN_EXE_duewheel")))
}

/// Another build of the program, in the same way.
pub fn build(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("USER", "tester").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// One shop's command line: a Redis and a wheel.
pub struct Cli {
    redis: String,
    pub wheel: String,
    pub dir: tempfile::TempDir,
}

impl Cli {
    /// On that server, with a wheel of its own name.
    pub fn new(server: &RedisServer) -> Self {
        let wheel = super::unique("cli");
        let dir = tempfile::Builder::new().prefix("duewheel-cli-").tempdir().expect("a temp dir");
        Self { redis: server.url(), wheel, dir }
    }

    /// The program with these arguments, ready to be changed and run.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = duewheel();
        command.current_dir(self.dir.path()).env("REDIS_URL", &self.redis).env("DUEWHEEL_WHEEL", &self.wheel);
        // Far above what an idle machine needs, so that a loaded one does not fail a promise that says nothing about time.
        command.env("DUEWHEEL_REDIS__RESPONSE_TIMEOUT", "20s").env("DUEWHEEL_REDIS__CONNECT_TIMEOUT", "20s");
        command.args(args);
        command
    }

    /// Runs it.
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.command(args))
    }

    /// Runs it with this on stdin.
    pub fn run_with(&self, args: &[&str], stdin: &[u8]) -> Ran {
        use std::io::Write as _;
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        // A program that refuses early closes its end; that is its own business.
        let _ = child.stdin.take().expect("a pipe").write_all(stdin);
        Ran::from(child.wait_with_output().expect("the program ends"))
    }

    /// Writes a file into its folder.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
    }

    /// What the wheel holds, by the program's own numbers.
    pub fn stat(&self, name: &str) -> u64 {
        let stats = self.run(&["stats", "--json"]);
        stats.object()[name].as_u64().unwrap_or_else(|| panic!("no {name}: {stats:?}"))
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; 128 and the signal where one ended it.
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let ran = Self { code, stdout: text(output.stdout), stderr: text(output.stderr) };
        assert!(!ran.stderr.contains("panicked"), "{ran:?}");
        ran
    }
}

impl Ran {
    /// Runs a command.
    pub fn of(command: &mut Command) -> Self {
        Self::from(command.output().expect("the program runs"))
    }

    /// The one JSON object on stdout.
    pub fn object(&self) -> serde_json::Value {
        serde_json::from_str(self.stdout.trim()).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// The JSON objects on stdout, one a line.
    pub fn objects(&self) -> Vec<serde_json::Value> {
        self.stdout.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect()
    }

    /// Must have ended with this code; returns itself.
    #[track_caller]
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// Text without what differs from run to run: moments, generations, the folder, the wheel's number.
pub fn steady(text: &str, dir: &Path, wheel: &str) -> String {
    let text = text.replace(&dir.display().to_string(), "DIR").replace(wheel, "WHEEL");
    let mut out = String::new();
    for word in text.split_inclusive([' ', '\n', ',', ')']) {
        let bare = word.trim_end_matches([' ', '\n', ',', ')']);
        let moment = bare.len() == 24 && bare.ends_with('Z') && bare.contains('T');
        let generation = bare.len() == 16 && bare.bytes().all(|b| b.is_ascii_digit());
        if moment {
            out.push_str("MOMENT");
            out.push_str(&word[bare.len()..]);
        } else if generation {
            out.push_str("GENERATION");
            out.push_str(&word[bare.len()..]);
        } else {
            out.push_str(word);
        }
    }
    out
}
