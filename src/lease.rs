//! A lease: one deadline handed to one worker for a while.
//!
//! Redis is authoritative. The lease ends at a moment of *Redis's* clock, and that moment, in microseconds, is also the **fence**:
//! it is unique within a shard and only grows, so whoever holds a lower one is late and is refused. The worker cannot read that
//! clock while it works, so it counts on its own monotonic clock **from the moment it sent the claim**, which is never later than the
//! moment Redis granted it; it stops trusting the lease a margin before that count runs out, and drops the result.

use std::fmt;
use std::time::{Duration, Instant};

use crate::clock::Moment;
use crate::deadline::{Cause, Generation, Id, Note, Payload, Stage};

/// The lease's end in microseconds of Redis's clock, and the token that every settle must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence(pub u64);

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
    /// Actor and reason of a manual close.
    pub note: Option<Note>,
    /// Until when, on this process's monotonic clock, the lease may be trusted (margin already taken off).
    pub trusted_until: Instant,
}

impl Lease {
    /// What is left of the trust window; zero when the result must be dropped.
    pub fn trust_left(&self) -> Duration {
        self.trusted_until.saturating_duration_since(Instant::now())
    }
}
