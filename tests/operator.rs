//! What people do to a wheel leaves a trace: who, through which door, about what, why, to how many, and what came of it.

mod bulk;
mod fleet;
#[cfg(feature = "sql")]
mod story;
mod trace;
