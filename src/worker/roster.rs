//! The roster: who serves the wheel, and which shards each one prefers. Rendezvous hashing gives every shard to one living worker;
//! the others take from it only what is late, so a wrong roster costs some lateness and nothing else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::heartbeat::Leases;
use super::limits::Limits;
use super::service::Service;
use crate::clock::Moment;
use crate::error::Result;
use crate::shard::Shard;
use crate::wheel::{Wheel, WorkerRecord};

/// A worker says that it lives this often.
const BEAT: Duration = Duration::from_secs(1);
/// It tells of so many of its claims: some 100 bytes each.
const CLAIMS: usize = 200;

/// Which shards this worker prefers.
#[derive(Debug)]
pub struct Preference {
    token: String,
    /// All of them until others are known: alone is the safe assumption.
    mine: Vec<AtomicBool>,
    workers: Mutex<Vec<String>>,
}

impl Preference {
    pub fn new(token: &str, shards: usize) -> Self {
        let mine = (0..shards).map(|_| AtomicBool::new(true)).collect();
        Self { token: token.to_owned(), mine, workers: Mutex::default() }
    }

    /// Whether this worker is the preferred one of the shard.
    pub fn prefers(&self, shard: Shard) -> bool {
        self.mine.get(usize::from(shard.0)).is_none_or(|mine| mine.load(Ordering::Relaxed))
    }

    fn update(&self, workers: Vec<String>) {
        let mut known = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        if *known == workers {
            return;
        }
        for (shard, mine) in (0_u16..).zip(&self.mine) {
            mine.store(
                preferred(&workers, shard).is_none_or(|token| *token == self.token),
                Ordering::Relaxed,
            );
        }
        *known = workers;
    }
}

/// The worker with the highest weight for a shard.
fn preferred(workers: &[String], shard: u16) -> Option<&String> {
    workers.iter().max_by_key(|token| weight(token, shard))
}

/// FNV-1a with a final mix: spread is all that is asked of it.
fn weight(token: &str, shard: u16) -> u64 {
    let bytes = token.bytes().chain(shard.to_be_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

/// The name of this host, for people.
pub fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    host.map(|name| name.trim().to_owned()).unwrap_or_default()
}

/// This process, as it presents itself.
pub fn record(token: &str) -> WorkerRecord {
    WorkerRecord {
        token: token.to_owned(),
        host: host(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_ms: Moment::host_now().as_millis(),
        in_flight: 0,
        draining: false,
        clocks: std::collections::BTreeMap::new(),
        pauses: std::collections::BTreeMap::new(),
        held_back: Vec::new(),
        drained: None,
        claims: Vec::new(),
    }
}

/// Announces this worker and learns of the others.
pub struct Roster {
    wheel: Wheel,
    record: WorkerRecord,
    parts: Parts,
    passes: u64,
}

/// What the roster tells of, and whom it tells what it learns.
pub struct Parts {
    pub preference: Arc<Preference>,
    pub leases: Arc<Leases>,
    pub limits: Arc<Limits>,
    pub stop: CancellationToken,
}

impl Roster {
    pub fn new(wheel: Wheel, record: WorkerRecord, parts: Parts) -> Self {
        Self { wheel, record, parts, passes: 0 }
    }
}

impl Service for Roster {
    const NAME: &'static str = "roster";

    async fn pass(&mut self) -> Result<Duration> {
        let parts = &self.parts;
        self.record.in_flight = parts.leases.count() as u64;
        self.record.claims = parts.leases.claims(CLAIMS);
        self.record.clocks = parts.limits.clocks.offsets();
        let now = Instant::now();
        let pauses = parts.limits.circuit.asked_pauses(now).into_iter().filter_map(|(name, left)| {
            let until_us = parts.limits.clocks.redis_us_at(now + left)?;
            Some((name, until_us / 1000))
        });
        self.record.pauses = pauses.collect();
        let told = self.wheel.drained_by(&self.record.token).await?;
        if told.is_some() != self.record.drained.is_some() {
            tracing::warn!(wheel = %self.wheel.name(), by = told.as_ref().map(|note| &note.actor), "told to drain, or to go on");
        }
        parts.limits.drain(told);
        self.record.drained = parts.limits.drained();
        self.record.draining = parts.stop.is_cancelled() || self.record.drained.is_some();
        self.record.held_back = parts.limits.reasons();
        let (presence, clock) = self.wheel.announce(&self.record).await?;
        parts.limits.clocks.see_redis(clock);
        for (endpoint, until) in presence.workers.iter().flat_map(|worker| &worker.pauses) {
            let left = until.saturating_mul(1000).saturating_sub(clock.us);
            if left > 0 {
                parts.limits.circuit.learn(endpoint, Duration::from_micros(left), clock.received);
            }
        }
        let able = presence
            .workers
            .into_iter()
            .filter(|worker| !worker.draining)
            .map(|worker| worker.token)
            .collect();
        parts.preference.update(able);
        if self.passes.is_multiple_of(10) {
            let breaker = &self.parts.limits.breaker;
            let held = self.wheel.reassert(breaker.known().as_ref()).await?;
            breaker.learn(held.trip);
        }
        self.passes += 1;
        // A pause that an endpoint asks for is told at once.
        drop(tokio::time::timeout(BEAT, self.parts.limits.circuit.pause_asked()).await);
        Ok(Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_has_one_preferred_worker_and_a_leaver_moves_only_its_own() {
        let three: Vec<String> = ["a1", "b2", "c3"].map(String::from).to_vec();
        let two: Vec<String> = ["a1", "c3"].map(String::from).to_vec();
        let mut counts = std::collections::HashMap::new();
        for shard in 0..256 {
            let before = preferred(&three, shard).unwrap();
            *counts.entry(before.clone()).or_insert(0) += 1;
            if before != "b2" {
                assert_eq!(preferred(&two, shard).unwrap(), before);
            }
        }
        assert!(counts.values().all(|count| *count > 50), "{counts:?}");
    }

    #[test]
    fn a_worker_that_knows_of_no_other_prefers_all() {
        let preference = Preference::new("a1", 4);
        assert!((0..4).all(|shard| preference.prefers(Shard(shard))));
    }
}
