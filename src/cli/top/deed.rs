//! What a person does from the terminal: named, counted, and done through the operator, who writes it down.

use super::super::row::refusal_text;
use crate::deadline::Id;
use crate::error::{Result, escaped};
use crate::operator::Operator;
use crate::wheel::answer::{Answer, Cancelled};

/// An act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// Closes an order now.
    Close(Id),
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
            Self::Cancel(ids) => these("Cancel", ids, "deadlines"),
            Self::Revive(ids) => these("Revive", ids, "dead deadlines"),
            Self::Drop(ids) => these("Drop", ids, "dead deadlines"),
            Self::Pause => "Pause the whole wheel".to_owned(),
            Self::Resume => "Resume the wheel".to_owned(),
            Self::Drain(_, name) => format!("Drain worker {}", escaped(name)),
        }
    }

    /// What comes of it.
    pub fn meaning(&self) -> &'static str {
        match self {
            Self::Close(_) => "It fires at once; a worker closes it if it is still unpaid.",
            Self::Cancel(_) => "It will never fire. The order stays open until somebody else closes it.",
            Self::Revive(_) => "Due now, attempts counted anew.",
            Self::Drop(_) => "It ends as cancelled: the order is dealt with.",
            Self::Pause => "No worker claims anything until it is resumed.",
            Self::Resume => "Workers claim again, whatever had stopped them.",
            Self::Drain(..) => "It finishes what it has and takes nothing more.",
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
            Self::Cancel(ids) => sum("cancelled", &operator.cancel(ids, reason).await?, odd),
            Self::Revive(ids) => sum("revived", &operator.revive(ids, reason).await?, |_| None),
            Self::Drop(ids) => sum("dropped", &operator.drop(ids, reason).await?, odd),
            Self::Pause => shards("paused", operator.pause(reason).await?),
            Self::Resume => shards("resumed", operator.resume(reason).await?.1),
            Self::Drain(token, name) => {
                let known = operator.drain(token, reason).await?;
                (format!("{name} {}", if known { "drains" } else { "is gone" }), !known)
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
