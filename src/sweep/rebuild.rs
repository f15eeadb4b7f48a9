//! The rebuild: everything that is open in the table, put on the wheel while workers run.

use std::time::Duration;

use super::intake::Intake;
use super::pace::Pace;
use super::runner::Runner;
use super::walk::Walk;
use super::{LOOK, Looked, Report, SweepSettings};
use crate::clock::Moment;
use crate::deadline::Cause;
use crate::error::{Error, Result};
use crate::hook::sql::SqlSettings;
use crate::hook::sql::pages::{OrdersTable, Position, Row, Which};
use crate::wheel::{Job, REBUILD, Taken, Wheel};

/// Where an unfinished run stands: the database, and behind which row.
const CURSOR: &str = "cursor";
/// What it had counted so far.
const SO_FAR: &str = "so_far";

/// Fills a wheel from the table.
#[derive(Debug)]
pub struct Rebuild {
    runner: Runner,
    settings: SweepSettings,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Cursor {
    /// When the run began that this one goes on with, by Redis's clock.
    began_at_ms: u64,
    database: usize,
    after: Option<Position>,
}

impl Rebuild {
    /// A rebuild from the table that the hook closes orders in.
    pub fn new(wheel: Wheel, hook: &SqlSettings, settings: SweepSettings) -> Result<Self> {
        let table = settings.table(hook)?;
        if hook.close_at.is_none() {
            // Without it every open order would be due at once, and nothing else would keep it from being closed.
            let problem = "close_at: is missing: a rebuild needs to know when an order is to be closed";
            return Err(Error::Config(vec![problem.to_owned()]));
        }
        Ok(Self { runner: Runner::new(wheel, table, REBUILD), settings })
    }

    /// The same with another lease of the job.
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { runner: self.runner.with_lease(lease), ..self }
    }

    /// The table it reads.
    pub fn table(&self) -> &OrdersTable {
        &self.runner.table
    }

    /// Runs it where somebody asked for it, as a wheel does that was just formatted, or where it never ran.
    pub async fn look(&self) -> Result<Looked> {
        let record = self.runner.wheel.job_record(REBUILD).await?;
        // A shard that loses its meta while a rebuild runs asks for another one.
        let since = match (record.asked_at, record.ran_at) {
            (Some(asked), Some(ran)) if ran > asked => return Ok(Looked::Not(LOOK)),
            (None, Some(_)) => return Ok(Looked::Not(LOOK)),
            (Some(asked), _) => Some(asked.plus(Duration::from_millis(1))),
            (None, None) => None,
        };
        match self.runner.take(since).await? {
            Taken::Mine(job) => {
                tracing::warn!(wheel = %self.runner.wheel.name(), "the wheel is new or was emptied: filling it from the orders table");
                Ok(Looked::Ran(Box::new(self.rebuilt(&job, &mut |_| {}).await?)))
            }
            Taken::Held { left, .. } => Ok(Looked::Not(left.min(LOOK))),
            Taken::Fresh { .. } => Ok(Looked::Not(LOOK)),
        }
    }

    /// Runs it now, from where an unfinished run stopped unless `anew`; fails with [`Error::Overtaken`] where somebody
    /// else does. `progress` is told the numbers after each page.
    pub async fn run(&self, anew: bool, mut progress: impl FnMut(&Report) + Send) -> Result<Report> {
        let job = self.runner.take_now().await?;
        if anew {
            job.save(&[(CURSOR, ""), (SO_FAR, "")]).await?;
            return self.rebuilt_from(&job, None, &mut progress).await;
        }
        self.rebuilt(&job, &mut progress).await
    }

    async fn rebuilt(&self, job: &Job, progress: &mut (impl FnMut(&Report) + Send)) -> Result<Report> {
        let cursor: Option<Cursor> = job.field(CURSOR).and_then(|text| serde_json::from_str(text).ok());
        // What was emptied after that run began lies perhaps behind its cursor.
        let asked = self.runner.wheel.job_record(REBUILD).await?.asked_at.map_or(0, Moment::as_millis);
        self.rebuilt_from(job, cursor.filter(|cursor| cursor.began_at_ms > asked), progress).await
    }

    async fn rebuilt_from(
        &self,
        job: &Job,
        cursor: Option<Cursor>,
        progress: &mut (impl FnMut(&Report) + Send),
    ) -> Result<Report> {
        let so_far =
            cursor.as_ref().and_then(|_| serde_json::from_str(job.field(SO_FAR)?).ok()).unwrap_or_default();
        let began = std::time::Instant::now();
        let mut report = self.runner.work(job, self.pages(job, cursor, so_far, progress)).await?;
        report.sign(REBUILD, &self.runner.name, job.began_at(), began.elapsed());
        job.finish(&report.record(), &[(CURSOR, ""), (SO_FAR, ""), ("error", "")]).await?;
        Ok(report)
    }

    async fn pages(
        &self,
        job: &Job,
        cursor: Option<Cursor>,
        mut report: Report,
        progress: &mut (impl FnMut(&Report) + Send),
    ) -> Result<Report> {
        let intake = Intake {
            wheel: &self.runner.wheel,
            table: &self.runner.table,
            cause: Cause::Rebuild,
            overdue: false,
            resurrect_max: Some(u64::from(self.settings.resurrect_max)),
            dry_run: false,
        };
        let due_at = |row: &Row| row.close_at.ok_or("the table says no close time");
        let mut pace = Pace::new(self.settings.rows_per_second);
        let began_at_ms = job.began_at().as_millis();
        let mut cursor = cursor.unwrap_or(Cursor { began_at_ms, database: 0, after: None });
        while cursor.database < self.runner.table.databases() {
            let (after, page) = (cursor.after.take(), self.settings.page);
            let (table, database) = (&self.runner.table, cursor.database);
            let mut walk = Walk::new(table, database, Which::Open, page, after, pace.rows_per_second())?;
            let mut rows = walk.next().await?;
            while !rows.is_empty() {
                let (count, after) = (rows.len(), rows.last().map(|row| row.position.clone()));
                report.pages += std::mem::take(&mut walk.pages);
                // The database reads the next pages while the wheel takes in these.
                let taken = intake.take(database, rows, due_at, &mut report);
                let (taken, next) = tokio::join!(Box::pin(taken), walk.next());
                taken?;
                let at = serde_json::to_string(&Cursor { after, ..cursor }).unwrap_or_default();
                job.save(&[(CURSOR, &at), (SO_FAR, &report.record())]).await?;
                progress(&report);
                pace.spend(count).await;
                rows = next?;
            }
            cursor.database += 1;
        }
        Ok(report)
    }
}
