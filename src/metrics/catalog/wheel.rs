//! The wheel as Redis holds it.

use super::{Described, Kind, Scope, Unit, describe};

describe!(
    BACKLOG,
    "duewheel_backlog",
    Gauge,
    None,
    ["wheel"],
    Wheel,
    "Deadlines that are due and with no worker"
);
describe!(
    OLDEST_DUE_AGE,
    "duewheel_oldest_due_age_seconds",
    Gauge,
    Some(Unit::Seconds),
    ["wheel"],
    Wheel,
    "How long the oldest of them has been due; 0 where there is none"
);
describe!(
    SCHEDULED,
    "duewheel_scheduled",
    Gauge,
    None,
    ["wheel"],
    Wheel,
    "Deadlines scheduled, due ones included"
);
describe!(LEASED, "duewheel_leased", Gauge, None, ["wheel"], Wheel, "Deadlines with a worker");
describe!(DEAD, "duewheel_dead", Gauge, None, ["wheel"], Wheel, "Deadlines that wait for a person");
describe!(ENDED, "duewheel_ended", Gauge, None, ["wheel"], Wheel, "Ends that are remembered");
describe!(
    CHANGES,
    "duewheel_changes_total",
    Counter,
    None,
    ["wheel", "change"],
    Wheel,
    "The wheel's own counts, by whomever it was done. change: enqueued, closed, skipped, cancelled, buried, retried, lost (leases), reminded, reminder_failed. Begins anew when Redis is emptied"
);
describe!(SHARDS, "duewheel_shards", Gauge, None, ["wheel"], Wheel, "Shards");
describe!(
    PAUSED_SHARDS,
    "duewheel_paused_shards",
    Gauge,
    None,
    ["wheel"],
    Wheel,
    "Shards that a person paused; above 0 the wheel is paused"
);
describe!(
    TRIPPED_SHARDS,
    "duewheel_tripped_shards",
    Gauge,
    None,
    ["wheel"],
    Wheel,
    "Shards on which the breaker is tripped; above 0 nothing is closed"
);
describe!(
    WORKERS,
    "duewheel_workers",
    Gauge,
    None,
    ["wheel", "state"],
    Wheel,
    "Workers heard of lately. state: serving, draining"
);
describe!(
    OPEN_INCIDENTS,
    "duewheel_open_incidents",
    Gauge,
    None,
    ["wheel", "kind"],
    Wheel,
    "Late payments that nobody has acknowledged, read every 30 s. kind: closed, dead, closing"
);
describe!(
    WHEEL_READ_TIMESTAMP,
    "duewheel_wheel_read_timestamp_seconds",
    Gauge,
    Some(Unit::Seconds),
    ["wheel"],
    Process,
    "When this process last read the numbers of this table, by its own clock; 0 for never"
);
