//! The hook that only writes a log line: a trial beside another system, which goes on closing the orders.

use std::time::Duration;

use super::{BoxFuture, Hook, Verdict};
use crate::deadline::Stage;
use crate::error::Result;
use crate::lease::Lease;
use crate::shard::WheelName;

/// Says of each order that it would be closed now.
#[derive(Debug, Default)]
pub struct LogHook;

impl Hook for LogHook {
    fn judge<'a>(&'a self, wheel: &'a WheelName, leases: &'a [Lease]) -> BoxFuture<'a, Vec<Verdict>> {
        let verdicts = leases.iter().map(|lease| {
            let would = if lease.stage == Stage::CLOSE { "would close" } else { "would remind" };
            tracing::info!(%wheel, id = %lease.id, due_at = %lease.due_at, cause = lease.cause.as_str(), "{would}");
            Verdict::Closed
        });
        let verdicts = verdicts.collect();
        Box::pin(async { verdicts })
    }

    fn timeout(&self) -> Duration {
        Duration::ZERO
    }

    fn batch_size(&self) -> usize {
        500
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async {
            Ok(vec!["kind = \"log\" closes nothing: it only says what it would close".to_owned()])
        })
    }
}
