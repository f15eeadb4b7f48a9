//! Carrying deadlines as they are: export reads them with all they have, import takes them over.

use super::answer::{Ended, Entry};
use super::{MAX_BYTES, Wheel, body, reasons, reply, script};
use crate::clock::Moment;
use crate::deadline::{Id, State};
use crate::error::Result;
use crate::shard::Shard;

/// One deadline with all that is known of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Carried {
    /// Scheduled, leased (carried as scheduled) or dead.
    Live {
        /// Scheduled or dead.
        state: State,
        /// next_at, or the time of death.
        at: Moment,
        /// The deadline.
        entry: Box<Entry>,
        /// Why it died, or why its latest attempt failed; empty where neither is known.
        reason: String,
    },
    /// Ended and remembered.
    Ended {
        /// The order.
        id: Id,
        /// What is remembered.
        ended: Ended,
    },
}

impl Carried {
    /// The order.
    pub fn id(&self) -> &Id {
        match self {
            Self::Live { entry, .. } => &entry.id,
            Self::Ended { id, .. } => id,
        }
    }
}

impl Wheel {
    /// Takes deadlines over; `true` for each that was new, `false` where the id had a body (or an end) already.
    pub async fn adopt(&self, carried: &[Carried]) -> Result<Vec<bool>> {
        let mut adopted = vec![false; carried.len()];
        let mut by_shard = std::collections::BTreeMap::<Shard, Vec<usize>>::new();
        for (at, one) in carried.iter().enumerate() {
            by_shard.entry(self.shard_of(one.id())).or_default().push(at);
        }
        for (shard, members) in by_shard {
            for chunk in calls(&members, |at| payload_bytes(&carried[at])) {
                let value = self
                    .call(&script::ADOPT, shard, |cmd| {
                        cmd.arg(chunk.len());
                        for &at in chunk {
                            push_carried(cmd, &carried[at]);
                        }
                    })
                    .await?;
                for (&at, mark) in chunk.iter().zip(reply::bytes("adopt", value)?) {
                    adopted[at] = mark == b'1';
                }
            }
        }
        Ok(adopted)
    }
}

/// Cuts into calls of at most 100, and not much more than a megabyte of payloads.
fn calls(items: &[usize], bytes: impl Fn(usize) -> usize) -> impl Iterator<Item = &[usize]> {
    let mut held = 0;
    let mut count = 0;
    items.chunk_by(move |&before, _| {
        (held, count) = (held + bytes(before), count + 1);
        let goes_on = count < 100 && held < MAX_BYTES;
        if !goes_on {
            (held, count) = (0, 0);
        }
        goes_on
    })
}

fn payload_bytes(carried: &Carried) -> usize {
    match carried {
        Carried::Live { entry, .. } => entry.payload.as_bytes().len(),
        Carried::Ended { .. } => 0,
    }
}

fn push_carried(cmd: &mut redis::Cmd, carried: &Carried) {
    match carried {
        Carried::Live { state, at, entry, reason } => {
            let live = body::Live {
                attempts: entry.attempts,
                losses: entry.losses,
                cancelled: entry.cancelled,
                note: entry.note.clone(),
            };
            let word = if *state == State::Dead { "dead" } else { "scheduled" };
            cmd.arg(word).arg(entry.id.as_bytes()).arg(at.as_millis());
            cmd.arg(body::encode_stored(entry)).arg(live.encode());
            if *state == State::Dead || reason.is_empty() {
                cmd.arg(reason);
            } else {
                cmd.arg(reasons::carried(entry.attempts, reason));
            }
        }
        Carried::Ended { id, ended } => {
            cmd.arg("ended").arg(id.as_bytes()).arg(ended.ended_at.as_millis());
            cmd.arg(body::encode_ended(ended)).arg("").arg("");
        }
    }
}
