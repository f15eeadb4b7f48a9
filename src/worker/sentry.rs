//! The sentry: proves at start and every ten seconds, on a scratch shard, that Redis lets every script run to its end, and closes the
//! gate when it does not. A right that was taken away is met there and not in the middle of a live shard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::service::Service;
use crate::error::{Result, StoreKind};
use crate::wheel::Wheel;

/// Whether claiming is allowed.
#[derive(Debug, Default)]
pub struct Gate {
    open: AtomicBool,
    changed: tokio::sync::Notify,
}

impl Gate {
    /// Whether claiming is allowed right now.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Waits until claiming is allowed.
    pub async fn opened(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_open() {
                return;
            }
            changed.await;
        }
    }

    fn set(&self, open: bool) {
        self.open.store(open, Ordering::Release);
        self.changed.notify_waiters();
    }
}

/// Runs the self-test.
pub struct Sentry {
    wheel: Wheel,
    worker: String,
    gate: Arc<Gate>,
}

impl Sentry {
    pub fn new(wheel: Wheel, worker: String, gate: Arc<Gate>) -> Self {
        Self { wheel, worker, gate }
    }
}

impl Sentry {
    /// A policy that throws keys away takes orders with it, and nothing of that is ever an error. Whoever set it must be told; draining
    /// what is still there goes on.
    async fn look_at_policy(&self) {
        if let Ok(facts) = self.wheel.store().facts().await
            && let Some(policy) = facts.field("maxmemory_policy")
            && policy != "noeviction"
        {
            tracing::error!(
                policy,
                "redis may throw orders away when memory is full; set maxmemory-policy to noeviction"
            );
        }
    }
}

impl Service for Sentry {
    const NAME: &'static str = "sentry";

    async fn pass(&mut self) -> Result<Duration> {
        self.look_at_policy().await;
        match self.wheel.selftest(&self.worker).await {
            Ok(()) => {
                self.gate.set(true);
                Ok(Duration::from_secs(10))
            }
            Err(e) => {
                // What passes by itself (memory full, loading, unreachable) is met by each call on its own; a live shard's scripts
                // read all they need before they write. What does not pass by itself must not touch a live shard.
                let lasting =
                    e.store_kind().is_none_or(|kind| !kind.is_temporary() && kind != StoreKind::Unknown);
                if lasting {
                    self.gate.set(false);
                    tracing::error!(error = %e, "self-test refused; claiming stops until it passes");
                } else if e.store_kind() == Some(StoreKind::OutOfMemory) {
                    // Enqueue is refused while memory is full; draining goes on, also for a worker that starts just then.
                    self.gate.set(true);
                    return Ok(Duration::from_secs(10));
                }
                Err(e)
            }
        }
    }
}
