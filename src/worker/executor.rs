//! The executor: calls the hook for the leases of a claim and hands the verdicts to the settler.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc::UnboundedSender};
use tokio_util::task::TaskTracker;

use super::failpoint;
use super::heartbeat::Leases;
use super::reminder::{self, Reminder};
use super::settings::WorkerSettings;
use super::settler::Judged;
use super::tally::{Tally, add};
use super::verdict::what_of;
use crate::hook::{Hook, Verdict};
use crate::lease::Lease;
use crate::shard::Shard;
use crate::wheel::{What, Wheel};

/// Calls the hook.
pub struct Executor {
    pub(super) wheel: Wheel,
    hook: Arc<dyn Hook>,
    pub(super) settings: WorkerSettings,
    pub(super) leases: Arc<Leases>,
    settlers: Vec<UnboundedSender<Judged>>,
    tally: Arc<Tally>,
    pub(super) calls: TaskTracker,
    pub(super) reminder: Reminder,
    /// Calls in a row that found the hook unavailable.
    unavailable: AtomicU32,
}

impl Executor {
    pub fn new(
        wheel: Wheel,
        hook: Arc<dyn Hook>,
        settings: WorkerSettings,
        leases: Arc<Leases>,
        settlers: Vec<UnboundedSender<Judged>>,
        tally: Arc<Tally>,
        reminder: Reminder,
    ) -> Self {
        let calls = TaskTracker::new();
        Self {
            wheel,
            hook,
            settings,
            leases,
            settlers,
            tally,
            calls,
            reminder,
            unavailable: AtomicU32::new(0),
        }
    }

    /// Calls the hook for these leases, in calls of the hook's batch size, side by side. `permits` covers them all; `and` is dropped
    /// when the last of them is settled.
    pub fn execute(
        self: &Arc<Self>,
        shard: Shard,
        mut leases: Vec<Lease>,
        mut permits: OwnedSemaphorePermit,
        and: Option<Arc<OwnedSemaphorePermit>>,
    ) {
        failpoint::reach(failpoint::AFTER_CLAIM, leases.iter().map(|lease| lease.id.as_str()));
        let reminders = reminder::take(&mut leases);
        if let Some(own) = permits.split(reminders.len()).filter(|_| !reminders.is_empty()) {
            self.remind(shard, reminders, own);
        }
        let size = self.hook.batch_size().max(1);
        while !leases.is_empty() {
            let rest = leases.split_off(leases.len().min(size));
            let part = std::mem::replace(&mut leases, rest);
            let Some(own) = permits.split(part.len()) else { return };
            let (executor, and) = (self.clone(), and.clone());
            self.calls.spawn(async move {
                executor.call(shard, part, own).await;
                drop(and);
            });
        }
    }

    /// Gives leases back untouched: the drain began before their hook was called.
    pub fn give_back(&self, shard: Shard, leases: Vec<Lease>, permits: OwnedSemaphorePermit) {
        let batch = self.leases.take(shard, &leases, self.settings.lease);
        let verdicts = leases.into_iter().map(|lease| (lease.id, What::Back)).collect();
        self.hand_over(shard, Judged { batch, leases: self.leases.clone(), verdicts, _permits: permits });
    }

    /// Waits until no call is under way; no further call may be begun.
    pub async fn idle(&self) {
        self.calls.close();
        self.calls.wait().await;
    }

    /// Calls in a row that found the hook unavailable.
    pub fn streak(&self) -> u32 {
        self.unavailable.load(Ordering::Relaxed)
    }

    async fn call(&self, shard: Shard, leases: Vec<Lease>, permits: OwnedSemaphorePermit) {
        let batch = self.leases.take(shard, &leases, self.settings.lease);
        failpoint::reach(failpoint::IN_HOOK, leases.iter().map(|lease| lease.id.as_str()));
        let (leases, verdicts) = self.judge(&self.hook, leases).await;
        failpoint::reach(failpoint::BEFORE_SETTLE, leases.iter().map(|lease| lease.id.as_str()));
        let streak = self.note_availability(&verdicts);
        let settings = &self.settings;
        let verdicts = leases
            .into_iter()
            .zip(verdicts)
            .map(|(lease, verdict)| {
                tell(&self.wheel, &lease, &verdict);
                (lease.id.clone(), what_of(verdict, lease, settings, streak))
            })
            .collect();
        self.hand_over(shard, Judged { batch, leases: self.leases.clone(), verdicts, _permits: permits });
    }

    /// Asks the hook, in a task of its own: a panic or a call that overruns is that call's, and nothing is dropped in the middle of a
    /// transaction.
    pub(super) async fn judge(&self, hook: &Arc<dyn Hook>, leases: Vec<Lease>) -> (Vec<Lease>, Vec<Verdict>) {
        add(&self.tally.hook_calls, 1);
        let leases = Arc::new(leases);
        let limit = hook.timeout() + Duration::from_millis(500);
        let (hook, wheel, asked) = (hook.clone(), self.wheel.clone(), leases.clone());
        let call = tokio::spawn(async move { hook.judge(wheel.name(), &asked).await });
        // The hook keeps its own time; this is for one that does not.
        let fault = match tokio::time::timeout(limit, call).await {
            Ok(Ok(verdicts)) if verdicts.len() == leases.len() => {
                return (Arc::try_unwrap(leases).unwrap_or_else(|shared| shared.to_vec()), verdicts);
            }
            Ok(Ok(verdicts)) => Verdict::Failed {
                reason: format!("hook answered {} verdicts for {} orders", verdicts.len(), leases.len()),
            },
            Ok(Err(e)) => Verdict::Failed { reason: format!("hook panicked: {e}") },
            Err(_) => Verdict::Unavailable {
                reason: format!("hook did not answer within {limit:?}"),
                retry_after: None,
            },
        };
        add(&self.tally.hook_faults, 1);
        let leases = Arc::try_unwrap(leases).unwrap_or_else(|shared| shared.to_vec());
        let verdicts = vec![fault; leases.len()];
        (leases, verdicts)
    }

    fn note_availability(&self, verdicts: &[Verdict]) -> u32 {
        let all_unavailable = verdicts.iter().all(|verdict| matches!(verdict, Verdict::Unavailable { .. }));
        if all_unavailable {
            self.unavailable.fetch_add(1, Ordering::Relaxed).saturating_add(1)
        } else {
            self.unavailable.store(0, Ordering::Relaxed);
            1
        }
    }

    pub(super) fn hand_over(&self, shard: Shard, judged: Judged) {
        // The settler is gone only when the process ends; the lease then ends by itself.
        if let Some(settler) = self.settlers.get(usize::from(shard.0)) {
            drop(settler.send(judged));
        }
    }
}

/// One line for each verdict that a person may want to know of; the ordinary ones only at debug level.
fn tell(wheel: &Wheel, lease: &Lease, verdict: &Verdict) {
    let (id, attempt, fence) = (lease.id.as_str(), lease.attempt, lease.fence.0);
    let wheel = wheel.name().as_str();
    match verdict {
        Verdict::Closed | Verdict::Skipped { .. } => {
            let late_us = lease.lateness_us(Instant::now());
            tracing::debug!(wheel, id, attempt, fence, late_us, verdict = verdict.as_str());
        }
        Verdict::NotDue { .. } => tracing::debug!(wheel, id, attempt, fence, verdict = "not_due"),
        Verdict::Unavailable { reason, .. } => {
            tracing::debug!(wheel, id, attempt, fence, verdict = "unavailable", reason);
        }
        Verdict::Failed { reason } | Verdict::Rejected { reason } | Verdict::Gone { reason } => {
            tracing::warn!(wheel, id, attempt, fence, verdict = verdict.as_str(), reason);
        }
    }
}
