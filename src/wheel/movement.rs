//! Verbs that move one deadline: reschedule, hold, release, close by hand, revive; and pause, which stops a whole wheel.

use std::time::Duration;

use futures_util::StreamExt as _;
use redis::Cmd;

use super::answer::{Answer, Refusal, Scheduled};
use super::place::ended_refusal;
use super::{Wheel, reply, script};
use crate::deadline::{DueAt, Generation, Id, Note};
use crate::error::{Error, Result};

/// Calls under way at once where many ids are moved: enough to hide the way to Redis, few enough to let claims in between.
const AT_ONCE: usize = 8;

impl Wheel {
    /// Gives a scheduled deadline another moment, and with it a new generation. `expected` refuses when the stored generation is
    /// another one. Refusals: absent, leased, dead, ended, generation.
    pub async fn reschedule(
        &self,
        id: &Id,
        due_at: DueAt,
        expected: Option<Generation>,
    ) -> Result<Answer<Scheduled>> {
        let due = self.due_argument(due_at)?;
        let expected = expected.map(|generation| generation.to_string()).unwrap_or_default();
        self.moved("reschedule", id, |cmd| {
            cmd.arg(&due).arg(&expected);
        })
        .await
    }

    /// Keeps a scheduled deadline, due or not, from firing for a while: a payment is under way. Refusals: absent, leased, dead, ended,
    /// hold_cap.
    pub async fn hold(&self, id: &Id, for_long: Duration) -> Result<Answer<Scheduled>> {
        self.hold_through(id, for_long, None).await
    }

    /// The same for a payment through a channel, within that channel's limits. A channel that is not known or may not hold, and one hold
    /// that is too long, is an [`Error::Invalid`].
    pub async fn hold_through(
        &self,
        id: &Id,
        for_long: Duration,
        channel: Option<&str>,
    ) -> Result<Answer<Scheduled>> {
        let settings = self.settings();
        let limits = settings.channels.hold(channel, for_long, settings.hold_limits())?;
        self.moved("hold", id, |cmd| {
            let most_ms = limits.max_total.as_millis().min(u32::MAX.into());
            cmd.arg(for_long.as_millis().to_string()).arg(limits.max_count.min(255)).arg(most_ms.to_string());
        })
        .await
    }

    /// Ends a hold early. Refusals: absent, leased, dead, ended, not_held.
    pub async fn release(&self, id: &Id) -> Result<Answer<Scheduled>> {
        self.moved("release", id, |_| {}).await
    }

    /// Closes an order now, by hand: it fires at once with cause *manual*; the hook keeps its guard. Also of a dead one. Refusals:
    /// absent, leased, ended.
    pub async fn close(&self, id: &Id, note: &Note) -> Result<Answer<Scheduled>> {
        let note = serde_json::to_vec(note).unwrap_or_default();
        self.moved("close", id, |cmd| {
            cmd.arg(&note);
        })
        .await
    }

    /// Gives a dead deadline a new life: due now, no attempts so far, a new generation. Refusals: absent, leased, scheduled, ended.
    pub async fn revive(&self, id: &Id) -> Result<Answer<Scheduled>> {
        self.moved("revive", id, |_| {}).await
    }

    /// The same for many, several at once; one answer for each, in the same order.
    pub async fn revive_many(&self, ids: &[Id]) -> Vec<Result<Answer<Scheduled>>> {
        let revived: Vec<_> = ids.iter().map(|id| self.revive(id)).collect();
        futures_util::stream::iter(revived).buffered(AT_ONCE).collect().await
    }

    async fn moved(&self, verb: &'static str, id: &Id, args: impl Fn(&mut Cmd)) -> Result<Answer<Scheduled>> {
        let value = self
            .call(&script::MOVE, self.shard_of(id), |cmd| {
                cmd.arg(verb).arg(id.as_bytes());
                args(cmd);
            })
            .await?;
        let mut reply = reply::Reply::array(verb, value)?;
        let word = reply.word()?;
        Ok(Err(match word.as_str() {
            "ok" => {
                return Ok(Ok(Scheduled {
                    due_at: reply.moment()?,
                    next_at: reply.moment()?,
                    generation: Generation(reply.u64()?),
                }));
            }
            "absent" => Refusal::Absent,
            "leased" => Refusal::Leased,
            "dead" => Refusal::Dead,
            "scheduled" => Refusal::Scheduled,
            "ended" => ended_refusal(verb, &reply.bytes()?)?,
            "generation" => Refusal::Generation { stored: Generation(reply.u64()?) },
            "hold_cap" => Refusal::HoldCap {
                count: u32::try_from(reply.u64()?).unwrap_or(u32::MAX),
                total: Duration::from_millis(reply.u64()?),
            },
            "not_held" => Refusal::NotHeld,
            other => return Err(reply::unexpected(verb, &other)),
        }))
    }

    /// Stops claiming on every shard; returns (shards written, shards in all). Kept for the wheel too, so that the roster writes it
    /// again to a shard that lost it.
    pub async fn pause(&self, note: &Note) -> Result<(u64, u64)> {
        let text = serde_json::to_string(note).unwrap_or_default();
        let mut remember = redis::cmd("HSET");
        remember.arg(super::keys::of_wheel(self.name(), "state")).arg("paused").arg(&text);
        self.store().command(&remember, "remember the pause").await?;
        self.pause_shards("pause", &text).await
    }

    /// Pauses, trips or resumes the shards, and remembers nothing for the wheel.
    pub(super) async fn pause_shards(&self, word: &str, note: &str) -> Result<(u64, u64)> {
        let (mut written, mut failure): (u64, Option<Error>) = (0, None);
        for shard in self.shards().all() {
            let outcome = self
                .call(&script::PAUSE, shard, |cmd| {
                    cmd.arg(word).arg(note);
                })
                .await;
            match outcome {
                Ok(_) => written += 1,
                Err(e) => failure = Some(e),
            }
        }
        match failure {
            Some(e) if written == 0 => Err(e),
            _ => Ok((written, self.shards().get().into())),
        }
    }
}
