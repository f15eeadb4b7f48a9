//! duewheel's own audit table: one row for each close, unique on (order, action, generation).

use super::dialect::{Dialect, Name};
use super::order::Order;
use super::query::{Query, Value};
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

/// The columns, in the order of [`inserts`].
const COLUMNS: &str =
    "order_id, action, generation, due_at, closed_at, attempt, fence, cause, actor, reason, trace_id, worker";

/// Writes one row for each order, in as few statements as the dialect makes good.
pub(super) fn inserts(dialect: Dialect, table: &str, worker: &str, orders: &[Order<'_>]) -> Vec<Query> {
    let start = |orders: &[Order<'_>]| {
        let mut query = Query::new(dialect);
        query.text(&format!("INSERT INTO {table} ({COLUMNS}) "));
        match dialect {
            Dialect::Postgres => from_arrays(&mut query, worker, orders),
            Dialect::Mysql | Dialect::Sqlite => from_values(&mut query, worker, orders),
        }
        query
    };
    match dialect {
        Dialect::Postgres => vec![start(orders)],
        Dialect::Mysql | Dialect::Sqlite => powers_of_two(orders).into_iter().map(start).collect(),
    }
}

/// The orders in parts of 512, 256, … 1: a handful of statement texts serves any number of rows, each prepared once a session.
/// (JSON_TABLE would need one text only; MariaDB took 82 ms for 500 rows of it, and 4 ms so, *measured*.)
fn powers_of_two<'o, 'a>(orders: &'o [Order<'a>]) -> Vec<&'o [Order<'a>]> {
    let (mut rest, mut parts) = (orders, Vec::new());
    while !rest.is_empty() {
        let size = (1 << rest.len().ilog2()).min(512);
        let (part, others) = rest.split_at(size);
        parts.push(part);
        rest = others;
    }
    parts
}

fn from_values(query: &mut Query, worker: &str, orders: &[Order<'_>]) {
    query.text("VALUES ");
    let some = |text: &str| Value::Text(Some(text.to_owned()));
    let maybe = |text: Option<&str>| Value::Text(text.map(str::to_owned));
    for (n, order) in orders.iter().enumerate() {
        query.text(if n == 0 { "(" } else { ",(" });
        query.bind(some(order.key())).text(",").bind(some(order.action())).text(",");
        query.bind(Value::Int(order.generation())).text(",");
        if query.dialect == Dialect::Mysql {
            query.text("TIMESTAMP'1970-01-01 00:00:00' + INTERVAL ").bind(Value::Int(order.due_millis()));
            query.text(" * 1000 MICROSECOND,UTC_TIMESTAMP(6),");
        } else {
            query.text("strftime('%Y-%m-%d %H:%M:%f',").bind(Value::Int(order.due_millis()));
            query.text(" / 1000.0,'unixepoch'),strftime('%Y-%m-%d %H:%M:%f','now'),");
        }
        query.bind(Value::Int(i64::from(order.lease.attempt))).text(",");
        query.bind(Value::Int(order.fence())).text(",");
        query.bind(some(order.lease.cause.as_str())).text(",").bind(maybe(order.actor())).text(",");
        query.bind(maybe(order.reason())).text(",").bind(maybe(order.trace_id())).text(",");
        query.bind(some(worker)).text(")");
    }
}

/// PostgreSQL reads arrays several times faster than JSON.
fn from_arrays(query: &mut Query, worker: &str, orders: &[Order<'_>]) {
    let numbers = |number: &dyn Fn(&Order<'_>) -> i64| Value::Ints(orders.iter().map(number).collect());
    let texts = |text: &dyn for<'a> Fn(&Order<'a>) -> Option<&'a str>| {
        Value::Texts(orders.iter().map(|order| text(order).map(str::to_owned)).collect())
    };
    query.text("SELECT id, action, generation, to_timestamp(due_at_ms / 1000.0), now(), attempt, fence, cause, actor, reason, trace_id, ");
    query.bind(Value::text(worker)).text(" FROM unnest(");
    let columns = [
        texts(&|order| Some(order.key())),
        texts(&|order| Some(order.action())),
        numbers(&|order| order.generation()),
        numbers(&|order| order.due_millis()),
        numbers(&|order| i64::from(order.lease.attempt)),
        numbers(&|order| order.fence()),
        texts(&|order| Some(order.lease.cause.as_str())),
        texts(&|order| order.actor()),
        texts(&|order| order.reason()),
        texts(&|order| order.trace_id()),
    ];
    for (n, column) in columns.into_iter().enumerate() {
        query.text(if n == 0 { "" } else { ", " }).bind(column);
    }
    query.text(") AS r(id, action, generation, due_at_ms, attempt, fence, cause, actor, reason, trace_id)");
}
