//! What a worker measures, resolved once: the poller, the executor and the janitor count into it, and what stands in memory anyway is
//! looked at only when somebody scrapes.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::heartbeat::Leases;
use super::limits::Limits;
use super::sentry::Gate;
use super::settings::WorkerSettings;
use super::tally::{Tally, TallySnapshot};
use crate::deadline::{Cause, Stage};
use crate::hook::{Hook, Verdict};
use crate::lease::Lease;
use crate::metrics::{Counter, Histogram, Metrics, Spread, catalog};
use crate::shard::WheelName;
use crate::wheel::Claimed;
use crate::wheel::answer::Finding;

/// The verdicts, in the order of [`verdict_place`].
const VERDICTS: [&str; 7] = ["closed", "skipped", "not_due", "unavailable", "failed", "rejected", "gone"];
/// The causes, by their stored numbers.
const CAUSES: [Cause; 5] = [Cause::Due, Cause::Manual, Cause::Sweep, Cause::Rebuild, Cause::Feed];

/// The series of one worker.
#[derive(Debug)]
pub struct Measures {
    metrics: Metrics,
    wheel: String,
    lateness: Histogram,
    claim_to_commit: Histogram,
    close_calls: Histogram,
    remind_calls: Histogram,
    verdicts: [[Counter; 5]; 7],
}

impl Measures {
    /// The series of this wheel.
    pub fn new(metrics: &Metrics, wheel: &WheelName) -> Self {
        let name = wheel.as_str();
        let calls = |action| metrics.histogram(&catalog::HOOK_DURATION, &[name, action]);
        let verdict = |verdict| {
            CAUSES.map(|cause| metrics.counter(&catalog::VERDICTS, &[name, verdict, cause.as_str()]))
        };
        // A counter that begins with what it counted first shows no increase.
        for kind in Finding::KINDS {
            drop(metrics.counter(&catalog::STRUCTURE_FINDINGS, &[name, kind]));
        }
        Self {
            metrics: metrics.clone(),
            wheel: name.to_owned(),
            lateness: metrics.histogram(&catalog::LATENESS, &[name]),
            claim_to_commit: metrics.histogram(&catalog::CLAIM_TO_COMMIT, &[name]),
            close_calls: calls("close"),
            remind_calls: calls("remind"),
            verdicts: VERDICTS.map(verdict),
        }
    }

    /// Counts how late the leases of a claim are: of those whose lateness is ours, so no repeats and nothing that came late or was held.
    pub fn claimed(&self, claimed: &Claimed) {
        for lease in &claimed.leases {
            let ours = matches!(lease.cause, Cause::Due | Cause::Feed);
            let first = lease.attempt == 1 && !lease.was_put_off;
            if ours && first && lease.stage == Stage::CLOSE && !lease.was_held {
                let due_us = lease.due_at.as_millis().saturating_mul(1000);
                self.lateness.observe_us(claimed.now_us.saturating_sub(due_us), 1);
            }
        }
    }

    /// How late the leases were that were counted so far.
    pub fn lateness(&self) -> Spread {
        self.lateness.spread()
    }

    /// Counts a call of a hook.
    pub fn called(&self, stage: Stage, took: Duration) {
        let calls = if stage == Stage::CLOSE { &self.close_calls } else { &self.remind_calls };
        calls.observe(took, 1);
    }

    /// Counts what the hook said of orders that were claimed together.
    pub fn judged(&self, leases: &[Lease], verdicts: &[Verdict]) {
        let mut counts = [[0_u64; CAUSES.len()]; VERDICTS.len()];
        let mut committed = 0;
        for (lease, verdict) in leases.iter().zip(verdicts) {
            let count =
                counts.get_mut(verdict_place(verdict)).and_then(|row| row.get_mut(lease.cause as usize));
            if let Some(count) = count {
                *count += 1;
            }
            committed += u64::from(matches!(verdict, Verdict::Closed | Verdict::Skipped { .. }));
        }
        for (counters, counts) in self.verdicts.iter().zip(&counts) {
            for (counter, count) in counters.iter().zip(counts).filter(|(_, count)| **count > 0) {
                counter.inc_by(*count);
            }
        }
        if let Some(lease) = leases.first().filter(|_| committed > 0) {
            self.claim_to_commit.observe(lease.redis_clock.at.elapsed(), committed);
        }
    }

    /// Counts a finding of the structural scan.
    pub fn found(&self, kind: &str) {
        self.metrics.counter(&catalog::STRUCTURE_FINDINGS, &[&self.wheel, kind]).inc();
    }

    /// Lets the scrape see what a running worker counts and how it stands, for as long as it runs.
    pub fn follow(&self, followed: Followed) {
        let mut gauges = Scrape::new(self.metrics.clone(), self.wheel.clone());
        self.metrics.before_scrape(move || gauges.look(&followed));
    }
}

fn verdict_place(verdict: &Verdict) -> usize {
    match verdict {
        Verdict::Closed => 0,
        Verdict::Skipped { .. } => 1,
        Verdict::NotDue { .. } => 2,
        Verdict::Unavailable { .. } | Verdict::Held { .. } => 3,
        Verdict::Failed { .. } => 4,
        Verdict::Rejected { .. } => 5,
        Verdict::Gone { .. } => 6,
    }
}

/// The parts of a running worker that a scrape looks at. They end with the run, not with the last scrape.
pub struct Followed {
    pub tally: Arc<Tally>,
    pub hook: Arc<dyn Hook>,
    pub settings: WorkerSettings,
    pub limits: Weak<Limits>,
    pub leases: Weak<Leases>,
    pub gate: Weak<Gate>,
    pub stop: CancellationToken,
}

/// One look of a scrape after another.
struct Scrape {
    metrics: Metrics,
    wheel: String,
    counted: TallySnapshot,
    throttled: u64,
}

impl Scrape {
    fn new(metrics: Metrics, wheel: String) -> Self {
        let mut scrape = Self { metrics, wheel, counted: TallySnapshot::default(), throttled: 0 };
        // Every counter stands at zero before anything happens, so that the first one is seen as a rise.
        scrape.count(TallySnapshot::default());
        scrape
    }

    fn look(&mut self, followed: &Followed) -> bool {
        self.count(followed.tally.snapshot());
        let parts = (followed.limits.upgrade(), followed.leases.upgrade(), followed.gate.upgrade());
        let (Some(limits), Some(leases), Some(gate)) = parts else {
            self.set(&catalog::IN_FLIGHT, &[], 0.0);
            return false;
        };
        let (settings, now) = (&followed.settings, Instant::now());
        self.set(&catalog::IN_FLIGHT, &[], leases.count() as f64);
        self.set(&catalog::CONCURRENCY, &[], settings.concurrency as f64);
        self.set(&catalog::CLOCK_SKEW_MAX, &[], settings.skew_max.as_secs_f64());
        for (clock, ahead_ms) in limits.clocks.offsets() {
            let clock = if clock == "host" { "worker" } else { &clock };
            self.set(&catalog::CLOCK_OFFSET, &[clock], ahead_ms as f64 / 1000.0);
        }
        for (reason, stopped) in [
            ("breaker", limits.breaker.is_tripped()),
            ("clocks", limits.clocks.stopped().is_some()),
            ("circuit", limits.circuit.stops(now)),
            ("selftest", !gate.is_open()),
            ("drain", followed.stop.is_cancelled()),
        ] {
            self.set(&catalog::CLAIMING_STOPPED, &[reason], flag(stopped));
        }
        for (endpoint, is_away, is_paused) in limits.circuit.endpoints(now) {
            self.set(&catalog::CIRCUIT_OPEN, &[&endpoint], flag(is_away));
            self.set(&catalog::HOOK_PAUSED, &[&endpoint], flag(is_paused));
        }
        for sessions in followed.hook.sessions() {
            for (state, count) in
                [("in_use", sessions.in_use), ("idle", sessions.idle), ("max", sessions.max)]
            {
                self.set(&catalog::DATABASE_SESSIONS, &[&sessions.endpoint, state], count as f64);
            }
        }
        let throttled = limits.purse.as_ref().map_or(0, |purse| purse.throttled());
        self.counter(&catalog::THROTTLED, &[]).inc_by(throttled.saturating_sub(self.throttled));
        self.throttled = throttled;
        true
    }

    /// Adds what was counted since the last look.
    fn count(&mut self, now: TallySnapshot) {
        let before = std::mem::replace(&mut self.counted, now);
        let outcome = |outcome| self.counter(&catalog::SETTLED, &[outcome]);
        let plain = |family| self.counter(family, &[]);
        for (counter, now, before) in [
            (outcome("closed"), now.closed, before.closed),
            (outcome("skipped"), now.skipped, before.skipped),
            (outcome("not_due"), now.not_due, before.not_due),
            (outcome("retried"), now.retried, before.retried),
            (outcome("unavailable"), now.unavailable, before.unavailable),
            (outcome("buried"), now.buried, before.buried),
            (outcome("cancelled"), now.cancelled, before.cancelled),
            (outcome("given_back"), now.given_back, before.given_back),
            (outcome("reminded"), now.reminded, before.reminded),
            (outcome("reminder_failed"), now.reminder_failed, before.reminder_failed),
            (plain(&catalog::HOOK_FAULTS), now.hook_faults, before.hook_faults),
            (plain(&catalog::CLAIMS), now.claims, before.claims),
            (plain(&catalog::CLAIM_FAILURES), now.claim_failures, before.claim_failures),
            (plain(&catalog::CLAIMED), now.claimed, before.claimed),
            (plain(&catalog::REAPED), now.reaped, before.reaped),
            (plain(&catalog::RENEWED), now.renewed, before.renewed),
            (plain(&catalog::STALE_SETTLES), now.stale, before.stale),
            (plain(&catalog::DISTRUSTED), now.distrusted, before.distrusted),
            (plain(&catalog::SETTLE_FAILURES), now.settle_failures, before.settle_failures),
            (plain(&catalog::PRUNED), now.pruned, before.pruned),
        ] {
            counter.inc_by(now.saturating_sub(before));
        }
    }

    fn counter(&self, family: &crate::metrics::Described, values: &[&str]) -> Counter {
        let all: Vec<&str> = [self.wheel.as_str()].into_iter().chain(values.iter().copied()).collect();
        self.metrics.counter(family, &all)
    }

    fn set(&self, family: &crate::metrics::Described, values: &[&str], value: f64) {
        let all: Vec<&str> = [self.wheel.as_str()].into_iter().chain(values.iter().copied()).collect();
        self.metrics.gauge(family, &all).set(value);
    }
}

fn flag(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}
