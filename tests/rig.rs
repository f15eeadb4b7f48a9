//! What the promises stand on: real servers on private ports and folders, and one way to wait.

#![allow(dead_code, reason = "the rig offers more than one promise area needs")]

#[cfg(all(feature = "http", feature = "webhook"))]
pub mod api;
#[cfg(feature = "webhook")]
pub mod authority;
#[cfg(feature = "page")]
pub mod chromium;
pub mod cli;
pub mod clock_shim;
pub mod cluster;
pub mod commands;
pub mod crew;
#[cfg(feature = "sql")]
pub mod database;
pub mod hook;
#[cfg(feature = "sql")]
pub mod mariadb;
#[cfg(feature = "page")]
pub mod page;
#[cfg(feature = "sql")]
pub mod postgres;
pub mod proxy;
pub mod redis;
mod resp;
pub mod scene;
#[cfg(feature = "sql")]
pub mod sentinels;
#[cfg(feature = "sql")]
pub mod shop;
pub mod strain;
pub mod stub;
pub mod tmux;
pub mod wheel;
#[cfg(feature = "sql")]
pub mod wire;
pub mod worker;

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a test waits for something that has no time limit of its own. Far above what an idle machine needs, so that a loaded one
/// does not fail a promise that says nothing about time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `look` answers something, asking every few milliseconds; fails the test when `timeout` passes first.
pub async fn eventually<T, F, Fut>(timeout: Duration, mut look: F) -> T
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let began = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(began.elapsed() < timeout, "not seen within {timeout:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// [`eventually`] for a test without a runtime.
#[track_caller]
pub fn eventually_blocking<T>(timeout: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(began.elapsed() < timeout, "not seen within {timeout:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the long forms are asked for, with the strict limits of a quiet machine.
pub fn is_long() -> bool {
    std::env::var_os("DUEWHEEL_TEST_LONG").is_some()
}

/// A name that no other test of this run uses, so that tests may share one server: `orders` -> `orders-7`.
pub fn unique(stem: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("{stem}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Sends a signal (`KILL`, `STOP`, `CONT`, `TERM`, `HUP`) to one process.
pub fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.expect("kill(1) runs").success(), "could not send SIG{name} to {pid}");
}

/// A port of 127.0.0.1 that nobody listens on at this moment.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// A program of this machine, also one that Debian keeps for root; `None` where there is none.
pub fn on_path(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Runs the test `name` once more in a process of its own, for what belongs to a whole process: its memory, its environment. `false`
/// in the calling process, where the other one has passed by then; `true` in the other one.
pub fn own_process(name: &str, environment: impl FnOnce() -> Vec<(&'static str, String)>) -> bool {
    const MARK: &str = "DUEWHEEL_TEST_OWN_PROCESS";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let own = std::env::current_exe().expect("the test binary");
    let ended = std::process::Command::new(own)
        .args(["--exact", name, "--nocapture"])
        .envs(environment())
        .env(MARK, "1")
        .output()
        .expect("the test binary runs");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(said.contains("1 passed"), "{name}: {said}{}", String::from_utf8_lossy(&ended.stderr));
    false
}

/// The memory of this process that is in RAM, in bytes.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("kB") * 1024
}
