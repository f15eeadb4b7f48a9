//! **duewheel** closes unpaid orders at their deadline: once, never early, never a paid one, whatever crashed meanwhile.
//!
//! Deadlines live in Redis sorted sets scored by close time ([`wheel`]); a fleet of workers ([`worker`]) claims due entries
//! atomically under a lease and calls an order-closing hook ([`hook`]), a webhook or SQL; the orders table stays the truth.
//!
//! Read the modules in this order: words and arithmetic first, then Redis and the outside, then the work, then what assembles it.

// Words and arithmetic, no I/O.
pub mod clock;
pub mod deadline;
pub mod error;
pub mod lease;
pub mod retry;
pub mod shard;
pub mod slot;

// Redis, and the outside: the shop, its database.
pub mod hook;
pub mod wheel;

// The work.
pub mod worker;

// What assembles, parses and prints.
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod config;
#[cfg(feature = "cli")]
pub mod telemetry;
