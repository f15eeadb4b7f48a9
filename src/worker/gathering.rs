//! The gathering: leases of several claims that wait for each other a little, to go through the hook in one call. A claim is of one shard,
//! so at a few closes a second each would be a call, and in SQL a transaction, of its own.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::heartbeat::Batch;
use crate::deadline::Cause;
use crate::lease::Lease;
use crate::shard::Shard;

/// Leases of one claim on their way through the hook.
pub struct Part {
    pub shard: Shard,
    pub batch: Arc<Batch>,
    pub leases: Vec<Lease>,
    /// One for each lease, held until it is settled.
    pub permits: OwnedSemaphorePermit,
    /// Held until the whole claim is settled: the turn of a suspect, or of a probe.
    pub keep: Arc<Vec<OwnedSemaphorePermit>>,
}

impl Part {
    /// Whether it must not wait for others: a suspect would take them along if it ended the process, a probe is waited for by all, and a
    /// manual close by a person.
    pub fn goes_alone(&self) -> bool {
        !self.keep.is_empty() || self.leases.iter().any(|lease| lease.cause == Cause::Manual)
    }
}

/// What waits.
#[derive(Default)]
pub struct Gathering {
    waiting: Mutex<Waiting>,
    /// Nothing waits any more once this is cancelled.
    pub hurry: CancellationToken,
}

#[derive(Default)]
struct Waiting {
    round: u64,
    count: usize,
    parts: Vec<Part>,
}

/// What an added part means.
#[derive(Default)]
pub struct Added {
    /// Calls that are to be made now, by their parts.
    pub ready: Vec<Vec<Part>>,
    /// The round that began with it; whoever added it takes the round when its time is over.
    pub began: Option<u64>,
}

impl Gathering {
    /// Adds a part. So many leases wait for nobody, and no more go into one call than these or one part.
    pub fn add(&self, part: Part, size: usize) -> Added {
        let mut waiting = self.lock();
        let mut added = Added::default();
        if waiting.count > 0 && waiting.count + part.leases.len() > size {
            added.ready.push(waiting.take());
        }
        waiting.count += part.leases.len();
        waiting.parts.push(part);
        if waiting.count >= size {
            added.ready.push(waiting.take());
        } else if waiting.parts.len() == 1 {
            added.began = Some(waiting.round);
        }
        added
    }

    /// What is left of that round: nothing, where it became ready before.
    pub fn take(&self, round: u64) -> Vec<Part> {
        let mut waiting = self.lock();
        if waiting.round == round { waiting.take() } else { Vec::new() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn take(&mut self) -> Vec<Part> {
        self.round += 1;
        self.count = 0;
        std::mem::take(&mut self.parts)
    }
}
