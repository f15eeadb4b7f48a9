//! What closes orders, line by line: whether it is stopped, what holds it back and until when, what it has answered, how it is set.

use std::sync::Arc;

use super::look::Seen;
use super::overview::Tone;
use crate::clock::{distance, show_span};
use crate::config::Shown;
use crate::error::escaped;
use crate::figure::grouped;
use crate::wheel::{held_back, pauses};

/// One line; a title where there is nothing but a head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What.
    pub head: String,
    /// How much, or what it is set to.
    pub value: String,
    /// What to know besides.
    pub remark: String,
    /// How it is meant.
    pub tone: Tone,
}

impl Line {
    fn new(head: impl Into<String>, value: impl Into<String>, remark: impl Into<String>) -> Self {
        Self { head: head.into(), value: value.into(), remark: remark.into(), tone: Tone::Plain }
    }

    fn title(text: &str) -> Self {
        Self::new(text, "", "")
    }

    fn bad(self) -> Self {
        Self { tone: Tone::Bad, ..self }
    }

    /// Whether it stands above others.
    pub fn is_title(&self) -> bool {
        self.value.is_empty()
    }
}

/// All of it.
pub fn lines(seen: &Seen) -> Vec<Line> {
    let mut lines = vec![closing(seen)];
    if let Some(trip) = &seen.held.trip {
        let told = format!("{}, says {}", escaped(&trip.why), escaped(&trip.by));
        lines.push(Line::new("breaker", format!("tripped {}", distance(trip.at(), seen.now)), told).bad());
    }
    lines.push(Line::title("What holds it back"));
    let of = |workers: usize| format!("{workers} of {} workers", seen.workers.len());
    for (reason, workers) in held_back(&seen.workers) {
        lines.push(Line::new("held back", escaped(reason), of(workers)).bad());
    }
    for (endpoint, until, workers) in pauses(&seen.workers, seen.now) {
        let left = format!("asked for a pause of {} more", show_span(until.since(seen.now)));
        lines.push(Line::new(escaped(endpoint), left, of(workers)).bad());
    }
    if lines.last().is_some_and(Line::is_title) {
        lines.push(Line::new(
            "nothing",
            if seen.workers.is_empty() { "but no worker calls it" } else { "–" },
            "",
        ));
    }
    lines.push(Line::title("What it has answered since the wheel was made"));
    let verdicts = seen.stats.verdicts();
    lines.extend(verdicts.map(|(word, count, what)| Line::new(word, grouped(count), what)));
    lines.push(Line::title("How it is set"));
    let key = |shown: &Shown| Line::new(escaped(&shown.key), escaped(&shown.value), escaped(&shown.source));
    lines.extend(seen.settings.iter().map(key));
    lines
}

/// Whether orders are closed just now.
fn closing(seen: &Seen) -> Line {
    if let Some(note) = &seen.held.paused {
        let why = format!("by {}: {}", escaped(&note.actor), escaped(&note.reason));
        return Line::new("closing", "paused", why).bad();
    }
    let stopped = seen.stats.paused_shards + seen.stats.tripped_shards;
    let serving = seen.workers.iter().filter(|worker| !worker.draining);
    let (serving, held): (usize, usize) =
        serving.fold((0, 0), |(all, held), one| (all + 1, held + usize::from(!one.held_back.is_empty())));
    let claim = format!("{} of {} workers claim", serving - held, seen.workers.len());
    match (stopped, serving) {
        (0, 0) => Line::new("closing", "nobody", "no worker claims").bad(),
        (0, serving) if held == serving => Line::new("closing", "held back", claim).bad(),
        (0, _) => Line::new("closing", "on", claim),
        (stopped, _) => {
            let shards = format!("{stopped} of {} shards are stopped", seen.stats.shards);
            Line::new("closing", "stopped", shards).bad()
        }
    }
}

/// The keys that say how the hook of that wheel closes, and when it is stopped by itself; the wheel's own name left out.
pub fn settings(wheel: &str, shown: &[Shown]) -> Arc<[Shown]> {
    let stem = format!("wheel.{wheel}.");
    let sections = ["hook.", "reminder.", "circuit.", "breaker.", "limit."];
    let own = shown.iter().filter_map(|one| {
        let key = one.key.strip_prefix(&stem)?;
        let fits = sections.iter().any(|section| key.starts_with(section));
        fits.then(|| Shown { key: key.to_owned(), ..one.clone() })
    });
    own.collect()
}
