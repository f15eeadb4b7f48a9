//! Redis's clock steps while calls are under way: whatever it does, each order is closed once, and no lease is stuck.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duewheel::wheel::Wheel;
use duewheel::worker::WorkerSettings;

use crate::rig::clock_shim::ClockShim;
use crate::rig::crew::{Mate, closed, enqueue_range, quick};
use crate::rig::hook::Recorder;
use crate::rig::redis::RedisServer;
use crate::rig::strain::Strain;
use crate::rig::stub::{Answer, Body, Stub};
use crate::rig::wheel::{after, wheel};
use crate::rig::worker::{Fleet, Plan, soon};
use crate::rig::{PATIENCE, eventually, is_long};

const ORDERS: u64 = 50;
const STEP_MS: i64 = 600_000;

/// In the long form each lease is renewed at least once while its hook works. On a machine that does other things no lease may be short:
/// an order whose verdict comes too late waits for the end of its lease, by Redis's clock.
fn times() -> (Duration, Duration) {
    if is_long() {
        (Duration::from_secs(3), Duration::from_secs(5))
    } else {
        (Duration::from_secs(1), Duration::from_secs(30))
    }
}

fn settings() -> WorkerSettings {
    WorkerSettings { concurrency: 64, lease: times().1, ..quick() }
}

async fn sound(wheel: &Wheel) {
    let found = wheel.verify(false).await.unwrap().findings;
    assert!(found.is_empty(), "{found:?}");
}

/// DW-038, the step back: the clock stays where it is until all is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_in_hand_when_redis_steps_back_are_settled_by_its_new_time_and_leave_no_lease() {
    let strain = Strain::start();
    let clock = ClockShim::new();
    let server = RedisServer::start(clock.redis());
    let wheel = wheel(&server, 2).await;
    let hook = Arc::new(Recorder::closing().taking(times().0).one_by_one());
    enqueue_range(&wheel, 0..ORDERS, |_| after(0)).await;
    let mate = Mate::start(&wheel, hook.clone(), settings());
    eventually(PATIENCE, async || (hook.count() as u64 >= ORDERS).then_some(())).await;
    let stepped = Instant::now();
    clock.set(-STEP_MS);
    closed(&wheel, ORDERS).await;
    let took = stepped.elapsed();
    assert!(took <= strain.allows(times().0 + Duration::from_secs(1)), "{took:?}");
    let stats = wheel.stats().await.unwrap();
    assert_eq!((stats.leased, stats.scheduled, stats.dead), (0, 0, 0), "{stats:?}");
    assert_eq!(hook.count() as u64, ORDERS, "each was called once");
    let tally = mate.drain().await.tally;
    assert!(
        !is_long() || tally.renewed >= ORDERS,
        "the leases were to be renewed by the new time: {tally:?}"
    );
    sound(&wheel).await;
}

#[cfg(feature = "sql")]
mod sql {
    use std::sync::atomic::{AtomicU64, Ordering};

    use duewheel::error::Result;
    use duewheel::hook::sql::SqlHook;
    use duewheel::hook::{BoxFuture, Hook, Verdict};
    use duewheel::lease::Lease;
    use duewheel::shard::WheelName;

    use super::*;
    use crate::rig::clock_shim::ClockShim;
    use crate::rig::shop::{Kind, Shop};

    /// The shop's own hook, which takes its time; counts the orders that it was called for.
    struct Slow {
        close: SqlHook,
        wait: Duration,
        calls: AtomicU64,
    }

    impl Hook for Slow {
        fn judge<'a>(&'a self, wheel: &'a WheelName, leases: &'a [Lease]) -> BoxFuture<'a, Vec<Verdict>> {
            Box::pin(async move {
                self.calls.fetch_add(leases.len() as u64, Ordering::SeqCst);
                tokio::time::sleep(self.wait).await;
                self.close.judge(wheel, leases).await
            })
        }

        fn timeout(&self) -> Duration {
            self.wait + self.close.timeout()
        }

        fn batch_size(&self) -> usize {
            self.close.batch_size()
        }

        fn check(&self) -> BoxFuture<'_, Result<Vec<String>>> {
            self.close.check()
        }
    }

    /// DW-038, the step forward: all leases are over at once. Without the clock guard another worker takes the orders while the first one
    /// still works on them; with it they wait until the clock is right.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn leases_that_a_step_forward_ends_bring_no_second_close() {
        for skew_max in [Duration::ZERO, Duration::from_secs(2)] {
            let clock = ClockShim::new();
            let server = RedisServer::start(clock.redis());
            let wheel = wheel(&server, 2).await;
            let shop = Shop::open(Kind::Sqlite, 2).await;
            shop.orders(0..ORDERS as i64, -1000, &[(0, 1), (1, 2)]).await;
            let wait = times().0;
            let hook = Arc::new(Slow { close: shop.hook(), wait, calls: AtomicU64::new(0) });
            let calls = || hook.calls.load(Ordering::SeqCst);
            enqueue_range(&wheel, 0..ORDERS, |_| after(0)).await;
            let settings = WorkerSettings { skew_max, lease: Duration::from_secs(30), ..settings() };
            let mates = [0, 1].map(|_| Mate::start(&wheel, hook.clone(), settings.clone()));
            eventually(PATIENCE, async || (calls() >= ORDERS).then_some(())).await;
            clock.set(STEP_MS);
            if skew_max.is_zero() {
                eventually(PATIENCE, async || (calls() > ORDERS).then_some(())).await;
            } else {
                eventually(PATIENCE, async || {
                    (shop.count("FROM closes").await == ORDERS as i64).then_some(())
                })
                .await;
                assert_eq!(calls(), ORDERS, "nothing is called while the clocks disagree");
                clock.set(0);
            }
            eventually(PATIENCE, async || {
                let stats = wheel.stats().await.ok()?;
                (stats.scheduled + stats.leased == 0).then_some(())
            })
            .await;
            assert_eq!(shop.count("FROM orders WHERE status = 'closed'").await, ORDERS as i64);
            assert_eq!(shop.count("FROM closes").await, ORDERS as i64, "closed twice");
            shop.balance().await;
            println!("guard {skew_max:?}: {} calls for {ORDERS} orders", calls());
            assert!(calls() <= 2 * ORDERS, "{} calls", calls());
            let stats = wheel.stats().await.unwrap();
            assert_eq!((stats.dead, stats.totals["retried"]), (0, 0), "{stats:?}");
            for mate in mates {
                mate.drain().await;
            }
            sound(&wheel).await;
        }
    }
}

/// DW-137: nobody else was there. An hour later one is started, and the orders wait for nothing but its hook.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_of_a_worker_that_was_killed_alone_are_closed_at_once_by_one_started_an_hour_later() {
    const HOOK: Duration = Duration::from_millis(200);
    const AT_ONCE: Duration = Duration::from_secs(2);
    let strain = Strain::start();
    let (clock, stub) = (ClockShim::new(), Stub::start().await);
    let server = RedisServer::start(clock.redis());
    let fleet = Fleet::new(&server, &Plan::new(server.url()).calling(&stub.url("/close"))).await;
    for n in 1..=ORDERS {
        let answers = vec![Answer::status(200).of(Body::Hang), Answer::status(200).after(HOOK)];
        stub.script(&n.to_string(), answers);
    }
    let environment = clock.environment();
    let environment: Vec<_> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut victim = fleet.start_with(&environment);
    fleet.enqueue(1..=ORDERS as i64, |_| soon(0)).await;
    eventually(PATIENCE, async || (stub.calls().len() as u64 >= ORDERS).then_some(())).await;
    victim.kill9();
    assert_eq!(fleet.wheel.stats().await.unwrap().leased, ORDERS);
    clock.set(3_600_000);
    let heir = fleet.start_with(&environment);
    let started = Instant::now();
    fleet.idle(PATIENCE).await;
    let took = started.elapsed();
    println!("all closed {took:?} after the start");
    // A debug build on a machine that does other things is slow to start.
    let start = if is_long() { Duration::ZERO } else { Duration::from_secs(2) };
    assert!(took <= strain.allows(AT_ONCE + HOOK + start), "{took:?}");
    for n in 1..=ORDERS {
        let calls = stub.calls_for(&n.to_string());
        let attempts: Vec<_> = calls.iter().map(|call| call.data()["attempt"].as_u64()).collect();
        assert_eq!(attempts, [Some(1), Some(1)], "order {n}");
    }
    let tally = heir.drain().await;
    assert_eq!((&tally["closed"], &tally["reaped"]), (&ORDERS.into(), &ORDERS.into()), "{tally}");
    sound(&fleet.wheel).await;
}
