//! The purse: a worker's tokens of the wheel's rate. Whoever wants to claim takes some first, in the order of asking, so that no shard
//! starves; what is not used goes back, at once to the others of this worker and soon to the bucket in Redis.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::service::{Pause, Service};
use crate::error::Result;
use crate::wheel::{Rate, Wheel, Wish};

/// For how long tokens are good. Long enough for a claim on a slow day; what a killed worker held is lost for this long.
const GOOD: Duration = Duration::from_millis(250);
/// Tokens that nobody has wanted for this long go back to the bucket.
const LINGER: Duration = Duration::from_millis(100);
/// The longest sleep before the bucket is asked again.
const MOST_WAIT: Duration = Duration::from_millis(250);

/// A worker's tokens.
#[derive(Debug)]
pub struct Purse {
    wheel: Wheel,
    worker: String,
    rate: Rate,
    /// Whose turn it is to take; served in order.
    turn: tokio::sync::Mutex<()>,
    waiting: AtomicUsize,
    /// Times that the bucket had nothing for a worker that wanted some.
    throttled: AtomicU64,
    held: Mutex<Held>,
    returned: Notify,
}

#[derive(Debug)]
struct Held {
    /// Not in use.
    free: usize,
    /// In claims under way.
    in_use: usize,
    /// Unused, and to be given back with the next call.
    back: usize,
    /// In claims of which it is not known whether they happened, or may happen yet; with the moment from which they cannot any more.
    doubtful: Vec<(Instant, usize)>,
    good_until_us: u64,
    /// Until when the free ones are good, on this process's clock.
    trusted_until: Instant,
    /// What Redis believes this worker to hold.
    booked: usize,
    asked_at: Instant,
}

/// Tokens for one claim. Dropped without [`Tokens::settle`], they count as used.
#[derive(Debug)]
pub struct Tokens {
    purse: Arc<Purse>,
    count: usize,
    /// Until when they are good, by Redis's clock in microseconds.
    pub good_until_us: u64,
}

impl Purse {
    /// An empty purse.
    pub fn new(wheel: Wheel, worker: String, rate: Rate) -> Self {
        let now = Instant::now();
        let held = Held {
            free: 0,
            in_use: 0,
            back: 0,
            doubtful: Vec::new(),
            good_until_us: 0,
            trusted_until: now,
            booked: 0,
            asked_at: now,
        };
        Self {
            wheel,
            worker,
            rate,
            turn: tokio::sync::Mutex::default(),
            waiting: AtomicUsize::new(0),
            throttled: AtomicU64::new(0),
            held: Mutex::new(held),
            returned: Notify::new(),
        }
    }

    /// Takes one to `most` tokens; waits until there are some. Dropping the future is safe.
    pub async fn take(self: &Arc<Self>, most: usize) -> Tokens {
        let _waiting = Waiting::new(&self.waiting);
        let _turn = self.turn.lock().await;
        let mut pause = Pause::default();
        loop {
            let returned = self.returned.notified();
            if let Some(tokens) = self.take_free(most) {
                return tokens;
            }
            let wait = match self.ask(most).await {
                Ok(Duration::ZERO) => continue,
                Ok(wait) => wait.min(MOST_WAIT),
                Err(e) => {
                    let wait = pause.lengthen();
                    if pause.worth_saying() {
                        tracing::warn!(wheel = %self.wheel.name(), error = %e, retry_in = ?wait, "no tokens of the rate");
                    }
                    wait
                }
            };
            tokio::select! {
                () = returned => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn take_free(self: &Arc<Self>, most: usize) -> Option<Tokens> {
        let mut held = self.lock();
        held.expire(Instant::now());
        let count = held.free.min(most);
        if count == 0 {
            return None;
        }
        held.free -= count;
        held.in_use += count;
        Some(Tokens { purse: self.clone(), count, good_until_us: held.good_until_us })
    }

    /// Settles with the bucket and asks for so many; answers how long to wait before asking again, zero where some were granted.
    async fn ask(&self, want: usize) -> Result<Duration> {
        let sent = Instant::now();
        let wish = {
            let mut held = self.lock();
            held.expire(sent);
            held.asked_at = sent;
            let doubtful: usize = held.doubtful.iter().map(|(_, count)| count).sum();
            Wish { held: held.free + held.in_use + doubtful, back: std::mem::take(&mut held.back), want }
        };
        // Where the answer is lost, what was granted is lost with it, until it would be no good any more.
        let grant = self.wheel.grant(self.rate, &self.worker, wish, GOOD).await?;
        let mut held = self.lock();
        if grant.kept < wish.held {
            held.free = 0;
        }
        held.free += grant.granted;
        held.booked = wish.held + grant.granted;
        held.good_until_us = grant.good_until_us;
        held.trusted_until = sent + GOOD;
        if grant.granted > 0 || want == 0 {
            return Ok(Duration::ZERO);
        }
        self.throttled.fetch_add(1, Ordering::Relaxed);
        Ok(grant.wait.max(Duration::from_millis(1)))
    }

    /// How often the bucket had nothing to give.
    pub fn throttled(&self) -> u64 {
        self.throttled.load(Ordering::Relaxed)
    }

    /// Gives back what nobody wanted, and tells what was used since the last call.
    async fn tidy(&self) -> Result<()> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        let Ok(_turn) = self.turn.try_lock() else { return Ok(()) };
        {
            let now = Instant::now();
            let mut held = self.lock();
            held.expire(now);
            if now.saturating_duration_since(held.asked_at) < LINGER
                || held.free + held.in_use + held.back == 0 && held.booked == 0
            {
                return Ok(());
            }
            held.back += std::mem::take(&mut held.free);
        }
        self.ask(0).await.map(drop)
    }

    /// Gives everything back, at the end of the work.
    pub async fn close(&self) {
        let _turn = self.turn.lock().await;
        {
            let mut held = self.lock();
            held.back += std::mem::take(&mut held.free);
        }
        // Where it does not succeed the tokens end by themselves.
        drop(self.ask(0).await);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Forgets what is no good any more.
    fn expire(&mut self, now: Instant) {
        if now >= self.trusted_until {
            self.back += std::mem::take(&mut self.free);
        }
        self.doubtful.retain(|(until, _)| *until > now);
    }
}

impl Tokens {
    /// How many.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The claim has leased `used` with them; the others were not needed.
    pub fn settle(mut self, used: usize) {
        let count = std::mem::take(&mut self.count);
        let mut held = self.purse.lock();
        held.in_use -= count;
        held.free += count.saturating_sub(used);
        drop(held);
        if used < count {
            self.purse.returned.notify_waiters();
        }
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        if self.count > 0 {
            // The claim may have happened, or may still be on its way.
            let mut held = self.purse.lock();
            held.in_use -= self.count;
            held.doubtful.push((Instant::now() + GOOD, self.count));
        }
    }
}

/// Counts who waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Keeps the purse tidy.
pub struct Purser(pub Arc<Purse>);

impl Service for Purser {
    const NAME: &'static str = "purser";

    async fn pass(&mut self) -> Result<Duration> {
        self.0.tidy().await?;
        Ok(LINGER)
    }
}
