//! The settler of a shard: writes verdicts, as many at once as have gathered since the last call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use super::heartbeat::{Batch, Leases};
use super::service::Pause;
use super::tally::{Tally, add};
use crate::deadline::{Id, Outcome};
use crate::shard::Shard;
use crate::wheel::answer::Settled;
use crate::wheel::{MAX_BATCH, Reminded, Settlement, What, Wheel};

/// The least time between two settles of a shard that have only few verdicts each. At a steady trickle every settle would bring one, and cost
/// Redis as much as one with many: time in which claims wait. Nobody waits for a settle; a worker that dies within it repeats its hook.
const COMPANY: Duration = Duration::from_millis(20);
/// So many verdicts need no more company.
const ENOUGH: usize = 16;

/// A batch whose hook has answered. Dropping it gives back its permits, on every path.
pub struct Judged {
    pub batch: Arc<Batch>,
    pub leases: Arc<Leases>,
    pub verdicts: Vec<(Id, What)>,
    /// Held until settled: the permits bound what is claimed and not yet settled.
    pub _permits: tokio::sync::OwnedSemaphorePermit,
}

impl Drop for Judged {
    fn drop(&mut self) {
        self.leases.release(&self.batch);
    }
}

/// Writes the verdicts of one shard.
pub struct Settler {
    wheel: Wheel,
    shard: Shard,
    inbox: UnboundedReceiver<Judged>,
    permits: Arc<Semaphore>,
    /// Fewer free permits than this, and no verdict waits: it holds permits that claims want.
    scarce: usize,
    look: Look,
    tally: Arc<Tally>,
}

/// How a shard's poller is told that something of it fires sooner than its last claim could tell.
#[derive(Clone)]
pub struct Look {
    pub sooner: Arc<Notify>,
    /// It looks that often in any case.
    pub every: Duration,
}

impl Settler {
    /// `permits` are the worker's, `concurrency` how many there are in all.
    pub fn new(
        wheel: Wheel,
        shard: Shard,
        inbox: UnboundedReceiver<Judged>,
        (permits, concurrency): (Arc<Semaphore>, usize),
        look: Look,
        tally: Arc<Tally>,
    ) -> Self {
        Self { wheel, shard, inbox, permits, scarce: concurrency.div_ceil(2), look, tally }
    }

    /// Settles until all senders are gone, or `kill`.
    pub async fn run(mut self, kill: CancellationToken) {
        let mut waiting = Vec::new();
        let mut alone_until = Instant::now();
        loop {
            let got = tokio::select! {
                () = kill.cancelled() => return,
                got = self.inbox.recv_many(&mut waiting, MAX_BATCH) => got,
            };
            if got == 0 {
                return;
            }
            tokio::select! {
                () = kill.cancelled() => return,
                () = self.gather(&mut waiting, alone_until) => {}
            }
            alone_until = Instant::now() + COMPANY;
            tokio::select! {
                () = kill.cancelled() => return,
                () = self.settle(std::mem::take(&mut waiting)) => {}
            }
        }
    }

    /// Lets few verdicts wait for more, until `until` at most. The first after a quiet while are not kept waiting at all.
    async fn gather(&mut self, waiting: &mut Vec<Judged>, until: Instant) {
        let few = |waiting: &[Judged]| waiting.iter().map(|one| one.verdicts.len()).sum::<usize>() < ENOUGH;
        while few(waiting) && self.permits.available_permits() >= self.scarce {
            tokio::select! {
                () = tokio::time::sleep_until(until.into()) => return,
                got = self.inbox.recv_many(waiting, MAX_BATCH) => if got == 0 { return },
            }
        }
    }

    /// Settles batches, and repeats what failed with the same fences for as long as the leases can be trusted. A repeat is harmless.
    async fn settle(&self, mut judged: Vec<Judged>) {
        let mut pause = Pause::default();
        loop {
            let now = Instant::now();
            let mut settlements = Vec::new();
            for one in &mut judged {
                let batch = one.batch.clone();
                // Verdicts stay with their place in the batch, because the fence may be renewed between two tries.
                for (at, (id, what)) in one.verdicts.iter().enumerate() {
                    match batch.fence(at, now) {
                        Some(fence) => {
                            settlements.push(Settlement { id: id.clone(), fence, what: what.clone() });
                        }
                        None => add(&self.tally.distrusted, 1),
                    }
                }
            }
            if settlements.is_empty() {
                return;
            }
            match self.wheel.settle(self.shard, &settlements).await {
                Ok(answers) => {
                    for (settlement, answer) in settlements.iter().zip(answers) {
                        self.count(&settlement.what, answer);
                    }
                    if settlements.iter().any(|one| self.fires_soon(&one.what)) {
                        self.look.sooner.notify_one();
                    }
                    return;
                }
                Err(e) => {
                    add(&self.tally.settle_failures, 1);
                    let wait = pause.lengthen();
                    if pause.worth_saying() {
                        tracing::warn!(wheel = %self.wheel.name(), shard = %self.shard, error = %e, "settle failed; repeating it");
                    }
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    fn fires_soon(&self, what: &What) -> bool {
        match what {
            What::Wait(wait) | What::Retry(wait, _) => *wait < self.look.every,
            What::Until(_) => true,
            _ => false,
        }
    }

    fn count(&self, what: &What, answer: Settled) {
        let tally = &self.tally;
        let counter = match (answer, what) {
            (Settled::Stale, _) => &tally.stale,
            (Settled::Cancelled, _) => &tally.cancelled,
            (Settled::Done, What::End { outcome: Outcome::Closed, .. }) => &tally.closed,
            (Settled::Done, What::End { .. }) => &tally.skipped,
            (Settled::Done, What::Retry(..)) => &tally.retried,
            (Settled::Done, What::Wait(_)) => &tally.unavailable,
            (Settled::Done, What::Until(_)) => &tally.not_due,
            (Settled::Done, What::Back) => &tally.given_back,
            (Settled::Done, What::Bury(_)) => &tally.buried,
            (Settled::Done, What::Stage(_, _, Reminded::Done)) => &tally.reminded,
            (Settled::Done, What::Stage(_, _, Reminded::Failed)) => &tally.reminder_failed,
            (Settled::Done, What::Stage(..)) => return,
        };
        add(counter, 1);
    }
}
