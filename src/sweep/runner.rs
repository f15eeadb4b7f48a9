//! One process's way to run a job of the wheel over its table: it takes the job, works under the job's lease, and lets it go where the work
//! fails.

use std::time::Duration;

use super::LEASE;
use crate::clock::{Moment, show_duration};
use crate::error::{Error, Result};
use crate::hook::sql::pages::OrdersTable;
use crate::wheel::{Job, Taken, Wheel};

/// Runs one job.
#[derive(Debug)]
pub(super) struct Runner {
    pub wheel: Wheel,
    pub table: OrdersTable,
    /// The job's name.
    pub job: &'static str,
    /// For people and for the lease: host, process and a random part.
    pub name: String,
    lease: Duration,
}

impl Runner {
    pub fn new(wheel: Wheel, table: OrdersTable, job: &'static str) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = if host.trim().is_empty() { "host" } else { host.trim() };
        let name = format!("{host}:{}:{:08x}", std::process::id(), fastrand::u32(..));
        Self { wheel, table, job, name, lease: LEASE }
    }

    /// The same with another lease of the job.
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Takes the job unless another runner has it, or a run that began at `since` or later makes this one needless.
    pub async fn take(&self, since: Option<Moment>) -> Result<Taken> {
        self.wheel.take_job(self.job, &self.name, self.lease, since).await
    }

    /// Takes the job for a person; fails with [`Error::Overtaken`] where somebody else has it.
    pub async fn take_now(&self) -> Result<Job> {
        let reason = match self.take(None).await? {
            Taken::Mine(job) => return Ok(job),
            Taken::Held { runner, left } => {
                let left = Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(0));
                format!("{runner} runs it, for {} more unless it goes on", show_duration(left))
            }
            Taken::Fresh { .. } => "it ran just now".to_owned(),
        };
        Err(Error::Overtaken(format!("{} of wheel {} is not started: {reason}", self.job, self.wheel.name())))
    }

    /// Works as long as the job is held. Where the work fails the job is let go, with the reason for people; the next look tries again
    /// in any case.
    pub async fn work<R>(&self, job: &Job, work: impl Future<Output = Result<R>>) -> Result<R> {
        let done = job.hold(Box::pin(work)).await;
        if let Err(e) = &done
            && !matches!(e, Error::Overtaken(_))
        {
            let _ = job.release(&[("error", &crate::error::shown(&e.to_string()))]).await;
        }
        done
    }
}
