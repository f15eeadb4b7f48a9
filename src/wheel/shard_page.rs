//! One shard read page by page, in a single pass: for whoever compares the whole wheel with the orders table.

use std::ops::RangeInclusive;

use super::answer::Row;
use super::inspect::Most;
use super::{MAX_BATCH, Wheel};
use crate::clock::Moment;
use crate::deadline::State;
use crate::error::{Invalid, Result};
use crate::shard::Shard;

/// Behind which entry of a shard the next page begins.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Place {
    at_ms: u64,
    raw: Vec<u8>,
}

impl Wheel {
    /// The next entries of one shard in one state (scheduled, leased, dead) behind a place, by time, and the place behind them; `None`
    /// at the end. A page holds at most 500, and fewer where their payloads are large. An entry that is moved meanwhile may be seen twice or not at all.
    pub async fn shard_page(
        &self,
        shard: Shard,
        state: State,
        after: Option<&Place>,
    ) -> Result<(Vec<Row>, Option<Place>)> {
        self.shard_page_between(shard, state, Moment::EPOCH..=Moment::MAX, after).await
    }

    /// The same for those between two moments: when they fire, or died, or their leases end.
    pub async fn shard_page_between(
        &self,
        shard: Shard,
        state: State,
        between: RangeInclusive<Moment>,
        after: Option<&Place>,
    ) -> Result<(Vec<Row>, Option<Place>)> {
        let word = match state {
            State::Scheduled | State::Leased | State::Dead => state.as_str(),
            State::Absent | State::Ended => {
                let reason = "expected scheduled, leased or dead";
                return Err(Invalid::new("state", state.as_str(), reason).into());
            }
        };
        let (from, raw) = match after {
            None => (*between.start(), &[][..]),
            Some(place) => (Moment::from_millis(place.at_ms)?, &place.raw[..]),
        };
        let most = Most::of_each(MAX_BATCH, 1);
        let found = self.list_shard(shard, word, from, *between.end(), raw, most).await?;
        let last = found.last_before_others();
        let last = last.map(|(at, raw)| Place { at_ms: at.as_millis(), raw: raw.to_vec() });
        Ok((found.rows.into_iter().map(|(_, _, row)| row).collect(), last))
    }
}
