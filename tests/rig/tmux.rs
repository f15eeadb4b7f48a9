//! A real terminal: tmux on a socket of its own, typed into and read as a person would.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use super::eventually_blocking;

/// How long a screen may take to show something on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A terminal with a shell in it; gone when dropped.
pub struct Terminal {
    dir: tempfile::TempDir,
}

impl Terminal {
    /// Whether there is a tmux here. Where the tools are required, one that is missing fails the test.
    pub fn is_there() -> bool {
        let found = Command::new("tmux").arg("-V").output().is_ok();
        let required = std::env::var_os("DUEWHEEL_TEST_TOOLS").is_some();
        assert!(found || !required, "tmux is missing, and DUEWHEEL_TEST_TOOLS requires it");
        found
    }

    /// A terminal of that size, with an environment of its own.
    pub fn open(columns: u16, rows: u16, env: &[(&str, String)]) -> Self {
        let dir = tempfile::Builder::new().prefix("duewheel-tmux-").tempdir().expect("a temp dir");
        let terminal = Self { dir };
        let mut command = terminal.tmux();
        command.args(["-f", "/dev/null", "new-session", "-d", "-s", "test"]);
        command.args(["-x", &columns.to_string(), "-y", &rows.to_string()]);
        command.arg("-c").arg(terminal.dir.path());
        for (name, value) in env {
            command.args(["-e", &format!("{name}={value}")]);
        }
        let ran = command.arg("sh").output().expect("tmux runs");
        assert!(ran.status.success(), "{ran:?}");
        // What is copied by OSC 52 ends in tmux's own buffer.
        terminal.run(&["set-option", "-g", "set-clipboard", "on"]);
        terminal.line("PS1='ready> '; clear");
        terminal.shows("ready>");
        terminal
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("tmux.sock")
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").arg("-u").arg("-S").arg(self.socket());
        command
    }

    /// Runs a command of tmux.
    pub fn run(&self, args: &[&str]) -> Output {
        let ran = self.tmux().args(args).output().expect("tmux runs");
        assert!(ran.status.success(), "tmux {args:?}: {ran:?}");
        ran
    }

    /// Presses keys by their names: `Enter`, `Tab`, `C-c`, `r`.
    pub fn press(&self, keys: &[&str]) {
        self.run(&[&["send-keys", "-t", "test"], keys].concat());
    }

    /// Types text as it is.
    pub fn type_text(&self, text: &str) {
        self.run(&["send-keys", "-t", "test", "-l", "--", text]);
    }

    /// Types a line and Enter.
    pub fn line(&self, text: &str) {
        self.type_text(text);
        self.press(&["Enter"]);
    }

    /// What it shows.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.run(&["capture-pane", "-p", "-t", "test"]).stdout).into_owned()
    }

    /// Waits until it shows that.
    #[track_caller]
    pub fn shows(&self, text: &str) -> String {
        self.shows_when(&format!("{text:?}"), |screen| screen.contains(text))
    }

    /// Waits until what it shows is as wanted.
    #[track_caller]
    pub fn shows_when(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let began = std::time::Instant::now();
        eventually_blocking(PATIENCE * 2, || {
            let screen = self.screen();
            if wanted(&screen) {
                return Some(screen);
            }
            assert!(began.elapsed() < PATIENCE, "never showed {what}:\n{screen}");
            None
        })
    }

    /// The process that runs in it, below the shell.
    pub fn child(&self) -> u32 {
        let shell = self.run(&["display-message", "-p", "-t", "test", "#{pane_pid}"]).stdout;
        let shell = String::from_utf8_lossy(&shell).trim().to_owned();
        let children = format!("/proc/{shell}/task/{shell}/children");
        eventually_blocking(PATIENCE, || {
            std::fs::read_to_string(&children).ok()?.split_whitespace().next()?.parse().ok()
        })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").output();
    }
}
