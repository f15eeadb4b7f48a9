//! What is measured of the jobs over the orders table.

use std::time::Duration;

use super::Report;
use crate::error::Error;
use crate::metrics::{Metrics, catalog};
use crate::shard::WheelName;
use crate::wheel::JOBS;

/// The series of one wheel's jobs, as this process runs them.
#[derive(Debug, Clone)]
pub struct Measures {
    metrics: Metrics,
    wheel: String,
}

impl Measures {
    /// The series of this wheel.
    pub fn new(metrics: &Metrics, wheel: &WheelName) -> Self {
        Self { metrics: metrics.clone(), wheel: wheel.as_str().to_owned() }
    }

    /// Says which jobs this process may run.
    pub fn enable(&self, enabled: &[&'static str]) {
        for task in JOBS {
            let is = enabled.contains(&task);
            self.metrics.gauge(&catalog::JOB_ENABLED, &[&self.wheel, task]).set(if is { 1.0 } else { 0.0 });
            if is {
                // At zero before the first run, so that the first one is seen as a rise.
                ["done", "failed", "overtaken"].into_iter().for_each(|result| self.count(task, result, 0));
                self.found(task, &Report::default());
            }
        }
    }

    /// A run was finished.
    pub fn ran(&self, task: &'static str, took: Duration) {
        self.count(task, "done", 1);
        self.metrics.gauge(&catalog::JOB_LAST_DURATION, &[&self.wheel, task]).set(took.as_secs_f64());
    }

    /// A run, or the look whether one is due, failed.
    pub fn failed(&self, task: &'static str, error: &Error) {
        let result = if matches!(error, Error::Overtaken(_)) { "overtaken" } else { "failed" };
        self.count(task, result, 1);
    }

    /// What a run found in the table.
    pub fn found(&self, task: &'static str, report: &Report) {
        for (kind, count) in [
            ("held", report.held),
            ("enqueued", report.enqueued),
            ("resurrected", report.resurrected),
            ("dead", report.dead),
            ("ended", report.ended),
            ("capped", report.capped),
            ("refused", report.refused),
        ] {
            // A reconciliation counts its findings in another way.
            if task != "reconcile" {
                self.metrics.counter(&catalog::SWEEP_FOUND, &[&self.wheel, task, kind]).inc_by(count);
            }
        }
    }

    fn count(&self, task: &str, result: &str, by: u64) {
        self.metrics.counter(&catalog::JOB_RUNS, &[&self.wheel, task, result]).inc_by(by);
    }
}
