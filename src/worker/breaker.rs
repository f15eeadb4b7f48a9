//! The breaker's part in a worker: reports what the hook answered to the fleet's counts, and calls the hook for nothing while the wheel
//! is tripped. Only a person lifts a trip (`duewheel resume`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::service::Service;
use crate::error::Result;
use crate::hook::Verdict;
use crate::wheel::{Band, Trip, Verdicts, What, Wheel};

/// Between two looks whether a trip was lifted.
const LOOK: Duration = Duration::from_secs(1);

/// What this worker knows of the wheel's breaker.
#[derive(Debug)]
pub struct Breaker {
    wheel: Wheel,
    band: Band,
    who: String,
    pending: Mutex<Verdicts>,
    trip: Mutex<Option<Trip>>,
    /// The same as `trip`, for the hot path.
    tripped: AtomicBool,
    /// Whether verdicts that are not bad must be reported too: where closes are limited, and while a run is counted.
    armed: AtomicBool,
    /// Whether a shard said that it is tripped, of which this worker knows nothing yet.
    suspected: AtomicBool,
    wake: Notify,
    changed: Arc<Notify>,
}

impl Breaker {
    /// A breaker that has not tripped. `changed` is told when that changes.
    pub fn new(wheel: Wheel, band: Band, who: String, changed: Arc<Notify>) -> Self {
        Self {
            wheel,
            band,
            who,
            pending: Mutex::default(),
            trip: Mutex::default(),
            tripped: AtomicBool::new(false),
            armed: AtomicBool::new(band.closes_per_minute > 0 || band.closed_ratio > 0.0),
            suspected: AtomicBool::new(false),
            wake: Notify::new(),
            changed,
        }
    }

    /// Whether nothing may be closed.
    pub fn is_tripped(&self) -> bool {
        self.tripped.load(Ordering::Acquire)
    }

    /// Why nothing may be closed; `None` where it may.
    pub fn reason(&self) -> Option<String> {
        let trip = lock(&self.trip);
        let trip = trip.as_ref()?;
        Some(format!(
            "the breaker was tripped at {}: {}; see what closes so much, then duewheel resume",
            trip.at(),
            trip.why
        ))
    }

    /// Counts the verdicts of one call. Costs nothing on a wheel whose closes are not limited and whose hook rejects nothing.
    pub fn count(&self, call: &Verdicts) {
        let bad = call.lead + call.tail > 0;
        let armed = self.armed.load(Ordering::Relaxed);
        if (bad && self.band.rejected_run > 0) || (armed && *call != Verdicts::default()) {
            lock(&self.pending).add(call);
            self.wake.notify_one();
        }
    }

    /// A claim was answered with *tripped*.
    pub fn suspect(&self) {
        if !self.is_tripped() && !self.suspected.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    async fn report(&self) -> Result<()> {
        let verdicts = std::mem::take(&mut *lock(&self.pending));
        if verdicts == Verdicts::default() {
            return Ok(());
        }
        let reported = match self.wheel.report(&verdicts, &self.band, &self.who).await {
            Ok(reported) => reported,
            Err(e) => {
                // Counted again, should the first one have arrived: a breaker that trips early is the safer one.
                let mut pending = lock(&self.pending);
                let later = std::mem::replace(&mut *pending, verdicts);
                pending.add(&later);
                return Err(e);
            }
        };
        let limited = self.band.closes_per_minute > 0 || self.band.closed_ratio > 0.0;
        self.armed.store(limited || reported.run > 0, Ordering::Relaxed);
        if reported.trip.is_some() {
            self.learn(reported.trip);
        }
        Ok(())
    }

    /// Takes over what the wheel says; tells of what is new.
    pub fn learn(&self, trip: Option<Trip>) {
        let mut known = lock(&self.trip);
        if *known == trip {
            return;
        }
        let wheel = self.wheel.name();
        match &trip {
            Some(trip) => {
                let (by, why) = (&trip.by, &trip.why);
                tracing::error!(%wheel, by, why, at = %trip.at(), "breaker: tripped; nothing is closed until a person resumes the wheel");
            }
            None => tracing::warn!(%wheel, "breaker: a person has lifted the trip; closing goes on"),
        }
        self.tripped.store(trip.is_some(), Ordering::Release);
        *known = trip;
        self.changed.notify_waiters();
    }

    /// The trip that this worker knows of.
    pub fn known(&self) -> Option<Trip> {
        lock(&self.trip).clone()
    }
}

/// A verdict, as far as the breaker looks at it.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Closed,
    Skipped,
    /// Rejected or gone.
    Bad,
    /// Put off, or failed: counts for nothing.
    Other,
}

impl Kind {
    pub fn of(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Closed => Self::Closed,
            Verdict::Skipped { .. } => Self::Skipped,
            Verdict::Rejected { .. } | Verdict::Gone { .. } => Self::Bad,
            _ => Self::Other,
        }
    }

    /// How it counts, given what becomes of the order: one without a row that is only waited for is not gone yet.
    pub fn verdicts(self, what: &What) -> Verdicts {
        let none = Verdicts::default();
        match self {
            Self::Closed => Verdicts { closed: 1, other: true, ..none },
            Self::Skipped => Verdicts { skipped: 1, other: true, ..none },
            Self::Bad if matches!(what, What::Bury(_)) => Verdicts { lead: 1, ..none },
            Self::Bad | Self::Other => none,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports verdicts, as many at once as gathered while the last report was under way, and looks whether a trip was lifted.
pub struct BreakerWatch(pub Arc<Breaker>);

impl Service for BreakerWatch {
    const NAME: &'static str = "breaker";

    async fn pass(&mut self) -> Result<Duration> {
        let breaker = &self.0;
        if tokio::time::timeout(LOOK, breaker.wake.notified()).await.is_ok() {
            breaker.report().await?;
        }
        if breaker.is_tripped() || breaker.suspected.load(Ordering::Acquire) {
            let held = breaker.wheel.reassert(breaker.known().as_ref()).await?;
            breaker.suspected.store(false, Ordering::Release);
            breaker.learn(held.trip);
        }
        Ok(Duration::ZERO)
    }
}
