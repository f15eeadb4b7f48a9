//! The fleet and the SQL hook together: from the wheel through the worker to the shop's tables, and back.

use std::sync::Arc;
use std::time::Duration;

use duewheel::deadline::{DueAt, OnConflict};
use duewheel::hook::sql::SqlSettings;
use duewheel::retry::{Backoff, RetryPolicy};
use duewheel::wheel::Wheel;
use duewheel::worker::{Drained, Worker, WorkerSettings};
use tokio_util::sync::CancellationToken;

use crate::rig::eventually;
use crate::rig::redis::RedisServer;
use crate::rig::shop::{Kind, Shop, hook};
use crate::rig::wheel::{after, deadline, wheel};
use crate::rig::wire::{Mood, Wire};

/// Far above what an idle machine needs.
const PATIENCE: Duration = Duration::from_secs(180);

/// A worker of its own, with sessions of its own.
pub struct Running {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Drained>,
}

impl Running {
    pub fn start(wheel: &Wheel, settings: SqlSettings) -> Self {
        let backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(200), 0.2).unwrap();
        let worker = WorkerSettings {
            lease: Duration::from_secs(8),
            lease_margin: Duration::from_millis(200),
            retry: RetryPolicy { backoff, max_attempts: 3, poison_limit: 5 },
            gone_grace: Duration::from_millis(50),
            not_due_wait: Duration::from_millis(50),
            ..WorkerSettings::default()
        };
        let settings = SqlSettings {
            timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_millis(500),
            lock_timeout: Duration::from_secs(1),
            ..settings
        };
        let worker = Worker::new(wheel.clone(), Arc::new(hook(settings)), worker).unwrap();
        let stop = CancellationToken::new();
        let given = stop.clone();
        Self { stop, task: tokio::spawn(async move { worker.run(given).await }) }
    }

    pub async fn drain(self) -> Drained {
        self.stop.cancel();
        self.task.await.unwrap()
    }
}

pub async fn enqueue_all(wheel: &Wheel, ids: impl IntoIterator<Item = i64>, due: impl Fn(i64) -> DueAt) {
    let batch: Vec<_> = ids.into_iter().map(|id| deadline(&id.to_string(), due(id))).collect();
    for answer in wheel.enqueue_batch(&batch, OnConflict::Keep, false).await {
        answer.unwrap().unwrap();
    }
}

/// Waits until that many deadlines ended and none is leased; answers how many are dead.
pub async fn all_ended(wheel: &Wheel, count: u64) -> u64 {
    eventually(PATIENCE, || async {
        let stats = wheel.stats().await.ok()?;
        let total = |name: &str| stats.totals.get(name).copied().unwrap_or(0);
        (total("closed") + total("skipped") + stats.dead >= count && stats.leased == 0).then_some(stats.dead)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_close_a_shop_at_its_own_times_while_buyers_pay() {
    for kind in Kind::ALL {
        let shop = Arc::new(Shop::open(kind, 5).await);
        let wheel = wheel(RedisServer::shared(), 4).await;
        for wave in 0..10 {
            let ids = wave * 60..wave * 60 + 60;
            shop.orders(
                ids.clone(),
                1500 + wave * 100,
                &[(wave as usize % 5, 1), ((wave as usize + 2) % 5, 2)],
            )
            .await;
            // The wheel is a little ahead of the table: its orders are asked for early, and must wait for the table.
            enqueue_all(&wheel, ids, |_| after(1400 + wave as u64 * 100)).await;
        }
        let workers = [Running::start(&wheel, shop.settings()), Running::start(&wheel, shop.settings())];
        let payer = {
            let shop = Arc::clone(&shop);
            tokio::spawn(async move {
                let mut paid = 0;
                let mut ids: Vec<i64> = (0..600).collect();
                fastrand::shuffle(&mut ids);
                for id in ids.into_iter().take(300) {
                    let pay =
                        format!("UPDATE orders SET status = 'paid' WHERE id = {id} AND status = 'unpaid'");
                    paid += shop.db.run(&pay).await;
                    tokio::time::sleep(Duration::from_millis(6)).await;
                }
                paid as i64
            })
        };
        assert_eq!(all_ended(&wheel, 600).await, 0, "{kind:?}: dead");
        let paid = payer.await.unwrap();
        let mut tallied = (0, 0);
        for worker in workers {
            let drained = worker.drain().await;
            assert!(drained.clean, "{kind:?}: {drained:?}");
            tallied = (tallied.0 + drained.tally.closed, tallied.1 + drained.tally.skipped);
        }
        assert_eq!((tallied.0 as i64, tallied.1 as i64), (600 - paid, paid), "{kind:?}");
        assert_eq!(shop.count("FROM orders WHERE status = 'closed'").await, 600 - paid, "{kind:?}");
        let early = match kind {
            Kind::Sqlite => "unixepoch(closed_at, 'subsec') < unixepoch(close_at, 'subsec')",
            _ => "closed_at < close_at",
        };
        assert_eq!(shop.count(&format!("FROM orders WHERE {early}")).await, 0, "{kind:?}: closed early");
        shop.balance().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_down_for_longer_than_all_attempts_kills_no_order() {
    for kind in Kind::SERVERS {
        let shop = Shop::open(kind, 1).await;
        shop.orders(0..200, -1000, &[(0, 1)]).await;
        let (wire, url) = Wire::to(&shop.url).await;
        wire.set(Mood::Dead);
        let wheel = wheel(RedisServer::shared(), 2).await;
        enqueue_all(&wheel, 0..200, |_| after(0)).await;
        let worker = Running::start(&wheel, SqlSettings { urls: vec![url.into()], ..shop.settings() });
        // Three attempts with a back-off of at most 200 ms would be over several times.
        tokio::time::sleep(Duration::from_secs(4)).await;
        let stats = wheel.stats().await.unwrap();
        assert_eq!((stats.dead, stats.totals.get("closed").copied().unwrap_or(0)), (0, 0), "{kind:?}");
        wire.set(Mood::Pass);
        assert_eq!(all_ended(&wheel, 200).await, 0, "{kind:?}: dead");
        assert_eq!(shop.count("FROM orders WHERE status = 'closed'").await, 200, "{kind:?}");
        worker.drain().await;
        shop.balance().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_orders_end_dead_alone_and_the_rest_of_their_batch_is_closed() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 2).await;
        shop.orders(0..100, -1000, &[(0, 1)]).await;
        // Giving this item's stock back would make the reserved number negative.
        shop.orders([100, 101], -1000, &[(1, 4)]).await;
        shop.db.run("UPDATE item SET reserved = 0, available = 1000000 WHERE sku = 'sku-0001'").await;
        let wheel = wheel(RedisServer::shared(), 1).await;
        enqueue_all(&wheel, 0..=102, |_| after(0)).await;
        let worker = Running::start(&wheel, shop.settings());
        // The two that fail, and the one that has no row.
        assert_eq!(all_ended(&wheel, 103).await, 3, "{kind:?}");
        assert_eq!(shop.count("FROM orders WHERE status = 'closed'").await, 100, "{kind:?}");
        assert_eq!(shop.count("FROM closes").await, 100, "{kind:?}");
        worker.drain().await;
    }
}
