//! One test binary: one file for each promise area, and the rig they share.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test stops at the first surprise, and says so"
)]

mod rig;

mod backlog;
mod breaker;
#[cfg(all(feature = "page", feature = "cli", feature = "webhook", feature = "sql"))]
mod browser;
#[cfg(all(feature = "page", feature = "cli", feature = "webhook", feature = "sql"))]
mod canary;
mod cases;
mod circuit;
mod cli;
#[cfg(feature = "webhook")]
mod clients;
mod clock_guard;
#[cfg(feature = "webhook")]
mod clock_step;
mod config;
#[cfg(all(feature = "sql", feature = "webhook"))]
mod crash;
#[cfg(feature = "sql")]
mod database_load;
#[cfg(all(feature = "sql", feature = "webhook"))]
mod database_restart;
mod deploy;
#[cfg(feature = "webhook")]
mod drills;
mod events;
mod explain;
#[cfg(feature = "sql")]
mod feed;
mod fleet;
mod formats;
mod gather;
mod hold_policy;
mod hour;
mod house;
#[cfg(all(feature = "http", feature = "webhook"))]
mod http;
#[cfg(feature = "webhook")]
mod idle;
#[cfg(feature = "kafka")]
mod kafka;
mod late_payment;
mod life_cycle;
#[cfg(feature = "webhook")]
mod lost_retry;
mod metrics;
mod migration;
mod model;
#[cfg(all(feature = "http", feature = "webhook"))]
mod operator;
#[cfg(all(feature = "sql", feature = "webhook"))]
mod outage;
#[cfg(all(feature = "page", feature = "webhook"))]
mod page;
mod placement;
mod rate;
#[cfg(feature = "sql")]
mod reconcile;
#[cfg(all(feature = "sql", feature = "webhook"))]
mod redis_faults;
mod redis_rig;
#[cfg(feature = "webhook")]
mod redis_tls;
mod reminders;
#[cfg(all(feature = "http", feature = "webhook"))]
mod reshard;
mod rights;
mod script_cache;
mod scripts;
#[cfg(feature = "sql")]
mod sql_check;
#[cfg(feature = "sql")]
mod sql_close;
#[cfg(feature = "sql")]
mod sql_failure;
#[cfg(feature = "sql")]
mod sql_fleet;
#[cfg(feature = "sql")]
mod sql_mall;
#[cfg(feature = "sql")]
mod sql_race;
#[cfg(feature = "sql")]
mod sql_reminder;
#[cfg(feature = "sql")]
mod sql_rights;
mod store;
#[cfg(feature = "sql")]
mod sweep;
#[cfg(feature = "sql")]
mod sweep_cli;
mod sweep_job;
#[cfg(feature = "sql")]
mod sweep_large;
#[cfg(feature = "sql")]
mod sweep_net;
mod time;
#[cfg(feature = "top")]
mod top;
#[cfg(feature = "sql")]
mod topology;
#[cfg(all(feature = "sql", feature = "webhook"))]
mod traces;
#[cfg(feature = "webhook")]
mod upgrade;
#[cfg(feature = "webhook")]
mod webhook;
mod wheel;
