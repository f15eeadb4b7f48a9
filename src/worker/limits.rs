//! What may hold a worker back from claiming though orders are due. Nothing is lost by it: what is due stays due, and in sight.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::breaker::Breaker;
use super::circuit::{Circuit, Pass};
use super::clock_guard::ClockGuard;
use super::rate::{Purse, Tokens};
use super::settings::WorkerSettings;
use crate::deadline::Note;
use crate::wheel::Wheel;

/// The limits of one worker on one wheel.
#[derive(Debug)]
pub struct Limits {
    /// Closes beyond their band.
    pub breaker: Arc<Breaker>,
    /// Clocks that disagree.
    pub clocks: Arc<ClockGuard>,
    /// Whether the hook can be asked.
    pub circuit: Circuit,
    /// The wheel's rate, where it has one.
    pub purse: Option<Arc<Purse>>,
    changed: Arc<Notify>,
    /// Who told this worker to drain, and why.
    drained: Mutex<Option<Note>>,
}

impl Limits {
    pub fn new(wheel: &Wheel, worker: &str, endpoints: Vec<String>, settings: &WorkerSettings) -> Self {
        let changed = Arc::<Notify>::default();
        let clocks = Arc::new(ClockGuard::new(wheel.name().clone(), settings.skew_max, changed.clone()));
        let purse = settings.rate.map(|rate| Arc::new(Purse::new(wheel.clone(), worker.to_owned(), rate)));
        let name = wheel.name().clone();
        let circuit = Circuit::new(name, settings.circuit.clone(), endpoints, changed.clone());
        let who = format!("{}:{}", super::roster::host(), std::process::id());
        let breaker = Arc::new(Breaker::new(wheel.clone(), settings.band, who, changed.clone()));
        Self { breaker, clocks, circuit, purse, changed, drained: Mutex::default() }
    }

    /// Why nothing is claimed just now, each reason a sentence; empty where nothing holds it back.
    pub fn reasons(&self) -> Vec<String> {
        let drained = self.drained().map(|note| {
            let (who, why) = (crate::error::escaped(&note.actor), crate::error::escaped(&note.reason));
            format!("{who} drained this worker: {why}")
        });
        let stopped = [drained, self.breaker.reason(), self.clocks.stopped()].into_iter().flatten();
        stopped.chain(self.circuit.reasons(Instant::now())).collect()
    }

    /// Who told this worker to drain, and why.
    pub fn drained(&self) -> Option<Note> {
        self.drained.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes over what the worker was told.
    pub fn drain(&self, note: Option<Note>) {
        let mut drained = self.drained.lock().unwrap_or_else(PoisonError::into_inner);
        if *drained != note {
            *drained = note;
            self.changed.notify_waiters();
        }
    }

    /// What one claim of at most `most` deadlines may take by the wheel's rate; `None` where it has none.
    pub async fn tokens(&self, most: usize) -> Option<Tokens> {
        match &self.purse {
            Some(purse) => Some(purse.take(most).await),
            None => None,
        }
    }

    /// Waits until nothing holds claiming back; answers a permit where only a probe may be claimed, which ends with it.
    pub async fn opened(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let changed = self.changed.notified();
            if self.breaker.is_tripped() || self.clocks.stopped().is_some() || self.drained().is_some() {
                changed.await;
                continue;
            }
            match self.circuit.pass(Instant::now()) {
                Pass::Open => return None,
                Pass::Held(until) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep_until(until.into()) => {}
                },
                Pass::Probe => {
                    let probe = tokio::select! {
                        () = changed => continue,
                        probe = self.circuit.probe() => probe,
                    };
                    // While it was waited for, another probe has told more.
                    if self.circuit.pass(Instant::now()) == Pass::Probe {
                        return probe;
                    }
                }
            }
        }
    }
}
