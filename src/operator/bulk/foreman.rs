//! The foreman: runs the bulk acts of a wheel, one after the other, unless another process does.
//!
//! A page is written down before it is touched, and its counts afterwards. Whoever takes over from a foreman that died looks at the page
//! that was under way first: what does not stand as it stood then was done. So each is done once, none is left out, and the counts are exact.

use std::time::Duration;

use futures_util::StreamExt as _;

use super::fit::Fit;
use crate::deadline::{DueAt, Id, Note, State};
use crate::error::{Error, Result, StoreKind};
use crate::shard::Shard;
use crate::wheel::answer::{Answer, Cancelled, Scheduled};
use crate::wheel::{AuditEntry, AuditOutcome, Bulk, BulkAct, BulkAt, BulkState, Job, TakenBulk, Task, Wheel};
use crate::worker::service::Service;

/// How long the job is lent: what a foreman that was killed costs before another one goes on.
const LEASE: Duration = Duration::from_secs(5);
/// Between two looks whether there is anything to do.
const LOOK: Duration = Duration::from_millis(500);
/// Calls under way at once: a claim waits behind all that have arrived on a connection.
const AT_ONCE: usize = 8;

/// Runs bulk acts of one wheel. Any number of foremen work side by side.
#[derive(Debug)]
pub struct Foreman {
    wheel: Wheel,
    name: String,
}

impl Foreman {
    /// A foreman of that wheel.
    pub fn new(wheel: Wheel) -> Self {
        let name = format!("{}:{}:{:08x}", crate::worker::host(), std::process::id(), fastrand::u32(..));
        Self { wheel, name }
    }

    /// Runs the oldest bulk act that is not over, where there is one and nobody else has it; answers how it ended.
    pub async fn look(&self) -> Result<Option<Bulk>> {
        let TakenBulk { job, mut bulk, at } = match self.wheel.take_bulk(&self.name, LEASE).await? {
            None => return Ok(None),
            Some(Task::Run(taken)) => *taken,
            Some(Task::Tell(job, bulk)) => {
                let told = self.tell(&bulk).await;
                job.release(&[]).await?;
                return told.map(|()| Some(*bulk));
            }
        };
        let mut round = Round { wheel: &self.wheel, job: &job, bulk: &bulk, at };
        let done = job.hold(Box::pin(round.run())).await;
        let state = match done {
            Ok(state) => state,
            Err(e) => {
                if !matches!(e, Error::Overtaken(_)) {
                    drop(job.release(&[("error", &crate::error::shown(&e.to_string()))]).await);
                }
                return Err(e);
            }
        };
        (bulk.done, bulk.refused, bulk.left) = (round.at.done, round.at.refused, 0);
        if state == BulkState::Stopped {
            bulk.left = bulk.matched.saturating_sub(bulk.done + bulk.refused);
        }
        (bulk.state, bulk.runner) = (state, self.name.clone());
        bulk.ended_at_ms = Some(self.wheel.now().await?.as_millis());
        job.finish_bulk(&bulk).await?;
        self.tell(&bulk).await?;
        Ok(Some(bulk))
    }

    /// Says that a bulk act is over, and takes it off the list. Whoever is cut off in between leaves it on the list, and it is said again:
    /// twice, and never not at all.
    async fn tell(&self, bulk: &Bulk) -> Result<()> {
        match self.wheel.write_audit(&end_of(bulk)).await {
            Ok(_) => {}
            Err(e) if e.store_kind().is_some_and(StoreKind::is_temporary) => return Err(e),
            // What is refused now is refused the next time as well, and others wait behind this one.
            Err(e) => {
                tracing::warn!(wheel = %self.wheel.name(), act = bulk.act.as_str(), error = %e, "the outcome of a bulk act is not in the audit");
            }
        }
        self.wheel.forget_bulk(&bulk.id).await?;
        tracing::info!(
            wheel = %self.wheel.name(), act = bulk.act.as_str(), by = bulk.by, done = bulk.done, refused = bulk.refused,
            state = bulk.state.as_str(), "a bulk act is over"
        );
        Ok(())
    }
}

impl Service for Foreman {
    const NAME: &'static str = "foreman";
    /// A bulk act may be about a million deadlines.
    const LONGEST: Duration = Duration::from_secs(6 * 3600);

    async fn pass(&mut self) -> Result<Duration> {
        Ok(if self.look().await?.is_some() { Duration::ZERO } else { LOOK })
    }
}

/// The end of a bulk act in the audit.
fn end_of(bulk: &Bulk) -> AuditEntry {
    let outcome = match (bulk.state, bulk.refused) {
        (BulkState::Stopped, _) => AuditOutcome::Stopped,
        (_, 0) => AuditOutcome::Done,
        _ => AuditOutcome::Partial,
    };
    AuditEntry {
        entry: bulk.audit.clone(),
        act: bulk.act.as_str().to_owned(),
        by: bulk.by.clone(),
        door: Some(bulk.door.clone()),
        about: Some(super::said(bulk.act, &bulk.filter, bulk.most)),
        reason: bulk.reason.clone(),
        asked: bulk.matched.max(bulk.done + bulk.refused),
        done: bulk.done,
        outcome,
        said: (bulk.refused > 0).then(|| format!("{} had moved on", bulk.refused)),
        ..AuditEntry::default()
    }
}

/// One run of a bulk act.
struct Round<'a> {
    wheel: &'a Wheel,
    job: &'a Job,
    bulk: &'a Bulk,
    at: BulkAt,
}

impl Round<'_> {
    async fn run(&mut self) -> Result<BulkState> {
        let left_behind = self.left_behind().await?;
        self.touch(left_behind).await?;
        loop {
            if self.wheel.stopped_bulk(&self.bulk.id).await?.is_some() {
                self.job.save_bulk(&self.at).await?;
                return Ok(BulkState::Stopped);
            }
            let Some(page) = self.next_page().await? else { return Ok(BulkState::Done) };
            self.at.page = page.iter().map(|fit| (fit.id.as_str().to_owned(), fit.mark.clone())).collect();
            self.job.save_bulk(&self.at).await?;
            self.touch(page).await?;
        }
    }

    /// What the foreman before had written down and not touched. The rest of that page counts as done.
    async fn left_behind(&mut self) -> Result<Vec<Fit>> {
        let page = std::mem::take(&mut self.at.page);
        let (wheel, bulk) = (self.wheel, self.bulk);
        let look = |(id, mark): (String, String)| async move {
            let seen = wheel.inspect(&Id::new(&id)?).await?;
            let fit = Fit::of_seen(bulk.act, &bulk.filter, bulk.asked_at_us(), &seen);
            Ok::<_, Error>(fit.filter(|fit| fit.mark == mark))
        };
        let count = page.len();
        let looks: Vec<_> = page.into_iter().map(look).collect();
        let mut left = Vec::new();
        let mut looks = futures_util::stream::iter(looks).buffered(AT_ONCE);
        while let Some(look) = looks.next().await {
            left.extend(look?);
        }
        self.at.done += (count - left.len()) as u64;
        Ok(left)
    }

    /// The next ones that match; `None` at the end.
    async fn next_page(&mut self) -> Result<Option<Vec<Fit>>> {
        let (act, filter) = (self.bulk.act, &self.bulk.filter);
        let state = if act.is_of_dead() { State::Dead } else { State::Scheduled };
        while self.at.shard < self.wheel.shards().get() {
            let room =
                self.bulk.most.map_or(u64::MAX, |most| most.saturating_sub(self.at.done + self.at.refused));
            if room == 0 {
                return Ok(None);
            }
            let (shard, between) = (Shard(self.at.shard), filter.from()..=filter.to());
            let (rows, next) =
                self.wheel.shard_page_between(shard, state, between, self.at.after.as_ref()).await?;
            if next.is_none() {
                self.at.shard += 1;
            }
            self.at.after = next;
            let fits = rows.iter().filter_map(|row| Fit::of_row(act, filter, self.bulk.asked_at_us(), row));
            let page: Vec<Fit> = fits.take(usize::try_from(room).unwrap_or(usize::MAX)).collect();
            if !page.is_empty() {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }

    /// Does it to these, and counts. What fails for reasons of Redis's ends the run, which goes on later from this page.
    async fn touch(&mut self, page: Vec<Fit>) -> Result<()> {
        let ids: Vec<Id> = page.iter().map(|fit| fit.id.clone()).collect();
        let answers: Vec<Result<bool>> = match self.bulk.act {
            BulkAct::Revive => moved(self.wheel.revive_many(&ids).await),
            BulkAct::Drop => ended(self.wheel.drop_dead(&ids).await),
            BulkAct::Cancel => ended(self.wheel.cancel(&ids).await),
            BulkAct::Close => {
                let note = Note::new(&self.bulk.by, &self.bulk.reason)?;
                let calls: Vec<_> = ids.iter().map(|id| self.wheel.close(id, &note)).collect();
                moved(futures_util::stream::iter(calls).buffered(AT_ONCE).collect().await)
            }
            BulkAct::Reschedule { by_ms } => {
                let mut calls = Vec::with_capacity(page.len());
                for fit in &page {
                    let due_at = DueAt::Moment(fit.due_at.plus(Duration::from_millis(by_ms)));
                    calls.push(self.wheel.reschedule(&fit.id, due_at, Some(fit.generation)));
                }
                moved(futures_util::stream::iter(calls).buffered(AT_ONCE).collect().await)
            }
            BulkAct::Hold { for_ms } => {
                let for_long = Duration::from_millis(for_ms);
                let calls: Vec<_> = ids.iter().map(|id| self.wheel.hold(id, for_long)).collect();
                moved(futures_util::stream::iter(calls).buffered(AT_ONCE).collect().await)
            }
        };
        let (mut done, mut refused) = (0, 0);
        for answer in answers {
            match answer {
                Ok(true) => done += 1,
                // One that cannot be moved so far, say.
                Ok(false) | Err(Error::Invalid(_)) => refused += 1,
                Err(e) => return Err(e),
            }
        }
        self.at.done += done;
        self.at.refused += refused;
        self.at.page.clear();
        Ok(())
    }
}

fn moved(answers: Vec<Result<Answer<Scheduled>>>) -> Vec<Result<bool>> {
    answers.into_iter().map(|answer| answer.map(|answer| answer.is_ok())).collect()
}

fn ended(answers: Vec<Result<Answer<Cancelled>>>) -> Vec<Result<bool>> {
    let is_done = |answer: Answer<Cancelled>| matches!(answer, Ok(Cancelled::Cancelled | Cancelled::Already));
    answers.into_iter().map(|answer| answer.map(is_done)).collect()
}
