//! The clock guard: while clocks disagree nothing is claimed, nothing is closed early, and it says why.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use duewheel::clock::{Moment, Reading};
use duewheel::error::Result;
use duewheel::hook::{BoxFuture, Hook, Verdict};
use duewheel::lease::Lease;
use duewheel::shard::WheelName;
use duewheel::worker::WorkerSettings;

use crate::rig::clock_shim::ClockShim;
use crate::rig::crew::{Mate, closed, enqueue_range, held_back, quick};
use crate::rig::hook::Recorder;
use crate::rig::redis::RedisServer;
use crate::rig::wheel::{after, wheel};
use crate::rig::worker::{Fleet, Plan};
use crate::rig::{PATIENCE, eventually};

const HOUR: i64 = 3_600_000;

/// Long enough for every poller to have looked several times.
async fn a_while() {
    tokio::time::sleep(Duration::from_millis(900)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_that_jumps_two_hours_ahead_gets_nothing_called_early_and_is_waited_for() {
    let clock = ClockShim::new();
    let server = RedisServer::start(clock.redis());
    let wheel = wheel(&server, 4).await;
    let hook = Arc::new(Recorder::closing());
    enqueue_range(&wheel, 0..40, |_| after(3_600_000)).await;
    let mate = Mate::start(&wheel, hook.clone(), quick());
    enqueue_range(&wheel, 100..110, |_| after(0)).await;
    closed(&wheel, 10).await;
    let jumped = Instant::now();
    clock.set(2 * HOUR);
    // The orders of an hour from now are due by Redis; claimed or not, none may reach the hook.
    let reason = held_back(&wheel, "clock").await;
    assert!(reason.starts_with("this host's clock is ") && reason.contains(" behind Redis's"), "{reason}");
    assert!(jumped.elapsed() < Duration::from_secs(3), "said after {:?}", jumped.elapsed());
    a_while().await;
    assert_eq!(hook.count(), 10, "called early");
    assert_eq!(wheel.stats().await.unwrap().due, 40, "what Redis calls due stays in sight");
    clock.set(0);
    enqueue_range(&wheel, 200..210, |_| after(0)).await;
    closed(&wheel, 20).await;
    let drained = mate.drain().await;
    assert_eq!((hook.count(), drained.tally.closed), (20, 20), "by itself, and only what is due");
    let stats = wheel.stats().await.unwrap();
    assert_eq!((stats.scheduled, stats.totals["retried"]), (40, 0), "no attempt was counted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_that_steps_back_is_waited_for_too() {
    let clock = ClockShim::new();
    let server = RedisServer::start(clock.redis());
    let wheel = wheel(&server, 2).await;
    let hook = Arc::new(Recorder::closing());
    let mate = Mate::start(&wheel, hook.clone(), quick());
    enqueue_range(&wheel, 0..5, |_| after(0)).await;
    closed(&wheel, 5).await;
    clock.set(-HOUR / 6);
    let reason = held_back(&wheel, "ahead of Redis's").await;
    enqueue_range(&wheel, 10..15, |_| after(0)).await;
    a_while().await;
    assert_eq!(hook.count(), 5, "{reason}");
    // An ordinary correction is none of its business.
    clock.set(-800);
    closed(&wheel, 10).await;
    assert!(mate.drain().await.clean);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_guard_calls_are_early_so_the_guard_is_what_holds_them() {
    let clock = ClockShim::new();
    let server = RedisServer::start(clock.redis());
    let wheel = wheel(&server, 2).await;
    let hook = Arc::new(Recorder::closing());
    enqueue_range(&wheel, 0..10, |_| after(3_600_000)).await;
    let mate = Mate::start(&wheel, hook.clone(), WorkerSettings { skew_max: Duration::ZERO, ..quick() });
    clock.set(2 * HOUR);
    closed(&wheel, 10).await;
    mate.drain().await;
}

/// Beside the crash test of DW-035: meanwhile the others go on, and `inspect` says why a lone one does not. Without the guard it closes on,
/// each order once, because its clock decides nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_own_clock_steps_back_stops_without_harm_and_the_others_go_on() {
    let server = RedisServer::shared();
    let now_ms = i64::try_from(Moment::host_now().as_millis()).unwrap();
    for skew_max in ["2s", "0s"] {
        let net =
            format!("[wheel.WHEEL.sweep]\nevery = \"off\"\n[wheel.WHEEL.clock]\nskew_max = {skew_max:?}\n");
        let plan = Plan::new(server.url()).hook("kind", "\"log\"").net(&net);
        let fleet = Fleet::new(server, &plan).await;
        let clock = ClockShim::new();
        let environment = clock.environment();
        let environment: Vec<_> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut stepped = fleet.start_with(&environment);
        fleet.known(&[&stepped]).await;
        for (round, step) in [(0, -HOUR), (1, -now_ms - 1000)] {
            clock.set(step);
            let ids = round * 100..round * 100 + 100;
            if skew_max == "2s" {
                held_back(&fleet.wheel, "behind Redis's").await;
                enqueue_range(&fleet.wheel, ids, |_| after(0)).await;
                a_while().await;
                assert_eq!(fleet.wheel.stats().await.unwrap().due, 100);
                let why = fleet.run(&["inspect", &(round * 100).to_string()]).stdout;
                assert!(why.contains("every worker is held back: this host's clock is"), "{why}");
                // Another one has the right time.
                let right = fleet.start();
                closed(&fleet.wheel, (round + 1) * 100).await;
                right.drain().await;
            } else {
                enqueue_range(&fleet.wheel, ids, |_| after(0)).await;
                closed(&fleet.wheel, (round + 1) * 100).await;
            }
            stepped.still_runs();
        }
        clock.set(0);
        assert_eq!(fleet.wheel.stats().await.unwrap().totals["closed"], 200);
        let log = stepped.log();
        assert!(!log.contains("panicked"), "{log}");
        let tally = stepped.drain().await;
        assert_eq!(tally["closed"].as_u64().unwrap(), if skew_max == "2s" { 0 } else { 200 });
        assert!(tally.as_object().unwrap().values().all(|value| value.as_u64().unwrap() < 1_000_000_000));
    }
}

/// A hook whose database's clock a test sets.
struct Shifted {
    recorder: Recorder,
    ahead_us: AtomicI64,
}

impl Hook for Shifted {
    fn judge<'a>(&'a self, wheel: &'a WheelName, leases: &'a [Lease]) -> BoxFuture<'a, Vec<Verdict>> {
        self.recorder.judge(wheel, leases)
    }

    fn timeout(&self) -> Duration {
        self.recorder.timeout()
    }

    fn batch_size(&self) -> usize {
        self.recorder.batch_size()
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        self.recorder.check()
    }

    fn clocks(&self) -> BoxFuture<'_, Vec<(String, Reading)>> {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
        let us = i64::try_from(wall).unwrap() + self.ahead_us.load(Ordering::SeqCst);
        let at = Instant::now();
        let reading = Reading { us: u64::try_from(us).unwrap(), sent: at, received: at };
        Box::pin(async move { vec![("shop database".to_owned(), reading)] })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_disagrees_with_redis_stops_every_worker() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let ahead = |ms: i64| Shifted { recorder: Recorder::closing(), ahead_us: AtomicI64::new(ms * 1000) };
    let hooks = [Arc::new(ahead(5000)), Arc::new(ahead(5000))];
    let mates = hooks.clone().map(|hook| Mate::start(&wheel, hook, quick()));
    eventually(PATIENCE, || async {
        let workers = wheel.presence().await.unwrap().workers;
        let held =
            workers.iter().filter(|w| w.held_back.iter().any(|r| r.contains("the clock of shop database")));
        (held.count() == 2 && workers.iter().all(|w| (4500..=5500).contains(&w.clocks["shop database"])))
            .then_some(())
    })
    .await;
    enqueue_range(&wheel, 0..20, |_| after(0)).await;
    a_while().await;
    assert_eq!(hooks.iter().map(|hook| hook.recorder.count()).sum::<usize>(), 0);
    hooks.iter().for_each(|hook| hook.ahead_us.store(0, Ordering::SeqCst));
    closed(&wheel, 20).await;
    for mate in mates {
        assert!(mate.drain().await.clean);
    }
}

#[cfg(feature = "sql")]
mod sql {
    use super::*;
    use crate::rig::shop::{Kind, Shop};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_database_shows_its_own_clock() {
        for kind in Kind::ALL {
            let shop = Shop::open(kind, 0).await;
            let read = shop.hook().clocks().await;
            if kind == Kind::Sqlite {
                assert!(read.is_empty(), "its clock is this host's");
                continue;
            }
            let (name, reading) = &read[0];
            assert!(!reading.host_ahead().exceeds(Duration::from_millis(500)), "{name}: {reading:?}");
            let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
            assert!(wall.abs_diff(reading.us / 1_000_000) <= 2, "{name}: microseconds of {kind:?}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn redis_two_hours_ahead_closes_no_order_early_by_the_databases_clock() {
        for kind in Kind::ALL {
            // Without the guard the database's clock is the second lock; with it, on whichever database, not even that is asked.
            let guarded = (kind == Kind::Sqlite).then_some(Duration::from_secs(2));
            for skew_max in [Some(Duration::ZERO), guarded].into_iter().flatten() {
                let clock = ClockShim::new();
                let server = RedisServer::start(clock.redis());
                let wheel = wheel(&server, 4).await;
                let shop = Shop::open(kind, 2).await;
                shop.orders(0..30, HOUR, &[(0, 1)]).await;
                shop.orders(100..110, -1000, &[(1, 2)]).await;
                enqueue_range(&wheel, 0..30, |_| after(3_600_000)).await;
                let settings = WorkerSettings { skew_max, lease: Duration::from_secs(30), ..quick() };
                let mate = Mate::start(&wheel, Arc::new(shop.hook()), settings);
                clock.set(2 * HOUR);
                if skew_max.is_zero() {
                    eventually(PATIENCE, || async { (mate.tally.snapshot().not_due >= 30).then_some(()) })
                        .await;
                } else {
                    held_back(&wheel, "clock").await;
                    a_while().await;
                    assert_eq!(mate.tally.snapshot().hook_calls, 0);
                }
                assert_eq!(shop.count("FROM orders WHERE status <> 'unpaid'").await, 0, "{kind:?}: early");
                clock.set(0);
                enqueue_range(&wheel, 100..110, |_| after(0)).await;
                closed(&wheel, 10).await;
                mate.drain().await;
                assert_eq!(shop.count("FROM orders WHERE status <> 'unpaid'").await, 10, "{kind:?}");
                shop.balance().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_whose_clock_is_a_little_behind_is_waited_for_and_asked_once() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    let behind = 100_000;
    // As a table says it whose own clock has not come so far: the moment that it has stored.
    let script = move |lease: &Lease| {
        let is_due = lease.lateness_us(Instant::now()) >= behind - 20_000;
        if is_due { Verdict::Closed } else { Verdict::NotDue { until: Some(lease.due_at) } }
    };
    let hook = Arc::new(Shifted { recorder: Recorder::new(script), ahead_us: AtomicI64::new(-behind) });
    let mate = Mate::start(&wheel, hook.clone(), quick());
    // Its clock is read at the start, and known with the first heartbeat of that.
    eventually(PATIENCE, async || {
        let workers = wheel.presence().await.ok()?.workers;
        workers.first()?.clocks.get("shop database").filter(|ahead| **ahead < -50).map(drop)
    })
    .await;
    enqueue_range(&wheel, 0..20, |n| after(200 + 20 * n)).await;
    closed(&wheel, 20).await;
    let tally = mate.drain().await.tally;
    assert_eq!((hook.recorder.count(), tally.not_due), (20, 0), "each was asked for once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_behind_that_nobody_knows_of_is_asked_again_soon_and_then_less_and_less_often() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let script = |lease: &Lease| {
        let is_due = lease.lateness_us(Instant::now()) >= 1_000_000;
        if is_due { Verdict::Closed } else { Verdict::NotDue { until: Some(lease.due_at) } }
    };
    let hook = Arc::new(Recorder::new(script));
    // Nobody looks at the shard of its own accord.
    let settings = WorkerSettings {
        poll_interval: Duration::from_secs(60),
        not_due_wait: Duration::from_secs(1),
        ..quick()
    };
    let mate = Mate::start(&wheel, hook.clone(), settings);
    enqueue_range(&wheel, 0..1, |_| after(0)).await;
    closed(&wheel, 1).await;
    assert!(mate.drain().await.clean);
    let late: Vec<_> = hook.calls.lock().unwrap().iter().map(|call| call.lateness_us / 1000).collect();
    assert!((4..=12).contains(&late.len()), "{late:?}");
    assert!(late[1] - late[0] < 1000, "the second time soon: {late:?}");
}
