//! `[wheel.NAME]` and `[wheel.NAME.worker]`.

use std::time::Duration;

use super::section::Section;
use crate::deadline::Channels;
use crate::retry::{Backoff, RetryPolicy};
use crate::shard::{ShardCount, WheelName};
use crate::slot::SlotWidth;
use crate::wheel::WheelSettings;
use crate::worker::WorkerSettings;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

pub(super) fn resolve(section: &mut Section<'_>, name: WheelName) -> WheelSettings {
    let width = section.duration("slot_width", 100 * MS..=60 * SECOND);
    let shards = section.whole("shards", 1..=1024);
    WheelSettings {
        name,
        shards: section.checked("shards", ShardCount::new(shards)).unwrap_or_default(),
        slot_width: section.checked("slot_width", SlotWidth::new(width)).unwrap_or_default(),
        ended_keep: section.duration("ended_keep", Duration::ZERO..=366 * DAY),
        cancelled_keep: section.duration("cancelled_keep", Duration::ZERO..=366 * DAY),
        events_keep: section.duration("events_keep", MINUTE..=366 * DAY),
        max_ahead: section.duration("max_ahead", SECOND..=8000 * 365 * DAY),
        hold_max_for: section.duration("hold_max_for", Duration::ZERO..=366 * DAY),
        hold_max_count: section.whole("hold_max_count", 0..=1000),
        hold_max_total: section.duration("hold_max_total", Duration::ZERO..=366 * DAY),
        channels: Channels {
            needed_to_hold: section.flag("hold_needs_channel"),
            // The channels themselves are sections of their own.
            ..Channels::default()
        },
        remind: super::reminder::when(section),
    }
}

pub(super) fn resolve_worker(section: &mut Section<'_>) -> WorkerSettings {
    let base = section.duration("backoff_base", MS..=DAY);
    let cap = section.duration("backoff_cap", MS..=7 * DAY);
    let jitter = section.number("backoff_jitter", 0.0..=0.9);
    let backoff = Backoff::new(base, cap, jitter);
    let retry = RetryPolicy {
        backoff: section.checked("backoff_cap", backoff).unwrap_or_default(),
        max_attempts: section.whole("max_attempts", 1..=1000),
        poison_limit: section.whole("poison_limit", 1..=100),
    };
    WorkerSettings {
        concurrency: section.whole("concurrency", 1..=100_000) as usize,
        claim_batch: section.whole("claim_batch", 1..=500) as usize,
        gather: section.duration("gather", Duration::ZERO..=10 * SECOND),
        lease: section.duration("lease", 100 * MS..=HOUR),
        lease_margin: section.duration("lease_margin", MS..=10 * MINUTE),
        poll_interval: section.duration("poll_interval", MS..=MINUTE),
        steal_after: section.duration("steal_after", MS..=MINUTE),
        grace: section.duration("grace", Duration::ZERO..=HOUR),
        retry,
        not_due_wait: section.duration("not_due_wait", 10 * MS..=HOUR),
        gone_grace: section.duration("gone_grace", Duration::ZERO..=24 * HOUR),
        ..WorkerSettings::default()
    }
}

/// What no key can see alone: the lease outlives the hook, or one order would be closed by two workers at once.
pub(super) fn check_lease(section: &mut Section<'_>, worker: &WorkerSettings, hook: Option<Duration>) {
    use crate::clock::show_duration;
    let needed = hook.unwrap_or_default() + worker.gather + worker.lease_margin;
    if worker.lease <= needed && !section.has_problem("lease") {
        let (lease, margin) = (show_duration(worker.lease), show_duration(worker.lease_margin));
        let mut parts: Vec<String> = Vec::new();
        parts.extend(hook.map(|timeout| format!("the hook's timeout {}", show_duration(timeout))));
        parts.extend((!worker.gather.is_zero()).then(|| format!("gather {}", show_duration(worker.gather))));
        parts.push(format!("lease_margin {margin}"));
        let together = if parts.len() > 1 { " together" } else { "" };
        let expected = format!("{}{together}", parts.join(" and "));
        section.problem("lease", &format!("\"{lease}\": expected more than {expected}"));
    }
}
