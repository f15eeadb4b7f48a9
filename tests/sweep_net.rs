//! The net under a fleet: whatever Redis loses, every overdue unpaid order is closed soon after, once, never early, and the stock is exact.

use std::time::{Duration, Instant};

use duewheel::clock::Moment;
use duewheel::deadline::{DueAt, OnConflict};

use crate::rig::eventually;
use crate::rig::redis::{Aof, RedisOptions, RedisServer};
use crate::rig::shop::{Kind, Shop};
use crate::rig::wheel::deadline;
use crate::rig::worker::{Fleet, Plan, Process};

/// Between two sweeps.
const PERIOD: Duration = Duration::from_secs(1);
/// For what a loaded machine takes to close what was found.
const DRAIN: Duration = Duration::from_secs(60);

const SWEEP: &str = "[wheel.WHEEL.sweep]\nevery = \"1s\"\nrebuild = false\n";
const SWEEP_AND_REBUILD: &str = "[wheel.WHEEL.sweep]\nevery = \"1s\"\npage = 100\n";

/// A shop whose orders fall due one after the other, and its fleet.
struct Scene {
    server: RedisServer,
    shop: Shop,
    fleet: Fleet,
    orders: i64,
}

/// How many orders, and over how long they fall due: 20,000 at 500 a second where there is time.
fn size() -> (i64, u64) {
    if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() { (20_000, 40_000) } else { (600, 2000) }
}

/// Far above what an idle machine needs; how late an order was is judged by the table's own times.
const LONG_PATIENCE: Duration = Duration::from_secs(300);

impl Scene {
    /// The orders are in the table; nothing is on the wheel.
    async fn set(kind: Kind, options: RedisOptions, net: &str) -> Self {
        let (orders, millis) = size();
        let server = RedisServer::start(options);
        let shop = Shop::open(kind, 3).await;
        let fleet = Fleet::new(&server, &Plan::new(server.url()).closing(&shop).net(net)).await;
        let lead = if orders > 1000 { 30_000 } else { 1500 };
        let began = Moment::host_now();
        let part = orders / 40;
        for n in 0..40 {
            // Due by the database's clock at the moment that was meant, however long the inserts take.
            let due = began.plus(Duration::from_millis(lead + millis * n / 40));
            let ahead = due.as_millis() as i64 - Moment::host_now().as_millis() as i64;
            let from = n as i64 * part + 1;
            shop.orders(from..from + part, ahead, &[(n as usize % 3, 1)]).await;
        }
        Self { server, shop, fleet, orders }
    }

    /// What the shop's own code does: an enqueue for each order. What Redis refuses is not tried again.
    async fn enqueue_all(&self) {
        let rows = self.rows().await;
        for part in rows.chunks(2000) {
            let batch: Vec<_> = part
                .iter()
                .map(|(id, due)| deadline(id, DueAt::Moment(Moment::from_millis(*due).unwrap())))
                .collect();
            drop(self.fleet.wheel.enqueue_batch(&batch, OnConflict::Keep, false).await);
        }
    }

    async fn rows(&self) -> Vec<(String, u64)> {
        let query = match self.shop.kind {
            Kind::Postgres => {
                "SELECT id::text, ceil(extract(epoch FROM close_at) * 1000)::bigint::text FROM orders"
            }
            Kind::Mariadb => {
                "SELECT CAST(id AS CHAR), CAST(CEIL(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', close_at) / 1000) AS CHAR) FROM orders"
            }
            Kind::Sqlite => {
                "SELECT CAST(id AS TEXT), CAST(CAST(round(unixepoch(close_at, 'subsec') * 1000) AS INTEGER) AS TEXT) FROM orders"
            }
        };
        let rows = self.shop.db.rows(query).await;
        rows.into_iter()
            .map(|row| (row[0].clone().unwrap(), row[1].as_ref().unwrap().parse().unwrap()))
            .collect()
    }

    async fn closed(&self) -> i64 {
        self.shop.count("FROM orders WHERE status = 'closed'").await
    }

    async fn closed_at_least(&self, orders: i64) {
        eventually(LONG_PATIENCE, async || {
            tokio::time::sleep(Duration::from_millis(50)).await;
            (self.closed().await >= orders).then_some(())
        })
        .await;
    }

    /// Every order is closed within two periods of its time, and so long as Redis was away, once, none early, and the books balance.
    async fn all_closed(&self, away: Duration, workers: Vec<Process>) {
        self.closed_at_least(self.orders).await;
        let late = match self.shop.kind {
            Kind::Postgres => "max(extract(epoch FROM closed_at - close_at)) * 1000",
            Kind::Mariadb => "MAX(TIMESTAMPDIFF(MICROSECOND, close_at, closed_at)) / 1000",
            Kind::Sqlite => "max(unixepoch(closed_at, 'subsec') - unixepoch(close_at, 'subsec')) * 1000",
        };
        let late = Duration::from_millis(self.shop.db.number(late, "FROM orders").await as u64);
        println!("{:?}: {} closed, the latest {late:?} after it was due", self.shop.kind, self.orders);
        // Whatever was due while Redis was away waits for that, too.
        assert!(late <= away + 2 * PERIOD + DRAIN, "{late:?}");
        let early = match self.shop.kind {
            Kind::Sqlite => "unixepoch(closed_at, 'subsec') < unixepoch(close_at, 'subsec')",
            _ => "closed_at < close_at",
        };
        assert_eq!(self.shop.count(&format!("FROM orders WHERE {early}")).await, 0, "closed early");
        self.shop.balance().await;
        let stats = self.fleet.idle(LONG_PATIENCE).await;
        assert_eq!(stats.dead, 0);
        for worker in workers {
            worker.drain().await;
        }
        assert!(self.fleet.wheel.verify(false).await.unwrap().findings.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_redis_costs_no_order_where_the_table_is_swept() {
    for kind in Kind::ALL {
        let scene = Scene::set(kind, RedisOptions::default(), SWEEP).await;
        let workers = vec![scene.fleet.start(), scene.fleet.start()];
        scene.enqueue_all().await;
        scene.closed_at_least(scene.orders / 4).await;
        scene.server.command::<()>(&["FLUSHALL"]);
        scene.all_closed(Duration::ZERO, workers).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emptied_wheel_is_filled_from_the_table_before_its_orders_are_due() {
    let scene = Scene::set(Kind::Postgres, RedisOptions::default(), SWEEP_AND_REBUILD).await;
    let far: Vec<i64> = (1_000_001..1_000_301).collect();
    scene.shop.orders(far.iter().copied(), 3_600_000, &[]).await;
    let worker = scene.fleet.start();
    // Nobody enqueues anything: a new wheel is filled at once, and again after it was emptied.
    let filled = async || {
        eventually(LONG_PATIENCE, async || {
            (scene.fleet.wheel.stats().await.ok()?.scheduled >= 300).then_some(())
        })
        .await;
    };
    filled().await;
    scene.server.command::<()>(&["FLUSHALL"]);
    filled().await;
    scene.closed_at_least(scene.orders).await;
    assert_eq!(scene.closed().await, scene.orders);
    scene.shop.balance().await;
    let remembered =
        async || (!scene.fleet.wheel.job_runs("rebuild", 10).await.ok()?.is_empty()).then_some(());
    eventually(LONG_PATIENCE, remembered).await;
    worker.drain().await;
}

/// Where there is time, each database; else the one named: what Redis does is the same for all.
fn kinds(one: Kind) -> Vec<Kind> {
    if size().0 > 1000 { Kind::ALL.to_vec() } else { vec![one] }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_dies_without_a_log_costs_no_order() {
    for kind in kinds(Kind::Postgres) {
        let mut scene = Scene::set(kind, RedisOptions::default(), SWEEP).await;
        let workers = vec![scene.fleet.start(), scene.fleet.start()];
        scene.enqueue_all().await;
        scene.closed_at_least(scene.orders / 4).await;
        scene.server.kill9();
        scene.server.restart();
        scene.all_closed(Duration::ZERO, workers).await;
    }
}

/// CASES DW-047: what a crash takes out of the append-only file, the table still knows; what it brings back closes nothing twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_that_takes_the_last_second_of_the_log_costs_no_order_and_closes_none_twice() {
    let (orders, _) = size();
    let orders = if orders > 1000 { 5000 } else { 400 };
    for while_draining in [false, true] {
        let mut server = RedisServer::start(RedisOptions::aof(Aof::EverySec));
        let shop = Shop::open(Kind::Postgres, 3).await;
        let fleet = Fleet::new(&server, &Plan::new(server.url()).closing(&shop).net(SWEEP)).await;
        let ahead = if while_draining { 0 } else { 1500 };
        shop.orders(1..=orders, ahead, &[(0, 1), (1, 2)]).await;
        let due = Moment::host_now().plus(Duration::from_millis(ahead as u64));
        let mut workers = Vec::new();
        fleet.enqueue(1..=orders, |_| due).await;
        if while_draining {
            workers.push(fleet.start());
            let closed = async || {
                (shop.count("FROM orders WHERE status = 'closed'").await > orders / 10).then_some(())
            };
            eventually(LONG_PATIENCE, closed).await;
        }
        server.kill9();
        // A machine that stops loses what was written and not yet forced to its disk; a process alone does not.
        let lost = cut_the_log(&server);
        server.restart();
        workers.push(fleet.start());
        let scene = Scene { server, shop, fleet, orders };
        scene.all_closed(Duration::ZERO, workers).await;
        println!("{lost} bytes of the log were lost, while draining: {while_draining}");
    }
}

/// Cuts the last half off the newest part of the append-only file, as a machine that stops may; answers how much.
fn cut_the_log(server: &RedisServer) -> u64 {
    let folder = std::fs::read_dir(server.dir().join("appendonlydir")).expect("an append-only folder");
    let parts = folder.map(|entry| entry.expect("an entry").path());
    let newest = parts.filter(|path| path.to_string_lossy().ends_with(".incr.aof")).max().expect("a log");
    let file = std::fs::File::options().write(true).open(newest).expect("a file");
    let length = file.metadata().expect("a length").len();
    file.set_len(length / 2).expect("it can be cut");
    length - length / 2
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_while_orders_are_placed_costs_none() {
    for kind in kinds(Kind::Mariadb) {
        let mut scene = Scene::set(kind, RedisOptions::aof(Aof::EverySec), SWEEP).await;
        let workers = vec![scene.fleet.start(), scene.fleet.start()];
        scene.closed_at_least(1).await;
        scene.server.kill9();
        let down = Instant::now();
        let away = if size().0 > 1000 { 60 } else { 3 };
        // The shop's own calls fail meanwhile, and nobody repeats them.
        scene.enqueue_all().await;
        tokio::time::sleep(Duration::from_secs(away)).await;
        scene.server.restart();
        scene.all_closed(down.elapsed(), workers).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_is_killed_is_replaced_within_a_lease_and_the_two_make_one_sweep() {
    // Two hundred rows a second: the sweep lasts while its runner dies.
    let slow = "[wheel.WHEEL.sweep]\nevery = \"1s\"\nrebuild = false\npage = 100\nrows_per_second = 200\n";
    let server = RedisServer::start(RedisOptions::default());
    let shop = Shop::open(Kind::Sqlite, 1).await;
    shop.orders(1..=600, -60_000, &[(0, 1)]).await;
    let fleet = Fleet::new(&server, &Plan::new(server.url()).closing(&shop).net(slow)).await;
    let mut workers = vec![fleet.start(), fleet.start()];
    let holder = eventually(LONG_PATIENCE, async || {
        let record = fleet.wheel.job_record("sweep").await.ok()?;
        record.held_until?;
        let pid: u32 = record.runner?.split(':').nth(1)?.parse().ok()?;
        workers.iter().position(|worker| worker.pid() == pid)
    })
    .await;
    let mut dead = workers.remove(holder);
    dead.kill9();
    let killed = Instant::now();
    eventually(LONG_PATIENCE, async || {
        (shop.count("FROM orders WHERE status = 'closed'").await == 600).then_some(())
    })
    .await;
    println!("swept by another runner {:?} after the first died", killed.elapsed());
    shop.balance().await;
    let record = fleet.wheel.job_record("sweep").await.unwrap();
    assert!(record.runner.unwrap().contains(&format!(":{}:", workers[0].pid())));
    workers.remove(0).drain().await;
}

/// DW-045: the orders of a worker that died, and Redis has lost the set of their leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_in_hand_whose_leases_redis_lost_are_put_back_and_closed() {
    let server = RedisServer::start(RedisOptions::default());
    let shop = Shop::open(Kind::Sqlite, 1).await;
    shop.orders(1..=10, -60_000, &[]).await;
    let fleet = Fleet::new(&server, &Plan::new(server.url()).closing(&shop).net(SWEEP).shards(1)).await;
    let mut victim = fleet.start_doomed("after_claim");
    victim.ended(LONG_PATIENCE).await;
    let leases = format!("dw1:{{{}.0}}:leases", fleet.wheel.name());
    let held = server.command::<u64>(&["ZCARD", &leases]);
    assert!(held > 0, "it died with orders in hand");
    server.command::<u64>(&["DEL", &leases]);
    let worker = fleet.start();
    let all_closed = async || {
        tokio::time::sleep(Duration::from_millis(50)).await;
        (shop.count("FROM orders WHERE status = 'closed'").await == 10).then_some(())
    };
    eventually(LONG_PATIENCE, all_closed).await;
    shop.balance().await;
    worker.drain().await;
    assert!(fleet.wheel.verify(false).await.unwrap().findings.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_drains_lets_its_sweep_go_at_once() {
    let slow = "[wheel.WHEEL.sweep]\nevery = \"1s\"\nrebuild = false\npage = 10\nrows_per_second = 10\n";
    let server = RedisServer::start(RedisOptions::default());
    let shop = Shop::open(Kind::Sqlite, 1).await;
    shop.orders(1..=200, -60_000, &[]).await;
    let fleet = Fleet::new(&server, &Plan::new(server.url()).closing(&shop).net(slow)).await;
    let worker = fleet.start();
    eventually(LONG_PATIENCE, async || fleet.wheel.job_record("sweep").await.ok()?.held_until).await;
    // However slow Redis is just then.
    server.command::<()>(&["CLIENT", "PAUSE", "500", "WRITE"]);
    worker.drain().await;
    let record = fleet.wheel.job_record("sweep").await.unwrap();
    assert!(record.held_until.is_none(), "{record:?}");
}
