//! The sweep: overdue in the table and not on the wheel.

use std::time::Duration;

use super::intake::Intake;
use super::pace::Pace;
use super::runner::Runner;
use super::walk::Walk;
use super::{LEASE, LOOK, Looked, Report, SweepSettings};
use crate::clock::Moment;
use crate::deadline::Cause;
use crate::error::{Error, Result};
use crate::hook::sql::SqlSettings;
use crate::hook::sql::pages::{OrdersTable, Row, Which};
use crate::wheel::{Job, PREVIEW, Taken, Wheel};

/// The job's name.
const JOB: &str = "sweep";

/// Finds what Redis lost.
#[derive(Debug)]
pub struct Sweep {
    runner: Runner,
    settings: SweepSettings,
}

impl Sweep {
    /// A sweep of the table that the hook closes orders in.
    pub fn new(wheel: Wheel, hook: &SqlSettings, settings: SweepSettings) -> Result<Self> {
        let table = settings.table(hook)?;
        if !table.has_close_time() {
            let problem = "close_at: is missing: a sweep needs to know which orders are overdue";
            return Err(Error::Config(vec![problem.to_owned()]));
        }
        Ok(Self { runner: Runner::new(wheel, table, JOB), settings })
    }

    /// The same with another lease of the job.
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { runner: self.runner.with_lease(lease), ..self }
    }

    /// The table it reads.
    pub fn table(&self) -> &OrdersTable {
        &self.runner.table
    }

    /// Runs it where it is due, or somebody asked for it, and nobody else does. A dry run that somebody asked for comes first.
    pub async fn look(&self) -> Result<Looked> {
        self.preview().await?;
        let now = self.runner.wheel.now().await?;
        let Some(since) = self.settings.every.since(now) else { return Ok(Looked::Not(LOOK)) };
        match self.runner.take(Some(since)).await? {
            Taken::Mine(job) => Ok(Looked::Ran(Box::new(self.swept(&job, &mut |_| {}).await?))),
            Taken::Held { left, .. } => Ok(Looked::Not(left.min(LOOK))),
            Taken::Fresh { began_at } => Ok(Looked::Not(began_at.since(since).min(LOOK))),
        }
    }

    /// Runs it now; fails with [`Error::Overtaken`] where somebody else does. `progress` is told the numbers after each page.
    pub async fn run(&self, mut progress: impl FnMut(&Report) + Send) -> Result<Report> {
        let job = self.runner.take_now().await?;
        self.swept(&job, &mut progress).await
    }

    /// Says what a run would do, and does nothing.
    pub async fn dry_run(&self, mut progress: impl FnMut(&Report) + Send) -> Result<Report> {
        let (began, began_at) = (std::time::Instant::now(), self.runner.wheel.now().await?);
        let mut report = self.pages(true, &mut progress).await?;
        report.sign(JOB, &self.runner.name, began_at, began.elapsed());
        Ok(report)
    }

    /// The dry run, where somebody asked for one: its report is kept among its own runs, and the sweep's schedule knows nothing of it.
    async fn preview(&self) -> Result<()> {
        let (wheel, name) = (&self.runner.wheel, &self.runner.name);
        let Taken::Mine(job) = wheel.take_asked_job(PREVIEW, name, LEASE).await? else { return Ok(()) };
        let began = std::time::Instant::now();
        let mut report = self.runner.work(&job, self.pages(true, &mut |_| {})).await?;
        report.sign(PREVIEW, name, job.began_at(), began.elapsed());
        job.finish(&report.record(), &[("error", "")]).await
    }

    async fn swept(&self, job: &Job, progress: &mut (impl FnMut(&Report) + Send)) -> Result<Report> {
        let began = std::time::Instant::now();
        let mut report = self.runner.work(job, self.pages(false, progress)).await?;
        report.sign(JOB, &self.runner.name, job.began_at(), began.elapsed());
        job.finish(&report.record(), &[("error", "")]).await?;
        Ok(report)
    }

    async fn pages(&self, dry_run: bool, progress: &mut (impl FnMut(&Report) + Send)) -> Result<Report> {
        let now = self.runner.wheel.now().await?;
        let intake = Intake {
            wheel: &self.runner.wheel,
            table: &self.runner.table,
            cause: Cause::Sweep,
            overdue: true,
            resurrect_max: Some(u64::from(self.settings.resurrect_max)),
            dry_run,
        };
        let (mut report, mut pace) = (Report::default(), Pace::new(self.settings.rows_per_second));
        for database in 0..self.runner.table.databases() {
            let (which, page) = (Which::Overdue, self.settings.page);
            let mut walk =
                Walk::new(&self.runner.table, database, which, page, None, pace.rows_per_second())?;
            let mut rows = walk.next().await?;
            while !rows.is_empty() {
                let count = rows.len();
                report.pages += std::mem::take(&mut walk.pages);
                // The row's own time: it has passed, so the order is due now, and how late it is stays true; unless its channel does not
                // allow the close yet.
                let due_at = |row: &Row| {
                    Ok::<Moment, _>(row.close_at.unwrap_or(now).max(row.not_before.unwrap_or(Moment::EPOCH)))
                };
                // The database reads the next pages while the wheel is asked about these.
                let taken = intake.take(database, rows, due_at, &mut report);
                let (taken, next) = tokio::join!(Box::pin(taken), walk.next());
                taken?;
                rows = next?;
                progress(&report);
                pace.spend(count).await;
            }
        }
        Ok(report)
    }
}
