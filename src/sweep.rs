//! The safety net: the orders table, read beside the wheel. The table is the truth and Redis an index of it, so whatever Redis lost is
//! found here again, late and not never.
//!
//! - [`Feed`] enqueues new orders by itself: a shop needs no code at all.
//! - [`Sweep`] enqueues what is overdue in the table and not on the wheel.
//! - [`Rebuild`] fills an empty or wrong wheel with everything that is open.
//! - [`Reconcile`] compares table, wheel and close log, and reports what does not agree.
//!
//! Each is a job of the wheel: one runner in the fleet at a time ([`crate::wheel::Job`]), any worker takes over within a lease. Running
//! one twice, or on all workers at once, equals running it once, because each order is on the wheel once.

mod explanation;
mod feed;
mod inquiry;
mod intake;
mod measures;
mod pace;
mod rebuild;
pub mod reconcile;
mod report;
mod runner;
mod schedule;
mod settings;
mod sweeper;
mod walk;

pub use explanation::{Explanation, Source, Table, Told};
pub use feed::Feed;
pub use inquiry::Inquiry;
pub use measures::Measures;
pub use rebuild::Rebuild;
pub use reconcile::{Reconcile, ReconcileSettings};
pub use report::Report;
pub use schedule::Schedule;
pub use settings::{FeedSettings, SweepSettings};
pub use sweeper::Sweep;

use std::time::Duration;

/// How long a job is lent: what a dead runner costs before another one takes over.
pub const LEASE: Duration = Duration::from_secs(10);
/// Between two looks whether a job is due; one look is one short script. An emptied Redis is noticed within it.
const LOOK: Duration = Duration::from_secs(1);

/// What became of one look at a job.
#[derive(Debug)]
pub enum Looked<R = Report> {
    /// It was run.
    Ran(Box<R>),
    /// It was not: another runner has it, or it is not due. Worth another look after this long.
    Not(Duration),
}
