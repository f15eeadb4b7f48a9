//! What must not be taken: every refusal names the input, ends with its code, and stores nothing.

use std::os::unix::ffi::OsStrExt as _;

use crate::rig::cli::{Cli, Ran, duewheel};
use crate::rig::redis::RedisServer;
use crate::rig::{free_port, unique};

fn cli() -> Cli {
    Cli::new(RedisServer::shared())
}

#[test]
fn ids_are_taken_exactly_or_refused_never_trimmed() {
    let cli = cli();
    let long = "x".repeat(200);
    let good = [
        "123",
        "00123",
        "0",
        "1e3",
        "a:b",
        "a:b:c",
        ":",
        "::",
        "订单-2026-001",
        "commande-é",
        "🧾1",
        "a b",
        " a",
        "a ",
        "{order}",
        "a{b}c",
        "{}",
        "}{",
        "{",
        "x' OR '1'='1",
        "'; DROP TABLE orders;--",
        &long,
    ];
    for id in good {
        let object = cli.run(&["enqueue", id, "--in", "1h", "--json"]).ends(0).object();
        assert_eq!((&object["outcome"], object["id"].as_str()), (&"enqueued".into(), Some(id)));
        assert_eq!(cli.run(&["inspect", id, "--json"]).ends(0).object()["id"].as_str(), Some(id));
    }
    // A number with a sign looks like a flag: after `--` it is an id like any other.
    cli.run(&["enqueue", "--in", "1h", "--", "-1"]).ends(0);
    assert_eq!(cli.stat("scheduled"), good.len() as u64 + 1);
    let too_long = "x".repeat(201);
    for id in ["", too_long.as_str(), "a\nb", "a\u{1b}[2Jb", "a\u{7f}"] {
        let ran = cli.run(&["enqueue", id, "--in", "1h"]).ends(2);
        assert!(ran.stderr.contains("1 to 200 bytes"), "{ran:?}");
        assert!(!ran.stderr.contains('\u{1b}'), "{ran:?}");
    }
    let raw = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    let ran = Ran::of(cli.command(&["enqueue", "--in", "1h"]).arg(raw)).ends(2);
    assert!(ran.stderr.contains("UTF-8"), "{ran:?}");
    assert_eq!(cli.stat("scheduled"), good.len() as u64 + 1);
}

#[test]
fn a_time_that_is_missing_mistaken_or_too_far_is_refused_and_named() {
    let cli = cli();
    for (args, named) in [
        (&["enqueue", "X"][..], "--in"),
        (&["enqueue", "--in", "1m"], "ID"),
        (&["enqueue", "X", "--in", "1m", "--at", "2030-01-01T00:00:00Z"], "--at"),
        (&["enqueue", "X", "--in", "1m", "--in", "2m"], "--in"),
        (&["enqueue", "X", "--closeAt", "1m"], "--closeAt"),
        (&["reschedule", "X"], "--in"),
        (&["hold", "X"], "--for"),
        (&["close", "X"], "--reason"),
        (&["enqueue", "X", "--in", "37000d"], "36600 days"),
        (&["enqueue", "X", "--at", "3026-01-01T00:00:00Z"], "36600 days"),
        (&["enqueue", "X", "--at", "1772337600"], "seconds"),
        (&["enqueue", "X", "--at", "-1"], "-1"),
        (&["enqueue", "X", "--in", "-5m"], "-5m"),
        (&["enqueue", "X", "--in", "+5m"], "+5m"),
    ] {
        let ran = cli.run(args).ends(2);
        assert!(ran.stderr.contains(named), "{args:?}: {ran:?}");
        // One line for a person, one object for a program.
        assert_eq!(ran.stderr.lines().count(), 1, "{args:?}: {ran:?}");
        let ran = cli.run(&[args, &["--json"]].concat()).ends(2);
        let said: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
        assert!(said["error"]["message"].as_str().unwrap().contains(named), "{args:?}: {said}");
        assert_eq!(said["error"]["code"], "invalid", "{args:?}: {said}");
    }
    for at in [
        "tomorrow",
        "2026-02-30T10:00Z",
        "2026-10-25T02:30",
        "9223372036854775808",
        "1e30",
        "NaN",
        "inf",
        "0x10",
        "",
    ] {
        cli.run(&["enqueue", "X", "--at", at]).ends(2);
    }
    for window in [
        "90",
        "h",
        "m",
        "",
        "5 minutes ago",
        "30M",
        "1h90m",
        "99999999999h",
        "584554530873y",
        "9999999999y",
        "18446744073709551615s 1000000000ns",
        "5124095576030431h",
        "99999999999999999999s",
    ] {
        cli.run(&["enqueue", "X", "--in", window]).ends(2);
    }
    assert_eq!(cli.stat("scheduled") + cli.stat("ended"), 0);
}

#[test]
fn a_moment_that_has_passed_is_due_now_and_warned_of() {
    let cli = cli();
    for (n, at) in ["1970-01-01T00:00:00Z", "2016-11-29T00:00:00Z"].into_iter().enumerate() {
        let ran = cli.run(&["enqueue", &format!("o-{n}"), "--at", at]).ends(0);
        assert!(ran.stderr.contains("has passed: due now"), "{ran:?}");
    }
    for zero in ["0", "0s", "0ms"] {
        cli.run(&["enqueue", zero, "--in", zero]).ends(0);
    }
    assert_eq!(cli.stat("due"), 5);
    let exact = cli.run(&["enqueue", "up", "--at", "2026-03-01T04:00:00.0009Z", "--json"]).ends(0).object();
    assert_eq!(exact["due_at_ms"], 1_772_337_600_001_u64);
}

#[test]
fn far_windows_are_taken_and_do_not_fire() {
    let cli = cli();
    for window in ["25d", "50d", "100y"] {
        cli.run(&["enqueue", window, "--in", window]).ends(0);
    }
    assert_eq!((cli.stat("scheduled"), cli.stat("due")), (3, 0));
}

#[test]
fn a_payload_is_json_of_at_most_64_kib_read_without_reading_more() {
    let cli = cli();
    let limit = format!("\"{}\"", "x".repeat(65_534));
    cli.write("limit.json", &limit);
    cli.write("over.json", format!("{limit} "));
    for (n, payload) in ["{}", "[]", "{\"items\":[]}", "\"\"", "null", "@limit.json"].into_iter().enumerate()
    {
        cli.run(&["enqueue", &format!("o-{n}"), "--in", "1h", "--payload", payload]).ends(0);
    }
    cli.run_with(&["enqueue", "o-6", "--in", "1h", "--payload", "-"], b"{\"a\":1}\n").ends(0);
    for (payload, code) in [
        ("{", 2),
        ("nul", 2),
        ("{\"a\":1}{\"b\":2}", 2),
        ("", 65),
        ("@missing.json", 65),
        ("@.", 65),
        ("@over.json", 65),
        ("@/dev/zero", 65),
        ("-", 65),
    ] {
        let ran = cli.run(&["enqueue", "X", "--in", "1h", "--payload", payload]).ends(code);
        assert!(ran.stderr.contains("payload"), "{payload}: {ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
    let huge = vec![b' '; 8 * 1024 * 1024];
    cli.run_with(&["enqueue", "X", "--in", "1h", "--payload", "-"], &huge).ends(65);
    assert_eq!(cli.stat("scheduled"), 7);
}

#[test]
fn usage_errors_end_with_2_and_help_is_on_stderr() {
    for args in [
        &[][..],
        &["frobnicate"],
        &["list", "--frobnicate"],
        &["enqueu", "x"],
        &["list", "--state", "absent"],
    ] {
        let ran = Ran::of(duewheel().args(args)).ends(2);
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{ran:?}");
    }
    assert!(
        Ran::of(duewheel().args(["enqueu", "x"])).stderr.contains("enqueue"),
        "a typo is answered with the word"
    );
    // Neither Redis nor a configuration is needed to say what one is.
    let version = Ran::of(duewheel().arg("--version").env("REDIS_URL", "redis://127.0.0.1:1")).ends(0);
    assert_eq!(version.stdout, format!("duewheel {}\n", env!("CARGO_PKG_VERSION")));
    // No flag takes a secret, which every process could read.
    for flag in ["--redis-password", "--password", "--redis-url", "--secret"] {
        Ran::of(duewheel().args(["list", flag, "x"])).ends(2);
    }
    let set = Ran::of(duewheel().args(["list", "--set", "redis.url=redis://:hunter2@h"])).ends(78);
    assert!(!set.stderr.contains("hunter2") && set.stderr.contains("redis.url_file"), "{set:?}");
}

#[test]
fn a_redis_that_cannot_be_used_is_named_with_host_and_port_within_the_timeout() {
    let closed = free_port();
    let url = format!("redis://:hunter2@127.0.0.1:{closed}");
    let began = std::time::Instant::now();
    let ran = Ran::of(duewheel().args(["enqueue", "x", "--in", "1m"]).env("REDIS_URL", &url)).ends(69);
    assert!(
        ran.stderr.contains(&format!("127.0.0.1:{closed}")) && !ran.stderr.contains("hunter2"),
        "{ran:?}"
    );
    assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");

    let shared = RedisServer::shared().url();
    let ran =
        Ran::of(duewheel().args(["list"]).env("REDIS_URL", shared.replace("redis://", "redis://:hunter2@")));
    assert_eq!(ran.code, 77, "{ran:?}");
    assert!(!ran.stderr.contains("hunter2"), "{ran:?}");

    // Somebody who answers in another language, and somebody who never answers.
    for answer in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b""] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let mut held = Vec::new();
            listener.set_nonblocking(true).unwrap();
            let end = std::time::Instant::now() + std::time::Duration::from_secs(4);
            while std::time::Instant::now() < end {
                if let Ok((mut stream, _)) = listener.accept() {
                    let _ = std::io::Write::write_all(&mut stream, answer);
                    held.push(stream);
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
        let mut command = duewheel();
        command.args(["list", "--timeout", "500ms"]).env("REDIS_URL", format!("redis://127.0.0.1:{port}"));
        let ran = Ran::of(&mut command).ends(69);
        assert!(ran.stderr.contains(&port.to_string()), "{ran:?}");
        server.join().unwrap();
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(30));
}

#[test]
fn a_broken_configuration_ends_with_78_and_every_problem_on_its_own_line() {
    let cli = cli();
    cli.write(
        "duewheel.toml",
        "[wheel.orders]\nshards = 0\nslot_witdh = '1s'\n[wheel.orders.worker]\nlease = '0s'\n",
    );
    let mut command = cli.command(&["list"]);
    command.env_remove("DUEWHEEL_WHEEL");
    let ran = Ran::of(&mut command).ends(78);
    assert_eq!(ran.stderr.lines().count(), 3, "{ran:?}");
    assert!(ran.stderr.contains("did you mean slot_width?"), "{ran:?}");
    let json = Ran::of(command.arg("--json")).ends(78);
    let error: serde_json::Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!(error["error"]["code"], "config");
    let missing = cli.run(&["list", "--config", "none.toml"]).ends(78);
    assert!(missing.stderr.contains("none.toml: No such file"), "{missing:?}");
    let level = cli.run(&["list", "--log", "loud", "--config", "none.toml"]).ends(78);
    assert!(level.stderr.contains("none.toml"), "{level:?}");
}

#[test]
fn a_wheel_that_is_not_configured_is_answered_with_those_that_are() {
    let cli = cli();
    cli.write("duewheel.toml", "[wheel.orders]\n[wheel.flash]\n");
    let ran = Ran::of(cli.command(&["list"]).env("DUEWHEEL_WHEEL", "order")).ends(2);
    assert!(ran.stderr.contains("did you mean orders?"), "{ran:?}");
    let ran = Ran::of(cli.command(&["list"]).env_remove("DUEWHEEL_WHEEL")).ends(2);
    assert!(ran.stderr.contains("flash, orders"), "{ran:?}");
}

#[test]
fn text_of_others_shows_escapes_on_a_terminal_not_effects() {
    let cli = cli();
    let reorder = format!("a\u{202e}{}", unique("b"));
    cli.run(&["enqueue", &reorder, "--in", "1h", "--payload", "\"\\u001b[2J\u{9b}31m\""]).ends(0);
    for args in [
        &["list"][..],
        &["list", "--json"],
        &["inspect", &reorder],
        &["inspect", &reorder, "--json"],
        &["export"],
    ] {
        let ran = cli.run(args).ends(0);
        let bad = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!ran.stdout.contains(bad), "{args:?}: {ran:?}");
    }
    let kept = cli.run(&["inspect", &reorder, "--json"]).object();
    assert_eq!(
        (kept["id"].as_str(), kept["payload"].as_str()),
        (Some(reorder.as_str()), Some("\u{1b}[2J\u{9b}31m"))
    );
}

#[test]
fn a_database_that_redis_does_not_have_is_a_mistake_in_the_configuration() {
    let server = RedisServer::shared();
    let cli = cli();
    cli.write("worker.toml", format!("[wheel.{}.hook]\nkind = \"log\"\n", cli.wheel));
    let worker = ["worker", "--config", "worker.toml"];
    for args in [&["stats"][..], &["enqueue", "x", "--in", "1m"], &["check"], &worker] {
        let ran = Ran::of(cli.command(args).env("REDIS_URL", format!("{}/99", server.url())));
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            said.contains("redis.url: names a database that this server does not have"),
            "{args:?}: {ran:?}"
        );
        assert_eq!(ran.code, 78, "{args:?}: {ran:?}");
    }
}
