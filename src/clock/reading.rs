//! Another machine's clock, read from here: what it showed, and between which two moments of this process it did. How far two clocks are
//! apart is known only within the way of the questions, so a difference is a range.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What a clock showed at some moment between `sent` and `received` of this process's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Microseconds since the epoch.
    pub us: u64,
    /// When the question was sent.
    pub sent: Instant,
    /// When the answer was there.
    pub received: Instant,
}

/// How far one clock is ahead of another, in microseconds; negative when it is behind. The truth lies between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ahead {
    least: i64,
    most: i64,
}

impl Reading {
    /// How far this clock is ahead of `other`.
    pub fn ahead_of(&self, other: &Self) -> Ahead {
        // The other one, carried on to this reading's moment: by at least the time between the two answers and questions.
        let shortest = between(other.received, self.sent);
        let longest = between(other.sent, self.received);
        let apart = micros(self.us) - micros(other.us);
        Ahead { least: apart - longest, most: apart - shortest }
    }

    /// How far this host's wall clock is ahead of this clock.
    pub fn host_ahead(&self) -> Ahead {
        let at = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let us = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
        Self { us, sent: at, received: at }.ahead_of(self)
    }

    /// The time that the question and its answer took.
    pub fn trip(&self) -> Duration {
        self.received.saturating_duration_since(self.sent)
    }
}

impl Ahead {
    /// The smallest difference that the readings allow, in microseconds; zero where they may agree.
    pub fn at_least(self) -> i64 {
        0_i64.clamp(self.least, self.most)
    }

    /// The difference if question and answer took the same time, in milliseconds.
    pub fn about_ms(self) -> i64 {
        (self.least / 2 + self.most / 2) / 1000
    }

    /// Whether the two are surely further apart than `most`.
    pub fn exceeds(self, most: Duration) -> bool {
        u128::from(self.at_least().unsigned_abs()) > most.as_micros()
    }
}

/// From the first moment to the second, in microseconds; negative when it is before.
fn between(from: Instant, to: Instant) -> i64 {
    let length = |d: Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX / 4);
    if to >= from { length(to - from) } else { -length(from - to) }
}

fn micros(us: u64) -> i64 {
    // Half of the range each, so that no difference overflows.
    i64::try_from(us).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_never_greater_than_the_readings_prove() {
        let start = Instant::now();
        let at = |us: u64, sent: u64, received: u64| Reading {
            us,
            sent: start + Duration::from_micros(sent),
            received: start + Duration::from_micros(received),
        };
        // Two clocks in step, read one after the other with slow ways.
        let ahead = at(1_000_500, 400, 900).ahead_of(&at(1_000_000, 0, 300));
        assert_eq!(ahead.at_least(), 0);
        assert!(!ahead.exceeds(Duration::ZERO));
        // Two hours ahead: known but for the ways.
        let ahead = at(7_201_000_500, 400, 900).ahead_of(&at(1_000_000, 0, 300));
        assert_eq!(ahead.at_least(), 7_200_000_500 - 900);
        assert!(ahead.exceeds(Duration::from_secs(7199)) && !ahead.exceeds(Duration::from_secs(7200)));
        let behind = at(1_000_000, 400, 900).ahead_of(&at(7_201_000_000, 0, 300));
        assert_eq!(behind.at_least(), -7_200_000_000 - 100);
    }

    #[test]
    fn this_host_is_in_step_with_itself() {
        let before = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let own = Reading { us: u64::try_from(wall).unwrap(), sent: before, received: Instant::now() };
        assert!(!own.host_ahead().exceeds(Duration::from_millis(50)), "{:?}", own.host_ahead());
    }
}
