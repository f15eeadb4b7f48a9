//! Deadlines that come due at a rate, whatever anybody does about them: how late the worker is, and how late the bare movement of data is
//! on the same machine a moment later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use super::figures::{Figures, Lateness};
use super::judge::{Judge, RedisClock, id, number};
use super::load::{Load, at};
use super::ticks::Ticks;
use crate::config::WheelConfig;
use crate::deadline::DueAt;
use crate::error::{Error, Result};
use crate::wheel::Floor;
use crate::worker::{Alarm, Worker};

/// Before the first deadline comes due, so that placing is over.
const LEAD: Duration = Duration::from_secs(3);

/// The moments at which numbered deadlines come due: evenly, from `first` on.
#[derive(Debug, Clone, Copy)]
struct Schedule {
    first_ms: u64,
    rate: u64,
}

impl Schedule {
    fn due_ms(self, number: u64) -> u64 {
        self.first_ms + number * 1000 / self.rate
    }
}

impl Load {
    /// Deadlines that come due evenly at a rate, beside others of the far future.
    pub async fn lateness(
        &self,
        rate: u64,
        seconds: Duration,
        pending: u64,
        config: &WheelConfig,
        figures: &mut Figures,
    ) -> Result<()> {
        const DAY_MS: u64 = 86_400_000;
        let count = rate * u64::try_from(seconds.as_millis()).unwrap_or(u64::MAX) / 1000;
        self.place(count, pending, |_| DueAt::After(Duration::from_millis(DAY_MS + fastrand::u64(..DAY_MS))))
            .await?;
        if pending > 0 {
            self.wait_for_the_disk().await?;
        }
        let judge = Arc::new(Judge::new(count, self.clock().await?)?);
        let schedule = self.schedule(rate, count).await?;
        self.place(0, count, |n| at(schedule.due_ms(n))).await?;
        let worker = Worker::new(self.wheel.clone(), judge.clone(), config.worker.clone())?;
        if self.wheel.now().await?.as_millis() >= schedule.first_ms {
            return Err(Error::Hook("placing took longer than its lead; choose a lower --rate".to_owned()));
        }
        let ticks = Ticks::read();
        self.work(&worker, count, Instant::now()).await?;
        figures.lateness_ms = Some(Lateness::of(&judge.lateness(), ticks));
        self.check_books(&judge, figures);
        Ok(())
    }

    async fn schedule(&self, rate: u64, count: u64) -> Result<Schedule> {
        // Placing 50,000 a second is the slowest that still keeps the lead.
        let lead = LEAD + Duration::from_millis(count / 50);
        Ok(Schedule { first_ms: self.wheel.now().await?.plus(lead).as_millis(), rate })
    }

    /// What placing has written is on its way to the disk for a while, and would be measured as lateness: waits until Redis had its log
    /// synced for five seconds in a row, at most a minute.
    async fn wait_for_the_disk(&self) -> Result<()> {
        let mut quiet = 0;
        for _ in 0..60 {
            let facts = self.wheel.store().facts().await?;
            let is_behind = facts.field("aof_pending_bio_fsync").is_some_and(|pending| pending != "0");
            quiet = if is_behind { 0 } else { quiet + 1 };
            if quiet == 5 {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    /// Redis's clock, from the quickest of some looks.
    pub(super) async fn clock(&self) -> Result<RedisClock> {
        let mut best: Option<RedisClock> = None;
        for _ in 0..100 {
            let sent = Instant::now();
            let there_us = self.wheel.store().time_us().await?;
            let trip = sent.elapsed();
            let doubt = trip / 2;
            if best.is_none_or(|b| doubt < b.doubt) {
                best = Some(RedisClock { here: sent + doubt, there_us, doubt });
            }
        }
        best.ok_or_else(|| Error::Hook("redis's clock could not be read".to_owned()))
    }

    /// The same for the raw floor: for each shard a task that wakes when something comes due, claims and settles it in bare Lua.
    pub async fn floor_lateness(
        &self,
        rate: u64,
        seconds: Duration,
        limit: usize,
        figures: &mut Figures,
    ) -> Result<()> {
        let count = rate * u64::try_from(seconds.as_millis()).unwrap_or(u64::MAX) / 1000;
        let judge = Judge::new(count, self.clock().await?)?;
        let schedule = self.schedule(rate, count).await?;
        let floor = self.bare();
        let fired = async {
            let entry = |n| (schedule.due_ms(n), id(n), self.payload.as_bytes().to_vec());
            self.side_by_side(count, async |numbers| {
                floor.place(&numbers.map(entry).collect::<Vec<_>>()).await
            })
            .await?;
            let ticks = Ticks::read();
            self.fire(&floor, schedule, count, limit, &judge).await?;
            Ok::<_, Error>(Lateness::of(&judge.lateness(), ticks))
        };
        let fired = fired.await;
        floor.remove().await?;
        figures.floor_lateness_ms = Some(fired?);
        match judge.lost_and_twice() {
            (0, 0) => Ok(()),
            _ => Err(Error::Hook("the floor lost entries: somebody else writes to its keys".to_owned())),
        }
    }

    async fn fire(
        &self,
        floor: &Floor<'_>,
        schedule: Schedule,
        count: u64,
        limit: usize,
        judge: &Judge,
    ) -> Result<()> {
        let alarm = Alarm::start();
        let shards = self.wheel.shards();
        let mut due = vec![Vec::new(); usize::from(shards.get())];
        for n in 0..count {
            due[usize::from(shards.shard_of(id(n).as_bytes()).0)].push(n);
        }
        let shard = |(shard, numbers): (_, Vec<u64>)| {
            let alarm = &alarm;
            async move {
                let mut left = numbers.len();
                for n in numbers.iter().copied() {
                    if left == 0 || judge.has_seen(n) {
                        continue;
                    }
                    alarm.sleep_until(judge.instant(schedule.due_ms(n))).await;
                    while !judge.has_seen(n) {
                        let ids = floor.claim(shard, limit).await?;
                        judge.note(ids.iter().filter_map(|id| {
                            let n = number(std::str::from_utf8(id).ok()?)?;
                            Some((n, schedule.due_ms(n)))
                        }));
                        if !ids.is_empty() {
                            floor.settle(shard, &ids).await?;
                            left -= ids.len();
                        }
                    }
                }
                Ok::<(), Error>(())
            }
        };
        try_join_all(shards.all().zip(due).map(shard)).await.map(|_| ())
    }
}
