//! The executor: calls the hook for the leases of a claim and hands the verdicts to the settler.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc::UnboundedSender};
use tokio_util::task::TaskTracker;

use super::breaker::Kind;
use super::circuit::Answer;
use super::failpoint;
use super::gathering::{Gathering, Part};
use super::heartbeat::Leases;
use super::limits::Limits;
use super::measures::Measures;
use super::reminder::{self, Reminder};
use super::settings::WorkerSettings;
use super::settler::Judged;
use super::tally::{Tally, add};
use super::verdict::what_of;
use crate::deadline::{Cause, Id, Stage};
use crate::hook::{Hook, Verdict};
use crate::lease::Lease;
use crate::shard::Shard;
use crate::trace;
use crate::wheel::{Verdicts, What, Wheel};

/// A database's clock is waited for no longer than this: what it then calls not due comes again.
const LONGEST_LAG: Duration = Duration::from_millis(250);

/// Calls the hook.
pub struct Executor {
    pub(super) wheel: Wheel,
    hook: Arc<dyn Hook>,
    pub(super) settings: WorkerSettings,
    pub(super) leases: Arc<Leases>,
    limits: Arc<Limits>,
    measures: Arc<Measures>,
    settlers: Vec<UnboundedSender<Judged>>,
    tally: Arc<Tally>,
    pub(super) calls: TaskTracker,
    pub(super) reminder: Reminder,
    gathering: Gathering,
    /// Calls that the hook makes at once: those that wait for their turn here may still be taken back.
    slots: Semaphore,
}

/// What a call is tied to besides: the leases in hand, and what may hold it back.
pub struct Held {
    pub leases: Arc<Leases>,
    pub limits: Arc<Limits>,
    pub measures: Arc<Measures>,
}

impl Executor {
    pub fn new(
        wheel: Wheel,
        hook: Arc<dyn Hook>,
        settings: WorkerSettings,
        held: Held,
        settlers: Vec<UnboundedSender<Judged>>,
        tally: Arc<Tally>,
        reminder: Reminder,
    ) -> Self {
        let calls = TaskTracker::new();
        let Held { leases, limits, measures } = held;
        let slots = Semaphore::new(hook.concurrency().min(Semaphore::MAX_PERMITS));
        let gathering = Gathering::default();
        Self {
            wheel,
            hook,
            settings,
            leases,
            limits,
            measures,
            settlers,
            tally,
            calls,
            reminder,
            gathering,
            slots,
        }
    }

    /// Calls the hook for these leases, in calls of at most the hook's batch size, side by side; they may wait for others to share a call.
    /// `permits` covers them all; `keep` is dropped when the last of them is settled.
    pub fn execute(
        self: &Arc<Self>,
        shard: Shard,
        mut leases: Vec<Lease>,
        mut permits: OwnedSemaphorePermit,
        keep: Vec<OwnedSemaphorePermit>,
    ) {
        failpoint::reach(failpoint::AFTER_CLAIM, leases.iter().map(|lease| lease.id.as_str()));
        if self.limits.breaker.is_tripped() {
            return self.give_back(shard, leases, permits);
        }
        let reminders = reminder::take(&mut leases);
        if let Some(own) = permits.split(reminders.len()).filter(|_| !reminders.is_empty()) {
            self.remind(shard, reminders, own);
        }
        self.put_off(shard, &mut leases, &mut permits);
        let (size, keep) = (self.hook.batch_size().max(1), Arc::new(keep));
        while !leases.is_empty() {
            let rest = leases.split_off(leases.len().min(size));
            let leases = std::mem::replace(&mut leases, rest);
            let Some(permits) = permits.split(leases.len()) else { return };
            let batch = self.leases.take(shard, &leases, self.settings.lease);
            let part = Part { shard, batch, leases, permits, keep: keep.clone() };
            if self.settings.gather.is_zero() || size == 1 || part.goes_alone() {
                self.begin(vec![part]);
            } else {
                self.gather(part, size);
            }
        }
    }

    /// Lets a part wait for others, but never half of all permits: claims want them.
    fn gather(self: &Arc<Self>, part: Part, size: usize) {
        let added = self.gathering.add(part, size.min(self.settings.concurrency / 2));
        added.ready.into_iter().for_each(|parts| self.begin(parts));
        if let Some(round) = added.began {
            let executor = self.clone();
            self.calls.spawn(async move {
                tokio::select! {
                    () = tokio::time::sleep(executor.settings.gather) => {}
                    () = executor.gathering.hurry.cancelled() => {}
                }
                executor.call(executor.gathering.take(round)).await;
            });
        }
    }

    fn begin(self: &Arc<Self>, parts: Vec<Part>) {
        let executor = self.clone();
        self.calls.spawn(async move { executor.call(parts).await });
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
        self.gathering.hurry.cancel();
        self.calls.wait().await;
    }

    async fn call(&self, mut parts: Vec<Part>) {
        let mut counts = Vec::with_capacity(parts.len());
        let mut leases = Vec::new();
        for part in &mut parts {
            counts.push(part.leases.len());
            if leases.is_empty() {
                leases = std::mem::take(&mut part.leases);
            } else {
                leases.append(&mut part.leases);
            }
        }
        if leases.is_empty() {
            return;
        }
        self.await_clock(&leases).await;
        let _slot = self.slots.acquire().await;
        // While it waited the wheel may have been tripped, or its endpoint may have asked for a pause.
        let verdicts = match self.needless(&leases) {
            Some(what) => leases.into_iter().map(|lease| (lease.id, what.clone())).collect(),
            None => self.asked(leases).await,
        };
        let mut verdicts = verdicts.into_iter();
        for (part, count) in parts.into_iter().zip(counts) {
            let Part { shard, batch, permits, keep, .. } = part;
            let verdicts = verdicts.by_ref().take(count).collect();
            self.hand_over(shard, Judged { batch, leases: self.leases.clone(), verdicts, _permits: permits });
            drop(keep);
        }
    }

    /// Lets a database whose clock is behind Redis's come to the moment of these orders: until then it would answer that they are not due.
    async fn await_clock(&self, leases: &[Lease]) {
        let behind = self.limits.clocks.database_behind().min(LONGEST_LAG);
        if behind.is_zero() {
            return;
        }
        let promised = leases.iter().filter(|lease| lease.cause != Cause::Manual);
        let Some(latest) = promised.max_by_key(|lease| lease.due_at) else { return };
        let over_us = latest.lateness_us(Instant::now());
        let wait_us = i64::try_from(behind.as_micros()).unwrap_or(0).saturating_sub(over_us);
        if let Ok(wait_us @ 1..) = u64::try_from(wait_us) {
            tokio::time::sleep(Duration::from_micros(wait_us).min(LONGEST_LAG)).await;
        }
    }

    /// Asks the hook about these leases, and says what becomes of each.
    async fn asked(&self, leases: Vec<Lease>) -> Vec<(Id, What)> {
        failpoint::reach(failpoint::IN_HOOK, leases.iter().map(|lease| lease.id.as_str()));
        let (leases, verdicts) = self.judge(&self.hook, leases).await;
        failpoint::reach(failpoint::BEFORE_SETTLE, leases.iter().map(|lease| lease.id.as_str()));
        self.measures.judged(&leases, &verdicts);
        self.note_availability(&leases, &verdicts);
        let settings = &self.settings;
        let any_away = self.limits.circuit.any_away();
        let mut counted = Verdicts::default();
        let mut judged = Vec::with_capacity(leases.len());
        for (lease, verdict) in leases.into_iter().zip(verdicts) {
            tell(&self.wheel, &lease, &verdict);
            let away = any_away && self.limits.circuit.is_away(self.hook.endpoint(&lease));
            let (id, kind) = (lease.id.clone(), Kind::of(&verdict));
            let what = what_of(verdict, lease, settings, away);
            counted.add(&kind.verdicts(&what));
            judged.push((id, what));
        }
        self.limits.breaker.count(&counted);
        judged
    }

    /// Asks the hook, in a task of its own: a panic or a call that overruns is that call's, and nothing is dropped in the middle of a
    /// transaction.
    pub(super) async fn judge(&self, hook: &Arc<dyn Hook>, leases: Vec<Lease>) -> (Vec<Lease>, Vec<Verdict>) {
        add(&self.tally.hook_calls, 1);
        let stage = leases.first().map_or(Stage::CLOSE, |lease| lease.stage);
        let began = Instant::now();
        let leases = Arc::new(leases);
        let limit = hook.timeout() + Duration::from_millis(500);
        let (hook, wheel, asked) = (hook.clone(), self.wheel.clone(), leases.clone());
        let call = tokio::spawn(async move {
            let action = if stage == Stage::CLOSE { "close" } else { "remind" };
            let enqueued = asked.iter().map(|lease| lease.traceparent.as_deref());
            let call = trace::Call::begin(action, wheel.name().as_str(), enqueued);
            let verdicts = trace::within(&call, hook.judge(wheel.name(), &asked)).await;
            call.end(verdicts.iter().map(Verdict::as_str));
            verdicts
        });
        // The hook keeps its own time; this is for one that does not.
        let answered = tokio::time::timeout(limit, call).await;
        self.measures.called(stage, began.elapsed());
        let fault = match answered {
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

    /// What becomes of leases whose hook must not be called now; `None` where it may.
    fn needless(&self, leases: &[Lease]) -> Option<What> {
        if self.limits.breaker.is_tripped() {
            return Some(What::Back);
        }
        let now = Instant::now();
        if !self.limits.circuit.any_pause(now) {
            return None;
        }
        // Only for a call to one endpoint: the others' orders must not wait with it.
        let first = self.hook.endpoint(leases.first()?);
        let held = self.limits.circuit.paused(first, now)?;
        let alone = leases.iter().all(|lease| self.hook.endpoint(lease) == first);
        alone.then(|| What::Wait(held.saturating_duration_since(now)))
    }

    /// Puts off what goes to an endpoint that is held back while another one is there: it is not asked, and no attempt is counted.
    fn put_off(&self, shard: Shard, leases: &mut Vec<Lease>, permits: &mut OwnedSemaphorePermit) {
        if !self.limits.circuit.any_away() {
            return;
        }
        let now = Instant::now();
        let (mut waiting, mut verdicts) = (Vec::new(), Vec::new());
        for lease in std::mem::take(leases) {
            match self.limits.circuit.admit(self.hook.endpoint(&lease), now) {
                None => leases.push(lease),
                Some(until) => {
                    verdicts.push((lease.id.clone(), What::Wait(until.saturating_duration_since(now))));
                    waiting.push(lease);
                }
            }
        }
        if waiting.is_empty() {
            return;
        }
        let Some(own) = permits.split(waiting.len()) else { return };
        let batch = self.leases.take(shard, &waiting, self.settings.lease);
        self.hand_over(shard, Judged { batch, leases: self.leases.clone(), verdicts, _permits: own });
    }

    /// Tells the circuit what a call found out about each endpoint that it went to.
    fn note_availability(&self, leases: &[Lease], verdicts: &[Verdict]) {
        let mut found: BTreeMap<usize, Answer> = BTreeMap::new();
        for (lease, verdict) in leases.iter().zip(verdicts) {
            let answer = match verdict {
                Verdict::Unavailable { reason, retry_after } => {
                    Answer::Away { reason: reason.clone(), pause: *retry_after }
                }
                _ => Answer::There,
            };
            let known = found.entry(self.hook.endpoint(lease)).or_insert_with(|| answer.clone());
            // One order that was answered is an answer; a pause that was asked for stands beside it.
            let stronger = match (&answer, &*known) {
                (Answer::Away { pause: Some(new), .. }, Answer::Away { pause, .. }) => {
                    pause.is_none_or(|p| *new > p)
                }
                (Answer::Away { pause: Some(_), .. }, Answer::There) => true,
                (Answer::There, Answer::Away { pause: None, .. }) => true,
                _ => false,
            };
            if stronger {
                *known = answer;
            }
        }
        let now = Instant::now();
        found.into_iter().for_each(|(endpoint, answer)| self.limits.circuit.note(endpoint, answer, now));
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
    let (wheel, trace_id) = (wheel.name().as_str(), || lease.trace_id());
    match verdict {
        Verdict::Closed | Verdict::Skipped { .. } => {
            let late_us = lease.lateness_us(Instant::now());
            tracing::debug!(
                wheel,
                id,
                attempt,
                fence,
                trace_id = trace_id(),
                late_us,
                verdict = verdict.as_str()
            );
        }
        Verdict::NotDue { .. } => {
            tracing::debug!(wheel, id, attempt, fence, trace_id = trace_id(), verdict = "not_due")
        }
        Verdict::Unavailable { reason, .. } | Verdict::Held { reason } => {
            tracing::debug!(
                wheel,
                id,
                attempt,
                fence,
                trace_id = trace_id(),
                verdict = "unavailable",
                reason
            );
        }
        Verdict::Failed { reason } | Verdict::Rejected { reason } | Verdict::Gone { reason } => {
            tracing::warn!(
                wheel,
                id,
                attempt,
                fence,
                trace_id = trace_id(),
                verdict = verdict.as_str(),
                reason
            );
        }
    }
}
