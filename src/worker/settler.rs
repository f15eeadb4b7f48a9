//! The settler of a shard: writes verdicts, as many at once as have gathered while the last call was under way.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::heartbeat::{Batch, Leases};
use super::service::Pause;
use super::tally::{Tally, add};
use crate::deadline::{Id, Outcome};
use crate::shard::Shard;
use crate::wheel::answer::Settled;
use crate::wheel::{MAX_BATCH, Reminded, Settlement, What, Wheel};

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
    tally: Arc<Tally>,
}

impl Settler {
    pub fn new(wheel: Wheel, shard: Shard, inbox: UnboundedReceiver<Judged>, tally: Arc<Tally>) -> Self {
        Self { wheel, shard, inbox, tally }
    }

    /// Settles until all senders are gone, or `kill`.
    pub async fn run(mut self, kill: CancellationToken) {
        let mut waiting = Vec::new();
        loop {
            let room = MAX_BATCH;
            let got = tokio::select! {
                () = kill.cancelled() => return,
                got = self.inbox.recv_many(&mut waiting, room) => got,
            };
            if got == 0 {
                return;
            }
            tokio::select! {
                () = kill.cancelled() => return,
                () = self.settle(std::mem::take(&mut waiting)) => {}
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

    fn count(&self, what: &What, answer: Settled) {
        let tally = &self.tally;
        let counter = match (answer, what) {
            (Settled::Stale, _) => &tally.stale,
            (Settled::Cancelled, _) => &tally.cancelled,
            (Settled::Done, What::End { outcome: Outcome::Closed, .. }) => &tally.closed,
            (Settled::Done, What::End { .. }) => &tally.skipped,
            (Settled::Done, What::Retry(_)) => &tally.retried,
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
