//! The jobs over the orders table.

use super::{Described, Kind, Scope, Unit, describe};

describe!(
    JOB_ENABLED,
    "duewheel_job_enabled",
    Gauge,
    None,
    ["wheel", "task"],
    Process,
    "1 where this process may run the job. task: feed, sweep, rebuild, reconcile"
);
describe!(
    JOB_RUNS,
    "duewheel_job_runs_total",
    Counter,
    None,
    ["wheel", "task", "result"],
    Process,
    "Runs by this process. result: done, failed, overtaken"
);
describe!(
    JOB_LAST_RUN_TIMESTAMP,
    "duewheel_job_last_run_timestamp_seconds",
    Gauge,
    Some(Unit::Seconds),
    ["wheel", "task"],
    Wheel,
    "When the last run that was finished began, whoever ran it, by Redis's clock; 0 for never"
);
describe!(
    JOB_LAST_DURATION,
    "duewheel_job_last_duration_seconds",
    Gauge,
    Some(Unit::Seconds),
    ["wheel", "task"],
    Process,
    "How long this process's last run took"
);
describe!(
    SWEEP_FOUND,
    "duewheel_sweep_found_total",
    Counter,
    None,
    ["wheel", "task", "kind"],
    Process,
    "Rows of the orders table by what the wheel knew of them. kind: held, enqueued (was missing), resurrected (had ended and is open), dead, ended, capped, refused. With task=\"sweep\", enqueued and resurrected are losses that were mended"
);
describe!(
    FEED_WATERMARK_TIMESTAMP,
    "duewheel_feed_watermark_timestamp_seconds",
    Gauge,
    Some(Unit::Seconds),
    ["wheel", "database"],
    Wheel,
    "The time of the newest row that the feed has read. database is its number in urls, from 0"
);
describe!(
    RECONCILE_FINDINGS,
    "duewheel_reconcile_findings",
    Gauge,
    None,
    ["wheel", "level"],
    Wheel,
    "Findings of the last reconciliation that are left. level: high, medium, low"
);
describe!(
    RECONCILE_UNANSWERED,
    "duewheel_reconcile_unanswered",
    Gauge,
    None,
    ["wheel"],
    Wheel,
    "Questions of the last reconciliation that could not be answered"
);
