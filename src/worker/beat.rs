//! The beat: the moments at which a worker looks at shards that expect nothing. All of its shards share them, because Redis answers
//! sixteen looks that come together at a third of the cost of sixteen that come one by one.

use std::time::{Duration, Instant};

/// Evenly spaced moments, with a spacing and a phase of this worker's own: a fleet does not march in step.
#[derive(Debug, Clone, Copy)]
pub struct Beat {
    start: Instant,
    every: Duration,
}

impl Beat {
    /// At most `longest` apart.
    pub fn new(longest: Duration) -> Self {
        let every = longest.mul_f64(0.75 + fastrand::f64() * 0.25).max(Duration::from_millis(1));
        Self { start: Instant::now(), every }
    }

    /// The first moment after `now`.
    pub fn after(&self, now: Instant) -> Instant {
        let gone = now.saturating_duration_since(self.start).as_nanos() / self.every.as_nanos();
        let next = (gone + 1).saturating_mul(self.every.as_nanos());
        self.start + Duration::from_nanos(u64::try_from(next).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_moment_is_ahead_and_no_further_than_the_longest_pause() {
        let longest = Duration::from_millis(250);
        let beat = Beat::new(longest);
        let mut now = beat.start;
        for _ in 0..1000 {
            now += Duration::from_micros(fastrand::u64(0..700_000));
            let next = beat.after(now);
            assert!(next > now && next - now <= longest, "{:?}", next - now);
            assert_eq!(beat.after(next - Duration::from_nanos(1)), next, "shards that ask apart meet");
        }
    }
}
