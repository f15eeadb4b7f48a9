//! INPUTS 8, the last row, under a working fleet: the database dies in the middle of closes and comes back. Nothing is lost, nothing is
//! closed twice, no attempt is counted.

use std::time::{Duration, Instant};

use crate::rig::database::DatabaseServer;
use crate::rig::proxy::Proxy;
use crate::rig::redis::RedisServer;
use crate::rig::shop::{Db, Kind, Shop};
use crate::rig::worker::{Fleet, Plan, soon};
use crate::rig::{PATIENCE, eventually, is_long};

const ORDERS: i64 = 300;
/// How long it is away.
const AWAY: Duration = Duration::from_millis(700);
/// How soon after it is back all must be closed. Mostly it takes a second; a machine that does other things may keep a commit waiting for
/// its disk for longer than a session is waited for.
const RECOVERY: Duration = Duration::from_secs(30);

/// The database goes away by `goes` while some orders are closed, others are in the middle of their close and the rest is not due yet;
/// `comes` brings it back. The shop is reached through the proxy.
async fn survives(kind: Kind, shop: &Shop, goes: impl AsyncFnOnce(), comes: impl AsyncFnOnce()) {
    let server = RedisServer::shared();
    shop.orders(1..=ORDERS, -1000, &[(0, 1), (1, 2)]).await;
    let fleet = Fleet::new(server, &Plan::new(server.url()).closing(shop)).await;
    let mut worker = fleet.start_serving().await;
    let begin = soon(100);
    fleet.enqueue(1..=ORDERS, |n| begin.plus(Duration::from_millis(5 * n as u64))).await;
    let closed = async || shop.count("FROM orders WHERE status = 'closed'").await;
    eventually(PATIENCE, async || (closed().await >= ORDERS / 10).then_some(())).await;
    // From here on a close waits for this item: its order is changed and its transaction is open.
    let db = shop.db.clone();
    let (sleep, begins) = match kind {
        Kind::Postgres => ("SELECT pg_sleep(60)", "BEGIN"),
        _ => ("SELECT SLEEP(60)", "START TRANSACTION"),
    };
    let hold =
        format!("{begins}; SELECT available FROM item WHERE sku = 'sku-0001' FOR UPDATE; {sleep}; COMMIT");
    let holder = tokio::spawn(async move { db.try_run(&hold).await });
    let before = eventually(PATIENCE, async || {
        let first = closed().await;
        tokio::time::sleep(Duration::from_millis(150)).await;
        (closed().await == first).then_some(first)
    })
    .await;
    assert!(before < ORDERS, "all were closed before the database went");
    goes().await;
    assert!(holder.await.unwrap().is_err(), "the session outlived its server");
    tokio::time::sleep(AWAY).await;
    comes().await;
    let back = Instant::now();
    let stats = fleet.idle(RECOVERY).await;
    println!("{kind:?}: {before} of {ORDERS} were closed; the rest {:?} after it was back", back.elapsed());
    assert_eq!((stats.dead, stats.totals["closed"], stats.totals["retried"]), (0, ORDERS as u64, 0));
    assert_eq!((closed().await, shop.count("FROM closes").await), (ORDERS, ORDERS));
    assert_eq!(shop.count("FROM closes WHERE attempt <> 1").await, 0);
    shop.balance().await;
    worker.still_runs();
    let tally = worker.drain().await;
    assert!(tally["unavailable"].as_u64() > Some(0), "nobody noticed: {tally}");
}

/// The server's process is killed, and started again from what its log has kept.
async fn survives_a_crash(kind: Kind) {
    let mut database = tokio::task::spawn_blocking(move || DatabaseServer::start(kind)).await.unwrap();
    let proxy = Proxy::start(database.port());
    let mut through = database.url();
    through.set_port(Some(proxy.port())).unwrap();
    let shop = Shop::open_on(kind, through.as_str(), 2).await;
    if kind == Kind::Postgres {
        // The machine itself does not crash, and its disk may be slow for everybody.
        shop.db.run("ALTER SYSTEM SET fsync = off").await;
        shop.db.run("SELECT pg_reload_conf()").await;
    }
    let database = std::cell::RefCell::new(&mut database);
    let goes = async || tokio::task::block_in_place(|| database.borrow_mut().crash());
    let comes = async || {
        tokio::task::block_in_place(|| database.borrow_mut().restart());
        proxy.lead_to(database.borrow().port());
    };
    survives(kind, &shop, goes, comes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_that_crashes_in_the_middle_of_closes_costs_no_order_and_closes_none_twice() {
    survives_a_crash(Kind::Postgres).await;
}

/// The shared server stays; every session of this shop's is killed and nobody can connect. With `DUEWHEEL_TEST_LONG` it is a server of
/// the test's own, whose first start takes seconds, and that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mariadb_that_goes_away_in_the_middle_of_closes_costs_no_order_and_closes_none_twice() {
    if is_long() {
        return survives_a_crash(Kind::Mariadb).await;
    }
    let mut through: url::Url = crate::rig::mariadb::server().parse().unwrap();
    let proxy = Proxy::start(through.port().unwrap());
    through.set_port(Some(proxy.port())).unwrap();
    let shop = Shop::open_on(Kind::Mariadb, through.as_str(), 2).await;
    let direct = Db::open(&crate::rig::mariadb::server()).await;
    let name = shop.url.rsplit('/').next().unwrap().to_owned();
    let goes = async || {
        proxy.down();
        let of = format!("SELECT CAST(id AS CHAR) FROM information_schema.processlist WHERE db = '{name}'");
        for row in direct.rows(&of).await {
            // One may be gone by itself.
            direct.try_run(&format!("KILL CONNECTION {}", row[0].as_ref().unwrap())).await.ok();
        }
    };
    survives(Kind::Mariadb, &shop, goes, async || proxy.heal()).await;
}
