//! The one loop of all background work: a pass, then a sleep until the pass says it is needed again.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::pulse::Pulse;
use crate::error::Result;

/// Background work that is done in passes.
pub trait Service: Send + 'static {
    /// An agent noun, for logs (`janitor`).
    const NAME: &'static str;

    /// For how long one pass may go on before the loop counts as stuck.
    const LONGEST: Duration = super::pulse::LONGEST;

    /// One pass; answers how long until the next one is needed.
    fn pass(&mut self) -> impl Future<Output = Result<Duration>> + Send;
}

/// The longest pause after a pass that failed: what is due when Redis comes back must not wait for longer than it takes to notice, and
/// one refused call a second burdens nobody.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Drives a service until `end`. A failed pass only delays the next one; nothing but `end` ends the loop.
pub async fn drive<S: Service>(service: S, end: CancellationToken) {
    drive_watched(service, end, Arc::new(Pulse::new(S::NAME, S::LONGEST))).await;
}

/// The same, with a pulse of the loop that is looked at.
pub async fn drive_watched<S: Service>(mut service: S, end: CancellationToken, pulse: Arc<Pulse>) {
    let mut pause = Pause::default();
    loop {
        pulse.begin();
        let pass = tokio::select! {
            () = end.cancelled() => return,
            pass = service.pass() => pass,
        };
        let wait = match pass {
            Ok(wait) => {
                pause.reset();
                wait
            }
            Err(e) => {
                let wait = pause.lengthen();
                if pause.worth_saying() {
                    tracing::warn!(service = S::NAME, error = %e, retry_in = ?wait, "pass failed");
                }
                wait
            }
        };
        pulse.rest(Some(wait));
        tokio::select! {
            () = end.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// A growing pause after failures: 50 ms doubling to 1 s, with jitter so that a fleet does not come back in step.
#[derive(Debug, Default)]
pub struct Pause {
    failures: u32,
}

impl Pause {
    /// The next pause.
    pub fn lengthen(&mut self) -> Duration {
        let nominal = Duration::from_millis(50).saturating_mul(1 << self.failures.min(10)).min(MAX_PAUSE);
        self.failures = self.failures.saturating_add(1);
        nominal.mul_f64(0.75 + fastrand::f64() * 0.5)
    }

    /// Begins anew.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Whether this failure should be said: the first, and then now and then.
    pub fn worth_saying(&self) -> bool {
        self.failures <= 1 || self.failures.is_multiple_of(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, StoreKind};
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Shaky(Arc<AtomicU32>);

    impl Service for Shaky {
        const NAME: &'static str = "shaky";

        async fn pass(&mut self) -> Result<Duration> {
            match self.0.fetch_add(1, Ordering::SeqCst) {
                n if n < 3 => Err(Error::Store {
                    kind: StoreKind::Busy,
                    attempted: "pass".into(),
                    message: "BUSY".into(),
                }),
                _ => Ok(Duration::from_secs(1)),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_pass_only_delays_the_next_one() {
        let passes = Arc::new(AtomicU32::new(0));
        let end = CancellationToken::new();
        let loop_ = tokio::spawn(drive(Shaky(passes.clone()), end.clone()));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(passes.load(Ordering::SeqCst) > 8);
        end.cancel();
        loop_.await.unwrap();
    }

    #[test]
    fn the_pause_is_capped() {
        let mut pause = Pause::default();
        for _ in 0..100 {
            assert!(pause.lengthen() <= MAX_PAUSE.mul_f64(1.25));
        }
    }
}
