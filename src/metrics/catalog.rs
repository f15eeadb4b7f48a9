//! Every family that is measured: name, kind, unit, labels and meaning. docs/metrics.md is the same list for people; a test compares
//! them.

mod api;
mod closing;
mod jobs;
mod limits;
mod process;
mod server;
mod wheel;

pub use api::*;
pub use closing::*;
pub use jobs::*;
pub use limits::*;
pub use process::*;
pub use server::*;
pub use wheel::*;

/// What a family is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size, with these upper bounds in seconds.
    Histogram(&'static [f64]),
}

impl Kind {
    /// The word of the exposition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// What a family is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// The word at the end of the name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
        }
    }

    pub(super) fn encoded(self) -> prometheus_client::registry::Unit {
        match self {
            Self::Seconds => prometheus_client::registry::Unit::Seconds,
            Self::Bytes => prometheus_client::registry::Unit::Bytes,
        }
    }
}

/// Of whom a family tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// What this process did, or how it stands: summed over processes.
    Process,
    /// The wheel or Redis, read alike by every process: the maximum is taken, not the sum.
    Wheel,
}

/// One family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Described {
    /// The name of the scrape, with unit and `_total`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it is measured in; `None` for plain numbers.
    pub unit: Option<Unit>,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// Of whom it tells.
    pub scope: Scope,
    /// What it means.
    pub help: &'static str,
}

impl Described {
    /// The name without unit and `_total`, which the encoder adds.
    pub(super) fn stem(&self) -> &'static str {
        let name = if self.kind == Kind::Counter {
            self.name.strip_suffix("_total").unwrap_or(self.name)
        } else {
            self.name
        };
        let unit = self.unit.map_or("", Unit::as_str);
        name.strip_suffix(unit).and_then(|stem| stem.strip_suffix('_')).unwrap_or(name)
    }
}

/// From due to claim, from claim to commit, calls of a hook: few bounds, because each is a series.
const SPANS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Calls to Redis.
const CALLS: &[f64] = &[0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0];

/// Requests over HTTP.
const REQUESTS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

macro_rules! describe {
    ($const:ident, $name:literal, $kind:expr, $unit:expr, $labels:expr, $scope:ident, $help:literal) => {
        #[doc = concat!("`", $name, "`: ", $help, ".")]
        pub const $const: Described = {
            #[allow(unused_imports, reason = "one of them is the kind's")]
            use Kind::{Counter, Gauge, Histogram};
            Described {
                name: $name,
                kind: $kind,
                unit: $unit,
                labels: &$labels,
                scope: Scope::$scope,
                help: $help,
            }
        };
    };
}

use describe;

/// All of them, in the order of docs/metrics.md.
pub const ALL: [&Described; 67] = [
    &LATENESS,
    &CLAIM_TO_COMMIT,
    &HOOK_DURATION,
    &HOOK_FAULTS,
    &VERDICTS,
    &SETTLED,
    &CLAIMS,
    &CLAIM_FAILURES,
    &CLAIMED,
    &REAPED,
    &RENEWED,
    &STALE_SETTLES,
    &DISTRUSTED,
    &SETTLE_FAILURES,
    &PRUNED,
    &IN_FLIGHT,
    &CONCURRENCY,
    &DATABASE_SESSIONS,
    &STRUCTURE_FINDINGS,
    &BACKLOG,
    &OLDEST_DUE_AGE,
    &SCHEDULED,
    &LEASED,
    &DEAD,
    &ENDED,
    &CHANGES,
    &SHARDS,
    &PAUSED_SHARDS,
    &TRIPPED_SHARDS,
    &WORKERS,
    &OPEN_INCIDENTS,
    &WHEEL_READ_TIMESTAMP,
    &CLAIMING_STOPPED,
    &CIRCUIT_OPEN,
    &HOOK_PAUSED,
    &THROTTLED,
    &CLOCK_OFFSET,
    &CLOCK_SKEW_MAX,
    &JOB_ENABLED,
    &JOB_RUNS,
    &JOB_LAST_RUN_TIMESTAMP,
    &JOB_LAST_DURATION,
    &SWEEP_FOUND,
    &FEED_WATERMARK_TIMESTAMP,
    &RECONCILE_FINDINGS,
    &RECONCILE_UNANSWERED,
    &REDIS_UP,
    &REDIS_ERRORS,
    &REDIS_CALL_DURATION,
    &REDIS_CALLS_IN_FLIGHT,
    &REDIS_CONNECTIONS,
    &REDIS_CONNECTS,
    &REDIS_PRIMARY,
    &REDIS_AOF_ENABLED,
    &REDIS_PERSISTENCE_OK,
    &REDIS_NOEVICTION,
    &REDIS_USED_MEMORY,
    &REDIS_MAX_MEMORY,
    &REDIS_CONNECTED_REPLICAS,
    &HTTP_REQUESTS,
    &HTTP_REQUEST_DURATION,
    &BUILD_INFO,
    &PROCESS_START_TIME,
    &PROCESS_CPU,
    &PROCESS_RESIDENT_MEMORY,
    &PROCESS_OPEN_FDS,
    &PROCESS_MAX_FDS,
];
