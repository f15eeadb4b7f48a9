//! duewheel's own audit table: one row for each close, unique on (order, action, generation).

use super::dialect::{Dialect, Name};
use super::plan::text_value;
use super::query::Query;
use crate::error::{Error, Result};

/// The statement that creates the audit table. It is printed for the shop's own migrations and never run by duewheel.
///
/// `table` is `name` or `schema.name`. Times are UTC in every dialect (PostgreSQL keeps them as `timestamptz`).
pub fn audit_ddl(dialect: Dialect, table: &str) -> Result<String> {
    let name = Name::parse("audit", table, true).map_err(|problem| Error::Config(vec![problem]))?;
    let (text, time, big, tail) = match dialect {
        Dialect::Postgres => ("text", "timestamptz", "bigint", ""),
        // The id keeps its case; read back, it is compared byte for byte.
        Dialect::Mysql => (
            "varchar(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            "datetime(6)",
            "bigint",
            " ENGINE = InnoDB",
        ),
        Dialect::Sqlite => ("text", "text", "integer", ""),
    };
    // A person's words: up to 500 bytes each.
    let words = if dialect == Dialect::Mysql { "varchar(500) CHARACTER SET utf8mb4" } else { "text" };
    let short = if dialect == Dialect::Mysql { "varchar(64) CHARACTER SET ascii" } else { "text" };
    Ok(format!(
        "CREATE TABLE {} (
    order_id   {text} NOT NULL,
    action     {short} NOT NULL,
    generation {big} NOT NULL,
    due_at     {time} NOT NULL,
    closed_at  {time} NOT NULL,
    attempt    integer NOT NULL,
    fence      {big} NOT NULL,
    cause      {short} NOT NULL,
    actor      {words},
    reason     {words},
    trace_id   {short},
    worker     {words} NOT NULL,
    PRIMARY KEY (order_id, action, generation)
){tail};
",
        name.quoted(dialect)
    ))
}

/// The columns, in the order of [`insert`].
pub(super) const COLUMNS: &str =
    "order_id, action, generation, due_at, closed_at, attempt, fence, cause, actor, reason, trace_id, worker";

/// Writes one row for each element of `rows`.
pub(super) fn insert(dialect: Dialect, table: &str, rows: String) -> Query {
    let mut query = Query::new(dialect);
    query.text(&format!("INSERT INTO {table} ({COLUMNS}) "));
    match dialect {
        Dialect::Postgres => query
            .text(
                "SELECT id, action, generation, to_timestamp(due_at_ms / 1000.0), now(), attempt, fence, cause, actor, \
                 reason, trace_id, worker FROM json_to_recordset(",
            )
            .bind(text_value(&rows))
            .text(
                "::json) AS r(id text, action text, generation bigint, due_at_ms bigint, attempt integer, fence bigint, \
                 cause text, actor text, reason text, trace_id text, worker text)",
            ),
        Dialect::Mysql => query
            .text(
                "SELECT id, action, generation, TIMESTAMP'1970-01-01 00:00:00' + INTERVAL due_at_ms * 1000 MICROSECOND, \
                 UTC_TIMESTAMP(6), attempt, fence, cause, actor, reason, trace_id, worker FROM JSON_TABLE(",
            )
            .bind(text_value(&rows))
            .text(
                ", '$[*]' COLUMNS(id varchar(200) PATH '$.id', action varchar(64) PATH '$.action', \
                 generation bigint PATH '$.generation', due_at_ms bigint PATH '$.due_at_ms', attempt int PATH '$.attempt', \
                 fence bigint PATH '$.fence', cause varchar(64) PATH '$.cause', actor varchar(500) PATH '$.actor', \
                 reason varchar(500) PATH '$.reason', trace_id varchar(64) PATH '$.trace_id', \
                 worker varchar(500) PATH '$.worker')) AS r",
            ),
        Dialect::Sqlite => query
            .text(
                "SELECT value->>'id', value->>'action', value->>'generation', \
                 strftime('%Y-%m-%d %H:%M:%f', (value->>'due_at_ms') / 1000.0, 'unixepoch'), \
                 strftime('%Y-%m-%d %H:%M:%f', 'now'), value->>'attempt', value->>'fence', value->>'cause', \
                 value->>'actor', value->>'reason', value->>'trace_id', value->>'worker' FROM json_each(",
            )
            .bind(text_value(&rows))
            .text(")"),
    };
    query
}
