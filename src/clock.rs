//! Moments and durations: what they are, how they are read from text, how they are shown.

use std::fmt;

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
        let millis = i64::try_from(self.0).unwrap_or(i64::MAX);
        match jiff::Timestamp::from_millisecond(millis) {
            Ok(timestamp) => write!(f, "{timestamp:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}
