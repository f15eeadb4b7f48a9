//! A hook that a test scripts: it remembers every call and answers what the test says.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use duewheel::error::Result;
use duewheel::hook::{BoxFuture, Hook, Verdict};
use duewheel::lease::Lease;
use duewheel::shard::WheelName;

type Script = dyn Fn(&Lease) -> Verdict + Send + Sync;

/// Answers by a function, after a wait; keeps what it was called with.
pub struct Recorder {
    script: Box<Script>,
    wait: Duration,
    batch: usize,
    pub calls: Mutex<Vec<Call>>,
}

/// One lease of one call.
#[derive(Debug, Clone)]
pub struct Call {
    pub id: String,
    pub attempt: u32,
    pub fence: u64,
    pub lateness_us: i64,
    pub batch: usize,
    /// Redis's clock when it was claimed, in microseconds.
    pub claimed_us: u64,
}

impl Recorder {
    pub fn new(script: impl Fn(&Lease) -> Verdict + Send + Sync + 'static) -> Self {
        Self { script: Box::new(script), wait: Duration::ZERO, batch: 500, calls: Mutex::default() }
    }

    pub fn closing() -> Self {
        Self::new(|_| Verdict::Closed)
    }

    pub fn taking(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    pub fn one_by_one(self) -> Self {
        self.of_at_most(1)
    }

    pub fn of_at_most(self, batch: usize) -> Self {
        Self { batch, ..self }
    }

    pub fn count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    pub fn of(&self, id: &str) -> Vec<Call> {
        self.calls.lock().unwrap().iter().filter(|call| call.id == id).cloned().collect()
    }
}

impl Hook for Recorder {
    fn judge<'a>(&'a self, _: &'a WheelName, leases: &'a [Lease]) -> BoxFuture<'a, Vec<Verdict>> {
        Box::pin(async move {
            let now = Instant::now();
            {
                let mut calls = self.calls.lock().unwrap();
                calls.extend(leases.iter().map(|lease| Call {
                    id: lease.id.as_str().to_owned(),
                    attempt: lease.attempt,
                    fence: lease.fence.0,
                    lateness_us: lease.lateness_us(now),
                    batch: leases.len(),
                    claimed_us: lease.redis_clock.us,
                }));
            }
            if !self.wait.is_zero() {
                tokio::time::sleep(self.wait).await;
            }
            leases.iter().map(|lease| (self.script)(lease)).collect()
        })
    }

    fn timeout(&self) -> Duration {
        self.wait + Duration::from_millis(200)
    }

    fn batch_size(&self) -> usize {
        self.batch
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
