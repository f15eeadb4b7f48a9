//! The reconciliation: table, wheel and close log compared with each other, and a report of what does not agree.
//!
//! Three walks, each by pages, so that any number of orders fits into little memory: the open rows of the table are asked of the wheel; the
//! deadlines of the wheel, and what it remembers as closed, are asked of the table; the audit table's closes are asked of the table, too.
//! What moves meanwhile is no finding: whatever does not agree is looked at again after a grace, on the primary and on the wheel, and is
//! reported only if it stands still and still does not agree.

mod candidate;
mod compare;
mod finding;
mod heal;
mod judge;
mod questions;
mod report;
mod settings;

pub use finding::{Class, Finding, Level};
pub use report::{Reconciliation, Section};
pub use settings::{ReconcileSettings, Rule};

use std::sync::OnceLock;
use std::time::Duration;

use super::runner::Runner;
use super::{LOOK, Looked, Schedule, SweepSettings};
use crate::clock::Moment;
use crate::error::Result;
use crate::hook::sql::pages::OrdersTable;
use crate::hook::sql::pages::rules::Question;
use crate::hook::sql::{Dialect, SqlSettings};
use crate::wheel::{Job, Taken, Wheel};

/// Between two looks at a schedule that is not due for long.
const IDLE: Duration = Duration::from_secs(10);

/// The job's name.
pub const JOB: &str = "reconcile";

/// Whether this text may be asked of the database; the problem begins with `field`.
pub fn check_question(dialect: Dialect, field: &str, text: &str) -> std::result::Result<(), String> {
    Question::parse(dialect, field, text).map(drop)
}

/// Compares table, wheel and close log.
#[derive(Debug)]
pub struct Reconcile {
    runner: Runner,
    settings: ReconcileSettings,
    page: usize,
    rows_per_second: u32,
    first_look: OnceLock<Moment>,
}

impl Reconcile {
    /// A reconciliation of the table that the hook closes orders in, read as the sweep reads it.
    pub fn new(
        wheel: Wheel,
        hook: &SqlSettings,
        sweep: &SweepSettings,
        settings: ReconcileSettings,
    ) -> Result<Self> {
        let table = sweep.table(hook)?;
        settings.check(table.dialect())?;
        Ok(Self {
            runner: Runner::new(wheel, table, JOB),
            settings,
            page: sweep.page,
            rows_per_second: sweep.rows_per_second,
            first_look: OnceLock::new(),
        })
    }

    /// The table it reads.
    pub fn table(&self) -> &OrdersTable {
        &self.runner.table
    }

    /// Runs it where it is due and nobody else does. One that never ran waits for the first moment of its schedule that this process
    /// sees come, so that a new wheel is not compared before it is filled.
    pub async fn look(&self) -> Result<Looked<Reconciliation>> {
        let now = self.runner.wheel.now().await?;
        let first = *self.first_look.get_or_init(|| now);
        let idle = match self.settings.every {
            Schedule::Every(every) => every.min(IDLE),
            _ => IDLE,
        };
        let Some(since) = self.settings.every.since(now) else { return Ok(Looked::Not(IDLE)) };
        if since < first {
            let record = self.runner.wheel.job_record(JOB).await?;
            if record.ran_at.is_none() && record.asked_at.is_none() {
                return Ok(Looked::Not(idle));
            }
        }
        match self.runner.take(Some(since)).await? {
            Taken::Mine(job) => {
                let heal = self.settings.heal.then_some(self.settings.heal_max);
                Ok(Looked::Ran(Box::new(self.reconciled(&job, heal, &mut |_| {}).await?)))
            }
            Taken::Held { left, .. } => Ok(Looked::Not(left.min(LOOK))),
            Taken::Fresh { .. } => Ok(Looked::Not(idle)),
        }
    }

    /// Runs it now, and mends at most `heal` of what may be mended. Fails with [`Error::Overtaken`](crate::error::Error::Overtaken) where somebody else runs it.
    /// `progress` is told the numbers after each page.
    pub async fn run(
        &self,
        heal: Option<u64>,
        mut progress: impl FnMut(&Reconciliation) + Send,
    ) -> Result<Reconciliation> {
        let job = self.runner.take_now().await?;
        self.reconciled(&job, heal, &mut progress).await
    }

    async fn reconciled(
        &self,
        job: &Job,
        heal: Option<u64>,
        progress: &mut (impl FnMut(&Reconciliation) + Send),
    ) -> Result<Reconciliation> {
        let began = std::time::Instant::now();
        let mut report = self.runner.work(job, self.compare(heal, progress)).await?;
        report.sign(&self.runner.wheel, &self.runner.name, job.began_at(), began.elapsed());
        job.finish(&report.record(), &[("error", "")]).await?;
        Ok(report)
    }
}
