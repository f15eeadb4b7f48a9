//! The load: placing, closing, and the raw floor of both.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio_util::sync::CancellationToken;

use super::figures::Figures;
use super::judge::{Judge, id};
use crate::clock::Moment;
use crate::config::WheelConfig;
use crate::deadline::{Cause, Deadline, DueAt, Id, OnConflict, Payload};
use crate::error::{Error, Result};
use crate::wheel::{Floor, Wheel};
use crate::worker::Worker;

/// Deadlines of one call: for 16 shards about 500 each, the most that a script takes.
const BATCH: u64 = 8000;
/// Windows of a shop: deadlines lie over half an hour.
const SPREAD_MS: u64 = 30 * 60 * 1000;
/// A drain that does not move for so long has lost something.
const STALL: Duration = Duration::from_secs(60);

/// Loads one wheel.
pub struct Load {
    pub(super) wheel: Wheel,
    pub(super) payload: Payload,
    callers: usize,
}

impl Load {
    /// A load with payloads of that size, placed by so many callers side by side.
    pub fn new(wheel: Wheel, payload: usize, callers: usize) -> Self {
        let text = match payload {
            0 => String::new(),
            1 => "1".to_owned(),
            n => format!("\"{}\"", "x".repeat(n - 2)),
        };
        Self { wheel, payload: Payload::from_stored(text.into_bytes()), callers }
    }

    fn deadline(&self, number: u64, due_at: DueAt) -> Result<Deadline> {
        let id = Id::new(&id(number))?;
        Ok(Deadline {
            id,
            due_at,
            payload: self.payload.clone(),
            traceparent: None,
            cause: Cause::Due,
            reminders: None,
        })
    }

    /// Places `count` deadlines numbered from `first`, with the moment that `due_at` gives each.
    pub(super) async fn place(&self, first: u64, count: u64, due_at: impl Fn(u64) -> DueAt) -> Result<()> {
        self.side_by_side(count, async |numbers| {
            let batch: Vec<_> =
                numbers.map(|n| self.deadline(first + n, due_at(n))).collect::<Result<_>>()?;
            for answer in self.wheel.enqueue_batch(&batch, OnConflict::Keep, false).await {
                if answer?.is_err() {
                    return Err(Error::Hook("an id was taken: somebody else uses the wheel".to_owned()));
                }
            }
            Ok(())
        })
        .await
    }

    /// Calls `batch` for parts of `0..count`, by all callers.
    pub(super) async fn side_by_side(
        &self,
        count: u64,
        batch: impl AsyncFn(Range<u64>) -> Result<()>,
    ) -> Result<()> {
        let next = AtomicU64::new(0);
        let caller = || async {
            loop {
                let start = next.fetch_add(BATCH, Ordering::Relaxed);
                if start >= count {
                    return Ok::<(), Error>(());
                }
                batch(start..(start + BATCH).min(count)).await?;
            }
        };
        try_join_all((0..self.callers).map(|_| caller())).await.map(|_| ())
    }

    /// Places `count` deadlines of the last half hour: kept like those of the next one, and due for [`Load::drain`].
    pub async fn enqueue(&self, count: u64, figures: &mut Figures) -> Result<()> {
        let now = self.wheel.now().await?.as_millis();
        let (cpu, before) = self.wheel.store().spent().await?;
        let began = Instant::now();
        self.place(0, count, |_| at(now - 1 - fastrand::u64(..SPREAD_MS))).await?;
        figures.enqueue_per_s = Some(per_second(count, began.elapsed()));
        let (cpu_after, after) = self.wheel.store().spent().await?;
        figures.bytes_per_deadline = Some(after.saturating_sub(before) / count);
        figures.redis_us_per_deadline = Some(micros_each(cpu_after.saturating_sub(cpu), count));
        Ok(())
    }

    /// Closes what [`Load::enqueue`] placed, by one worker with everything a worker does.
    pub async fn drain(&self, count: u64, config: &WheelConfig, figures: &mut Figures) -> Result<()> {
        let judge = Arc::new(Judge::new(count, self.clock().await?)?);
        let (cpu, scheduled) = self.wheel.store().spent().await?;
        let began = Instant::now();
        let worker = Worker::new(self.wheel.clone(), judge.clone(), config.worker.clone())?;
        let elapsed = self.work(&worker, count, began).await?;
        figures.drain_per_s = Some(per_second(count, elapsed));
        let (cpu_after, ended) = self.wheel.store().spent().await?;
        let whole = figures.redis_us_per_deadline.unwrap_or(0.0);
        figures.redis_us_per_deadline = Some(whole + micros_each(cpu_after.saturating_sub(cpu), count));
        // What the deadlines took is free again; what is left is the memory of their ends.
        let deadlines = figures.bytes_per_deadline.unwrap_or(0) * count;
        figures.bytes_per_ended = Some(ended.saturating_sub(scheduled.saturating_sub(deadlines)) / count);
        self.check_books(&judge, figures);
        Ok(())
    }

    /// Runs the worker until `count` are settled; answers how long that took.
    pub(super) async fn work(&self, worker: &Worker, count: u64, began: Instant) -> Result<Duration> {
        let stop = CancellationToken::new();
        let tally = worker.tally();
        let watch = async {
            let (mut last, mut moved) = (0, Instant::now());
            loop {
                let closed = tally.closed.load(Ordering::Relaxed);
                if closed >= count || moved.elapsed() > STALL {
                    let elapsed = began.elapsed();
                    stop.cancel();
                    return elapsed;
                }
                if closed != last {
                    (last, moved) = (closed, Instant::now());
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let (elapsed, drained) = tokio::join!(watch, worker.run(stop.clone()));
        if drained.clean { Ok(elapsed) } else { Err(Error::Hook("the worker did not drain".to_owned())) }
    }

    pub(super) fn check_books(&self, judge: &Judge, figures: &mut Figures) {
        let (lost, twice) = judge.lost_and_twice();
        figures.lost += lost;
        figures.twice += twice;
        figures.early += judge.early();
    }

    /// A floor on keys that are nobody else's.
    pub(super) fn bare(&self) -> Floor<'_> {
        let token = uuid::Uuid::new_v4().simple().to_string();
        Floor::new(self.wheel.store(), self.wheel.shards(), &token)
    }

    /// The same movement of data in bare Lua, in batches of the same size.
    pub async fn floor(&self, count: u64, claim_batch: usize, figures: &mut Figures) -> Result<()> {
        let floor = self.bare();
        let now = self.wheel.now().await?.as_millis();
        let (before, _) = self.wheel.store().spent().await?;
        let began = Instant::now();
        let placed = self.side_by_side(count, async |numbers| {
            let entry = |n| (now - 1 - fastrand::u64(..SPREAD_MS), id(n), self.payload.as_bytes().to_vec());
            floor.place(&numbers.map(entry).collect::<Vec<_>>()).await
        });
        let outcome = async {
            placed.await?;
            figures.floor_enqueue_per_s = Some(per_second(count, began.elapsed()));
            let began = Instant::now();
            let drained = floor.drain(claim_batch).await?;
            figures.floor_drain_per_s = Some(per_second(count, began.elapsed()));
            Ok::<u64, Error>(drained)
        };
        let outcome = outcome.await;
        let (after, _) = self.wheel.store().spent().await?;
        floor.remove().await?;
        if outcome? != count {
            return Err(Error::Hook("the floor lost entries: somebody else writes to its keys".to_owned()));
        }
        figures.floor_us_per_deadline = Some(micros_each(after.saturating_sub(before), count));
        Ok(())
    }
}

pub(super) fn at(millis: u64) -> DueAt {
    DueAt::Moment(Moment::EPOCH.plus(Duration::from_millis(millis)))
}

fn per_second(count: u64, elapsed: Duration) -> u64 {
    let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX).max(1);
    count.saturating_mul(1_000_000) / micros
}

fn micros_each(spent: Duration, count: u64) -> f64 {
    let count = u32::try_from(count).unwrap_or(u32::MAX).max(1);
    spent.as_secs_f64() * 1e6 / f64::from(count)
}
