//! The `duewheel` program.

use std::process::ExitCode;

// Leases and payloads are many short-lived allocations on many threads; glibc's allocator keeps their peak for ever.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    duewheel::cli::main()
}
