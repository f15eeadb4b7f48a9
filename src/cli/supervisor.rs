//! The service manager above this process, where there is one that listens (systemd, `Type=notify`): it is told when the work has begun,
//! when the configuration is read again, when the end has begun, and meanwhile that the process lives.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// What speaks to the service manager. Without one every call does nothing.
pub struct Supervisor {
    /// When the next sign of life is due; `None` where nobody waits for any.
    beat: Option<Interval>,
}

impl Supervisor {
    /// Reads `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`, which the service manager sets.
    pub fn of_process() -> Self {
        let beat = sd_notify::watchdog_enabled().filter(|allowed| !allowed.is_zero()).map(|allowed| {
            // Half of what is allowed, as its manual asks: one that comes late is not yet a death.
            let mut beat = interval((allowed / 2).max(Duration::from_millis(1)));
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            beat
        });
        Self { beat }
    }

    /// The work has begun, or goes on after a reload; `status` is shown by `systemctl status`.
    pub fn ready(&self, status: &str) {
        tell(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// The configuration is being read again; [`Self::ready`] follows.
    pub fn reloading(&self) {
        let now = NotifyState::monotonic_usec_now();
        tell(&[Some(NotifyState::Reloading), now.ok()].into_iter().flatten().collect::<Vec<_>>());
    }

    /// The end has begun; it may take as long as a drain does.
    pub fn stopping(&self, status: &str) {
        tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
    }

    /// Waits until a sign of life is due, and gives it if all is alive. Never returns where nobody waits for any. It belongs into
    /// the loop whose life it is to prove as well. Safe to be dropped half-way.
    pub async fn beat(&mut self, is_alive: impl Fn() -> bool) {
        match &mut self.beat {
            Some(beat) => {
                beat.tick().await;
                if is_alive() {
                    tell(&[NotifyState::Watchdog]);
                }
            }
            None => std::future::pending().await,
        }
    }
}

/// A service manager that went away is no reason to stop closing orders.
fn tell(state: &[NotifyState<'_>]) {
    if let Err(e) = sd_notify::notify(state) {
        tracing::debug!(error = %e, "the service manager was not told");
    }
}
