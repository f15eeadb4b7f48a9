//! The events of all shards as one stream, oldest first: for whoever watches, by hand or from the library. Whoever must not miss one
//! while it is away reads the streams as a consumer group instead (docs/events.md).

use std::collections::{BTreeMap, VecDeque};

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

/// Bytes of stream entries that a reader means to hold, over all shards. A backlog of days must not lie in the memory of whoever asks.
const HELD: usize = 1024 * 1024;
/// The most entries read from a shard at once; each may tell of up to 500 ids, so that a few may be all that [`HELD`] leaves room for.
const PAGE: usize = 64;
/// Entries read from a shard at once before it is known how long they are.
const FIRST_PAGE: usize = 8;
/// Events handed out at once: whole entries, until there are so many.
const EVENTS: usize = 500;

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

/// Reads the events of a wheel from a moment on: each once, in the order of their time, a little at a time however many there are.
///
/// A shard's stream is read on from its last entry, so nothing is read twice and nothing is left out, as long as the reader is not further
/// behind than `events_keep`. What is handed out is older than the round that read it began, on every shard: nothing older can come any
/// more, as long as all shards live on one Redis. In a Cluster the nodes' clocks may disagree, and the order by as much.
#[derive(Debug)]
pub struct EventReader {
    wheel: Wheel,
    lanes: Lanes,
}

/// What a reading brought.
#[derive(Debug)]
pub struct EventPage {
    /// In the order of their time: some hundreds, and a thousand at most.
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
        EventReader { wheel: self.clone(), lanes: Lanes::new(self.shards().all(), &before) }
    }
}

impl EventReader {
    /// Reads on. An error has moved nothing: the next reading goes on where the last good one ended.
    pub async fn read(&mut self) -> Result<EventPage> {
        // What is in hand comes first; Redis is asked for nothing meanwhile.
        let events = self.lanes.take();
        if !events.is_empty() {
            return Ok(EventPage { events, more: true });
        }
        let now = self.wheel.now().await?.as_millis();
        let pages = self.lanes.hungry().map(|lane| self.page(lane));
        let pages = try_join_all(pages).await?;
        self.lanes.put(pages, now);
        let events = self.lanes.take();
        Ok(EventPage { events, more: self.lanes.has_more() })
    }

    /// What was read and held back by the last reading, because something older might have come: for the last page of all.
    pub fn rest(&mut self) -> Vec<ShardEvent> {
        self.lanes.rest()
    }

    async fn page(&self, lane: &Lane) -> Result<(Shard, Vec<StreamEntry>)> {
        let keys = &self.wheel.inner.keys;
        let key = &keys[usize::from(lane.shard.0) % keys.len()][8];
        let mut cmd = redis::cmd("XRANGE");
        cmd.arg(key).arg(format!("({}", lane.last)).arg("+").arg("COUNT").arg(lane.count);
        let attempted = format!("read the events of shard {}", lane.shard);
        let value = self.wheel.store().command(&cmd, &attempted).await?;
        Ok((lane.shard, entries("events", value)?))
    }
}

/// The streams of all shards, each with what was read of it, merged by time.
#[derive(Debug)]
struct Lanes {
    lanes: Vec<Lane>,
    /// When the last round began, in milliseconds: from here on something older may still come.
    now_ms: u64,
}

/// The stream of one shard.
#[derive(Debug)]
struct Lane {
    shard: Shard,
    /// The last entry read.
    last: String,
    /// Read and not handed out, oldest first; each with its stamp as numbers.
    waiting: VecDeque<((u64, u64), StreamEntry)>,
    /// Before this moment the stream has nothing that was not read; 0 where the last page was full.
    complete_ms: u64,
    /// Entries to read at once.
    count: usize,
}

impl Lanes {
    fn new(shards: impl Iterator<Item = Shard>, before: &str) -> Self {
        let lane = |shard| Lane {
            shard,
            last: before.to_owned(),
            waiting: VecDeque::new(),
            complete_ms: 0,
            count: FIRST_PAGE,
        };
        Self { lanes: shards.map(lane).collect(), now_ms: 0 }
    }

    /// The lanes to read on: those that are empty, and those that soon will be, so that they are read together.
    fn hungry(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(|lane| lane.waiting.is_empty() || lane.waiting.len() < lane.count / 2)
    }

    /// What the hungry ones were given in a round that began at `now_ms`.
    fn put(&mut self, pages: Vec<(Shard, Vec<StreamEntry>)>, now_ms: u64) {
        let share = HELD / self.lanes.len().max(1);
        self.now_ms = now_ms;
        for (shard, page) in pages {
            let Some(lane) = self.lanes.get_mut(usize::from(shard.0)) else { continue };
            lane.complete_ms = if page.len() < lane.count { now_ms } else { 0 };
            let Some(last) = page.last() else { continue };
            lane.last = last.stamp.clone();
            let each = page.iter().map(StreamEntry::bytes).sum::<usize>() / page.len();
            lane.count = (share / each.max(1)).clamp(1, PAGE.min(lane.count * 2));
            lane.waiting.extend(page.into_iter().map(|entry| (order(&entry.stamp), entry)));
        }
    }

    /// The next events, as far as nothing older can come any more.
    fn take(&mut self) -> Vec<ShardEvent> {
        let mut events = Vec::new();
        while events.len() < EVENTS
            && let Some((at, (ms, ..))) = self.oldest()
            && ms < self.complete_ms()
            && let Some((_, entry)) = self.lanes[at].waiting.pop_front()
        {
            events.append(&mut entry.events(self.lanes[at].shard, ms));
        }
        events
    }

    /// Before this moment nothing can come that is not here.
    fn complete_ms(&self) -> u64 {
        let empty = self.lanes.iter().filter(|lane| lane.waiting.is_empty());
        empty.map(|lane| lane.complete_ms).min().unwrap_or(u64::MAX).min(self.now_ms)
    }

    /// The lane with the oldest entry, and what that is ordered by.
    fn oldest(&self) -> Option<(usize, (u64, u64, u16))> {
        let heads = self.lanes.iter().enumerate().filter_map(|(at, lane)| {
            let ((ms, number), _) = lane.waiting.front()?;
            Some((at, (*ms, *number, lane.shard.0)))
        });
        heads.min_by_key(|(_, order)| *order)
    }

    /// Whether another round would bring something that had happened when the last one began.
    fn has_more(&self) -> bool {
        self.lanes.iter().any(|lane| lane.waiting.is_empty() && lane.complete_ms < self.now_ms)
            || self.oldest().is_some_and(|(_, (ms, ..))| ms < self.now_ms)
    }

    fn rest(&mut self) -> Vec<ShardEvent> {
        let mut events = Vec::new();
        while let Some((at, (ms, ..))) = self.oldest()
            && let Some((_, entry)) = self.lanes[at].waiting.pop_front()
        {
            events.append(&mut entry.events(self.lanes[at].shard, ms));
        }
        events
    }
}

/// One entry of a stream.
#[derive(Debug)]
pub(super) struct StreamEntry {
    /// `<ms>-<n>`.
    pub stamp: String,
    /// Its fields: what happened, and the ids, one a line; after a point, what else is said of each, one a line.
    pub fields: Vec<(String, Vec<u8>)>,
}

impl StreamEntry {
    /// How long it is, but for what holds it together.
    fn bytes(&self) -> usize {
        self.fields.iter().map(|(name, lines)| name.len() + lines.len()).sum()
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Streams as Redis would hold them, each entry with its time and its ids.
    struct Streams(Vec<Vec<(u64, Vec<String>)>>);

    impl Streams {
        fn page(&self, lane: &Lane) -> Vec<StreamEntry> {
            let (last, _) = order(&lane.last);
            let behind = self.0[usize::from(lane.shard.0)].iter().filter(|(ms, _)| *ms > last);
            let entry = |(ms, ids): &(u64, Vec<String>)| StreamEntry {
                stamp: format!("{ms}-0"),
                fields: vec![("closed".to_owned(), ids.join("\n").into_bytes())],
            };
            behind.take(lane.count).map(entry).collect()
        }

        /// Reads all of it; answers the ids in the order of telling, and the most bytes that were held.
        fn read(&self) -> (Vec<String>, usize) {
            let mut lanes = Lanes::new((0..self.0.len()).map(|shard| Shard(shard as u16)), "0-0");
            let (mut told, mut most) = (Vec::new(), 0);
            loop {
                let pages = lanes.hungry().map(|lane| (lane.shard, self.page(lane))).collect();
                lanes.put(pages, 1_000_000);
                let waiting = lanes.lanes.iter().flat_map(|lane| &lane.waiting);
                let held: usize = waiting.map(|(_, entry)| entry.bytes()).sum();
                most = most.max(held);
                loop {
                    let events = lanes.take();
                    assert!(events.len() < EVENTS + 500, "{} at once", events.len());
                    if events.is_empty() {
                        break;
                    }
                    told.extend(events.into_iter().map(|event| event.id));
                }
                if !lanes.has_more() {
                    assert!(lanes.rest().is_empty());
                    return (told, most);
                }
            }
        }

        fn ids(&self) -> Vec<String> {
            let mut entries: Vec<_> = self
                .0
                .iter()
                .enumerate()
                .flat_map(|(n, all)| all.iter().map(move |one| (one.0, n, &one.1)))
                .collect();
            entries.sort();
            entries.into_iter().flat_map(|(_, _, ids)| ids.clone()).collect()
        }
    }

    fn ids(shard: usize, ms: u64, count: usize) -> Vec<String> {
        (0..count).map(|n| format!("order-of-a-shop-{shard}-{ms}-{n}")).collect()
    }

    #[test]
    fn a_backlog_is_told_whole_and_in_order_and_little_of_it_is_held() {
        let of =
            |shard: usize| (1..150).map(|n| (n * 7 + shard as u64, ids(shard, n, 500))).collect::<Vec<_>>();
        let streams = Streams((0..4).map(of).collect());
        let (told, most) = streams.read();
        assert!(told == streams.ids(), "{} of {}", told.len(), streams.ids().len());
        assert!(most < 2 * HELD, "{most} bytes held");
    }

    /// One shard has all of its events in the second in which others have one: what is read of the others must not pile up.
    #[test]
    fn shards_that_differ_do_not_make_a_reader_hold_more() {
        let crowded = (1..5000).map(|ms| (ms, ids(0, ms, 3))).collect();
        let thin = (1..10).map(|n| (n * 500, ids(1, n, 500))).collect();
        let late = (1..300).map(|n| (100_000 + n, ids(2, n, 500))).collect();
        let streams = Streams(vec![crowded, thin, late, Vec::new()]);
        let (told, most) = streams.read();
        assert!(told == streams.ids(), "{} of {}", told.len(), streams.ids().len());
        assert!(most < 2 * HELD, "{most} bytes held");
    }

    #[test]
    fn small_entries_are_read_many_at_once() {
        let streams = Streams(vec![(1..1000).map(|ms| (ms, ids(0, ms, 1))).collect()]);
        let mut lanes = Lanes::new(std::iter::once(Shard(0)), "0-0");
        for _ in 0..5 {
            let pages = lanes.hungry().map(|lane| (lane.shard, streams.page(lane))).collect();
            lanes.put(pages, 1_000_000);
            lanes.rest();
        }
        assert_eq!(lanes.lanes[0].count, PAGE);
    }
}
