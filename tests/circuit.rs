//! The circuit: a hook that is away is probed and left alone, its return drains the backlog at once, and a pause that an endpoint asks
//! for is kept by the whole fleet. Nothing is lost, and no attempt is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duewheel::error::Result;
use duewheel::hook::{BoxFuture, Hook, Verdict};
use duewheel::lease::Lease;
use duewheel::shard::WheelName;
use duewheel::worker::WorkerSettings;

use crate::rig::crew::{Mate, closed, enqueue_range, held_back, quick};
use crate::rig::hook::Recorder;
use crate::rig::redis::RedisServer;
use crate::rig::wheel::{after, wheel};
use crate::rig::{PATIENCE, eventually};

fn down() -> Verdict {
    Verdict::Unavailable { reason: "connection refused".to_owned(), retry_after: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_that_somebody_else_has_in_hand_hold_back_no_other() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    let held = |lease: &Lease| match lease.id.as_str() {
        "9" => Verdict::Closed,
        _ => Verdict::Held { reason: "lock timeout".to_owned() },
    };
    let hook = Arc::new(Recorder::new(held).one_by_one());
    let mate = Mate::start(&wheel, hook.clone(), quick());
    enqueue_range(&wheel, 0..8, |_| after(0)).await;
    // Twice as many in a row as an endpoint that is away would be given.
    eventually(PATIENCE, async || (hook.count() >= 8).then_some(())).await;
    let workers = wheel.presence().await.unwrap().workers;
    assert!(workers.iter().all(|worker| worker.held_back.is_empty()), "{workers:?}");
    enqueue_range(&wheel, 9..10, |_| after(0)).await;
    closed(&wheel, 1).await;
    let stats = wheel.stats().await.unwrap();
    assert_eq!((stats.totals["retried"], stats.dead), (0, 0), "no attempt was counted");
    mate.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_is_away_is_only_probed_and_its_return_drains_the_backlog() {
    let wheel = wheel(RedisServer::shared(), 16).await;
    let is_down = Arc::new(AtomicBool::new(true));
    let looks = is_down.clone();
    let hook = Arc::new(
        Recorder::new(move |_| if looks.load(Ordering::SeqCst) { down() } else { Verdict::Closed })
            .one_by_one(),
    );
    enqueue_range(&wheel, 0..3000, |_| after(0)).await;
    let settings = WorkerSettings { concurrency: 64, ..quick() };
    let mates = [(); 2].map(|()| Mate::start(&wheel, hook.clone(), settings.clone()));
    let reason = held_back(&wheel, "is away, probed every 500ms: connection refused").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = hook.count();
    tokio::time::sleep(Duration::from_millis(2000)).await;
    let probes = hook.count() - before;
    // Two workers, two probes each at once, one pause each half a second.
    assert!((2..=24).contains(&probes), "{probes} calls within two seconds of an outage; {reason}");
    let stats = wheel.stats().await.unwrap();
    assert!(stats.due > 2800 && stats.dead == 0, "what is due stays due: {stats:?}");
    is_down.store(false, Ordering::SeqCst);
    let back = Instant::now();
    eventually(PATIENCE, || async { (wheel.stats().await.ok()?.totals["closed"] > 0).then_some(()) }).await;
    let first = back.elapsed();
    closed(&wheel, 3000).await;
    let all = back.elapsed();
    println!("{probes} probes in 2 s; first close {first:?} after the return, all 3000 {all:?}");
    assert!(first < Duration::from_millis(1500), "{first:?}");
    assert!(all < Duration::from_secs(8), "{all:?}");
    assert!(wheel.presence().await.unwrap().workers.iter().all(|w| w.clocks.contains_key("host")));
    for mate in mates {
        let drained = mate.drain().await;
        assert_eq!((drained.tally.retried, drained.tally.buried), (0, 0), "no attempt was counted");
    }
    let calls = hook.calls.lock().unwrap();
    assert!(calls.iter().all(|call| call.attempt == 1));
}

/// A hook of two endpoints: odd orders go to the second, and the first may be away.
struct Two {
    first_is_down: AtomicBool,
    asked_first: AtomicU64,
    recorder: Recorder,
}

impl Hook for Two {
    fn judge<'a>(&'a self, wheel: &'a WheelName, leases: &'a [Lease]) -> BoxFuture<'a, Vec<Verdict>> {
        Box::pin(async move {
            let mut verdicts = self.recorder.judge(wheel, leases).await;
            let first = leases.iter().zip(&mut verdicts).filter(|(lease, _)| self.endpoint(lease) == 0);
            for (_, verdict) in first {
                self.asked_first.fetch_add(1, Ordering::SeqCst);
                if self.first_is_down.load(Ordering::SeqCst) {
                    *verdict = down();
                }
            }
            verdicts
        })
    }

    fn timeout(&self) -> Duration {
        self.recorder.timeout()
    }

    fn batch_size(&self) -> usize {
        20
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        self.recorder.check()
    }

    fn endpoints(&self) -> Vec<String> {
        vec!["first".to_owned(), "second".to_owned()]
    }

    fn endpoint(&self, lease: &Lease) -> usize {
        lease.id.as_str().parse::<usize>().unwrap() % 2
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_databases_the_one_that_is_away_does_not_hold_the_other_back() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let hook = Arc::new(Two {
        first_is_down: AtomicBool::new(true),
        asked_first: AtomicU64::new(0),
        recorder: Recorder::closing(),
    });
    enqueue_range(&wheel, 0..1000, |_| after(0)).await;
    let mate = Mate::start(&wheel, hook.clone(), quick());
    closed(&wheel, 500).await;
    held_back(&wheel, "first is away").await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    let (began, before) = (Instant::now(), hook.asked_first.load(Ordering::SeqCst));
    enqueue_range(&wheel, 1001..1002, |_| after(0)).await;
    closed(&wheel, 501).await;
    tokio::time::sleep(Duration::from_millis(1000)).await;
    let asked = hook.asked_first.load(Ordering::SeqCst) - before;
    // However long the machine took for it.
    let a_second = asked as f64 / began.elapsed().as_secs_f64();
    println!("{asked} in {:?}", began.elapsed());
    assert!(a_second < 20.0, "{a_second} orders of the one that is away were tried in a second");
    hook.first_is_down.store(false, Ordering::SeqCst);
    let back = Instant::now();
    closed(&wheel, 1001).await;
    assert!(back.elapsed() < Duration::from_secs(4), "{:?}", back.elapsed());
    assert_eq!(mate.drain().await.tally.retried, 0);
}

#[cfg(feature = "webhook")]
mod webhook {
    use super::*;
    use crate::rig::strain::Strain;
    use crate::rig::stub::{Answer, Stub};
    use duewheel::hook::webhook::{WebhookHook, WebhookSettings};

    fn hook(stub: &Stub, at_once: usize) -> Arc<WebhookHook> {
        let mut settings = WebhookSettings::new(&stub.url("/close"));
        let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=".into();
        settings.secrets = vec![duewheel::hook::webhook::WebhookSecret::new(secret)];
        settings.allow_private = true;
        settings.timeout = Duration::from_secs(4);
        settings.max_concurrency = at_once;
        Arc::new(WebhookHook::new(&settings).unwrap())
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_429_holds_the_whole_endpoint_back_and_calls_that_wait_for_their_turn_are_not_made() {
        let wheel = wheel(RedisServer::shared(), 4).await;
        let stub = Stub::start().await;
        stub.otherwise(Answer::status(429).header("retry-after", "2"));
        enqueue_range(&wheel, 0..200, |_| after(0)).await;
        let mate = Mate::start(&wheel, hook(&stub, 4), quick());
        eventually(PATIENCE, || async { (stub.answered() > 0).then_some(()) }).await;
        // Only its first answers ask for the pause; the endpoint would serve at once whoever asks again.
        stub.otherwise(Answer::status(200));
        closed(&wheel, 200).await;
        let calls = stub.calls();
        let first = calls[0].arrived_ms;
        let early: Vec<_> =
            calls.iter().map(|call| call.arrived_ms - first).filter(|ms| *ms < 2000).collect();
        assert!(early.len() <= 12, "calls before the pause was over, 4 at once: {early:?}");
        // What was on its way when the answer came arrives yet.
        assert!(early.iter().all(|ms| *ms < 1000), "{early:?}");
        assert!(calls.iter().all(|call| call.data()["attempt"] == 1), "no attempt is counted");
        let last = calls.iter().map(|call| call.arrived_ms).max().unwrap() - first;
        assert!(last < 8000, "drained {last} ms after the request, 2000 of them the pause");
        mate.drain().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_pause_is_kept_by_the_other_workers_within_a_second() {
        let strain = Strain::start();
        // So many shards that each worker has some of its own.
        let wheel = wheel(RedisServer::shared(), 16).await;
        let (stub, asked) = (Stub::start().await, Stub::start().await);
        // The same endpoint by name, but only one of its two faces asks: what the other worker does not do, it has learnt.
        asked.otherwise(Answer::status(429).header("retry-after", "8"));
        let (learns, is_asked) =
            (Mate::start(&wheel, hook(&stub, 64), quick()), Mate::start(&wheel, hook(&asked, 64), quick()));
        let began = Instant::now();
        eventually(PATIENCE, || async {
            if asked.answered() == 0 {
                let n = 10_000 + began.elapsed().as_micros() as u64;
                enqueue_range(&wheel, n..n + 16, |_| after(0)).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            (asked.answered() > 0).then_some(())
        })
        .await;
        let (mut began, mut refusals) = (Instant::now(), asked.answered());
        let mut n = 20_000;
        loop {
            let workers = wheel.presence().await.unwrap().workers;
            let held = workers.iter().filter(|w| w.held_back.iter().any(|r| r.contains("asked"))).count();
            if held == 2 {
                break;
            }
            if asked.answered() > refusals {
                // On a loaded machine a pause may be over before both have said so; the next refusal begins another one.
                (began, refusals) = (Instant::now(), asked.answered());
            }
            enqueue_range(&wheel, n..n + 4, |_| after(0)).await;
            n += 4;
            assert!(n < 24_000, "the pause is kept by {held} of both");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Its own record says so a second after it has learnt it at the latest.
        assert!(began.elapsed() < strain.allows(Duration::from_millis(2600)), "{:?}", began.elapsed());
        let before = stub.calls().len();
        enqueue_range(&wheel, 5000..5100, |_| after(0)).await;
        tokio::time::sleep(Duration::from_millis(800)).await;
        assert_eq!(stub.calls().len(), before);
        asked.otherwise(Answer::status(200));
        closed(&wheel, 100).await;
        learns.drain().await;
        is_asked.drain().await;
    }
}
