//! What a person does on the page, with JavaScript and without: the wheel and the audit tell that it was done.

use duewheel::deadline::State;
use duewheel::operator::{Door, Operator, Person};
use duewheel::wheel::{AuditFilter, BulkAct, BulkFilter};
use serde_json::{Value, json};

use super::*;
use crate::rig::shop::{Kind, Shop};
use crate::rig::wheel::{bury, id};
use crate::rig::{PATIENCE, eventually};

fn plain(mut visitor: Value) -> Value {
    visitor["javaScript"] = false.into();
    visitor
}

/// The acts of the audit, oldest first: act, about whom or what, outcome.
async fn told(wheel: &Wheel) -> Vec<String> {
    let page = wheel.audit(&AuditFilter::default(), None, 500).await.unwrap();
    let one = |entry: &duewheel::wheel::AuditEntry| {
        assert_eq!((entry.by.contains("anna"), entry.door.as_deref()), (true, Some("page")), "{entry:?}");
        format!("{} {}", entry.act, entry.outcome.as_str())
    };
    page.entries.iter().rev().map(one).collect()
}

#[tokio::test]
async fn closing_and_workers_are_stopped_and_let_go_on_with_javascript_and_without() {
    let browser = browser!();
    let redis = RedisServer::shared();
    let plan = Plan::new(redis.url()).shards(4).hook("kind", "\"log\"");
    let scene = Scene::with(redis, &plan).await;
    let worker = scene.fleet.start();
    scene.fleet.known(&[&worker]).await;
    for visitor in [scene.page.anna(), plain(scene.page.anna())] {
        browser.journey("stops", &visitor, json!({"wheel": scene.name()})).await;
        let done = told(scene.wheel()).await;
        assert_eq!(done[done.len() - 4..], ["pause done", "resume done", "drain done", "resume done"]);
    }
    assert_eq!(scene.wheel().held_by().await.unwrap(), duewheel::wheel::Held::default());
}

#[tokio::test]
async fn what_is_done_to_one_to_those_picked_and_to_all_that_match_is_said_and_written_down() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    let wheel = scene.wheel();
    // The forms are the same ones; without JavaScript they stand alone.
    let mut visitors = vec![("plain", plain(scene.page.anna()))];
    if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() {
        visitors.push(("js", scene.page.anna()));
    }
    for (stem, visitor) in visitors {
        for name in ["1", "2", "3", "4", "5", "all-1", "all-2", "all-3"] {
            crate::rig::wheel::enqueue(wheel, &format!("{stem}-{name}"), after(600_000)).await.unwrap();
        }
        for n in 1..=3 {
            bury(wheel, &format!("{stem}-dead-{n}"), "status 500").await;
        }
        browser.journey("deeds", &visitor, json!({"wheel": scene.name(), "stem": stem})).await;
        let state = async |name: &str| wheel.inspect(&id(&format!("{stem}-{name}"))).await.unwrap().state;
        for name in ["1", "2", "4", "dead-1", "dead-2"] {
            assert_eq!(state(name).await, State::Scheduled, "{stem}-{name}");
        }
        for name in ["3", "5", "dead-3", "all-1", "all-2", "all-3"] {
            assert_eq!(state(name).await, State::Ended, "{stem}-{name}");
        }
        let words = ["reschedule", "hold", "release", "close", "cancel"];
        // What is done to each of those picked is an act of its own, but for those that the wheel takes together.
        let picked = ["hold", "hold", "release", "release", "reschedule", "reschedule", "close", "cancel"];
        let mut acts: Vec<String> = words.iter().chain(&picked).map(|word| format!("{word} done")).collect();
        acts.extend(["revive done", "drop done", "cancel done"].map(str::to_owned));
        assert_eq!(told(wheel).await.split_off(if stem == "plain" { 0 } else { acts.len() }), acts);
    }
}

#[tokio::test]
async fn the_audit_is_narrowed_and_leafed_through() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    let wheel = scene.wheel();
    let operator = Operator::new(wheel.clone(), Person::new("bert", Door::Cli).unwrap());
    for n in 0..120 {
        crate::rig::wheel::enqueue(wheel, &format!("A-{n}"), after(3_600_000)).await.unwrap();
        operator.cancel(&[id(&format!("A-{n}"))], &format!("order {n} was paid")).await.unwrap();
    }
    operator.pause("stock is counted").await.unwrap();
    browser.journey("audit", &scene.page.rita(), json!({"wheel": scene.name()})).await;
}

#[tokio::test]
async fn an_act_on_all_that_match_is_watched_and_stopped() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    let wheel = scene.wheel();
    for n in 0..30 {
        bury(wheel, &format!("D-{n}"), "status 500").await;
    }
    let operator = Operator::new(wheel.clone(), Person::new("bert", Door::Cli).unwrap());
    let done =
        operator.begin_bulk(BulkAct::Revive, BulkFilter::default(), None, "the shop is back").await.unwrap();
    eventually(PATIENCE, async || {
        let bulk = wheel.bulk(&done.id).await.unwrap();
        bulk.is_some_and(|bulk| bulk.is_over()).then_some(())
    })
    .await;
    assert_eq!(wheel.stats().await.unwrap().dead, 0);
    // Nobody runs this one: it waits behind a runner that has the job.
    let _busy =
        wheel.take_job(duewheel::wheel::BULK, "somebody", Duration::from_secs(60), None).await.unwrap();
    operator.begin_bulk(BulkAct::Cancel, BulkFilter::default(), None, "the shop closes").await.unwrap();
    browser.journey("bulk", &scene.page.anna(), json!({"wheel": scene.name()})).await;
    assert_eq!(
        wheel.inspect(&id("D-1")).await.unwrap().state,
        State::Scheduled,
        "it was stopped before it began"
    );
}

#[tokio::test]
async fn a_sweep_is_tried_out_before_it_is_run() {
    let browser = browser!();
    let shop = Shop::open(Kind::Sqlite, 1).await;
    let redis = RedisServer::shared();
    let net =
        "[wheel.WHEEL.sweep]\nevery = \"6h\"\nrebuild = false\n[wheel.WHEEL.reconcile]\nevery = \"off\"\n";
    let scene = Scene::with(redis, &Plan::new(redis.url()).shards(4).closing(&shop).net(net)).await;
    let _worker = scene.fleet.start();
    // The first one comes by itself.
    let ran = async || scene.wheel().job_record("sweep").await.unwrap().ran_at;
    eventually(PATIENCE, ran).await;
    shop.orders(1..=3, -60_000, &[(0, 1)]).await;
    browser.journey("sweep", &scene.page.anna(), json!({"wheel": scene.name(), "missing": 3})).await;
    eventually(PATIENCE, async || {
        (shop.count("FROM orders WHERE status = 'closed'").await == 3).then_some(())
    })
    .await;
}
