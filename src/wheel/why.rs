//! Why a deadline is not closed yet: what the wheel knows, in one sentence.

use super::WorkerRecord;
use super::answer::{Entry, Inspection};
use crate::clock::{distance, show_span};
use crate::deadline::{Stage, State};
use crate::error::escaped;

impl Inspection {
    /// Why it is not closed yet, or what became of it: one sentence, as the wheel alone knows it. `workers` are those that serve the wheel,
    /// where that is known.
    pub fn why(&self, workers: Option<&[WorkerRecord]>) -> String {
        let (seen, now) = (self, self.now);
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
    let late = show_span(now.since(entry.next_at));
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
