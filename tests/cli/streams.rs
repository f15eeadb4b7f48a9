//! Streams that end, fill up or were never open: no panic, and no silence where data was lost.

use std::process::{Command, Stdio};

use crate::rig::cli::{Cli, Ran, duewheel};
use crate::rig::redis::RedisServer;

/// A wheel with more than any pipe holds.
fn full() -> Cli {
    let cli = Cli::new(RedisServer::shared());
    let lines: String =
        (0..5000).map(|n| format!("{{\"id\":\"o-{n}\",\"in\":\"1h\",\"payload\":\"{n:0100}\"}}\n")).collect();
    cli.run_with(&["enqueue", "--file", "-"], lines.as_bytes()).ends(0);
    cli
}

/// Runs a shell line with the program as `$D`, in the shop's environment.
fn shell(cli: &Cli, line: &str) -> Ran {
    let program = cli.command(&[]);
    let mut command = Command::new("bash");
    command.env_clear().current_dir(cli.dir.path()).args(["-c", line]).env("D", program.get_program());
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    Ran::of(&mut command)
}

#[test]
fn a_reader_that_goes_away_ends_a_listing_quietly() {
    let cli = full();
    for line in [
        "\"$D\" list --all --json | head -1 >/dev/null; echo ${PIPESTATUS[0]}",
        "\"$D\" list --all | true; echo ${PIPESTATUS[0]}",
        "\"$D\" export | head -c 10 >/dev/null; echo ${PIPESTATUS[0]}",
        "\"$D\" --help | true; echo ${PIPESTATUS[0]}",
        "\"$D\" config --default | true; echo ${PIPESTATUS[0]}",
    ] {
        let ran = shell(&cli, line);
        assert_eq!((ran.stdout.trim(), ran.stderr.as_str()), ("0", ""), "{line}: {ran:?}");
    }
}

#[test]
fn a_full_or_closed_stdout_is_an_error_of_one_line() {
    let cli = full();
    for line in [
        "\"$D\" list --all >/dev/full",
        "\"$D\" config --default >/dev/full",
        "\"$D\" list >&-",
        "\"$D\" export >&-",
        "\"$D\" config >&-",
    ] {
        let ran = shell(&cli, line).ends(1);
        assert!(
            ran.stderr.starts_with("error: stdout: ") && ran.stderr.lines().count() == 1,
            "{line}: {ran:?}"
        );
    }
    let json = shell(&cli, "\"$D\" list --json >/dev/full").ends(1);
    assert!(json.stderr.starts_with("{\"error\":") && json.stderr.lines().count() == 1, "{json:?}");
    // What is done for its effect or its exit code does not need a reader.
    shell(&cli, "\"$D\" enqueue x --in 1h >/dev/null && \"$D\" inspect x >/dev/null 2>&1").ends(0);
    shell(&cli, "\"$D\" list >/dev/null").ends(0);
}

#[test]
fn nothing_is_coloured_unless_asked() {
    let cli = Cli::new(RedisServer::shared());
    let fails = |command: &mut Command| Ran::of(command).ends(78).stderr;
    let args = ["list", "--config", "none.toml"];
    assert!(!fails(cli.command(&args).env_remove("NO_COLOR")).contains('\u{1b}'));
    assert!(fails(cli.command(&args).arg("--color").arg("always")).contains('\u{1b}'));
    assert!(fails(cli.command(&args).env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1")).contains('\u{1b}'));
    assert!(!fails(cli.command(&args).env("CLICOLOR_FORCE", "1")).contains('\u{1b}'), "NO_COLOR is stronger");
}

#[test]
fn a_table_fits_the_width_it_is_given() {
    let cli = Cli::new(RedisServer::shared());
    let id = "x".repeat(150);
    cli.run(&["enqueue", &id, "--in", "1h"]).ends(0);
    let ran = Ran::of(cli.command(&["list"]).env("COLUMNS", "80")).ends(0);
    assert!(ran.stdout.lines().all(|l| l.chars().count() <= 80), "{}", ran.stdout);
    // Where nothing is known of a width, a row is a line.
    assert!(cli.run(&["list"]).stdout.contains(&id));
}

#[test]
fn an_interrupt_ends_a_watch_and_says_nothing() {
    let cli = Cli::new(RedisServer::shared());
    let mut command = cli.command(&["stats", "--watch", "100ms", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut reader, &mut first).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&first).is_ok(), "{first}");
    crate::rig::signal(child.id(), "INT");
    let ran = Ran::from(child.wait_with_output().unwrap()).ends(130);
    assert_eq!(ran.stderr, "");
    drop(duewheel());
}
