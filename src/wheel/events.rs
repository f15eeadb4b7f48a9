//! The events of all shards as one stream, oldest first: for whoever watches, by hand or from the library. Whoever must not miss one
//! while it is away reads the streams as a consumer group instead (docs/events.md).

use std::collections::BTreeMap;

use futures_util::future::try_join_all;
use redis::Value;

use super::{Wheel, reply};
use crate::clock::Moment;
use crate::error::Result;
use crate::shard::Shard;

/// What can happen to a deadline, as the streams name it.
pub const EVENT_KINDS: [&str; 9] = [
    "closed",
    "skipped",
    "cancelled",
    "reminded",
    "reminder_failed",
    "dead",
    "revived",
    "resurrected",
    "late_payment",
];

/// Stream entries read from a shard at once; each may tell of up to 500 ids.
const PAGE: usize = 200;

/// One thing that happened to one id.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ShardEvent {
    /// When, in milliseconds since the epoch by Redis's clock.
    pub at_ms: u64,
    /// The shard on whose stream it stands.
    pub shard: u16,
    /// The entry of that stream, `<ms>-<n>`. One entry may tell of many ids.
    pub entry: String,
    /// What: `closed`, `skipped`, `cancelled`, `dead`, `revived`, `resurrected`, …
    pub what: String,
    /// The order, as text; bytes that are none are replaced.
    pub id: String,
    /// What else the entry says of this id, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

/// Reads the events of a wheel from a moment on: each once, in the order of their time.
///
/// A shard's stream is read on from its last entry, so nothing is read twice and nothing is left out, as long as the reader is not further
/// behind than `events_keep`. What is handed out is older than the round that read it began, on every shard: nothing older can come any
/// more, as long as all shards live on one Redis. In a Cluster the nodes' clocks may disagree, and the order by as much.
#[derive(Debug)]
pub struct EventReader {
    wheel: Wheel,
    /// The last entry read of each shard.
    last: Vec<String>,
    /// Read, but perhaps not yet everything before it.
    waiting: BTreeMap<(u64, u64, u16), Vec<ShardEvent>>,
}

/// What a reading brought.
#[derive(Debug)]
pub struct EventPage {
    /// In the order of their time, at most a page of each shard.
    pub events: Vec<ShardEvent>,
    /// Whether there is more already.
    pub more: bool,
}

impl Wheel {
    /// A reader of the events from that moment on.
    pub fn events(&self, since: Moment) -> EventReader {
        // Entries are numbered by time; the one before the first of this moment.
        let before = match since.as_millis() {
            0 => "0-0".to_owned(),
            ms => format!("{}-{}", ms - 1, u64::MAX),
        };
        EventReader {
            wheel: self.clone(),
            last: self.shards().all().map(|_| before.clone()).collect(),
            waiting: BTreeMap::new(),
        }
    }
}

impl EventReader {
    /// Reads one page of every shard. An error has moved nothing: the next reading goes on where the last good one ended.
    pub async fn read(&mut self) -> Result<EventPage> {
        let now = self.wheel.now().await?.as_millis();
        let pages = self.wheel.shards().all().map(|shard| self.page(shard));
        let pages = try_join_all(pages).await?;
        // Below this no shard can bring anything that is not here yet.
        let mut complete = (now, 0, 0);
        let mut more = false;
        for (shard, page) in self.wheel.shards().all().zip(pages) {
            if let Some(last) = page.last() {
                self.last[usize::from(shard.0)] = last.stamp.clone();
                if page.len() == PAGE {
                    more = true;
                    let (ms, number) = order(&last.stamp);
                    complete = complete.min((ms, number, shard.0));
                }
            }
            for entry in page {
                let (ms, number) = order(&entry.stamp);
                self.waiting.insert((ms, number, shard.0), entry.events(shard, ms));
            }
        }
        let rest = self.waiting.split_off(&complete);
        let events = std::mem::replace(&mut self.waiting, rest).into_values().flatten().collect();
        Ok(EventPage { events, more })
    }

    /// What was read and held back by the last reading, because something older might have come: for the last page of all.
    pub fn rest(&mut self) -> Vec<ShardEvent> {
        std::mem::take(&mut self.waiting).into_values().flatten().collect()
    }

    async fn page(&self, shard: Shard) -> Result<Vec<StreamEntry>> {
        let keys = &self.wheel.inner.keys;
        let key = &keys[usize::from(shard.0) % keys.len()][8];
        let mut cmd = redis::cmd("XRANGE");
        cmd.arg(key).arg(format!("({}", self.last[usize::from(shard.0)])).arg("+").arg("COUNT").arg(PAGE);
        let value = self.wheel.store().command(&cmd, &format!("read the events of shard {shard}")).await?;
        entries("events", value)
    }
}

/// One entry of a stream.
pub(super) struct StreamEntry {
    /// `<ms>-<n>`.
    pub stamp: String,
    /// Its fields: what happened, and the ids, one a line; after a point, what else is said of each, one a line.
    pub fields: Vec<(String, Vec<u8>)>,
}

impl StreamEntry {
    /// What it tells, id by id.
    pub(super) fn events(&self, shard: Shard, at_ms: u64) -> Vec<ShardEvent> {
        let mut events = Vec::new();
        for (what, ids) in self.fields.iter().filter(|(what, _)| !what.contains('.')) {
            let prefix = format!("{what}.");
            let details: Vec<(&str, Vec<&[u8]>)> = self
                .fields
                .iter()
                .filter_map(|(name, lines)| Some((name.strip_prefix(&prefix)?, split(lines))))
                .collect();
            for (at, id) in split(ids).into_iter().enumerate() {
                let details = details.iter().filter_map(|(name, lines)| {
                    Some(((*name).to_owned(), String::from_utf8_lossy(lines.get(at)?).into_owned()))
                });
                events.push(ShardEvent {
                    at_ms,
                    shard: shard.0,
                    entry: self.stamp.clone(),
                    what: what.clone(),
                    id: String::from_utf8_lossy(id).into_owned(),
                    details: details.collect(),
                });
            }
        }
        events
    }
}

fn split(lines: &[u8]) -> Vec<&[u8]> {
    lines.split(|byte| *byte == b'\n').collect()
}

/// The entries of a reply to XRANGE or XREVRANGE.
pub(super) fn entries(verb: &'static str, value: Value) -> Result<Vec<StreamEntry>> {
    let mut page = reply::Reply::array(verb, value)?;
    let mut entries = Vec::with_capacity(page.len());
    while page.len() > 0 {
        let mut entry = reply::Reply::array(verb, page.value()?)?;
        let stamp = entry.word()?;
        let fields = match entry.value()? {
            Value::Map(pairs) => Value::Array(pairs.into_iter().flat_map(|(k, v)| [k, v]).collect()),
            // Trimmed away while a consumer had it in hand.
            Value::Nil => Value::Array(Vec::new()),
            other => other,
        };
        let mut reply = reply::Reply::array(verb, fields)?;
        let mut fields = Vec::with_capacity(reply.len() / 2);
        while reply.len() >= 2 {
            fields.push((reply.word()?, reply.bytes()?));
        }
        entries.push(StreamEntry { stamp, fields });
    }
    Ok(entries)
}

/// A stamp as numbers, which is its order.
fn order(stamp: &str) -> (u64, u64) {
    let (ms, number) = stamp.split_once('-').unwrap_or((stamp, "0"));
    (ms.parse().unwrap_or(0), number.parse().unwrap_or(0))
}

/// The time of a stamp, in milliseconds.
pub(super) fn stamp_ms(stamp: &str) -> u64 {
    order(stamp).0
}
