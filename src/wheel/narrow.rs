//! A listing narrowed by what has no index: by attempts, by the reason of a death or a failure, by the payload. Rows are looked at in their order, a bounded number a
//! page, and the next page goes on behind the last one that was looked at.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use super::answer::{Cursor, Page, Row};
use super::inspect::{Most, PAGE_BYTES, make_cursor, parse_cursor};
use super::{MAX_BATCH, Wheel};
use crate::clock::Moment;
use crate::deadline::State;
use crate::error::Result;
use crate::shard::Shard;

/// Rows that are read of a shard at first: enough where most match.
const FIRST_STRIDE: usize = 50;

/// What narrows a listing besides state, time and shard.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Narrow {
    /// At least so many failed attempts; of an ended one, so many attempts in all. 0 for any.
    pub attempts: u32,
    /// The reason of the death, or of the latest attempt that failed, holds this text. Others have none.
    pub reason: Option<String>,
    /// The payload holds this: see [`Payload::holds`](crate::deadline::Payload::holds). What has ended has none.
    pub payload: Option<String>,
}

impl Narrow {
    /// Whether it leaves nothing out.
    pub fn is_wide(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a row is meant. What is no deadline of ours has no attempts, and a reason that is nobody's.
    pub fn fits(&self, row: &Row) -> bool {
        let (attempts, reason, payload) = match row {
            _ if self.is_wide() => return true,
            Row::Live { entry, reason, .. } => (entry.attempts, reason.as_deref(), Some(&entry.payload)),
            Row::Ended { ended, .. } => (ended.attempt, None, None),
            Row::Foreign { .. } => return false,
        };
        let holds = |text: &String| reason.is_some_and(|reason| reason.contains(text.as_str()));
        let in_payload = |text: &String| payload.is_some_and(|payload| payload.holds(text));
        attempts >= self.attempts
            && self.reason.as_ref().is_none_or(holds)
            && self.payload.as_ref().is_none_or(in_payload)
    }
}

/// How much one page may hold, and look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Rows that fit, 1 to 500.
    pub limit: usize,
    /// About so many rows are looked at.
    pub most: u64,
    /// For about so long.
    pub longest: Duration,
}

/// A page of a narrowed listing.
#[derive(Debug, Clone, PartialEq)]
pub struct Narrowed {
    /// Those that fit. A page may be short, or empty, and go on all the same.
    pub page: Page,
    /// How many were looked at.
    pub looked_at: u64,
}

/// One shard's rows that were read and not yet looked at.
struct Source {
    shard: Shard,
    rows: VecDeque<(Moment, Vec<u8>, Row)>,
    /// Whether there are others behind them.
    more: bool,
}

impl Source {
    /// Where its next row stands.
    fn place(&self) -> Option<(Moment, &[u8])> {
        self.rows.front().map(|(at, raw, _)| (*at, &raw[..]))
    }
}

impl Wheel {
    /// [`Wheel::list_of`], narrowed: at most `look.limit` rows that fit, in the same order, after looking at no more than `look` allows.
    pub async fn list_narrow(
        &self,
        only: Option<Shard>,
        state: State,
        between: RangeInclusive<Moment>,
        narrow: &Narrow,
        cursor: Option<&Cursor>,
        look: Look,
    ) -> Result<Narrowed> {
        let look = Look { limit: look.limit.clamp(1, MAX_BATCH), ..look };
        match state {
            State::Scheduled | State::Leased | State::Dead if !narrow.is_wide() => {
                self.narrow_by_time(only, state, between, narrow, cursor, look).await
            }
            State::Ended if !narrow.is_wide() => self.narrow_ended(only, narrow, cursor, look).await,
            _ => {
                let page =
                    self.list_of(only, state, *between.start(), *between.end(), cursor, look.limit).await?;
                Ok(Narrowed { looked_at: page.rows.len() as u64, page })
            }
        }
    }

    /// Ends are in no order, and a page of theirs cannot be cut: a few more than `limit` may come.
    async fn narrow_ended(
        &self,
        only: Option<Shard>,
        narrow: &Narrow,
        cursor: Option<&Cursor>,
        look: Look,
    ) -> Result<Narrowed> {
        let (began, mut cursor) = (Instant::now(), cursor.cloned());
        let (mut rows, mut looked_at) = (Vec::new(), 0);
        loop {
            let page = self
                .list_of(only, State::Ended, Moment::EPOCH, Moment::MAX, cursor.as_ref(), MAX_BATCH)
                .await?;
            looked_at += page.rows.len() as u64;
            rows.extend(page.rows.into_iter().filter(|row| narrow.fits(row)));
            cursor = page.next;
            let enough =
                rows.len() >= look.limit || looked_at >= look.most || began.elapsed() >= look.longest;
            if cursor.is_none() || enough {
                return Ok(Narrowed { page: Page { rows, next: cursor }, looked_at });
            }
        }
    }

    async fn narrow_by_time(
        &self,
        only: Option<Shard>,
        state: State,
        between: RangeInclusive<Moment>,
        narrow: &Narrow,
        cursor: Option<&Cursor>,
        look: Look,
    ) -> Result<Narrowed> {
        let began = Instant::now();
        let (from, to) = between.into_inner();
        let (from, after) = cursor.map_or(Ok((from, Vec::new())), parse_cursor)?;
        let wanted = self.shards().all().filter(|shard| only.is_none_or(|only| only == *shard));
        let mut sources: Vec<Source> =
            wanted.map(|shard| Source { shard, rows: VecDeque::new(), more: true }).collect();
        let shards = u16::try_from(sources.len()).unwrap_or(u16::MAX);
        let mut last = (from, after);
        let (mut rows, mut looked_at, mut stride, mut held) = (Vec::new(), 0, FIRST_STRIDE, 0);
        loop {
            // Whoever has nothing left to compare is read on; all that are behind come from one call each.
            let dry = sources.iter_mut().filter(|source| source.rows.is_empty() && source.more);
            let read = dry.map(|source| {
                let (shard, (from, after)) = (source.shard, &last);
                async move {
                    let most = Most::of_each(stride, shards);
                    let found = self.list_shard(shard, state.as_str(), *from, to, after, most).await?;
                    (source.more, source.rows) = (found.more, found.rows.into());
                    Ok::<_, crate::error::Error>(())
                }
            });
            try_join_all(read).await?;
            stride = MAX_BATCH;
            while sources.iter().all(|source| !source.rows.is_empty() || !source.more) {
                let full = sources.iter_mut().filter(|source| !source.rows.is_empty());
                let first = full.min_by(|a, b| a.place().cmp(&b.place()));
                let Some((at, raw, row)) = first.and_then(|source| source.rows.pop_front()) else {
                    return Ok(Narrowed { page: Page { rows, next: None }, looked_at });
                };
                looked_at += 1;
                last = (at, raw);
                if narrow.fits(&row) {
                    held += payload_bytes(&row);
                    rows.push(row);
                }
                if rows.len() >= look.limit || held >= PAGE_BYTES || looked_at >= look.most {
                    return Ok(Narrowed { page: cut(rows, &sources, &last), looked_at });
                }
            }
            if began.elapsed() >= look.longest && looked_at > 0 {
                return Ok(Narrowed { page: cut(rows, &sources, &last), looked_at });
            }
        }
    }
}

fn payload_bytes(row: &Row) -> usize {
    match row {
        Row::Live { entry, .. } => entry.payload.as_bytes().len(),
        Row::Ended { .. } | Row::Foreign { .. } => 0,
    }
}

/// A page that ends behind `last`.
fn cut(rows: Vec<Row>, sources: &[Source], last: &(Moment, Vec<u8>)) -> Page {
    let more = sources.iter().any(|source| !source.rows.is_empty() || source.more);
    Page { rows, next: more.then(|| make_cursor(last.0, &last.1)) }
}
