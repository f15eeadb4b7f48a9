//! The recorder: keeps in Redis what this worker did in each minute of the last hour, so that charts outlive every process. It takes the
//! numbers from what is counted anyway, one call every few seconds, and none where nothing was done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::limits::Limits;
use super::measures::Measures;
use super::service::Service;
use super::tally::{Tally, TallySnapshot};
use crate::clock::Moment;
use crate::error::Result;
use crate::metrics::Spread;
use crate::wheel::{HOUR_MINUTES, Minute, Wheel};

/// Between two looks: what a killed worker did last and did not write is missing from the charts, and from nothing else.
const PAUSE: Duration = Duration::from_secs(2);
/// Between two looks at what was cancelled: a short read of each shard.
const CANCELLED: Duration = Duration::from_secs(10);
/// What did not change is told again after so long: a minute's own count is the difference to what was told before it, within the hour.
const AGAIN: Duration = Duration::from_secs(300);

/// What one worker did, minute by minute, and what of it Redis does not know yet.
pub struct Ledger {
    wheel: Wheel,
    worker: String,
    tally: Arc<Tally>,
    measures: Arc<Measures>,
    limits: Arc<Limits>,
    pages: Mutex<Pages>,
}

struct Pages {
    /// All minutes of the last hour in which anything was done: a clock that steps back must find what it said of a minute before.
    minutes: BTreeMap<u64, Page>,
    counted: (TallySnapshot, Spread),
}

struct Page {
    minute: Minute,
    written: bool,
}

impl Ledger {
    /// An empty one: what was counted before belongs to no minute.
    pub fn new(
        wheel: Wheel,
        worker: String,
        tally: Arc<Tally>,
        measures: Arc<Measures>,
        limits: Arc<Limits>,
    ) -> Self {
        let counted = (tally.snapshot(), measures.lateness());
        let pages = Mutex::new(Pages { minutes: BTreeMap::new(), counted });
        Self { wheel, worker, tally, measures, limits, pages }
    }

    /// Writes what was done since the last time. A failure leaves it for the next one.
    pub async fn write(&self) -> Result<()> {
        // Before Redis's clock is known nobody can say which minute it is; what was done meanwhile belongs to the first that is known.
        let Some(now_us) = self.limits.clocks.redis_us_at(Instant::now()) else { return Ok(()) };
        let unwritten = self.turn(Moment::EPOCH.plus(Duration::from_micros(now_us)));
        self.wheel.record_hour(&self.worker, &unwritten).await?;
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        for minute in unwritten {
            if let Some(page) = pages.minutes.get_mut(&minute.from_ms) {
                page.written = page.minute == minute;
            }
        }
        Ok(())
    }

    /// Notes what was done since the last time under that moment's minute; answers all that Redis does not know.
    fn turn(&self, now: Moment) -> Vec<Minute> {
        let (tally, lateness) = (self.tally.snapshot(), self.measures.lateness());
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let (before, late_before) = std::mem::replace(&mut pages.counted, (tally, lateness.clone()));
        let mut done = Minute::at(now);
        done.closed = tally.closed.saturating_sub(before.closed);
        done.skipped = tally.skipped.saturating_sub(before.skipped);
        done.retried = tally.retried.saturating_sub(before.retried);
        done.unavailable = tally.unavailable.saturating_sub(before.unavailable);
        done.buried = tally.buried.saturating_sub(before.buried);
        done.lateness = lateness.since(&late_before);
        if !done.is_empty() {
            let fresh = || Page { minute: Minute::at(now), written: false };
            let page = pages.minutes.entry(done.from_ms).or_insert_with(fresh);
            page.minute.add(&done);
            page.written = false;
        }
        // As many as one call takes; what is older nobody looks at.
        while pages.minutes.len() as u64 > HOUR_MINUTES {
            pages.minutes.pop_first();
        }
        let unwritten = pages.minutes.values().filter(|page| !page.written);
        unwritten.map(|page| page.minute.clone()).collect()
    }
}

/// Writes the ledger now and then, and what the wheel itself has counted.
pub struct Recorder {
    ledger: Arc<Ledger>,
    looked_at: Option<Instant>,
    /// What was cancelled so far as it was told last, and when.
    told: Option<(u64, Instant)>,
}

impl Recorder {
    /// Of that ledger.
    pub fn new(ledger: Arc<Ledger>) -> Self {
        Self { ledger, looked_at: None, told: None }
    }
}

impl Service for Recorder {
    const NAME: &'static str = "recorder";

    async fn pass(&mut self) -> Result<Duration> {
        self.ledger.write().await?;
        let now = Instant::now();
        if self.looked_at.is_none_or(|at| now.duration_since(at) >= CANCELLED) {
            self.looked_at = Some(now);
            self.told = self.told.filter(|(_, at)| now.duration_since(*at) < AGAIN);
            let told = self.told.map(|(total, _)| total);
            let total = self.ledger.wheel.record_cancelled(told).await?;
            if told != Some(total) {
                self.told = Some((total, now));
            }
        }
        Ok(PAUSE)
    }
}
