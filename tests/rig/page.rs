//! `duewheel serve` as a process of its own, with a token that may operate and one that may only read.

use std::process::{Child, Command, Stdio};

use duewheel::http::Scope;
use serde_json::{Value, json};

use super::api::token;
use super::{PATIENCE, eventually_blocking, signal};

/// A served page; ended when dropped.
pub struct Page {
    child: Child,
    /// `http://127.0.0.1:PORT`.
    pub base: String,
    /// A token with every scope.
    pub operator: String,
    /// A token that only reads.
    pub reader: String,
    dir: tempfile::TempDir,
}

impl Page {
    /// Serves what this command is configured for.
    pub fn serve(mut command: Command) -> Self {
        let dir = tempfile::Builder::new().prefix("duewheel-page-").tempdir().expect("a temp dir");
        let (operator, operator_line) = token("anna", &[Scope::Read, Scope::Enqueue, Scope::Operate]);
        let (reader, reader_line) = token("rita", &[Scope::Read]);
        let tokens = dir.path().join("tokens");
        std::fs::write(&tokens, format!("{operator_line}\n{reader_line}\n")).expect("a file");
        std::fs::set_permissions(&tokens, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("a mode");
        let log = std::fs::File::create(dir.path().join("log")).expect("a file");
        command.args(["serve", "--listen", "127.0.0.1:0"]).env("DUEWHEEL_HTTP__TOKENS_FILE", &tokens);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("it starts");
        let mut page = Self { child, base: String::new(), operator, reader, dir };
        let line = eventually_blocking(PATIENCE, || {
            page.log().lines().find(|line| line.contains("listening")).map(str::to_owned)
        });
        let address =
            line.split("address=").nth(1).and_then(|rest| rest.split(' ').next()).expect("an address");
        page.base = format!("http://{address}");
        page
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// A person with the token that may do everything, at a desk.
    pub fn anna(&self) -> Value {
        json!({"base": self.base, "token": self.operator})
    }

    /// A person who may only look.
    pub fn rita(&self) -> Value {
        json!({"base": self.base, "token": self.reader})
    }

    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!("the page's server:\n{}", self.log());
        }
    }
}
