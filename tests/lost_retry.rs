//! DW-022, the retry step: the answer to the settle that puts an order back for another attempt is lost, or comes long after the worker
//! has stopped waiting for it. Whatever is repeated then, one call of the hook is one attempt.

use std::time::Duration;

use duewheel::shard::Shard;
use duewheel::wheel::script;

use crate::rig::proxy::{Proxy, Way};
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::stub::{Answer, Stub};
use crate::rig::wheel::{id, key};
use crate::rig::worker::{Fleet, Plan, soon};
use crate::rig::{PATIENCE, eventually, is_long};

const ORDERS: u64 = 20;

/// The beginning of a settle of the wheel's only shard, as it goes over the wire.
fn settle_of(fleet: &Fleet) -> Vec<u8> {
    let first = key(&fleet.wheel, Shard(0), "meta");
    format!("{}\r\n$1\r\n9\r\n${}\r\n{first}\r\n", script::SETTLE.sha(), first.len()).into_bytes()
}

/// Waits until Redis has counted so many retries.
async fn retried(fleet: &Fleet, count: u64) {
    let seen = async || {
        let retried = fleet.wheel.stats().await.ok()?.totals.get("retried").copied().unwrap_or(0);
        assert!(retried <= count, "{retried} retries of {count} failed calls");
        (retried == count).then_some(())
    };
    eventually(PATIENCE, seen).await;
}

/// Three calls of each order fail. The answer to the first retry is lost, that to the second is held back for as long as several
/// repeats take, that to the third is lost again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_whose_answer_is_lost_or_late_counts_one_attempt_for_one_call() {
    let (server, stub) = (RedisServer::start(RedisOptions::default()), Stub::start().await);
    let proxy = Proxy::start(server.port());
    let (response_timeout, held_back) = if is_long() { ("1s", 6000) } else { ("500ms", 1500) };
    // Calls last long enough for a fault to be set while they are under way.
    let fails = Answer::status(500).after(Duration::from_millis(300));
    for n in 1..=ORDERS {
        let answers = vec![fails.clone(), fails.clone(), fails.clone(), Answer::status(200)];
        stub.script(&n.to_string(), answers);
    }
    let plan = Plan::new(proxy.redis_url()).calling(&stub.url("/close")).shards(1);
    let plan = plan.response_timeout(response_timeout).worker("max_attempts", "4");
    // No lease that is in work may end meanwhile: a call that is made again for that reason rightly counts none. A claim that Redis takes
    // up after its repeat leaves a lease with nobody, though, and then its end is waited for.
    let lease = if is_long() { "\"30s\"" } else { "\"10s\"" };
    let plan = plan.worker("lease", lease).worker("backoff_base", "\"200ms\"");
    let fleet = Fleet::new(&server, &plan).await;
    let worker = fleet.start_serving().await;

    let lost = async || proxy.lost_a_reply().then_some(());
    let called = async |times: u64| {
        let seen = async || (stub.calls().len() as u64 >= times * ORDERS).then_some(());
        eventually(PATIENCE, seen).await;
    };
    proxy.lose_reply(1, &settle_of(&fleet));
    let due = soon(0);
    fleet.enqueue(1..=ORDERS as i64, |_| due).await;
    eventually(PATIENCE, lost).await;

    called(2).await;
    proxy.hold(Way::Down);
    // Redis has done the first of them; nobody hears of it.
    let done = async || (fleet.wheel.stats().await.ok()?.totals["retried"] > ORDERS).then_some(());
    eventually(PATIENCE, done).await;
    tokio::time::sleep(Duration::from_millis(held_back)).await;
    proxy.heal();
    retried(&fleet, 2 * ORDERS).await;

    called(3).await;
    proxy.lose_reply(1, &settle_of(&fleet));
    eventually(PATIENCE, lost).await;
    retried(&fleet, 3 * ORDERS).await;
    let stats = fleet.idle(PATIENCE).await;
    assert_eq!((stats.totals["closed"], stats.totals["retried"], stats.dead), (ORDERS, 3 * ORDERS, 0));

    for n in 1..=ORDERS {
        let calls = stub.calls_for(&n.to_string());
        let attempts: Vec<_> = calls.iter().map(|call| call.data()["attempt"].as_u64().unwrap()).collect();
        assert_eq!(attempts, [1, 2, 3, 4], "order {n}");
        let ended = fleet.wheel.inspect(&id(&n.to_string())).await.unwrap().ended.unwrap();
        assert_eq!(ended.attempt, 4, "order {n}: three calls failed before the one that closed it");
    }
    assert!(fleet.wheel.verify(false).await.unwrap().findings.is_empty());
    let tally = worker.drain().await;
    let of = |what: &str| tally[what].as_u64().unwrap();
    // One failure for each answer that was lost, and at least one for the one that was held back.
    assert!(of("settle_failures") >= 3, "{tally}");
    assert_eq!((of("hook_calls"), of("buried")), (4 * ORDERS, 0), "{tally}");
}
