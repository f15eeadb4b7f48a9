//! Many deadlines from a file: every broken line is named, every other one is stored, and a run that was cut off is gone on with.

use std::fmt::Write as _;

use crate::rig::cli::Cli;
use crate::rig::redis::{RedisOptions, RedisServer};

fn cli() -> Cli {
    Cli::new(RedisServer::shared())
}

#[test]
fn broken_lines_are_named_with_their_number_and_the_others_are_stored() {
    let cli = cli();
    let mut text = "\u{feff}{\"id\":\"a\",\"in\":\"1h\"}\r\n\n".to_owned();
    text.push_str("{\"id\":\"b\",\"closeAt\":\"2030-01-01T00:00:00Z\"}\n");
    text.push_str("{\"id\":\"b\"}\n");
    text.push_str("{\"id\":\"c\",\"due_at\":\"2030-01-01T00:00:00Z\",\"payload\":{\"n\":1}}\n");
    text.push_str("{\"id\":\"d\",\"due_at\":1893456000000,\"due_at\":\"2030-01-01T00:00:00Z\"}\n");
    text.push_str("not json\n");
    text.push_str("{\"id\":\"e\",\"in\":\"37000d\"}\n");
    text.push_str("{\"id\":\"c\",\"due_at\":1893456000000}\n");
    text.push_str("{\"id\":\"f\",\"in\":\"1h\"}");
    cli.write("orders.ndjson", &text);
    let ran = cli.run(&["enqueue", "--file", "orders.ndjson", "--json"]).ends(4);
    let object = ran.object();
    assert_eq!(object["outcomes"], serde_json::json!({"enqueued": 3, "exists": 1}), "{ran:?}");
    assert_eq!((object["rejected"].as_u64(), object["next_line"].as_u64()), (Some(5), Some(11)));
    for named in [
        "orders.ndjson:3: unknown field `closeAt`",
        "orders.ndjson:4: holds no time",
        "orders.ndjson:6: duplicate field `due_at`",
        "orders.ndjson:7: expected",
        "orders.ndjson:8: due_at: expected at most 36600 days ahead",
    ] {
        assert!(ran.stderr.contains(named), "{named}: {ran:?}");
    }
    assert_eq!(cli.stat("scheduled"), 3);
    // Again: nothing new, nothing moved.
    let again = cli.run(&["enqueue", "--file", "orders.ndjson", "--json"]).ends(4).object();
    assert_eq!(again["outcomes"]["exists"], 2, "{again}");
}

#[test]
fn ten_thousand_lines_with_a_broken_one_and_a_huge_one() {
    let cli = cli();
    let mut text = String::new();
    for n in 1..=10_000 {
        match n {
            5000 => text.push_str("{\"id\":\n"),
            6000 => writeln!(text, "{{\"id\":\"{}\",\"in\":\"1h\"}}", "x".repeat(3_000_000)).unwrap(),
            _ => writeln!(text, "{{\"id\":\"o-{n}\",\"in\":\"1h\"}}").unwrap(),
        }
    }
    let ran = cli.run_with(&["enqueue", "--file", "-", "--json"], text.as_bytes()).ends(4);
    assert_eq!(ran.object()["outcomes"]["enqueued"], 9998);
    assert!(ran.stderr.contains("-:5000: EOF") && ran.stderr.contains("-:6000: is longer than"), "{ran:?}");
    assert_eq!(cli.stat("scheduled"), 9998);
}

#[test]
fn a_file_that_cannot_be_read_stores_nothing() {
    let cli = cli();
    for file in ["missing.ndjson", "."] {
        let ran = cli.run(&["enqueue", "--file", file]).ends(65);
        assert!(ran.stderr.contains(file), "{ran:?}");
    }
    let all_bad = cli.run_with(&["enqueue", "--file", "-"], b"x\ny\n").ends(65);
    assert!(all_bad.stderr.contains("-:1:") && all_bad.stderr.contains("-:2:"), "{all_bad:?}");
    assert_eq!(cli.run_with(&["enqueue", "--file", "-", "--json"], b"").ends(0).object()["rejected"], 0);
    cli.run(&["enqueue", "--file", "x", "--in", "1h"]).ends(2);
    cli.run(&["enqueue", "id", "--file", "x"]).ends(2);
    assert_eq!(cli.stat("scheduled"), 0);
}

#[test]
fn a_run_that_met_a_full_redis_says_where_to_go_on() {
    let server = RedisServer::start(RedisOptions::args(&["--maxmemory", "12mb"]));
    let cli = Cli::new(&server);
    let mut text = String::new();
    let payload = "x".repeat(1000);
    for n in 1..=20_000 {
        writeln!(text, "{{\"id\":\"o-{n}\",\"due_at\":1893456000000,\"payload\":\"{payload}\"}}").unwrap();
    }
    cli.write("orders.ndjson", &text);
    let ran = cli.run(&["enqueue", "--file", "orders.ndjson", "--json"]).ends(69);
    let summary = ran.object();
    let next = summary["next_line"].as_u64().unwrap();
    assert!(next > 1 && next <= 20_000, "{summary}");
    let error: serde_json::Value = serde_json::from_str(ran.stderr.lines().last().unwrap()).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.ends_with(&format!("go on with --from-line {next}")), "{message}");
    server.command::<String>(&["CONFIG", "SET", "maxmemory", "0"]);
    let args = ["enqueue", "--file", "orders.ndjson", "--json", "--from-line", &next.to_string()];
    let rest = cli.run(&args).ends(0).object();
    assert_eq!(rest["next_line"], 20_001);
    assert_eq!(cli.stat("scheduled"), 20_000);
}

#[test]
fn an_interrupted_run_says_where_to_go_on_and_what_it_stored() {
    use std::io::Write as _;
    use std::process::Stdio;
    let cli = cli();
    let mut command = cli.command(&["enqueue", "--file", "-", "--json"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for n in 1..=4100 {
        writeln!(stdin, "{{\"id\":\"o-{n}\",\"in\":\"1h\"}}").unwrap();
    }
    stdin.flush().unwrap();
    crate::rig::eventually_blocking(crate::rig::PATIENCE, || (cli.stat("scheduled") == 4000).then_some(()));
    crate::rig::signal(child.id(), "INT");
    let ran = crate::rig::cli::Ran::from(child.wait_with_output().unwrap()).ends(130);
    drop(stdin);
    assert_eq!(ran.object()["next_line"], 4001, "{ran:?}");
    assert!(ran.stderr.contains("--from-line 4001"), "{ran:?}");
}
