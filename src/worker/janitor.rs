//! The janitor: forgets ends and events whose time is over, a page at a time, and looks at the structure now and then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::measures::Measures;
use super::service::Service;
use super::tally::{Tally, add};
use crate::error::Result;
use crate::shard::Shard;
use crate::wheel::Wheel;
use crate::wheel::answer::Verification;

/// Between two pages. At 500 fields a page and ten pages a second, 72 hours of a million orders a day are walked in ten minutes.
const PAGE_PAUSE: Duration = Duration::from_millis(100);
/// Between two whole rounds.
const ROUND_PAUSE: Duration = Duration::from_secs(60);
/// Between two structural scans, on one worker of the fleet now and then: a scan reads everything once.
const SCAN_PAUSE: Duration = Duration::from_secs(6 * 3600);

/// Prunes shard by shard.
pub struct Janitor {
    wheel: Wheel,
    tally: Arc<Tally>,
    measures: Arc<Measures>,
    shard: u16,
    cursor: u64,
    scan_at: Instant,
}

impl Janitor {
    pub fn new(wheel: Wheel, tally: Arc<Tally>, measures: Arc<Measures>) -> Self {
        // Spread over the fleet and away from the start, when there is better to do.
        let scan_at = Instant::now() + SCAN_PAUSE.mul_f64(0.5 + fastrand::f64());
        Self { wheel, tally, measures, shard: 0, cursor: 0, scan_at }
    }

    async fn scan(&mut self) -> Result<()> {
        let mut found = Verification::default();
        self.wheel.verify_shard(Shard(self.shard), false, &mut found).await?;
        for finding in &found.findings {
            self.measures.found(&finding.kind);
            tracing::error!(wheel = %self.wheel.name(), shard = finding.shard, kind = finding.kind, subject = finding.subject,
                "structural finding; run `duewheel verify --heal`");
        }
        Ok(())
    }
}

impl Service for Janitor {
    const NAME: &'static str = "janitor";
    /// A structural scan reads a whole shard.
    const LONGEST: Duration = Duration::from_secs(1800);

    async fn pass(&mut self) -> Result<Duration> {
        let (next, removed) = self.wheel.prune(Shard(self.shard), self.cursor).await?;
        add(&self.tally.pruned, usize::try_from(removed).unwrap_or(usize::MAX));
        if let Some(cursor) = next {
            self.cursor = cursor;
            return Ok(PAGE_PAUSE);
        }
        if Instant::now() >= self.scan_at {
            self.scan().await?;
        }
        self.cursor = 0;
        self.shard += 1;
        if self.shard < self.wheel.shards().get() {
            return Ok(PAGE_PAUSE);
        }
        self.shard = 0;
        if Instant::now() >= self.scan_at {
            self.scan_at = Instant::now() + SCAN_PAUSE.mul_f64(0.5 + fastrand::f64());
        }
        Ok(ROUND_PAUSE)
    }
}
