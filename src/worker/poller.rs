//! The poller of a shard: sleeps until the shard's next moment, claims what is due, hands it to the executor. It never asks for more
//! than there are free permits, and no failure ends it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::alarm::Alarm;
use super::beat::Beat;
use super::executor::Executor;
use super::health::Health;
use super::limits::Limits;
use super::measures::Measures;
use super::pulse::Pulse;
use super::rate::Tokens;
use super::roster::Preference;
use super::sentry::Gate;
use super::service::Pause;
use super::settings::WorkerSettings;
use super::tally::{Tally, add};
use crate::clock::Reading;
use crate::error::{Error, StoreKind};
use crate::shard::Shard;
use crate::wheel::{Ask, Claimed, ShardState, Wheel};

/// What a poller works with.
pub struct Parts {
    pub wheel: Wheel,
    pub shard: Shard,
    pub settings: WorkerSettings,
    pub worker: String,
    pub permits: Arc<Semaphore>,
    pub executor: Arc<Executor>,
    pub gate: Arc<Gate>,
    pub limits: Arc<Limits>,
    pub preference: Arc<Preference>,
    pub tally: Arc<Tally>,
    pub measures: Arc<Measures>,
    pub health: Arc<Health>,
    pub pulse: Arc<Pulse>,
    pub alarm: Alarm,
    pub looks: Beat,
    /// Something of the shard fires sooner than the last claim could tell.
    pub sooner: Arc<Notify>,
    pub stop: CancellationToken,
}

/// Claims from one shard.
pub struct Poller {
    parts: Parts,
    nonce: u64,
    /// One suspect at a time in the whole process; held by whoever has one in hand.
    suspect: Arc<Semaphore>,
}

/// One suspect at a time in a process: see lua/claim.lua.
fn suspect_turn() -> Arc<Semaphore> {
    use std::sync::LazyLock;
    static TURN: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(1)));
    TURN.clone()
}

impl Poller {
    pub fn new(parts: Parts) -> Self {
        Self { parts, nonce: fastrand::u64(1..u64::MAX / 2), suspect: suspect_turn() }
    }

    /// Polls until the stop; claims of the last moment are given back.
    pub async fn run(mut self) {
        let stop = self.parts.stop.clone();
        let mut pause = Pause::default();
        while !stop.is_cancelled() {
            let ready = async {
                self.parts.gate.opened().await;
                let probe = self.parts.limits.opened().await;
                let permits = self.permits(probe.is_some()).await?;
                let tokens = self.parts.limits.tokens(permits.num_permits()).await;
                Some((permits, tokens, probe))
            };
            let ready = tokio::select! {
                () = stop.cancelled() => return,
                ready = ready => ready,
            };
            let Some((permits, tokens, probe)) = ready else { return };
            // The claim itself is never cut off: its answer may hold leases, and those must be given back.
            self.parts.pulse.begin();
            let next_look = self.claim(permits, tokens, probe, &mut pause).await;
            self.parts.pulse.rest(None);
            let next_look = match next_look {
                Some(at) => at,
                None => continue,
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.parts.alarm.sleep_until(next_look) => {}
                () = self.parts.sooner.notified() => {}
            }
        }
    }

    /// What is free, up to a claim's batch; where less is free, an eighth of all at least is waited for: a backlog is drained in few large
    /// claims, which cost Redis half of what many small ones do.
    async fn permits(&self, probes: bool) -> Option<OwnedSemaphorePermit> {
        let (permits, settings) = (&self.parts.permits, &self.parts.settings);
        if probes {
            return permits.clone().acquire_owned().await.ok();
        }
        if self.parts.limits.purse.is_some() {
            // Many wait for tokens at once: nobody takes more than its shard's part of the permits into that wait.
            let part = settings.concurrency / usize::from(self.parts.wheel.shards().get());
            let count = permits.available_permits().min(part.min(settings.claim_batch)).max(1);
            return permits.clone().acquire_many_owned(u32::try_from(count).unwrap_or(1)).await.ok();
        }
        let least = settings.least_permits();
        let count = permits.available_permits().clamp(least, settings.claim_batch);
        permits.clone().acquire_many_owned(u32::try_from(count).unwrap_or(1)).await.ok()
    }

    /// One claim; when to look again, or `None` for at once.
    async fn claim(
        &mut self,
        permits: OwnedSemaphorePermit,
        tokens: Option<Tokens>,
        probe: Option<OwnedSemaphorePermit>,
        pause: &mut Pause,
    ) -> Option<Instant> {
        self.nonce += 1;
        let mut suspect_permit = self.suspect.clone().try_acquire_owned().ok();
        let sent = Instant::now();
        let limit = tokens.as_ref().map_or(permits.num_permits(), Tokens::count);
        let good_until_us = tokens.as_ref().map_or(0, |tokens| tokens.good_until_us);
        let outcome = self.ask(limit, good_until_us, suspect_permit.is_some(), sent).await;
        let claimed = match outcome {
            Ok(claimed) => claimed,
            Err(e) => {
                add(&self.parts.tally.claim_failures, 1);
                let wait = pause.lengthen();
                if pause.worth_saying() {
                    let (wheel, shard) = (self.parts.wheel.name(), self.parts.shard);
                    tracing::warn!(%wheel, %shard, error = %e, retry_in = ?wait, "claim failed");
                }
                return Some(Instant::now() + wait);
            }
        };
        pause.reset();
        if let Some(tokens) = tokens {
            tokens.settle(claimed.leases.len());
        }
        let received = Instant::now();
        add(&self.parts.tally.claims, 1);
        self.parts.health.claimed(self.parts.shard);
        self.parts.measures.claimed(&claimed);
        add(&self.parts.tally.reaped, usize::try_from(claimed.reaped).unwrap_or(0));
        if claimed.state == ShardState::Tripped {
            self.parts.limits.breaker.suspect();
        }
        if !claimed.alone {
            suspect_permit = None;
        }
        let clock = Reading { us: claimed.now_us, sent, received };
        let agreed = self.parts.limits.clocks.see_redis(clock);
        let next_look = self.next_look(&claimed, received);
        let keep = [suspect_permit, probe].into_iter().flatten().collect();
        self.hand_on(claimed, permits, keep, agreed);
        next_look
    }

    /// Asks, and asks once more with the same nonce where the answer was lost: the same leases come back, counted from the first send.
    async fn ask(
        &self,
        limit: usize,
        good_until_us: u64,
        suspect: bool,
        sent: Instant,
    ) -> crate::error::Result<Claimed> {
        let parts = &self.parts;
        let settings = &parts.settings;
        let preferred = parts.preference.prefers(parts.shard);
        let ask = Ask {
            limit,
            lease: settings.lease,
            margin: settings.lease_margin,
            worker: &parts.worker,
            nonce: self.nonce,
            suspect,
            poison_limit: settings.retry.poison_limit,
            late: if preferred { Duration::ZERO } else { settings.steal_after },
            good_until_us,
            sent,
        };
        match parts.wheel.claim(parts.shard, &ask).await {
            Err(Error::Store { kind: StoreKind::Unknown, .. }) => parts.wheel.claim(parts.shard, &ask).await,
            other => other,
        }
    }

    fn hand_on(
        &self,
        claimed: Claimed,
        mut permits: OwnedSemaphorePermit,
        keep: Vec<OwnedSemaphorePermit>,
        agreed: bool,
    ) {
        let parts = &self.parts;
        let count = claimed.leases.len();
        if count == 0 {
            return;
        }
        add(&parts.tally.claimed, count);
        // A repeated claim may bring more than was asked for now; the surplus runs on the permits that are there.
        let own = permits.split(count.min(permits.num_permits()));
        drop(permits);
        let Some(own) = own else { return };
        // What was claimed by a clock that jumped may not be due at all.
        if parts.stop.is_cancelled() || !agreed {
            parts.executor.give_back(parts.shard, claimed.leases, own);
        } else {
            parts.executor.execute(parts.shard, claimed.leases, own, keep);
        }
    }

    /// The moment to look again, on this process's clock, never later than the poll interval (with jitter); `None` for at once.
    fn next_look(&self, claimed: &Claimed, received: Instant) -> Option<Instant> {
        let ceiling = self.parts.looks.after(received);
        if claimed.state != ShardState::Running {
            return Some(ceiling);
        }
        let Some(next) = claimed.next_look else { return Some(ceiling) };
        // Redis's clock stood at now_us no later than when the answer came; counting from there is never early.
        let ahead_us = next.as_millis().saturating_mul(1000).saturating_sub(claimed.now_us);
        if ahead_us == 0 {
            return None;
        }
        Some(ceiling.min(received + Duration::from_micros(ahead_us)))
    }
}
