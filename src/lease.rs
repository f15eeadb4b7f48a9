//! A lease: one deadline handed to one worker for a while.
//!
//! Redis is authoritative. The lease ends at a moment of *Redis's* clock, and that moment, in microseconds, is also the **fence**:
//! it is unique within a shard and only grows, so whoever holds a lower one is late and is refused. The worker cannot read that
//! clock while it works, so it counts on its own monotonic clock **from the moment it sent the claim**, which is never later than the
//! moment Redis granted it; it stops trusting the lease a margin before that count runs out, and drops the result.

use std::fmt;
use std::time::{Duration, Instant};

use crate::clock::Moment;
use crate::deadline::{Cause, Generation, Id, Note, Payload, Reminders, Stage};
use crate::trace::Traceparent;

/// The lease's end in microseconds of Redis's clock, and the token that every settle must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(pub u64);

impl Fence {
    /// The fence after a renewal by so much: odd, so that a repeated claim never finds a renewed lease (lua/renew.lua).
    pub fn renewed(self, extension: Duration) -> Self {
        let extension = u64::try_from(extension.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(extension) | 1)
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A deadline that is due and is this worker's until the lease ends.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The order.
    pub id: Id,
    /// The promise: when the order was to be closed.
    pub due_at: Moment,
    /// Which life of the id this is; with wheel, id and stage it names the webhook.
    pub generation: Generation,
    /// 0 for the close itself; n for the reminder that is n stages before it.
    pub stage: Stage,
    /// Why it fires.
    pub cause: Cause,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// The fence of the claim. The hook, the audit row and the history carry this one, also after a renewal.
    pub fence: Fence,
    /// What the caller stored.
    pub payload: Payload,
    /// W3C traceparent of the enqueue, if it came with one.
    pub traceparent: Option<String>,
    /// Whether a payment in progress has held it back, so that it fires later than `due_at` on purpose.
    pub was_held: bool,
    /// Whether it was put off before, without an attempt that counts: what is late then is the hook's.
    pub was_put_off: bool,
    /// Actor and reason of a manual close.
    pub note: Option<Note>,
    /// The reminders before its close.
    pub reminders: Reminders,
    /// Until when, on this process's monotonic clock, the lease may be trusted (margin already taken off).
    pub trusted_until: Instant,
    /// Redis's clock, as the claim saw it.
    pub redis_clock: RedisClock,
}

/// A reading of Redis's clock, tied to this process's monotonic one.
#[derive(Debug, Clone, Copy)]
pub struct RedisClock {
    /// Microseconds since the epoch, by Redis.
    pub us: u64,
    /// When the question was sent: the true reading is this or a little later, so that lateness is never flattered.
    pub at: Instant,
}

impl RedisClock {
    /// What Redis's clock shows at `instant`, in microseconds; too high by at most the way of the question.
    pub fn us_at(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.at);
        self.us.saturating_add(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

impl Lease {
    /// The trace it was enqueued in: 32 hex digits; `None` where it came with none, or with none that is valid.
    pub fn trace_id(&self) -> Option<&str> {
        self.traceparent.as_deref().and_then(Traceparent::parse).map(|parent| parent.trace_id())
    }

    /// How late this is at `instant`, in microseconds of Redis's clock; negative when it is before `due_at` (a manual close).
    pub fn lateness_us(&self, instant: Instant) -> i64 {
        let now = i64::try_from(self.redis_clock.us_at(instant)).unwrap_or(i64::MAX);
        let due = i64::try_from(self.due_at.as_millis().saturating_mul(1000)).unwrap_or(i64::MAX);
        now - due
    }

    /// What is left of the trust window; zero when the result must be dropped.
    pub fn trust_left(&self) -> Duration {
        self.trusted_until.saturating_duration_since(Instant::now())
    }
}
