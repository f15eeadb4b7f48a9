//! Who may put a close off while a payment is under way, and for how long; and what a payment provider asks of a deadline.

use std::time::Duration;

use duewheel::deadline::{Channel, Channels, DueAt, HoldLimits, OnConflict};
use duewheel::error::Error;
use duewheel::wheel::WheelSettings;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;

use crate::rig::cli::Cli;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{deadline, id, moment, settings, wheel_of, with_test_clock};

const NOW: u64 = 1_800_000_000_000;

/// A shop with two channels that may hold, one that may not, and one with rules of its provider.
fn cli(wheel_keys: &str) -> Cli {
    let cli = Cli::new(RedisServer::shared());
    let w = &cli.wheel;
    cli.write(
        "duewheel.toml",
        format!(
            "[wheel.{w}]\nhold_max_count = 2\nhold_max_total = \"30m\"\n{wheel_keys}\n\
             [wheel.{w}.channel.alipay]\nhold_max_for = \"10m\"\nhold_max_count = 3\nhold_max_total = \"15m\"\n\
             [wheel.{w}.channel.card]\n\
             [wheel.{w}.channel.cash]\nhold = false\n\
             [wheel.{w}.channel.wechat]\nmin_window = \"1m\"\nmin_age = \"5m\"\n"
        ),
    );
    cli
}

#[test]
fn a_channel_holds_as_often_and_as_long_as_its_own_limits_allow() {
    let cli = cli("");
    for order in ["o-1", "o-2"] {
        cli.run(&["enqueue", order, "--in", "1s"]).ends(0);
    }
    let hold = |order: &str, long: &str, channel: &str| {
        cli.run(&["hold", order, "--for", long, "--channel", channel, "--json"])
    };
    assert_eq!(hold("o-1", "10m", "alipay").ends(0).object()["outcome"], "held");
    let long = hold("o-1", "11m", "alipay").ends(2);
    assert!(long.stderr.contains("expected at most 10m for one hold through alipay"), "{long:?}");
    assert!(long.stderr.contains("\"field\":\"for\""), "{long:?}");
    // The same ten minutes again put the close off by next to nothing more, but each is a hold.
    for _ in 0..2 {
        hold("o-1", "10m", "alipay").ends(0);
    }
    let capped = hold("o-1", "1m", "alipay").ends(6).object();
    assert_eq!((&capped["outcome"], &capped["holds"]), (&json!("hold_cap"), &json!(3)));
    // Another channel counts the same holds against its own limits, which are the wheel's.
    assert_eq!(hold("o-1", "1m", "card").ends(6).object()["outcome"], "hold_cap");
    assert_eq!(hold("o-2", "31m", "card").ends(6).object()["outcome"], "hold_cap");
    hold("o-2", "29m", "card").ends(0);
    // The payment failed: the close comes at its own time again.
    let freed = cli.run(&["release", "o-2", "--json"]).ends(0).object();
    assert!(freed["next_at_ms"].as_u64().unwrap() < freed["due_at_ms"].as_u64().unwrap() + 600_000);
}

#[test]
fn a_channel_that_may_not_hold_or_is_not_known_is_refused_and_nothing_is_changed() {
    let cli = cli("hold_needs_channel = true\nhold_max_for = \"20m\"");
    cli.run(&["enqueue", "o-1", "--in", "1h"]).ends(0);
    for (args, said) in [
        (&["--for", "5m", "--channel", "cash"][..], "channel \"cash\": may not hold a close"),
        (&["--for", "5m", "--channel", "paypal"], "expected one of alipay, card, cash, wechat"),
        (&["--for", "5m"], "channel: is missing, and only a channel may hold: alipay, card, wechat"),
        (
            &["--for", "21m", "--channel", "card"],
            "for \"21m\": expected at most 20m for one hold through card",
        ),
    ] {
        let refused = cli.run(&[&["hold", "o-1"], args].concat()).ends(2);
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
    let shown = cli.run(&["inspect", "o-1", "--json"]).ends(0).object();
    assert_eq!((&shown["deadline"]["holds"], &shown["deadline"]["held_ms"]), (&json!(0), &json!(0)));
}

#[test]
fn a_provider_s_rules_refuse_a_deadline_before_it_is_stored() {
    let cli = cli("");
    let now = duewheel::clock::Moment::host_now().as_millis();
    let (soon, old, young) =
        ((now + 120_000).to_string(), (now - 600_000).to_string(), (now - 60_000).to_string());
    for (args, said) in [
        (&["--in", "59s"][..], "--in \"59s\": expected at least 1m from now for wechat (min_window)"),
        (
            &["--in", "4m"],
            "--in \"4m\": expected a close at least 5m after the order's creation for wechat (min_age)",
        ),
        (&["--at", &soon, "--created-at", &young], "expected a close at least 5m after the order's creation"),
        (&["--at", &old, "--created-at", &old], "expected at least 1m from now"),
    ] {
        let all = [&["enqueue", "o-1", "--channel", "wechat"], args].concat();
        let refused = cli.run(&all).ends(2);
        assert!(refused.stderr.contains(said), "{refused:?}");
        cli.run(&["inspect", "o-1"]).ends(5);
    }
    cli.run(&["enqueue", "o-1", "--in", "5m", "--channel", "wechat"]).ends(0);
    cli.run(&["enqueue", "o-2", "--at", &soon, "--created-at", &old, "--channel", "wechat"]).ends(0);
    cli.run(&["enqueue", "o-3", "--in", "1s", "--channel", "cash"]).ends(0);
    let unknown = cli.run(&["enqueue", "o-4", "--in", "5m", "--channel", "paypal"]).ends(2);
    assert!(unknown.stderr.contains("expected one of alipay, card, cash, wechat"), "{unknown:?}");
}

#[test]
fn lines_of_a_file_and_moves_obey_their_channel_too() {
    let cli = cli("");
    let old = (duewheel::clock::Moment::host_now().as_millis() - 600_000).to_string();
    cli.write(
        "orders.ndjson",
        format!(
            "{{\"id\":\"f-1\",\"in\":\"10m\",\"channel\":\"wechat\"}}\n{{\"id\":\"f-2\",\"in\":\"2m\",\"channel\":\"wechat\"}}\n\
             {{\"id\":\"f-3\",\"in\":\"2m\",\"channel\":\"wechat\",\"created_at\":{old}}}\n{{\"id\":\"f-4\",\"in\":\"2m\",\"channel\":\"paypal\"}}\n\
             {{\"id\":\"f-5\",\"in\":\"1s\"}}\n"
        ),
    );
    let ran = cli.run(&["enqueue", "--file", "orders.ndjson", "--json"]).ends(4);
    let object = ran.object();
    assert_eq!((object["outcomes"]["enqueued"].as_u64(), object["rejected"].as_u64()), (Some(3), Some(2)));
    let young = "orders.ndjson:2: in \"2m\": expected a close at least 5m after the order's creation for wechat (min_age)";
    assert!(ran.stderr.contains(young), "{ran:?}");
    assert!(ran.stderr.contains("orders.ndjson:4: channel \"paypal\": expected one of"), "{ran:?}");
    cli.run(&["inspect", "f-2"]).ends(5);
    // A move obeys the same rules, and changes nothing where it does not.
    let sooner = cli.run(&["reschedule", "f-1", "--in", "2m", "--channel", "wechat"]).ends(2);
    assert!(sooner.stderr.contains("--in \"2m\": expected a close at least 5m"), "{sooner:?}");
    cli.run(&["reschedule", "f-1", "--in", "2m", "--channel", "wechat", "--created-at", &old]).ends(0);
    cli.run(&["reschedule", "f-5", "--in", "1s", "--channel", "cash"]).ends(0);
    cli.run(&["enqueue", "--file", "orders.ndjson", "--channel", "wechat"]).ends(2);
}

#[test]
fn what_is_wrong_with_a_channel_is_said_with_its_line() {
    let cli = Cli::new(RedisServer::shared());
    let w = &cli.wheel;
    cli.write(
        "duewheel.toml",
        format!("[wheel.{w}.channel.card]\nhold = \"yes\"\nhold_max_cout = 3\nmin_age = \"400d\"\n[wheel.{w}.channel]\nbank = 3\n"),
    );
    let said = cli.run(&["stats"]).ends(78).stderr;
    for part in [
        &format!("duewheel.toml:2: wheel.{w}.channel.card.hold: is text, expected true or false"),
        "duewheel.toml:3: unknown key",
        "did you mean hold_max_count?",
        &format!("duewheel.toml:4: wheel.{w}.channel.card.min_age: \"400d\": expected 0s to 366d"),
        &format!("wheel.{w}.channel.bank: is a value, expected a section"),
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn no_order_of_holds_and_releases_goes_beyond_the_limits() {
    let server = RedisServer::start(RedisOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limits = |for_s: u64, count, total_s: u64| HoldLimits {
        max_for: Duration::from_secs(for_s),
        max_count: count,
        max_total: Duration::from_secs(total_s),
    };
    let channel = |hold| Channel { hold: Some(hold), min_window: Duration::ZERO, min_age: Duration::ZERO };
    let names = ["alipay", "card"];
    let rules = [limits(600, 5, 900), limits(60, 2, 100)];
    let by_name = names.iter().zip(rules).map(|(name, hold)| ((*name).to_owned(), channel(hold))).collect();
    let channels = Channels { by_name, needed_to_hold: true };
    // (seconds that pass, channel, seconds to hold for, whether to release first)
    let step =
        (0..90_u64, 0..2_usize, prop::sample::select(vec![1, 30, 60, 61, 100, 400, 600, 601]), any::<bool>());
    let config = Config { cases: 120, failure_persistence: None, ..Config::default() };
    let held = std::cell::Cell::new((0, 0, 0));
    let outcome = TestRunner::new(config).run(&prop::collection::vec(step, 1..12), |steps| {
        runtime.block_on(async {
            let settings = WheelSettings { channels: channels.clone(), ..settings(1) };
            let wheel = wheel_of(&server, settings).await;
            with_test_clock(&server, &wheel);
            let (due, mut now) = (NOW + 300_000, NOW);
            let placed = deadline("x", DueAt::Moment(moment(due)));
            wheel.at_fixed_time(now * 1000).enqueue(&placed, OnConflict::Keep, false).await.unwrap().unwrap();
            for (passes, at, for_s, release) in steps {
                now += passes * 1000;
                let wheel = wheel.at_fixed_time(now * 1000);
                if release {
                    drop(wheel.release(&id("x")).await.unwrap());
                }
                let answer = wheel.hold_through(&id("x"), Duration::from_secs(for_s), Some(names[at])).await;
                let entry = wheel.inspect(&id("x")).await.unwrap().entry.unwrap();
                let (mut taken, mut capped, mut refused) = held.get();
                match answer {
                    Ok(Ok(scheduled)) => {
                        prop_assert!(for_s <= rules[at].max_for.as_secs());
                        prop_assert!(entry.hold_count <= rules[at].max_count, "{entry:?}");
                        prop_assert!(entry.hold_total <= rules[at].max_total, "{entry:?}");
                        prop_assert_eq!(scheduled.next_at, entry.next_at);
                        // What is overdue already is not the hold's doing.
                        prop_assert!(entry.next_at.as_millis() <= due.max(now) + 900_000, "{entry:?}");
                        taken += 1;
                    }
                    Ok(Err(_)) => capped += 1,
                    Err(Error::Invalid(_)) => {
                        prop_assert!(for_s > rules[at].max_for.as_secs());
                        refused += 1;
                    }
                    Err(other) => prop_assert!(false, "{other}"),
                }
                held.set((taken, capped, refused));
            }
            Ok(())
        })
    });
    outcome.unwrap();
    let (taken, capped, refused) = held.get();
    assert!(taken > 50 && capped > 50 && refused > 50, "{taken} taken, {capped} capped, {refused} refused");
}
