//! The shop's side away for longer than all attempts would last: nothing is put aside as dead, no attempt is counted, and everything is
//! closed soon after it is back. What answers wrongly is another matter: that is counted, and waited for with growing pauses.

use std::time::{Duration, Instant};

use crate::rig::proxy::Proxy;
use crate::rig::redis::RedisServer;
use crate::rig::shop::{Db, Kind, Shop};
use crate::rig::stub::{Answer, Body, Stub};
use crate::rig::worker::{Fleet, Plan, soon};
use crate::rig::{PATIENCE, eventually};

/// Three attempts with pauses of at most 200 ms would be over in a second.
const OUTAGE: Duration = Duration::from_secs(3);

fn plan(server: &RedisServer) -> Plan {
    Plan::new(server.url()).worker("max_attempts", "3")
}

/// All ended, none dead, no attempt counted, soon after the shop is back.
async fn recovers(fleet: &Fleet, what: &str) {
    let began = Instant::now();
    let stats = fleet.idle(Duration::from_secs(30)).await;
    println!("{what}: all ended {:?} after it was back", began.elapsed());
    assert_eq!((stats.dead, stats.totals["retried"]), (0, 0), "{stats:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_is_down_costs_no_order_and_no_attempt() {
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    let proxy = Proxy::start(stub.address().port());
    let fleet =
        Fleet::new(server, &plan(server).calling(&format!("http://127.0.0.1:{}/close", proxy.port()))).await;
    let worker = fleet.start_known(1).await.remove(0);
    proxy.down();
    fleet.enqueue(1..=200, |n| soon(n as u64)).await;
    tokio::time::sleep(OUTAGE).await;
    assert_eq!((stub.calls().len(), fleet.wheel.stats().await.unwrap().dead), (0, 0));
    proxy.heal();
    recovers(&fleet, "endpoint down").await;
    let tally = worker.drain().await;
    assert_eq!((&tally["closed"], stub.calls().len()), (&200.into(), 200), "{tally}");
    assert!(stub.calls().iter().all(|call| call.data()["attempt"] == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_serves_nobody_costs_no_order_and_no_attempt() {
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    stub.otherwise(Answer::status(503));
    let fleet = Fleet::new(server, &plan(server).calling(&stub.url("/close"))).await;
    let worker = fleet.start();
    fleet.enqueue(1..=200, |_| soon(0)).await;
    tokio::time::sleep(OUTAGE).await;
    let during = stub.calls().len();
    stub.otherwise(Answer::status(200));
    recovers(&fleet, "503").await;
    println!("{during} calls in {OUTAGE:?} of 503");
    worker.drain().await;
    assert!(stub.calls().iter().all(|call| call.data()["attempt"] == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_never_answers_gives_its_places_back() {
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    stub.otherwise(Answer::status(200).of(Body::Hang));
    let plan = plan(server)
        .calling(&stub.url("/close"))
        .hook("connect_timeout", "\"400ms\"")
        .hook("timeout", "\"400ms\"")
        .worker("concurrency", "4");
    let fleet = Fleet::new(server, &plan).await;
    let worker = fleet.start();
    fleet.enqueue(1..=40, |_| soon(0)).await;
    eventually(PATIENCE, async || (stub.calls().len() >= 8).then_some(())).await;
    stub.otherwise(Answer::status(200));
    recovers(&fleet, "endpoint that hung").await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_that_answers_an_error_is_asked_with_growing_pauses_and_then_the_order_waits_for_a_person()
 {
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    stub.otherwise(Answer::status(500));
    let plan = plan(server).calling(&stub.url("/close")).worker("backoff_base", "\"200ms\"");
    let fleet =
        Fleet::new(server, &plan.worker("backoff_cap", "\"2s\"").worker("backoff_jitter", "0.0")).await;
    stub.script("2", vec![Answer::status(500), Answer::status(500), Answer::status(200)]);
    let worker = fleet.start();
    fleet.enqueue(1..=2, |_| soon(0)).await;
    let stats = fleet.idle(PATIENCE).await;
    assert_eq!((stats.dead, stats.totals["closed"], stats.totals["retried"]), (1, 1, 4), "{stats:?}");
    let calls = stub.calls_for("1");
    let attempts: Vec<_> = calls.iter().map(|call| call.data()["attempt"].as_u64().unwrap()).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let pauses: Vec<_> = calls.windows(2).map(|two| two[1].arrived_ms - two[0].arrived_ms).collect();
    assert!(pauses[0] >= 200 && pauses[1] >= 400, "{pauses:?}");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_somebody_else_has_locked_costs_no_order_and_no_attempt() {
    let (server, shop) = (RedisServer::shared(), Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=200, -1000, &[(0, 1)]).await;
    let plan = plan(server).closing(&shop).hook("lock_timeout", "\"300ms\"");
    let fleet = Fleet::new(server, &plan).await;
    let worker = fleet.start_known(1).await.remove(0);
    let Db::Sqlite(pool) = &shop.db else { panic!("a SQLite shop") };
    let busy = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    fleet.enqueue(1..=200, |_| soon(0)).await;
    tokio::time::sleep(OUTAGE).await;
    drop(busy);
    recovers(&fleet, "locked SQLite").await;
    assert_eq!(shop.count("FROM closes WHERE attempt = 1").await, 200);
    shop.balance().await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_costs_no_order_and_no_attempt() {
    for kind in Kind::SERVERS {
        let (server, shop) = (RedisServer::shared(), Shop::open(kind, 1).await);
        shop.orders(1..=200, -1000, &[(0, 1)]).await;
        let url = url::Url::parse(&shop.url).unwrap();
        let proxy = Proxy::start(url.port().expect("a port"));
        let mut through = url;
        through.set_port(Some(proxy.port())).unwrap();
        let plan = plan(server).closing(&shop).hook("url", &format!("{:?}", through.as_str()));
        let fleet = Fleet::new(server, &plan.hook("connect_timeout", "\"2s\"")).await;
        let worker = fleet.start_known(1).await.remove(0);
        proxy.down();
        fleet.enqueue(1..=200, |_| soon(0)).await;
        tokio::time::sleep(OUTAGE).await;
        assert_eq!(shop.count("FROM closes").await, 0);
        proxy.heal();
        recovers(&fleet, &format!("{kind:?} away")).await;
        assert_eq!(shop.count("FROM closes WHERE attempt = 1").await, 200);
        shop.balance().await;
        worker.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_starts_while_its_shop_is_away_waits_for_it() {
    let (server, shop) = (RedisServer::shared(), Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=20, -1000, &[(0, 1)]).await;
    let fleet = Fleet::new(server, &plan(server).closing(&shop).hook("lock_timeout", "\"300ms\"")).await;
    let Db::Sqlite(pool) = &shop.db else { panic!("a SQLite shop") };
    let busy = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let mut worker = fleet.start();
    fleet.enqueue(1..=20, |_| soon(0)).await;
    eventually(PATIENCE, async || worker.log().contains("asking again").then_some(())).await;
    tokio::time::sleep(OUTAGE).await;
    worker.still_runs();
    drop(busy);
    recovers(&fleet, "started without its shop").await;
    shop.balance().await;
    worker.drain().await;
}
