//! **duewheel** closes unpaid orders at their deadline: once, never early, never a paid one, whatever crashed meanwhile.
//!
//! Deadlines live in Redis sorted sets scored by close time ([`wheel`]); a fleet of workers ([`worker`]) claims due entries
//! atomically under a lease and calls an order-closing hook ([`hook`]), a webhook or SQL; the orders table stays the truth.
//!
//! ```no_run
//! # async fn example() -> duewheel::error::Result<()> {
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use duewheel::deadline::{Cause, Deadline, DueAt, Id, OnConflict, Payload};
//! use duewheel::shard::WheelName;
//! use duewheel::wheel::{RedisSettings, Store, Wheel, WheelSettings};
//!
//! let store = Arc::new(Store::new(&RedisSettings::new("redis://127.0.0.1:6379".into()))?);
//! let wheel = Wheel::new(store, WheelSettings::new(WheelName::new("orders")?));
//! let order = Id::new("8213")?;
//!
//! // The order was placed: half an hour to pay.
//! let deadline = Deadline {
//!     id: order.clone(),
//!     due_at: DueAt::After(Duration::from_secs(1800)),
//!     payload: Payload::from_json(r#"{"user_id": 17}"#)?,
//!     traceparent: None,
//!     cause: Cause::Due,
//!     reminders: None,
//! };
//! match wheel.enqueue(&deadline, OnConflict::Keep, false).await? {
//!     Ok(placed) => println!("closes at {}", placed.due_at),
//!     Err(refusal) => println!("not placed: {}", refusal.as_str()),
//! }
//!
//! // It was paid.
//! for answer in wheel.cancel(&[order]).await {
//!     println!("{:?}", answer?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Read the modules in this order: words and arithmetic first, then Redis and the outside, then the work, then what assembles it.

// Words and arithmetic, no I/O.
pub mod clock;
pub mod deadline;
pub mod error;
#[cfg(any(feature = "page", feature = "top"))]
mod figure;
pub mod lease;
pub mod metrics;
pub mod retry;
pub mod shard;
pub mod slot;
pub mod trace;

// Redis, and the outside: the shop, its database.
pub mod hook;
pub mod wheel;

// The work.
pub mod relay;
#[cfg(feature = "sql")]
pub mod sweep;
pub mod worker;

// What people do.
pub mod operator;

// What assembles, parses and prints.
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod config;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "cli")]
pub mod telemetry;
