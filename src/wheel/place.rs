//! Verbs that put deadlines in and take them out: enqueue, cancel. Both take many ids at once; the batch is cut by shard and by 500.

use std::collections::HashSet;
use std::hash::Hash;
use std::time::Duration;

use futures_util::future::join_all;
use redis::Value;
use tokio::sync::Semaphore;

use super::answer::{Answer, Cancelled, Enqueued, EnqueuedHow, Refusal};
use super::{MAX_BATCH, MAX_BYTES, Wheel, body, reply, script};
use crate::clock::Moment;
use crate::deadline::{Deadline, DueAt, Generation, Id, OnConflict, Outcome};
use crate::error::{Error, Invalid, Result};
use crate::shard::Shard;

/// Calls of one batch on their way to Redis at once. Redis runs what has arrived from one connection before it turns to the next, so a
/// worker's claim waits behind all of them.
const SIDE_BY_SIDE: usize = 4;

impl Wheel {
    /// Places one deadline. Idempotent by id and moment.
    ///
    /// `force` gives a new life to an id that has ended. Refusals: conflict, leased, dead, ended.
    pub async fn enqueue(
        &self,
        deadline: &Deadline,
        on_conflict: OnConflict,
        force: bool,
    ) -> Result<Answer<Enqueued>> {
        let mut answers = self.enqueue_batch(std::slice::from_ref(deadline), on_conflict, force).await;
        answers.pop().unwrap_or_else(|| Err(reply::unexpected("enqueue", &"no answer")))
    }

    /// Places many deadlines, one answer for each, in the same order. Shards fail one by one: an error stands at each id of the
    /// batch that met it.
    pub async fn enqueue_batch(
        &self,
        deadlines: &[Deadline],
        on_conflict: OnConflict,
        force: bool,
    ) -> Vec<Result<Answer<Enqueued>>> {
        let bytes = |deadline: &Deadline| deadline.payload.as_bytes().len();
        let chunks = self.chunks(deadlines, |deadline| (&deadline.id, deadline.cause), bytes);
        let mut answers: Vec<Option<Result<Answer<Enqueued>>>> = deadlines.iter().map(|_| None).collect();
        // Rounds keep the order of repeated ids; within a round some shards work side by side.
        let turns = Semaphore::new(SIDE_BY_SIDE);
        for round in chunks {
            let calls = round.into_iter().map(async |(shard, members)| {
                let _turn = turns.acquire().await;
                let outcome = self.enqueue_chunk(shard, deadlines, &members, on_conflict, force).await;
                (members, outcome)
            });
            for (members, outcome) in join_all(calls).await {
                place_answers(&mut answers, members, outcome);
            }
        }
        answers
            .into_iter()
            .map(|a| a.unwrap_or_else(|| Err(reply::unexpected("enqueue", &"no answer"))))
            .collect()
    }

    async fn enqueue_chunk(
        &self,
        shard: Shard,
        deadlines: &[Deadline],
        members: &[usize],
        on_conflict: OnConflict,
        force: bool,
    ) -> Result<Vec<Answer<Enqueued>>> {
        let mut dues = Vec::with_capacity(members.len());
        for &at in members {
            dues.push(self.due_argument(deadlines[at].due_at)?);
        }
        let bodies: Vec<Vec<u8>> =
            members.iter().map(|&at| body::encode_new(&deadlines[at], &self.settings().remind)).collect();
        let value = self
            .call(&script::ENQUEUE, shard, |cmd| {
                cmd.arg(match on_conflict {
                    OnConflict::Keep => "keep",
                    OnConflict::Replace => "replace",
                    OnConflict::Later => "later",
                    OnConflict::Earlier => "earlier",
                });
                cmd.arg(u8::from(force)).arg(deadlines[members[0]].cause as u8).arg(members.len());
                for (n, &at) in members.iter().enumerate() {
                    cmd.arg(deadlines[at].id.as_bytes()).arg(&dues[n]).arg(&bodies[n]);
                }
            })
            .await?;
        let mut reply = reply::Reply::array("enqueue", value)?;
        let now = Moment::EPOCH.plus(Duration::from_micros(reply.u64()?));
        let generation = Generation(reply.u64()?);
        let all_new = reply.len() == 0;
        members
            .iter()
            .map(|&at| {
                let due_at = match deadlines[at].due_at {
                    DueAt::Moment(moment) => moment,
                    DueAt::After(window) => now.plus(Duration::from_millis(whole_millis(window))),
                };
                let answer = if all_new { Value::Int(1) } else { reply.value()? };
                enqueued_from(answer, due_at, generation)
            })
            .collect()
    }

    /// The moment or window as the script takes it; refuses what lies further ahead than the wheel allows.
    pub(super) fn due_argument(&self, due_at: DueAt) -> Result<String> {
        let max = self.settings().max_ahead;
        let (ahead, argument) = match due_at {
            DueAt::Moment(moment) => (moment.since(Moment::host_now()), moment.as_millis().to_string()),
            DueAt::After(window) => (window, format!("+{}", whole_millis(window))),
        };
        if ahead > max {
            let days = max.as_secs() / 86_400;
            return Err(
                Invalid::new("due_at", &argument, format!("expected at most {days} days ahead")).into()
            );
        }
        Ok(argument)
    }

    /// Ends many deadlines that must not fire any more; one answer for each, in the same order. Refusal: ended (closed or skipped).
    pub async fn cancel(&self, ids: &[Id]) -> Vec<Result<Answer<Cancelled>>> {
        self.cancel_some(ids, false).await
    }

    /// Drops dead deadlines, and only those. Refusals: scheduled, ended, absent.
    pub async fn drop_dead(&self, ids: &[Id]) -> Vec<Result<Answer<Cancelled>>> {
        self.cancel_some(ids, true).await
    }

    async fn cancel_some(&self, ids: &[Id], only_dead: bool) -> Vec<Result<Answer<Cancelled>>> {
        let chunks = self.chunks(ids, |id| (id, ()), |_| 0);
        let mut answers: Vec<Option<Result<Answer<Cancelled>>>> = ids.iter().map(|_| None).collect();
        let turns = Semaphore::new(SIDE_BY_SIDE);
        for round in chunks {
            let calls = round.into_iter().map(async |(shard, members)| {
                let _turn = turns.acquire().await;
                let outcome = self.cancel_chunk(shard, ids, &members, only_dead).await;
                (members, outcome)
            });
            for (members, outcome) in join_all(calls).await {
                place_answers(&mut answers, members, outcome);
            }
        }
        answers
            .into_iter()
            .map(|a| a.unwrap_or_else(|| Err(reply::unexpected("cancel", &"no answer"))))
            .collect()
    }

    async fn cancel_chunk(
        &self,
        shard: Shard,
        ids: &[Id],
        members: &[usize],
        only_dead: bool,
    ) -> Result<Vec<Answer<Cancelled>>> {
        let value = self
            .call(&script::CANCEL, shard, |cmd| {
                cmd.arg(u8::from(only_dead)).arg(members.len());
                for &at in members {
                    cmd.arg(ids[at].as_bytes());
                }
            })
            .await?;
        let mut reply = reply::Reply::array("cancel", value)?;
        members.iter().map(|_| cancelled_from(reply.value()?, only_dead)).collect()
    }

    /// Cuts a batch into rounds of (shard, indices): an id and a kind stand at most once in a call, and a call has at most 500, and not
    /// much more than a megabyte of payloads.
    fn chunks<'a, T, K: PartialEq + Copy>(
        &self,
        items: &'a [T],
        key: impl Fn(&'a T) -> (&'a Id, K),
        bytes: impl Fn(&T) -> usize,
    ) -> Vec<Vec<(Shard, Vec<usize>)>> {
        let shards = usize::from(self.shards().get());
        let mut by_shard: Vec<Vec<usize>> = vec![Vec::new(); shards];
        for (at, item) in items.iter().enumerate() {
            by_shard[usize::from(self.shard_of(key(item).0).0)].push(at);
        }
        let mut rounds: Vec<Vec<(Shard, Vec<usize>)>> = Vec::new();
        for (shard, members) in (0_u16..).zip(by_shard) {
            let calls = cut(&members, |at| key(&items[at]), |at| bytes(&items[at]));
            for (round, chunk) in calls.into_iter().enumerate() {
                if rounds.len() <= round {
                    rounds.push(Vec::new());
                }
                rounds[round].push((Shard(shard), chunk));
            }
        }
        rounds
    }
}

fn cut<I: Eq + Hash, K: PartialEq + Copy>(
    members: &[usize],
    key: impl Fn(usize) -> (I, K),
    bytes: impl Fn(usize) -> usize,
) -> Vec<Vec<usize>> {
    let mut chunks = Vec::new();
    let mut chunk: Vec<usize> = Vec::new();
    let mut seen = HashSet::new();
    let (mut kind, mut held) = (None, 0);
    for &at in members {
        let (id, its_kind) = key(at);
        let is_full = chunk.len() == MAX_BATCH || held >= MAX_BYTES;
        if is_full || kind.is_some_and(|k| k != its_kind) || seen.contains(&id) {
            chunks.push(std::mem::take(&mut chunk));
            seen.clear();
            held = 0;
        }
        held += bytes(at);
        kind = Some(its_kind);
        seen.insert(id);
        chunk.push(at);
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}

/// A window as it is stored. A part of a millisecond rounds up: never early.
fn whole_millis(window: Duration) -> u64 {
    u64::try_from(window.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn place_answers<T: Clone>(
    answers: &mut [Option<Result<Answer<T>>>],
    members: Vec<usize>,
    outcome: Result<Vec<Answer<T>>>,
) {
    match outcome {
        Ok(given) => members.into_iter().zip(given).for_each(|(at, answer)| answers[at] = Some(Ok(answer))),
        Err(e) => members.into_iter().for_each(|at| answers[at] = Some(Err(Error::clone(&e)))),
    }
}

fn enqueued_from(value: Value, due_at: Moment, generation: Generation) -> Result<Answer<Enqueued>> {
    if reply::number(&value) == Some(1) {
        return Ok(Ok(Enqueued { due_at, generation, how: EnqueuedHow::New }));
    }
    let mut reply = reply::Reply::array("enqueue", value)?;
    let word = reply.word()?;
    let (due_at, generation) = (reply.moment()?, Generation(reply.u64()?));
    let done = |how| Ok(Ok(Enqueued { due_at, generation, how }));
    match word.as_str() {
        "exists" => done(EnqueuedHow::Exists),
        "replaced" => done(EnqueuedHow::Replaced),
        "resurrected" => done(EnqueuedHow::Resurrected),
        "conflict" => Ok(Err(Refusal::Conflict { due_at })),
        "leased" => Ok(Err(Refusal::Leased)),
        "dead" => Ok(Err(Refusal::Dead)),
        "ended" => Ok(Err(ended_refusal("enqueue", &reply.bytes()?)?)),
        other => Err(reply::unexpected("enqueue", &other)),
    }
}

fn cancelled_from(value: Value, only_dead: bool) -> Result<Answer<Cancelled>> {
    if let Value::Array(_) = value {
        let mut reply = reply::Reply::array("cancel", value)?;
        reply.word()?;
        return Ok(match ended_refusal("cancel", &reply.bytes()?)? {
            Refusal::Ended(ended) if ended.outcome == Outcome::Cancelled && !only_dead => {
                Ok(Cancelled::Already)
            }
            refusal => Err(refusal),
        });
    }
    match reply::bytes("cancel", value)?.as_slice() {
        b"cancelled" => Ok(Ok(Cancelled::Cancelled)),
        b"absent" if only_dead => Ok(Err(Refusal::Absent)),
        b"absent" => Ok(Ok(Cancelled::Absent)),
        b"leased" => Ok(Ok(Cancelled::Leased)),
        b"not_dead" => Ok(Err(Refusal::Scheduled)),
        other => Err(reply::unexpected("cancel", &other.escape_ascii().to_string())),
    }
}

/// The refusal behind a stored end.
pub(super) fn ended_refusal(verb: &'static str, record: &[u8]) -> Result<Refusal> {
    let ended =
        body::decode_ended(record).ok_or_else(|| reply::unexpected(verb, &"unreadable ended record"))?;
    Ok(Refusal::Ended(ended))
}
