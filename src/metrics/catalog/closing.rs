//! Closing orders: how late, how long, with what outcome.

use super::{Described, Kind, SPANS, Scope, Unit, describe};

describe!(
    LATENESS,
    "duewheel_lateness_seconds",
    Histogram(SPANS),
    Some(Unit::Seconds),
    ["wheel"],
    Process,
    "From due_at to the claim, by Redis's clock: first attempts of closes whose cause is due or feed and that were neither held nor put off before. 1 ms to 5 min"
);
describe!(
    CLAIM_TO_COMMIT,
    "duewheel_claim_to_commit_seconds",
    Histogram(SPANS),
    Some(Unit::Seconds),
    ["wheel"],
    Process,
    "From the claim to the hook's answer closed or skipped: the row is committed then"
);
describe!(
    HOOK_DURATION,
    "duewheel_hook_duration_seconds",
    Histogram(SPANS),
    Some(Unit::Seconds),
    ["wheel", "action"],
    Process,
    "One call of the hook, whatever it answered. action: close, remind"
);
describe!(
    HOOK_FAULTS,
    "duewheel_hook_faults_total",
    Counter,
    None,
    ["wheel"],
    Process,
    "Hook calls that panicked, overran or answered for another number of orders"
);
describe!(
    VERDICTS,
    "duewheel_verdicts_total",
    Counter,
    None,
    ["wheel", "verdict", "cause"],
    Process,
    "What the hook said of each order to close. verdict: closed, skipped, not_due, unavailable, failed, rejected, gone. cause: due, manual, sweep, rebuild, feed"
);
describe!(
    SETTLED,
    "duewheel_settled_total",
    Counter,
    None,
    ["wheel", "outcome"],
    Process,
    "What became of each lease. outcome: closed, skipped, not_due, retried (attempt counted), unavailable (not counted), buried, cancelled, given_back, reminded, reminder_failed"
);
describe!(
    CLAIMS,
    "duewheel_claims_total",
    Counter,
    None,
    ["wheel"],
    Process,
    "Claim calls that Redis answered, empty ones too"
);
describe!(
    CLAIM_FAILURES,
    "duewheel_claim_failures_total",
    Counter,
    None,
    ["wheel"],
    Process,
    "Claim calls that failed"
);
describe!(CLAIMED, "duewheel_claimed_total", Counter, None, ["wheel"], Process, "Deadlines leased");
describe!(
    REAPED,
    "duewheel_reaped_total",
    Counter,
    None,
    ["wheel"],
    Process,
    "Expired leases put back: a worker died, stopped or was cut off"
);
describe!(RENEWED, "duewheel_renewed_total", Counter, None, ["wheel"], Process, "Leases renewed");
describe!(
    STALE_SETTLES,
    "duewheel_stale_settles_total",
    Counter,
    None,
    ["wheel"],
    Process,
    "Settles refused because the lease was another's"
);
describe!(
    DISTRUSTED,
    "duewheel_distrusted_total",
    Counter,
    None,
    ["wheel"],
    Process,
    "Verdicts dropped because the lease could not be trusted any more"
);
describe!(
    SETTLE_FAILURES,
    "duewheel_settle_failures_total",
    Counter,
    None,
    ["wheel"],
    Process,
    "Settle calls that failed and were repeated"
);
describe!(PRUNED, "duewheel_pruned_total", Counter, None, ["wheel"], Process, "Remembered ends forgotten");
describe!(IN_FLIGHT, "duewheel_in_flight", Gauge, None, ["wheel"], Process, "Leases in hand");
describe!(
    CONCURRENCY,
    "duewheel_concurrency",
    Gauge,
    None,
    ["wheel"],
    Process,
    "Leases that may be in hand, as configured"
);
describe!(
    DATABASE_SESSIONS,
    "duewheel_database_sessions",
    Gauge,
    None,
    ["wheel", "endpoint", "state"],
    Process,
    "Sessions of the SQL hook. state: in_use, idle, max (as configured)"
);
describe!(
    STRUCTURE_FINDINGS,
    "duewheel_structure_findings_total",
    Counter,
    None,
    ["wheel", "kind"],
    Process,
    "Findings of the structural scan. Each is an alarm"
);
