//! How one worker serves one wheel.

use std::time::Duration;

use super::circuit::CircuitSettings;
use crate::retry::RetryPolicy;
use crate::wheel::{Band, Rate};

/// How one worker serves one wheel.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Leases in work at once, over all shards of the wheel.
    pub concurrency: usize,
    /// Leases a claim takes at most (1 to 500).
    pub claim_batch: usize,
    /// How long a lease may wait for others to share its call of the hook; zero: not at all.
    pub gather: Duration,
    /// How long a lease lasts; must exceed the hook's timeout by `gather` and `lease_margin`.
    pub lease: Duration,
    /// Taken off the lease on the worker's own clock before it is trusted no more.
    pub lease_margin: Duration,
    /// The longest sleep between two looks at a shard.
    pub poll_interval: Duration,
    /// How late the head of another worker's shard may be before this one takes it.
    pub steal_after: Duration,
    /// On SIGTERM: how long work in hand may go on before it is given back.
    pub grace: Duration,
    /// What is retried how often.
    pub retry: RetryPolicy,
    /// The wait for an order whose table has a later close time than the wheel, when the table gives no moment.
    pub not_due_wait: Duration,
    /// How long after its enqueue an order without a row is waited for before it is buried.
    pub gone_grace: Duration,
    /// How far the clocks of this host, of Redis and of the databases may be apart before claiming stops; zero turns it off.
    pub skew_max: Duration,
    /// How fast the whole fleet may claim; `None`: as fast as it can.
    pub rate: Option<Rate>,
    /// When the hook counts as away.
    pub circuit: CircuitSettings,
    /// The band that closes must keep to, or the breaker stops the wheel.
    pub band: Band,
}

impl WorkerSettings {
    /// The fewest free permits that a claim is made with.
    pub(super) fn least_permits(&self) -> usize {
        (self.concurrency / 8).clamp(1, self.claim_batch)
    }
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            concurrency: 1024,
            claim_batch: 200,
            gather: Duration::ZERO,
            lease: Duration::from_secs(30),
            lease_margin: Duration::from_secs(1),
            poll_interval: Duration::from_millis(250),
            steal_after: Duration::from_millis(500),
            grace: Duration::from_secs(25),
            retry: RetryPolicy::default(),
            not_due_wait: Duration::from_secs(1),
            gone_grace: Duration::from_secs(60),
            skew_max: Duration::from_secs(2),
            rate: None,
            circuit: CircuitSettings::default(),
            band: Band::default(),
        }
    }
}
