//! Why a deadline is not closed yet: what the wheel knows, in one sentence.

use super::answer::{Ended, Entry, Inspection};
use super::{Held, Holder, Presence, WorkerRecord, held_back};
use crate::clock::{distance, show_span};
use crate::deadline::{Cause, Outcome, Stage, State};
use crate::error::escaped;

impl Inspection {
    /// Why it is not closed yet, or what became of it: one sentence, as the wheel alone knows it. `presence` is of its workers, and `held` is what holds it as a whole, where that is known.
    pub fn why(&self, presence: Option<&Presence>, held: Option<&Held>) -> String {
        let (seen, now) = (self, self.now);
        match (seen.state, &seen.entry) {
            (State::Absent, _) => {
                "nothing is known of it: never enqueued, or ended so long ago that it is forgotten".to_owned()
            }
            (State::Ended, _) => seen.ended.as_ref().map_or_else(
                || "it has ended".to_owned(),
                |e| format!("it ended as {} {}{}", e.outcome.as_str(), distance(e.ended_at, now), how(e)),
            ),
            (State::Dead, _) => {
                let reason = seen.death.as_ref().map(|(_, reason)| escaped(reason)).unwrap_or_default();
                format!("it was put aside and waits for a person: {reason}")
            }
            (State::Leased, entry) => {
                let cancelled = entry.as_ref().is_some_and(|e| e.cancelled);
                let then = if cancelled { "; it was cancelled meanwhile and is not tried again" } else { "" };
                leased_why(seen, presence.and_then(|presence| presence.holder(seen))) + then
            }
            (State::Scheduled, Some(entry)) => {
                scheduled_why(entry, seen, presence.map(|presence| presence.workers.as_slice()), held)
            }
            (State::Scheduled, None) => "its record cannot be read; see duewheel verify".to_owned(),
        }
    }
}

/// Who has it; and the failures before, which are why it is tried again.
fn leased_why(seen: &Inspection, holder: Option<Holder<'_>>) -> String {
    let ends = seen.lease_ends_at().map(|at| distance(at, seen.now)).unwrap_or_default();
    let mut why = match holder {
        None => format!("a worker has it; its lease ends {ends}"),
        Some(Holder { worker, claim, lost: None }) => {
            let since = distance(claim.claimed_at(), seen.now);
            format!("worker {} has it, claimed {since}; its lease ends {ends}", worker.named())
        }
        Some(Holder { worker, lost: Some(heard), .. }) => format!(
            "worker {} had it, and was heard of last {}; another takes it when its lease ends {ends}",
            worker.named(),
            distance(heard, seen.now)
        ),
    };
    if let (Some(reason), Some(failure)) = (seen.failure(), seen.failures.first()) {
        why += &format!("; attempt {} failed: {}", failure.attempt, escaped(reason));
    }
    why
}

fn scheduled_why(
    entry: &Entry,
    seen: &Inspection,
    workers: Option<&[WorkerRecord]>,
    held: Option<&Held>,
) -> String {
    let now = seen.now;
    let reasons: Vec<String> =
        workers.map(held_back).unwrap_or_default().iter().map(|(reason, _)| escaped(reason)).collect();
    let stopped = stopped(held);
    if entry.next_at > now {
        let when = distance(entry.next_at, now);
        let why = if entry.stage != Stage::CLOSE {
            let close = distance(entry.due_at, now);
            format!("it is not due yet; a reminder fires {when}, the close {close}")
        } else if entry.attempts > 0 && entry.next_at > entry.due_at {
            let reason = seen.failure().map_or_else(String::new, |why| format!(": {}", escaped(why)));
            format!("attempt {} failed{reason}; it is tried again {when}", entry.attempts)
        } else if entry.hold_count > 0 && entry.next_at > entry.due_at {
            format!("it is held while a payment is in progress; it fires {when}")
        } else if entry.due_at < now {
            // Put off without an attempt that counts and without a hold.
            let due = distance(entry.due_at, now);
            let cause = match reasons.first() {
                Some(reason) => reason.as_str(),
                None => "the hook was not available, or answered that it is too early",
            };
            format!("it was due {due} and could not be closed: {cause}; it is tried again {when}")
        } else {
            format!("it is not due yet; it fires {when}")
        };
        return if seen.paused {
            format!("{why}, if somebody resumes the wheel by then: {stopped}")
        } else {
            why
        };
    }
    let late = show_span(now.since(entry.next_at));
    match (seen.paused, workers) {
        (true, _) => format!("it has been due for {late}, and {stopped}"),
        (false, Some([])) => format!("it has been due for {late}, and no worker serves this wheel"),
        (false, Some(workers)) if workers.iter().all(|worker| !worker.held_back.is_empty()) => {
            format!("it has been due for {late}, and every worker is held back: {}", reasons.join("; "))
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

/// What an end means, where its word does not say it.
fn how(ended: &Ended) -> &'static str {
    match (ended.outcome, ended.cause) {
        (Outcome::Closed, Cause::Manual) => ", by hand",
        (Outcome::Closed, Cause::Sweep) => ", brought to the wheel by a sweep",
        (Outcome::Closed, _) => "",
        (Outcome::Skipped, _) => ": the hook found it paid, or closed elsewhere",
        (Outcome::Cancelled, _) => ": it never fires",
    }
}

/// Who or what has stopped the wheel.
fn stopped(held: Option<&Held>) -> String {
    match held {
        Some(Held { trip: Some(trip), .. }) => format!("the breaker has tripped: {}", escaped(&trip.why)),
        Some(Held { paused: Some(note), .. }) => {
            format!("the wheel is paused by {}: {}", escaped(&note.actor), escaped(&note.reason))
        }
        _ => "the wheel is paused or tripped".to_owned(),
    }
}
