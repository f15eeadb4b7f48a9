//! The janitor: forgets ends and events whose time is over, a page at a time, and looks at the structure now and then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::measures::Measures;
use super::service::Service;
use super::tally::{Tally, add};
use crate::clock::Moment;
use crate::error::Result;
use crate::shard::Shard;
use crate::wheel::{SCAN, Taken, Wheel};

/// Between two pages. At 500 fields a page and ten pages a second, 72 hours of a million orders a day are walked in ten minutes.
const PAGE_PAUSE: Duration = Duration::from_millis(100);
/// Between two whole rounds.
const ROUND_PAUSE: Duration = Duration::from_secs(60);
/// Between two structural scans, by one worker of the fleet: a scan reads everything once.
const SCAN_EVERY: Duration = Duration::from_secs(30 * 60);
/// A worker that starts has better to do than to scan, unless somebody has asked for it.
const SCAN_FROM: Duration = Duration::from_secs(5 * 60);
/// Between two looks whether somebody has: who finds what only a scan mends.
const SCAN_LOOK: Duration = Duration::from_secs(5);
/// What a worker that dies in a scan costs the next one.
const SCAN_LEASE: Duration = Duration::from_secs(10);

/// Prunes shard by shard.
pub struct Janitor {
    wheel: Wheel,
    tally: Arc<Tally>,
    measures: Arc<Measures>,
    worker: String,
    shard: u16,
    cursor: u64,
    /// Until when nothing is looked for to forget.
    rests_until: Instant,
    scans_from: Instant,
}

impl Janitor {
    pub fn new(wheel: Wheel, tally: Arc<Tally>, measures: Arc<Measures>, worker: String) -> Self {
        let now = Instant::now();
        Self {
            wheel,
            tally,
            measures,
            worker,
            shard: 0,
            cursor: 0,
            rests_until: now,
            scans_from: now + SCAN_FROM,
        }
    }

    /// The only net under a shop without a table: what Redis lost of the structure is put back.
    async fn scan(&self) -> Result<()> {
        let taken = if Instant::now() < self.scans_from {
            self.wheel.take_asked_job(SCAN, &self.worker, SCAN_LEASE).await?
        } else {
            let now = self.wheel.now().await?;
            let every = u64::try_from(SCAN_EVERY.as_millis()).unwrap_or(u64::MAX);
            let since = Moment::from_millis(now.as_millis().saturating_sub(every).max(1)).ok();
            self.wheel.take_job(SCAN, &self.worker, SCAN_LEASE, since).await?
        };
        let Taken::Mine(job) = taken else { return Ok(()) };
        let found = job.hold(self.wheel.verify(true)).await?;
        for finding in &found.findings {
            self.measures.found(&finding.kind);
            let (wheel, shard, kind, subject) =
                (self.wheel.name(), finding.shard, &finding.kind, &finding.subject);
            if finding.healed {
                tracing::error!(%wheel, shard, kind, subject, "structural finding, mended");
            } else {
                tracing::error!(%wheel, shard, kind, subject, "structural finding; run `duewheel verify --heal`");
            }
        }
        job.finish("", &[]).await
    }
}

impl Service for Janitor {
    const NAME: &'static str = "janitor";
    /// A structural scan reads a whole wheel.
    const LONGEST: Duration = Duration::from_secs(1800);

    async fn pass(&mut self) -> Result<Duration> {
        if Instant::now() < self.rests_until {
            self.scan().await?;
            return Ok(SCAN_LOOK);
        }
        let (next, removed) = self.wheel.prune(Shard(self.shard), self.cursor).await?;
        add(&self.tally.pruned, usize::try_from(removed).unwrap_or(usize::MAX));
        if let Some(cursor) = next {
            self.cursor = cursor;
            return Ok(PAGE_PAUSE);
        }
        self.cursor = 0;
        self.shard += 1;
        if self.shard < self.wheel.shards().get() {
            return Ok(PAGE_PAUSE);
        }
        self.shard = 0;
        self.rests_until = Instant::now() + ROUND_PAUSE;
        Ok(PAGE_PAUSE)
    }
}
