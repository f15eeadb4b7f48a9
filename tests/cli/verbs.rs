//! Every verb, as a person and as a machine see it.

use serde_json::json;

use crate::rig::cli::{Cli, steady};
use crate::rig::redis::RedisServer;

fn cli() -> Cli {
    Cli::new(RedisServer::shared())
}

#[test]
fn a_deadline_is_placed_moved_held_released_and_cancelled() {
    let cli = cli();
    let now_ms = || {
        let (seconds, micros): (u64, u64) = RedisServer::shared().command(&["TIME"]);
        seconds * 1000 + micros / 1000
    };
    // DW-083: `m` is a minute, and the reply says the moment; `M` is refused (tests/cli/inputs.rs).
    let before = now_ms();
    let placed = cli.run(&["enqueue", "o-1", "--in", "30m", "--json"]).ends(0).object();
    let half_an_hour_on = before + 1_800_000..=now_ms() + 1_800_000;
    assert_eq!((&placed["outcome"], &placed["id"]), (&json!("enqueued"), &json!("o-1")));
    let due = placed["due_at_ms"].as_u64().unwrap();
    assert!(half_an_hour_on.contains(&due), "by Redis's clock: {due}, expected {half_an_hour_on:?}");

    let again = cli.run(&["enqueue", "o-1", "--at", &due.to_string(), "--json"]).ends(0).object();
    assert_eq!(again["outcome"], "exists");
    assert_eq!(again["generation"], placed["generation"]);

    let other = cli.run(&["enqueue", "o-1", "--in", "2h", "--json"]).ends(6).object();
    assert_eq!((&other["outcome"], &other["due_at_ms"]), (&json!("conflict"), &json!(due)));
    cli.run(&["enqueue", "o-1", "--in", "1h", "--on-conflict", "earlier"]).ends(6);
    assert_eq!(
        cli.run(&["enqueue", "o-1", "--in", "2h", "--on-conflict", "later", "--json"]).ends(0).object()["outcome"],
        "replaced"
    );

    let moved = cli.run(&["reschedule", "o-1", "--in", "10m", "--json"]).ends(0).object();
    let generation = moved["generation"].as_u64().unwrap();
    let stale = cli.run(&["reschedule", "o-1", "--in", "1h", "--generation", "7", "--json"]).ends(6).object();
    assert_eq!((&stale["outcome"], &stale["generation"]), (&json!("generation"), &json!(generation)));
    cli.run(&["reschedule", "o-1", "--in", "11m", "--generation", &generation.to_string()]).ends(0);

    let held = cli.run(&["hold", "o-1", "--for", "20m", "--json"]).ends(0).object();
    assert!(held["next_at_ms"].as_u64() > held["due_at_ms"].as_u64());
    assert!(cli.run(&["inspect", "o-1"]).ends(0).stdout.contains("held while a payment is in progress"));
    let free = cli.run(&["release", "o-1", "--json"]).ends(0).object();
    assert_eq!(free["next_at_ms"], free["due_at_ms"]);
    assert_eq!(cli.run(&["release", "o-1", "--json"]).ends(6).object()["outcome"], "not_held");
    assert_eq!(cli.run(&["hold", "o-1", "--for", "3h", "--json"]).ends(6).object()["outcome"], "hold_cap");

    assert_eq!(cli.run(&["cancel", "o-1", "--json"]).ends(0).object()["outcome"], "cancelled");
    assert_eq!(cli.run(&["cancel", "o-1", "--json"]).ends(0).object()["outcome"], "already_cancelled");
    let ended = cli.run(&["enqueue", "o-1", "--in", "1m", "--json"]).ends(6).object();
    assert_eq!((&ended["outcome"], &ended["ended"]["outcome"]), (&json!("ended"), &json!("cancelled")));
    assert_eq!(
        cli.run(&["enqueue", "o-1", "--in", "1m", "--force", "--json"]).ends(0).object()["outcome"],
        "resurrected"
    );
    let history = cli.run(&["inspect", "o-1", "--json"]).ends(0).object()["history"].clone();
    let told: Vec<_> = history.as_array().unwrap().iter().map(|e| e["what"].as_str().unwrap()).collect();
    assert_eq!(told, ["cancelled", "resurrected"]);
    assert!(cli.run(&["inspect", "o-1"]).stdout.contains("resurrected ("));
}

#[test]
fn every_verb_on_an_unknown_id_says_so_and_ends_with_5() {
    let cli = cli();
    for args in [
        &["inspect", "none"][..],
        &["reschedule", "none", "--in", "1m"],
        &["hold", "none", "--for", "1m"],
        &["release", "none"],
        &["close", "none", "--reason", "x"],
        &["dead", "revive", "none"],
    ] {
        let ran = cli.run(args).ends(5);
        assert!(ran.stdout.contains("nothing is known of it"), "{ran:?}");
    }
    assert_eq!(cli.run(&["cancel", "early", "--json"]).ends(5).object()["outcome"], "absent");
    // The cancellation is remembered: the create event that comes late does not bring the order back.
    assert_eq!(cli.run(&["enqueue", "early", "--in", "1m", "--json"]).ends(6).object()["outcome"], "ended");
}

#[test]
fn several_ids_of_one_cancel_are_answered_one_by_one() {
    let cli = cli();
    cli.run(&["enqueue", "a", "--in", "1m"]).ends(0);
    let ran = cli.run(&["cancel", "--json", "a", "b"]).ends(4);
    let outcomes: Vec<_> = ran.objects().iter().map(|o| o["outcome"].clone()).collect();
    assert_eq!(outcomes, ["cancelled", "absent"]);
}

#[test]
fn inspect_shows_the_payload_byte_for_byte() {
    let cli = cli();
    let payload = r#"{"order_id":9007199254740993,"amount":0.10,"x":1e400, "a":1,"a":2,"items":[]}"#;
    cli.run(&["enqueue", "o", "--in", "1m", "--payload", payload]).ends(0);
    let json = cli.run(&["inspect", "o", "--json"]).ends(0).stdout;
    assert!(json.contains(&format!("\"payload\":{payload}")), "{json}");
    assert!(cli.run(&["inspect", "o"]).stdout.contains(payload));
    let row = cli.run(&["list", "--json"]).ends(0).stdout;
    assert!(row.contains(payload), "{row}");
}

#[test]
fn a_listing_is_paged_in_order_of_time_and_narrowed_by_it() {
    let cli = cli();
    for n in (1..=7).rev() {
        cli.run(&["enqueue", &format!("o-{n}"), "--in", &format!("{n}h")]).ends(0);
    }
    let ids = |args: &[&str]| -> Vec<String> {
        let ran = cli.run(args).ends(0);
        ran.objects().iter().map(|o| o["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&["list", "--json", "--all"]).len(), 7);
    let first = cli.run(&["list", "--json", "--limit", "3"]).ends(0);
    assert_eq!(first.objects().len(), 3);
    let cursor = first.stderr.split("--cursor ").nth(1).unwrap().split(',').next().unwrap();
    assert_eq!(ids(&["list", "--json", "--limit", "3", "--cursor", cursor]), ["o-4", "o-5", "o-6"]);
    let from =
        cli.run(&["inspect", "o-6", "--json"]).object()["deadline"]["due_at"].as_str().unwrap().to_owned();
    assert_eq!(ids(&["list", "--json", "--from", &from]), ["o-6", "o-7"]);
    assert_eq!(ids(&["list", "--json", "--to", &from]).len(), 6);
    assert!(ids(&["list", "--json", "--state", "due"]).is_empty());
    cli.run(&["list", "--cursor", "nonsense"]).ends(2);
    let forecast = cli.run(&["forecast", "--step", "1h", "--count", "24", "--json"]).ends(0).objects();
    assert_eq!(forecast.iter().map(|o| o["count"].as_u64().unwrap()).sum::<u64>(), 7);
}

#[test]
fn the_tables_look_like_this() {
    let cli = cli();
    cli.run(&["enqueue", "o-1", "--in", "10d"]).ends(0);
    cli.run(&["enqueue", "o-2", "--in", "20d"]).ends(0);
    cli.run(&["hold", "o-1", "--for", "1m"]).ends(0);
    cli.run(&["cancel", "o-3"]).ends(5);
    let mut shown = String::new();
    for args in [
        &["list"][..],
        &["list", "--state", "ended"],
        &["stats"],
        &["dead", "list"],
        &["inspect", "o-2"],
        &["verify"],
        &["pause", "--reason", "drill", "--actor", "anna"],
        &["resume"],
    ] {
        let ran = cli.run(args).ends(0);
        shown.push_str(&format!("$ duewheel {}\n{}{}\n", args.join(" "), ran.stdout, ran.stderr));
    }
    let shown = steady(&shown, cli.dir.path(), &cli.wheel);
    let differs = |line: &str| ["generation", "slot"].iter().any(|name| line.starts_with(name));
    let lines = shown.lines().filter(|line| !differs(line)).map(without_distances);
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
}

/// `in 9d 23h 59m` and `12ms ago` as DISTANCE, and columns two spaces apart, because both differ by the moment a test takes.
fn without_distances(line: &str) -> String {
    let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(|cell| {
        let (open, cell) = match cell.rsplit_once('(') {
            Some((before, inside)) => (format!("{before}("), inside),
            None => (String::new(), cell),
        };
        let ahead = cell.find("in 9d").or_else(|| cell.find("in 19d"));
        let end = if cell.ends_with(')') { ")" } else { "" };
        match ahead {
            Some(at) => format!("{open}{}DISTANCE{end}", &cell[..at]),
            None if cell.ends_with(" ago") => format!("{open}DISTANCE"),
            None => format!("{open}{cell}"),
        }
    });
    cells.collect::<Vec<_>>().join("  ")
}

#[test]
fn what_was_exported_is_imported_whole() {
    let (from, to) = (cli(), cli());
    from.run(&["enqueue", "a", "--in", "1h", "--payload", "{\"n\": 9007199254740993}"]).ends(0);
    from.run(&["enqueue", "b", "--in", "2h"]).ends(0);
    from.run(&["hold", "b", "--for", "1m"]).ends(0);
    from.run(&["cancel", "c"]).ends(5);
    from.run(&["export", "--out", "orders.ndjson"]).ends(0);
    let text = std::fs::read_to_string(from.dir.path().join("orders.ndjson")).unwrap();
    assert_eq!(text.lines().count(), 3);
    let imported = to.run_with(&["import", "-", "--json"], text.as_bytes()).ends(0).object();
    assert_eq!((&imported["adopted"], &imported["rejected"]), (&json!(3), &json!(0)));
    let again = to.run_with(&["import", "-", "--json"], text.as_bytes()).ends(0).object();
    assert_eq!((&again["adopted"], &again["present"]), (&json!(0), &json!(3)));
    let mut copy: Vec<String> = to.run(&["export"]).ends(0).stdout.lines().map(str::to_owned).collect();
    let mut original: Vec<String> = text.lines().map(str::to_owned).collect();
    copy.sort();
    original.sort();
    assert_eq!(copy, original);
    to.run(&["verify"]).ends(0);
    let broken = format!("{}\n{{\"state\":\"scheduled\",\"id\":\"x\"}}\n", text.lines().next().unwrap());
    let ran = to.run_with(&["import", "-"], broken.as_bytes()).ends(4);
    assert!(ran.stderr.contains("-:2: missing field"), "{ran:?}");
}

#[test]
fn a_wheel_is_listed_resharded_and_dropped_only_when_confirmed() {
    let cli = cli();
    for n in 0..20 {
        cli.run(&["enqueue", &format!("o-{n}"), "--in", "1h"]).ends(0);
    }
    assert!(cli.run(&["wheel", "list"]).ends(0).stdout.contains(&cli.wheel));
    let refused = cli.run(&["wheel", "drop"]).ends(2);
    assert!(refused.stderr.contains("needs --yes"), "{refused:?}");
    assert_eq!(cli.stat("scheduled"), 20);
    cli.run(&["wheel", "reshard", "--shards", "4"]).ends(2);
    cli.run(&["wheel", "reshard", "--shards", "4", "--yes"]).ends(0);
    // Whoever still has the old number is told, and told why.
    let stale = cli.run(&["list"]).ends(78);
    assert!(stale.stderr.contains("shards"), "{stale:?}");
    let set = format!("wheel.{}.shards=4", cli.wheel);
    let listed = cli.run(&["list", "--json", "--all", "--set", &set]).ends(0);
    assert_eq!(listed.objects().len(), 20);
    cli.run(&["verify", "--set", &set]).ends(0);
    cli.run(&["wheel", "drop", "--yes", "--set", &set]).ends(0);
    assert!(!cli.run(&["wheel", "list"]).ends(0).stdout.contains(&cli.wheel));
}

#[test]
fn verify_ends_with_3_where_something_is_wrong_and_heals_it() {
    let server = RedisServer::shared();
    let cli = cli();
    cli.run(&["enqueue", "o-1", "--in", "1h", "--set", &format!("wheel.{}.shards=1", cli.wheel)]).ends(0);
    let set = format!("wheel.{}.shards=1", cli.wheel);
    let slots = format!("dw1:{{{}.0}}:slots", cli.wheel);
    let slot: Vec<String> = server.command(&["ZRANGE", &slots, "0", "-1"]);
    server.command::<i64>(&["DEL", &format!("dw1:{{{}.0}}:slot:{}", cli.wheel, slot[0])]);
    let found = cli.run(&["verify", "--json", "--set", &set]).ends(3).object();
    assert!(!found["findings"].as_array().unwrap().is_empty());
    cli.run(&["verify", "--heal", "--set", &set]).ends(0);
    cli.run(&["verify", "--set", &set]).ends(0);
    assert_eq!(cli.run(&["list", "--json", "--set", &set]).ends(0).objects()[0]["id"], "o-1");
}

#[test]
fn the_configuration_is_shown_with_its_sources_and_without_passwords() {
    let cli = cli();
    cli.write("duewheel.toml", "[redis]\nurl = 'redis://:hunter2@h'\n[wheel.orders]\nshards = 8\n");
    let mut command = cli.command(&["config", "--json"]);
    command.env_remove("REDIS_URL").env_remove("DUEWHEEL_WHEEL");
    let ran = crate::rig::cli::Ran::of(&mut command).ends(0);
    assert!(!ran.stdout.contains("hunter2"), "{ran:?}");
    let object = ran.object();
    let value =
        |key: &str| object["values"].as_array().unwrap().iter().find(|v| v["key"] == key).cloned().unwrap();
    assert_eq!(
        value("redis.url"),
        json!({"key": "redis.url", "value": "redis://:***@h", "source": "duewheel.toml:2"})
    );
    assert_eq!(value("wheel.orders.shards")["source"], "duewheel.toml:4");
    assert_eq!(cli.run(&["config", "--default"]).ends(0).stdout, duewheel::config::DEFAULT);
}

#[test]
fn completions_and_manual_pages_are_written() {
    let cli = cli();
    for shell in ["bash", "zsh", "fish"] {
        assert!(cli.run(&["completions", shell]).ends(0).stdout.contains("reschedule"));
    }
    assert!(cli.run(&["man"]).ends(0).stdout.contains(".TH duewheel 1"));
    std::fs::create_dir(cli.dir.path().join("man")).unwrap();
    cli.run(&["man", "--dir", "man"]).ends(0);
    let pages = std::fs::read_dir(cli.dir.path().join("man")).unwrap().count();
    assert!(pages > 20, "{pages} pages");
}

#[test]
fn bench_refuses_a_wheel_in_use_and_measures_an_empty_one() {
    let cli = cli();
    cli.run(&["enqueue", "o-1", "--in", "1h"]).ends(0);
    let refused = cli.run(&["bench", "enqueue", "--count", "10"]).ends(2);
    assert!(refused.stderr.contains("needs an empty one"), "{refused:?}");
    cli.run(&["inspect", "o-1"]).ends(0);
    cli.run(&["wheel", "drop", "--yes"]).ends(0);
    let args = ["bench", "--json", "--count", "2000", "--rate", "200", "--seconds", "1s"];
    let figures = cli.run(&args).ends(0).object();
    for key in [
        "enqueue_per_s",
        "drain_per_s",
        "bytes_per_deadline",
        "redis_us_per_deadline",
        "floor_us_per_deadline",
        "floor_enqueue_per_s",
        "floor_drain_per_s",
    ] {
        assert!(figures[key].as_f64().is_some_and(|n| n > 0.0), "{key}: {figures}");
    }
    for key in ["p50", "p99", "p999", "max"] {
        assert!(figures["lateness_ms"][key].as_f64().is_some_and(|n| n > 0.0), "{key}: {figures}");
    }
    for key in ["early", "lost", "twice"] {
        assert_eq!(figures[key], 0, "{figures}");
    }
    assert!(figures["bytes_per_ended"].is_u64() && figures["options"]["count"] == 2000, "{figures}");
    assert!(!cli.run(&["wheel", "list"]).ends(0).stdout.contains(&cli.wheel), "nothing is left behind");
}

/// DW-129: there is no step between taking out and putting in.
#[test]
fn a_reschedule_that_is_killed_at_any_moment_leaves_the_order_at_one_of_both_times() {
    let rounds = if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() { 500 } else { 25 };
    let cli = Cli::new(RedisServer::shared());
    let times = ["2030-01-01T00:00:00.000Z", "2030-01-01T01:00:00.000Z"];
    cli.run(&["enqueue", "x", "--at", times[0]]).ends(0);
    let mut moved = 0;
    for round in 1..=rounds {
        let mut running = cli.command(&["reschedule", "x", "--at", times[round % 2]]);
        let mut running = running.stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(fastrand::u64(0..60)));
        running.kill().ok();
        running.wait().unwrap();
        let seen = cli.run(&["inspect", "x", "--json"]).ends(0).object();
        assert_eq!(seen["state"], "scheduled", "{seen}");
        let due_at = seen["deadline"]["due_at"].as_str().unwrap();
        assert!(times.contains(&due_at), "{seen}");
        moved += u32::from(due_at == times[round % 2]);
    }
    println!("{moved} of {rounds} had gone through");
    assert_eq!(cli.stat("scheduled"), 1);
    cli.run(&["verify"]).ends(0);
}
