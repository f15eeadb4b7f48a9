//! The orders table as the database's catalogue describes it, against the declaration.

use super::Found;
use crate::hook::sql::SqlHook;
use crate::hook::sql::declared::Declared;
use crate::hook::sql::dialect::{Dialect, Name};
use crate::hook::sql::failure::Failure;
use crate::hook::sql::query::{Query, Value};
use crate::hook::sql::session::cell;
use crate::hook::sql::session::{Cells, Session};
use crate::hook::sql::settings::{KeyType, TimeType};

/// A column of the orders table.
struct Column {
    name: String,
    kind: String,
}

/// Names, key, zone and engine, by the database's own catalogue.
pub(super) async fn check_declared(
    hook: &SqlHook,
    declared: &Declared,
    session: &mut Session,
    found: &mut Found,
) -> std::result::Result<(), Failure> {
    let dialect = session.dialect();
    let columns = columns(session, &declared.table).await?;
    let table = &declared.table.name;
    if columns.is_empty() {
        found.refusals.push(format!("table: no table {table} that this user may read"));
        return Ok(());
    }
    match columns.iter().find(|c| c.name.eq_ignore_ascii_case(&declared.key.name)) {
        None => found.refusals.push(format!("key: table {table} has no column {}", declared.key.name)),
        Some(key) if !fits(hook.plan.kind, &key.kind) => found.refusals.push(format!(
            "key_type {}: column {} is {}",
            hook.plan.kind.as_str(),
            key.name,
            key.kind
        )),
        Some(_) => {}
    }
    if !columns.iter().any(|c| declared.guard.words.iter().any(|w| w.eq_ignore_ascii_case(&c.name))) {
        found.refusals.push(format!("guard: looks at no column of {table}"));
    }
    for column in &declared.assigned {
        if !columns.iter().any(|c| c.name.eq_ignore_ascii_case(column)) {
            found.refusals.push(format!("set: table {table} has no column {column}"));
        }
    }
    let times =
        [declared.close_at.as_ref(), declared.overdue.as_ref(), Some(&declared.set), Some(&declared.guard)];
    let words = || times.iter().flatten().flat_map(|e| &e.words);
    let naive = columns
        .iter()
        .find(|c| is_naive(dialect, &c.kind) && words().any(|w| w.eq_ignore_ascii_case(&c.name)));
    if let (Some(naive), None) = (naive, &hook.zone) {
        found.refusals.push(format!(
            "time_zone: column {} is {} and carries no zone; say in which its times are written, for example \"+08:00\"",
            naive.name, naive.kind
        ));
    }
    if let (Some(naive), Some(zone)) = (naive, &hook.zone)
        && zone.has_summer_time()
        && declared.close_at_type == TimeType::Time
    {
        found.warnings.push(format!(
            "time_zone: column {} carries no zone and this one has summer time: adding minutes to a local time is wrong by an \
             hour around its changes; use close_at_type = \"unix_seconds\" (docs/hook-sql.md has the expression)",
            naive.name
        ));
    }
    if declared.close_at.is_none() {
        found.warnings.push(
            "close_at: none: only the wheel's own due time keeps an order from being closed early".to_owned(),
        );
    }
    if dialect == Dialect::Mysql {
        for name in std::iter::once(&declared.table).chain(&hook.plan.audit) {
            let engine = engine(session, name).await?;
            if engine.as_deref().is_some_and(|e| !e.eq_ignore_ascii_case("InnoDB")) {
                found.refusals.push(format!(
                    "table {}: engine {} has no transactions, expected InnoDB",
                    name.name,
                    engine.unwrap_or_default()
                ));
            }
        }
    }
    Ok(())
}

/// Whether a column of this type holds keys of this kind.
fn fits(kind: KeyType, column: &str) -> bool {
    let column = column.to_ascii_lowercase();
    let starts = |types: &[&str]| types.iter().any(|t| column.starts_with(t));
    match kind {
        KeyType::Bigint => starts(&["bigint", "int", "smallint", "mediumint", "tinyint"]),
        KeyType::Text => starts(&[
            "text",
            "varchar",
            "char",
            "nchar",
            "nvarchar",
            "tinytext",
            "citext",
            "mediumtext",
            "longtext",
        ]),
        KeyType::Uuid => starts(&["uuid", "char(36)", "varchar", "text", "character"]),
    }
}

/// Whether a column of this type holds local times without their zone. SQLite's texts are UTC by rule.
pub(super) fn is_naive(dialect: Dialect, column: &str) -> bool {
    let column = column.to_ascii_lowercase();
    match dialect {
        Dialect::Postgres => {
            column.starts_with("timestamp") && !column.contains("with time zone") || column == "date"
        }
        // A TIMESTAMP is kept in UTC, but read and written in the session's zone.
        Dialect::Mysql => {
            column.starts_with("datetime") || column.starts_with("timestamp") || column == "date"
        }
        Dialect::Sqlite => false,
    }
}

async fn columns(session: &mut Session, table: &Name) -> std::result::Result<Vec<Column>, Failure> {
    let dialect = session.dialect();
    let mut query = Query::new(dialect);
    match dialect {
        Dialect::Postgres => query
            .text("SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass(")
            .bind(Value::text(&table.quoted(dialect)))
            .text(") AND attnum > 0 AND NOT attisdropped"),
        Dialect::Mysql => query
            .text("SELECT CAST(column_name AS CHAR), CAST(column_type AS CHAR) FROM information_schema.columns WHERE table_name = ")
            .bind(Value::text(&table.name))
            .text(" AND table_schema = coalesce(")
            .bind(Value::Text(table.schema.clone()))
            .text(", database())"),
        Dialect::Sqlite => {
            query.text("SELECT name, type FROM pragma_table_info(").bind(Value::text(&table.name));
            if let Some(schema) = &table.schema {
                query.text(", ").bind(Value::text(schema));
            }
            query.text(")")
        }
    };
    let rows = session.rows(query, false).await.map_err(|f| f.during("reading the columns"))?;
    let column = |row: &Cells| {
        Some(Column { name: cell(row, 0)?.to_owned(), kind: cell(row, 1).unwrap_or_default().to_owned() })
    };
    Ok(rows.iter().filter_map(column).collect())
}

async fn engine(session: &mut Session, table: &Name) -> std::result::Result<Option<String>, Failure> {
    let mut query = Query::new(Dialect::Mysql);
    query
        .text("SELECT CAST(engine AS CHAR) FROM information_schema.tables WHERE table_name = ")
        .bind(Value::text(&table.name))
        .text(" AND table_schema = coalesce(")
        .bind(Value::Text(table.schema.clone()))
        .text(", database())");
    let rows = session.rows(query, false).await?;
    Ok(rows.first().and_then(|row| cell(row, 0)).map(str::to_owned))
}
