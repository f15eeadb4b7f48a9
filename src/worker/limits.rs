//! What may hold a worker back from claiming though orders are due. Nothing is lost by it: what is due stays due, and in sight.

use std::sync::Arc;

use tokio::sync::Notify;

use super::clock_guard::ClockGuard;
use super::settings::WorkerSettings;
use crate::shard::WheelName;

/// The limits of one worker on one wheel.
#[derive(Debug)]
pub struct Limits {
    /// Clocks that disagree.
    pub clocks: Arc<ClockGuard>,
    changed: Arc<Notify>,
}

impl Limits {
    pub fn new(wheel: &WheelName, settings: &WorkerSettings) -> Self {
        let changed = Arc::<Notify>::default();
        let clocks = Arc::new(ClockGuard::new(wheel.clone(), settings.skew_max, changed.clone()));
        Self { clocks, changed }
    }

    /// Why nothing is claimed just now, each reason a sentence; empty where nothing holds it back.
    pub fn reasons(&self) -> Vec<String> {
        self.clocks.stopped().into_iter().collect()
    }

    /// Waits until nothing holds claiming back.
    pub async fn opened(&self) {
        loop {
            let changed = self.changed.notified();
            if self.clocks.stopped().is_none() {
                return;
            }
            changed.await;
        }
    }
}
