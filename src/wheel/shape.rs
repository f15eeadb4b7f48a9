//! How answers look to machines: the JSON of the command line and of the HTTP API, so that one thing has one shape at every door.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answer::{Ended, Enqueued, Entry, Refusal, Row, Scheduled, Stats};
use super::reasons::Failure;
use super::{Bucket, Incident, IncidentKind, Trip, WorkerRecord};
use crate::clock::show_duration;
use crate::deadline::Payload;

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

/// Attempts that failed for a machine.
pub fn failures_json(failures: &[Failure]) -> Vec<Value> {
    let one = |failure: &Failure| json!({"at": failure.at.map(|at| at.to_string()), "attempt": failure.attempt, "reason": failure.reason});
    failures.iter().map(one).collect()
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

/// The outcome of an enqueue that was taken, for a machine.
pub fn enqueued_json(wheel: &str, id: &str, enqueued: &Enqueued) -> Value {
    json!({
        "outcome": enqueued.how.as_str(),
        "wheel": wheel,
        "id": id,
        "due_at": enqueued.due_at.to_string(),
        "due_at_ms": enqueued.due_at.as_millis(),
        "generation": enqueued.generation.0,
    })
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

/// A wheel in numbers, with who serves it and what holds it.
pub fn stats_json(
    wheel: &str,
    stats: &Stats,
    workers: &[WorkerRecord],
    limit: Option<Bucket>,
    trip: Option<&Trip>,
) -> Value {
    let held = workers.iter().filter(|worker| !worker.held_back.is_empty());
    let mut object = json!(stats);
    object["wheel"] = wheel.into();
    object["workers"] = workers.len().into();
    object["trip"] = json!(trip);
    object["limit"] = json!(limit);
    object["held_back"] = held.map(held_object).collect();
    object["clocks_ms"] = json!(widest(workers));
    object
}

fn held_object(worker: &WorkerRecord) -> Value {
    json!({"host": worker.host, "pid": worker.pid, "reasons": worker.held_back})
}

/// The widest offset of each clock that any worker has seen: milliseconds ahead of Redis's.
pub fn widest(workers: &[WorkerRecord]) -> BTreeMap<&str, i64> {
    let mut widest: BTreeMap<&str, i64> = BTreeMap::new();
    for (name, ahead) in workers.iter().flat_map(|worker| &worker.clocks) {
        let known = widest.entry(name).or_default();
        if ahead.abs() > known.abs() {
            *known = *ahead;
        }
    }
    widest
}

/// The word for a payment that met an end.
pub fn late_word(kind: IncidentKind) -> &'static str {
    match kind {
        IncidentKind::Closed => "late",
        IncidentKind::Dead => "dead",
        IncidentKind::Closing => "closing",
    }
}

/// An incident for a machine.
pub fn incident_json(incident: &Incident) -> Value {
    let mut object = serde_json::to_value(incident).unwrap_or_default();
    object["age_ms"] = incident.age_ms().into();
    object
}
