//! The pulse of a loop: whether it goes on. A loop that hangs is seen by its pulse, and by nothing else.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For how long a pass may go on before the loop counts as stuck; beyond every time-out that a pass has by default.
pub const LONGEST: Duration = Duration::from_secs(120);

/// What is known of one loop.
#[derive(Debug)]
pub struct Pulse {
    name: String,
    longest: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// In a pass since then.
    Busy(Instant),
    /// Asleep; awake again at that moment, or when something happens.
    Resting(Option<Instant>),
}

impl Pulse {
    /// A loop that has not begun, and whose passes take no longer than `longest`.
    pub fn new(name: impl Into<String>, longest: Duration) -> Self {
        Self { name: name.into(), longest, state: Mutex::new(State::Resting(None)) }
    }

    /// A pass begins.
    pub fn begin(&self) {
        self.set(State::Busy(Instant::now()));
    }

    /// It has ended; the next one begins after `wait`, or when there is something to do.
    pub fn rest(&self, wait: Option<Duration>) {
        self.set(State::Resting(wait.map(|wait| Instant::now() + wait)));
    }

    /// The loop's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Why the loop counts as stuck at `now`; `None` where it goes on.
    pub fn stuck(&self, now: Instant) -> Option<String> {
        match *self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Busy(since) => {
                let for_ = now.saturating_duration_since(since);
                (for_ > self.longest).then(|| format!("in one pass for {} s", for_.as_secs()))
            }
            State::Resting(Some(until)) => {
                let late = now.saturating_duration_since(until);
                (late > self.longest).then(|| format!("should have woken {} s ago", late.as_secs()))
            }
            State::Resting(None) => None,
        }
    }

    fn set(&self, state: State) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_stuck_when_a_pass_or_a_sleep_takes_too_long() {
        let (pulse, second) = (Pulse::new("janitor", Duration::from_secs(10)), Duration::from_secs(1));
        assert_eq!(pulse.stuck(Instant::now() + 1000 * second), None, "it has not begun");
        pulse.begin();
        assert_eq!(pulse.stuck(Instant::now() + 9 * second), None);
        assert!(pulse.stuck(Instant::now() + 12 * second).unwrap().starts_with("in one pass for 1"));
        pulse.rest(Some(30 * second));
        assert_eq!(pulse.stuck(Instant::now() + 39 * second), None);
        assert!(pulse.stuck(Instant::now() + 45 * second).unwrap().starts_with("should have woken 1"));
        pulse.rest(None);
        assert_eq!(pulse.stuck(Instant::now() + 1000 * second), None);
    }
}
