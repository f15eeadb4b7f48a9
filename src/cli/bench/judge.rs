//! The hook of a benchmark: does nothing, and remembers when it was asked about what.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::error::{Error, Result};
use crate::hook::{BoxFuture, Hook, Verdict};
use crate::lease::Lease;
use crate::shard::WheelName;

/// Redis's clock as this process reads it: an instant of ours, and Redis's microseconds at that instant.
#[derive(Debug, Clone, Copy)]
pub struct RedisClock {
    /// An instant of this process.
    pub here: Instant,
    /// Redis's clock at it, in microseconds since the epoch.
    pub there_us: u64,
    /// How far off that may be: half the round trip it was read in.
    pub doubt: Duration,
}

impl RedisClock {
    fn at(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.here).as_micros();
        self.there_us + u64::try_from(since).unwrap_or(0)
    }
}

/// Answers *closed* at once.
pub struct Judge {
    clock: RedisClock,
    seen: Vec<AtomicU8>,
    early: AtomicU64,
    lateness: Mutex<Histogram<u64>>,
}

impl Judge {
    /// For deadlines numbered from 0.
    pub fn new(count: u64, clock: RedisClock) -> Result<Self> {
        // To an hour, in three digits.
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3);
        let histogram = histogram.map_err(|e| Error::Hook(e.to_string()))?;
        Ok(Self {
            clock,
            seen: (0..count).map(|_| AtomicU8::new(0)).collect(),
            early: AtomicU64::new(0),
            lateness: Mutex::new(histogram),
        })
    }

    /// Asked about too early.
    pub fn early(&self) -> u64 {
        self.early.load(Ordering::Relaxed)
    }

    /// Never asked about, and asked about more than once.
    pub fn lost_and_twice(&self) -> (u64, u64) {
        let times = |wanted: fn(u8) -> bool| {
            self.seen.iter().filter(|n| wanted(n.load(Ordering::Relaxed))).count() as u64
        };
        (times(|n| n == 0), times(|n| n > 1))
    }

    /// How late the calls were, in microseconds.
    pub fn lateness(&self) -> Histogram<u64> {
        self.lateness.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Whether it was asked about this one.
    pub fn has_seen(&self, number: u64) -> bool {
        let seen = usize::try_from(number).ok().and_then(|n| self.seen.get(n));
        seen.is_some_and(|seen| seen.load(Ordering::Relaxed) > 0)
    }

    /// The instant of this process at which Redis's clock shows `millis`, never before it.
    pub fn instant(&self, millis: u64) -> Instant {
        let ahead = (millis * 1000).saturating_sub(self.clock.there_us);
        self.clock.here + Duration::from_micros(ahead) + self.clock.doubt
    }

    /// Asked now about deadlines of (number, due_at in milliseconds).
    pub fn note(&self, asked: impl Iterator<Item = (u64, u64)>) {
        let now = self.clock.at(Instant::now());
        let doubt = u64::try_from(self.clock.doubt.as_micros()).unwrap_or(0);
        let mut lateness = self.lateness.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (number, due_ms) in asked {
            let due = due_ms * 1000;
            lateness.saturating_record(now.saturating_sub(due).max(1));
            if now + doubt < due {
                self.early.fetch_add(1, Ordering::Relaxed);
            }
            if let Some(seen) = usize::try_from(number).ok().and_then(|n| self.seen.get(n)) {
                seen.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// The id of a numbered deadline: 20 bytes, as a shop's order numbers are.
pub fn id(number: u64) -> String {
    format!("bench-{number:014}")
}

/// The number in such an id.
pub fn number(id: &str) -> Option<u64> {
    id.strip_prefix("bench-")?.parse().ok()
}

impl Hook for Judge {
    fn judge<'a>(&'a self, _: &'a WheelName, leases: &'a [Lease]) -> BoxFuture<'a, Vec<Verdict>> {
        self.note(
            leases.iter().filter_map(|lease| Some((number(lease.id.as_str())?, lease.due_at.as_millis()))),
        );
        Box::pin(async { vec![Verdict::Closed; leases.len()] })
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn batch_size(&self) -> usize {
        500
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
