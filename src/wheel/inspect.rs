//! The reads: list, stats, forecast.

use std::time::Duration;

use futures_util::future::try_join_all;
use futures_util::stream::{self, Stream, StreamExt as _, TryStreamExt as _};

use super::answer::{Cursor, ForecastBucket, Page, Row, Stats};
use super::reasons::Reasons;
use super::{Wheel, body, keys, reply, script};
use crate::clock::Moment;
use crate::deadline::{Id, State};
use crate::error::{Error, Invalid, Result, StoreKind};
use crate::shard::Shard;

/// Shards that are forecast at once. A page of slots takes Redis about 2 ms, and a worker's claim waits behind all that has arrived.
const FORECASTS: usize = 2;

/// What a shard without meta is worth to a reader: nothing is there.
pub(super) fn or_empty<T>(outcome: Result<T>, empty: impl FnOnce() -> T) -> Result<T> {
    match outcome {
        Err(Error::Store { kind: StoreKind::Unformatted, .. }) => Ok(empty()),
        other => other,
    }
}

/// What is stored of the rows of one page over all shards, in bytes: payloads may have 64 KiB each.
pub(super) const PAGE_BYTES: usize = 8 << 20;

/// What a shard may answer at once: an answer is one buffer in Redis, and a claim waits until it is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    /// Rows, 1 to 500.
    pub rows: usize,
    /// What is stored of them, in bytes.
    pub bytes: usize,
}

impl Most {
    /// Where so many shards are asked.
    pub fn of_each(rows: usize, shards: u16) -> Self {
        Self { rows, bytes: (PAGE_BYTES / usize::from(shards.max(1))).clamp(64 << 10, 512 << 10) }
    }
}

/// A page of one shard: (when, id as stored, row) each.
#[derive(Debug)]
pub(super) struct ShardRows {
    pub rows: Vec<(Moment, Vec<u8>, Row)>,
    /// Whether there are others behind them. A page may be shorter than asked for and go on all the same.
    pub more: bool,
}

impl ShardRows {
    /// Where the last one stands, if there are others behind it.
    pub fn last_before_others(&self) -> Option<(Moment, &[u8])> {
        self.rows.last().filter(|_| self.more).map(|(at, raw, _)| (*at, &raw[..]))
    }
}

impl Wheel {
    /// The wheels that were ever formatted on this Redis: name, shards, slot width in milliseconds.
    pub async fn known(store: &super::Store) -> Result<Vec<(String, u64, u64)>> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(keys::wheels());
        let value = store.command(&cmd, "list wheels").await?;
        let mut reply = match value {
            redis::Value::Map(pairs) => reply::Reply::array(
                "wheels",
                redis::Value::Array(pairs.into_iter().flat_map(|(k, v)| [k, v]).collect()),
            )?,
            other => reply::Reply::array("wheels", other)?,
        };
        let mut wheels = Vec::new();
        while reply.len() >= 2 {
            let (name, layout) = (reply.word()?, reply.word()?);
            let mut numbers = layout.split(' ').skip(1).map(|number| number.parse().unwrap_or(0));
            wheels.push((name, numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)));
        }
        wheels.sort();
        Ok(wheels)
    }

    /// One page of deadlines in one state between two moments, by time over all shards (ended ones: in no order).
    ///
    /// `cursor` is what the last page gave. `limit` is 1 to 500; a page whose payloads are large is shorter, and goes on all the same.
    pub async fn list(
        &self,
        state: State,
        from: Moment,
        to: Moment,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.list_of(None, state, from, to, cursor, limit).await
    }

    /// The same of one shard, where one is named; a cursor goes on with the listing that gave it.
    pub async fn list_of(
        &self,
        only: Option<Shard>,
        state: State,
        from: Moment,
        to: Moment,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let limit = limit.clamp(1, super::MAX_BATCH);
        let word = match state {
            State::Scheduled => "scheduled",
            State::Leased => "leased",
            State::Dead => "dead",
            State::Ended => return self.list_ended(only, cursor, limit).await,
            State::Absent => {
                return Err(
                    Invalid::new("state", "absent", "expected scheduled, leased, dead or ended").into()
                );
            }
        };
        let (from, after) = match cursor {
            None => (from, Vec::new()),
            Some(cursor) => parse_cursor(cursor)?,
        };
        let wanted = self.shards().all().filter(|shard| only.is_none_or(|only| only == *shard));
        let most = Most::of_each(limit, if only.is_some() { 1 } else { self.shards().get() });
        let pages = wanted.map(|shard| self.list_shard(shard, word, from, to, &after, most));
        let pages = try_join_all(pages).await?;
        // Behind the last row of a shard that has others, nothing is known of that shard.
        let known_to = pages.iter().filter_map(ShardRows::last_before_others).min();
        let known_to = known_to.map(|(at, raw)| (at, raw.to_vec()));
        let mut found: Vec<(Moment, Vec<u8>, Row)> = pages.into_iter().flat_map(|page| page.rows).collect();
        found.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        let mut more = known_to.is_some();
        if let Some((at, raw)) = known_to {
            found.retain(|row| (row.0, &row.1) <= (at, &raw));
        }
        more |= found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(|(at, id, _)| make_cursor(*at, id));
        Ok(Page { rows: found.into_iter().map(|(_, _, row)| row).collect(), next })
    }

    pub(super) async fn list_shard_rows(
        &self,
        shard: Shard,
        state: State,
        from: Moment,
        after: &[u8],
    ) -> Result<Vec<(Moment, Vec<u8>, Row)>> {
        let word = if state == State::Dead { "dead" } else { "scheduled" };
        Ok(self.list_shard(shard, word, from, Moment::MAX, after, Most::of_each(100, 1)).await?.rows)
    }

    /// The next rows of a shard; at least one, where there is any.
    pub(super) async fn list_shard(
        &self,
        shard: Shard,
        word: &str,
        from: Moment,
        to: Moment,
        after: &[u8],
        most: Most,
    ) -> Result<ShardRows> {
        let outcome = self.call(&script::LIST, shard, |cmd| {
            cmd.arg(word).arg(from.as_millis()).arg(to.as_millis()).arg(after).arg(most.rows).arg(most.bytes);
        });
        let value = or_empty(outcome.await, || redis::Value::Array(vec![redis::Value::Int(0)]))?;
        let mut reply = reply::Reply::array("list", value)?;
        let more = reply.u64()? == 1;
        let state = match word {
            "scheduled" => State::Scheduled,
            "leased" => State::Leased,
            _ => State::Dead,
        };
        let mut rows = Vec::with_capacity(reply.len() / 5);
        while reply.len() >= 5 {
            let (raw, at) = (reply.bytes()?, reply.moment()?);
            let (stored, live, reason) = (reply.bytes()?, reply.bytes()?, reply.word()?);
            let reason = Reasons::decode(&reason).latest(state == State::Dead);
            let row = self.row_of(&raw, state, at, &stored, &live, reason);
            rows.push((at, raw, row));
        }
        Ok(ShardRows { rows, more })
    }

    fn row_of(
        &self,
        raw: &[u8],
        state: State,
        at: Moment,
        stored: &[u8],
        live: &[u8],
        reason: Option<String>,
    ) -> Row {
        let entry = Id::from_bytes(raw)
            .ok()
            .and_then(|id| body::decode_entry(&id, stored, live, self.settings().slot_width));
        match entry {
            Some(entry) => {
                // What an older life left behind is not this one's.
                let reason = reason.filter(|_| state == State::Dead || entry.attempts > 0);
                Row::Live { state, at, entry: Box::new(entry), reason }
            }
            None => {
                let reason = reason.unwrap_or_else(|| "no id or no header of ours".to_owned());
                Row::Foreign { id: raw.escape_ascii().to_string(), state, reason }
            }
        }
    }

    async fn list_ended(&self, only: Option<Shard>, cursor: Option<&Cursor>, limit: usize) -> Result<Page> {
        let end = only.map_or(self.shards().get(), |only| only.0.saturating_add(1).min(self.shards().get()));
        let (mut shard, mut at) = match cursor {
            None => (only.map_or(0, |only| only.0), 0),
            Some(cursor) => cursor
                .0
                .split_once('.')
                .and_then(|(shard, at)| Some((shard.parse().ok()?, at.parse().ok()?)))
                .ok_or_else(|| {
                    Invalid::new("cursor", &cursor.0, "expected a cursor that a page of this listing gave")
                })?,
        };
        let mut rows = Vec::new();
        while shard < end {
            let outcome = self.call(&script::ENDED_PAGE, Shard(shard), |cmd| {
                cmd.arg(at).arg(limit.saturating_sub(rows.len()).max(1));
            });
            let value = or_empty(outcome.await, || redis::Value::Array(vec![redis::Value::Int(0)]))?;
            let mut reply = reply::Reply::array("ended_page", value)?;
            let next: u64 = reply.u64()?;
            while reply.len() >= 2 {
                let (raw, record) = (reply.bytes()?, reply.bytes()?);
                if let (Ok(id), Some(ended)) = (Id::from_bytes(&raw), body::decode_ended(&record)) {
                    rows.push(Row::Ended { id, ended });
                }
            }
            (shard, at) = if next == 0 { (shard + 1, 0) } else { (shard, next) };
            if rows.len() >= limit {
                break;
            }
        }
        let next = (shard < end).then(|| Cursor(format!("{shard}.{at}")));
        Ok(Page { rows, next })
    }

    /// The wheel in numbers.
    pub async fn stats(&self) -> Result<Stats> {
        let shards = try_join_all(self.shards().all().map(|shard| self.shard_stats(shard))).await?;
        let mut all = Stats { shards: self.shards().get().into(), ..Stats::default() };
        for one in shards {
            all.now_ms = all.now_ms.max(one.now_ms);
            all.scheduled += one.scheduled;
            all.due += one.due;
            all.oldest_due_ms = all.oldest_due_ms.max(one.oldest_due_ms);
            all.next_ms = [all.next_ms, one.next_ms].into_iter().flatten().min();
            all.leased += one.leased;
            all.dead += one.dead;
            all.ended += one.ended;
            all.paused_shards += one.paused_shards;
            all.tripped_shards += one.tripped_shards;
            for (what, count) in one.totals {
                *all.totals.entry(what).or_default() += count;
            }
        }
        Ok(all)
    }

    /// One shard in numbers.
    pub async fn shard_stats(&self, shard: Shard) -> Result<Stats> {
        let value = or_empty(self.call(&script::STATS, shard, |_| {}).await, || redis::Value::Nil)?;
        if value == redis::Value::Nil {
            return Ok(Stats { shards: 1, ..Stats::default() });
        }
        let mut reply = reply::Reply::array("stats", value)?;
        let now_ms = reply.u64()?;
        let (bodies, leased, dead, ended, due) =
            (reply.u64()?, reply.u64()?, reply.u64()?, reply.u64()?, reply.u64()?);
        let (oldest, next) = (reply.i64()?, reply.i64()?);
        let (paused, tripped) = (reply.u64()?, reply.u64()?);
        let mut totals = std::collections::BTreeMap::new();
        while reply.len() >= 2 {
            totals.insert(reply.word()?, reply.u64()?);
        }
        Ok(Stats {
            now_ms,
            scheduled: bodies.saturating_sub(leased + dead),
            due,
            oldest_due_ms: u64::try_from(oldest).map_or(0, |oldest| now_ms.saturating_sub(oldest)),
            next_ms: u64::try_from(next).ok(),
            leased,
            dead,
            ended,
            paused_shards: paused,
            tripped_shards: tripped,
            shards: 1,
            totals,
        })
    }

    /// How many deadlines fire in each of `count` stretches from `from` on; what is overdue counts in the first. `count` is 1 to 1500.
    pub async fn forecast(&self, from: Moment, stretch: Duration, count: u32) -> Result<Vec<ForecastBucket>> {
        let mut counts = vec![0; count as usize];
        for shard in self.forecast_by_shard(from, stretch, count).await? {
            counts.iter_mut().zip(shard).for_each(|(sum, one)| *sum += one);
        }
        let stretch_ms = u64::try_from(stretch.as_millis()).unwrap_or(u64::MAX);
        let start = |n: u64| from.as_millis() + n * stretch_ms;
        Ok((0..).zip(counts).map(|(n, count)| ForecastBucket { from_ms: start(n), count }).collect())
    }

    /// The same, the counts of each shard by themselves, in the order of the shards.
    pub async fn forecast_by_shard(
        &self,
        from: Moment,
        stretch: Duration,
        count: u32,
    ) -> Result<Vec<Vec<u64>>> {
        self.forecast_shards(from, stretch, count)?.map_ok(|(_, counts)| counts).try_collect().await
    }

    /// The same, shard by shard as they are counted, in the order of the shards.
    pub fn forecast_shards(
        &self,
        from: Moment,
        stretch: Duration,
        count: u32,
    ) -> Result<impl Stream<Item = Result<(Shard, Vec<u64>)>>> {
        let stretch_ms = u64::try_from(stretch.as_millis()).unwrap_or(u64::MAX);
        if stretch_ms == 0 || count == 0 || count > 1500 {
            return Err(Invalid::new(
                "forecast",
                &count.to_string(),
                "expected 1 to 1500 stretches of at least 1ms",
            )
            .into());
        }
        let shards = self.shards().all().map(move |shard| async move {
            Ok((shard, self.forecast_of(shard, from, stretch_ms, count).await?))
        });
        Ok(stream::iter(shards).buffered(FORECASTS))
    }

    async fn forecast_of(&self, shard: Shard, from: Moment, stretch_ms: u64, count: u32) -> Result<Vec<u64>> {
        let mut counts = vec![0; count as usize];
        let mut begin = 0;
        loop {
            let outcome = self.call(&script::FORECAST, shard, |cmd| {
                cmd.arg(from.as_millis()).arg(stretch_ms).arg(count).arg(begin);
            });
            let empty = || redis::Value::Array(vec![redis::Value::Int(0); counts.len() + 1]);
            let mut reply = reply::Reply::array("forecast", or_empty(outcome.await, empty)?)?;
            for sum in &mut counts {
                *sum += reply.u64()?;
            }
            // The next page begins behind this one, so the loop ends.
            match reply.u64()? {
                next if next > begin => begin = next,
                _ => return Ok(counts),
            }
        }
    }
}

pub(super) fn from_micros(us: u64) -> Moment {
    Moment::EPOCH.plus(Duration::from_micros(us))
}

pub(super) fn make_cursor(at: Moment, id: &[u8]) -> Cursor {
    let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    Cursor(format!("{}.{id}", at.as_millis()))
}

pub(super) fn parse_cursor(cursor: &Cursor) -> Result<(Moment, Vec<u8>)> {
    let parse = || {
        let (at, id) = cursor.0.split_once('.')?;
        let at = Moment::from_millis(at.parse().ok()?).ok()?;
        let pairs = id.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        Some((at, pairs.map(byte).collect::<Option<Vec<u8>>>()?))
    };
    parse().ok_or_else(|| {
        Invalid::new("cursor", &cursor.0, "expected a cursor that a page of this listing gave").into()
    })
}
