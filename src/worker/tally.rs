//! What a worker did, counted. The numbers equal what the log says.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one worker; each only grows.
#[derive(Debug, Default)]
pub struct Tally {
    /// Leases taken.
    pub claimed: AtomicU64,
    /// Claim calls that Redis answered.
    pub claims: AtomicU64,
    /// Claim calls that failed.
    pub claim_failures: AtomicU64,
    /// Expired leases put back.
    pub reaped: AtomicU64,
    /// Settled as closed.
    pub closed: AtomicU64,
    /// Settled as skipped.
    pub skipped: AtomicU64,
    /// Put off because the table says later.
    pub not_due: AtomicU64,
    /// To be tried again, attempt counted.
    pub retried: AtomicU64,
    /// To be tried again, hook unavailable.
    pub unavailable: AtomicU64,
    /// Reminders that were given.
    pub reminded: AtomicU64,
    /// Reminders that were given up.
    pub reminder_failed: AtomicU64,
    /// Buried.
    pub buried: AtomicU64,
    /// Ended as cancelled when settled.
    pub cancelled: AtomicU64,
    /// Given back untouched.
    pub given_back: AtomicU64,
    /// Settles refused because the lease was another's.
    pub stale: AtomicU64,
    /// Verdicts dropped because the lease could not be trusted any more.
    pub distrusted: AtomicU64,
    /// Leases renewed.
    pub renewed: AtomicU64,
    /// Hook calls made.
    pub hook_calls: AtomicU64,
    /// Hook calls that panicked or overran.
    pub hook_faults: AtomicU64,
    /// Settle calls that failed and were repeated.
    pub settle_failures: AtomicU64,
    /// Remembered ends forgotten.
    pub pruned: AtomicU64,
}

/// Adds to a counter.
pub fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

macro_rules! snapshot {
    ($($field:ident),* $(,)?) => {
        /// The counters at one moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
        pub struct TallySnapshot {
            $(#[doc = concat!("See [`Tally::", stringify!($field), "`].")] pub $field: u64,)*
        }

        impl Tally {
            /// Reads all counters.
            pub fn snapshot(&self) -> TallySnapshot {
                TallySnapshot { $($field: self.$field.load(Ordering::Relaxed),)* }
            }
        }
    };
}

snapshot!(
    claimed,
    claims,
    claim_failures,
    reaped,
    closed,
    skipped,
    not_due,
    retried,
    unavailable,
    reminded,
    reminder_failed,
    buried,
    cancelled,
    given_back,
    stale,
    distrusted,
    renewed,
    hook_calls,
    hook_faults,
    settle_failures,
    pruned,
);
