//! The breaker of a wheel: what the fleet's hooks answered, counted in one place, and the trip that stops closing until a person lifts it.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::{Wheel, keys, reply, script};
use crate::clock::Moment;
use crate::deadline::Note;
use crate::error::Result;

/// The band within which a wheel closes orders. Zero turns a limit off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Band {
    /// Orders closed within a minute, at most.
    pub closes_per_minute: u32,
    /// The share of judged orders (closed or skipped) within a minute that were closed, at most; 0 to 1.
    pub closed_ratio: f64,
    /// Judged orders within the minute below which the share says nothing.
    pub ratio_least: u32,
    /// Orders in a row that were rejected or gone, from which on something is wrong with more than them.
    pub rejected_run: u32,
}

impl Default for Band {
    /// Any number of closes; a hundred orders in a row that the hook will never close are a fault of ours, not of a hundred orders.
    fn default() -> Self {
        Self { closes_per_minute: 0, closed_ratio: 0.0, ratio_least: 100, rejected_run: 100 }
    }
}

/// Verdicts of one worker since its last report, in their order as far as it matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// Closed.
    pub closed: u64,
    /// Paid, or closed by others.
    pub skipped: u64,
    /// Rejected or gone before any other verdict.
    pub lead: u64,
    /// Whether there was any other.
    pub other: bool,
    /// Rejected or gone after the last other one.
    pub tail: u64,
}

impl Verdicts {
    /// Adds verdicts that came later.
    pub fn add(&mut self, later: &Self) {
        self.closed += later.closed;
        self.skipped += later.skipped;
        if self.other {
            self.tail += later.lead;
        } else {
            self.lead += later.lead;
        }
        if later.other {
            (self.other, self.tail) = (true, later.tail);
        }
    }
}

/// Why and when a wheel was tripped.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Trip {
    /// When, by Redis's clock in microseconds; tells this trip from others.
    pub at_us: u64,
    /// Which worker reported what was too much.
    pub by: String,
    /// What was too much.
    pub why: String,
}

impl Trip {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.splitn(3, '\n');
        let at_us = lines.next()?.parse().ok()?;
        Some(Self { at_us, by: lines.next()?.to_owned(), why: lines.next()?.to_owned() })
    }

    fn text(&self) -> String {
        format!("{}\n{}\n{}", self.at_us, self.by, self.why)
    }

    /// When, by Redis's clock.
    pub fn at(&self) -> Moment {
        Moment::EPOCH.plus(Duration::from_micros(self.at_us))
    }
}

/// The breaker after a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// The trip that stands, if any.
    pub trip: Option<Trip>,
    /// Whether this report has tripped it.
    pub fresh: bool,
    /// Rejected or gone in a row so far.
    pub run: u64,
}

/// What holds the wheel as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// A person stopped it, and why.
    pub paused: Option<Note>,
    /// The breaker stopped it.
    pub trip: Option<Trip>,
}

impl Held {
    fn parse(paused: Option<&str>, tripped: Option<&str>) -> Self {
        let unknown = || Note { actor: "unknown".to_owned(), reason: "unknown".to_owned() };
        let paused = paused.map(|text| serde_json::from_str(text).unwrap_or_else(|_| unknown()));
        Self { paused, trip: tripped.and_then(Trip::parse) }
    }

    /// As the record of the wheel and that of a shard have it; an empty text where nothing is to stand.
    pub(super) fn fields(&self) -> [(&'static str, String); 2] {
        let paused = self.paused.as_ref().map(|note| serde_json::to_string(note).unwrap_or_default());
        [
            ("paused", paused.unwrap_or_default()),
            ("tripped", self.trip.as_ref().map(Trip::text).unwrap_or_default()),
        ]
    }
}

/// What the wheel's own record says of what holds it.
struct StateRecord {
    held: Held,
    /// The trip that a person has lifted last.
    lifted: Option<u64>,
    /// Whether there is one: it was held at least once since Redis was emptied.
    is_there: bool,
}

fn word(reply: &mut reply::Reply) -> Result<Option<String>> {
    Ok(match reply.value()? {
        redis::Value::BulkString(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        _ => None,
    })
}

impl Wheel {
    /// Adds verdicts to the fleet's counts. Where they leave the band the wheel is tripped: every shard is told.
    pub async fn report(&self, verdicts: &Verdicts, band: &Band, who: &str) -> Result<Reported> {
        let keys = ["breaker", "state", "audit"].map(|name| keys::of_wheel(self.name(), name));
        let attempted = format!("report verdicts of wheel {}", self.name());
        // In range, so nothing is cut.
        let ratio = (band.closed_ratio.clamp(0.0, 1.0) * 1000.0).round() as u32;
        let args = |cmd: &mut redis::Cmd| {
            cmd.arg(&self.inner.front[3]).arg(verdicts.closed).arg(verdicts.skipped).arg(verdicts.lead);
            cmd.arg(u8::from(verdicts.other)).arg(verdicts.tail).arg(band.closes_per_minute).arg(ratio);
            cmd.arg(band.ratio_least).arg(band.rejected_run).arg(who);
        };
        let value = self.store().run(&script::BREAKER, &keys, args, &attempted).await?;
        let mut reply = reply::Reply::array("breaker", value)?;
        let _now_us = reply.u64()?;
        let (state, text, run) = (reply.u64()?, reply.word()?, reply.u64()?);
        let reported = Reported { trip: Trip::parse(&text), fresh: state == 2, run };
        if reported.fresh {
            self.pause_shards("trip", &text).await?;
        }
        Ok(reported)
    }

    /// What holds the wheel as a whole.
    pub async fn held_by(&self) -> Result<Held> {
        Ok(self.state().await?.held)
    }

    async fn state(&self) -> Result<StateRecord> {
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(keys::of_wheel(self.name(), "state"))
            .arg("paused")
            .arg("tripped")
            .arg("lifted")
            .arg("resumed");
        let value = self.store().command(&cmd, "read what holds the wheel").await?;
        let mut reply = reply::Reply::array("state", value)?;
        let (paused, tripped) = (word(&mut reply)?, word(&mut reply)?);
        let (lifted, resumed) = (word(&mut reply)?, word(&mut reply)?);
        let is_there = paused.is_some() || tripped.is_some() || lifted.is_some() || resumed.is_some();
        Ok(StateRecord {
            is_there,
            held: Held::parse(paused.as_deref(), tripped.as_deref()),
            lifted: lifted.and_then(|text| text.parse().ok()),
        })
    }

    /// What a shard that is made now must be held by. Where the wheel's own record is gone, as when the node of a Cluster that had it was
    /// emptied, the shards that are left tell it, and it is written again. A wheel that was resumed has a record, so that a shard which
    /// that resuming did not reach tells nothing.
    pub(super) async fn held_for_new_shards(&self) -> Result<Held> {
        let state = self.state().await?;
        if state.is_there {
            return Ok(state.held);
        }
        let told = try_join_all(self.inner.keys.iter().map(|keys| self.told_by_shard(&keys[0]))).await?;
        let mut held = Held::default();
        for one in told {
            held.paused = held.paused.or(one.paused);
            held.trip = held.trip.or(one.trip);
        }
        if held != Held::default() {
            tracing::warn!(wheel = %self.name(), "what holds the wheel was lost, and is taken over from its shards");
            let mut cmd = redis::cmd("HSET");
            cmd.arg(keys::of_wheel(self.name(), "state"));
            for (field, text) in held.fields().into_iter().filter(|(_, text)| !text.is_empty()) {
                cmd.arg(field).arg(text);
            }
            self.store().command(&cmd, "remember what holds the wheel").await?;
        }
        Ok(held)
    }

    async fn told_by_shard(&self, meta: &str) -> Result<Held> {
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(meta).arg("paused").arg("tripped");
        let value = self.store().command(&cmd, "read what holds a shard").await?;
        let mut reply = reply::Reply::array("meta", value)?;
        let (paused, tripped) = (word(&mut reply)?, word(&mut reply)?);
        Ok(Held::parse(paused.as_deref(), tripped.as_deref()))
    }

    /// Writes pause and trip again where a shard lost them (restart without data, new shard), and the trip that the caller knows of also
    /// where the wheel itself has lost it, unless a person has lifted it. Returns what holds the wheel.
    pub async fn reassert(&self, known: Option<&Trip>) -> Result<Held> {
        let StateRecord { mut held, lifted, .. } = self.state().await?;
        if let (None, Some(known)) = (&held.trip, known)
            && lifted != Some(known.at_us)
        {
            let mut cmd = redis::cmd("HSET");
            cmd.arg(keys::of_wheel(self.name(), "state")).arg("tripped").arg(known.text());
            self.store().command(&cmd, "remember the trip").await?;
            held.trip = Some(known.clone());
        }
        if let Some(note) = &held.paused {
            self.pause_shards("pause", &serde_json::to_string(note).unwrap_or_default()).await?;
        }
        if let Some(trip) = &held.trip {
            self.pause_shards("trip", &trip.text()).await?;
        }
        if held != Held::default() && self.held_by().await? == Held::default() {
            // A person resumed it meanwhile.
            self.pause_shards("resume", "").await?;
            return Ok(Held::default());
        }
        Ok(held)
    }

    /// Claims again on every shard, whatever held it: a pause, a trip or both, which are returned with (shards written, shards in all).
    /// The fleet's counts begin anew.
    pub async fn resume(&self) -> Result<(Held, (u64, u64))> {
        let held = self.held_by().await?;
        let key = |name: &str| keys::of_wheel(self.name(), name);
        let mut forget = redis::cmd("DEL");
        forget.arg(key("breaker"));
        self.store().command(&forget, "forget the counts").await?;
        // Written first: from then on the record is there, and no shard is asked what it knew.
        let mut lift = redis::cmd("HSET");
        lift.arg(key("state")).arg("resumed").arg(self.store().read_clock().await?.us);
        if let Some(trip) = &held.trip {
            lift.arg("lifted").arg(trip.at_us);
        }
        self.store().command(&lift, "lift what held the wheel").await?;
        let mut forget = redis::cmd("HDEL");
        forget.arg(key("state")).arg("paused").arg("tripped");
        self.store().command(&forget, "forget what held the wheel").await?;
        Ok((held, self.pause_shards("resume", "").await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_added_up_are_those_of_one_long_row() {
        // b: rejected or gone; g: anything else.
        let of = |row: &str| {
            let mut sum = Verdicts::default();
            for verdict in row.chars() {
                let bad = verdict == 'b';
                sum.add(&Verdicts { lead: u64::from(bad), other: !bad, ..Verdicts::default() });
            }
            sum
        };
        let rows = ["", "b", "g", "bb", "bg", "gb", "bbgb", "gbbgbbb", "bgb"];
        for first in rows {
            for second in rows {
                let mut sum = of(first);
                sum.add(&of(second));
                let row = format!("{first}{second}");
                assert_eq!(sum, of(&row), "{row}");
                let lead = row.chars().take_while(|c| *c == 'b').count() as u64;
                let tail = row.chars().rev().take_while(|c| *c == 'b').count() as u64;
                assert_eq!(sum.lead, lead);
                assert_eq!(sum.tail, if sum.other { tail } else { 0 });
            }
        }
    }
}
