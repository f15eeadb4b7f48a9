//! How busy this machine is while a promise about time is held: what a thread that sleeps 5 ms at a time oversleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(5);
/// What a quiet machine oversleeps, too.
const USUAL: Duration = Duration::from_millis(1);

/// Measures from its making on.
pub struct Strain {
    stop: Arc<AtomicBool>,
    lost_us: Arc<AtomicU64>,
}

impl Strain {
    pub fn start() -> Self {
        let strain = Self { stop: Arc::default(), lost_us: Arc::default() };
        let (stop, lost_us) = (strain.stop.clone(), strain.lost_us.clone());
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(NAP);
                let lost = began.elapsed().saturating_sub(NAP + USUAL);
                lost_us.fetch_add(u64::try_from(lost.as_micros()).unwrap_or(0), Ordering::Relaxed);
            }
        });
        strain
    }

    /// The promise, and what this machine has kept a thread waiting for meanwhile: nothing, where it does nothing else.
    pub fn allows(&self, promise: Duration) -> Duration {
        let lost = Duration::from_micros(self.lost_us.load(Ordering::Relaxed));
        println!("promised {promise:?}; the machine lost {lost:?}");
        promise + lost
    }
}

impl Drop for Strain {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
