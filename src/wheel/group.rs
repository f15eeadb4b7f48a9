//! The events of a wheel read as a consumer group: each entry is handed out until it is acknowledged, so that whoever tells others loses
//! none when it dies in between.

use redis::Value;

use super::events::{StreamEntry, entries};
use super::{ShardEvent, Wheel};
use crate::error::Result;
use crate::shard::Shard;

/// Stream entries handed out at once; each may tell of up to 500 ids.
const PAGE: usize = 20;

/// A consumer of a group on the streams of all shards.
#[derive(Debug, Clone)]
pub struct EventGroup {
    wheel: Wheel,
    group: String,
    consumer: String,
}

/// One entry that was handed out.
#[derive(Debug)]
pub struct HandedOut {
    /// `<ms>-<n>`: what is acknowledged.
    pub stamp: String,
    /// What it tells; nothing where it was trimmed away meanwhile.
    pub events: Vec<ShardEvent>,
}

impl Wheel {
    /// Joins a group under a consumer's name. A group that is new, or was lost with Redis, begins with the oldest event that is kept.
    pub async fn join_group(&self, group: &str, consumer: &str) -> Result<EventGroup> {
        let joined =
            EventGroup { wheel: self.clone(), group: group.to_owned(), consumer: consumer.to_owned() };
        for shard in self.shards().all() {
            joined.create(shard).await?;
        }
        Ok(joined)
    }
}

impl EventGroup {
    /// What this consumer's name had in hand and never acknowledged, from the oldest on.
    pub async fn unfinished(&self, shard: Shard) -> Result<Vec<HandedOut>> {
        self.read(shard, "0").await
    }

    /// What nobody of the group was handed yet.
    pub async fn next(&self, shard: Shard) -> Result<Vec<HandedOut>> {
        self.read(shard, ">").await
    }

    /// Acknowledges entries; they are not handed out again.
    pub async fn acknowledge(&self, shard: Shard, handed_out: &[HandedOut]) -> Result<()> {
        if handed_out.is_empty() {
            return Ok(());
        }
        let mut cmd = redis::cmd("XACK");
        cmd.arg(self.key(shard)).arg(&self.group);
        for one in handed_out {
            cmd.arg(&one.stamp);
        }
        self.wheel.store().command(&cmd, &format!("acknowledge events of shard {shard}")).await.map(drop)
    }

    async fn create(&self, shard: Shard) -> Result<()> {
        let mut cmd = redis::cmd("XGROUP");
        cmd.arg("CREATE").arg(self.key(shard)).arg(&self.group).arg("0").arg("MKSTREAM");
        match self.wheel.store().command(&cmd, &format!("make group {} on shard {shard}", self.group)).await {
            Err(e) if !e.to_string().contains("BUSYGROUP") => Err(e),
            _ => Ok(()),
        }
    }

    /// Never waits in Redis: the connection is everybody's.
    async fn read(&self, shard: Shard, from: &str) -> Result<Vec<HandedOut>> {
        let mut cmd = redis::cmd("XREADGROUP");
        cmd.arg("GROUP").arg(&self.group).arg(&self.consumer).arg("COUNT").arg(PAGE);
        cmd.arg("STREAMS").arg(self.key(shard)).arg(from);
        let attempted = format!("read events of shard {shard} as group {}", self.group);
        let value = match self.wheel.store().command(&cmd, &attempted).await {
            // Redis was emptied: the group begins anew with whatever is written from now on.
            Err(e) if e.to_string().contains("NOGROUP") => {
                self.create(shard).await?;
                return Ok(Vec::new());
            }
            other => other?,
        };
        let Some(page) = of_the_only_stream(value) else { return Ok(Vec::new()) };
        let handed_out = |entry: StreamEntry| HandedOut {
            stamp: entry.stamp.clone(),
            events: entry.events(shard, super::events::stamp_ms(&entry.stamp)),
        };
        Ok(entries("events", page)?.into_iter().map(handed_out).collect())
    }

    fn key(&self, shard: Shard) -> &str {
        let keys = &self.wheel.inner.keys;
        &keys[usize::from(shard.0) % keys.len()][8]
    }
}

/// The entries in a reply to XREADGROUP of one stream; `None` where there are none.
fn of_the_only_stream(value: Value) -> Option<Value> {
    match value {
        Value::Array(mut streams) => match streams.pop()? {
            Value::Array(mut name_and_entries) => name_and_entries.pop(),
            _ => None,
        },
        Value::Map(mut streams) => streams.pop().map(|(_, entries)| entries),
        _ => None,
    }
}
