//! Reminders: leases of a stage before the close. They have permits of their own, so that a slow or dead reminder hook holds up no close,
//! and what they find out says nothing about the hook that closes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::executor::Executor;
use super::settler::Judged;
use super::verdict::what_of_reminder;
use crate::deadline::Stage;
use crate::hook::{Hook, Verdict};
use crate::lease::Lease;
use crate::shard::Shard;
use crate::wheel::{What, Wheel};

/// How reminders are given.
pub struct Reminder {
    /// Who gives them; without one they are given by their event alone.
    hook: Option<Arc<dyn Hook>>,
    permits: Arc<Semaphore>,
    /// How many there are.
    all: usize,
}

impl Reminder {
    /// A quarter of what the closes may have in work, beside them.
    pub fn new(hook: Option<Arc<dyn Hook>>, concurrency: usize) -> Self {
        let all = (concurrency / 4).max(1);
        Self { hook, permits: Arc::new(Semaphore::new(all)), all }
    }
}

/// Takes the reminders out of what was claimed.
pub fn take(leases: &mut Vec<Lease>) -> Vec<Lease> {
    if leases.iter().all(|lease| lease.stage == Stage::CLOSE) {
        return Vec::new();
    }
    let (closes, reminders) = leases.drain(..).partition(|lease| lease.stage == Stage::CLOSE);
    *leases = closes;
    reminders
}

impl Executor {
    /// Waits until every reminder's verdict is settled: they have permits of their own.
    pub(super) async fn reminded(&self) {
        let all = u32::try_from(self.reminder.all).unwrap_or(u32::MAX);
        drop(self.reminder.permits.acquire_many(all).await);
    }

    /// Gives reminders, in calls of their hook's batch size. `permits` are the closes' and are given back at once.
    pub(super) fn remind(
        self: &Arc<Self>,
        shard: Shard,
        mut reminders: Vec<Lease>,
        mut permits: OwnedSemaphorePermit,
    ) {
        let Some(hook) = self.reminder.hook.clone() else {
            let verdicts = vec![Verdict::Closed; reminders.len()];
            return self.settle_reminders(shard, reminders, &verdicts, permits);
        };
        let size = hook.batch_size().max(1);
        while !reminders.is_empty() {
            let rest = reminders.split_off(reminders.len().min(size));
            let part = std::mem::replace(&mut reminders, rest);
            let Some(lent) = permits.split(part.len()) else { return };
            let wanted = u32::try_from(part.len()).unwrap_or(u32::MAX);
            match self.reminder.permits.clone().try_acquire_many_owned(wanted) {
                Ok(own) => {
                    drop(lent);
                    let (executor, hook) = (self.clone(), hook.clone());
                    self.calls.spawn(async move {
                        let (part, verdicts) = executor.judge(&hook, part).await;
                        executor.settle_reminders(shard, part, &verdicts, own);
                    });
                }
                // No room: they come again in a moment, and no attempt is counted.
                Err(_) => {
                    let again = |_: &Lease| What::Wait(Duration::from_millis(fastrand::u64(500..1500)));
                    self.settle_as(shard, part, again, lent);
                }
            }
        }
    }

    fn settle_reminders(
        &self,
        shard: Shard,
        reminders: Vec<Lease>,
        verdicts: &[Verdict],
        permits: OwnedSemaphorePermit,
    ) {
        let mut verdicts = verdicts.iter();
        let what = |lease: &Lease| match verdicts.next() {
            Some(verdict) => {
                tell(&self.wheel, lease, verdict);
                what_of_reminder(verdict, lease, &self.settings)
            }
            None => What::Back,
        };
        self.settle_as(shard, reminders, what, permits);
    }

    fn settle_as(
        &self,
        shard: Shard,
        reminders: Vec<Lease>,
        mut what: impl FnMut(&Lease) -> What,
        permits: OwnedSemaphorePermit,
    ) {
        let batch = self.leases.take(shard, &reminders, self.settings.lease);
        let verdicts = reminders.iter().map(|lease| (lease.id.clone(), what(lease))).collect();
        self.hand_over(shard, Judged { batch, leases: self.leases.clone(), verdicts, _permits: permits });
    }
}

/// One line for each reminder that was not given; the others only at debug level.
fn tell(wheel: &Wheel, lease: &Lease, verdict: &Verdict) {
    let (wheel, id, stage, attempt) =
        (wheel.name().as_str(), lease.id.as_str(), lease.stage.0, lease.attempt);
    match verdict {
        Verdict::Failed { reason } | Verdict::Rejected { reason } | Verdict::Gone { reason } => {
            let trace_id = lease.trace_id();
            tracing::warn!(
                wheel,
                id,
                stage,
                attempt,
                trace_id,
                verdict = verdict.as_str(),
                reason,
                "reminder"
            );
        }
        _ => {
            tracing::debug!(
                wheel,
                id,
                stage,
                attempt,
                trace_id = lease.trace_id(),
                verdict = verdict.as_str(),
                "reminder"
            );
        }
    }
}
