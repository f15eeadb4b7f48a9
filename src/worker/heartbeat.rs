//! Leases in hand, and the heartbeat that makes them last: when a third of a lease is over, it is extended by a third, so that a slow
//! hook of a living worker is never overtaken.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::service::Service;
use super::tally::{Tally, add};
use crate::deadline::{Id, Stage};
use crate::error::Result;
use crate::lease::{Fence, Lease};
use crate::shard::Shard;
use crate::wheel::{ClaimInHand, Renewed, Wheel};

/// The batches in hand, by number.
#[derive(Debug, Default)]
pub struct Leases {
    batches: Mutex<HashMap<u64, Arc<Batch>>>,
    numbers: AtomicU64,
}

/// Leases of one claim that go through the hook together.
#[derive(Debug)]
pub struct Batch {
    number: u64,
    shard: Shard,
    count: usize,
    /// Redis's clock at the claim, in milliseconds, and the claim's fence.
    claimed: (u64, Fence),
    /// What a renewal adds.
    extension: Duration,
    /// Where reminders are among them, until when each lease may be trusted: a reminder's may end sooner than its neighbours', and is
    /// never renewed, because it must end where the next stage begins.
    own_ends: Vec<Instant>,
    held: Mutex<Held>,
}

/// What renewals change.
#[derive(Debug)]
struct Held {
    /// Current fence of each lease; `None` once it is known to be lost.
    fences: Vec<(Id, Option<Fence>)>,
    trusted_until: Instant,
    renew_at: Instant,
}

impl Leases {
    /// Takes a batch in hand.
    pub fn take(&self, shard: Shard, leases: &[Lease], lease: Duration) -> Arc<Batch> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let held = Held {
            fences: leases.iter().map(|lease| (lease.id.clone(), Some(lease.fence))).collect(),
            trusted_until: leases.iter().map(|lease| lease.trusted_until).max().unwrap_or(now),
            renew_at: leases.first().map_or(now, |lease| lease.redis_clock.at) + lease / 3,
        };
        let reminds = leases.iter().any(|lease| lease.stage != Stage::CLOSE);
        let own_ends = leases.iter().filter(|_| reminds).map(|lease| lease.trusted_until).collect();
        let claimed =
            leases.first().map_or((0, Fence(0)), |lease| (lease.redis_clock.us / 1000, lease.fence));
        let batch = Batch {
            number,
            shard,
            count: leases.len(),
            claimed,
            extension: lease / 3,
            own_ends,
            held: Mutex::new(held),
        };
        let batch = Arc::new(batch);
        self.lock().insert(number, batch.clone());
        batch
    }

    /// Lets a batch go: its verdicts are settled, or dropped.
    pub fn release(&self, batch: &Batch) {
        self.lock().remove(&batch.number);
    }

    /// Leases in hand.
    pub fn count(&self) -> usize {
        self.lock().values().map(|batch| batch.count).sum()
    }

    /// The claims in hand, the oldest first, at most so many.
    pub fn claims(&self, most: usize) -> Vec<ClaimInHand> {
        let batches: Vec<_> = self.lock().values().cloned().collect();
        // A claim may be in hand as many batches.
        let all = batches.iter().flat_map(|batch| batch.claims());
        let all: BTreeMap<_, _> = all.map(|claim| ((claim.shard, claim.ends_us[0]), claim)).collect();
        let mut all: Vec<_> = all.into_values().collect();
        all.sort_by_key(|claim| claim.claimed_ms);
        all.truncate(most);
        all
    }

    fn due(&self, now: Instant) -> Vec<Arc<Batch>> {
        let renews = |batch: &&Arc<Batch>| batch.own_ends.is_empty() && batch.lock().renew_at <= now;
        self.lock().values().filter(renews).cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Batch>>> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Batch {
    /// The claim that it is of; each reminder's lease ends by itself, and is told by itself.
    fn claims(&self) -> Vec<ClaimInHand> {
        let held = self.lock();
        let mut fences: Vec<Fence> = held.fences.iter().filter_map(|(_, fence)| *fence).collect();
        fences.dedup();
        let (claimed_ms, fence) = self.claimed;
        let claim = |current: Fence| {
            let renewed = if self.own_ends.is_empty() { current.renewed(self.extension) } else { current };
            ClaimInHand {
                shard: self.shard.0,
                claimed_ms,
                fence: if self.own_ends.is_empty() { fence.0 } else { current.0 },
                ends_us: [current.0, renewed.0],
            }
        };
        fences.into_iter().map(claim).collect()
    }

    /// The current fence of the lease at that place in the batch; `None` where it was lost or can be trusted no more.
    pub fn fence(&self, at: usize, now: Instant) -> Option<Fence> {
        let held = self.lock();
        if now >= held.trusted_until || self.own_ends.get(at).is_some_and(|end| now >= *end) {
            return None;
        }
        held.fences.get(at).and_then(|(_, fence)| *fence)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews what a third of has passed.
pub struct Heartbeat {
    wheel: Wheel,
    leases: Arc<Leases>,
    lease: Duration,
    tally: Arc<Tally>,
}

impl Heartbeat {
    pub fn new(wheel: Wheel, leases: Arc<Leases>, lease: Duration, tally: Arc<Tally>) -> Self {
        Self { wheel, leases, lease, tally }
    }

    async fn renew(&self, batch: &Batch) -> Result<()> {
        let extension = batch.extension;
        let asked: Vec<(usize, Id, Fence)> = {
            let held = batch.lock();
            if Instant::now() >= held.trusted_until {
                return Ok(());
            }
            (0..)
                .zip(&held.fences)
                .filter_map(|(at, (id, fence))| Some((at, id.clone(), (*fence)?)))
                .collect()
        };
        let pairs: Vec<(Id, Fence)> = asked.iter().map(|(_, id, fence)| (id.clone(), *fence)).collect();
        // A lost answer leaves the old fences standing; asking the same again is answered with the same new ones.
        let answers = self.wheel.renew(batch.shard, &pairs, extension).await?;
        let mut held = batch.lock();
        for ((at, _, _), answer) in asked.iter().zip(&answers) {
            if let Some((_, fence)) = held.fences.get_mut(*at) {
                *fence = match answer {
                    Renewed::Until(fence) => Some(*fence),
                    // Settled meanwhile, or lost: either way nothing may be written with it.
                    Renewed::Stale => None,
                };
            }
        }
        add(&self.tally.renewed, answers.iter().filter(|answer| **answer != Renewed::Stale).count());
        held.trusted_until += extension;
        held.renew_at += extension;
        Ok(())
    }
}

impl Service for Heartbeat {
    const NAME: &'static str = "heartbeat";

    async fn pass(&mut self) -> Result<Duration> {
        let mut failure = None;
        for batch in self.leases.due(Instant::now()) {
            if let Err(e) = self.renew(&batch).await {
                failure = Some(e);
            }
        }
        // Looks four times in a third, so that a lost answer leaves room for several more tries before the trust ends.
        failure.map_or(Ok(self.lease / 12), Err)
    }
}
