//! Moments and durations: what they are, how they are read from text, how they are shown. Every door (command line, bulk file,
//! configuration, HTTP) reads time through this module, so that one text means one thing everywhere.

mod instant;
mod reading;
mod span;
mod typed;

use std::fmt;

pub use reading::{Ahead, Reading};
pub use span::{distance, parse_duration, show_brief, show_duration, show_span};
pub use typed::parse_typed;

use crate::error::Invalid;

/// A moment in milliseconds since 1970-01-01T00:00:00Z, up to the end of the year 9999. Every stored time is one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The last moment: 9999-12-31T23:59:59.999Z.
    pub const MAX: Self = Self(253_402_300_799_999);
    /// The first moment.
    pub const EPOCH: Self = Self(0);

    /// Checks that `millis` is a moment.
    pub fn from_millis(millis: u64) -> Result<Self, Invalid> {
        if millis <= Self::MAX.0 {
            Ok(Self(millis))
        } else {
            Err(Invalid::new("moment", &millis.to_string(), "expected a moment up to the year 9999"))
        }
    }

    /// Reads a moment from text; `field` names the input in the refusal.
    ///
    /// Accepted are RFC 3339 with its offset (`2026-03-01T12:00:00+08:00`, `2026-03-01T04:00:00.5Z`; upper-case `T` and `Z`, any
    /// number of fraction digits, `-00:00` read as UTC) and 13 digits, milliseconds since the epoch. What is finer than a millisecond
    /// is rounded **up**, because an order closed a fraction early is closed early. Refused with a hint: local times without an
    /// offset, dates without a time, `24:00`, leap seconds, seconds since the epoch, anything before 1970 or after 9999.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        instant::parse(text).map_err(|reason| Invalid::new(field, text, reason))
    }

    /// Milliseconds since the epoch.
    pub fn as_millis(self) -> u64 {
        self.0
    }

    /// This moment, that much later; the last moment where there is none.
    pub fn plus(self, duration: std::time::Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis).min(Self::MAX.0))
    }

    /// How long this moment is after `earlier`; zero if it is not.
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// This host's wall clock. For reports only: what is due is decided by Redis's clock.
    pub fn host_now() -> Self {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self::EPOCH.plus(since_epoch)
    }
}

impl fmt::Display for Moment {
    /// RFC 3339 in UTC with milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Civil arithmetic, because jiff's instants end a day before the year 9999 does.
        let since_epoch = jiff::SignedDuration::from_millis(i64::try_from(self.0).unwrap_or(i64::MAX));
        match instant::EPOCH.checked_add(since_epoch) {
            Ok(civil) => write!(f, "{civil:.3}Z"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}
