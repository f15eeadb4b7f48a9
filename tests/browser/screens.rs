//! Every screen in every state: empty, full, huge, without Redis; with and without JavaScript, by keyboard, on a phone.

use std::collections::BTreeMap;

use duewheel::clock::Moment;
use duewheel::operator::{Door, Operator, Person};
use duewheel::sweep::reconcile::{Finding, Level, Reconciliation, Section};
use duewheel::wheel::{BulkAct, BulkFilter, Minute, WorkerRecord};
use serde_json::{Value, json};

use super::*;
use crate::rig::redis::RedisOptions;
use crate::rig::wheel::{bury, id, stays};
use crate::rig::{PATIENCE, eventually};

/// Something of everything: scheduled, held, dead for three reasons, ended; a worker that is held back; an hour of work; runs of every job
/// with what they found; a bulk act; a pause; and what people did.
pub async fn fill(scene: &Scene) {
    let wheel = scene.wheel();
    for n in 0..40 {
        let payload = Payload::from_json(format!(r#"{{"user_id":{n},"total":"19.90"}}"#)).unwrap();
        let one = Deadline { payload, ..deadline(&format!("A-{n:03}"), after(60_000 * (n + 1))) };
        wheel.enqueue(&one, OnConflict::Keep, false).await.unwrap().unwrap();
    }
    let anna = Operator::new(wheel.clone(), Person::new("anna", Door::Cli).unwrap());
    anna.hold(&id("A-001"), Duration::from_secs(60), None, "a payment is under way").await.unwrap().unwrap();
    anna.cancel(&[id("A-039")], "paid by bank").await.unwrap();
    for (n, reason) in
        ["status 500: out of stock", "status 500: out of stock", "gone: no such order", "status 409"]
            .iter()
            .enumerate()
    {
        bury(wheel, &format!("D-{n}"), reason).await;
    }
    let record = WorkerRecord {
        token: "w-1".to_owned(),
        host: "shop-7".to_owned(),
        pid: 4711,
        version: "0.1.0".to_owned(),
        started_ms: wheel.now().await.unwrap().as_millis() - 3_600_000,
        in_flight: 3,
        draining: false,
        clocks: BTreeMap::from([("host".to_owned(), -12), ("oms".to_owned(), 140)]),
        pauses: BTreeMap::from([("shop.example:443".to_owned(), 4_102_444_800_000)]),
        held_back: vec!["shop.example:443 is not asked: status 503".to_owned()],
        drained: None,
        claims: Vec::new(),
    };
    stays(wheel, &record).await;
    hour(wheel).await;
    for job in ["feed", "sweep", "rebuild"] {
        ran(wheel, job, &report(job));
    }
    ran(wheel, "reconcile", &reconciliation(wheel.name().as_str()));
    let few = BulkFilter { prefix: Some("A-03".to_owned()), ..BulkFilter::default() };
    let bulk = anna
        .begin_bulk(BulkAct::Reschedule { by_ms: 900_000 }, few, None, "the shop opens later")
        .await
        .unwrap();
    // The page's own server does it.
    eventually(PATIENCE, async || {
        wheel.bulk(&bulk.id).await.unwrap().filter(|bulk| bulk.is_over()).map(drop)
    })
    .await;
    anna.pause("stock is counted").await.unwrap();
}

/// An hour in which things went well, then badly, then well again.
async fn hour(wheel: &Wheel) {
    let now = wheel.now().await.unwrap();
    let minute = |back: u64| {
        let mut minute = Minute::at(Moment::from_millis(now.as_millis() - back * 60_000).unwrap());
        let bad = (20..28).contains(&back);
        minute.closed = if bad { 3 } else { 180 + 40 * (back % 7) };
        minute.skipped = 9 * (back % 3);
        (minute.retried, minute.unavailable, minute.buried) =
            if bad { (30, 140, 2) } else { (back % 2, 0, 0) };
        minute.lateness.put(if bad { 10 } else { 2 + (back % 3) as usize }, minute.closed);
        minute.lateness.put(if bad { 12 } else { 5 }, 2);
        minute
    };
    wheel.record_hour("w-1", &(0..60).map(minute).collect::<Vec<_>>()).await.unwrap();
}

/// Writes down a run of a job as its runner does.
fn ran(wheel: &Wheel, job: &str, record: &Value) {
    let key = format!("dw1:{{{}}}:runs:{job}", wheel.name());
    RedisServer::shared().command::<String>(&["XADD", &key, "*", "record", &record.to_string()]);
    let job = format!("dw1:{{{}}}:job:{job}", wheel.name());
    let ran = (Moment::host_now().as_millis() - 60_000) * 1000;
    RedisServer::shared().command::<u64>(&["HSET", &job, "ran", &ran.to_string()]);
}

fn report(job: &str) -> Value {
    json!({"job": job, "runner": "shop-7:4711:1a2b", "began_at_ms": Moment::host_now().as_millis() - 60_000, "took_ms": 1234, "pages": 4, "seen": 3120,
           "held": 3098, "enqueued": 19, "resurrected": 1, "ended": 2, "dead": 1, "refused": 1, "refusal": "close_at of A-7: is NULL"})
}

fn reconciliation(wheel: &str) -> Value {
    let finding = |n: u32| Finding {
        id: format!("A-{n:03}"),
        table: "open, due 2026-03-01T04:00:00.000Z".to_owned(),
        wheel: "absent".to_owned(),
        healed: (n == 1).then(|| "enqueued".to_owned()),
    };
    let section = |name: &str, level, count: u64| Section {
        name: name.to_owned(),
        level,
        count,
        healed: count.min(1),
        capped: false,
        error: None,
        first: (1..=count.min(5) as u32).map(finding).collect(),
    };
    let whole = Reconciliation {
        wheel: wheel.to_owned(),
        runner: "shop-7:4711:1a2b".to_owned(),
        level: Some(Level::High),
        began_at_ms: Moment::host_now().as_millis() - 3_600_000,
        took_ms: 5321,
        rows: 3120,
        classes: vec![section("missing", Level::Medium, 3), section("orphan", Level::Low, 0)],
        rules: vec![section("paid_after_close", Level::High, 1)],
        ..Reconciliation::default()
    };
    serde_json::to_value(whole).unwrap()
}

/// Screens below those of the navigation.
async fn below(scene: &Scene) -> Vec<String> {
    let bulk = scene.wheel().bulks().await.unwrap().remove(0).id;
    [
        "/deadline?id=A-001",
        "/deadline?id=D-0",
        "/deadline?id=nobody",
        "/deadlines?state=ended",
        "/deadlines?id=A-00",
        "/bulk/confirm?act=revive",
        "/bulk/confirm?act=hold&for=15m&prefix=A-",
        &format!("/bulk?id={bulk}"),
    ]
    .map(|path| scene.path(path))
    .to_vec()
}

#[tokio::test]
async fn every_screen_of_an_empty_wheel_says_what_there_will_be() {
    let browser = browser!();
    if !is_long() {
        // The wheel of a Redis that came back with nothing is looked at below; by all rules of axe a full one always is.
        return;
    }
    let scene = Scene::set(RedisServer::shared()).await;
    let with = json!({"wheel": scene.name(), "accessible": true});
    say_what_there_will_be(&browser.journey("walk", &scene.page.anna(), with).await);
}

fn say_what_there_will_be(seen: &Value) {
    for screen in seen.as_array().unwrap() {
        let text = screen["text"].as_str().unwrap();
        assert!(text.len() > 100 && !text.contains("NaN") && !text.contains("Some("), "{screen}");
    }
}

/// Whether the long forms were asked for. Each look of axe takes a second, and each screen half of one.
fn is_long() -> bool {
    std::env::var_os("DUEWHEEL_TEST_LONG").is_some()
}

#[tokio::test]
async fn every_screen_can_be_read_by_everybody_by_day_and_by_night_and_on_a_phone() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    fill(&scene).await;
    let mut more = below(&scene).await;
    let long = is_long();
    if !long {
        // Those that differ in shape: one deadline, one that is dead, a bulk act before and after it was begun.
        let shapes = ["/deadline?id=A-001", "/deadline?id=D-0", "act=revive", "/bulk?id="];
        more.retain(|path| shapes.iter().any(|shape| path.contains(shape)));
    }
    let nights = if long { 99 } else { 2 };
    let with = json!({"wheel": scene.name(), "more": more, "accessible": true, "nights": nights});
    browser.journey("walk", &scene.page.anna(), with).await;
    // The same without scripts, in a window that was a phone's from the start.
    let mut phone = scene.page.anna();
    phone["width"] = 360.into();
    phone["height"] = 740.into();
    phone["javaScript"] = false.into();
    browser.journey("walk", &phone, json!({"wheel": scene.name(), "more": more, "fits": true})).await;
}

#[tokio::test]
async fn tab_reaches_everything_that_can_be_pressed() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    fill(&scene).await;
    let mut more = below(&scene).await;
    if !is_long() {
        more.retain(|path| path.contains("/deadline?id=A") || path.contains("act=revive"));
    }
    browser.journey("keyboard", &scene.page.anna(), json!({"wheel": scene.name(), "more": more})).await;
    let with = json!({"wheel": scene.name(), "accessible": is_long()});
    browser.journey("keys", &scene.page.anna(), with).await;
}

#[tokio::test]
async fn a_wheel_of_twenty_thousand_is_as_easy_to_look_at() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    let wheel = scene.wheel();
    let batch: Vec<_> =
        (0..20_000).map(|n| deadline(&format!("order-{n}"), after(1000 * (n % 7200) + 60_000))).collect();
    for part in batch.chunks(5000) {
        assert!(wheel.enqueue_batch(part, OnConflict::Keep, false).await.iter().all(Result::is_ok));
    }
    // The longest that there may be, once of bytes and once of characters, with nothing in it where a line could break.
    let long = ["x".repeat(200), "超".repeat(66)];
    let payload = format!("{{\"blob\":\"{}\"}}", "y".repeat(Payload::MAX_BYTES - 11));
    for name in &long {
        let payload = Payload::from_json(payload.clone()).unwrap();
        let one = Deadline { payload, ..deadline(name, after(30_000)) };
        wheel.enqueue(&one, OnConflict::Keep, false).await.unwrap().unwrap();
        bury(wheel, &name.replace(['x', '超'], "z"), &"q".repeat(500)).await;
    }
    let more: Vec<_> =
        long.iter().map(|name| scene.path(&format!("/deadline?id={}", in_path(name)))).collect();
    let mut phone = scene.page.anna();
    phone["width"] = 360.into();
    phone["height"] = 740.into();
    let seen =
        browser.journey("walk", &phone, json!({"wheel": scene.name(), "more": more, "fits": true})).await;
    for screen in seen.as_array().unwrap() {
        println!("{} {} ms", screen["path"], screen["ms"]);
    }
}

#[tokio::test]
async fn every_screen_says_that_redis_is_away_and_comes_back_with_it() {
    let browser = browser!();
    let mut redis = RedisServer::start(RedisOptions::default());
    let plan = Plan::new(redis.url()).shards(4).response_timeout("500ms");
    let scene = Scene::with(&redis, &plan).await;
    let known = browser.journey("arrive", &scene.page.anna(), json!({"wheel": scene.name()})).await;
    redis.kill9();
    // The overview's numbers may be a second old.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let with = json!({"paths": known["paths"], "cookie": known["cookie"], "says": "redis"});
    browser.journey("away", &scene.page.anna(), with).await;
    redis.restart();
    let seen = browser.journey("walk", &scene.page.anna(), json!({"wheel": scene.name()})).await;
    say_what_there_will_be(&seen);
}
