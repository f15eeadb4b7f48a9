//! From the hook's verdict to what becomes of the deadline: the table of docs/protocol.md as one match.

use std::time::Duration;

use super::settings::WorkerSettings;
use crate::clock::Moment;
use crate::deadline::Outcome;
use crate::hook::Verdict;
use crate::lease::Lease;
use crate::wheel::{Reminded, What};

/// The first wait for a clock that is behind.
const SOON: Duration = Duration::from_millis(20);

/// What becomes of a lease. `away`: the circuit keeps others from its endpoint, so that the order itself need not wait for long.
pub fn what_of(verdict: Verdict, lease: Lease, settings: &WorkerSettings, away: bool) -> What {
    let policy = &settings.retry;
    match verdict {
        Verdict::Closed => What::End { outcome: Outcome::Closed, lease: std::sync::Arc::new(lease) },
        Verdict::Skipped { .. } => What::End { outcome: Outcome::Skipped, lease: std::sync::Arc::new(lease) },
        Verdict::NotDue { until: Some(until) } => not_due(until, &lease, settings),
        Verdict::NotDue { until: None } => What::Wait(settings.not_due_wait),
        Verdict::Unavailable { retry_after, .. } => {
            let own = policy.backoff.wait_after(1);
            let own = if away { own.min(settings.circuit.probe_interval) } else { own };
            What::Wait(retry_after.map_or(own, |asked| asked.max(own)))
        }
        Verdict::Held { .. } => What::Wait(policy.backoff.wait_after(1)),
        Verdict::Failed { reason } if lease.attempt >= policy.max_attempts => What::Bury(reason),
        Verdict::Failed { reason } => What::Retry(policy.backoff.wait_after(lease.attempt), reason),
        Verdict::Rejected { reason } => What::Bury(reason),
        Verdict::Gone { reason } => {
            // The row may be committed a moment after the enqueue.
            let age_us = lease.redis_clock.us.saturating_sub(lease.generation.0);
            if Duration::from_micros(age_us) < settings.gone_grace {
                What::Wait(settings.not_due_wait)
            } else {
                What::Bury(reason)
            }
        }
    }
}

/// A moment that is over by Redis's clock, and not by the clock of who named it: that one is behind, by nobody knows how much. Asked again in as
/// long as the moment is over already, so that a clock far behind is asked seldom.
fn not_due(until: Moment, lease: &Lease, settings: &WorkerSettings) -> What {
    let now_ms = lease.redis_clock.us_at(std::time::Instant::now()) / 1000;
    if until.as_millis() > now_ms {
        return What::Until(until);
    }
    let over = Duration::from_millis(now_ms - until.as_millis());
    let wait = over.clamp(SOON, settings.not_due_wait.max(SOON));
    What::Until(Moment::EPOCH.plus(Duration::from_millis(now_ms)).plus(wait))
}

/// What becomes of a reminder's lease. It never ends the deadline and is never buried: the next stage comes in any case. A wait that would
/// reach the next stage ends the reminder instead, which Redis's clock decides (lua/settle.lua).
pub fn what_of_reminder(verdict: &Verdict, lease: &Lease, settings: &WorkerSettings) -> What {
    let policy = &settings.retry;
    let over = |told| {
        let now_ms = lease.redis_clock.us_at(std::time::Instant::now()) / 1000;
        let now = Moment::EPOCH.plus(Duration::from_millis(now_ms));
        let (stage, moment) = lease.reminders.after(lease.stage, lease.due_at, now);
        What::Stage(stage, moment, told)
    };
    match verdict {
        Verdict::Closed => over(Reminded::Done),
        // Paid or closed already: the close will find that out for itself.
        Verdict::Skipped { .. } => over(Reminded::Needless),
        Verdict::NotDue { until: Some(until) } => not_due(*until, lease, settings),
        Verdict::NotDue { until: None } => What::Wait(settings.not_due_wait),
        Verdict::Unavailable { retry_after, .. } => {
            let own = policy.backoff.wait_after(1);
            What::Wait(retry_after.map_or(own, |asked| asked.max(own)))
        }
        Verdict::Held { .. } => What::Wait(policy.backoff.wait_after(1)),
        Verdict::Failed { reason } if lease.attempt < policy.max_attempts => {
            What::Retry(policy.backoff.wait_after(lease.attempt), reason.clone())
        }
        Verdict::Failed { .. } | Verdict::Rejected { .. } | Verdict::Gone { .. } => over(Reminded::Failed),
    }
}
