//! The safety net: the orders table, read beside the wheel. The table is the truth and Redis an index of it, so whatever Redis lost is
//! found here again, late and not never.
//!
//! - [`Feed`] enqueues new orders by itself: a shop needs no code at all.
//! - [`Sweep`] enqueues what is overdue in the table and not on the wheel.
//! - [`Rebuild`] fills an empty or wrong wheel with everything that is open.
//! - [`Reconcile`] compares table, wheel and close log, and reports what does not agree.
//!
//! Each is a job of the wheel: one runner in the fleet at a time ([`crate::wheel::Job`]), any worker takes over within a lease. Running
//! one twice, or on all workers at once, equals running it once, because each order is on the wheel once.

mod explanation;
mod feed;
mod intake;
mod measures;
mod pace;
mod rebuild;
pub mod reconcile;
mod report;
mod schedule;
mod settings;
mod sweeper;
mod walk;

pub use explanation::{Explanation, Source, Table, Told};
pub use feed::Feed;
pub use measures::Measures;
pub use rebuild::Rebuild;
pub use reconcile::{Reconcile, ReconcileSettings};
pub use report::Report;
pub use schedule::Schedule;
pub use settings::{FeedSettings, SweepSettings};
pub use sweeper::Sweep;

use std::time::Duration;

use crate::error::{Error, Result};
use crate::wheel::{Job, Taken, Wheel};

/// How long a job is lent: what a dead runner costs before another one takes over.
pub const LEASE: Duration = Duration::from_secs(10);
/// Between two looks whether a job is due; one look is one short script. An emptied Redis is noticed within it.
const LOOK: Duration = Duration::from_secs(1);

/// What became of one look at a job.
#[derive(Debug)]
pub enum Looked<R = Report> {
    /// It was run.
    Ran(Box<R>),
    /// It was not: another runner has it, or it is not due. Worth another look after this long.
    Not(Duration),
}

/// A name for one process's runs, for people and for the lease: host, process and a random part.
pub fn runner() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "host" } else { host.trim() };
    format!("{host}:{}:{:08x}", std::process::id(), fastrand::u32(..))
}

/// Runs `work` under the job's lease; finishes the job with its report, or lets it go where the work failed.
async fn under(
    job: &Job,
    name: &'static str,
    runner: &str,
    work: impl Future<Output = Result<Report>>,
) -> Result<Report> {
    let began = std::time::Instant::now();
    match job.hold(work).await {
        Ok(mut report) => {
            report.sign(name, runner, job.began_at(), began.elapsed());
            Ok(report)
        }
        Err(e @ Error::Overtaken(_)) => Err(e),
        Err(e) => {
            // The reason is for people; the next look tries again in any case.
            let _ = job.release(&[("error", &crate::error::shown(&e.to_string()))]).await;
            Err(e)
        }
    }
}

/// How a job that was wished for by a person could not be had, as an error.
fn refused(taken: &Taken, name: &str, wheel: &Wheel) -> Error {
    let reason = match taken {
        Taken::Held { runner, left } => format!(
            "{runner} runs it, for {} more unless it goes on",
            crate::clock::show_duration(Duration::from_millis(u64::try_from(left.as_millis()).unwrap_or(0)))
        ),
        _ => "it ran just now".to_owned(),
    };
    Error::Overtaken(format!("{name} of wheel {} is not started: {reason}", wheel.name()))
}
