//! A worker that has nothing to do: it costs next to nothing, wakes for nothing far away, and is there when something comes.

use std::time::{Duration, Instant};

use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::strain::Strain;
use crate::rig::stub::Stub;
use crate::rig::wheel::id;
use crate::rig::worker::{Fleet, Plan, soon};
use crate::rig::{PATIENCE, eventually, is_long};

/// Redis's clock, in milliseconds.
fn now_ms(server: &RedisServer) -> u64 {
    let (seconds, micros): (u64, u64) = server.command(&["TIME"]);
    seconds * 1000 + micros / 1000
}

/// DW-007: timers of 32 bits of milliseconds end after 24.9 and 49.7 days.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_of_weeks_and_of_a_century_keep_their_time_and_wake_no_worker() {
    const DAY_MS: u64 = 86_400_000;
    let (server, stub) = (RedisServer::start(RedisOptions::default()), Stub::start().await);
    let fleet = Fleet::new(&server, &Plan::new(server.url()).calling(&stub.url("/close"))).await;
    let mut worker = fleet.start_serving().await;
    // The last one is `max_ahead`, the longest window that is taken.
    for (window, days) in [("25d", 25), ("50d", 50), ("100y", 36_500), ("36600d", 36_600)] {
        let before = now_ms(&server);
        let said = fleet.run(&["enqueue", window, "--in", window, "--json"]).ends(0).object();
        let due = before + days * DAY_MS..=now_ms(&server) + days * DAY_MS;
        let entry = fleet.wheel.inspect(&id(window)).await.unwrap().entry.unwrap();
        let slots = format!("dw1:{{{}.{}}}:slot:*", fleet.wheel.name(), fleet.wheel.shard_of(&id(window)));
        let slots: Vec<String> = server.command(&["KEYS", &slots]);
        let scores = slots.iter().filter_map(|slot| server.command::<Option<f64>>(&["ZSCORE", slot, window]));
        let scores: Vec<u64> = scores.map(|score| score as u64).collect();
        assert!(scores.len() == 1 && due.contains(&scores[0]), "{window}: {scores:?}, expected {due:?}");
        assert_eq!(said["due_at_ms"].as_u64(), Some(scores[0]), "{window}");
        assert_eq!((entry.due_at.as_millis(), entry.next_at.as_millis()), (scores[0], scores[0]), "{window}");
    }
    let refused = fleet.run(&["enqueue", "beyond", "--in", "36601d", "--json"]).ends(2);
    assert!(refused.stderr.contains("at most 36600 days ahead"), "{refused:?}");

    let watched = Duration::from_secs(if is_long() { 15 } else { 3 });
    let (began, cpu) = (Instant::now(), worker.cpu());
    tokio::time::sleep(watched).await;
    let (used, within) = (worker.cpu() - cpu, began.elapsed());
    println!("idle: {used:?} of processor time in {within:?}");
    assert!(used < within / 20, "{used:?} of processor time in {within:?}");
    assert!(stub.calls().is_empty(), "called early");
    worker.still_runs();
    let tally = worker.drain().await;
    assert_eq!((&tally["claimed"], &tally["hook_calls"]), (&0.into(), &0.into()), "{tally}");
}

/// DW-003: no message has to arrive for a deadline to be seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_connections_were_killed_while_it_was_idle_is_on_time() {
    const POLL: Duration = Duration::from_millis(250);
    let (ahead_ms, killed_ms) = if is_long() { (8000, 2000) } else { (2500, 700) };
    let strain = Strain::start();
    let (server, stub) = (RedisServer::start(RedisOptions::default()), Stub::start().await);
    // Of one shard: its own looks are what meets the dead connections.
    let plan = Plan::new(server.url()).calling(&stub.url("/close")).shards(1);
    let fleet = Fleet::new(&server, &plan).await;
    let mut worker = fleet.start_serving().await;
    let due = soon(ahead_ms);
    fleet.enqueue([1], |_| due).await;
    tokio::time::sleep(Duration::from_millis(killed_ms)).await;
    let killed = |kind: &str| server.command::<u64>(&["CLIENT", "KILL", "TYPE", kind]);
    killed("pubsub");
    assert!(killed("normal") >= 2, "the worker had no connection");
    let call = eventually(PATIENCE, async || stub.calls().pop()).await;
    let late = call.arrived_ms.checked_sub(due.as_millis()).expect("not before it is due");
    println!("called {late} ms late");
    let most = strain.allows(POLL + Duration::from_secs(1));
    assert!(Duration::from_millis(late) <= most, "{late} ms late, at most {most:?}");
    worker.still_runs();
    fleet.idle(PATIENCE).await;
    assert_eq!((worker.drain().await["closed"].as_u64(), stub.calls().len()), (Some(1), 1));
}
