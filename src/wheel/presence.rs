//! Who serves the wheel: workers say that they live, and learn of each other. Only preference hangs on it, never correctness.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Wheel, keys, reply};
use crate::clock::{Moment, Reading};
use crate::deadline::Note;
use crate::error::Result;

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
}

/// The workers that were heard of lately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Presence {
    /// Their records, by token.
    pub workers: Vec<WorkerRecord>,
}

impl Wheel {
    /// Says that a worker lives and returns all that do: heard of within `ttl`, by Redis's clock, which is returned too.
    pub async fn announce(&self, record: &WorkerRecord, ttl: Duration) -> Result<(Presence, Reading)> {
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
        let gone_before = now.saturating_sub(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
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
        Ok((self.presence().await?, clock))
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

    /// The workers that were heard of lately.
    pub async fn presence(&self) -> Result<Presence> {
        let mut cmd = redis::cmd("HVALS");
        cmd.arg(keys::of_wheel(self.name(), "roster"));
        let records = tokens(self.store().command(&cmd, "read roster").await?)?;
        let mut workers: Vec<WorkerRecord> =
            records.iter().filter_map(|record| serde_json::from_str(record).ok()).collect();
        workers.sort_by(|a, b| a.token.cmp(&b.token));
        Ok(Presence { workers })
    }

    /// When each worker was heard of last, by Redis's clock, by its token.
    pub async fn heartbeats(&self) -> Result<BTreeMap<String, Moment>> {
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
