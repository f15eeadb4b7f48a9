//! Who serves the wheel: workers say that they live and what they have in hand, and learn of each other. Only preference hangs on it, never
//! correctness.

use std::collections::BTreeMap;
use std::time::Duration;

use super::answer::Inspection;
use super::inspect::from_micros;
use super::{Wheel, keys, reply};
use crate::clock::{Moment, Reading};
use crate::deadline::Note;
use crate::error::{Result, escaped};

/// A worker that was not heard of for so long is lost. It says that it lives once a second.
pub const LOST: Duration = Duration::from_secs(4);
/// A lost worker is remembered for so long: whoever looks for an order that it had wants to know.
const REMEMBERED: Duration = Duration::from_secs(600);

/// What a worker says of itself, once a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WorkerRecord {
    /// Random for each process start; never a configured name.
    pub token: String,
    /// Host name, for people.
    pub host: String,
    /// Process id, for people.
    pub pid: u32,
    /// Version of the program.
    pub version: String,
    /// When it started, milliseconds since the epoch by its own clock.
    pub started_ms: u64,
    /// Leases in hand.
    pub in_flight: u64,
    /// Whether it drains.
    pub draining: bool,
    /// How far clocks are ahead of Redis's, in milliseconds: `host` is the worker's own, the others are databases.
    #[serde(default)]
    pub clocks: BTreeMap<String, i64>,
    /// Pauses that endpoints of its hook asked for: name, and until when, in milliseconds of Redis's clock.
    #[serde(default)]
    pub pauses: BTreeMap<String, u64>,
    /// Why it claims nothing just now, each reason a sentence; empty where nothing holds it back.
    #[serde(default)]
    pub held_back: Vec<String>,
    /// Who told it to drain, and why: it claims nothing until it is told to go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<Note>,
    /// The claims that it has in hand, the oldest first, as many as it tells of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimInHand>,
}

/// A claim whose leases a worker has in hand: all of one claim end at the same moment, so that a lease tells whose it is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ClaimInHand {
    /// Whose deadlines they are.
    pub shard: u16,
    /// When it was claimed, in milliseconds since the epoch by Redis's clock.
    pub claimed_ms: u64,
    /// The fence of the claim: hook, audit row and history carry it, also after renewals.
    pub fence: u64,
    /// When the leases end, in microseconds by Redis's clock; and after the next renewal, which may have come since.
    pub ends_us: [u64; 2],
}

impl WorkerRecord {
    /// `host, pid 77 (token)`: for people, escaped.
    pub fn named(&self) -> String {
        format!("{}, pid {} ({})", escaped(&self.host), self.pid, escaped(&self.token))
    }
}

impl ClaimInHand {
    /// When it was claimed.
    pub fn claimed_at(&self) -> Moment {
        Moment::EPOCH.plus(Duration::from_millis(self.claimed_ms))
    }
}

/// The workers of a wheel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Presence {
    /// Those that were heard of lately, by token.
    pub workers: Vec<WorkerRecord>,
    /// Those that were not, and never said that they leave, the latest first.
    pub lost: Vec<WorkerRecord>,
    /// When each of both was heard of last, by Redis's clock, by its token.
    pub heard: BTreeMap<String, Moment>,
}

/// Who has a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder<'a> {
    /// The worker.
    pub worker: &'a WorkerRecord,
    /// The claim by which it has it.
    pub claim: &'a ClaimInHand,
    /// When it was heard of last, where it is lost.
    pub lost: Option<Moment>,
}

impl Presence {
    /// Who has this deadline, where it is leased and the worker has told of the claim: a claim of the last second it has not.
    pub fn holder(&self, seen: &Inspection) -> Option<Holder<'_>> {
        let ends_us = seen.fence?.0;
        let has = |claim: &&ClaimInHand| claim.shard == seen.shard.0 && claim.ends_us.contains(&ends_us);
        let living = self.workers.iter().map(|worker| (worker, None));
        let lost = self.lost.iter().map(|worker| (worker, self.heard.get(&worker.token).copied()));
        living.chain(lost).find_map(|(worker, lost)| {
            let claim = worker.claims.iter().find(has)?;
            Some(Holder { worker, claim, lost })
        })
    }
}

impl Wheel {
    /// Says that a worker lives and returns who else does, and what Redis's clock shows.
    pub async fn announce(&self, record: &WorkerRecord) -> Result<(Presence, Reading)> {
        let text = serde_json::to_string(record).unwrap_or_default();
        let clock = self.store().read_clock().await?;
        let now = clock.us / 1000;
        let (seen, roster) = (keys::of_wheel(self.name(), "seen"), keys::of_wheel(self.name(), "roster"));
        let store = self.store();
        let mut cmd = redis::cmd("ZADD");
        cmd.arg(&seen).arg(now).arg(&record.token);
        store.command(&cmd, "announce worker").await?;
        let mut cmd = redis::cmd("HSET");
        cmd.arg(&roster).arg(&record.token).arg(text);
        store.command(&cmd, "announce worker").await?;
        let gone_before = now.saturating_sub(u64::try_from(REMEMBERED.as_millis()).unwrap_or(u64::MAX));
        let mut cmd = redis::cmd("ZRANGEBYSCORE");
        cmd.arg(&seen).arg("-inf").arg(format!("({gone_before}"));
        let gone = tokens(store.command(&cmd, "read roster").await?)?;
        if !gone.is_empty() {
            for key in [&roster, &keys::of_wheel(self.name(), "drains")] {
                let mut cmd = redis::cmd("HDEL");
                cmd.arg(key).arg(&gone);
                store.command(&cmd, "forget workers").await?;
            }
            let mut cmd = redis::cmd("ZREM");
            cmd.arg(&seen).arg(&gone);
            store.command(&cmd, "forget workers").await?;
        }
        Ok((self.presence_at(from_micros(clock.us)).await?, clock))
    }

    /// Says that a worker leaves, and forgets its last claims.
    pub async fn leave(&self, token: &str) -> Result<()> {
        let store = self.store();
        let mut cmd = redis::cmd("ZREM");
        cmd.arg(keys::of_wheel(self.name(), "seen")).arg(token);
        store.command(&cmd, "leave roster").await?;
        for key in ["roster", "drains"] {
            let mut cmd = redis::cmd("HDEL");
            cmd.arg(keys::of_wheel(self.name(), key)).arg(token);
            store.command(&cmd, "leave roster").await?;
        }
        for shard in self.shards().all() {
            let mut cmd = redis::cmd("HDEL");
            cmd.arg(&self.inner.keys[usize::from(shard.0)][0]).arg(format!("claim:{token}"));
            store.command(&cmd, "forget the last claim").await?;
        }
        Ok(())
    }

    /// Tells a worker to drain: it claims nothing more and finishes what it has in hand, and stays. It hears of it with its next heartbeat.
    /// `None` lets it go on. Answers whether there is such a worker.
    pub async fn drain_worker(&self, token: &str, note: Option<&Note>) -> Result<bool> {
        let known = self.presence().await?.workers.iter().any(|worker| worker.token == token);
        let key = keys::of_wheel(self.name(), "drains");
        let cmd = match note {
            Some(note) if known => {
                let mut cmd = redis::cmd("HSET");
                cmd.arg(key).arg(token).arg(serde_json::to_string(note).unwrap_or_default());
                cmd
            }
            Some(_) => return Ok(false),
            None => {
                let mut cmd = redis::cmd("HDEL");
                cmd.arg(key).arg(token);
                cmd
            }
        };
        self.store().command(&cmd, "drain a worker").await?;
        Ok(known)
    }

    /// Who told this worker to drain, and why.
    pub async fn drained_by(&self, token: &str) -> Result<Option<Note>> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(keys::of_wheel(self.name(), "drains")).arg(token);
        match self.store().command(&cmd, "read what a worker is told").await? {
            redis::Value::BulkString(text) => Ok(serde_json::from_slice(&text).ok()),
            _ => Ok(None),
        }
    }

    /// The workers of the wheel.
    pub async fn presence(&self) -> Result<Presence> {
        self.presence_at(from_micros(self.store().read_clock().await?.us)).await
    }

    async fn presence_at(&self, now: Moment) -> Result<Presence> {
        let heard = self.heartbeats().await?;
        let mut cmd = redis::cmd("HVALS");
        cmd.arg(keys::of_wheel(self.name(), "roster"));
        let records = tokens(self.store().command(&cmd, "read roster").await?)?;
        let mut presence = Presence::default();
        for record in records.iter().filter_map(|record| serde_json::from_str::<WorkerRecord>(record).ok()) {
            match heard.get(&record.token) {
                Some(at) if now.since(*at) <= LOST => presence.workers.push(record),
                Some(_) => presence.lost.push(record),
                // It has just left.
                None => {}
            }
        }
        presence.workers.sort_by(|a, b| a.token.cmp(&b.token));
        presence.lost.sort_by_key(|record| std::cmp::Reverse(heard.get(&record.token).copied()));
        presence.heard = heard;
        Ok(presence)
    }

    async fn heartbeats(&self) -> Result<BTreeMap<String, Moment>> {
        let mut cmd = redis::cmd("ZRANGEBYSCORE");
        cmd.arg(keys::of_wheel(self.name(), "seen")).arg("-inf").arg("+inf").arg("WITHSCORES");
        let mut seen = tokens(self.store().command(&cmd, "read roster").await?)?.into_iter();
        let mut heard = BTreeMap::new();
        while let (Some(token), Some(ms)) = (seen.next(), seen.next()) {
            let ms = ms.parse().unwrap_or_default();
            heard.insert(token, Moment::EPOCH.plus(Duration::from_millis(ms)));
        }
        Ok(heard)
    }
}

/// Why workers claim nothing just now, and how many each reason holds back; the one of most workers first.
pub fn held_back(workers: &[WorkerRecord]) -> Vec<(&str, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in workers.iter().flat_map(|worker| &worker.held_back) {
        *counts.entry(reason).or_default() += 1;
    }
    let mut reasons: Vec<_> = counts.into_iter().collect();
    reasons.sort_by_key(|(_, workers)| std::cmp::Reverse(*workers));
    reasons
}

/// The endpoints that asked for a pause that is not over, with the latest moment that any worker was told, and how many were told.
pub fn pauses(workers: &[WorkerRecord], now: Moment) -> Vec<(&str, Moment, usize)> {
    let mut pauses: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    let all = workers.iter().flat_map(|worker| &worker.pauses);
    for (name, until) in all.filter(|(_, until)| **until > now.as_millis()) {
        let known = pauses.entry(name).or_default();
        *known = (known.0.max(*until), known.1 + 1);
    }
    let moment = |until| Moment::EPOCH.plus(Duration::from_millis(until));
    pauses.into_iter().map(|(name, (until, workers))| (name, moment(until), workers)).collect()
}

fn tokens(value: redis::Value) -> Result<Vec<String>> {
    let mut reply = reply::Reply::array("roster", value)?;
    let mut words = Vec::with_capacity(reply.len());
    while reply.len() > 0 {
        words.push(reply.word()?);
    }
    Ok(words)
}
