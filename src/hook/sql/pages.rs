//! The rows of the declared table, read page by page: what feed, sweep, rebuild and reconcile see of a shop.
//!
//! A page is one short SELECT that locks nothing. Pages follow each other by keyset, on a time column and the key or on the key alone, so
//! that what changes meanwhile neither shifts a row out of sight nor shows it twice. The pages may come from a replica; what is found
//! there is asked of the primary again by [`OrdersTable::still_open`] before anything is done about it.

pub mod facts;
mod index;
mod reader;
pub mod rules;
mod statement;
pub mod trail;

pub use reader::Reader;

use std::collections::HashSet;
use std::time::Duration;

use secrecy::SecretString;
use tokio::sync::OnceCell;

use super::database::Database;
use super::declared::keep;
use super::dialect::{Dialect, Name};
use super::expression::Expression;
use super::failure::Failure;
use super::key;
use super::order::moment;
use super::pool::Pool;
use super::query::Query;
use super::session::cell;
use super::session::{Cells, Session};
use super::settings::{KeyType, Route, SqlSettings, TimeType};
use super::zone::Zone;
use crate::clock::Moment;
use crate::deadline::Channels;
use crate::error::{Error, Result};

/// Which table is read, where, and what of a row.
#[derive(Debug, Clone)]
pub struct TableSettings {
    /// Where pages are read: replicas in the order of the hook's databases; empty: the hook's databases themselves.
    pub urls: Vec<SecretString>,
    /// The table, as `table` or `schema.table`.
    pub table: String,
    /// The column that holds the order's id.
    pub key: String,
    /// Expression: the order is unpaid. `None` takes every row (an outbox).
    pub guard: Option<String>,
    /// Expression: when the order is to be closed.
    pub close_at: Option<String>,
    /// What it yields.
    pub close_at_type: TimeType,
    /// Expression: `close_at` has passed, in a form that an index can serve.
    pub overdue: Option<String>,
    /// The column by which pages follow each other, before the key; `None`: by the key alone.
    pub time: Option<String>,
    /// What that column holds.
    pub time_type: TimeType,
    /// Expression: the payload of the deadline, as JSON text.
    pub payload: Option<String>,
    /// Expression: a value of the row that decides about its window.
    pub by: Option<String>,
    /// Expression: the payment channel of the order, whose rules may put its close off.
    pub channel: Option<String>,
    /// Expression: when the order was created, which those rules count from.
    pub created_at: Option<String>,
    /// What it yields.
    pub created_at_type: TimeType,
    /// The rules.
    pub channels: Channels,
    /// The longest a page may take.
    pub statement_timeout: Duration,
}

impl TableSettings {
    /// The table that the hook closes orders in. Where `close_at` is a bare column, pages follow each other by it.
    pub fn of(hook: &SqlSettings) -> Self {
        let is_column = |text: &&String| Name::parse("time", text.trim(), false).is_ok();
        Self {
            urls: Vec::new(),
            table: hook.table.clone(),
            key: hook.key.clone(),
            guard: Some(hook.guard.clone()),
            close_at: hook.close_at.clone(),
            close_at_type: hook.close_at_type,
            overdue: hook.overdue.clone(),
            time: hook.close_at.as_ref().filter(is_column).map(|text| text.trim().to_owned()),
            time_type: hook.close_at_type,
            payload: None,
            by: None,
            channel: None,
            created_at: None,
            created_at_type: TimeType::Time,
            channels: Channels::default(),
            statement_timeout: Duration::from_secs(60),
        }
    }
}

/// Which rows are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// Open ones whose close time has passed, by the database's clock.
    Overdue,
    /// All open ones.
    Open,
    /// Open ones whose time is at or after a mark, less some overlap; without a mark all of them.
    Since {
        /// A [`Row::mark`] of an earlier read. One that lies in the database's future is taken for its now.
        mark: Option<&'a str>,
        /// How far before the mark to begin.
        overlap: Duration,
    },
}

/// Where a page ended.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Position {
    /// The time column's value, in the database's own text.
    pub time: Option<String>,
    /// The key.
    pub key: String,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Where it stands among the others.
    pub position: Position,
    /// Whether the key is the canonical text that ids are compared by.
    pub canonical: bool,
    /// When the table says that it is to be closed, but not before its channel allows it; `None` where the table says nothing.
    pub close_at: Option<Moment>,
    /// Before which moment its channel does not allow a close; `None` where no rule holds.
    pub not_before: Option<Moment>,
    /// The time column as a moment; only of [`Which::Since`].
    pub time: Option<Moment>,
    /// The time column, but at most the database's now: how far a feed has come with this row; only of [`Which::Since`].
    pub mark: Option<String>,
    /// The value that decides about the window.
    pub by: Option<String>,
    /// The payload, as JSON text.
    pub payload: Option<String>,
}

/// A shop's orders table, to be read.
pub struct OrdersTable {
    hook: SqlSettings,
    dialect: Dialect,
    kind: KeyType,
    table: Name,
    key: Name,
    guard: Option<Expression>,
    close_at: Option<Expression>,
    close_at_type: TimeType,
    overdue: Option<Expression>,
    time: Option<Name>,
    time_type: TimeType,
    payload: Option<Expression>,
    by: Option<Expression>,
    /// The order's channel and when it was created, where the channel's rules are asked.
    through: Option<Through>,
    readers: Vec<Pool>,
    primaries: Vec<Pool>,
    is_replica: bool,
    limit: Duration,
    zone: Option<Zone>,
    /// The database's own name of the time column's type.
    time_kind: OnceCell<String>,
}

/// What the rules of payment channels are asked by.
struct Through {
    channel: Expression,
    created_at: Expression,
    created_at_type: TimeType,
    channels: Channels,
}

impl std::fmt::Debug for OrdersTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OrdersTable")
            .field("table", &self.table)
            .field("time", &self.time)
            .finish_non_exhaustive()
    }
}

impl OrdersTable {
    /// Checks the declaration, without a connection. Every problem found is in the error and begins with its key.
    pub fn new(hook: &SqlSettings, settings: &TableSettings) -> Result<Self> {
        let mut problems = Vec::new();
        if hook.call.is_some() {
            problems.push("call: a close that is a procedure declares no table to read".to_owned());
            return Err(Error::Config(problems));
        }
        let zone = hook.time_zone.as_deref().and_then(|text| keep(Zone::parse(text), &mut problems));
        let reading = SqlSettings { statement_timeout: settings.statement_timeout, ..hook.clone() };
        let mut pools = |urls: &[SecretString]| {
            let parsed = urls.iter().map(|url| Database::parse(url, &reading, zone.clone()));
            let databases: Vec<_> = parsed.filter_map(|database| keep(database, &mut problems)).collect();
            // One session reads page after page, another one asks again.
            databases.into_iter().map(|d| Pool::new(d, 2, hook.connect_timeout)).collect::<Vec<_>>()
        };
        let is_replica = !settings.urls.is_empty();
        let primaries = pools(&hook.urls);
        let readers = pools(if is_replica { &settings.urls } else { &hook.urls });
        let dialect = primaries.first().map_or(Dialect::Postgres, |pool| pool.database.dialect());
        if is_replica && hook.urls.len() != settings.urls.len() {
            problems.push(format!(
                "url: expected one replica for each of the hook's {} databases, in their order",
                hook.urls.len()
            ));
        }
        if readers.iter().any(|pool| pool.database.dialect() != dialect) {
            problems.push("url: expected replicas of the hook's kind of database".to_owned());
        }
        if hook.urls.len() > 1 && matches!(hook.route, Route::Payload(_)) && settings.payload.is_none() {
            problems.push(
                "payload: is missing: the hook finds an order's database by a field of its payload (route)"
                    .to_owned(),
            );
        }
        let mut expression = |field: &str, text: &Option<String>| {
            text.as_ref().and_then(|text| keep(Expression::compile(dialect, field, text), &mut problems))
        };
        let guard = expression("guard", &settings.guard);
        let close_at = expression("close_at", &settings.close_at);
        let overdue = expression("overdue", &settings.overdue);
        let payload = expression("payload", &settings.payload);
        let by = expression("window_by", &settings.by);
        let channel = expression("channel", &settings.channel);
        let created_at = expression("time", &settings.created_at);
        let table = keep(Name::parse("table", &settings.table, true), &mut problems);
        let key = keep(Name::parse("key", &settings.key, false), &mut problems);
        let time = settings.time.as_ref().and_then(|t| keep(Name::parse("time", t, false), &mut problems));
        let (Some(table), Some(key), true) = (table, key, problems.is_empty()) else {
            return Err(Error::Config(problems));
        };
        let limit = settings.statement_timeout + hook.connect_timeout;
        Ok(Self {
            hook: reading,
            dialect,
            kind: hook.key_type,
            table,
            key,
            guard,
            close_at,
            close_at_type: settings.close_at_type,
            overdue,
            time,
            time_type: settings.time_type,
            payload,
            by,
            through: channel.zip(created_at).map(|(channel, created_at)| Through {
                channel,
                created_at,
                created_at_type: settings.created_at_type,
                channels: settings.channels.clone(),
            }),
            readers,
            primaries,
            is_replica,
            limit,
            zone,
            time_kind: OnceCell::new(),
        })
    }

    /// Takes over the users and passwords in the URLs of the hook and of the replicas, as [`super::SqlHook::set_urls`] does.
    pub fn set_urls(&self, hook: &[SecretString], replicas: &[SecretString]) -> Result<()> {
        let readers = if self.is_replica { replicas } else { hook };
        let mut problems = Vec::new();
        for (pools, urls) in [(&self.primaries, hook), (&self.readers, readers)] {
            for (pool, url) in pools.iter().zip(urls) {
                match Database::parse(url, &self.hook, self.zone.clone()) {
                    Ok(login) if login.shown == pool.database.shown => pool.set_login(login),
                    Ok(_) => problems.push("url: names another database than at the start".to_owned()),
                    Err(problem) => problems.push(problem),
                }
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(Error::Config(problems)) }
    }

    /// Closes the sessions that are at rest.
    pub async fn close_idle(&self) {
        for pool in self.primaries.iter().chain(&self.readers) {
            pool.close_idle().await;
        }
    }

    /// How many databases the orders are spread over.
    pub fn databases(&self) -> usize {
        self.readers.len()
    }

    /// Whether pages come from replicas, which may be behind.
    pub fn reads_replicas(&self) -> bool {
        self.is_replica
    }

    /// Whether rows are known to be overdue by anything.
    pub fn has_close_time(&self) -> bool {
        self.close_at.is_some() || self.overdue.is_some()
    }

    /// Reads one database page by page.
    pub fn reader(&self, database: usize) -> Result<Reader<'_>> {
        Ok(Reader::new(self, self.pool_of(database)?))
    }

    /// One page by itself: see [`Reader::page`].
    pub async fn page(
        &self,
        database: usize,
        which: Which<'_>,
        after: Option<&Position>,
        limit: usize,
    ) -> Result<Vec<Row>> {
        let mut reader = self.reader(database)?;
        let rows = reader.page(which, after, limit).await?;
        reader.rest().await;
        Ok(rows)
    }

    /// Which of these keys are open on the primary now; with `overdue`, only those whose close time has passed there.
    pub async fn still_open(&self, database: usize, keys: &[&str], overdue: bool) -> Result<HashSet<String>> {
        let Some(pool) = self.primaries.get(database) else { return Ok(HashSet::new()) };
        let mut open = HashSet::with_capacity(keys.len());
        for part in keys.chunks(1000) {
            let rows = self.within(pool, self.read(pool, self.open_query(part, overdue))).await?;
            open.extend(rows.iter().filter_map(|row| cell(row, 0)).map(str::to_owned));
        }
        Ok(open)
    }

    /// Looks whether each database answers these reads, and whether an index serves them; answers warnings.
    pub async fn check(&self, which: Which<'_>) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        for (n, pool) in self.readers.iter().enumerate() {
            let last = self.page(n, which, None, 1).await?.pop();
            let kind = self.within(pool, self.time_kind(pool)).await?;
            let after = last.map(|row| row.position);
            let query = self.page_query(which, after.as_ref(), 1, kind, None);
            let lacks = self.within(pool, self.lacks(pool, query)).await?;
            warnings.extend(lacks.map(|what| format!("{}: {what}", pool.database.shown)));
        }
        Ok(warnings)
    }

    async fn lacks(&self, pool: &Pool, query: Query) -> std::result::Result<Option<&'static str>, Failure> {
        let mut session = pool.fresh().await?;
        let begun = self.dialect == Dialect::Postgres;
        if begun {
            pool.database.begin(&mut session, false).await?;
        }
        let lacks = index::lacks(&mut session, &query).await?;
        session.close().await;
        Ok(lacks)
    }

    fn pool_of(&self, database: usize) -> Result<&Pool> {
        self.readers
            .get(database)
            .ok_or_else(|| Error::Hook(format!("there is no database number {database}")))
    }

    /// A row of a page that was asked for these columns.
    fn row(&self, cells: Cells, columns: [bool; 9]) -> Option<Row> {
        let mut given = cells.into_iter();
        let [key, time, close_at, at, mark, by, payload, channel, created_at] =
            columns.map(|asked| if asked { given.next().flatten() } else { None });
        let key = key?;
        let not_before = self.not_before(channel.as_deref(), created_at.as_deref());
        let read = |text: Option<String>| text.as_deref().and_then(moment);
        Some(Row {
            canonical: key::is_canonical(self.kind, &key),
            position: Position { time, key },
            close_at: read(close_at).map(|at| at.max(not_before.unwrap_or(at))),
            not_before,
            time: read(at),
            mark,
            by,
            payload,
        })
    }

    /// The expressions of the order's channel and of when it was created, as text and in milliseconds; NULL where no rules are asked.
    fn through_parts(&self) -> [String; 2] {
        match &self.through {
            Some(through) => [
                self.dialect.as_text(&format!("({})", through.channel.text(self.dialect))),
                self.dialect.as_millis(&through.created_at.text(self.dialect), through.created_at_type),
            ],
            None => ["NULL".to_owned(), "NULL".to_owned()],
        }
    }

    /// Before which moment the order's channel does not allow its close, by the values of [`Self::through_parts`].
    fn not_before(&self, channel: Option<&str>, created_at: Option<&str>) -> Option<Moment> {
        let created_at = created_at.and_then(moment)?;
        self.through.as_ref()?.channels.not_before(channel?, created_at)
    }

    /// One SELECT. PostgreSQL is told its limits and zone in the transaction around it.
    async fn read(&self, pool: &Pool, query: Query) -> std::result::Result<Vec<Cells>, Failure> {
        let mut held = pool.acquire().await?;
        let rows = self.rows(pool, &mut held.session, query).await;
        match &rows {
            Ok(_) => pool.give_back(held),
            // Sessions that were idle when the database went away are dead, too.
            Err(Failure::Lost(_)) => pool.forget_idle(),
            Err(_) => {}
        }
        rows
    }

    /// MariaDB's own choice of an index for a page, to be held to. It takes the right one, but may enter it by the guard's column alone and
    /// walk over all that lies before the page's position: by its estimates, which end at half of the table, that costs the same
    /// (measured on a million rows: 100 to 480 ms a page instead of 2). Told to use that index, it enters it at the position.
    async fn serving(&self, pool: &Pool, query: &Query) -> std::result::Result<Option<Name>, Failure> {
        let mut held = pool.acquire().await?;
        let index = index::serving(&mut held.session, query).await?;
        pool.give_back(held);
        Ok(index)
    }

    async fn rows(
        &self,
        pool: &Pool,
        session: &mut Session,
        query: Query,
    ) -> std::result::Result<Vec<Cells>, Failure> {
        if self.dialect != Dialect::Postgres {
            return session.rows(query, self.hook.prepared).await;
        }
        pool.database.begin(session, false).await?;
        let rows = session.rows(query, self.hook.prepared).await?;
        session.raw("ROLLBACK").await?;
        Ok(rows)
    }

    async fn time_kind(&self, pool: &Pool) -> std::result::Result<&str, Failure> {
        let Some(time) = &self.time else { return Ok("") };
        let find = || async {
            let mut session = pool.fresh().await?;
            let (column, table) = (time.quoted(self.dialect), self.table.quoted(self.dialect));
            let columns = session.prepare(&format!("SELECT {column} FROM {table}")).await?;
            session.close().await;
            Ok(columns.into_iter().next().map(|c| c.kind).unwrap_or_default())
        };
        self.time_kind.get_or_try_init(find).await.map(String::as_str)
    }

    /// The read within its time, its failure with what was attempted.
    async fn within<T>(
        &self,
        pool: &Pool,
        work: impl Future<Output = std::result::Result<T, Failure>>,
    ) -> Result<T> {
        let said = |reason: &str| format!("reading {} of {}: {reason}", self.table.name, pool.database.shown);
        match tokio::time::timeout(self.limit, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(failure)) if failure.may_pass() => Err(Error::HookAway(said(failure.reason()))),
            Ok(Err(failure)) => Err(Error::Hook(said(failure.reason()))),
            Err(_) => Err(Error::HookAway(said(&format!("no answer within {:?}", self.limit)))),
        }
    }
}
