//! What holds claiming back.

use super::{Described, Kind, Scope, Unit, describe};

describe!(
    CLAIMING_STOPPED,
    "duewheel_claiming_stopped",
    Gauge,
    None,
    ["wheel", "reason"],
    Process,
    "1 while this process claims nothing because of it, else 0. reason: breaker (tripped), clocks (they disagree), circuit (all endpoints away), selftest (Redis refuses a script), drain (told to stop)"
);
describe!(
    CIRCUIT_OPEN,
    "duewheel_circuit_open",
    Gauge,
    None,
    ["wheel", "endpoint"],
    Process,
    "1 while the hook's endpoint counts as away and only probes go to it"
);
describe!(
    HOOK_PAUSED,
    "duewheel_hook_paused",
    Gauge,
    None,
    ["wheel", "endpoint"],
    Process,
    "1 while the endpoint has a pause it asked for (429, Retry-After)"
);
describe!(
    THROTTLED,
    "duewheel_throttled_total",
    Counter,
    None,
    ["wheel"],
    Process,
    "Times the wheel's rate had no token for a worker that wanted some"
);
describe!(
    CLOCK_OFFSET,
    "duewheel_clock_offset_seconds",
    Gauge,
    Some(Unit::Seconds),
    ["wheel", "clock"],
    Process,
    "How far a clock is ahead of Redis's (negative: behind). clock: worker for this host, else the database's endpoint"
);
describe!(
    CLOCK_SKEW_MAX,
    "duewheel_clock_skew_max_seconds",
    Gauge,
    Some(Unit::Seconds),
    ["wheel"],
    Process,
    "Above this offset claiming stops; 0 for never"
);
