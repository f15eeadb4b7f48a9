//! How feed, sweep and rebuild are run.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::SecretString;

use super::Schedule;
use crate::deadline::Channels;
use crate::error::Result;
use crate::hook::sql::pages::{OrdersTable, TableSettings};
use crate::hook::sql::{SqlSettings, TimeType};

/// How the orders table is swept, and the wheel rebuilt from it.
#[derive(Debug, Clone)]
pub struct SweepSettings {
    /// When a sweep is due.
    pub every: Schedule,
    /// Where pages are read: replicas, one for each of the hook's databases; empty: the hook's own.
    pub urls: Vec<SecretString>,
    /// The column by which pages follow each other, before the key. `None`: `close_at` where that is a column, else the key alone.
    pub time: Option<String>,
    /// What that column holds; only asked where `time` is given.
    pub time_type: TimeType,
    /// Expression: the payload of a deadline that is made from a row, as JSON text.
    pub payload: Option<String>,
    /// Expression: the order's payment channel, whose rules may put its close off; asked where `created_at` is given, too.
    pub channel: Option<String>,
    /// Expression: when the order was created.
    pub created_at: Option<String>,
    /// What it yields.
    pub created_at_type: TimeType,
    /// The rules of the channels.
    pub channels: Channels,
    /// Rows of a page.
    pub page: usize,
    /// Rows read in a second at most.
    pub rows_per_second: u32,
    /// Orders that one run may bring back although the wheel remembers their end.
    pub resurrect_max: u32,
    /// Whether a wheel that was emptied is filled again by itself.
    pub rebuild: bool,
    /// The longest a page may take.
    pub statement_timeout: Duration,
}

impl Default for SweepSettings {
    /// The defaults of `config/default.toml`.
    fn default() -> Self {
        Self {
            every: Schedule::Every(Duration::from_secs(300)),
            urls: Vec::new(),
            time: None,
            time_type: TimeType::Time,
            payload: None,
            channel: None,
            created_at: None,
            created_at_type: TimeType::Time,
            channels: Channels::default(),
            page: 1000,
            rows_per_second: 50_000,
            resurrect_max: 1000,
            rebuild: true,
            statement_timeout: Duration::from_secs(60),
        }
    }
}

impl SweepSettings {
    /// The table as sweep and rebuild read it. Every problem found is in the error and begins with its key.
    pub fn table(&self, hook: &SqlSettings) -> Result<OrdersTable> {
        let mut table = TableSettings::of(hook);
        table.urls.clone_from(&self.urls);
        table.payload.clone_from(&self.payload);
        table.channel.clone_from(&self.channel);
        table.created_at.clone_from(&self.created_at);
        table.created_at_type = self.created_at_type;
        table.channels = self.channels.clone();
        table.statement_timeout = self.statement_timeout;
        if let Some(time) = &self.time {
            table.time = Some(time.clone());
            table.time_type = self.time_type;
        }
        OrdersTable::new(hook, &table)
    }
}

/// How new orders are read from the table.
#[derive(Debug, Clone)]
pub struct FeedSettings {
    /// Between two reads.
    pub every: Duration,
    /// The column that says when a row was made; `None`: there is no feed.
    pub time: Option<String>,
    /// What that column holds.
    pub time_type: TimeType,
    /// An outbox, where it is not the orders table itself.
    pub table: Option<String>,
    /// The column of the order's id in it; the hook's own where absent.
    pub key: Option<String>,
    /// Expression: the row is to be fed; absent: the hook's guard, in an outbox every row.
    pub guard: Option<String>,
    /// Expression: the close time; absent: the hook's own, unless a window is given.
    pub close_at: Option<String>,
    /// What it yields.
    pub close_at_type: TimeType,
    /// So long after `time` an order is to be closed.
    pub window: Option<Duration>,
    /// Expression: the value that decides about the window.
    pub window_by: Option<String>,
    /// The windows by that value; what is not in it has `window`.
    pub windows: BTreeMap<String, Duration>,
    /// Expression: the order's payment channel, whose rules, counted from `time`, may put its close off.
    pub channel: Option<String>,
    /// The rules of the channels.
    pub channels: Channels,
    /// How late a row may become visible after its time, and how far a clock that writes it may be behind.
    pub overlap: Duration,
    /// Rows of a page.
    pub page: usize,
}

impl Default for FeedSettings {
    /// The defaults of `config/default.toml`.
    fn default() -> Self {
        Self {
            every: Duration::from_secs(1),
            time: None,
            time_type: TimeType::Time,
            table: None,
            key: None,
            guard: None,
            close_at: None,
            close_at_type: TimeType::Time,
            window: None,
            window_by: None,
            windows: BTreeMap::new(),
            channel: None,
            channels: Channels::default(),
            overlap: Duration::from_secs(120),
            page: 1000,
        }
    }
}

impl FeedSettings {
    /// The table as the feed reads it. Every problem found is in the error and begins with its key.
    pub fn table(&self, hook: &SqlSettings, sweep: &SweepSettings) -> Result<OrdersTable> {
        let mut table = TableSettings::of(hook);
        table.payload.clone_from(&sweep.payload);
        table.statement_timeout = sweep.statement_timeout;
        table.time.clone_from(&self.time);
        table.time_type = self.time_type;
        table.by.clone_from(&self.window_by);
        table.channel.clone_from(&self.channel);
        table.created_at.clone_from(&self.time);
        table.created_at_type = self.time_type;
        table.channels = self.channels.clone();
        if let Some(outbox) = &self.table {
            table.table.clone_from(outbox);
            (table.guard, table.close_at) = (None, None);
        }
        if let Some(key) = &self.key {
            table.key.clone_from(key);
        }
        if self.guard.is_some() {
            table.guard.clone_from(&self.guard);
        }
        if self.close_at.is_some() || self.has_windows() {
            table.close_at.clone_from(&self.close_at);
            table.close_at_type = self.close_at_type;
        }
        table.overdue = None;
        let mut problems = match OrdersTable::new(hook, &table) {
            Ok(table) if self.problems(&table).is_empty() => return Ok(table),
            Ok(table) => self.problems(&table),
            Err(crate::error::Error::Config(problems)) => problems,
            Err(other) => return Err(other),
        };
        problems.dedup();
        Err(crate::error::Error::Config(problems))
    }

    /// Whether close times are made from the row's own time.
    pub fn has_windows(&self) -> bool {
        self.window.is_some() || !self.windows.is_empty()
    }

    /// The window of a row.
    pub(super) fn window_of(&self, by: Option<&str>) -> Option<Duration> {
        by.and_then(|value| self.windows.get(value)).copied().or(self.window)
    }

    fn problems(&self, table: &OrdersTable) -> Vec<String> {
        let mut problems = Vec::new();
        if self.time.is_none() {
            problems.push("time: is missing: the column that says when a row was made".to_owned());
        }
        if !table.has_close_time() && !self.has_windows() {
            problems
                .push("close_at: is missing, and so is window: when is an order to be closed?".to_owned());
        }
        if !self.windows.is_empty() && self.window_by.is_none() {
            problems.push("window_by: is missing: the value that chooses among windows".to_owned());
        }
        if self.channel.is_some() && self.channels.by_name.is_empty() {
            problems.push(
                "channel: the wheel has no channel whose rules could hold ([wheel.NAME.channel.CHANNEL])"
                    .to_owned(),
            );
        }
        if self.close_at.is_some() && self.has_windows() {
            problems.push("window: expected none beside close_at".to_owned());
        }
        problems
    }
}
