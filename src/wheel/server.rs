//! What Redis says of itself: version, role, memory, persistence. Rights that are missing are named, not met as errors.

use std::collections::BTreeMap;
use std::time::Instant;

use redis::Value;

use super::{Store, reply};
use crate::clock::Reading;
use crate::error::{Error, Result, StoreKind};

/// What Redis says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerFacts {
    info: BTreeMap<String, String>,
    /// `appendfsync`, where it may be asked.
    pub appendfsync: Option<String>,
    /// What the user of the program may not ask.
    pub unseen: Vec<&'static str>,
}

impl ServerFacts {
    /// A field of `INFO`.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    /// `redis` or `valkey`, and its version as numbers.
    pub fn version(&self) -> Option<(&'static str, Vec<u32>)> {
        let (name, text) = match self.field("valkey_version") {
            Some(version) => ("valkey", version),
            None => ("redis", self.field("redis_version")?),
        };
        Some((name, text.split('.').map_while(|n| n.parse().ok()).collect()))
    }
}

impl Store {
    /// Asks Redis about itself.
    pub async fn facts(&self) -> Result<ServerFacts> {
        let mut facts = ServerFacts::default();
        match self.command_if_allowed(&redis::cmd("INFO"), "ask Redis about itself").await {
            // The nodes of a Cluster, each by its address: the one with most to say against it stands for all.
            Ok(Value::Map(nodes)) => {
                let read = nodes.into_iter().map(|(_, text)| info_of(text));
                let read = read.collect::<Result<Vec<_>>>()?;
                facts.info = read.into_iter().max_by_key(doubts).unwrap_or_default();
            }
            Ok(value) => facts.info = info_of(value)?,
            Err(e) => facts.unseen.push(denied(e, "INFO")?),
        }
        let mut ask = redis::cmd("CONFIG");
        ask.arg("GET").arg("appendfsync");
        match self.command_if_allowed(&ask, "ask Redis about its configuration").await {
            Ok(Value::Array(pair)) => facts.appendfsync = pair.into_iter().nth(1).and_then(word),
            Ok(Value::Map(pairs)) => facts.appendfsync = pairs.into_iter().next().and_then(|(_, v)| word(v)),
            Ok(_) => facts.unseen.push("CONFIG GET"),
            Err(e) => facts.unseen.push(denied(e, "CONFIG GET")?),
        }
        Ok(facts)
    }

    /// Redis's clock in microseconds since the epoch.
    pub async fn time_us(&self) -> Result<u64> {
        let value = self.command(&redis::cmd("TIME"), "read Redis's clock").await?;
        let mut reply = reply::Reply::array("TIME", value)?;
        let (seconds, micros) = (reply.u64()?, reply.u64()?);
        Ok(seconds.saturating_mul(1_000_000).saturating_add(micros))
    }

    /// Reads Redis's clock.
    pub async fn read_clock(&self) -> Result<Reading> {
        let sent = Instant::now();
        let us = self.time_us().await?;
        Ok(Reading { us, sent, received: Instant::now() })
    }
}

/// The fields of `INFO`.
fn info_of(value: Value) -> Result<BTreeMap<String, String>> {
    let text = reply::bytes("INFO", value)?;
    let text = String::from_utf8_lossy(&text);
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    Ok(fields.map(|(k, v)| (k.to_owned(), v.trim().to_owned())).collect())
}

/// How much speaks against trusting this primary with deadlines. Replicas of a Cluster do not count: no call goes to one.
fn doubts(info: &BTreeMap<String, String>) -> u8 {
    let is = |name: &str, value: &str| info.get(name).is_some_and(|text| text == value);
    if is("role", "slave") {
        return 0;
    }
    1 + 4 * u8::from(!is("maxmemory_policy", "noeviction"))
        + 2 * u8::from(!is("aof_enabled", "1"))
        + u8::from(!is("aof_last_write_status", "ok"))
}

fn word(value: Value) -> Option<String> {
    reply::bytes("CONFIG", value).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A missing right, or a command that was renamed away, is a fact; anything else is an error.
fn denied(error: Error, command: &'static str) -> Result<&'static str> {
    match error.store_kind() {
        Some(StoreKind::Denied | StoreKind::Other) => Ok(command),
        _ => Err(error),
    }
}
