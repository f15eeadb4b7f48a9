//! The hook: what closes the order. Redis reminds, the hook judges, the database records.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::clock::{Moment, Reading};
use crate::error::Result;
use crate::lease::Lease;
use crate::shard::WheelName;

pub mod log;
#[cfg(feature = "sql")]
pub mod sql;
#[cfg(feature = "webhook")]
pub mod webhook;

/// A future that a hook returns; boxed so that a worker can hold hooks of any kind.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Closes orders. Implementations commit their own work **before** they answer; the worker settles after.
pub trait Hook: Send + Sync + 'static {
    /// Closes each leased order if it is still unpaid, and answers one verdict for each, in the same order.
    ///
    /// The call must end by itself within [`Hook::timeout`]. It may be repeated for the same order with a higher fence (a crash, a
    /// lost answer): the second call must find the order already closed and say so.
    fn judge<'a>(&'a self, wheel: &'a WheelName, leases: &'a [Lease]) -> BoxFuture<'a, Vec<Verdict>>;

    /// The longest a call of [`Hook::judge`] may take; the lease must exceed it.
    fn timeout(&self) -> Duration;

    /// How many leases one call may take: 1 for a webhook, the transaction size for SQL.
    fn batch_size(&self) -> usize;

    /// The start-up checks: refuses with the reason when the hook could not close anything.
    fn check(&self) -> BoxFuture<'_, Result<Vec<String>>>;

    /// How many calls may be under way at once; the others wait for their turn, and need not be made when it comes.
    fn concurrency(&self) -> usize {
        usize::MAX
    }

    /// The endpoints behind this hook, by names for people: whatever may be away while the others are there.
    fn endpoints(&self) -> Vec<String> {
        vec!["the hook".to_owned()]
    }

    /// Which of [`Hook::endpoints`] this order goes to.
    fn endpoint(&self, _lease: &Lease) -> usize {
        0
    }

    /// Reads the clocks of the databases that judge whether an order is due, each with a name for people. Empty where there are none, or
    /// where none answers just now.
    fn clocks(&self) -> BoxFuture<'_, Vec<(String, Reading)>> {
        Box::pin(async { Vec::new() })
    }

    /// The pools of sessions behind this hook, as they stand; empty where it keeps none.
    fn sessions(&self) -> Vec<Sessions> {
        Vec::new()
    }
}

/// How a pool of sessions stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    /// To which of [`Hook::endpoints`].
    pub endpoint: String,
    /// Sessions that are in use.
    pub in_use: usize,
    /// Sessions that are open and at rest.
    pub idle: usize,
    /// Sessions that there may be.
    pub max: usize,
}

/// What the hook found out about one order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The order was closed by this call, or by an earlier call for the same lease's life.
    Closed,
    /// Nothing to close: paid, or closed by somebody else. `state` is the word the shop gave (`paid`, `closed`).
    Skipped {
        /// The order's own state.
        state: String,
    },
    /// The table's own close time is later.
    NotDue {
        /// The table's close time; `None` asks for the worker's own short wait.
        until: Option<Moment>,
    },
    /// The hook could not be asked: not the order's fault, no attempt counted, never buried.
    Unavailable {
        /// Why, at most 4 KiB of valid UTF-8.
        reason: String,
        /// The wait the other side asked for.
        retry_after: Option<Duration>,
    },
    /// Somebody else has the order in hand for too long, its row locked: *unavailable* for this order alone, since the hook answers.
    Held {
        /// Why, at most 4 KiB of valid UTF-8.
        reason: String,
    },
    /// The hook said no in a way that may change: attempt counted, buried after the last.
    Failed {
        /// Why, at most 4 KiB of valid UTF-8.
        reason: String,
    },
    /// The hook will never close this order: buried at once, revivable.
    Rejected {
        /// Why, at most 4 KiB of valid UTF-8.
        reason: String,
    },
    /// There is no such order.
    Gone {
        /// What was looked for.
        reason: String,
    },
}

impl Verdict {
    /// The stable word: metric label, log field.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Skipped { .. } => "skipped",
            Self::NotDue { .. } => "not_due",
            Self::Unavailable { .. } | Self::Held { .. } => "unavailable",
            Self::Failed { .. } => "failed",
            Self::Rejected { .. } => "rejected",
            Self::Gone { .. } => "gone",
        }
    }
}
