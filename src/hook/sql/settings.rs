//! What a shop declares about its orders table, and the limits of talking to its database.

use std::time::Duration;

use secrecy::SecretString;

use crate::error::Result;

/// The declared close. Texts named *expression* are SQL of the shop's own dialect over the columns of `table`; duewheel writes the
/// statements around them. [`SqlSettings::default`] holds the limits and leaves the declaration empty.
#[derive(Debug, Clone)]
pub struct SqlSettings {
    /// One URL for each database: `postgres://`, `mysql://` or `mariadb://`, `sqlite://`. All of one kind.
    pub urls: Vec<SecretString>,
    /// Which database an order lives in, where there are several.
    pub route: Route,
    /// The orders table, as `table` or `schema.table`; plain identifiers, quoted by duewheel.
    pub table: String,
    /// The column that holds the order's id.
    pub key: String,
    /// What kind of value the key is; ids that are not its canonical text are answered *gone*.
    pub key_type: KeyType,
    /// Expression: the order is unpaid. Part of the UPDATE's own WHERE.
    pub guard: String,
    /// Expression: when the order is to be closed, by the table. The second lock against closing early; absent, only the wheel's due
    /// time counts, and `check` says so.
    pub close_at: Option<String>,
    /// What the `close_at` expression yields.
    pub close_at_type: TimeType,
    /// Expression: `close_at` has passed, in a form that an index can serve. Used by feed and sweep to find rows, never to close them.
    pub overdue: Option<String>,
    /// Assignments that close the order (`status = 4, modify_time = now()`); `:now` may be used.
    pub set: String,
    /// Expression: the order's state as a word (`paid`, `closed`, …), for orders that were not closed.
    pub state: Option<String>,
    /// The session's time zone (`+08:00`, `Europe/Berlin`); required where time columns carry none.
    pub time_zone: Option<String>,
    /// Statements for the orders really closed, in the same transaction. With `:ids` or `:rows` once a batch, else once an order.
    pub then: Vec<String>,
    /// Queries run after `then` that must return no row; a row rolls the close back (an item whose stock row is missing).
    pub ensure: Vec<String>,
    /// Statements that remind of an order that is still open, for a reminder before the close; the row is locked meanwhile. With an audit
    /// table each reminder is given once, without one at least once.
    pub remind: Vec<String>,
    /// duewheel's own audit table, as `table` or `schema.table`; `None` writes no audit row.
    pub audit: Option<String>,
    /// Instead of a declared close: one statement (a stored procedure) that closes and answers a verdict for each order.
    pub call: Option<String>,
    /// Statements run on every new session, after duewheel's own (`SET ROLE closer`).
    pub session: Vec<String>,
    /// Orders in one transaction at most (1 to 2000).
    pub max_batch: usize,
    /// Sessions to each database at most. SQLite has one writer and always uses one.
    pub pool_size: u32,
    /// The longest wait for a session: connecting, or for a free one.
    pub connect_timeout: Duration,
    /// The longest a statement may run, enforced by the database.
    pub statement_timeout: Duration,
    /// The longest wait for a row that somebody else has locked.
    pub lock_timeout: Duration,
    /// The longest a whole call may take; the lease must exceed it.
    pub timeout: Duration,
    /// Who closes, for the audit row; this host and process unless told otherwise.
    pub worker: String,
    /// Whether named prepared statements are used; off behind a pooler in transaction mode.
    pub prepared: bool,
    /// Whether the closing statement bears the trace that it is part of, as a comment for the database's own log. It is not kept prepared
    /// then, since each call's text is another.
    pub trace_comment: bool,
}

impl Default for SqlSettings {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            route: Route::Id,
            table: String::new(),
            key: "id".to_owned(),
            key_type: KeyType::Bigint,
            guard: String::new(),
            close_at: None,
            close_at_type: TimeType::Time,
            overdue: None,
            set: String::new(),
            state: None,
            time_zone: None,
            then: Vec::new(),
            ensure: Vec::new(),
            remind: Vec::new(),
            audit: None,
            call: None,
            session: Vec::new(),
            max_batch: 500,
            pool_size: 4,
            connect_timeout: Duration::from_secs(3),
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(3),
            timeout: Duration::from_secs(20),
            worker: this_process(),
            prepared: true,
            trace_comment: false,
        }
    }
}

/// How an order finds its database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Route {
    /// By the id: a whole number modulo the number of databases, any other text by its CRC-16 modulo that number.
    #[default]
    Id,
    /// By this field of the payload, in the same way (`payload.user_id` names the field `user_id`).
    Payload(String),
}

impl Route {
    /// Reads `id` or `payload.FIELD`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.strip_prefix("payload.") {
            Some(field) if !field.is_empty() => Ok(Self::Payload(field.to_owned())),
            None if text == "id" => Ok(Self::Id),
            _ => Err("expected id or payload.FIELD".to_owned()),
        }
    }
}

/// What kind of value the key column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyType {
    /// A signed 64-bit whole number.
    #[default]
    Bigint,
    /// Text, compared byte for byte whatever the column's collation says.
    Text,
    /// A UUID, in lower-case hyphenated form.
    Uuid,
}

impl KeyType {
    /// Reads `bigint`, `text` or `uuid`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "bigint" => Ok(Self::Bigint),
            "text" => Ok(Self::Text),
            "uuid" => Ok(Self::Uuid),
            _ => Err("expected bigint, text or uuid".to_owned()),
        }
    }

    /// The word of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bigint => "bigint",
            Self::Text => "text",
            Self::Uuid => "uuid",
        }
    }
}

/// What an expression of time yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimeType {
    /// The database's own time type; in SQLite, text in UTC (`2026-01-31 12:00:00.123`).
    #[default]
    Time,
    /// A number of seconds since 1970 in UTC, fractions allowed.
    UnixSeconds,
    /// A number of milliseconds since 1970 in UTC.
    UnixMillis,
}

impl TimeType {
    /// Reads `time`, `unix_seconds` or `unix_ms`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "time" => Ok(Self::Time),
            "unix_seconds" => Ok(Self::UnixSeconds),
            "unix_ms" => Ok(Self::UnixMillis),
            _ => Err("expected time, unix_seconds or unix_ms".to_owned()),
        }
    }

    /// The word of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::UnixSeconds => "unix_seconds",
            Self::UnixMillis => "unix_ms",
        }
    }
}

impl SqlSettings {
    /// Every problem that can be seen without a database, together; each begins with the key it is about.
    pub fn validate(&self) -> Result<()> {
        super::SqlHook::new(self.clone()).map(drop)
    }

    /// The problems of the numbers alone.
    pub(super) fn limits(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.urls.is_empty() {
            problems.push("url: expected at least one database".to_owned());
        }
        if !(1..=2000).contains(&self.max_batch) {
            problems.push(format!("max_batch {}: expected 1 to 2000", self.max_batch));
        }
        if !(1..=1000).contains(&self.pool_size) {
            problems.push(format!("pool_size {}: expected 1 to 1000", self.pool_size));
        }
        for (name, limit) in [
            ("connect_timeout", self.connect_timeout),
            ("statement_timeout", self.statement_timeout),
            ("lock_timeout", self.lock_timeout),
            ("timeout", self.timeout),
        ] {
            if limit < Duration::from_millis(10) || limit > Duration::from_secs(3600) {
                problems.push(format!("{name} {limit:?}: expected 10ms to 1h"));
            }
        }
        if self.lock_timeout > self.timeout {
            problems.push(format!(
                "lock_timeout {:?}: expected at most timeout {:?}",
                self.lock_timeout, self.timeout
            ));
        }
        problems
    }
}

/// This process, as the audit rows name it.
fn this_process() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", if host.trim().is_empty() { "host" } else { host.trim() }, std::process::id())
}
