//! The `duewheel` program.

fn main() {}
