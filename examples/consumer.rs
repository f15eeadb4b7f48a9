//! A consumer of events as another service would write it: the inventory, the points, the SMS gateway, each its own group, each told of
//! everything, each at its own pace. At least once: what a consumer had in hand when it died is handed out again, so the work must be
//! safe to repeat; the entry and the id name it.
//!
//! ```text
//! cargo run --example consumer -- redis://127.0.0.1:6379 orders 16 inventory host-1
//! ```

#![allow(clippy::print_stdout, reason = "an example talks to the person who runs it")]

use std::error::Error;

use redis::streams::{StreamAutoClaimReply, StreamId, StreamReadReply};
use redis::{Connection, RedisResult};

/// What a dead consumer had in hand is taken over after this; longer than any piece of work takes.
const ABANDONED_MS: usize = 60_000;

/// One consumer of one group, reading the streams of all shards of a wheel.
pub struct Consumer {
    connection: Connection,
    streams: Vec<String>,
    group: String,
    name: String,
}

/// One thing to act upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// `<stream>/<entry>/<id>`: the same for every time it is handed out. Remember it with your work, in the same transaction.
    pub key: String,
    /// `closed`, `skipped`, `cancelled`, …
    pub what: String,
    /// The order.
    pub id: String,
}

impl Consumer {
    /// A consumer of this name. The group is made where it is missing, and begins with the oldest event that is kept.
    pub fn join(url: &str, wheel: &str, shards: u32, group: &str, name: &str) -> RedisResult<Self> {
        let mut connection = redis::Client::open(url)?.get_connection()?;
        let streams: Vec<String> =
            (0..shards).map(|shard| format!("dw1:{{{wheel}.{shard}}}:events")).collect();
        for stream in &streams {
            let made: RedisResult<String> =
                redis::cmd("XGROUP").arg(&["CREATE", stream, group, "0", "MKSTREAM"]).query(&mut connection);
            match made {
                Err(e) if e.code() != Some("BUSYGROUP") => return Err(e),
                _ => {}
            }
        }
        Ok(Self { connection, streams, group: group.to_owned(), name: name.to_owned() })
    }

    /// What this consumer had in hand when it stopped, then nothing: for the start.
    pub fn unfinished(&mut self, act: &mut dyn FnMut(&Told)) -> RedisResult<usize> {
        self.read("0", 0, act)
    }

    /// What is new; waits up to `wait_ms` for it.
    pub fn next(&mut self, wait_ms: usize, act: &mut dyn FnMut(&Told)) -> RedisResult<usize> {
        self.read(">", wait_ms, act)
    }

    /// What others had in hand for so long that they must be dead.
    pub fn abandoned(&mut self, idle_ms: usize, act: &mut dyn FnMut(&Told)) -> RedisResult<usize> {
        let mut count = 0;
        for stream in self.streams.clone() {
            let found: StreamAutoClaimReply = redis::cmd("XAUTOCLAIM")
                .arg(&stream)
                .arg(&self.group)
                .arg(&self.name)
                .arg(idle_ms)
                .arg("0")
                .query(&mut self.connection)?;
            count += self.finish(&stream, &found.claimed, act)?;
        }
        Ok(count)
    }

    /// One call for all streams. In a Redis Cluster they live on several nodes: make one call for each there.
    fn read(&mut self, from: &str, wait_ms: usize, act: &mut dyn FnMut(&Told)) -> RedisResult<usize> {
        let mut cmd = redis::cmd("XREADGROUP");
        cmd.arg("GROUP").arg(&self.group).arg(&self.name).arg("COUNT").arg(100);
        if wait_ms > 0 {
            cmd.arg("BLOCK").arg(wait_ms);
        }
        cmd.arg("STREAMS").arg(&self.streams).arg(vec![from; self.streams.len()]);
        let reply: Option<StreamReadReply> = cmd.query(&mut self.connection)?;
        let mut count = 0;
        for stream in reply.map(|reply| reply.keys).unwrap_or_default() {
            count += self.finish(&stream.key, &stream.ids, act)?;
        }
        Ok(count)
    }

    /// Acts, then acknowledges: a crash in between repeats the work, and never skips it.
    fn finish(
        &mut self,
        stream: &str,
        entries: &[StreamId],
        act: &mut dyn FnMut(&Told),
    ) -> RedisResult<usize> {
        for entry in entries {
            for told in told(stream, entry) {
                act(&told);
            }
            redis::cmd("XACK")
                .arg(stream)
                .arg(&self.group)
                .arg(&entry.id)
                .query::<u64>(&mut self.connection)?;
        }
        Ok(entries.len())
    }
}

/// What one entry tells: a field for each kind of event, its ids one a line. A field with a point in its name says more about the ids of the
/// field before the point, in the same order. An entry that was trimmed while it was in hand has no fields any more.
fn told(stream: &str, entry: &StreamId) -> Vec<Told> {
    let mut all = Vec::new();
    for (what, _) in entry.map.iter().filter(|(what, _)| !what.contains('.')) {
        let ids: String = entry.get(what).unwrap_or_default();
        all.extend(ids.lines().map(|id| Told {
            key: format!("{stream}/{}/{id}", entry.id),
            what: what.clone(),
            id: id.to_owned(),
        }));
    }
    all
}

#[allow(dead_code, reason = "a test uses the consumer without the program around it")]
fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, wheel, shards, group, name] = args.as_slice() else {
        return Err("usage: consumer REDIS_URL WHEEL SHARDS GROUP NAME".into());
    };
    let mut consumer = Consumer::join(url, wheel, shards.parse()?, group, name)?;
    let mut act = |told: &Told| {
        if told.what == "closed" {
            println!("{group}: {} is closed; its stock is free again ({})", told.id, told.key);
        }
    };
    while consumer.unfinished(&mut act)? > 0 {}
    loop {
        consumer.next(1000, &mut act)?;
        consumer.abandoned(ABANDONED_MS, &mut act)?;
    }
}
