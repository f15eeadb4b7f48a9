//! The worker's verbs: claim, renew, settle, prune.

use std::time::{Duration, Instant};

use super::answer::Settled;
use super::{MAX_BATCH, Wheel, body, reply, script};
use crate::clock::Moment;
use crate::deadline::{Cause, Id, Outcome, Stage};
use crate::error::Result;
use crate::lease::{Fence, Lease, RedisClock};
use crate::shard::Shard;

/// What a worker asks of a shard.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// Leases at most (1 to 500).
    pub limit: usize,
    /// How long the leases last.
    pub lease: Duration,
    /// Taken off before the lease is trusted no more.
    pub margin: Duration,
    /// The worker, by its random token.
    pub worker: &'a str,
    /// Distinguishes this claim from the worker's others on the shard; the same nonce again returns the same leases.
    pub nonce: u64,
    /// Whether the worker may take an id that lost a lease before (one at a time in a process).
    pub suspect: bool,
    /// Leases lost alone before an id is buried.
    pub poison_limit: u32,
    /// Take only what is at least so late: zero for the shard's preferred worker, more for one that would steal.
    pub late: Duration,
    /// Until when the tokens are good that the wheel's rate asks for, by Redis's clock in microseconds; 0 where it has no rate.
    pub good_until_us: u64,
    /// When the claim was first sent; a repeat counts its trust from here too.
    pub sent: Instant,
}

/// What a claim brought.
#[derive(Debug)]
pub struct Claimed {
    /// Redis's clock in microseconds.
    pub now_us: u64,
    /// When to look again, by Redis's clock; `None` when nothing is scheduled.
    pub next_look: Option<Moment>,
    /// Whether the shard gives leases at all.
    pub state: ShardState,
    /// Expired leases that were put back.
    pub reaped: u64,
    /// Whether this is a suspect, leased alone.
    pub alone: bool,
    /// The leases, oldest first.
    pub leases: Vec<Lease>,
}

/// Whether a shard gives leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShardState {
    /// It does.
    Running,
    /// A person stopped it.
    Paused,
    /// The breaker stopped it.
    Tripped,
}

/// The verdict on one lease, as the wheel takes it.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The order.
    pub id: Id,
    /// The lease's current end.
    pub fence: Fence,
    /// What becomes of it.
    pub what: What,
}

/// How much is remembered of why an attempt failed: in an outage many deadlines have such a reason at once.
const REASON_BYTES: usize = 256;

/// What becomes of a leased deadline.
#[derive(Debug, Clone)]
pub enum What {
    /// It ended.
    End {
        /// Closed or skipped.
        outcome: Outcome,
        /// The lease it ended under; its facts are remembered.
        lease: std::sync::Arc<Lease>,
    },
    /// Try again after this wait; the attempt counts. Why it failed is remembered, at most 256 bytes of it.
    Retry(Duration, String),
    /// Try again after this wait; the attempt does not count.
    Wait(Duration),
    /// The table's own close time is later.
    Until(Moment),
    /// Given back untouched (drain).
    Back,
    /// Buried, with the reason.
    Bury(String),
    /// A reminder is over: the next stage fires at this moment. Harmless where that moment has passed.
    Stage(Stage, Moment, Reminded),
}

/// What others are told of a reminder that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reminded {
    /// Event `reminded`.
    Done,
    /// Event `reminder_failed`.
    Failed,
    /// Nothing: there was no need for it.
    Needless,
}

/// What became of a lease that was to last longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewed {
    /// It lasts to this new end, which is the fence from now on.
    Until(Fence),
    /// It is another worker's, or nobody's.
    Stale,
}

impl Wheel {
    /// Leases the oldest due deadlines of a shard. A member that is no id of ours is buried and left out.
    pub async fn claim(&self, shard: Shard, ask: &Ask<'_>) -> Result<Claimed> {
        let value = self
            .call(&script::CLAIM, shard, |cmd| {
                cmd.arg(ask.limit.clamp(1, MAX_BATCH)).arg(micros(ask.lease)).arg(ask.worker).arg(ask.nonce);
                cmd.arg(u8::from(ask.suspect)).arg(ask.poison_limit).arg(ask.late.as_millis().to_string());
                cmd.arg(ask.good_until_us);
            })
            .await?;
        let mut reply = reply::Reply::array("claim", value)?;
        let now_us = reply.u64()?;
        let next = reply.u64()?;
        let (fence, sooner) = fences(&reply.value()?)?;
        let state = match reply.word()?.as_str() {
            "paused" => ShardState::Paused,
            "tripped" => ShardState::Tripped,
            _ => ShardState::Running,
        };
        let reaped = reply.u64()?;
        let alone = reply.u64()? == 1;
        let grant = Grant {
            fence,
            trusted_until: ask.sent + ask.lease.saturating_sub(ask.margin),
            now_us,
            sent: ask.sent,
            margin: ask.margin,
        };
        let mut sooner = sooner.into_iter().peekable();
        let mut leases = Vec::with_capacity(reply.len() / 3);
        let mut foreign = Vec::new();
        while reply.len() >= 3 {
            let (id, stored, live) = (reply.bytes()?, reply.bytes()?, reply.bytes()?);
            let place = leases.len() + foreign.len() + 1;
            match (Id::from_bytes(&id), body::decode_header(&stored)) {
                (Ok(id), Some(header)) => {
                    let lease = grant.lease(id, &header, &stored, &live);
                    leases.push(match sooner.next_if(|(at, _)| *at == place) {
                        Some((_, own)) => grant.sooner(lease, own),
                        None => lease,
                    });
                }
                (Err(e), _) => foreign.push((id, e.to_string())),
                (_, None) => foreign.push((id, "unreadable header".to_owned())),
            }
        }
        if !foreign.is_empty() {
            self.bury_foreign(shard, fence, &foreign).await?;
        }
        let next_look = (next > 0).then(|| Moment::EPOCH.plus(Duration::from_millis(next)));
        Ok(Claimed { now_us, next_look, state, reaped, alone, leases })
    }

    async fn bury_foreign(&self, shard: Shard, fence: Fence, foreign: &[(Vec<u8>, String)]) -> Result<()> {
        tracing::error!(wheel = %self.name(), %shard, count = foreign.len(), "burying members that are no ids of ours");
        self.call(&script::SETTLE, shard, |cmd| {
            cmd.arg(foreign.len()).arg(fence.0).arg(foreign.len());
            for (id, reason) in foreign {
                cmd.arg(id).arg(format!("d{reason}"));
            }
        })
        .await?;
        Ok(())
    }

    /// Makes leases of one shard last `extension` longer, counted from their old end; one answer for each. Repeating it is harmless.
    pub async fn renew(
        &self,
        shard: Shard,
        leases: &[(Id, Fence)],
        extension: Duration,
    ) -> Result<Vec<Renewed>> {
        let mut answers = Vec::with_capacity(leases.len());
        for chunk in leases.chunks(MAX_BATCH) {
            let value = self
                .call(&script::RENEW, shard, |cmd| {
                    cmd.arg(micros(extension)).arg(chunk.len());
                    for (id, fence) in chunk {
                        cmd.arg(id.as_bytes()).arg(fence.0);
                    }
                })
                .await?;
            let mut reply = reply::Reply::array("renew", value)?;
            for _ in chunk {
                answers.push(match reply.u64()? {
                    0 => Renewed::Stale,
                    fence => Renewed::Until(Fence(fence)),
                });
            }
        }
        Ok(answers)
    }

    /// Writes the verdicts of leases of one shard; one answer for each. Safe to repeat with the same fences.
    pub async fn settle(&self, shard: Shard, settlements: &[Settlement]) -> Result<Vec<Settled>> {
        let mut answers = Vec::with_capacity(settlements.len());
        for chunk in settlements.chunks(MAX_BATCH) {
            let value = self
                .call(&script::SETTLE, shard, |cmd| {
                    cmd.arg(chunk.len());
                    for group in chunk.chunk_by(|a, b| a.fence == b.fence) {
                        cmd.arg(group[0].fence.0).arg(group.len());
                        for settlement in group {
                            push_settlement(cmd, settlement);
                        }
                    }
                })
                .await?;
            for mark in reply::bytes("settle", value)? {
                answers.push(match mark {
                    b'1' => Settled::Done,
                    b'2' => Settled::Cancelled,
                    _ => Settled::Stale,
                });
            }
        }
        Ok(answers)
    }

    /// Forgets ends and events of a shard whose time is over, one page; returns (next cursor, or `None` at the end; removed).
    pub async fn prune(&self, shard: Shard, cursor: u64) -> Result<(Option<u64>, u64)> {
        let value = self
            .call(&script::PRUNE, shard, |cmd| {
                cmd.arg(cursor);
            })
            .await?;
        let mut reply = reply::Reply::array("prune", value)?;
        let (next, removed) = (reply.u64()?, reply.u64()?);
        Ok(((next != 0).then_some(next), removed))
    }
}

/// What all leases of one claim have in common.
struct Grant {
    fence: Fence,
    trusted_until: Instant,
    now_us: u64,
    sent: Instant,
    margin: Duration,
}

impl Grant {
    /// The same lease with an end of its own: a reminder's, before the next stage.
    fn sooner(&self, lease: Lease, fence: Fence) -> Lease {
        let lasts = Duration::from_micros(fence.0.saturating_sub(self.now_us));
        let trusted_until = self.trusted_until.min(self.sent + lasts.saturating_sub(self.margin));
        Lease { fence, trusted_until, ..lease }
    }

    fn lease(&self, id: Id, header: &body::Header, stored: &[u8], live: &[u8]) -> Lease {
        let (payload, traceparent, reminders) = body::decode_body(stored);
        let live = body::Live::decode(live);
        Lease {
            id,
            due_at: header.due_at,
            generation: header.generation,
            stage: header.stage,
            cause: if live.note.is_some() { Cause::Manual } else { header.cause },
            attempt: live.attempts.saturating_add(1),
            fence: self.fence,
            payload,
            traceparent,
            was_held: header.hold_count > 0,
            was_put_off: header.next_at > header.due_at,
            note: live.note,
            reminders,
            trusted_until: self.trusted_until,
            redis_clock: RedisClock { us: self.now_us, at: self.sent },
        }
    }
}

/// Id and verdict as lua/settle.lua takes them: a letter and its data, or the record of an end.
fn push_settlement(cmd: &mut redis::Cmd, settlement: &Settlement) {
    cmd.arg(settlement.id.as_bytes());
    match &settlement.what {
        What::End { outcome, lease } => {
            let tail = body::encode_ended_tail(
                *outcome,
                lease.cause,
                lease.attempt,
                lease.generation,
                lease.due_at,
                lease.fence,
            );
            cmd.arg(&tail[..])
        }
        What::Retry(wait, reason) if reason.is_empty() => cmd.arg(format!("r{}", wait.as_millis())),
        What::Retry(wait, reason) => cmd.arg(format!("r{} {}", wait.as_millis(), cut(reason, REASON_BYTES))),
        What::Wait(wait) => cmd.arg(format!("w{}", wait.as_millis())),
        What::Until(moment) => cmd.arg(format!("u{}", moment.as_millis())),
        What::Back => cmd.arg("b"),
        What::Bury(reason) => cmd.arg(format!("d{}", cut(reason, 4096))),
        What::Stage(stage, moment, told) => {
            let word = match told {
                Reminded::Done => " reminded",
                Reminded::Failed => " reminder_failed",
                Reminded::Needless => "",
            };
            cmd.arg(format!("s{} {}{word}", stage.0, moment.as_millis()))
        }
    };
}

/// The fence of a claim, and the places of leases that end sooner, with theirs.
fn fences(value: &redis::Value) -> Result<(Fence, Vec<(usize, Fence)>)> {
    if let Some(fence) = reply::number(value).and_then(|fence| u64::try_from(fence).ok()) {
        return Ok((Fence(fence), Vec::new()));
    }
    let text = reply::bytes("claim", value.clone())?;
    let text = String::from_utf8_lossy(&text);
    let mut words = text.split(' ');
    let read = |word: &str| {
        let (place, fence) = word.split_once(':')?;
        Some((place.parse().ok()?, Fence(fence.parse().ok()?)))
    };
    let fence = words.next().and_then(|word| word.parse().ok()).map(Fence);
    let sooner: Option<Vec<_>> = words.map(read).collect();
    fence.zip(sooner).ok_or_else(|| reply::unexpected("claim", &text))
}

fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
