//! One deadline: why it is not closed, what happened to it, what the shop stored with it.

use askama::Template;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::Response;

use super::fault::{Fault, Outcome};
use super::figure::{At, count, span};
use super::frame::Frame;
use super::line::Line;
use super::parameters::Link;
use super::payload::{Shown, shown};
use super::story::{Story, Told};
use super::visit::Visit;
use crate::deadline::{Id, State};
use crate::error::escaped;
use crate::wheel::answer::Inspection;

#[derive(Template)]
#[template(path = "deadline.html")]
struct Page {
    frame: Frame,
    acts: Vec<Act>,
    id: String,
    shown_id: String,
    line: Option<Line>,
    why: String,
    timeline: Vec<Told>,
    /// The shop's row, or why there is none to see.
    row: Vec<(&'static str, String)>,
    row_note: String,
    facts: Vec<(&'static str, String)>,
    payload: Option<Shown>,
    payload_bytes: String,
    payload_href: String,
    now: At,
}

/// `GET /wheels/{wheel}/deadline?id=`.
pub(super) async fn show(visit: Visit) -> Outcome {
    let id = named(&visit)?;
    let story = Story::of(&visit, &id).await?;
    let seen = &story.seen;
    let frame = visit.frame(escaped(id.as_str()));
    let entry = seen.entry.as_ref().filter(|entry| !entry.payload.is_empty());
    let page = Page {
        id: id.as_str().to_owned(),
        shown_id: escaped(id.as_str()),
        line: Line::inspected(id.as_str(), seen.clone(), ""),
        why: story.why.clone(),
        facts: facts(seen),
        payload: entry.map(|entry| shown(entry.payload.as_bytes())),
        payload_bytes: entry
            .map_or(String::new(), |entry| super::figure::bytes(entry.payload.as_bytes().len() as u64)),
        payload_href: Link::to(frame.at("/payload")).with("id", id.as_str()).to_string(),
        now: At::of(seen.now),
        acts: ACTS.into_iter().filter(|act| may(act.word, seen)).collect(),
        timeline: story.timeline,
        row: story.row,
        row_note: story.row_note,
        frame,
    };
    visit.page(&page)
}

/// `GET /wheels/{wheel}/payload?id=`: the bytes as they are.
pub(super) async fn payload(visit: Visit) -> Outcome {
    let id = named(&visit)?;
    let seen = visit.wheel().inspect(&id).await?;
    let Some(entry) = seen.entry.filter(|entry| !entry.payload.is_empty()) else {
        return Err(Fault::not_found("There is no payload: it ended, or none was stored."));
    };
    let mut response = Response::new(Body::from(entry.payload.as_bytes().to_vec()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment; filename=\"payload\""));
    Ok(response)
}

fn named(visit: &Visit) -> Result<Id, Fault> {
    Id::new(visit.query.exact("id")).map_err(|bad| Fault::bad(bad.to_string()))
}

fn facts(seen: &Inspection) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Shard", seen.shard.to_string())];
    if let Some(entry) = &seen.entry {
        facts.push(("Generation", entry.generation.to_string()));
        facts.push(("Cause", entry.cause.as_str().to_owned()));
        facts.push(("Failed attempts", count(entry.attempts.into())));
        facts.push(("Leases lost", count(entry.losses.into())));
        let held = if entry.hold_count == 0 {
            "none".to_owned()
        } else {
            format!("{}, {} in all", entry.hold_count, span(entry.hold_total))
        };
        facts.push(("Holds", held));
        let reminders: Vec<String> = entry.reminders.before().map(crate::clock::show_duration).collect();
        if !reminders.is_empty() {
            facts.push(("Reminders before it", reminders.join(", ")));
        }
        if let Some(note) = &entry.note {
            facts.push(("Closed by hand", format!("{}: {}", escaped(&note.actor), escaped(&note.reason))));
        }
        if let Some(trace) = &entry.traceparent {
            facts.push(("Trace", escaped(trace)));
        }
        if entry.cancelled {
            facts.push(("Cancelled", "while a worker had it".to_owned()));
        }
        facts.push(("Slot", format!("level {}, number {}", entry.slot.level, entry.slot.number)));
    }
    if let Some(ended) = &seen.ended {
        let word = if seen.entry.is_some() { "Ended before" } else { "Ended" };
        let by = if ended.fence.0 == 0 {
            "without an attempt".to_owned()
        } else {
            format!("by attempt {}, fence {}", ended.attempt, ended.fence.0)
        };
        facts.push((word, format!("{} {by}", ended.outcome.as_str())));
    }
    facts
}

impl Page {
    /// What the moment of its line is.
    fn moment(&self, line: &Line) -> &'static str {
        match line.state {
            "dead" => "Died",
            "leased" => "Its lease ends",
            "due" => "Due",
            "closed" | "skipped" | "cancelled" => "Ended",
            _ => "Fires",
        }
    }
}

/// What may be done to it by hand, as its form says it.
struct Act {
    word: &'static str,
    label: &'static str,
    note: &'static str,
    tone: &'static str,
    /// What it needs to know besides, and what stands there first.
    field: &'static str,
    field_label: &'static str,
    value: &'static str,
    needs_reason: bool,
}

const PLAIN: Act = Act {
    word: "",
    label: "",
    note: "",
    tone: "",
    field: "",
    field_label: "",
    value: "",
    needs_reason: false,
};

const ACTS: [Act; 7] = [
    Act {
        word: "revive",
        label: "Revive",
        note: "A new life: due now, no attempts so far.",
        tone: "primary",
        ..PLAIN
    },
    Act {
        word: "close",
        label: "Close now",
        note: "It fires at once, by hand. The hook still leaves a paid order alone.",
        needs_reason: true,
        ..PLAIN
    },
    Act {
        word: "reschedule",
        label: "Reschedule",
        note: "To a moment in UTC like 2026-03-01 12:00, or +15m for so much later than promised (of an overdue one: than now).",
        field: "to",
        field_label: "To",
        value: "+15m",
        ..PLAIN
    },
    Act {
        word: "hold",
        label: "Hold",
        note: "It does not fire for so long from now, within the wheel's limits: a payment is under way.",
        field: "for",
        field_label: "For",
        value: "15m",
        ..PLAIN
    },
    Act { word: "release", label: "Release", note: "Ends the hold: it fires when it was promised.", ..PLAIN },
    Act {
        word: "cancel",
        label: "Cancel",
        note: "It never fires; the order stays as it is.",
        tone: "danger",
        ..PLAIN
    },
    Act {
        word: "drop",
        label: "Drop",
        note: "Ends it as cancelled, if it is still dead; the order stays as it is.",
        tone: "danger",
        ..PLAIN
    },
];

/// Whether that state lets somebody do this by hand.
fn may(act: &str, seen: &Inspection) -> bool {
    let held = seen.entry.as_ref().is_some_and(|entry| entry.hold_count > 0 && entry.next_at > entry.due_at);
    match act {
        "close" | "cancel" => matches!(seen.state, State::Scheduled | State::Dead),
        "reschedule" | "hold" => seen.state == State::Scheduled,
        "release" => seen.state == State::Scheduled && held,
        "revive" | "drop" => seen.state == State::Dead,
        _ => false,
    }
}
