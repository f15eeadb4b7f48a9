//! A person's browser: Chromium, driven by tests/browser/driver.mjs. Started once, because it takes seconds; every journey has a window,
//! cookies and a memory of its own.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::on_path;

/// The longest a journey may take; far above what one needs, so that a browser that hangs fails one test and not the whole run.
const LONGEST: Duration = Duration::from_secs(120);

/// The browser; it ends with the test binary, because its driver's stdin does.
pub struct Chromium {
    _driver: Child,
    stdin: Mutex<ChildStdin>,
    next: AtomicU64,
    waiting: Waiting,
}

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

impl Chromium {
    /// The browser of all tests; `None` where this machine has none, which scripts/test does not allow.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Chromium>> = OnceLock::new();
        SHARED.get_or_init(Self::start).as_ref()
    }

    fn start() -> Option<Self> {
        let programs = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];
        let program = programs.iter().find_map(|name| on_path(name));
        let tools = (program, on_path("node"), on_path("npm"));
        let (Some(program), Some(node), Some(_)) = tools else {
            let absent = "chromium, node or npm is not installed";
            assert!(std::env::var_os("DUEWHEEL_TEST_TOOLS").is_none(), "{absent}");
            eprintln!("{absent}: the page is not looked at");
            return None;
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let modules = modules(root);
        let mut driver = Command::new(node)
            .arg(root.join("tests/browser/driver.mjs"))
            .env("DUEWHEEL_BROWSER_MODULES", modules)
            .env("DUEWHEEL_CHROMIUM", program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node runs");
        let (stdin, stdout) = (driver.stdin.take().expect("a pipe"), driver.stdout.take().expect("a pipe"));
        let mut lines = BufReader::new(stdout);
        let mut first = String::new();
        lines.read_line(&mut first).expect("the driver speaks");
        assert!(first.contains("ready"), "the browser did not start: {first}");
        let waiting = Waiting::default();
        let heard = waiting.clone();
        std::thread::spawn(move || hear(lines, &heard));
        Some(Self { _driver: driver, stdin: Mutex::new(stdin), next: AtomicU64::new(1), waiting })
    }

    /// Goes on a journey of tests/browser/*.mjs as this visitor, and answers what it has seen. Fails the test where the page did anything
    /// that a page must never do.
    #[track_caller]
    pub fn journey(&self, name: &str, visitor: &Value, with: Value) -> impl Future<Output = Value> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (tell, told) = oneshot::channel();
        self.waiting.lock().unwrap().insert(number, tell);
        let mut line = json!({"number": number, "journey": name, "visitor": visitor});
        line.as_object_mut().unwrap().extend(with.as_object().cloned().unwrap_or_default());
        writeln!(self.stdin.lock().unwrap(), "{line}").expect("the driver listens");
        let name = name.to_owned();
        async move {
            let told = tokio::time::timeout(LONGEST, told).await;
            let told = told.unwrap_or_else(|_| panic!("{name}: no end within {LONGEST:?}"));
            let mut told = told.unwrap_or_else(|_| panic!("{name}: the driver has ended"));
            let problems = told["problems"].as_array().expect("problems");
            let problems: Vec<_> = problems.iter().filter_map(Value::as_str).collect();
            assert!(problems.is_empty(), "{name}:\n{}", problems.join("\n"));
            told["seen"].take()
        }
    }
}

/// Hands every answer to whom it is for; lets the others know when there will be no more.
fn hear(lines: BufReader<ChildStdout>, waiting: &Waiting) {
    for line in lines.lines().map_while(Result::ok) {
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let number = told["number"].as_u64().expect("a number");
        if let Some(tell) = waiting.lock().unwrap().remove(&number) {
            drop(tell.send(told));
        }
    }
    waiting.lock().unwrap().clear();
}

/// The folder with what npm installs, which happens once.
fn modules(root: &Path) -> PathBuf {
    let ran = Command::new(root.join("scripts/browser-modules")).output().expect("bash runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).trim().into()
}
