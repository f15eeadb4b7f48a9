//! `duewheel inspect`: everything known of one deadline, and why it is not closed yet.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::arguments;
use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use super::row::{ended_json, entry_json, failures_json};
use crate::clock::{Moment, distance, show_duration};
use crate::deadline::{Id, State};
use crate::error::{escaped, escaped_json};
use crate::wheel::answer::{Entry, Inspection};
use crate::wheel::{Event, Survey, Wheel};

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
    let survey = wheel.survey(&args.id).await?;
    let why = survey.why();
    let Survey { seen, events: history, .. } = survey;
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
        for failure in &seen.failures {
            let when = failure.at.map_or_else(String::new, |moment| format!("{}, ", at(moment)));
            lines
                .push(("failed", format!("{when}attempt {}: {}", failure.attempt, escaped(&failure.reason))));
        }
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
    if let Some(moment) = seen.lease_ends_at() {
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Value>,
    #[serde(skip_serializing_if = "Value::is_null")]
    ended: Value,
    history: Vec<Event>,
}

fn object(wheel: &Wheel, id: &Id, seen: &Inspection, why: &str, history: Vec<Event>) -> Inspected {
    let deadline = seen.entry.as_ref().map(|e| entry_json(e, seen.state.as_str(), seen.failure()));
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
        lease_ends_at: seen.lease_ends_at().map(|at| at.to_string()).into(),
        died: seen.death.as_ref().map(died).unwrap_or_default(),
        failures: failures_json(&seen.failures),
        ended: seen.ended.as_ref().map(|e| ended_json(id.as_str(), e)).unwrap_or_default(),
        history,
    }
}
