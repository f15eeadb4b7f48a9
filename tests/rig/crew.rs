//! A worker in this process, for any hook.

use std::sync::Arc;
use std::time::Duration;

use duewheel::deadline::{DueAt, OnConflict};
use duewheel::hook::Hook;
use duewheel::retry::{Backoff, RetryPolicy};
use duewheel::wheel::Wheel;
use duewheel::worker::{Drained, Tally, Worker, WorkerSettings};
use tokio_util::sync::CancellationToken;

use super::wheel::deadline;
use super::{PATIENCE, eventually};

/// A running worker; stopped when dropped.
pub struct Mate {
    stop: CancellationToken,
    task: Option<tokio::task::JoinHandle<Drained>>,
    pub tally: Arc<Tally>,
}

impl Mate {
    pub fn start(wheel: &Wheel, hook: Arc<dyn Hook>, settings: WorkerSettings) -> Self {
        let worker = Worker::new(wheel.clone(), hook, settings).unwrap();
        let (stop, tally) = (CancellationToken::new(), worker.tally());
        let given = stop.clone();
        Self { stop, tally, task: Some(tokio::spawn(async move { worker.run(given).await })) }
    }

    pub async fn drain(mut self) -> Drained {
        self.stop.cancel();
        self.task.take().unwrap().await.unwrap()
    }

    /// Ends it in the middle of whatever it does, as a crash would: nothing is given back.
    pub fn kill(mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for Mate {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Settings under which a test sees retries and given back leases soon.
pub fn quick() -> WorkerSettings {
    let backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(200), 0.2).unwrap();
    WorkerSettings {
        lease: Duration::from_secs(8),
        lease_margin: Duration::from_millis(200),
        grace: Duration::from_secs(5),
        retry: RetryPolicy { backoff, max_attempts: 3, poison_limit: 5 },
        gone_grace: Duration::from_millis(50),
        not_due_wait: Duration::from_millis(50),
        ..WorkerSettings::default()
    }
}

/// Enqueues the ids `from..to`, due at the moment that `due` gives.
pub async fn enqueue_range(wheel: &Wheel, ids: std::ops::Range<u64>, due: impl Fn(u64) -> DueAt) {
    let batch: Vec<_> = ids.map(|n| deadline(&n.to_string(), due(n))).collect();
    for answer in wheel.enqueue_batch(&batch, OnConflict::Keep, false).await {
        answer.unwrap().unwrap();
    }
}

/// Waits until so many are closed and none is leased.
pub async fn closed(wheel: &Wheel, count: u64) {
    eventually(PATIENCE, || async {
        let stats = wheel.stats().await.ok()?;
        (stats.totals.get("closed").copied().unwrap_or(0) >= count && stats.leased == 0).then_some(())
    })
    .await;
}

/// Waits until some worker says that it is held back for a reason that contains `word`; answers the reason.
pub async fn held_back(wheel: &Wheel, word: &str) -> String {
    eventually(PATIENCE, || async {
        let workers = wheel.presence().await.ok()?.workers;
        workers.into_iter().flat_map(|worker| worker.held_back).find(|reason| reason.contains(word))
    })
    .await
}
