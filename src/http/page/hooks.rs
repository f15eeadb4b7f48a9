//! The hook of the wheel: what closes its orders, what holds it back and until when, what it has answered.

use std::collections::BTreeMap;

use askama::Template;

use super::fault::Outcome;
use super::figure::{At, count, of};
use super::frame::Frame;
use super::visit::Visit;
use crate::http::Setting;
use crate::wheel::answer::Stats;
use crate::wheel::{Held, WorkerRecord};

#[derive(Template)]
#[template(path = "hooks.html")]
struct Page {
    frame: Frame,
    /// The hook's kind, where the configuration is known.
    kind: String,
    hook: Vec<Key>,
    limits: Vec<Key>,
    paused: Option<(String, String)>,
    trip: Option<(At, String, String)>,
    workers: u64,
    /// `2 workers`, and `2 workers claim`.
    serving: String,
    claiming: String,
    held_back: Vec<Reason>,
    endpoints: Vec<Endpoint>,
    verdicts: Vec<Verdict>,
}

/// A key of the configuration, by its name within the section.
struct Key {
    name: String,
    value: String,
    source: String,
}

/// What keeps workers from claiming, and how many it keeps.
struct Reason {
    text: String,
    workers: usize,
}

/// An endpoint that has asked for a pause.
struct Endpoint {
    name: String,
    until: At,
    workers: usize,
}

/// What became of so many orders since the shards were formatted.
struct Verdict {
    word: &'static str,
    count: String,
    what: &'static str,
}

/// `GET /hooks`.
pub(super) async fn show(visit: Visit) -> Outcome {
    let wheel = visit.wheel();
    let held = wheel.held_by().await?;
    let workers = wheel.presence().await?.workers;
    let stats = wheel.stats().await?;
    let now = wheel.now().await?;
    let name = wheel.name().as_str();
    let settings = &visit.door.served.settings;
    let hook = keys(settings, &[&format!("wheel.{name}.hook."), &format!("wheel.{name}.reminder.")]);
    let limits = ["circuit.", "breaker.", "limit."].map(|part| format!("wheel.{name}.{part}"));
    let limits = keys(settings, &limits.each_ref().map(String::as_str));
    let kind =
        hook.iter().find(|key| key.name == "hook.kind").map(|key| key.value.trim_matches('"').to_owned());
    let Held { paused, trip } = held;
    let page = Page {
        frame: visit.frame("Hooks"),
        kind: kind.unwrap_or_default(),
        hook,
        limits,
        paused: paused.map(|note| (note.actor, note.reason)),
        trip: trip.map(|trip| (At::seen(trip.at(), now), trip.by.clone(), trip.why.clone())),
        serving: of(workers.len() as u64, "worker", "workers"),
        claiming: of(workers.len() as u64, "worker claims", "workers claim"),
        workers: workers.len() as u64,
        held_back: reasons(&workers),
        endpoints: endpoints(&workers, now),
        verdicts: verdicts(&stats),
    };
    visit.page(&page)
}

/// The keys below these sections, the wheel's own name left out.
fn keys(settings: &[Setting], sections: &[&str]) -> Vec<Key> {
    let below = |setting: &&Setting| sections.iter().any(|section| setting.key.starts_with(section));
    let key = |setting: &Setting| Key {
        name: setting.key.splitn(3, '.').nth(2).unwrap_or(&setting.key).to_owned(),
        value: setting.value.clone(),
        source: setting.source.clone(),
    };
    settings.iter().filter(below).map(key).collect()
}

/// Each reason once, the one of most workers first.
fn reasons(workers: &[WorkerRecord]) -> Vec<Reason> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in workers.iter().flat_map(|worker| &worker.held_back) {
        *counts.entry(reason).or_default() += 1;
    }
    let reason = |(text, workers): (&str, usize)| Reason { text: text.to_owned(), workers };
    let mut reasons: Vec<_> = counts.into_iter().map(reason).collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.workers));
    reasons
}

/// Each endpoint once, with the latest moment that any worker was told; what is over is left out.
fn endpoints(workers: &[WorkerRecord], now: crate::clock::Moment) -> Vec<Endpoint> {
    let mut pauses: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for (name, until) in
        workers.iter().flat_map(|worker| &worker.pauses).filter(|(_, until)| **until > now.as_millis())
    {
        let known = pauses.entry(name).or_default();
        *known = (known.0.max(*until), known.1 + 1);
    }
    let endpoint = |(name, (until, workers)): (&str, (u64, usize))| Endpoint {
        name: name.to_owned(),
        until: At::seen(crate::clock::Moment::EPOCH.plus(std::time::Duration::from_millis(until)), now),
        workers,
    };
    pauses.into_iter().map(endpoint).collect()
}

fn verdicts(stats: &Stats) -> Vec<Verdict> {
    let words = [
        ("closed", "the hook closed the order"),
        ("skipped", "it was paid, or closed by somebody else"),
        ("retried", "attempts that closed nothing and were put off"),
        ("buried", "put aside as dead, for a person"),
        ("lost", "leases that ended because their worker was gone"),
        ("reminded", "reminders that were given"),
        ("reminder_failed", "reminders that were given up"),
    ];
    let verdict = |(word, what)| {
        let total = stats.totals.get(word).copied().unwrap_or_default();
        Verdict { word, count: count(total), what }
    };
    words.into_iter().map(verdict).collect()
}
