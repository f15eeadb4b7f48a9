//! Where a person moves a deadline, as they type it.

use std::time::Duration;

use super::Operator;
use crate::clock::{Moment, parse_duration, parse_typed, show_duration};
use crate::deadline::{DueAt, Id};
use crate::error::Result;
use crate::wheel::answer::{Answer, Refusal, Scheduled};

/// A moment, or how much later than it is due; what is overdue already, than now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// That moment.
    At(Moment),
    /// So much later.
    Later(Duration),
}

impl To {
    /// Reads `+15m`, or a moment as people type it. The error is a sentence for them.
    pub fn parse(text: &str, now: Moment) -> std::result::Result<Self, String> {
        match text.strip_prefix('+') {
            Some(later) => parse_duration("to", later).map(Self::Later).map_err(|bad| format!("{bad}.")),
            None if text.is_empty() => {
                Err("To when? Give a moment in UTC, or +15m for so much later.".to_owned())
            }
            None => parse_typed("to", text, now).map(Self::At),
        }
    }
}

impl std::fmt::Display for To {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(moment) => write!(f, "to {moment}"),
            Self::Later(later) => write!(f, "{} later", show_duration(*later)),
        }
    }
}

impl Operator {
    /// [`Self::reschedule`] to where a person said, unless somebody else moves the deadline in between.
    pub async fn reschedule_to(&self, id: &Id, to: To, reason: &str) -> Result<Answer<Scheduled>> {
        let seen = self.wheel().inspect(id).await?;
        let Some(entry) = &seen.entry else {
            return Ok(Err(seen.ended.map_or(Refusal::Absent, Refusal::Ended)));
        };
        let due_at = match to {
            To::At(moment) => moment,
            To::Later(later) => entry.due_at.max(seen.now).plus(later),
        };
        // As it was seen: whoever moved it in between meant something else.
        self.reschedule(id, DueAt::Moment(due_at), Some(entry.generation), reason).await
    }
}
