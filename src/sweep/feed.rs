//! The feed: new orders, read from the table by a watermark, so that a shop needs no code at all.
//!
//! The watermark is the time of the newest row that was read, but at most the database's now. A row may become visible after a newer one
//! (its transaction took longer, its clock is behind), so each read begins a little before the mark, some well before it, and now and then
//! one the whole overlap before it. What is on the wheel already stays, so that reading a row twice costs a look and nothing else.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::intake::Intake;
use super::pace::Pace;
use super::runner::Runner;
use super::walk::Walk;
use super::{FeedSettings, LOOK, Looked, Report, SweepSettings};
use crate::clock::Moment;
use crate::deadline::Cause;
use crate::error::Result;
use crate::hook::sql::SqlSettings;
use crate::hook::sql::pages::{OrdersTable, Row, Which};
use crate::wheel::{Job, Taken, Wheel};

/// The job's name.
const JOB: &str = "feed";
/// When the whole overlap was read last, milliseconds since 1970.
const DEEP: &str = "deep";
/// When [`MIDDLE`] was.
const MIDDLE_AT: &str = "middle";
/// How far before the mark every read begins: transactions that run side by side commit in no order.
const NEAR: Duration = Duration::from_secs(2);
/// How far before the mark some reads begin: a busy database, or a transaction that asks others. Halfway, as factors go, to the overlap.
const MIDDLE: Duration = Duration::from_secs(16);
/// The middle and the whole overlap are each read so often within their own length: how late a row is found that came so late.
const READS: u32 = 4;

/// Enqueues new orders.
#[derive(Debug)]
pub struct Feed {
    runner: Runner,
    settings: FeedSettings,
    rows_per_second: u32,
    /// What was done since a record was kept.
    totals: Mutex<Report>,
}

/// How far the feed has come in one database.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Mark {
    /// In the database's own text.
    at: String,
    /// The same in milliseconds since 1970, to compare marks by.
    ms: u64,
}

impl Feed {
    /// A feed of the orders table, or of an outbox beside it.
    pub fn new(
        wheel: Wheel,
        hook: &SqlSettings,
        sweep: &SweepSettings,
        settings: FeedSettings,
    ) -> Result<Self> {
        let table = settings.table(hook, sweep)?;
        let rows_per_second = sweep.rows_per_second;
        let runner = Runner::new(wheel, table, JOB);
        Ok(Self { runner, settings, rows_per_second, totals: Mutex::default() })
    }

    /// The same with another lease of the job.
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { runner: self.runner.with_lease(lease), ..self }
    }

    /// The table it reads.
    pub fn table(&self) -> &OrdersTable {
        &self.runner.table
    }

    /// Reads what is new, where it is time and nobody else does.
    pub async fn look(&self) -> Result<Looked> {
        let now = self.runner.wheel.now().await?;
        let every = u64::try_from(self.settings.every.as_millis()).unwrap_or(u64::MAX);
        let since = Moment::from_millis(now.as_millis().saturating_sub(every).max(1)).ok();
        match self.runner.take(since).await? {
            Taken::Mine(job) => Ok(Looked::Ran(Box::new(self.fed(&job, false, &mut |_| {}).await?))),
            Taken::Held { left, .. } => Ok(Looked::Not(left.min(LOOK))),
            Taken::Fresh { began_at } => {
                Ok(Looked::Not(since.map_or(LOOK, |since| began_at.since(since)).min(self.settings.every)))
            }
        }
    }

    /// Reads what is new now; with `anew` everything that is open. Fails with [`crate::error::Error::Overtaken`] where somebody else
    /// does. `progress` is told the numbers after each page.
    pub async fn run(&self, anew: bool, mut progress: impl FnMut(&Report) + Send) -> Result<Report> {
        let job = self.runner.take_now().await?;
        self.fed(&job, anew, &mut progress).await
    }

    async fn fed(
        &self,
        job: &Job,
        anew: bool,
        progress: &mut (impl FnMut(&Report) + Send),
    ) -> Result<Report> {
        let read_at = job.began_at();
        let is_due = |field: &str, overlap: Duration| {
            let last = job.field(field).and_then(|text| Moment::from_millis(text.parse().ok()?).ok());
            last.is_none_or(|last| read_at.since(last) >= overlap / READS)
        };
        let deep = anew || is_due(DEEP, self.settings.overlap);
        let middle = deep || is_due(MIDDLE_AT, MIDDLE);
        let overlap = match (deep, middle) {
            (true, _) => self.settings.overlap,
            (_, true) => self.settings.overlap.min(MIDDLE),
            _ => self.settings.overlap.min(NEAR),
        };
        let began = std::time::Instant::now();
        let mut report = self.runner.work(job, self.pages(job, anew, overlap, progress)).await?;
        report.sign(JOB, &self.runner.name, read_at, began.elapsed());
        let record = self.record(&report, deep);
        let at = read_at.as_millis().to_string();
        let mut fields = vec![("error", "")];
        fields.extend(middle.then_some((MIDDLE_AT, at.as_str())));
        fields.extend(deep.then_some((DEEP, at.as_str())));
        job.finish(&record, &fields).await?;
        Ok(report)
    }

    /// A feed runs each second: what it did is kept as one record for each time it reads the whole overlap.
    fn record(&self, report: &Report, deep: bool) -> String {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = report.clone();
        all.add(&totals);
        *totals = if deep { Report::default() } else { all.clone() };
        if deep && all.is_worth_saying() { all.record() } else { String::new() }
    }

    async fn pages(
        &self,
        job: &Job,
        anew: bool,
        overlap: Duration,
        progress: &mut (impl FnMut(&Report) + Send),
    ) -> Result<Report> {
        let intake = Intake {
            wheel: &self.runner.wheel,
            table: &self.runner.table,
            cause: Cause::Feed,
            overdue: false,
            resurrect_max: None,
            dry_run: false,
        };
        let (mut report, mut pace) = (Report::default(), Pace::new(self.rows_per_second));
        for database in 0..self.runner.table.databases() {
            let field = format!("mark.{database}");
            let mut mark: Option<Mark> =
                job.field(&field).filter(|_| !anew).and_then(|text| serde_json::from_str(text).ok());
            let from = mark.as_ref().map(|mark| mark.at.clone());
            let which = Which::Since { mark: from.as_deref(), overlap };
            let (table, page) = (&self.runner.table, self.settings.page);
            let mut walk = Walk::new(table, database, which, page, None, self.rows_per_second)?;
            loop {
                let rows = walk.next().await?;
                let Some(last) = rows.last() else { break };
                let reached = reached(last);
                let count = rows.len();
                report.pages += std::mem::take(&mut walk.pages);
                intake.take(database, rows, |row| self.due_at(row), &mut report).await?;
                if let Some(reached) = reached.filter(|r| mark.as_ref().is_none_or(|mark| r.ms >= mark.ms))
                    && mark.as_ref() != Some(&reached)
                {
                    job.save(&[(&field, &serde_json::to_string(&reached).unwrap_or_default())]).await?;
                    mark = Some(reached);
                }
                progress(&report);
                pace.spend(count).await;
            }
        }
        Ok(report)
    }

    fn due_at(&self, row: &Row) -> Result<Moment, &'static str> {
        if !self.settings.has_windows() {
            return row.close_at.ok_or("the table says no close time");
        }
        let window =
            self.settings.window_of(row.by.as_deref()).ok_or("no window for its value of window_by")?;
        let at = row.time.ok_or("its time is no moment")?.plus(window);
        Ok(at.max(row.not_before.unwrap_or(at)))
    }
}

/// How far the feed has come with this row.
fn reached(row: &Row) -> Option<Mark> {
    let time = row.time?.min(Moment::host_now());
    Some(Mark { at: row.mark.clone()?, ms: time.as_millis() })
}
