//! The hook of the wheel: what closes its orders, what holds it back and until when, what it has answered.

use askama::Template;

use super::fault::Outcome;
use super::figure::{At, count, of};
use super::frame::Frame;
use super::visit::Visit;
use crate::http::Setting;
use crate::wheel::{Held, held_back, pauses};

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
        held_back: held_back(&workers)
            .into_iter()
            .map(|(text, workers)| Reason { text: text.to_owned(), workers })
            .collect(),
        endpoints: pauses(&workers, now)
            .into_iter()
            .map(|(name, until, workers)| Endpoint {
                name: name.to_owned(),
                until: At::seen(until, now),
                workers,
            })
            .collect(),
        verdicts: stats
            .verdicts()
            .into_iter()
            .map(|(word, total, what)| Verdict { word, count: count(total), what })
            .collect(),
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
