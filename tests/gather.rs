//! Deadlines of several claims share a call of the hook where they may wait for each other, and wait no longer than that.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duewheel::deadline::Note;
use duewheel::wheel::Wheel;
use duewheel::worker::WorkerSettings;

use crate::rig::crew::{Mate, closed, enqueue_range, quick};
use crate::rig::eventually;
use crate::rig::hook::Recorder;
use crate::rig::redis::RedisServer;
use crate::rig::wheel::{after, id, moment, wheel};

/// Longer than any test waits: what is closed sooner did not wait for it.
const LONG: Duration = Duration::from_secs(120);

fn gathering(gather: Duration) -> WorkerSettings {
    WorkerSettings { gather, lease: Duration::from_secs(300), ..quick() }
}

/// How many calls there were, and how many orders the largest of them had.
fn calls(hook: &Recorder) -> (usize, usize) {
    let calls = hook.calls.lock().unwrap();
    let mut shares = 0.0;
    let mut largest = 0;
    for call in calls.iter() {
        shares += 1.0 / call.batch as f64;
        largest = largest.max(call.batch);
    }
    (f64::round(shares) as usize, largest)
}

/// Waits until nothing is left to claim and so many at most wait for company: fewer than make a call.
async fn all_but(wheel: &Wheel, waiting: u64) {
    eventually(LONG / 2, || async {
        let stats = wheel.stats().await.ok()?;
        (stats.scheduled == 0 && stats.leased <= waiting).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_of_many_shards_share_a_call() {
    let alone = {
        let (wheel, hook) = (wheel(RedisServer::shared(), 16).await, Arc::new(Recorder::closing()));
        enqueue_range(&wheel, 0..64, |_| after(0)).await;
        let mate = Mate::start(&wheel, hook.clone(), gathering(Duration::ZERO));
        closed(&wheel, 64).await;
        mate.drain().await;
        calls(&hook)
    };
    let together = {
        let (wheel, hook) = (wheel(RedisServer::shared(), 16).await, Arc::new(Recorder::closing()));
        enqueue_range(&wheel, 0..64, |_| after(0)).await;
        let mate = Mate::start(&wheel, hook.clone(), gathering(Duration::from_secs(2)));
        closed(&wheel, 64).await;
        mate.drain().await;
        calls(&hook)
    };
    assert!(alone.0 >= 8 && alone.1 < 32, "each shard is a claim of its own: {alone:?}");
    assert!(together.0 <= 4 && together.1 >= 32, "{together:?}, alone {alone:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_without_company_waits_as_long_as_it_may_and_no_longer() {
    let (wheel, hook) = (wheel(RedisServer::shared(), 4).await, Arc::new(Recorder::closing()));
    let gather = Duration::from_millis(400);
    let mate = Mate::start(&wheel, hook.clone(), gathering(gather));
    enqueue_range(&wheel, 1..2, |_| after(100)).await;
    closed(&wheel, 1).await;
    mate.drain().await;
    let late = Duration::from_micros(hook.of("1")[0].lateness_us.try_into().unwrap());
    assert!(late >= gather, "{late:?}");
    assert!(late < gather + Duration::from_secs(10), "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_full_is_made_at_once_and_never_holds_more_than_the_hook_takes() {
    let wheel = wheel(RedisServer::shared(), 8).await;
    let hook = Arc::new(Recorder::closing().of_at_most(10));
    enqueue_range(&wheel, 0..200, |_| after(0)).await;
    let mate = Mate::start(&wheel, hook.clone(), gathering(LONG));
    all_but(&wheel, 9).await;
    mate.drain().await;
    closed(&wheel, 200).await;
    let (_, largest) = calls(&hook);
    assert!(largest <= 10, "{largest}");
    assert_eq!(hook.count(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_waits_for_company_on_permits_that_claims_want() {
    let (wheel, hook) = (wheel(RedisServer::shared(), 4).await, Arc::new(Recorder::closing()));
    enqueue_range(&wheel, 0..100, |n| duewheel::deadline::DueAt::Moment(moment(1_772_337_600_000 + n))).await;
    let mate = Mate::start(&wheel, hook.clone(), WorkerSettings { concurrency: 8, ..gathering(LONG) });
    all_but(&wheel, 3).await;
    mate.drain().await;
    closed(&wheel, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_and_a_manual_close_wait_for_no_company() {
    let (wheel, hook) = (wheel(RedisServer::shared(), 4).await, Arc::new(Recorder::closing()));
    let mate = Mate::start(&wheel, hook.clone(), WorkerSettings { grace: LONG, ..gathering(LONG) });
    enqueue_range(&wheel, 0..5, |_| after(0)).await;
    enqueue_range(&wheel, 5..6, |_| after(3_600_000)).await;
    eventually(LONG / 2, || async { (wheel.stats().await.ok()?.leased == 5).then_some(()) }).await;
    wheel.close(&id("5"), &Note::new("a test", "asked for").unwrap()).await.unwrap().unwrap();
    eventually(LONG / 2, || async { (hook.count() > 0).then_some(()) }).await;
    let called: Vec<_> = (0..6).filter(|n| !hook.of(&n.to_string()).is_empty()).collect();
    assert_eq!(called, [5], "only the manual close is made");
    let began = Instant::now();
    let drained = mate.drain().await;
    assert!(drained.clean && began.elapsed() < LONG / 2, "{drained:?} after {:?}", began.elapsed());
    closed(&wheel, 6).await;
}
