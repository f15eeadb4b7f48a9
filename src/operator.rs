//! What people do to a wheel, through whichever door: each act is written to the wheel's audit with who, through which door, about what,
//! why, to how many, and what came of it.
//!
//! The intent is written before the act, its outcome afterwards. So an answer that is lost, or a program that is killed on the way, leaves
//! an act that shows as *begun*, and never a change without a trace. An act whose intent cannot be written is not done.

mod act;
mod audited;
mod bulk;
mod person;
mod to;

use std::time::Duration;

pub use act::Act;
pub use bulk::{Foreman, LOOKED_AT, Matched};
pub use person::{Door, Person};
pub use to::To;

use audited::{About, Sum};

use crate::deadline::{DueAt, Generation, Id, Note};
use crate::error::{Invalid, Result};
use crate::shard::ShardCount;
use crate::wheel::answer::{Answer, Cancelled, Scheduled, Verification};
use crate::wheel::{Acknowledged, Held, JOBS, PREVIEW, Wheel};

/// The most orders that one entry of the audit names; an act on more is written as several.
pub const MOST_NAMED: usize = 1000;

/// A person at a door of one wheel. Cheap to clone.
///
/// Reasons are at most 500 bytes without control characters, and may be empty except where a method says otherwise; another one is an
/// [`Error::Invalid`](crate::error::Error::Invalid), and nothing is done.
#[derive(Debug, Clone)]
pub struct Operator {
    wheel: Wheel,
    person: Person,
}

impl Operator {
    /// That person, at that wheel.
    pub fn new(wheel: Wheel, person: Person) -> Self {
        Self { wheel, person }
    }

    /// The wheel.
    pub fn wheel(&self) -> &Wheel {
        &self.wheel
    }

    /// The person.
    pub fn person(&self) -> &Person {
        &self.person
    }

    /// Closes an order now: see [`Wheel::close`]. Needs a reason, which stands in the audit row of the shop, too.
    pub async fn close(&self, id: &Id, reason: &str) -> Result<Answer<Scheduled>> {
        let note = Note::new(self.person.name(), reason)?;
        self.audited(About::one(Act::Close, id, reason), self.wheel.close(id, &note), Sum::of_answer).await
    }

    /// Gives a deadline another moment: see [`Wheel::reschedule`].
    pub async fn reschedule(
        &self,
        id: &Id,
        due_at: DueAt,
        expected: Option<Generation>,
        reason: &str,
    ) -> Result<Answer<Scheduled>> {
        let to = match due_at {
            DueAt::Moment(moment) => format!("to {moment}"),
            DueAt::After(window) => format!("to {} from now", crate::clock::show_duration(window)),
        };
        let about = About::one(Act::Reschedule, id, reason).with(to);
        self.audited(about, self.wheel.reschedule(id, due_at, expected), Sum::of_answer).await
    }

    /// Ends deadlines that must not fire any more: see [`Wheel::cancel`]. One answer for each, in the same order.
    pub async fn cancel(&self, ids: &[Id], reason: &str) -> Result<Vec<Result<Answer<Cancelled>>>> {
        let mut answers = Vec::with_capacity(ids.len());
        for ids in ids.chunks(MOST_NAMED) {
            let work = async { Ok(self.wheel.cancel(ids).await) };
            let about = About::these(Act::Cancel, ids, reason);
            answers.extend(self.audited(about, work, |answers| Sum::of_answers(answers)).await?);
        }
        Ok(answers)
    }

    /// Keeps a deadline from firing for a while: see [`Wheel::hold_through`].
    pub async fn hold(
        &self,
        id: &Id,
        for_long: Duration,
        channel: Option<&str>,
        reason: &str,
    ) -> Result<Answer<Scheduled>> {
        let mut long = format!("for {}", crate::clock::show_duration(for_long));
        if let Some(channel) = channel {
            long += &format!(", channel {}", crate::error::shown(channel));
        }
        let about = About::one(Act::Hold, id, reason).with(long);
        self.audited(about, self.wheel.hold_through(id, for_long, channel), Sum::of_answer).await
    }

    /// Ends a hold early: see [`Wheel::release`].
    pub async fn release(&self, id: &Id, reason: &str) -> Result<Answer<Scheduled>> {
        let about = About::one(Act::Release, id, reason);
        self.audited(about, self.wheel.release(id), Sum::of_answer).await
    }

    /// Gives dead deadlines a new life: see [`Wheel::revive`]. One answer for each, in the same order.
    pub async fn revive(&self, ids: &[Id], reason: &str) -> Result<Vec<Result<Answer<Scheduled>>>> {
        let mut answers = Vec::with_capacity(ids.len());
        for ids in ids.chunks(MOST_NAMED) {
            let work = async { Ok(self.wheel.revive_many(ids).await) };
            let about = About::these(Act::Revive, ids, reason);
            answers.extend(self.audited(about, work, |answers| Sum::of_answers(answers)).await?);
        }
        Ok(answers)
    }

    /// Ends dead deadlines as cancelled, and only dead ones: see [`Wheel::drop_dead`]. One answer for each, in the same order.
    pub async fn drop(&self, ids: &[Id], reason: &str) -> Result<Vec<Result<Answer<Cancelled>>>> {
        let mut answers = Vec::with_capacity(ids.len());
        for ids in ids.chunks(MOST_NAMED) {
            let work = async { Ok(self.wheel.drop_dead(ids).await) };
            let about = About::these(Act::Drop, ids, reason);
            answers.extend(self.audited(about, work, |answers| Sum::of_answers(answers)).await?);
        }
        Ok(answers)
    }

    /// Stops closing on every worker: see [`Wheel::pause`]. Needs a reason. Answers (shards written, shards in all).
    pub async fn pause(&self, reason: &str) -> Result<(u64, u64)> {
        let note = Note::new(self.person.name(), reason)?;
        let about = About::wheel(Act::Pause, reason);
        self.audited(about, self.wheel.pause(&note), |counts| Sum::of_shards(*counts)).await
    }

    /// Goes on closing, whatever had stopped it: see [`Wheel::resume`].
    pub async fn resume(&self, reason: &str) -> Result<(Held, (u64, u64))> {
        let about = About::wheel(Act::Resume, reason);
        self.audited(about, self.wheel.resume(), |(_, counts)| Sum::of_shards(*counts)).await
    }

    /// Notes that somebody has seen to the late payments of an order: see [`Wheel::acknowledge`]. Needs a reason.
    pub async fn acknowledge(&self, id: &Id, reason: &str) -> Result<Acknowledged> {
        let note = Note::new(self.person.name(), reason)?;
        let about = About::one(Act::Acknowledge, id, reason);
        self.audited(about, self.wheel.acknowledge(id, &note), |answer| match answer {
            Acknowledged::Now(_) => Sum::done(1),
            Acknowledged::Before(_) => Sum::refused("acknowledged before"),
            Acknowledged::Absent => Sum::refused("absent"),
        })
        .await
    }

    /// Tells a worker to drain: it claims nothing more, finishes what it has in hand, and stays until it is told to go on or to end. Needs a
    /// reason. Answers whether there is such a worker.
    pub async fn drain(&self, worker: &str, reason: &str) -> Result<bool> {
        let note = Note::new(self.person.name(), reason)?;
        let about = About::wheel(Act::Drain, reason).with(format!("worker {}", crate::error::shown(worker)));
        self.audited(about, self.wheel.drain_worker(worker, Some(&note)), Sum::of_known).await
    }

    /// Lets a drained worker go on. Answers whether there is such a worker.
    pub async fn resume_worker(&self, worker: &str, reason: &str) -> Result<bool> {
        let about = About::wheel(Act::Resume, reason).with(format!("worker {}", crate::error::shown(worker)));
        self.audited(about, self.wheel.drain_worker(worker, None), Sum::of_known).await
    }

    /// Asks for a run of a job (`feed`, `sweep`, `rebuild`, `reconcile`) at the next look of any worker that has it. `dry_run` is for `sweep`
    /// alone: what would be done is then among the runs of the job [`PREVIEW`].
    pub async fn ask_for(&self, job: &str, dry_run: bool, reason: &str) -> Result<()> {
        let known = JOBS.into_iter().find(|known| *known == job);
        let known =
            known.ok_or_else(|| Invalid::new("job", job, format!("expected one of {}", JOBS.join(", "))))?;
        let asked = match (dry_run, known) {
            (false, known) => known,
            (true, "sweep") => PREVIEW,
            (true, other) => return Err(Invalid::new("dry_run", other, "expected for sweep alone").into()),
        };
        let about = About::wheel(Act::Run, reason).with(asked.to_owned());
        self.audited(about, self.wheel.ask_for_job(asked), |()| Sum::done(1)).await
    }

    /// Runs a job here and now, by `work`, which answers how many orders it has changed and its own result.
    pub async fn run<T>(
        &self,
        job: &str,
        reason: &str,
        work: impl Future<Output = Result<(u64, T)>>,
    ) -> Result<T> {
        let about = About::wheel(Act::Run, reason).with(job.to_owned());
        self.audited(about, work, |(changed, _)| Sum::changed(*changed)).await.map(|(_, done)| done)
    }

    /// Looks for damage and mends it: see [`Wheel::verify`].
    pub async fn heal(&self, reason: &str) -> Result<Verification> {
        let about = About::wheel(Act::Heal, reason);
        self.audited(about, self.wheel.verify(true), |found| {
            let healed = found.findings.iter().filter(|finding| finding.healed).count();
            Sum::some(healed as u64, found.findings.len() as u64, "not mended")
        })
        .await
    }

    /// Takes over what was exported, by `work`, which answers how many of how many deadlines it has taken over, and its own result; `from`
    /// says where they come from.
    pub async fn import<T>(
        &self,
        from: &str,
        reason: &str,
        work: impl Future<Output = Result<(u64, u64, T)>>,
    ) -> Result<T> {
        let about = About::wheel(Act::Import, reason).with(format!("from {}", crate::error::shown(from)));
        let sum = |(taken, of, _): &(u64, u64, T)| Sum::some(*taken, *of, "there already, or rejected");
        self.audited(about, work, sum).await.map(|(_, _, done)| done)
    }

    /// Moves the wheel to another number of shards: see [`Wheel::reshard`]. Answers the wheel, and how many deadlines were carried.
    pub async fn reshard(
        &self,
        to: ShardCount,
        drop_history: bool,
        reason: &str,
        mut progress: impl FnMut(u64),
    ) -> Result<(Wheel, u64)> {
        let about = About::wheel(Act::Reshard, reason);
        let without = if drop_history { ", without the events of those that go" } else { "" };
        let about = about.with(format!("from {} to {} shards{without}", self.wheel.shards().get(), to.get()));
        let work = async {
            let mut carried = 0;
            let moved = self.wheel.reshard(to, drop_history, |so_far| {
                carried = so_far;
                progress(so_far);
            });
            let wheel = moved.await?;
            Ok((wheel, carried))
        };
        self.audited(about, work, |(_, carried)| Sum::changed(*carried)).await
    }

    /// Removes the wheel and every deadline on it: see [`Wheel::drop_wheel`]. Only its audit stays, which tells of this. Answers how many
    /// deadlines there were, and how many keys went.
    pub async fn remove(&self, reason: &str) -> Result<(u64, u64)> {
        let stats = self.wheel.stats().await?;
        let held = stats.scheduled + stats.leased + stats.dead;
        let about = About::wheel(Act::Remove, reason).counting(held);
        let work = async { self.wheel.drop_wheel().await.map(|keys| (held, keys)) };
        self.audited(about, work, |(held, _)| Sum::done(*held)).await
    }
}
