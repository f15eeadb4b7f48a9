//! The health of one worker. *Alive*: each of its loops goes on. *Ready*: a claim has succeeded lately on each shard that is its own; a
//! Redis that answers PING and refuses scripts is no healthy one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::pulse::Pulse;
use super::roster::Preference;
use crate::shard::{Shard, WheelName};

/// A claim that succeeded longer ago than this says nothing about now. Shards are looked at four times a second.
const LATELY: Duration = Duration::from_secs(5);

/// What a worker knows of its own health.
#[derive(Debug)]
pub struct Health {
    wheel: WheelName,
    began: Instant,
    /// Of each shard, when a claim succeeded last: milliseconds since `began`, and one; 0 for never.
    claims: Vec<AtomicU64>,
    pulses: Mutex<Vec<Arc<Pulse>>>,
    running: OnceLock<Running>,
}

/// What belongs to a run.
#[derive(Debug)]
pub(super) struct Running {
    pub stop: CancellationToken,
    pub preference: Arc<Preference>,
    pub permits: Arc<Semaphore>,
    /// With fewer free permits than this no poller claims: the worker is busy, which is no illness.
    pub least_permits: usize,
    /// Between two looks at a shard.
    pub looks: Duration,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What: `orders claims`, `orders janitor`.
    pub name: String,
    /// What is wrong with it; `None` where it is well.
    pub problem: Option<String>,
}

impl Health {
    pub(super) fn new(wheel: WheelName, shards: usize) -> Self {
        Self {
            wheel,
            began: Instant::now(),
            claims: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            pulses: Mutex::default(),
            running: OnceLock::new(),
        }
    }

    /// A pulse for a loop of this worker.
    pub fn pulse(&self, name: &str, longest: Duration) -> Arc<Pulse> {
        let pulse = Arc::new(Pulse::new(name, longest));
        self.pulses.lock().unwrap_or_else(PoisonError::into_inner).push(pulse.clone());
        pulse
    }

    pub(super) fn run(&self, running: Running) {
        // A worker that is run twice keeps the parts of its first run; nobody does that.
        let _ = self.running.set(running);
    }

    /// A claim has succeeded.
    pub(super) fn claimed(&self, shard: Shard) {
        if let Some(claim) = self.claims.get(usize::from(shard.0)) {
            let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            claim.store(ms.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Whether each loop goes on.
    pub fn alive(&self) -> Vec<Check> {
        let now = Instant::now();
        let pulses = self.pulses.lock().unwrap_or_else(PoisonError::into_inner);
        let check = |pulse: &Arc<Pulse>| Check {
            name: format!("{} {}", self.wheel, pulse.name()),
            problem: pulse.stuck(now),
        };
        pulses.iter().map(check).collect()
    }

    /// Whether work is being done. False from the moment on that the worker is told to stop.
    pub fn ready(&self) -> Vec<Check> {
        let check = |what: &str, problem| Check { name: format!("{} {what}", self.wheel), problem };
        let Some(running) = self.running.get() else {
            let problem = "not serving yet: Redis or the hook is being waited for";
            return vec![check("serving", Some(problem.to_owned()))];
        };
        let draining = running.stop.is_cancelled().then(|| "draining".to_owned());
        vec![check("serving", draining), check("claims", self.unclaimed(running))]
    }

    fn unclaimed(&self, running: &Running) -> Option<String> {
        if running.permits.available_permits() < running.least_permits {
            return None;
        }
        let lately = LATELY + 4 * running.looks;
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let lately_ms = u64::try_from(lately.as_millis()).unwrap_or(u64::MAX);
        let mut stale = Vec::new();
        for (shard, claim) in (0_u16..).zip(&self.claims) {
            let at = claim.load(Ordering::Relaxed);
            if running.preference.prefers(Shard(shard)) && (at == 0 || now_ms.saturating_sub(at) > lately_ms)
            {
                stale.push(shard.to_string());
            }
        }
        let count = stale.len();
        let shown = stale.into_iter().take(8).collect::<Vec<_>>().join(", ");
        (count > 0).then(|| format!("no claim within {} s on {count} shards: {shown}", lately.as_secs()))
    }
}
