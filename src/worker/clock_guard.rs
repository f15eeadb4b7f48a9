//! The clock guard: no worker claims while clocks disagree by more than `skew_max`. Redis's clock decides what is due, so a jump of it
//! would close orders early, or all at once; the database's clock is the second lock, and no good one when it is wrong itself.
//!
//! Redis is read by every claim and every heartbeat, which ask for its time anyway; the databases every few seconds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::service::Service;
use crate::clock::{Ahead, Reading, show_duration};
use crate::error::Result;
use crate::hook::Hook;
use crate::shard::WheelName;

/// Between two readings of the databases' clocks.
const DATABASE_PAUSE: Duration = Duration::from_secs(5);
/// The same while claiming is stopped: it should go on soon after the clocks agree again.
const STOPPED_PAUSE: Duration = Duration::from_secs(1);
/// A reading of Redis older than this says nothing about now.
const FRESH: Duration = Duration::from_secs(3);

/// What is known of the clocks, and whether they allow to claim.
#[derive(Debug)]
pub struct ClockGuard {
    wheel: WheelName,
    /// Zero: clocks are read and shown, and stop nothing.
    skew_max: Duration,
    state: Mutex<State>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    redis: Option<Reading>,
    host: Option<Ahead>,
    databases: BTreeMap<String, Ahead>,
    stopped: Option<String>,
}

impl ClockGuard {
    /// A guard that has seen nothing yet, and so stops nothing. `changed` is told when that changes.
    pub fn new(wheel: WheelName, skew_max: Duration, changed: Arc<Notify>) -> Self {
        Self { wheel, skew_max, state: Mutex::default(), changed }
    }

    /// Why nothing may be claimed; `None` where it may.
    pub fn stopped(&self) -> Option<String> {
        self.lock().stopped.clone()
    }

    /// What Redis's clock shows at `instant`, in microseconds; `None` before the first reading.
    pub fn redis_us_at(&self, instant: Instant) -> Option<u64> {
        let redis = self.lock().redis?;
        let since = instant.saturating_duration_since(redis.received);
        Some(redis.us.saturating_add(u64::try_from(since.as_micros()).unwrap_or(u64::MAX)))
    }

    /// How far the clocks are apart, in milliseconds: this host's ahead of Redis's, and each database's ahead of Redis's.
    pub fn offsets(&self) -> BTreeMap<String, i64> {
        let state = self.lock();
        let host = state.host.iter().map(|ahead| ("host".to_owned(), ahead.about_ms()));
        host.chain(state.databases.iter().map(|(name, ahead)| (name.clone(), ahead.about_ms()))).collect()
    }

    /// How far a database's clock is surely behind Redis's, the furthest: before that long after its moment, no order is due there.
    pub fn database_behind(&self) -> Duration {
        let state = self.lock();
        let behind = state.databases.values().map(|ahead| ahead.at_least().min(0).unsigned_abs());
        Duration::from_micros(behind.max().unwrap_or(0))
    }

    /// Takes a reading of Redis's clock; answers whether claiming is allowed after it.
    pub fn see_redis(&self, reading: Reading) -> bool {
        let mut state = self.lock();
        state.host = Some(reading.host_ahead());
        state.redis = Some(reading);
        self.judge(&mut state)
    }

    /// Takes a reading of a database's clock, beside the last one of Redis's if that is a fresh one.
    pub fn see_database(&self, name: &str, reading: &Reading) {
        let mut state = self.lock();
        let Some(redis) = state.redis.filter(|redis| redis.received.elapsed() < FRESH) else { return };
        state.databases.insert(name.to_owned(), reading.ahead_of(&redis));
        self.judge(&mut state);
    }

    fn judge(&self, state: &mut State) -> bool {
        let reason = (!self.skew_max.is_zero()).then(|| self.reason(state)).flatten();
        match (&reason, state.stopped.is_some()) {
            (Some(reason), false) => {
                tracing::error!(wheel = %self.wheel, reason, "clock_guard: claiming stops until the clocks agree");
                self.changed.notify_waiters();
            }
            (None, true) => {
                tracing::warn!(wheel = %self.wheel, "clock_guard: the clocks agree again; claiming goes on");
                self.changed.notify_waiters();
            }
            _ => {}
        }
        state.stopped = reason;
        state.stopped.is_none()
    }

    fn reason(&self, state: &State) -> Option<String> {
        let most = show_duration(self.skew_max);
        if let Some(host) = state.host.filter(|host| host.exceeds(self.skew_max)) {
            return Some(format!("this host's clock is {} Redis's, more than {most}", apart(host)));
        }
        let (name, ahead) = state.databases.iter().find(|(_, ahead)| ahead.exceeds(self.skew_max))?;
        Some(format!("the clock of {name} is {} Redis's, more than {most}", apart(*ahead)))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `2h ahead of`, `300ms behind`.
fn apart(ahead: Ahead) -> String {
    let us = ahead.at_least();
    let length = show_duration(Duration::from_millis(us.unsigned_abs() / 1000));
    format!("{length} {}", if us > 0 { "ahead of" } else { "behind" })
}

/// Reads the databases' clocks.
pub struct ClockReader {
    hook: Arc<dyn Hook>,
    guard: Arc<ClockGuard>,
}

impl ClockReader {
    pub fn new(hook: Arc<dyn Hook>, guard: Arc<ClockGuard>) -> Self {
        Self { hook, guard }
    }
}

impl Service for ClockReader {
    const NAME: &'static str = "clock reader";

    async fn pass(&mut self) -> Result<Duration> {
        for (name, reading) in self.hook.clocks().await {
            self.guard.see_database(&name, &reading);
        }
        Ok(if self.guard.stopped().is_some() { STOPPED_PAUSE } else { DATABASE_PAUSE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    const SKEW: Duration = Duration::from_secs(2);

    fn guard(skew_max: Duration) -> ClockGuard {
        ClockGuard::new(WheelName::new("orders").unwrap(), skew_max, Arc::default())
    }

    /// A clock that is so far ahead of this host's.
    fn clock(ahead_ms: i64) -> Reading {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
        let us = i64::try_from(wall).unwrap() + ahead_ms * 1000;
        Reading { us: u64::try_from(us).unwrap(), sent: Instant::now(), received: Instant::now() }
    }

    #[test]
    fn a_jump_of_redis_stops_claiming_and_its_end_lets_it_go_on() {
        let guard = guard(SKEW);
        assert!(guard.see_redis(clock(1900)));
        for jumped in [7_200_000, -600_000, 2100, -2100] {
            assert!(!guard.see_redis(clock(jumped)), "{jumped}");
            assert!(guard.stopped().is_some());
            assert!(guard.see_redis(clock(0)));
            assert_eq!(guard.stopped(), None);
        }
    }

    #[test]
    fn a_database_that_disagrees_stops_claiming_whoever_is_right() {
        let guard = guard(SKEW);
        guard.see_database("shop", &clock(9000));
        assert_eq!(guard.stopped(), None, "without a reading of Redis nothing is known");
        guard.see_redis(clock(0));
        guard.see_database("shop", &clock(9000));
        assert!(guard.stopped().unwrap().starts_with("the clock of shop is "));
        assert!(!guard.see_redis(clock(0)), "a good reading of Redis does not mend the database's");
        guard.see_database("shop", &clock(100));
        assert_eq!(guard.stopped(), None);
        assert!((95..=105).contains(&guard.offsets()["shop"]), "{:?}", guard.offsets());
    }

    #[test]
    fn without_a_limit_clocks_are_shown_and_stop_nothing() {
        let guard = guard(Duration::ZERO);
        assert!(guard.see_redis(clock(7_200_000)));
        assert!((-7_200_100..=-7_199_900).contains(&guard.offsets()["host"]));
    }
}
