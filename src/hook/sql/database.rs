//! One database of the shop: how to reach it, and what every session to it is told first.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use sqlx::{Connection, mysql, postgres, sqlite};

use super::dialect::Dialect;
use super::failure::Failure;
use super::query::Query;
use super::session::Session;
use super::settings::SqlSettings;
use super::zone::Zone;

/// How to reach a database.
#[derive(Clone)]
enum Target {
    Postgres(Box<postgres::PgConnectOptions>),
    Mysql(Box<mysql::MySqlConnectOptions>),
    Sqlite(Box<sqlite::SqliteConnectOptions>),
}

/// A database and the limits of its sessions.
#[derive(Clone)]
pub(super) struct Database {
    target: Target,
    /// Kind, host and name, without user and password: for messages.
    pub(super) shown: String,
    zone: Option<Zone>,
    statement_timeout: Duration,
    lock_timeout: Duration,
    session: Vec<String>,
    /// MariaDB, not MySQL: found out at the first session.
    is_mariadb: Arc<AtomicBool>,
}

impl Database {
    /// This database, reached as `other` is; what was found out about it stays known.
    pub(super) fn with_login_of(&self, other: Self) -> Self {
        Self { target: other.target, ..self.clone() }
    }

    /// Reads a URL. Neither the URL nor its password is ever part of a message.
    pub(super) fn parse(
        url: &SecretString,
        settings: &SqlSettings,
        zone: Option<Zone>,
    ) -> Result<Self, String> {
        let text = url.expose_secret();
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        let dialect = Dialect::of_scheme(scheme)
            .ok_or("url: expected postgres://, mysql://, mariadb:// or sqlite:// at its start")?;
        // The library's own message may hold the whole URL.
        let unreadable = |what: &str| {
            format!(
                "url: not a valid {scheme} url{what}; characters like @ : / % in a password are written %40 %3A %2F %25"
            )
        };
        // sqlx takes a stray % for itself and would log in with another password than was meant.
        let escapes = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|b| b.is_ascii_hexdigit());
        if text.split('%').skip(1).any(|rest| !escapes(rest)) {
            return Err(unreadable(" (a % that is not followed by two hexadecimal digits)"));
        }
        let (target, shown) = match dialect {
            Dialect::Sqlite => {
                let options = sqlite::SqliteConnectOptions::from_str(text).map_err(|_| unreadable(""))?;
                let shown = format!("sqlite file {}", options.get_filename().display());
                (Target::Sqlite(Box::new(sqlite_limits(options, settings))), shown)
            }
            Dialect::Postgres | Dialect::Mysql => {
                let parsed = url::Url::parse(text).map_err(|e| unreadable(&format!(" ({e})")))?;
                let shown = format!(
                    "{} at {}{}{}",
                    dialect.as_str(),
                    parsed.host_str().filter(|h| !h.is_empty()).unwrap_or("a local socket"),
                    parsed.port().map_or_else(String::new, |p| format!(":{p}")),
                    parsed.path()
                );
                let target = if dialect == Dialect::Postgres {
                    let options = postgres::PgConnectOptions::from_str(text).map_err(|_| unreadable(""))?;
                    Target::Postgres(Box::new(options.application_name("duewheel")))
                } else {
                    let text = format!("mysql{}", &text[scheme.len()..]);
                    let options = mysql::MySqlConnectOptions::from_str(&text).map_err(|_| unreadable(""))?;
                    // `||` stays what the shop's own sessions read it as.
                    let options = options.pipes_as_concat(false);
                    let zone = zone.as_ref().map(Zone::for_mysql);
                    Target::Mysql(Box::new(options.timezone(zone)))
                };
                (target, shown)
            }
        };
        Ok(Self {
            target,
            shown,
            zone,
            statement_timeout: settings.statement_timeout,
            lock_timeout: settings.lock_timeout,
            session: settings.session.clone(),
            is_mariadb: Arc::default(),
        })
    }

    pub(super) fn dialect(&self) -> Dialect {
        match self.target {
            Target::Postgres(_) => Dialect::Postgres,
            Target::Mysql(_) => Dialect::Mysql,
            Target::Sqlite(_) => Dialect::Sqlite,
        }
    }

    /// A new session, set up.
    pub(super) async fn connect(&self) -> Result<Session, Failure> {
        let connected = match &self.target {
            Target::Postgres(o) => postgres::PgConnection::connect_with(o).await.map(Session::Postgres),
            Target::Mysql(o) => mysql::MySqlConnection::connect_with(o).await.map(Session::Mysql),
            Target::Sqlite(o) => sqlite::SqliteConnection::connect_with(o).await.map(Session::Sqlite),
        };
        let mut session = connected.map_err(Failure::from).map_err(|f| {
            let reason = format!("connecting to {}: {}", self.shown, f.reason());
            if f.may_pass() { Failure::Away(reason) } else { Failure::Unavailable(reason) }
        })?;
        if session.dialect() == Dialect::Mysql {
            self.set_up_mysql(&mut session).await?;
        }
        for statement in &self.session {
            session.raw(statement.clone()).await.map_err(|f| f.during("session"))?;
        }
        self.calm(&mut session).await?;
        Ok(session)
    }

    /// Lets the session wait for locks as long as it may again, after a hurried transaction. PostgreSQL and SQLite have nothing to do.
    pub(super) async fn calm(&self, session: &mut Session) -> Result<(), Failure> {
        if session.dialect() != Dialect::Mysql {
            return Ok(());
        }
        let calm = format!("SET SESSION innodb_lock_wait_timeout = {}", self.lock_seconds(false));
        session.raw(calm).await.map_err(|f| f.during("session"))
    }

    /// MariaDB's wait for a lock: whole seconds; not to wait at all is MariaDB's alone.
    fn lock_seconds(&self, hurried: bool) -> u128 {
        if hurried {
            return u128::from(!self.is_mariadb.load(Ordering::Relaxed));
        }
        self.lock_timeout.as_millis().div_ceil(1000).max(1)
    }

    /// PostgreSQL is told at the start of each transaction instead ([`Database::begin`]).
    async fn set_up_mysql(&self, session: &mut Session) -> Result<(), Failure> {
        let version = session.rows(Query::plain(Dialect::Mysql, "SELECT VERSION()"), false).await?;
        let version = version.into_iter().flatten().next().flatten().unwrap_or_default();
        let millis = self.statement_timeout.as_millis();
        // MySQL's own limit holds for SELECT only; the client's limit is behind both.
        let is_mariadb = version.contains("MariaDB");
        self.is_mariadb.store(is_mariadb, Ordering::Relaxed);
        let limits = if is_mariadb {
            format!(
                "max_statement_time = {}.{:03}, idle_transaction_timeout = {}",
                millis / 1000,
                millis % 1000,
                self.statement_timeout.as_secs() + 1
            )
        } else {
            format!("max_execution_time = {millis}")
        };
        // Read committed: the lock of the close reads the latest row anyway, and gaps between keys are not locked.
        session
            .raw(format!("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION {limits}"))
            .await
            .map_err(|f| f.during("session"))
    }

    /// Begins a transaction; `hurried` waits for nobody's lock.
    ///
    /// PostgreSQL is told its limits here, in the same message, so that they also hold behind a pooler that hands each transaction
    /// another session.
    pub(super) async fn begin(&self, session: &mut Session, hurried: bool) -> Result<(), Failure> {
        self.begin_with(session, hurried, "").await
    }

    /// The same, and in PostgreSQL with more statements in the same message, each after a semicolon.
    pub(super) async fn begin_with(
        &self,
        session: &mut Session,
        hurried: bool,
        also: &str,
    ) -> Result<(), Failure> {
        match session.dialect() {
            Dialect::Postgres => {
                let lock = if hurried { HURRIED } else { self.lock_timeout };
                let statement = self.statement_timeout.as_millis();
                let mut limits = vec![
                    ("statement_timeout", statement.to_string()),
                    ("lock_timeout", lock.as_millis().to_string()),
                    ("idle_in_transaction_session_timeout", (statement + 1000).to_string()),
                ];
                limits.extend(self.zone.as_ref().map(|zone| ("TimeZone", zone.for_postgres())));
                // One statement for all of them: a close of one order has only six more.
                let limits: Vec<String> = limits
                    .iter()
                    .map(|(name, value)| format!("pg_catalog.set_config('{name}', '{value}', true)"))
                    .collect();
                session.raw(format!("BEGIN; SELECT {}{also}", limits.join(", "))).await
            }
            Dialect::Mysql if hurried => {
                session
                    .raw(format!("SET SESSION innodb_lock_wait_timeout = {}; BEGIN", self.lock_seconds(true)))
                    .await
            }
            Dialect::Mysql => session.raw("BEGIN").await,
            // The write lock is taken at once: a transaction that reads first and then writes may be refused in its middle.
            Dialect::Sqlite => session.raw("BEGIN IMMEDIATE").await,
        }
    }
}

/// How long a transaction waits for a lock while a batch is cut into pieces to find the order that holds it up.
const HURRIED: Duration = Duration::from_millis(50);

fn sqlite_limits(
    options: sqlite::SqliteConnectOptions,
    settings: &SqlSettings,
) -> sqlite::SqliteConnectOptions {
    options
        .create_if_missing(false)
        .journal_mode(sqlite::SqliteJournalMode::Wal)
        .busy_timeout(settings.lock_timeout)
        .foreign_keys(true)
}
