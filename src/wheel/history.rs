//! What the stream of events tells of one id: its ends, and the lives it was given again.

use redis::Value;

use super::{Wheel, reply};
use crate::clock::Moment;
use crate::deadline::Id;
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
    /// What: `closed`, `skipped`, `cancelled`, `resurrected`, `revived`.
    pub what: String,
}

impl Wheel {
    /// What happened to an id, oldest first, as far back as `events_keep` or the last 20,000 events of its shard reach.
    pub async fn history(&self, id: &Id) -> Result<Vec<Event>> {
        let shard = usize::from(self.shard_of(id).0);
        let key = self.inner.keys[shard % self.inner.keys.len()][0].replace(":meta", ":events");
        let (mut events, mut end) = (Vec::new(), "+".to_owned());
        for _ in 0..MOST / PAGE {
            let mut cmd = redis::cmd("XREVRANGE");
            cmd.arg(&key).arg(&end).arg("-").arg("COUNT").arg(PAGE);
            let mut page =
                reply::Reply::array("history", self.store().command(&cmd, "read the events").await?)?;
            let full = page.len() == PAGE;
            while page.len() > 0 {
                let mut entry = reply::Reply::array("history", page.value()?)?;
                let stamp = entry.word()?;
                collect(&stamp, entry.value()?, id, &mut events)?;
                end = format!("({stamp}");
            }
            if !full {
                break;
            }
        }
        events.reverse();
        Ok(events)
    }
}

/// Adds what one stream entry tells of the id.
fn collect(stamp: &str, fields: Value, id: &Id, events: &mut Vec<Event>) -> Result<()> {
    let at_ms = stamp.split('-').next().and_then(|ms| ms.parse().ok()).unwrap_or(Moment::EPOCH.as_millis());
    let fields = match fields {
        Value::Map(pairs) => Value::Array(pairs.into_iter().flat_map(|(k, v)| [k, v]).collect()),
        other => other,
    };
    let mut fields = reply::Reply::array("history", fields)?;
    while fields.len() >= 2 {
        let (what, ids) = (fields.word()?, fields.bytes()?);
        if ids.split(|b| *b == b'\n').any(|one| one == id.as_bytes()) {
            events.push(Event { at_ms, what });
        }
    }
    Ok(())
}
