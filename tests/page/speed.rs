//! How long the screens of a full wheel take. The long form, a million deadlines and ten thousand dead, is for a quiet machine.

use std::time::{Duration, Instant};

use duewheel::deadline::DueAt;
use duewheel::wheel::{Settlement, What};

use super::*;
use crate::rig::proxy::{Proxy, Way};
use crate::rig::redis::RedisOptions;
use crate::rig::wheel::{ask, settings as wheel_settings, wheel_at, wheel_of};
use crate::rig::{PATIENCE, eventually};

/// Fills a wheel: so many scheduled over seven days, so many dead for four reasons.
async fn fill(wheel: &Wheel, scheduled: u64, dead: u64) {
    let now = wheel.now().await.unwrap();
    let payload =
        Payload::from_json(r#"{"user_id":4711,"channel":"app","items":[1,2,3],"total":"129.90 CNY"}"#)
            .unwrap();
    let due_at = |n: u64| DueAt::Moment(now.plus(Duration::from_millis(60_000 + n * 7919 % 604_800_000)));
    let one = |n: u64| Deadline { payload: payload.clone(), ..deadline(&format!("order-{n:08}"), due_at(n)) };
    for from in (0..scheduled).step_by(5000) {
        let batch: Vec<_> = (from..scheduled.min(from + 5000)).map(one).collect();
        place_all(wheel, &batch).await;
    }
    let reasons =
        ["HTTP 500: order % is locked", "HTTP 404: no order %", "no such row", "HTTP 422: sku % is gone"];
    let batch: Vec<_> = (0..dead).map(|n| deadline(&format!("dead-{n:06}"), DueAt::Moment(now))).collect();
    place_all(wheel, &batch).await;
    for shard in wheel.shards().all() {
        for nonce in 1.. {
            let leases =
                wheel.claim(shard, &duewheel::wheel::Ask { limit: 500, ..ask(nonce) }).await.unwrap().leases;
            if leases.is_empty() {
                break;
            }
            let bury = leases.iter().enumerate().map(|(n, lease)| {
                let reason = reasons[n % reasons.len()].replace('%', &n.to_string());
                Settlement { id: lease.id.clone(), fence: lease.fence, what: What::Bury(reason) }
            });
            wheel.settle(shard, &bury.collect::<Vec<_>>()).await.unwrap();
        }
    }
    assert_eq!(wheel.stats().await.unwrap().dead, dead);
}

#[tokio::test]
async fn a_heat_map_that_takes_long_to_count_is_shown_as_far_as_it_is_counted() {
    let redis = RedisServer::start(RedisOptions::default());
    let settings_of = wheel_settings(16);
    let wheel = wheel_of(&redis, settings_of.clone()).await;
    let hours: Vec<_> = (1..=160).map(|n| deadline(&format!("o-{n}"), after(n * 3_600_000))).collect();
    place_all(&wheel, &hours).await;
    let proxy = Proxy::start(redis.port());
    let distant = wheel_at(proxy.redis_url(), settings_of).await;
    let api = ApiServer::of(distant, settings()).await;
    let mut visitor = Visitor::stranger(&api).await;
    let path = at(&api, "/wheel?span=7d");

    // Two shards are counted at once: sixteen of them take eight ways of 100 ms, and the page waits for 150 ms of these.
    proxy.delay(Way::Down, Duration::from_millis(100));
    let text = visitor.page(&path).await;
    let counted = text.split("<b>Still counting.</b> ").nth(1).expect("the page says so").split(' ').next();
    let counted: usize = counted.unwrap().parse().unwrap();
    assert!(counted < 16, "{counted}");
    assert!(!text.contains("Nothing fires in this time"), "nobody knows that yet: {text}");
    assert!(text.contains("data-again-after=\"1\"") && text.contains("Look again"), "{text}");
    assert_eq!(text.matches("<td class=\"awaited\"></td>").count(), (16 - counted) * 28);

    // The count goes on behind the page, and the next looks show more of the same one.
    proxy.heal();
    let visitor = tokio::sync::Mutex::new(visitor);
    let text = eventually(PATIENCE, || async {
        Some(visitor.lock().await.page(&path).await).filter(|text| !text.contains("Still counting"))
    })
    .await;
    assert!(text.contains("160 deadlines") && !text.contains("awaited"), "{text}");
}

#[tokio::test]
async fn a_full_wheel_is_shown_without_a_wait() {
    let is_long = std::env::var_os("DUEWHEEL_TEST_LONG").is_some();
    // A debug build on a machine that others use may take a multiple; the promise is the long form's, of one request at a time.
    let (scheduled, dead, most) = if is_long { (1_000_000, 10_000, 300) } else { (20_000, 1000, 3000) };
    let redis = RedisServer::start(RedisOptions::default());
    let wheel = wheel_of(&redis, wheel_settings(16)).await;
    fill(&wheel, scheduled, dead).await;
    let api = ApiServer::of(wheel, settings()).await;
    let mut visitor = Visitor::stranger(&api).await;
    let paths = [
        "",
        "/wheel",
        "/wheel?span=5m",
        "/wheel?span=24h",
        "/wheel?span=7d",
        "/deadlines",
        "/deadlines?limit=200",
        "/deadlines?from=%2B1d",
        "/deadlines?state=due",
        "/deadlines?payload=user_id%3D4711",
        "/deadlines?payload=user_id%3D1",
        "/deadlines?state=dead",
        "/deadlines?state=ended",
        "/deadlines?id=order-00001234",
        "/deadlines?id=order-0000",
        "/deadlines?id=nothing-begins-so",
        "/dead",
        "/dead?group=no+such+row",
        "/dead?skip=900",
        "/deadline?id=order-00001234",
        "/deadline?id=dead-000017",
    ];
    let mut slow = Vec::new();
    for path in paths {
        // The first one may meet a cold cache, ours or Redis's; what a person feels is any of them.
        let mut times = Vec::new();
        for _ in 0..3 {
            let began = Instant::now();
            visitor.page(&at(&api, path)).await;
            times.push(began.elapsed().as_millis());
            if path.is_empty() {
                tokio::time::sleep(Duration::from_millis(1100)).await;
            }
        }
        println!("{path:<40} {times:?} ms");
        if times.iter().any(|ms| *ms > most) {
            slow.push((path, times));
        }
    }
    let began = Instant::now();
    let lines = visitor
        .get(&at(&api, "/deadlines.ndjson"))
        .await
        .is(200)
        .body
        .iter()
        .filter(|b| **b == b'\n')
        .count();
    println!("export of {lines} lines: {} ms", began.elapsed().as_millis());
    assert_eq!(lines as u64, scheduled);
    assert!(slow.is_empty(), "{slow:?}");
}
