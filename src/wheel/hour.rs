//! The last hour of a wheel, minute by minute: how late deadlines were taken and what became of them. Each worker keeps its own share in
//! Redis, so that the picture outlives every process; shares are added up when somebody looks.

use std::time::Duration;

use futures_util::future::try_join_all;
use redis::Value;

use super::{Wheel, keys, reply, script};
use crate::clock::Moment;
use crate::error::Result;
use crate::metrics::Spread;

/// Minutes of an hour: how far back it is read.
pub const MINUTES: u64 = 60;
/// A minute is kept a little longer than it is looked at.
const KEEP: Duration = Duration::from_secs(70 * 60);
const MINUTE_MS: u64 = 60_000;
/// Under this name stands, beside the workers' shares, how many cancellations the shards had counted by that minute: `t <number>`. A
/// cancellation is nobody's share, since services make most of them; so each worker writes the same running number, and a minute's own
/// count is how much it grew. Older programs pass it over.
const TOTAL: &str = "=";
/// The version of the stored text: `1 <closed> <skipped> <retried> <unavailable> <buried> <place>:<count>...`, places as in
/// [`Spread::places`]. What a newer program adds behind it is passed over.
const FORMAT: &str = "1";

/// What was done in one minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minute {
    /// Its beginning, milliseconds since the epoch by Redis's clock; a whole minute.
    pub from_ms: u64,
    /// Orders closed.
    pub closed: u64,
    /// Orders that turned out to be paid, or closed by others.
    pub skipped: u64,
    /// Failed attempts that are tried again.
    pub retried: u64,
    /// Attempts that found nobody at home and are tried again; no attempt is counted.
    pub unavailable: u64,
    /// Deadlines put aside as dead.
    pub buried: u64,
    /// Deadlines cancelled, by whomever: between two looks of a worker, so that those of the hour's first minute are not known.
    pub cancelled: u64,
    /// How late deadlines were taken: what `duewheel_lateness_seconds` counts.
    pub lateness: Spread,
}

impl Minute {
    /// The minute in which that moment lies, with nothing done.
    pub fn at(moment: Moment) -> Self {
        Self::empty(moment.as_millis() / MINUTE_MS * MINUTE_MS)
    }

    fn empty(from_ms: u64) -> Self {
        let lateness = Spread::of_lateness();
        Self { from_ms, closed: 0, skipped: 0, retried: 0, unavailable: 0, buried: 0, cancelled: 0, lateness }
    }

    /// Adds what was done besides.
    pub fn add(&mut self, other: &Self) {
        self.lateness.add(&other.lateness);
        self.cancelled = self.cancelled.saturating_add(other.cancelled);
        for (mine, others) in self.counts_mut().into_iter().zip(other.counts()) {
            *mine = mine.saturating_add(others);
        }
    }

    /// Whether nothing was done at all.
    pub fn is_empty(&self) -> bool {
        self.counts() == [0; 5] && self.cancelled == 0 && self.lateness.count() == 0
    }

    /// What workers count by outcome, in the stored order: closed, skipped, retried, unavailable, buried.
    pub fn counts(&self) -> [u64; 5] {
        [self.closed, self.skipped, self.retried, self.unavailable, self.buried]
    }

    fn counts_mut(&mut self) -> [&mut u64; 5] {
        let Self { closed, skipped, retried, unavailable, buried, .. } = self;
        [closed, skipped, retried, unavailable, buried]
    }

    fn text(&self) -> String {
        let counts = self.counts().map(|count| format!(" {count}")).concat();
        let places = self.lateness.places().map(|(place, times)| format!(" {place}:{times}"));
        format!("{FORMAT}{counts}{}", places.collect::<String>())
    }

    /// Adds a worker's stored share; one that cannot be read adds nothing.
    fn add_text(&mut self, text: &str) {
        let mut words = text.split(' ');
        if words.next() != Some(FORMAT) {
            return;
        }
        let mut share = Self::empty(self.from_ms);
        for count in share.counts_mut() {
            let Some(number) = words.next().and_then(|word| word.parse().ok()) else { return };
            *count = number;
        }
        for word in words {
            let pair = word.split_once(':').and_then(|(p, n)| Some((p.parse().ok()?, n.parse().ok()?)));
            if let Some((place, times)) = pair {
                share.lateness.put(place, times);
            }
        }
        self.add(&share);
    }
}

/// The last hour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hour {
    /// Redis's clock when it was read, milliseconds since the epoch.
    pub now_ms: u64,
    /// Its 60 minutes, oldest first; the last one is under way.
    pub minutes: Vec<Minute>,
}

impl Hour {
    /// The last `count` minutes as one, the one under way included.
    pub fn last(&self, count: usize) -> Minute {
        let from = self.minutes.len().saturating_sub(count);
        let minutes = self.minutes.get(from..).unwrap_or_default();
        let mut sum = Minute::empty(minutes.first().map_or(self.now_ms, |first| first.from_ms));
        minutes.iter().for_each(|minute| sum.add(minute));
        sum
    }

    /// The whole hour as one.
    pub fn sum(&self) -> Minute {
        self.last(self.minutes.len())
    }
}

impl Wheel {
    /// Keeps what a worker did in each of these minutes (at most 60) so far. Writes over what it said before, so that a repeat after a lost
    /// answer counts nothing twice.
    pub async fn record_hour(&self, worker: &str, minutes: &[Minute]) -> Result<()> {
        if minutes.is_empty() {
            return Ok(());
        }
        let keys: Vec<String> = minutes.iter().map(|minute| self.minute_key(minute.from_ms)).collect();
        let attempted = format!("record the last hour of wheel {}", self.name());
        let args = |cmd: &mut redis::Cmd| {
            cmd.arg(&self.inner.front[3]).arg(worker).arg(KEEP.as_millis().to_string());
            for minute in minutes {
                cmd.arg(minute.text());
            }
        };
        self.store().run(&script::RECORD_HOUR, &keys, args, &attempted).await.map(drop)
    }

    /// Keeps how many deadlines were cancelled on this wheel so far, under the present minute, unless that is what the caller has `told`
    /// before; answers the number. Any number of workers may: they write the same.
    pub async fn record_cancelled(&self, told: Option<u64>) -> Result<u64> {
        // The minute before the counts: what is counted in between is then told with the later minute, and never lost.
        let minute = Minute::at(self.now().await?);
        let counts = self.shards().all().map(async |shard| {
            let mut cmd = redis::cmd("HGET");
            cmd.arg(&self.inner.keys[usize::from(shard.0)][0]).arg("cancelled");
            let count = self.store().command(&cmd, "read what was cancelled").await?;
            Ok::<_, crate::error::Error>(
                reply::number(&count).and_then(|n| u64::try_from(n).ok()).unwrap_or(0),
            )
        });
        let total: u64 = try_join_all(counts).await?.into_iter().sum();
        if told == Some(total) {
            return Ok(total);
        }
        let attempted = format!("record what was cancelled on wheel {}", self.name());
        let args = |cmd: &mut redis::Cmd| {
            cmd.arg(&self.inner.front[3])
                .arg(TOTAL)
                .arg(KEEP.as_millis().to_string())
                .arg(format!("t {total}"));
        };
        let keys = [self.minute_key(minute.from_ms)];
        self.store().run(&script::RECORD_HOUR, &keys, args, &attempted).await?;
        Ok(total)
    }

    /// The last hour of the whole fleet.
    pub async fn hour(&self) -> Result<Hour> {
        let now_ms = self.now().await?.as_millis();
        let starts = starts(now_ms, MINUTES);
        let keys: Vec<String> = starts.iter().map(|start| self.minute_key(*start)).collect();
        let attempted = format!("read the last hour of wheel {}", self.name());
        let args = |cmd: &mut redis::Cmd| {
            cmd.arg(&self.inner.front[3]);
        };
        let value = self.store().run(&script::HOUR, &keys, args, &attempted).await?;
        let mut reply = reply::Reply::array("hour", value)?;
        let mut minutes = Vec::with_capacity(starts.len());
        let mut before: Option<u64> = None;
        for start in starts {
            let mut minute = Minute::empty(start);
            let mut shares = reply::Reply::array("hour", reply.value()?)?;
            while shares.len() > 0 {
                let text = shares.word()?;
                match text.strip_prefix("t ").map(str::parse) {
                    Some(Ok(total)) => {
                        minute.cancelled = before.map_or(0, |before| u64::saturating_sub(total, before));
                        before = Some(total);
                    }
                    _ => minute.add_text(&text),
                }
            }
            minutes.push(minute);
        }
        Ok(Hour { now_ms, minutes })
    }

    /// Removes the last hour with all that is still kept.
    pub(super) async fn forget_hour(&self) -> Result<()> {
        let now_ms = self.now().await?.as_millis();
        let mut cmd = redis::cmd("UNLINK");
        // A worker's idea of the minute may be a little ahead.
        for start in starts(now_ms + MINUTE_MS, KEEP.as_secs() / 60 + 2) {
            cmd.arg(self.minute_key(start));
        }
        match self.store().command(&cmd, "forget the last hour").await? {
            Value::Int(_) => Ok(()),
            other => Err(reply::unexpected("forget", &other)),
        }
    }

    fn minute_key(&self, from_ms: u64) -> String {
        keys::of_wheel(self.name(), &format!("hour:{}", from_ms / MINUTE_MS))
    }
}

/// The beginnings of the `count` minutes up to the one of `now_ms`, oldest first.
fn starts(now_ms: u64, count: u64) -> Vec<u64> {
    let last = now_ms / MINUTE_MS;
    (0..count).rev().map(|back| last.saturating_sub(back) * MINUTE_MS).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn minute(counts: [u64; 5], places: &[(usize, u64)]) -> Minute {
        let mut minute = Minute::empty(60_000);
        minute.counts_mut().into_iter().zip(counts).for_each(|(mine, count)| *mine = count);
        places.iter().for_each(|(place, times)| minute.lateness.put(*place, *times));
        minute
    }

    #[test]
    fn what_a_newer_or_foreign_program_wrote_is_passed_over() {
        let mut all = Minute::empty(0);
        for text in ["", "2 1 1 1 1 1", "1 5", "1 a b c d e", "nonsense", "1 1 2 3 4 -5"] {
            all.add_text(text);
        }
        assert!(all.is_empty(), "{all:?}");
        all.add_text("1 1 2 3 4 5 0:7 x:1 99:2 later=6");
        assert_eq!(all.counts(), [1, 2, 3, 4, 5]);
        assert_eq!(all.lateness.places().collect::<Vec<_>>(), [(0, 7), (16, 2)]);
    }

    #[test]
    fn an_hour_is_sixty_whole_minutes_and_the_last_is_under_way() {
        let starts = starts(3_600_000 + 59_999, MINUTES);
        assert_eq!((starts.len(), starts[0], starts[59]), (60, 60_000, 3_600_000));
        let hour = Hour { now_ms: 0, minutes: (1..=60).map(|n| minute([n, 0, 0, 0, 0], &[])).collect() };
        assert_eq!((hour.last(1).closed, hour.last(5).closed, hour.sum().closed), (60, 290, 1830));
        assert_eq!(hour.last(900).closed, 1830);
    }

    proptest! {
        #[test]
        fn shares_of_workers_survive_their_text_and_add_up(
            shares in prop::collection::vec((any::<[u32; 5]>(), prop::collection::vec((0_usize..17, any::<u32>()), 0..17)), 0..8)
        ) {
            let (mut read, mut exact) = (Minute::empty(60_000), Minute::empty(60_000));
            for (counts, places) in &shares {
                let places: Vec<_> = places.iter().map(|(place, times)| (*place, u64::from(*times))).collect();
                let share = minute(counts.map(u64::from), &places);
                prop_assert!(share.text().len() <= 512, "{}", share.text().len());
                read.add_text(&share.text());
                exact.add(&share);
            }
            prop_assert_eq!(read, exact);
        }
    }
}
