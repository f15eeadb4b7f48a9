//! What is deployed beside the program: alerts, boards, charts, units, images. Each is checked against the program and by its own linter.

#[path = "deploy/alerts.rs"]
mod alerts;
#[path = "deploy/board.rs"]
mod board;
#[path = "deploy/chart.rs"]
mod chart;
#[path = "deploy/image.rs"]
mod image;
#[path = "deploy/metric_list.rs"]
mod metric_list;
#[path = "deploy/supply.rs"]
mod supply;
#[path = "deploy/units.rs"]
mod units;

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A program that checks something; `None` where this machine has none, which scripts/test does not allow.
fn tool(name: &str) -> Option<PathBuf> {
    let found = crate::rig::on_path(name);
    if found.is_none() {
        assert!(std::env::var_os("DUEWHEEL_TEST_TOOLS").is_none(), "{name} is not installed");
        eprintln!("{name} is not installed: left out");
    }
    found
}

/// Runs a checker and answers what it said; fails the test where it is not content.
#[track_caller]
fn content(program: &Path, folder: &Path, args: &[&str]) -> String {
    let ran = Command::new(program).args(args).current_dir(folder).output().expect("it runs");
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{} {args:?}: {said}", program.display());
    said
}
