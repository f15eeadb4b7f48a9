//! How the program ends: each expected end has its own code.

use std::process::ExitCode;

use crate::error::{Error, StoreKind};
use crate::wheel::answer::Refusal;

/// The table for `--help` and the man page.
pub const TABLE: &str = "Exit codes:
   0  done
   1  failed
   2  wrong usage; nothing was done
   3  a check found problems (check, probe, verify)
   4  part of a batch failed; the rest is done
   5  nothing is known of the id
   6  refused: the deadline is in another state (JSON: outcome)
  10  reconcile found something, at the gravest of level low; 11 medium; 12 high
  65  bad input data
  69  Redis or a database cannot be reached, or serves nobody now
  75  outcome unknown: the answer was lost; every command may be repeated
  77  access denied
  78  the configuration cannot be used
 130  interrupted (SIGINT)
 143  terminated (SIGTERM)";

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// As asked.
    Done = 0,
    /// It failed for a reason without a code of its own.
    Failure = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// A check found problems.
    Findings = 3,
    /// Part of a batch failed.
    Partial = 4,
    /// Nothing is known of the id.
    Absent = 5,
    /// The deadline is in a state that the verb does not move.
    Refused = 6,
    /// A reconciliation left findings of level low.
    FoundLow = 10,
    /// … of level medium.
    FoundMedium = 11,
    /// … of level high.
    FoundHigh = 12,
    /// What was to be read is not what it should be.
    BadData = 65,
    /// Redis or a database cannot be reached or does not serve.
    Unavailable = 69,
    /// The answer was lost.
    Unknown = 75,
    /// User, password or rights are wrong.
    Denied = 77,
    /// The configuration cannot be used.
    Config = 78,
    /// SIGINT.
    Interrupted = 130,
    /// SIGTERM.
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// The end that a broken world makes. `reads` says that the command changes nothing, so that a lost answer leaves nothing open.
    pub fn of_error(error: &Error, reads: bool) -> Self {
        match error {
            Error::Invalid(_) => Self::Usage,
            Error::Config(_) | Error::Hook(_) => Self::Config,
            Error::HookAway(_) => Self::Unavailable,
            Error::Overtaken(_) => Self::Refused,
            Error::File { .. } => Self::BadData,
            Error::Store { kind, .. } => match kind {
                StoreKind::Unknown if !reads => Self::Unknown,
                StoreKind::Denied => Self::Denied,
                StoreKind::Layout => Self::Config,
                StoreKind::Corrupt | StoreKind::Other => Self::Failure,
                _ => Self::Unavailable,
            },
        }
    }

    /// The end that a refusal makes.
    pub fn of_refusal(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Absent => Self::Absent,
            _ => Self::Refused,
        }
    }

    /// The end of a command on several ids: the common one, else *partial*.
    pub fn of_all(exits: impl IntoIterator<Item = Self>) -> Self {
        let mut exits = exits.into_iter();
        let first = exits.next().unwrap_or(Self::Done);
        if exits.all(|exit| exit == first) { first } else { Self::Partial }
    }
}
