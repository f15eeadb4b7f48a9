//! When to try again. A failed attempt waits longer each time; an unavailable hook is asked again and again, but never more often than
//! its own cap allows, and no order is buried for it.

use std::time::Duration;

use crate::error::Invalid;

/// Exponential back-off with jitter *around* the base: attempt n waits `base * 2^(n-1)`, at most `cap`, times a factor drawn
/// uniformly from `1 - jitter` to `1 + jitter`. The mean is the nominal wait, and the floor is `(1 - jitter)` of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    jitter: f64,
}

impl Backoff {
    /// Checks the three numbers: base 1 ms to 1 day, cap from base to 7 days, jitter 0 to 0.9.
    pub fn new(base: Duration, cap: Duration, jitter: f64) -> Result<Self, Invalid> {
        let day = Duration::from_secs(86_400);
        if base < Duration::from_millis(1) || base > day {
            return Err(Invalid::new("backoff_base", &format!("{base:?}"), "expected 1ms to 1d"));
        }
        if cap < base || cap > 7 * day {
            return Err(Invalid::new(
                "backoff_cap",
                &format!("{cap:?}"),
                "expected at least backoff_base, at most 7d",
            ));
        }
        if !(0.0..=0.9).contains(&jitter) {
            return Err(Invalid::new("backoff_jitter", &jitter.to_string(), "expected 0 to 0.9"));
        }
        Ok(Self { base, cap, jitter })
    }

    /// The wait after failed attempt number `attempt` (1 for the first).
    pub fn wait_after(&self, attempt: u32) -> Duration {
        // 2^40 times any allowed base is far above any allowed cap.
        let doubled = self.base.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1).min(31)));
        let nominal = doubled.min(self.cap);
        nominal.mul_f64(1.0 + self.jitter * (fastrand::f64() * 2.0 - 1.0))
    }
}

impl Default for Backoff {
    /// 2 s, doubling to 5 min, jitter 0.2: an order is retried within seconds, and a broken endpoint is not hammered.
    fn default() -> Self {
        Self { base: Duration::from_secs(2), cap: Duration::from_secs(300), jitter: 0.2 }
    }
}

/// What is tried how often.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// The wait between attempts.
    pub backoff: Backoff,
    /// Failed attempts before an entry is buried. Unavailable hooks are not counted.
    pub max_attempts: u32,
    /// Lease losses *alone* before an entry is buried as poison.
    pub poison_limit: u32,
}

impl Default for RetryPolicy {
    /// 12 attempts: with the default back-off about 25 minutes. 5 losses alone: a crash that comes five times from one order is
    /// that order's.
    fn default() -> Self {
        Self { backoff: Backoff::default(), max_attempts: 12, poison_limit: 5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_to_the_cap_and_stays_within_its_jitter() {
        let backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60), 0.25).unwrap();
        for (attempt, nominal) in [(1, 2.0), (2, 4.0), (3, 8.0), (6, 60.0), (4_000_000_000, 60.0)] {
            for _ in 0..200 {
                let wait = backoff.wait_after(attempt).as_secs_f64();
                assert!((nominal * 0.75..=nominal * 1.25).contains(&wait), "attempt {attempt} waited {wait}");
            }
        }
    }

    #[test]
    fn the_mean_wait_is_the_nominal_one() {
        let backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(10), 0.5).unwrap();
        let mean = (0..4000).map(|_| backoff.wait_after(1).as_secs_f64()).sum::<f64>() / 4000.0;
        assert!((9.5..10.5).contains(&mean), "mean {mean}");
    }

    #[test]
    fn impossible_numbers_are_refused() {
        let s = Duration::from_secs;
        assert!(Backoff::new(Duration::ZERO, s(1), 0.1).is_err());
        assert!(Backoff::new(s(2), s(1), 0.1).is_err());
        assert!(Backoff::new(s(1), s(2), 1.5).is_err());
        assert!(Backoff::new(s(1), s(2), f64::NAN).is_err());
    }
}
