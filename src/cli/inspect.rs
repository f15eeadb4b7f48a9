//! `duewheel inspect`: everything known of one deadline, and why it is not closed yet.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::arguments;
use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use super::row::{distance, ended_json, entry_json, span};
use crate::clock::{Moment, show_duration};
use crate::deadline::{Id, Stage, State};
use crate::error::{escaped, escaped_json};
use crate::wheel::WorkerRecord;
use crate::wheel::answer::{Entry, Inspection};
use crate::wheel::{Event, Wheel};

/// Arguments of `inspect`.
#[derive(Debug, Args)]
#[command(
    about = "Shows everything known of one deadline, and why it is not closed yet",
    long_about = "Shows everything known of one deadline: state, times, attempts, holds, payload, its last end, and why it is not \
                  closed yet. Exit code 5 where nothing is known.",
    after_help = "Examples:\n  duewheel inspect o-1042\n  duewheel inspect o-1042 --json | jq .payload"
)]
pub struct Inspect {
    /// The order
    #[arg(value_name = "ID", value_parser = arguments::id)]
    id: Id,
}

/// Shows it.
pub async fn run(args: &Inspect, context: &Context, output: &mut Output) -> Outcome {
    let wheel = context.wheel()?;
    let seen = wheel.inspect(&args.id).await?;
    // Only a deadline that waits for a worker depends on there being one.
    let workers = match seen.state {
        State::Scheduled => wheel.presence().await.map(|p| p.workers).ok(),
        _ => None,
    };
    // The stream is an extra: a user without the right to read it still sees the deadline.
    let history = wheel.history(&args.id).await.unwrap_or_default();
    let why = why(&seen, workers.as_deref());
    if output.is_json() {
        output.object(&object(&wheel, &args.id, &seen, &why, history))?;
    } else {
        for (name, value) in lines(&wheel, &args.id, &seen) {
            output.line(&format!("{name:<12} {value}"))?;
        }
        for event in &history {
            let at = Moment::EPOCH.plus(Duration::from_millis(event.at_ms));
            let text = format!("{at} {} ({})", escaped(&event.what), distance(at, seen.now));
            output.line(&format!("{:<12} {text}", "history"))?;
        }
        output.line(&format!("{:<12} {why}", "why"))?;
    }
    Ok(if seen.state == State::Absent { Exit::Absent } else { Exit::Done })
}

/// Why it is not closed yet, or what became of it: one sentence.
fn why(seen: &Inspection, workers: Option<&[WorkerRecord]>) -> String {
    let now = seen.now;
    match (seen.state, &seen.entry) {
        (State::Absent, _) => {
            "nothing is known of it: never enqueued, or ended so long ago that it is forgotten".to_owned()
        }
        (State::Ended, _) => seen.ended.as_ref().map_or_else(
            || "it has ended".to_owned(),
            |e| format!("it ended as {} {}", e.outcome.as_str(), distance(e.ended_at, now)),
        ),
        (State::Dead, _) => {
            let reason = seen.death.as_ref().map(|(_, reason)| escaped(reason)).unwrap_or_default();
            format!("it was put aside and waits for a person: {reason}; see duewheel dead --help")
        }
        (State::Leased, entry) => {
            let ends = seen.lease_ends_at.map(|at| distance(at, now)).unwrap_or_default();
            let cancelled = entry.as_ref().is_some_and(|e| e.cancelled);
            let then = if cancelled { "; it was cancelled meanwhile and is not tried again" } else { "" };
            format!("a worker has it; its lease ends {ends}{then}")
        }
        (State::Scheduled, Some(entry)) => scheduled_why(entry, seen, workers),
        (State::Scheduled, None) => "its record cannot be read; see duewheel verify".to_owned(),
    }
}

fn scheduled_why(entry: &Entry, seen: &Inspection, workers: Option<&[WorkerRecord]>) -> String {
    let now = seen.now;
    if entry.next_at > now {
        let when = distance(entry.next_at, now);
        return if entry.stage != Stage::CLOSE {
            let close = distance(entry.due_at, now);
            format!("it is not due yet; a reminder fires {when}, the close {close}")
        } else if entry.attempts > 0 && entry.next_at > entry.due_at {
            format!("attempt {} failed; it is tried again {when}", entry.attempts)
        } else if entry.hold_count > 0 && entry.next_at > entry.due_at {
            format!("it is held while a payment is in progress; it fires {when}")
        } else {
            format!("it is not due yet; it fires {when}")
        };
    }
    let late = span(now.since(entry.next_at));
    match (seen.paused, workers) {
        (true, _) => format!("it has been due for {late}, and the wheel is paused or tripped"),
        (false, Some([])) => format!("it has been due for {late}, and no worker serves this wheel"),
        (false, Some(workers)) if workers.iter().all(|worker| !worker.held_back.is_empty()) => {
            let reason = workers.first().and_then(|worker| worker.held_back.first()).map(|r| escaped(r));
            let reason = reason.unwrap_or_default();
            format!("it has been due for {late}, and every worker is held back: {reason}")
        }
        _ if entry.losses > 0 => {
            format!(
                "it has been due for {late}; {} workers were lost with it, so it is tried alone",
                entry.losses
            )
        }
        _ => format!("it has been due for {late}; the next free worker takes it"),
    }
}

fn lines(wheel: &Wheel, id: &Id, seen: &Inspection) -> Vec<(&'static str, String)> {
    let at = |moment: Moment| format!("{moment} ({})", distance(moment, seen.now));
    let mut lines = vec![
        ("id", escaped(id.as_str())),
        ("wheel", format!("{}, shard {}", wheel.name(), seen.shard)),
        ("state", seen.state.as_str().to_owned()),
    ];
    if let Some(entry) = &seen.entry {
        lines.push(("due", at(entry.due_at)));
        lines.push(("fires", at(entry.next_at)));
        lines.push(("slot", format!("level {}, {}", entry.slot.level, entry.slot.number)));
        lines.push(("generation", entry.generation.to_string()));
        lines.push(("cause", entry.cause.as_str().to_owned()));
        if !entry.reminders.is_empty() {
            lines.push(("reminders", reminders(entry)));
        }
        lines.push(("attempts", format!("{} failed, {} lost", entry.attempts, entry.losses)));
        if entry.hold_count > 0 {
            lines
                .push(("holds", format!("{}, {} in all", entry.hold_count, show_duration(entry.hold_total))));
        }
        if let Some(note) = &entry.note {
            lines.push(("by", format!("{}: {}", escaped(&note.actor), escaped(&note.reason))));
        }
        if let Some(parent) = &entry.traceparent {
            lines.push(("trace", escaped(parent)));
        }
    }
    if let Some(moment) = seen.lease_ends_at {
        lines.push(("lease ends", at(moment)));
    }
    if let Some((moment, reason)) = &seen.death {
        lines.push(("died", format!("{}: {}", at(*moment), escaped(reason))));
    }
    if let Some(ended) = &seen.ended {
        let text = format!(
            "{} {}, cause {}, attempt {}, fence {}, due {}",
            ended.outcome.as_str(),
            at(ended.ended_at),
            ended.cause.as_str(),
            ended.attempt,
            ended.fence,
            ended.due_at
        );
        lines.push(("last end", text));
    }
    if let Some(entry) = seen.entry.as_ref().filter(|e| !e.payload.is_empty()) {
        lines.push(("payload", escaped_json(&String::from_utf8_lossy(entry.payload.as_bytes()))));
    }
    lines
}

/// `5m and 1m before; the one 1m before fires next`.
fn reminders(entry: &Entry) -> String {
    let all: Vec<String> = entry.reminders.before().rev().map(show_duration).collect();
    let next = match entry.reminders.before_of(entry.stage) {
        Some(before) => format!("the one {} before is next (stage {})", show_duration(before), entry.stage.0),
        None => "none is to come".to_owned(),
    };
    format!("{} before the close; {next}", all.join(", "))
}

#[derive(serde::Serialize)]
struct Inspected {
    wheel: String,
    shard: u16,
    id: String,
    state: &'static str,
    now: String,
    why: String,
    paused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<super::row::EntryJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<serde_json::value::RawValue>>,
    #[serde(skip_serializing_if = "Value::is_null")]
    lease_ends_at: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    died: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    ended: Value,
    history: Vec<Event>,
}

fn object(wheel: &Wheel, id: &Id, seen: &Inspection, why: &str, history: Vec<Event>) -> Inspected {
    let deadline = seen.entry.as_ref().map(|e| entry_json(e, seen.state.as_str(), None));
    let died = |(at, reason): &(Moment, String)| json!({"at": at.to_string(), "at_ms": at.as_millis(), "reason": reason});
    Inspected {
        wheel: wheel.name().as_str().to_owned(),
        shard: seen.shard.0,
        id: id.as_str().to_owned(),
        state: seen.state.as_str(),
        now: seen.now.to_string(),
        why: why.to_owned(),
        paused: seen.paused,
        payload: seen.entry.as_ref().and_then(|e| super::row::payload_json(&e.payload)),
        deadline,
        lease_ends_at: seen.lease_ends_at.map(|at| at.to_string()).into(),
        died: seen.death.as_ref().map(died).unwrap_or_default(),
        ended: seen.ended.as_ref().map(|e| ended_json(id.as_str(), e)).unwrap_or_default(),
        history,
    }
}
