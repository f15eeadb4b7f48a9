//! Everything known of ids, one or many: many of a shard are asked for in one call.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::answer::Inspection;
use super::inspect::{from_micros, or_empty};
use super::reasons::Reasons;
use super::{Wheel, body, reply, script};
use crate::clock::Moment;
use crate::deadline::{Id, State};
use crate::error::Result;
use crate::lease::Fence;
use crate::shard::Shard;

/// Ids of one call: what is stored of each may have 64 KiB, and an answer is one buffer.
const AT_ONCE: usize = 64;

impl Wheel {
    /// Everything known of one id.
    pub async fn inspect(&self, id: &Id) -> Result<Inspection> {
        let mut seen = self.inspect_chunk(self.shard_of(id), &[id]).await?;
        seen.pop().ok_or_else(|| reply::unexpected("inspect", &"no answer"))
    }

    /// Everything known of each id, in the order of the ids; up to 64 of a shard were looked at in one moment.
    pub async fn inspect_all(&self, ids: &[&Id]) -> Result<Vec<Inspection>> {
        let mut by_shard: Vec<Vec<usize>> = vec![Vec::new(); usize::from(self.shards().get())];
        for (at, id) in ids.iter().enumerate() {
            by_shard[usize::from(self.shard_of(id).0)].push(at);
        }
        let chunks = (0_u16..).zip(&by_shard).flat_map(|(shard, all)| {
            all.chunks(AT_ONCE).map(move |members| async move {
                let asked: Vec<&Id> = members.iter().map(|&at| ids[at]).collect();
                let seen = self.inspect_chunk(Shard(shard), &asked).await?;
                Ok::<_, crate::error::Error>(members.iter().copied().zip(seen).collect::<Vec<_>>())
            })
        });
        let mut all: Vec<(usize, Inspection)> = try_join_all(chunks).await?.into_iter().flatten().collect();
        all.sort_by_key(|(at, _)| *at);
        Ok(all.into_iter().map(|(_, seen)| seen).collect())
    }

    async fn inspect_chunk(&self, shard: Shard, ids: &[&Id]) -> Result<Vec<Inspection>> {
        let outcome = self.call(&script::INSPECT, shard, |cmd| {
            cmd.arg(ids.len());
            for id in ids {
                cmd.arg(id.as_bytes());
            }
        });
        let value = or_empty(outcome.await, || redis::Value::Nil)?;
        if value == redis::Value::Nil {
            let now = self.now().await?;
            let absent = || Inspection {
                state: State::Absent,
                shard,
                now,
                entry: None,
                fence: None,
                death: None,
                failures: Vec::new(),
                ended: None,
                paused: false,
            };
            return Ok(ids.iter().map(|_| absent()).collect());
        }
        let mut reply = reply::Reply::array("inspect", value)?;
        let now = from_micros(reply.u64()?);
        let paused = !reply.bytes()?.is_empty();
        let mut all = Vec::with_capacity(ids.len());
        for id in ids {
            let state = match reply.word()?.as_str() {
                "scheduled" => State::Scheduled,
                "leased" => State::Leased,
                "dead" => State::Dead,
                "ended" => State::Ended,
                _ => State::Absent,
            };
            let at = reply.word()?.parse::<u64>().unwrap_or(0);
            let reason = reply.word()?;
            let (stored, live) = (reply.bytes()?, reply.bytes()?);
            let ended = body::decode_ended(&reply.bytes()?);
            let entry = body::decode_entry(id, &stored, &live, self.settings().slot_width);
            let reasons = Reasons::decode(&reason);
            let has_failed = entry.as_ref().is_some_and(|entry| entry.attempts > 0);
            let died_at = Moment::EPOCH.plus(Duration::from_millis(at));
            all.push(Inspection {
                state,
                shard,
                now,
                entry,
                fence: (state == State::Leased).then_some(Fence(at)),
                death: (state == State::Dead).then_some((died_at, reasons.death)),
                failures: if has_failed { reasons.failures } else { Vec::new() },
                ended,
                paused,
            });
        }
        Ok(all)
    }
}
