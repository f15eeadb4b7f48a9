//! What a person does from the terminal: named, counted, and done through the operator, who writes it down.

use std::time::Duration;

use super::super::row::refusal_text;
use crate::clock::{Moment, parse_duration, show_span};
use crate::deadline::Id;
use crate::error::{Result, escaped};
use crate::operator::{Operator, To};
use crate::wheel::answer::{Answer, Cancelled};

/// An act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Closes an order now.
    Close(Id),
    /// Gives a deadline another moment.
    Reschedule(Id, To),
    /// Keeps a deadline from firing for so long.
    Hold(Id, Duration),
    /// Ends a hold early.
    Release(Id),
    /// Ends deadlines that must not fire.
    Cancel(Vec<Id>),
    /// Gives dead ones a new life.
    Revive(Vec<Id>),
    /// Ends dead ones as cancelled.
    Drop(Vec<Id>),
    /// Stops closing.
    Pause,
    /// Goes on closing.
    Resume,
    /// Lets a worker finish what it has and take nothing more: its token, and its name for people.
    Drain(String, String),
    /// Lets a drained worker go on: the same.
    Undrain(String, String),
}

/// What a deed needs to know besides its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// What is asked for.
    pub label: &'static str,
    /// What stands there first.
    pub first: &'static str,
    /// What is said where it is not understood.
    pub complaint: &'static str,
}

impl Deed {
    /// What it does, for the question.
    pub fn title(&self) -> String {
        let these = |verb: &str, ids: &[Id], what: &str| match ids {
            [id] => format!("{verb} {}", escaped(id.as_str())),
            ids => format!("{verb} {} {what}", ids.len()),
        };
        match self {
            Self::Close(id) => format!("Close {} now", escaped(id.as_str())),
            Self::Reschedule(id, to) => format!("Reschedule {}, {to}", escaped(id.as_str())),
            Self::Hold(id, long) => format!("Hold {} for {}", escaped(id.as_str()), show_span(*long)),
            Self::Release(id) => format!("Release {} from its hold", escaped(id.as_str())),
            Self::Cancel(ids) => these("Cancel", ids, "deadlines"),
            Self::Revive(ids) => these("Revive", ids, "dead deadlines"),
            Self::Drop(ids) => these("Drop", ids, "dead deadlines"),
            Self::Pause => "Pause the whole wheel".to_owned(),
            Self::Resume => "Resume the wheel".to_owned(),
            Self::Drain(_, name) => format!("Drain worker {}", escaped(name)),
            Self::Undrain(_, name) => format!("Let worker {} go on", escaped(name)),
        }
    }

    /// The same, before what it needs to know is known.
    pub fn subject(&self) -> String {
        match self {
            Self::Reschedule(id, _) => format!("Reschedule {}", escaped(id.as_str())),
            Self::Hold(id, _) => format!("Hold {}", escaped(id.as_str())),
            other => other.title(),
        }
    }

    /// What comes of it.
    pub fn meaning(&self) -> &'static str {
        match self {
            Self::Close(_) => "It fires at once; a worker closes it if it is still unpaid.",
            Self::Reschedule(..) => {
                "It is closed then, and not before: later than it is due, or at a moment."
            }
            Self::Hold(..) => "It does not fire for so long from now: a payment is under way.",
            Self::Release(_) => "It fires when it was promised; at once, if that is over.",
            Self::Cancel(_) => "It will never fire. The order stays open until somebody else closes it.",
            Self::Revive(_) => "Due now, attempts counted anew.",
            Self::Drop(_) => "It ends as cancelled: the order is dealt with.",
            Self::Pause => "No worker claims anything until it is resumed.",
            Self::Resume => "Workers claim again, whatever had stopped them.",
            Self::Drain(..) => "It finishes what it has and takes nothing more.",
            Self::Undrain(..) => "It takes orders again.",
        }
    }

    /// What else it needs to know.
    pub fn needs(&self) -> Option<Needs> {
        match self {
            Self::Reschedule(..) => Some(Needs {
                label: "to",
                first: "+15m",
                complaint: "expected +15m for so much later, or a moment in UTC like 2026-03-01 12:00",
            }),
            Self::Hold(..) => {
                Some(Needs { label: "for", first: "15m", complaint: "expected a time like 15m or 1h" })
            }
            _ => None,
        }
    }

    /// The same, with what was typed for what it needs; `None` where that is not understood.
    pub fn with(&self, typed: &str, now: Moment) -> Option<Self> {
        match self {
            Self::Reschedule(id, _) => To::parse(typed, now).ok().map(|to| Self::Reschedule(id.clone(), to)),
            Self::Hold(id, _) => parse_duration("for", typed).ok().map(|long| Self::Hold(id.clone(), long)),
            other => Some(other.clone()),
        }
    }

    /// How many it is about.
    pub fn count(&self) -> usize {
        match self {
            Self::Cancel(ids) | Self::Revive(ids) | Self::Drop(ids) => ids.len(),
            _ => 1,
        }
    }

    /// Whether nobody may do it without saying why.
    pub fn needs_reason(&self) -> bool {
        matches!(self, Self::Close(_) | Self::Pause | Self::Drain(..))
    }

    /// Does it; answers what came of it, and whether anything was refused.
    pub async fn perform(&self, operator: &Operator, reason: &str) -> Result<(String, bool)> {
        let shards = |word: &str, (written, shards): (u64, u64)| {
            (format!("{word}: {written} of {shards} shards"), written < shards)
        };
        Ok(match self {
            Self::Close(id) => sum("closing", &[Ok(operator.close(id, reason).await?)], |_| None),
            Self::Reschedule(id, to) => {
                sum("rescheduled", &[Ok(operator.reschedule_to(id, *to, reason).await?)], |_| None)
            }
            Self::Hold(id, long) => {
                sum("held", &[Ok(operator.hold(id, *long, None, reason).await?)], |_| None)
            }
            Self::Release(id) => sum("released", &[Ok(operator.release(id, reason).await?)], |_| None),
            Self::Cancel(ids) => sum("cancelled", &operator.cancel(ids, reason).await?, odd),
            Self::Revive(ids) => sum("revived", &operator.revive(ids, reason).await?, |_| None),
            Self::Drop(ids) => sum("dropped", &operator.drop(ids, reason).await?, odd),
            Self::Pause => shards("paused", operator.pause(reason).await?),
            Self::Resume => shards("resumed", operator.resume(reason).await?.1),
            Self::Drain(token, name) => {
                let known = operator.drain(token, reason).await?;
                (format!("{name} {}", if known { "drains" } else { "is gone" }), !known)
            }
            Self::Undrain(token, name) => {
                let known = operator.resume_worker(token, reason).await?;
                (format!("{name} {}", if known { "goes on" } else { "is gone" }), !known)
            }
        })
    }
}

/// `revived 36; 1 refused: a worker has it right now`. `odd` says what an answer means that is no refusal and yet not what was asked.
fn sum<T>(word: &str, answers: &[Result<Answer<T>>], odd: fn(&T) -> Option<&'static str>) -> (String, bool) {
    let (mut done, mut others, mut first) = (0, 0, None);
    for answer in answers {
        let said = match answer {
            Ok(Ok(told)) => odd(told).map(str::to_owned),
            Ok(Err(refusal)) => Some(refusal_text(refusal)),
            Err(error) => Some(error.to_string()),
        };
        match said {
            None => done += 1,
            Some(said) => {
                others += 1;
                first.get_or_insert(said);
            }
        }
    }
    let text = match first {
        None => format!("{word} {done}"),
        Some(said) => format!("{word} {done}; {others} not: {said}"),
    };
    (text, others > 0)
}

fn odd(answer: &Cancelled) -> Option<&'static str> {
    match answer {
        Cancelled::Cancelled | Cancelled::Already => None,
        Cancelled::Absent => Some("nothing is known of it; the cancellation is remembered"),
        Cancelled::Leased => Some("a worker has it; it ends as cancelled unless that attempt closes it"),
    }
}
