//! What needs the orders table: one order's story over HTTP, and runs of a job that somebody asked for.

use std::sync::Arc;
use std::time::Duration;

use duewheel::deadline::State;
use duewheel::http::{Api, ServedWheel};
use duewheel::operator::{Door, Operator, Person};
use duewheel::sweep::{Inquiry, Looked, Report, Schedule, Sweep, SweepSettings};
use duewheel::wheel::PREVIEW;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::rig::api::{Client, settings};
use crate::rig::redis::RedisServer;
use crate::rig::shop::{Kind, Shop};
use crate::rig::wheel::{after, enqueue, id, wheel};

#[tokio::test]
async fn a_server_that_knows_the_orders_table_explains_an_order_by_it() {
    let shop = Shop::open(Kind::Sqlite, 1).await;
    shop.orders([1, 2], -60_000, &[]).await;
    shop.db.run("UPDATE orders SET status = 'paid' WHERE id = 2").await;
    let wheel = wheel(RedisServer::shared(), 1).await;
    enqueue(&wheel, "2", after(3_600_000)).await.unwrap();
    let served = ServedWheel {
        table: Some(Arc::new(Inquiry::new(&shop.settings()))),
        ..ServedWheel::from(wheel.clone())
    };
    let (settings, stop) = (settings(), CancellationToken::new());
    let server =
        duewheel::http::Server::bind("listen", settings.listen, settings.limits.clone()).await.unwrap();
    let address = server.address();
    let api = Api::new([served], &settings, &duewheel::metrics::Metrics::new(), stop.clone());
    let serving = tokio::spawn(server.run(api.router(), stop.clone()));
    let mut client = Client::connect(address).await;
    let path = |order: &str| format!("/v1/wheels/{}/deadlines/{order}/explain", wheel.name());
    let lost = client.bare("GET", &path("1")).await.is(200).value();
    assert!(lost["why"].as_str().unwrap().contains("overdue, and the wheel does not know it"), "{lost}");
    assert_eq!((&lost["state"], &lost["row"]["open"]), (&json!("absent"), &json!(true)));
    let paid = client.bare("GET", &path("2")).await.is(200).value();
    assert!(paid["why"].as_str().unwrap().contains("it will be skipped"), "{paid}");
    assert!(paid["timeline"].as_array().unwrap().iter().any(|one| one["source"] == "table"));
    client.bare("GET", &path("nobody")).await.problem(404, "absent");
    stop.cancel();
    serving.await.unwrap();
}

#[tokio::test]
async fn a_sweep_that_is_asked_for_runs_whatever_the_schedule_says_and_its_dry_run_changes_nothing() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=5, -60_000, &[]).await;
    let every = Schedule::parse("7d").unwrap();
    let sweep =
        Sweep::new(wheel.clone(), &shop.settings(), SweepSettings { every, ..SweepSettings::default() })
            .unwrap();
    let anna = Operator::new(wheel.clone(), Person::new("anna", Door::Page).unwrap());
    let runs = |job: &'static str| {
        let wheel = wheel.clone();
        async move {
            let runs = wheel.job_runs(job, 10).await.unwrap();
            runs.iter().map(|run| serde_json::from_str::<Report>(run).unwrap()).collect::<Vec<_>>()
        }
    };
    // It never ran, so it is due; from then on not for a week.
    sweep.look().await.unwrap();
    assert!(matches!(sweep.look().await.unwrap(), Looked::Not(_)));
    shop.orders(6..=8, -60_000, &[]).await;

    anna.ask_for("sweep", true, "what would it do?").await.unwrap();
    assert!(matches!(sweep.look().await.unwrap(), Looked::Not(_)), "a dry run is no sweep");
    let previews = runs(PREVIEW).await;
    assert_eq!((previews.len(), previews[0].seen, previews[0].enqueued), (1, 8, 3));
    assert_eq!(wheel.inspect(&id("6")).await.unwrap().state, State::Absent, "nothing was done");
    sweep.look().await.unwrap();
    assert_eq!(runs(PREVIEW).await.len(), 1, "it is run once for each time that it is asked for");

    anna.ask_for("sweep", false, "do it").await.unwrap();
    let Looked::Ran(report) = sweep.look().await.unwrap() else { panic!("it was asked for") };
    assert_eq!(report.enqueued, 3);
    assert_eq!(wheel.inspect(&id("6")).await.unwrap().state, State::Scheduled);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!(matches!(sweep.look().await.unwrap(), Looked::Not(_)), "once");
    assert_eq!(runs("sweep").await.len(), 2);
}
