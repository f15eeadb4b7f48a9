//! A rolling upgrade while deadlines come due: old workers, new ones beside them, the old ones drained one by one. The old program is
//! another build where `DUEWHEEL_TEST_OLD_BIN` names one, else this one: what is handed over is the same. docs/deployment.md describes it.

use std::collections::HashMap;
use std::time::Duration;

use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::stub::{Answer, Stub};
use crate::rig::worker::{Fleet, Plan, Process, soon};

/// Deadlines a second, and for how long.
const RATE: u64 = 100;

fn old_program() -> std::path::PathBuf {
    let given = std::env::var_os("DUEWHEEL_TEST_OLD_BIN");
    given.map_or_else(|| env!("CARGO_BIN_EXE_duewheel").into(), Into::into)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_upgrade_loses_nothing_and_does_nothing_twice_or_early() {
    let seconds: u64 = if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() { 60 } else { 8 };
    let count = RATE * seconds;
    let server = RedisServer::start(RedisOptions::default());
    let shop = Stub::start().await;
    // Long enough that every worker has calls in hand whenever it is told to stop.
    shop.otherwise(Answer::status(200).body(r#"{"verdict":"closed"}"#).after(Duration::from_millis(150)));
    // Nothing here is about time-outs: a machine that is busy with other tests must not repeat a call.
    let plan = Plan::new(server.url())
        .calling(&shop.url("/close"))
        .hook("timeout", "\"20s\"")
        .hook("connect_timeout", "\"10s\"")
        .worker("lease", "\"30s\"")
        .worker("grace", "\"8s\"");
    let fleet = Fleet::new(&server, &plan).await;

    let old: Vec<Process> = (0..2).map(|_| fleet.start_build(&old_program())).collect();
    fleet.known(&old.iter().collect::<Vec<_>>()).await;
    let begin = soon(1500);
    let due = move |n: i64| begin.plus(Duration::from_millis(u64::try_from(n).unwrap() * 1000 / RATE));
    fleet.enqueue(0..i64::try_from(count).unwrap(), due).await;

    // A quarter of the time each: old ones alone, both, one old one less, no old one any more.
    let quarter = Duration::from_secs(seconds) / 4;
    tokio::time::sleep(Duration::from_millis(1500) + quarter).await;
    let new: Vec<Process> = vec![fleet.start(), fleet.start()];
    fleet.known(&new.iter().collect::<Vec<_>>()).await;
    let mut closed_by_old = 0;
    for process in old {
        let tally = process.drain().await;
        closed_by_old += tally["closed"].as_u64().unwrap();
        tokio::time::sleep(quarter).await;
    }
    let stats = fleet.idle(Duration::from_secs(30)).await;
    assert_eq!((stats.dead, stats.ended), (0, count));
    let mut closed_by_new = 0;
    for process in new {
        let tally = process.drain().await;
        assert_eq!(tally["stale"], 0, "{tally}");
        closed_by_new += tally["closed"].as_u64().unwrap();
    }
    assert_eq!(closed_by_old + closed_by_new, count);
    assert!(closed_by_old > 0 && closed_by_new > 0, "{closed_by_old} by the old, {closed_by_new} by the new");

    let mut calls: HashMap<String, Vec<u64>> = HashMap::new();
    for call in shop.calls() {
        calls.entry(call.id()).or_default().push(call.arrived_ms);
    }
    let (mut twice, mut early, mut latest) = (0, 0, 0);
    for n in 0..i64::try_from(count).unwrap() {
        let arrived = calls.remove(&n.to_string()).unwrap_or_else(|| panic!("{n} is lost"));
        let due = due(n).as_millis();
        twice += arrived.len() - 1;
        early += usize::from(arrived[0] < due);
        latest = latest.max(arrived[0].saturating_sub(due));
    }
    println!(
        "{count} deadlines: {closed_by_old} closed by the old program, {closed_by_new} by the new one; latest call {latest} ms after its time"
    );
    assert_eq!((twice, early), (0, 0), "twice, early");
    assert!(fleet.wheel.verify(false).await.unwrap().findings.is_empty());
}
