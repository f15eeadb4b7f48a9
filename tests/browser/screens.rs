//! Every screen in every state: empty, full, huge, without Redis; with and without JavaScript, by keyboard, on a phone.

use std::collections::BTreeMap;

use duewheel::deadline::Note;
use duewheel::wheel::WorkerRecord;
use serde_json::json;

use super::*;
use crate::rig::redis::RedisOptions;
use crate::rig::wheel::{bury, id};

/// Something of everything: scheduled, held, dead for three reasons, ended; a worker that is held back; a pause.
pub async fn fill(wheel: &Wheel) {
    for n in 0..40 {
        let payload = Payload::from_json(format!(r#"{{"user_id":{n},"total":"19.90"}}"#)).unwrap();
        let one = Deadline { payload, ..deadline(&format!("A-{n:03}"), after(60_000 * (n + 1))) };
        wheel.enqueue(&one, OnConflict::Keep, false).await.unwrap().unwrap();
    }
    wheel.hold(&id("A-001"), Duration::from_secs(60)).await.unwrap().unwrap();
    wheel.cancel(&[id("A-039")]).await;
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
    };
    wheel.announce(&record, Duration::from_secs(3600)).await.unwrap();
    wheel.pause(&Note::new("anna", "stock is counted").unwrap()).await.unwrap();
}

#[tokio::test]
async fn every_screen_of_an_empty_wheel_says_what_there_will_be() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    // The same rules hold for a full one, which is always looked at by them; each look takes a second.
    let long = std::env::var_os("DUEWHEEL_TEST_LONG").is_some();
    let seen =
        browser.journey("walk", &scene.page.anna(), json!({"wheel": scene.name(), "accessible": long})).await;
    for screen in seen.as_array().unwrap() {
        let text = screen["text"].as_str().unwrap();
        assert!(text.len() > 100 && !text.contains("NaN") && !text.contains("Some("), "{screen}");
    }
}

#[tokio::test]
async fn every_screen_can_be_read_by_everybody_by_day_and_by_night_and_on_a_phone() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    fill(scene.wheel()).await;
    let more =
        [scene.path("/deadline?id=A-001"), scene.path("/deadline?id=D-0"), scene.path("/deadline?id=nobody")];
    let with = json!({"wheel": scene.name(), "more": more, "accessible": true});
    browser.journey("walk", &scene.page.anna(), with).await;
    let mut phone = scene.page.anna();
    phone["width"] = 360.into();
    phone["height"] = 740.into();
    browser.journey("walk", &phone, json!({"wheel": scene.name(), "more": more, "fits": true})).await;
    let mut plain = scene.page.anna();
    plain["javaScript"] = false.into();
    browser.journey("walk", &plain, json!({"wheel": scene.name(), "more": more})).await;
}

#[tokio::test]
async fn tab_reaches_everything_that_can_be_pressed() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    fill(scene.wheel()).await;
    let more = [scene.path("/deadline?id=A-001"), scene.path("/deadline?id=D-0")];
    browser.journey("keyboard", &scene.page.anna(), json!({"wheel": scene.name(), "more": more})).await;
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
    browser.journey("walk", &scene.page.anna(), json!({"wheel": scene.name()})).await;
}
