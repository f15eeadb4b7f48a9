//! Waking on time. The runtime's timer rounds up to a millisecond, and a millisecond is the whole lateness we want; so the last stretch
//! of a sleep is kept by one thread that waits with the precision of the system.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// The stretch that the thread keeps; longer than the runtime's rounding.
const FINE: Duration = Duration::from_millis(3);

/// Wakes sleepers within some tens of microseconds. Cheap to clone; the thread ends with the last clone.
#[derive(Clone)]
pub struct Alarm {
    orders: Sender<Order>,
    numbers: Arc<AtomicU64>,
}

struct Order {
    at: Instant,
    number: u64,
    wake: oneshot::Sender<()>,
}

impl Alarm {
    /// Starts the thread.
    pub fn start() -> Self {
        let (orders, inbox) = channel();
        // Without the thread sleepers are woken by the runtime's timer alone: late by a millisecond, but woken.
        if let Err(e) = std::thread::Builder::new().name("alarm".to_owned()).spawn(move || keep(&inbox)) {
            tracing::warn!(error = %e, "no alarm thread; lateness grows by about a millisecond");
        }
        Self { orders, numbers: Arc::default() }
    }

    /// Sleeps until `at`. Dropping the future is safe.
    pub async fn sleep_until(&self, at: Instant) {
        let left = at.saturating_duration_since(Instant::now());
        if left > FINE {
            tokio::time::sleep(left - FINE).await;
        }
        if at <= Instant::now() {
            return;
        }
        let (wake, woken) = oneshot::channel();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        if self.orders.send(Order { at, number, wake }).is_err() || woken.await.is_err() {
            tokio::time::sleep_until(at.into()).await;
        }
    }
}

fn keep(inbox: &Receiver<Order>) {
    let mut waiting: BinaryHeap<Reverse<(Instant, u64)>> = BinaryHeap::new();
    let mut wakes = std::collections::HashMap::new();
    loop {
        let next = match waiting.peek() {
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(Reverse((at, _))) => inbox.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match next {
            Ok(order) => {
                waiting.push(Reverse((order.at, order.number)));
                wakes.insert(order.number, order.wake);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        while let Some(Reverse((at, number))) = waiting.peek().copied() {
            if at > now {
                break;
            }
            waiting.pop();
            if let Some(wake) = wakes.remove(&number) {
                // A sleeper that gave up is no longer there to be woken.
                wake.send(()).ok();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleeper_is_never_woken_early() {
        let alarm = Alarm::start();
        for micros in [0, 100, 900, 2_500, 7_300] {
            let at = Instant::now() + Duration::from_micros(micros);
            alarm.sleep_until(at).await;
            assert!(Instant::now() >= at);
        }
    }
}
