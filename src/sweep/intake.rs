//! The way of rows onto the wheel: what it holds stays, what it lacks is enqueued, what has ended is asked of the primary again.

use crate::clock::Moment;
use crate::deadline::{Cause, Deadline, DueAt, Id, OnConflict, Payload, State};
use crate::error::Result;
use crate::hook::sql::pages::{OrdersTable, Row};
use crate::wheel::Wheel;
use crate::wheel::answer::{EnqueuedHow, Refusal};

use super::Report;

/// How rows are taken in.
pub struct Intake<'a> {
    pub wheel: &'a Wheel,
    pub table: &'a OrdersTable,
    /// Why the orders are on the wheel: the job.
    pub cause: Cause,
    /// Only orders whose close time has passed; else open ones.
    pub overdue: bool,
    /// How many orders a run may bring back over a remembered end; `None`: an end stands.
    pub resurrect_max: Option<u64>,
    /// Only counts.
    pub dry_run: bool,
}

impl Intake<'_> {
    /// Takes in the rows of one page. `due_at` says when a row is to be closed, or why it cannot be said.
    pub async fn take(
        &self,
        database: usize,
        rows: Vec<Row>,
        due_at: impl Fn(&Row) -> Result<Moment, &'static str>,
        report: &mut Report,
    ) -> Result<()> {
        report.seen += rows.len() as u64;
        let latest = Moment::host_now().plus(self.wheel.settings().max_ahead);
        let mut deadlines = Vec::with_capacity(rows.len());
        for row in rows {
            match due_at(&row).and_then(|due_at| self.deadline(&row, due_at, latest)) {
                Ok(deadline) => deadlines.push(deadline),
                Err(reason) => report.refuse(&row.position.key, reason),
            }
        }
        let ids: Vec<&Id> = deadlines.iter().map(|deadline| &deadline.id).collect();
        let states = self.wheel.held(&ids).await?;
        let (mut lost, mut ended) = (Vec::new(), Vec::new());
        for (deadline, state) in deadlines.into_iter().zip(states) {
            match state {
                State::Scheduled | State::Leased => report.held += 1,
                State::Dead => report.dead += 1,
                State::Absent => lost.push(deadline),
                State::Ended if self.resurrect_max.is_some() => ended.push(deadline),
                State::Ended => report.ended += 1,
            }
        }
        // A replica may show as open what was paid a moment ago.
        let lost = if self.table.reads_replicas() { self.open(database, lost, report).await? } else { lost };
        self.enqueue(lost, false, report).await?;
        let mut back = self.open(database, ended, report).await?;
        let room = self.resurrect_max.unwrap_or(0).saturating_sub(report.resurrected);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        if back.len() > room {
            report.capped += (back.len() - room) as u64;
            back.truncate(room);
        }
        self.enqueue(back, true, report).await
    }

    fn deadline(&self, row: &Row, due_at: Moment, latest: Moment) -> Result<Deadline, &'static str> {
        if !row.canonical {
            return Err("no canonical key: the hook would not find it");
        }
        let id =
            Id::new(&row.position.key).map_err(|_| "no id: 1 to 200 bytes without control characters")?;
        if due_at > latest {
            return Err("its close time is further ahead than max_ahead");
        }
        let payload = match &row.payload {
            Some(text) => {
                Payload::from_json(text.clone()).map_err(|_| "its payload is no JSON of at most 64 KiB")?
            }
            None => Payload::default(),
        };
        Ok(Deadline {
            id,
            due_at: DueAt::Moment(due_at),
            payload,
            traceparent: None,
            cause: self.cause,
            reminders: None,
        })
    }

    /// Those that are open on the primary; the others have ended.
    async fn open(
        &self,
        database: usize,
        deadlines: Vec<Deadline>,
        report: &mut Report,
    ) -> Result<Vec<Deadline>> {
        if deadlines.is_empty() {
            return Ok(deadlines);
        }
        let keys: Vec<&str> = deadlines.iter().map(|deadline| deadline.id.as_str()).collect();
        let open = self.table.still_open(database, &keys, self.overdue).await?;
        let before = deadlines.len();
        let still: Vec<_> =
            deadlines.into_iter().filter(|deadline| open.contains(deadline.id.as_str())).collect();
        report.ended += (before - still.len()) as u64;
        Ok(still)
    }

    async fn enqueue(&self, deadlines: Vec<Deadline>, force: bool, report: &mut Report) -> Result<()> {
        if self.dry_run {
            let count = if force { &mut report.resurrected } else { &mut report.enqueued };
            *count += deadlines.len() as u64;
            return Ok(());
        }
        let mut failure = None;
        for answer in self.wheel.enqueue_batch(&deadlines, OnConflict::Keep, force).await {
            match answer {
                Ok(Ok(placed)) => match placed.how {
                    EnqueuedHow::Resurrected => report.resurrected += 1,
                    EnqueuedHow::Exists => report.held += 1,
                    EnqueuedHow::New | EnqueuedHow::Replaced => report.enqueued += 1,
                },
                // Somebody else was quicker, since the wheel was asked.
                Ok(Err(Refusal::Dead)) => report.dead += 1,
                Ok(Err(Refusal::Ended(_))) => report.ended += 1,
                Ok(Err(_)) => report.held += 1,
                Err(e) => failure = Some(e),
            }
        }
        failure.map_or(Ok(()), Err)
    }
}
