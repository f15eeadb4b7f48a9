//! What may not agree, and how grave that is.

use serde::{Deserialize, Serialize};

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Untidy; no order is handled wrongly by it.
    Low,
    /// Something is going wrong, or will.
    #[default]
    Medium,
    /// Money or stock is wrong now.
    High,
}

impl Level {
    /// Reads `low`, `medium` or `high`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "low" => Ok(Self::Low),
            "medium" => Ok(Self::Medium),
            "high" => Ok(Self::High),
            _ => Err("expected low, medium or high".to_owned()),
        }
    }

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How table, wheel and close log may disagree about an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// Open in the table, its time has passed, and not on the wheel: nobody closes it.
    MissingOverdue,
    /// Open in the table, its time has not come, and not on the wheel.
    MissingPending,
    /// The wheel remembers a close, or the audit table has one, and the table says *paid*.
    PaidAfterClose,
    /// The configured question says so: closed, and what the close must give back was not given back.
    ClosedWithoutRelease,
    /// Open in the table, and dead on the wheel: it waits for a person.
    DeadOpen,
    /// Wheel and table name different close times.
    DeadlineMismatch,
    /// A lease that ran out and that nobody reaps, or that was lost many times.
    StuckLease,
    /// Scheduled on the wheel; in the table it is not open, or there is no such row.
    Orphan,
}

impl Class {
    /// All of them, the gravest first.
    pub const ALL: [Self; 8] = [
        Self::MissingOverdue,
        Self::PaidAfterClose,
        Self::ClosedWithoutRelease,
        Self::DeadOpen,
        Self::MissingPending,
        Self::DeadlineMismatch,
        Self::StuckLease,
        Self::Orphan,
    ];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MissingOverdue => "missing_overdue",
            Self::MissingPending => "missing_pending",
            Self::PaidAfterClose => "paid_after_close",
            Self::ClosedWithoutRelease => "closed_without_release",
            Self::DeadOpen => "dead_open",
            Self::DeadlineMismatch => "deadline_mismatch",
            Self::StuckLease => "stuck_lease",
            Self::Orphan => "orphan",
        }
    }

    /// How grave it is.
    pub fn level(self) -> Level {
        match self {
            Self::MissingOverdue | Self::PaidAfterClose | Self::ClosedWithoutRelease | Self::DeadOpen => {
                Level::High
            }
            Self::MissingPending | Self::DeadlineMismatch | Self::StuckLease => Level::Medium,
            Self::Orphan => Level::Low,
        }
    }

    /// Missing is one class until its time is looked at.
    pub(super) fn is_like(self, other: Self) -> bool {
        let missing = |class| matches!(class, Self::MissingOverdue | Self::MissingPending);
        self == other || missing(self) && missing(other)
    }
}

/// One order that was found, with what was seen on each side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The order.
    pub id: String,
    /// What the table says; of a rule, what its query answered beside the id.
    pub table: String,
    /// What the wheel says; empty where it was not asked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wheel: String,
    /// What was done about it: `enqueued`, `resurrected`, `cancelled`, `rescheduled`, or why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healed: Option<String>,
}
