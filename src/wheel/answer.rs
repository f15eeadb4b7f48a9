//! What the verbs answer. A refusal is a value: the caller must be ready for each, and none of them changed anything.

use std::time::Duration;

use super::reasons::Failure;
use crate::clock::Moment;
use crate::deadline::{Cause, Generation, Id, Note, Outcome, Payload, Reminders, Stage, State};
use crate::lease::Fence;
use crate::shard::Shard;
use crate::slot::Slot;

/// What a verb did, or why it did nothing.
pub type Answer<T> = std::result::Result<T, Refusal>;

/// Why a verb did nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Nothing is known of the id.
    Absent,
    /// A worker has it right now.
    Leased,
    /// It waits for a person.
    Dead,
    /// It is scheduled, and the verb wants something else of it.
    Scheduled,
    /// It has ended; with what is remembered.
    Ended(Ended),
    /// It is scheduled for another moment.
    Conflict {
        /// The stored moment.
        due_at: Moment,
    },
    /// The caller expected another generation.
    Generation {
        /// The stored one.
        stored: Generation,
    },
    /// The hold would go beyond its cap.
    HoldCap {
        /// Holds so far.
        count: u32,
        /// Held so far, in all.
        total: Duration,
    },
    /// There is no hold to release.
    NotHeld,
}

impl Refusal {
    /// The stable word: CLI outcome, JSON, metric label.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Leased => "leased",
            Self::Dead => "dead",
            Self::Scheduled => "scheduled",
            Self::Ended(_) => "ended",
            Self::Conflict { .. } => "conflict",
            Self::Generation { .. } => "generation",
            Self::HoldCap { .. } => "hold_cap",
            Self::NotHeld => "not_held",
        }
    }
}

/// What an ended deadline left behind, for as long as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub outcome: Outcome,
    /// Why it fired; of a cancelled one, why it would have.
    pub cause: Cause,
    /// Which life of the id; 0 for a cancelled id that was never enqueued.
    pub generation: Generation,
    /// The promise.
    pub due_at: Moment,
    /// When it ended, by Redis's clock.
    pub ended_at: Moment,
    /// The attempt that ended it; 0 if none did.
    pub attempt: u32,
    /// The fence of that attempt's claim; 0 if none.
    pub fence: Fence,
}

/// What enqueue did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enqueued {
    /// The stored moment.
    pub due_at: Moment,
    /// The generation of the stored life.
    pub generation: Generation,
    /// What happened.
    pub how: EnqueuedHow,
}

/// How an enqueue was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnqueuedHow {
    /// A new deadline.
    New,
    /// The same id with the same moment was there already; nothing changed.
    Exists,
    /// The stored moment and payload were replaced.
    Replaced,
    /// An ended id was given a new life, because the caller forced it.
    Resurrected,
}

impl EnqueuedHow {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::New => "enqueued",
            Self::Exists => "exists",
            Self::Replaced => "replaced",
            Self::Resurrected => "resurrected",
        }
    }
}

/// What cancel did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It was scheduled or dead, and will never fire.
    Cancelled,
    /// Nothing was known of the id; the cancellation is remembered, so that a late enqueue does not bring the order back.
    Absent,
    /// It had been cancelled before.
    Already,
    /// A worker has it: closed if that attempt closes it, else cancelled; never retried.
    Leased,
}

impl Cancelled {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Absent => "absent",
            Self::Already => "already_cancelled",
            Self::Leased => "leased",
        }
    }
}

/// Where a moved deadline stands now (reschedule, hold, release, close, revive).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheduled {
    /// The promise.
    pub due_at: Moment,
    /// When it fires next.
    pub next_at: Moment,
    /// Its generation.
    pub generation: Generation,
}

/// What became of one id of a settle or renew call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// As asked; also the answer to a repeat of a settle that had closed it.
    Done,
    /// The lease was not this fence's any more: nothing changed.
    Stale,
    /// The attempt did not close it and it had been cancelled meanwhile: it ended as cancelled.
    Cancelled,
}

/// Everything known of one id.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// Where it is.
    pub state: State,
    /// Its shard.
    pub shard: Shard,
    /// Redis's clock when it was looked at.
    pub now: Moment,
    /// The stored header and body; `None` when absent or ended.
    pub entry: Option<Entry>,
    /// The fence, which is the lease's end, when leased.
    pub fence: Option<Fence>,
    /// The time of death and the reason, when dead.
    pub death: Option<(Moment, String)>,
    /// The latest attempts that failed, the latest first; the one that it died of is not among them.
    pub failures: Vec<Failure>,
    /// What is remembered of its last end; present also when the id lives again.
    pub ended: Option<Ended>,
    /// Whether the shard is paused.
    pub paused: bool,
}

impl Inspection {
    /// The lease's end, when leased.
    pub fn lease_ends_at(&self) -> Option<Moment> {
        self.fence.map(|fence| Moment::EPOCH.plus(Duration::from_micros(fence.0)))
    }

    /// Why its latest attempt failed, where one did and it is not dead of it.
    pub fn failure(&self) -> Option<&str> {
        let latest = self.failures.first().filter(|_| self.state != State::Dead)?;
        Some(latest.reason.as_str()).filter(|reason| !reason.is_empty())
    }
}

/// A stored deadline, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The order.
    pub id: Id,
    /// Which life.
    pub generation: Generation,
    /// The promise.
    pub due_at: Moment,
    /// When it fires next (the score).
    pub next_at: Moment,
    /// The slot it is in, or was in before it was leased or died.
    pub slot: Slot,
    /// What fires next.
    pub stage: Stage,
    /// Holds so far.
    pub hold_count: u32,
    /// Held so far, in all.
    pub hold_total: Duration,
    /// Why it fires.
    pub cause: Cause,
    /// Failed attempts so far.
    pub attempts: u32,
    /// Leases lost so far.
    pub losses: u32,
    /// Cancelled while leased.
    pub cancelled: bool,
    /// Actor and reason of a manual close.
    pub note: Option<Note>,
    /// The reminders before its close.
    pub reminders: Reminders,
    /// What the caller stored.
    pub payload: Payload,
    /// W3C traceparent of the enqueue.
    pub traceparent: Option<String>,
}

/// A place in a listing; opaque text for the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

/// One page of a listing, ordered by time within a shard.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The rows.
    pub rows: Vec<Row>,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
}

/// One row of a listing.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// Scheduled, leased or dead.
    Live {
        /// Which of the three.
        state: State,
        /// next_at, lease end or time of death.
        at: Moment,
        /// The deadline.
        entry: Box<Entry>,
        /// Why it died, when dead; otherwise why its latest attempt failed.
        reason: Option<String>,
    },
    /// Ended.
    Ended {
        /// The order.
        id: Id,
        /// What is remembered.
        ended: Ended,
    },
    /// Something that cannot be read: not our id, or a header of another format.
    Foreign {
        /// The member, escaped.
        id: String,
        /// Where it is.
        state: State,
        /// What is wrong with it.
        reason: String,
    },
}

/// A wheel in numbers, at one moment of Redis's clock.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct Stats {
    /// Redis's clock, milliseconds since the epoch (the oldest shard read).
    pub now_ms: u64,
    /// In the slots of the wheel, due or not.
    pub scheduled: u64,
    /// Of those, due.
    pub due: u64,
    /// Age of the oldest due one in milliseconds; 0 when none is due.
    pub oldest_due_ms: u64,
    /// When the next one fires; `None` when nothing is scheduled.
    pub next_ms: Option<u64>,
    /// With workers.
    pub leased: u64,
    /// Waiting for a person.
    pub dead: u64,
    /// Remembered ends.
    pub ended: u64,
    /// Shards that a person has paused.
    pub paused_shards: u64,
    /// Shards that the breaker has stopped.
    pub tripped_shards: u64,
    /// Shards in all.
    pub shards: u64,
    /// Lifetime counts since the shards were formatted: verb or outcome -> count.
    pub totals: std::collections::BTreeMap<String, u64>,
}

impl Stats {
    /// What the hook has answered since the shards were formatted: the word, how often, and what it means.
    pub fn verdicts(&self) -> [(&'static str, u64, &'static str); 7] {
        [
            ("closed", "the hook closed the order"),
            ("skipped", "it was paid, or closed by somebody else"),
            ("retried", "attempts that closed nothing and were put off"),
            ("buried", "put aside as dead, for a person"),
            ("lost", "leases that ended because their worker was gone"),
            ("reminded", "reminders that were given"),
            ("reminder_failed", "reminders that were given up"),
        ]
        .map(|(word, what)| (word, self.totals.get(word).copied().unwrap_or_default(), what))
    }
}

/// Closes that will come due in one stretch of the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct ForecastBucket {
    /// Start of the stretch, milliseconds since the epoch.
    pub from_ms: u64,
    /// How many.
    pub count: u64,
}

/// What the structural scan found.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Verification {
    /// Ids looked at.
    pub scanned: u64,
    /// Findings, each one sentence with shard and id.
    pub findings: Vec<Finding>,
}

/// One thing that should not be.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The shard.
    pub shard: u16,
    /// The stable word, one of [`Finding::KINDS`].
    pub kind: String,
    /// The id or slot, escaped.
    pub subject: String,
    /// Whether this run mended it.
    pub healed: bool,
}

impl Finding {
    /// All that can be found (lua/verify.lua).
    pub const KINDS: [&str; 7] = [
        "body_without_place",
        "place_without_body",
        "two_places",
        "slot_not_indexed",
        "index_without_slot",
        "bad_header",
        "totals_off",
    ];
}
