//! How moments, durations, entries and answers look to people. What machines get is the wheel's own: `wheel/shape.rs`.

use crate::clock::{Moment, distance, show_duration};
use crate::error::escaped;
use crate::wheel::answer::{Entry, Refusal, Row, Scheduled};
pub use crate::wheel::shape::{
    EntryJson, ended_json, enqueued_json, entry_json, failures_json, payload_json, refusal_json, row_json,
    scheduled_json,
};

/// Where a moved deadline stands, for people: `due 2026-…, fires in 5m`.
pub fn scheduled_text(scheduled: &Scheduled, now: Moment) -> String {
    let fires = distance(scheduled.next_at, now);
    if scheduled.next_at == scheduled.due_at {
        format!("due {} ({fires})", scheduled.due_at)
    } else {
        format!("due {}, fires {} ({fires})", scheduled.due_at, scheduled.next_at)
    }
}

/// Why a verb did nothing, for people.
pub fn refusal_text(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Absent => "nothing is known of it".to_owned(),
        Refusal::Leased => "a worker has it right now; nothing was changed".to_owned(),
        Refusal::Dead => "it is dead and waits for a person (duewheel dead --help)".to_owned(),
        Refusal::Scheduled => "it is scheduled; nothing was changed".to_owned(),
        Refusal::Ended(ended) => {
            format!("it ended as {} at {}; nothing was changed", ended.outcome.as_str(), ended.ended_at)
        }
        Refusal::Conflict { due_at } => {
            format!("it is scheduled for {due_at} already; nothing was changed (see --on-conflict)")
        }
        Refusal::Generation { stored } => format!("its generation is {stored}; nothing was changed"),
        Refusal::HoldCap { count, total } => {
            format!("held {count} times for {} in all, and may not be held longer", show_duration(*total))
        }
        Refusal::NotHeld => "it is not held".to_owned(),
    }
}

/// A row of a listing for people: id, state, moment, distance, attempts, what to know.
pub fn cells(row: &Row, now: Moment) -> Vec<String> {
    match row {
        Row::Live { state, at, entry, reason } => vec![
            escaped(entry.id.as_str()),
            state.as_str().to_owned(),
            at.to_string(),
            distance(*at, now),
            entry.attempts.to_string(),
            reason.as_deref().map(escaped).unwrap_or_else(|| remark(entry)),
        ],
        Row::Ended { id, ended } => vec![
            escaped(id.as_str()),
            "ended".to_owned(),
            ended.ended_at.to_string(),
            distance(ended.ended_at, now),
            ended.attempt.to_string(),
            ended.outcome.as_str().to_owned(),
        ],
        Row::Foreign { id, state, reason } => {
            vec![
                escaped(id),
                state.as_str().to_owned(),
                String::new(),
                String::new(),
                String::new(),
                escaped(reason),
            ]
        }
    }
}

fn remark(entry: &Entry) -> String {
    if entry.cancelled {
        "cancelled".to_owned()
    } else if let Some(before) = entry.reminders.before_of(entry.stage) {
        format!("reminder {} before, due {}", show_duration(before), entry.due_at)
    } else if entry.next_at > entry.due_at {
        let why = if entry.hold_count > 0 { "held" } else { "moved" };
        format!("{why}, due {}", entry.due_at)
    } else {
        String::new()
    }
}
