//! How the screen is read from Redis: one look at the whole wheel, and the rows of the tab in sight.

use std::sync::Arc;
use std::time::Duration;

use super::super::context::Context;
use super::hook;
use super::model::{Tab, Wanted};
use crate::clock::{Moment, distance};
use crate::config::Shown;
use crate::deadline::{Id, State};
use crate::error::{Result, escaped, escaped_json};
#[cfg(feature = "sql")]
use crate::sweep::Inquiry;
use crate::wheel::answer::{Row, Stats};
use crate::wheel::{Bucket, Held, Hour, ServerFacts, Wheel, WorkerRecord};

/// Rows that are read to find those that match a filter; more would make the watcher part of the load.
pub const MOST_READ: usize = 20_000;
/// Rows of a listing without a filter.
const ROWS: usize = 500;
/// What changes seldom (Redis's own numbers, the jobs) is read once in so many looks.
const SELDOM: u32 = 5;
/// The future that is looked at, by the minute.
pub const MINUTES: u32 = 60;

/// One look at the wheel.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Redis's clock.
    pub now: Moment,
    /// The wheel in numbers.
    pub stats: Stats,
    /// Who closes.
    pub workers: Vec<WorkerRecord>,
    /// How many fell silent lately without a word.
    pub lost: usize,
    /// What holds the wheel as a whole.
    pub held: Held,
    /// The bucket of its rate.
    pub bucket: Option<Bucket>,
    /// The last hour.
    pub hour: Hour,
    /// For each shard how many fire in each of the next 60 minutes; what is overdue counts in the first.
    pub heat: Vec<Vec<u64>>,
    /// What Redis says of itself; `None` where it could not be asked.
    pub redis: Option<ServerFacts>,
    /// When the last sweep that was finished began.
    pub swept_at: Option<Moment>,
    /// The settings of hook, reminders, circuit, breaker and limit: key, value, source.
    pub settings: Arc<[Shown]>,
}

impl Seen {
    /// How many come due within so many minutes from now, without those that are due already.
    pub fn within(&self, minutes: usize) -> u64 {
        let counts = self.heat.iter().map(|shard| shard.iter().take(minutes).sum::<u64>());
        counts.sum::<u64>().saturating_sub(self.stats.due)
    }
}

/// Rows of a tab.
#[derive(Debug, Clone)]
pub struct Listing {
    /// By what they were chosen.
    pub wanted: Wanted,
    /// By what they were chosen, too.
    pub filter: String,
    /// Those that match.
    pub rows: Vec<Row>,
    /// How many were read to find them.
    pub read: usize,
    /// Whether there are others that were not read.
    pub more: bool,
}

impl Listing {
    /// Whether it is what this choice would list.
    pub fn fits(&self, wanted: Wanted, filter: &str, tab: Tab) -> bool {
        (tab == Tab::Dead || self.wanted == wanted) && self.filter == filter
    }
}

/// Reads a wheel.
#[derive(Clone)]
pub struct Reader {
    wheel: Wheel,
    #[cfg(feature = "sql")]
    table: Option<Arc<Inquiry>>,
    settings: Arc<[Shown]>,
    looks: u32,
    seldom: (Option<ServerFacts>, Option<Moment>),
}

impl Reader {
    /// Of this wheel.
    pub fn new(wheel: Wheel, context: &Context) -> Self {
        #[cfg(feature = "sql")]
        let hook = context.wheel_config().ok().and_then(super::super::net::declared);
        #[cfg(feature = "sql")]
        let table = hook.map(|hook| Arc::new(Inquiry::new(hook)));
        let settings = hook::settings(wheel.name().as_str(), &context.config.shown);
        Self {
            wheel,
            settings,
            #[cfg(feature = "sql")]
            table,
            looks: 0,
            seldom: (None, None),
        }
    }

    /// The wheel.
    pub fn wheel(&self) -> &Wheel {
        &self.wheel
    }

    /// Looks at the whole wheel.
    pub async fn look(&mut self) -> Result<Seen> {
        let stats = self.wheel.stats().await?;
        let now = match stats.now_ms {
            // No shard has a record yet.
            0 => self.wheel.now().await?,
            ms => Moment::EPOCH.plus(Duration::from_millis(ms)),
        };
        if self.looks.is_multiple_of(SELDOM) {
            self.seldom.0 = self.wheel.store().facts().await.ok();
            self.seldom.1 = self.wheel.job_record("sweep").await?.ran_at;
        }
        self.looks = self.looks.wrapping_add(1);
        let presence = self.wheel.presence().await?;
        Ok(Seen {
            now,
            workers: presence.workers,
            lost: presence.lost.len(),
            held: self.wheel.held_by().await?,
            bucket: self.wheel.bucket().await?,
            hour: self.wheel.hour().await?,
            heat: self.wheel.forecast_by_shard(now, Duration::from_secs(60), MINUTES).await?,
            redis: self.seldom.0.clone(),
            swept_at: self.seldom.1,
            settings: self.settings.clone(),
            stats,
        })
    }

    /// Reads the rows of a tab: the first page, or with a filter all that match among the first 20,000.
    pub async fn list(&self, tab: Tab, wanted: Wanted, filter: &str) -> Result<Listing> {
        let (state, to) = match (tab, wanted) {
            (Tab::Dead, _) => (State::Dead, Moment::MAX),
            (_, Wanted::Scheduled) => (State::Scheduled, Moment::MAX),
            (_, Wanted::Due) => (State::Scheduled, self.wheel.now().await?),
            (_, Wanted::Leased) => (State::Leased, Moment::MAX),
            (_, Wanted::Ended) => (State::Ended, Moment::MAX),
        };
        let most = if filter.is_empty() && tab != Tab::Dead { ROWS } else { MOST_READ };
        let needle = filter.to_lowercase();
        let (mut rows, mut read, mut cursor) = (Vec::new(), 0, None);
        loop {
            let page = self.wheel.list(state, Moment::EPOCH, to, cursor.as_ref(), ROWS).await?;
            read += page.rows.len();
            rows.extend(page.rows.into_iter().filter(|row| matches(row, &needle)));
            cursor = page.next;
            if cursor.is_none() || read >= most {
                break;
            }
        }
        Ok(Listing { wanted, filter: filter.to_owned(), rows, read, more: cursor.is_some() })
    }

    /// One order's state now, and its story, line by line, escaped.
    pub async fn story(&self, id: &Id) -> Result<(State, Vec<String>)> {
        #[cfg(feature = "sql")]
        let (seen, why, told) = {
            let story = crate::sweep::Explanation::of(&self.wheel, self.table.as_ref(), id).await?;
            let line =
                |one: &crate::sweep::Told| (one.at, format!("{:<6} {}", one.source.as_str(), one.what));
            let told: Vec<_> = story.timeline().iter().map(line).collect();
            let why = story.why();
            (story.survey.seen, why, told)
        };
        #[cfg(not(feature = "sql"))]
        let (seen, why, told) = {
            let survey = self.wheel.survey(id).await?;
            let line = |event: &crate::wheel::Event| {
                (Moment::EPOCH.plus(Duration::from_millis(event.at_ms)), escaped(&event.what))
            };
            let why = survey.why();
            (survey.seen, why, survey.events.iter().map(line).collect::<Vec<_>>())
        };
        let mut lines = vec![
            format!("{}  {} on shard {}", escaped(id.as_str()), seen.state.as_str(), seen.shard),
            format!("why: {why}"),
            String::new(),
        ];
        lines.extend(told.iter().map(|(at, what)| format!("{at}  {:>12}  {what}", distance(*at, seen.now))));
        if let Some(entry) = &seen.entry {
            let attempts = format!("attempts {} failed, {} leases lost", entry.attempts, entry.losses);
            lines.extend([String::new(), attempts]);
            if let Some(note) = &entry.note {
                lines.push(format!("by {}: {}", escaped(&note.actor), escaped(&note.reason)));
            }
            if !entry.payload.is_empty() {
                let text = String::from_utf8_lossy(entry.payload.as_bytes());
                lines.push(format!("payload {}", escaped_json(&text)));
            }
        }
        Ok((seen.state, lines))
    }
}

/// Whether a row's id or reason contains this text, which is in lower case.
fn matches(row: &Row, needle: &str) -> bool {
    let holds = |text: &str| text.to_lowercase().contains(needle);
    needle.is_empty()
        || match row {
            Row::Live { entry, reason, .. } => {
                holds(entry.id.as_str()) || reason.as_deref().is_some_and(holds)
            }
            Row::Ended { id, ended } => holds(id.as_str()) || holds(ended.outcome.as_str()),
            Row::Foreign { id, reason, .. } => holds(id) || holds(reason),
        }
}
