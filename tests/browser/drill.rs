//! The operator's drill: the hook fails, then is away; from the page alone it is seen, stopped, repaired and looked back at.

use serde_json::json;

use super::*;
use crate::rig::stub::{Answer, Stub};
use crate::rig::{PATIENCE, eventually};

#[tokio::test]
async fn an_outage_of_the_hook_is_seen_stopped_repaired_and_looked_back_at_from_the_page_alone() {
    let browser = browser!();
    let long = std::env::var_os("DUEWHEEL_TEST_LONG").is_some();
    let (outage, orders) = if long { (Duration::from_secs(300), 3000) } else { (Duration::from_secs(3), 60) };
    let shop = Stub::start().await;
    let redis = RedisServer::shared();
    let plan = Plan::new(redis.url()).shards(4).calling(&shop.url("/close")).worker("max_attempts", "2");
    let plan = plan.worker("gone_grace", "\"0s\"");
    let scene = Scene::with(redis, &plan).await;
    let wheel = scene.wheel();
    let worker = scene.fleet.start();

    // A deploy that went wrong: first the shop fails, order by order; then nobody answers any more.
    shop.otherwise(Answer::status(500).body("out of stock"));
    for n in 0..12 {
        wheel
            .enqueue(&deadline(&format!("failed-{n}"), after(0)), OnConflict::Keep, false)
            .await
            .unwrap()
            .unwrap();
    }
    let stats = async || wheel.stats().await.unwrap();
    eventually(PATIENCE, async || (stats().await.dead == 12).then_some(())).await;
    shop.otherwise(Answer::status(503));
    let step = outage / 2 / orders;
    let began = std::time::Instant::now();
    for n in 0..orders {
        let due = after(u64::try_from((step * n).as_millis()).unwrap());
        wheel.enqueue(&deadline(&format!("late-{n}"), due), OnConflict::Keep, false).await.unwrap().unwrap();
    }
    let held = async || {
        let workers = wheel.presence().await.unwrap().workers;
        workers.iter().any(|worker| !worker.held_back.is_empty()).then_some(())
    };
    eventually(PATIENCE, held).await;
    let seen =
        browser.journey("outage", &scene.page.anna(), json!({"wheel": scene.name(), "dead": 12})).await;
    assert!(wheel.held_by().await.unwrap().paused.is_some(), "the press of the button paused it: {seen}");
    tokio::time::sleep(outage.saturating_sub(began.elapsed())).await;

    shop.otherwise(Answer::verdict(200, r#"{"verdict":"closed"}"#));
    let with = json!({"wheel": scene.name(), "dead": 12, "late": orders});
    browser.journey("recovery", &scene.page.anna(), with).await;
    assert_eq!(wheel.held_by().await.unwrap(), duewheel::wheel::Held::default());
    let after = stats().await;
    assert_eq!((after.scheduled, after.leased, after.dead), (0, 0, 0));
    for n in 0..12 {
        assert_eq!(
            shop.calls_for(&format!("failed-{n}")).len(),
            3,
            "two that failed and the one that closed it"
        );
    }
    assert_eq!(worker.drain().await["closed"], orders + 12);
}
