//! A backlog after an outage: retries apart from each other, nobody starved, memory bounded, no place of a call lost.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duewheel::deadline::DueAt;
use duewheel::error::Result;
use duewheel::hook::{BoxFuture, Hook, Verdict};
use duewheel::lease::Lease;
use duewheel::retry::{Backoff, RetryPolicy};
use duewheel::shard::WheelName;
use duewheel::worker::WorkerSettings;

use crate::rig::crew::{Mate, closed, enqueue_range, quick};
use crate::rig::hook::Recorder;
use crate::rig::proxy::Proxy;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::strain::Strain;
use crate::rig::wheel::{after, moment, wheel};
use crate::rig::{PATIENCE, eventually};

fn retrying(base: Duration, max_attempts: u32) -> WorkerSettings {
    let backoff = Backoff::new(base, base * 10, 0.2).unwrap();
    WorkerSettings { retry: RetryPolicy { backoff, max_attempts, poison_limit: 5 }, ..quick() }
}

/// When each call was made, by order.
#[derive(Default)]
struct Diary(std::sync::Mutex<HashMap<String, Vec<Instant>>>);

impl Diary {
    fn write(&self, lease: &Lease) {
        self.0.lock().unwrap().entry(lease.id.as_str().to_owned()).or_default().push(Instant::now());
    }

    fn of(&self, id: u64) -> Vec<Instant> {
        self.0.lock().unwrap().get(&id.to_string()).cloned().unwrap_or_default()
    }
}

fn failed() -> Verdict {
    Verdict::Failed { reason: "500 by the test".to_owned() }
}

/// DW-087.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_that_fail_in_one_second_are_not_tried_again_in_one() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let diary = Arc::new(Diary::default());
    let written = diary.clone();
    let hook = Arc::new(Recorder::new(move |lease| {
        written.write(lease);
        if lease.attempt == 1 { failed() } else { Verdict::Closed }
    }));
    enqueue_range(&wheel, 0..1000, |_| after(0)).await;
    let base = Duration::from_secs(2);
    let mate = Mate::start(&wheel, hook, retrying(base, 5));
    closed(&wheel, 1000).await;
    mate.drain().await;
    let mut waits: Vec<Duration> = (0..1000)
        .map(|id| {
            let calls = diary.of(id);
            calls[1] - calls[0]
        })
        .collect();
    waits.sort_unstable();
    assert!(waits[0] >= base.mul_f64(0.8), "the floor is (1 - jitter) x base: {:?}", waits[0]);
    let bins: HashMap<u128, usize> = waits.iter().fold(HashMap::new(), |mut bins, wait| {
        *bins.entry(wait.as_millis() / 50).or_default() += 1;
        bins
    });
    // 800 ms of jitter are sixteen bins of 50 ms; evenly spread each holds 62.
    let fullest = bins.values().max().unwrap();
    assert!(*fullest <= 250, "in lock-step: {fullest} of 1000 within 50 ms");
    let mean = waits.iter().sum::<Duration>() / 1000;
    assert!(mean >= base.mul_f64(0.9), "{mean:?}");
}

/// DW-089.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_that_always_fail_do_not_starve_the_good_ones_behind_them() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let hook = Arc::new(Recorder::new(|lease| {
        if lease.id.as_str().parse::<u64>().unwrap() < 500 { failed() } else { Verdict::Closed }
    }));
    enqueue_range(&wheel, 0..1000, |n| DueAt::Moment(moment(1_772_337_600_000 + n))).await;
    let settings =
        WorkerSettings { concurrency: 100, claim_batch: 100, ..retrying(Duration::from_secs(5), 10) };
    let began = Instant::now();
    let mate = Mate::start(&wheel, hook.clone(), settings);
    closed(&wheel, 500).await;
    println!("the good half was closed after {:?}", began.elapsed());
    let most = (0..500).map(|id| hook.of(&id.to_string()).len()).max().unwrap();
    assert!(most <= 2, "{most} attempts of a failing one by then");
    mate.drain().await;
}

/// An endpoint that never answers for orders of target 0, and at once for all others.
struct OneDead {
    calls: AtomicU64,
}

impl Hook for OneDead {
    fn judge<'a>(&'a self, _: &'a WheelName, leases: &'a [Lease]) -> BoxFuture<'a, Vec<Verdict>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::Relaxed);
            let id: u64 = leases[0].id.as_str().parse().unwrap();
            if id.is_multiple_of(10) {
                tokio::time::sleep(Duration::from_secs(2)).await;
                let reason = "no answer".to_owned();
                return vec![Verdict::Unavailable { reason, retry_after: None }];
            }
            vec![Verdict::Closed]
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(3)
    }

    fn batch_size(&self) -> usize {
        1
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// DW-091: within one wheel, where the places are shared; that another wheel is not slowed is tests/webhook/fleet.rs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_whose_target_never_answers_do_not_hold_up_those_of_nine_others() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let hook = Arc::new(OneDead { calls: AtomicU64::new(0) });
    enqueue_range(&wheel, 0..300, |_| after(0)).await;
    let settings = WorkerSettings { concurrency: 60, ..retrying(Duration::from_secs(2), 5) };
    let began = Instant::now();
    let mate = Mate::start(&wheel, hook, settings);
    closed_at_least(&wheel, 270).await;
    println!("270 of nine targets after {:?}", began.elapsed());
    let stats = wheel.stats().await.unwrap();
    assert_eq!((stats.totals["closed"], stats.dead, stats.totals["retried"]), (270, 0, 0), "{stats:?}");
    mate.drain().await;
}

async fn closed_at_least(wheel: &duewheel::wheel::Wheel, count: u64) {
    eventually(PATIENCE, async || (wheel.stats().await.ok()?.totals["closed"] >= count).then_some(())).await;
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// DW-093: 60,000 here, 500,000 with `DUEWHEEL_TEST_LONG`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_huge_backlog_is_drained_steadily_oldest_first_within_bounded_memory() {
    let count: u64 = if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() { 500_000 } else { 60_000 };
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    for first in (0..count).step_by(10_000) {
        enqueue_range(&wheel, first..first + 10_000, |n| DueAt::Moment(moment(1_772_337_600_000 + n))).await;
    }
    let begins = Arc::new(std::sync::Mutex::new(Vec::with_capacity(count as usize)));
    let written = begins.clone();
    let hook = Arc::new(Recorder::new(move |lease| {
        written.lock().unwrap().push((lease.id.as_str().parse::<u64>().unwrap(), Instant::now()));
        Verdict::Closed
    }));
    let before = resident_mib();
    let settings = WorkerSettings { concurrency: 1024, ..quick() };
    let (batch, in_hand) = (settings.claim_batch as u64, settings.concurrency as u64);
    let began = Instant::now();
    let mate = Mate::start(&wheel, hook, settings);
    eventually(Duration::from_secs(120), async || {
        (wheel.stats().await.ok()?.totals["closed"] >= count).then_some(())
    })
    .await;
    let grown = resident_mib().saturating_sub(before);
    mate.drain().await;
    let begins = begins.lock().unwrap();
    println!("{count} closed in {:?}, first after {:?}, {grown} MiB", began.elapsed(), begins[0].1 - began);
    assert!(grown < 100, "{grown} MiB");
    assert!(begins[0].1 - began < Duration::from_secs(2));
    // Ids are numbered by their deadlines: none may overtake by more than what is in hand at once.
    let mut oldest_open = 0;
    let mut seen = HashSet::new();
    for (id, _) in begins.iter() {
        assert!(*id < oldest_open + in_hand + batch, "{id} before {oldest_open}");
        seen.insert(*id);
        while seen.remove(&oldest_open) {
            oldest_open += 1;
        }
    }
    let tenth = begins.len() / 10;
    let first = begins[tenth].1 - begins[0].1;
    let last = begins[begins.len() - 1].1 - begins[begins.len() - 1 - tenth].1;
    println!("first tenth in {first:?}, last tenth in {last:?}");
    assert!(
        last <= first.mul_f64(3.0) + Duration::from_millis(500),
        "it slows down: {first:?}, then {last:?}"
    );
}

/// DW-095.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_come_back_although_redis_is_away_when_verdicts_are_written() {
    let strain = Strain::start();
    let server = RedisServer::start(RedisOptions::default());
    let proxy = Proxy::start(server.port());
    let direct = wheel(&server, 2).await;
    let store =
        duewheel::wheel::Store::new(&duewheel::wheel::RedisSettings::new(proxy.redis_url().into())).unwrap();
    let through = duewheel::wheel::Wheel::new(Arc::new(store), direct.settings().clone());
    let hook = Arc::new(Recorder::closing().taking(Duration::from_millis(100)).one_by_one());
    let settings = WorkerSettings { concurrency: 8, lease: Duration::from_secs(2), ..quick() };
    let mate = Mate::start(&through, hook.clone(), settings);
    for round in 0..5 {
        let (first, before) = (1000 * round, hook.count());
        enqueue_range(&direct, first..first + 8, |_| after(0)).await;
        eventually(PATIENCE, async || (hook.count() > before).then_some(())).await;
        proxy.down();
        tokio::time::sleep(Duration::from_millis(400)).await;
        proxy.heal();
        closed_at_least(&direct, 8 * (round + 1)).await;
    }
    enqueue_range(&direct, 100_000..100_160, |_| after(0)).await;
    let began = Instant::now();
    closed_at_least(&direct, 40 + 160).await;
    // 160 calls of 100 ms in eight places are two seconds; a lost place would make it more.
    let took = began.elapsed();
    assert!(took <= strain.allows(Duration::from_millis(2600)), "{took:?}");
    let drained = mate.drain().await;
    assert!(drained.clean && drained.left == 0, "{drained:?}");
}
