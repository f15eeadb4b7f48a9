//! The process.

use super::{Described, Kind, Scope, Unit, describe};

describe!(BUILD_INFO, "duewheel_build_info", Gauge, None, ["version"], Process, "Always 1");
describe!(
    PROCESS_START_TIME,
    "process_start_time_seconds",
    Gauge,
    Some(Unit::Seconds),
    [],
    Process,
    "When the process began, since 1970"
);
describe!(
    PROCESS_CPU,
    "process_cpu_seconds_total",
    Counter,
    Some(Unit::Seconds),
    [],
    Process,
    "Processor time used"
);
describe!(
    PROCESS_RESIDENT_MEMORY,
    "process_resident_memory_bytes",
    Gauge,
    Some(Unit::Bytes),
    [],
    Process,
    "Memory in use"
);
describe!(PROCESS_OPEN_FDS, "process_open_fds", Gauge, None, [], Process, "Open files and sockets");
describe!(PROCESS_MAX_FDS, "process_max_fds", Gauge, None, [], Process, "How many may be open");
