//! One session to a database: the only place that calls sqlx.

use futures_util::TryStreamExt;
use sqlx::{AssertSqlSafe, Column, Connection, Executor, Row, Statement, TypeInfo};
use sqlx::{mysql, postgres, sqlite};

use super::dialect::Dialect;
use super::failure::Failure;
use super::query::{Query, Value};

/// A session of one of the three kinds.
///
/// Dropping it closes the connection without a word: a session is given back to its [`super::pool::Pool`] only when its transaction
/// is known to have ended, so nobody ever inherits an open one.
pub(super) enum Session {
    Postgres(postgres::PgConnection),
    Mysql(mysql::MySqlConnection),
    Sqlite(sqlite::SqliteConnection),
}

/// A row, every column as text.
pub(super) type Cells = Vec<Option<String>>;

/// A column of a row; `None` where it is NULL.
pub(super) fn cell(row: &[Option<String>], column: usize) -> Option<&str> {
    row.get(column)?.as_deref()
}

/// A column of a prepared statement: its name and the database's name of its type.
#[derive(Debug, Clone)]
pub(super) struct ColumnType {
    pub(super) name: String,
    pub(super) kind: String,
}

/// Runs one expression for whichever kind of session this is.
macro_rules! each {
    ($session:expr, $connection:ident => $body:expr) => {
        match $session {
            Session::Postgres($connection) => $body,
            Session::Mysql($connection) => $body,
            Session::Sqlite($connection) => $body,
        }
    };
}

/// The statement as sqlx takes it, with its values bound. The texts are the configuration's and ours; what comes with an order is
/// always bound.
macro_rules! prepared {
    ($query:expr, $named:expr, $value:ident => $array:expr) => {{
        let mut prepared = sqlx::query(AssertSqlSafe($query.sql)).persistent($named);
        for $value in $query.values {
            prepared = match $value {
                Value::Int(number) => prepared.bind(number),
                Value::Text(text) => prepared.bind(text),
                $value => $array(prepared, $value),
            };
        }
        prepared
    }};
}

impl Session {
    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::Postgres(_) => Dialect::Postgres,
            Self::Mysql(_) => Dialect::Mysql,
            Self::Sqlite(_) => Dialect::Sqlite,
        }
    }

    /// Runs one or more statements without values, unprepared.
    pub(super) async fn raw(&mut self, sql: impl Into<String>) -> Result<(), Failure> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.into()));
        each!(self, c => c.execute(sql).await.map(drop)).map_err(Failure::from)
    }

    /// Runs a statement and answers the number of rows it affected.
    pub(super) async fn run(&mut self, query: Query, named: bool) -> Result<u64, Failure> {
        Ok(match self {
            Self::Postgres(c) => c.execute(prepared!(query, named, v => bind_array)).await?.rows_affected(),
            Self::Mysql(c) => c.execute(prepared!(query, named, v => bind_none)).await?.rows_affected(),
            Self::Sqlite(c) => c.execute(prepared!(query, named, v => bind_none)).await?.rows_affected(),
        })
    }

    /// Runs a statement and answers its rows.
    pub(super) async fn rows(&mut self, query: Query, named: bool) -> Result<Vec<Cells>, Failure> {
        Ok(match self {
            Self::Postgres(c) => {
                let rows = c.fetch(prepared!(query, named, v => bind_array));
                rows.map_ok(|r| (0..r.len()).map(|n| postgres_cell(&r, n)).collect()).try_collect().await?
            }
            Self::Mysql(c) => {
                let rows = c.fetch(prepared!(query, named, v => bind_none));
                rows.map_ok(|r| (0..r.len()).map(|n| mysql_cell(&r, n)).collect()).try_collect().await?
            }
            Self::Sqlite(c) => {
                let rows = c.fetch(prepared!(query, named, v => bind_none));
                rows.map_ok(|r| (0..r.len()).map(|n| sqlite_cell(&r, n)).collect()).try_collect().await?
            }
        })
    }

    /// Prepares a statement without running it; answers its columns.
    pub(super) async fn prepare(&mut self, sql: &str) -> Result<Vec<ColumnType>, Failure> {
        let sql = AssertSqlSafe(sql.to_owned());
        each!(self, c => {
            let statement = c.prepare(sqlx::SqlSafeStr::into_sql_str(sql)).await?;
            let columns = statement.columns().iter();
            Ok(columns.map(|c| ColumnType { name: c.name().to_owned(), kind: c.type_info().name().to_owned() }).collect())
        })
    }

    /// Whether the other side still answers.
    pub(super) async fn ping(&mut self) -> Result<(), Failure> {
        each!(self, c => c.ping().await).map_err(Failure::from)
    }

    /// Says goodbye; for the orderly end.
    pub(super) async fn close(self) {
        // The session ends either way.
        let _ = each!(self, c => c.close().await);
    }
}

type PgQuery<'q> = sqlx::query::Query<'q, sqlx::Postgres, postgres::PgArguments>;

fn bind_array(query: PgQuery<'_>, value: Value) -> PgQuery<'_> {
    match value {
        Value::Ints(numbers) => query.bind(numbers),
        Value::Texts(texts) => query.bind(texts),
        Value::Int(_) | Value::Text(_) => query,
    }
}

/// Arrays are PostgreSQL's alone; [`Query`] makes none for the others.
fn bind_none<Q>(query: Q, _: Value) -> Q {
    query
}

/// Our own statements cast to text; a procedure of the shop's may also answer a number.
macro_rules! cell {
    ($name:ident, $row:ty) => {
        fn $name(row: &$row, column: usize) -> Option<String> {
            if let Ok(text) = row.try_get::<Option<String>, _>(column) {
                return text;
            }
            if let Ok(number) = row.try_get::<Option<i64>, _>(column) {
                return number.map(|n| n.to_string());
            }
            if let Ok(number) = row.try_get::<Option<i32>, _>(column) {
                return number.map(|n| n.to_string());
            }
            let bytes = row.try_get::<Option<Vec<u8>>, _>(column).ok()??;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        }
    };
}

cell!(postgres_cell, postgres::PgRow);
cell!(mysql_cell, mysql::MySqlRow);
cell!(sqlite_cell, sqlite::SqliteRow);
