//! What may hold a worker back from claiming though orders are due. Nothing is lost by it: what is due stays due, and in sight.

use std::sync::Arc;

use tokio::sync::Notify;

use super::clock_guard::ClockGuard;
use super::rate::{Purse, Tokens};
use super::settings::WorkerSettings;
use crate::wheel::Wheel;

/// The limits of one worker on one wheel.
#[derive(Debug)]
pub struct Limits {
    /// Clocks that disagree.
    pub clocks: Arc<ClockGuard>,
    /// The wheel's rate, where it has one.
    pub purse: Option<Arc<Purse>>,
    changed: Arc<Notify>,
}

impl Limits {
    pub fn new(wheel: &Wheel, worker: &str, settings: &WorkerSettings) -> Self {
        let changed = Arc::<Notify>::default();
        let clocks = Arc::new(ClockGuard::new(wheel.name().clone(), settings.skew_max, changed.clone()));
        let purse = settings.rate.map(|rate| Arc::new(Purse::new(wheel.clone(), worker.to_owned(), rate)));
        Self { clocks, purse, changed }
    }

    /// Why nothing is claimed just now, each reason a sentence; empty where nothing holds it back.
    pub fn reasons(&self) -> Vec<String> {
        self.clocks.stopped().into_iter().collect()
    }

    /// What one claim of at most `most` deadlines may take by the wheel's rate; `None` where it has none.
    pub async fn tokens(&self, most: usize) -> Option<Tokens> {
        match &self.purse {
            Some(purse) => Some(purse.take(most).await),
            None => None,
        }
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
