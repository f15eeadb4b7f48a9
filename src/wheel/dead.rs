//! The dead as a whole: when each died and why, without what is stored with it. For whoever must see what ten thousand have in common.

use std::time::Duration;

use futures_util::future::try_join_all;
use redis::Value;

use super::reasons::Reasons;
use super::{MAX_BATCH, Wheel, reply};
use crate::clock::Moment;
use crate::deadline::Id;
use crate::error::Result;
use crate::shard::Shard;

/// One that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dead {
    /// The order.
    pub id: Id,
    /// When it died.
    pub died_at: Moment,
    /// Why.
    pub reason: String,
}

/// The dead of a wheel, the latest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadSurvey {
    /// Those that were looked at.
    pub dead: Vec<Dead>,
    /// How many there are in all.
    pub count: u64,
}

impl DeadSurvey {
    /// Whether there are more than were looked at.
    pub fn is_partial(&self) -> bool {
        (self.dead.len() as u64) < self.count
    }
}

impl Wheel {
    /// Looks at the dead, about `most` of them, the latest of each shard. Two short commands for each 500.
    pub async fn survey_dead(&self, most: usize) -> Result<DeadSurvey> {
        let each = most.div_ceil(usize::from(self.shards().get()));
        let shards = try_join_all(self.shards().all().map(|shard| self.survey_shard(shard, each))).await?;
        let mut survey = DeadSurvey::default();
        for (count, dead) in shards {
            survey.count += count;
            survey.dead.extend(dead);
        }
        survey.dead.sort_by(|a, b| (b.died_at, &a.id).cmp(&(a.died_at, &b.id)));
        Ok(survey)
    }

    async fn survey_shard(&self, shard: Shard, most: usize) -> Result<(u64, Vec<Dead>)> {
        let keys = &self.inner.keys[usize::from(shard.0) % self.inner.keys.len()];
        let attempted = format!("look at the dead of wheel {}, shard {shard}", self.name());
        let mut cmd = redis::cmd("ZCARD");
        cmd.arg(&keys[5]);
        let count = reply::number(&self.store().command(&cmd, &attempted).await?).unwrap_or(0);
        let count = u64::try_from(count).unwrap_or(0);
        let most = most.min(usize::try_from(count).unwrap_or(usize::MAX));
        let (mut dead, mut rank) = (Vec::with_capacity(most), 0);
        while rank < most {
            let mut cmd = redis::cmd("ZREVRANGE");
            cmd.arg(&keys[5]).arg(rank).arg(most.min(rank + MAX_BATCH) - 1).arg("WITHSCORES");
            let times = scored(self.store().command(&cmd, &attempted).await?)?;
            if times.is_empty() {
                break;
            }
            rank += times.len();
            let mut cmd = redis::cmd("HMGET");
            cmd.arg(&keys[6]);
            for (id, _) in &times {
                cmd.arg(id);
            }
            let mut reasons = reply::Reply::array("dead", self.store().command(&cmd, &attempted).await?)?;
            for (id, at) in times {
                let reason = match reasons.value()? {
                    Value::BulkString(bytes) => Reasons::decode(&String::from_utf8_lossy(&bytes)).death,
                    _ => String::new(),
                };
                // Whole milliseconds, and never below zero.
                let died_at = Moment::EPOCH.plus(Duration::from_millis(at.max(0.0) as u64));
                if let Ok(id) = Id::from_bytes(&id) {
                    dead.push(Dead { id, died_at, reason });
                }
            }
        }
        Ok((count, dead))
    }
}

/// Members with their scores: RESP2 answers them one after the other, RESP3 in pairs with a number each.
fn scored(value: Value) -> Result<Vec<(Vec<u8>, f64)>> {
    let elements = match value {
        Value::Array(elements) => elements,
        other => return Err(reply::unexpected("dead", &other)),
    };
    let flat = elements.into_iter().flat_map(|element| match element {
        Value::Array(pair) => pair,
        other => vec![other],
    });
    let mut page = reply::Reply::array("dead", Value::Array(flat.collect()))?;
    let mut times = Vec::with_capacity(page.len() / 2);
    while page.len() >= 2 {
        let member = page.bytes()?;
        times.push((
            member,
            match page.value()? {
                Value::Double(score) => score,
                other => reply::bytes("dead", other)
                    .map(|text| String::from_utf8_lossy(&text).parse().unwrap_or(0.0))?,
            },
        ));
    }
    Ok(times)
}
