//! How moments, durations, entries and answers look, to people and to machines.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::clock::{Moment, distance, show_duration};
use crate::deadline::Payload;
use crate::error::escaped;
use crate::wheel::answer::{Ended, Entry, Refusal, Row, Scheduled};

/// A payload as JSON: the stored text as it is, or as a string where it is no JSON.
pub fn payload_json(payload: &Payload) -> Option<Box<RawValue>> {
    if payload.is_empty() {
        return None;
    }
    let text = String::from_utf8_lossy(payload.as_bytes()).into_owned();
    let quoted = || serde_json::to_string(&text).unwrap_or_default();
    RawValue::from_string(text.trim().to_owned()).or_else(|_| RawValue::from_string(quoted())).ok()
}

/// A stored deadline.
#[derive(serde::Serialize)]
pub struct EntryJson {
    id: String,
    state: &'static str,
    due_at: String,
    due_at_ms: u64,
    next_at: String,
    next_at_ms: u64,
    generation: u64,
    stage: u8,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    remind: Vec<String>,
    cause: &'static str,
    attempts: u32,
    losses: u32,
    holds: u32,
    held_ms: u64,
    cancelled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<crate::deadline::Note>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
}

/// The entry for a machine.
pub fn entry_json(entry: &Entry, state: &'static str, reason: Option<&str>) -> EntryJson {
    EntryJson {
        id: entry.id.as_str().to_owned(),
        state,
        due_at: entry.due_at.to_string(),
        due_at_ms: entry.due_at.as_millis(),
        next_at: entry.next_at.to_string(),
        next_at_ms: entry.next_at.as_millis(),
        generation: entry.generation.0,
        stage: entry.stage.0,
        remind: entry.reminders.before().map(show_duration).collect(),
        cause: entry.cause.as_str(),
        attempts: entry.attempts,
        losses: entry.losses,
        holds: entry.hold_count,
        held_ms: u64::try_from(entry.hold_total.as_millis()).unwrap_or(u64::MAX),
        cancelled: entry.cancelled,
        note: entry.note.clone(),
        traceparent: entry.traceparent.clone(),
        reason: reason.map(str::to_owned),
        payload: payload_json(&entry.payload),
    }
}

/// The end of a deadline for a machine.
pub fn ended_json(id: &str, ended: &Ended) -> Value {
    json!({
        "id": id,
        "state": "ended",
        "outcome": ended.outcome.as_str(),
        "cause": ended.cause.as_str(),
        "due_at": ended.due_at.to_string(),
        "due_at_ms": ended.due_at.as_millis(),
        "ended_at": ended.ended_at.to_string(),
        "ended_at_ms": ended.ended_at.as_millis(),
        "generation": ended.generation.0,
        "attempt": ended.attempt,
        "fence": ended.fence.0,
    })
}

/// Where a moved deadline stands, for people: `due 2026-…, fires in 5m`.
pub fn scheduled_text(scheduled: &Scheduled, now: Moment) -> String {
    let fires = distance(scheduled.next_at, now);
    if scheduled.next_at == scheduled.due_at {
        format!("due {} ({fires})", scheduled.due_at)
    } else {
        format!("due {}, fires {} ({fires})", scheduled.due_at, scheduled.next_at)
    }
}

/// The outcome of a verb that moved a deadline, for a machine.
pub fn scheduled_json(wheel: &str, id: &str, outcome: &str, scheduled: &Scheduled) -> Value {
    json!({
        "outcome": outcome,
        "wheel": wheel,
        "id": id,
        "due_at": scheduled.due_at.to_string(),
        "due_at_ms": scheduled.due_at.as_millis(),
        "next_at": scheduled.next_at.to_string(),
        "next_at_ms": scheduled.next_at.as_millis(),
        "generation": scheduled.generation.0,
    })
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

/// Why a verb did nothing, for a machine.
pub fn refusal_json(wheel: &str, id: &str, refusal: &Refusal) -> Value {
    let mut object = json!({"outcome": refusal.as_str(), "wheel": wheel, "id": id});
    match refusal {
        Refusal::Ended(ended) => object["ended"] = ended_json(id, ended),
        Refusal::Conflict { due_at } => {
            object["due_at"] = due_at.to_string().into();
            object["due_at_ms"] = due_at.as_millis().into();
        }
        Refusal::Generation { stored } => object["generation"] = stored.0.into(),
        Refusal::HoldCap { count, total } => {
            object["holds"] = (*count).into();
            object["held_ms"] = u64::try_from(total.as_millis()).unwrap_or(u64::MAX).into();
        }
        _ => {}
    }
    object
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

/// A row of a listing for a machine, as JSON text.
pub fn row_json(row: &Row) -> serde_json::Result<String> {
    match row {
        Row::Live { state, entry, reason, .. } => {
            serde_json::to_string(&entry_json(entry, state.as_str(), reason.as_deref()))
        }
        Row::Ended { id, ended } => serde_json::to_string(&ended_json(id.as_str(), ended)),
        Row::Foreign { id, state, reason } => serde_json::to_string(
            &json!({"id": id, "state": state.as_str(), "foreign": true, "reason": reason}),
        ),
    }
}
