//! Redis, and the calls to it.

use super::{CALLS, Described, Kind, Scope, Unit, describe};

describe!(
    REDIS_UP,
    "duewheel_redis_up",
    Gauge,
    None,
    [],
    Process,
    "1 where the last look at Redis was answered"
);
describe!(
    REDIS_ERRORS,
    "duewheel_redis_errors_total",
    Counter,
    None,
    ["kind"],
    Process,
    "Calls that failed. kind: unreachable, unknown (no answer), loading, busy, out_of_memory, read_only, no_replicas, cannot_persist, denied, moving, unformatted, layout, corrupt, other"
);
describe!(
    REDIS_CALL_DURATION,
    "duewheel_redis_call_duration_seconds",
    Histogram(CALLS),
    Some(Unit::Seconds),
    ["verb"],
    Process,
    "One call of a script, the way there and back included. verb: claim, settle, enqueue, …"
);
describe!(
    REDIS_CALLS_IN_FLIGHT,
    "duewheel_redis_calls_in_flight",
    Gauge,
    None,
    [],
    Process,
    "Calls under way"
);
describe!(
    REDIS_CONNECTIONS,
    "duewheel_redis_connections",
    Gauge,
    None,
    [],
    Process,
    "Connections that are open"
);
describe!(
    REDIS_CONNECTS,
    "duewheel_redis_connects_total",
    Counter,
    None,
    [],
    Process,
    "Connections made since the start; it grows when they break"
);
describe!(
    REDIS_PRIMARY,
    "duewheel_redis_primary",
    Gauge,
    None,
    [],
    Wheel,
    "1 where the server is a primary, 0 a replica"
);
describe!(
    REDIS_AOF_ENABLED,
    "duewheel_redis_aof_enabled",
    Gauge,
    None,
    [],
    Wheel,
    "1 where the append-only file is on"
);
describe!(
    REDIS_PERSISTENCE_OK,
    "duewheel_redis_persistence_ok",
    Gauge,
    None,
    [],
    Wheel,
    "0 where the last write of the append-only file or the last snapshot failed"
);
describe!(
    REDIS_NOEVICTION,
    "duewheel_redis_noeviction",
    Gauge,
    None,
    [],
    Wheel,
    "1 where maxmemory-policy is noeviction; 0 means that orders may be thrown away"
);
describe!(
    REDIS_USED_MEMORY,
    "duewheel_redis_used_memory_bytes",
    Gauge,
    Some(Unit::Bytes),
    [],
    Wheel,
    "Memory in use"
);
describe!(
    REDIS_MAX_MEMORY,
    "duewheel_redis_max_memory_bytes",
    Gauge,
    Some(Unit::Bytes),
    [],
    Wheel,
    "The limit; 0 for none"
);
describe!(
    REDIS_CONNECTED_REPLICAS,
    "duewheel_redis_connected_replicas",
    Gauge,
    None,
    [],
    Wheel,
    "Replicas that are connected"
);
