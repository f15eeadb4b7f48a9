//! What the wheel knows of many ids at once: for whoever compares it with the orders table.

use futures_util::future::join_all;

use super::{MAX_BATCH, SCAN, Wheel, reply, script};
use crate::deadline::{Id, State};
use crate::error::{Error, Result, StoreKind};
use crate::shard::Shard;

impl Wheel {
    /// Where each id is, in the order of the ids. A shard without meta knows nothing of any id, and is formatted on the way. Where one is
    /// due and in no place, as when a set of Redis was deleted or evicted, a structural scan is asked for: it puts it back.
    pub async fn held(&self, ids: &[&Id]) -> Result<Vec<State>> {
        let mut by_shard: Vec<Vec<usize>> = vec![Vec::new(); usize::from(self.shards().get())];
        for (at, id) in ids.iter().enumerate() {
            by_shard[usize::from(self.shard_of(id).0)].push(at);
        }
        let chunks = (0_u16..).zip(&by_shard).flat_map(|(shard, all)| {
            all.chunks(MAX_BATCH).map(move |members| async move {
                let states = self.held_chunk(Shard(shard), ids, members).await?;
                Ok::<_, Error>(members.iter().copied().zip(states).collect::<Vec<_>>())
            })
        });
        let mut held = vec![State::Absent; ids.len()];
        for chunk in join_all(chunks).await {
            for (at, state) in chunk? {
                held[at] = state;
            }
        }
        Ok(held)
    }

    async fn held_chunk(&self, shard: Shard, ids: &[&Id], members: &[usize]) -> Result<Vec<State>> {
        let ask = || {
            self.call(&script::HELD, shard, |cmd| {
                cmd.arg(members.len());
                for &at in members {
                    cmd.arg(ids[at].as_bytes());
                }
            })
        };
        let value = match ask().await {
            Err(Error::Store { kind: StoreKind::Unformatted, .. }) => {
                self.format().await?;
                ask().await?
            }
            other => other?,
        };
        let letters = reply::bytes("held", value)?;
        if letters.contains(&b'p') {
            tracing::error!(wheel = %self.name(), %shard, "deadlines are due and in no place: a scan is asked for");
            self.ask_for_job(SCAN).await?;
        }
        let states = letters.iter().map(|letter| match letter {
            b's' | b'p' => Ok(State::Scheduled),
            b'l' => Ok(State::Leased),
            b'd' => Ok(State::Dead),
            b'e' => Ok(State::Ended),
            b'a' => Ok(State::Absent),
            other => Err(reply::unexpected("held", other)),
        });
        let states: Vec<State> = states.collect::<Result<_>>()?;
        if states.len() == members.len() {
            Ok(states)
        } else {
            Err(reply::unexpected("held", &"another number of answers"))
        }
    }
}
