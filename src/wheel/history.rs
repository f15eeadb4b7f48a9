//! What the stream of events tells of one id: its ends, and the lives it was given again.

use super::answer::Inspection;
use super::events::{entries, stamp_ms};
use super::{Held, Holder, Presence, Wheel};
use crate::deadline::{Id, State};
use crate::error::Result;

/// Stream entries read at once.
const PAGE: usize = 500;
/// Stream entries looked at: each may tell of up to 500 ids, so that this is at most a moment of Redis's time.
const MOST: usize = 20_000;

/// Something that happened to an id.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Event {
    /// When, in milliseconds since the epoch by Redis's clock.
    pub at_ms: u64,
    /// What: `closed`, `skipped`, `cancelled`, `resurrected`, `revived`, …
    pub what: String,
}

/// All that the wheel knows of an id.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// The deadline.
    pub seen: Inspection,
    /// The workers of the wheel, where one is waited for, or has it, and they are known.
    pub presence: Option<Presence>,
    /// What holds the wheel as a whole, where its shard is stopped and that is known.
    pub held: Option<Held>,
    /// What the stream of events tells, oldest first.
    pub events: Vec<Event>,
}

impl Survey {
    /// The worker that has it, or had it when it was lost, and the claim.
    pub fn holder(&self) -> Option<Holder<'_>> {
        self.presence.as_ref()?.holder(&self.seen)
    }

    /// Why it is not closed yet, or what became of it, as the wheel alone knows it.
    pub fn why(&self) -> String {
        self.seen.why(self.presence.as_ref(), self.held.as_ref())
    }
}

impl Wheel {
    /// All that the wheel knows of an id.
    pub async fn survey(&self, id: &Id) -> Result<Survey> {
        let seen = self.inspect(id).await?;
        let presence = match seen.state {
            State::Scheduled | State::Leased => self.presence().await.ok(),
            _ => None,
        };
        let held = match seen.paused {
            true => self.held_by().await.ok(),
            false => None,
        };
        // The stream is an extra: a user without the right to read it still sees the deadline.
        let events = self.history(id).await.unwrap_or_default();
        Ok(Survey { seen, presence, held, events })
    }

    /// What happened to an id, oldest first, as far back as `events_keep` or the last 20,000 events of its shard reach.
    pub async fn history(&self, id: &Id) -> Result<Vec<Event>> {
        let shard = usize::from(self.shard_of(id).0);
        let key = self.inner.keys[shard % self.inner.keys.len()][0].replace(":meta", ":events");
        let (mut events, mut end) = (Vec::new(), "+".to_owned());
        for _ in 0..MOST / PAGE {
            let mut cmd = redis::cmd("XREVRANGE");
            cmd.arg(&key).arg(&end).arg("-").arg("COUNT").arg(PAGE);
            let page = entries("history", self.store().command(&cmd, "read the events").await?)?;
            let full = page.len() == PAGE;
            for entry in page {
                let told = entry.fields.iter().filter(|(what, ids)| {
                    !what.contains('.') && ids.split(|b| *b == b'\n').any(|one| one == id.as_bytes())
                });
                let at_ms = stamp_ms(&entry.stamp);
                // The page runs backwards; within an entry a later field is later.
                let told: Vec<_> = told.map(|(what, _)| Event { at_ms, what: what.clone() }).collect();
                events.extend(told.into_iter().rev());
                end = format!("({}", entry.stamp);
            }
            if !full {
                break;
            }
        }
        events.reverse();
        Ok(events)
    }
}
