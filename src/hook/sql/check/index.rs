//! Whether indexes serve the close and the search for overdue orders.

use super::Found;
use crate::hook::sql::declared::Declared;
use crate::hook::sql::dialect::Dialect;
use crate::hook::sql::failure::Failure;
use crate::hook::sql::query::{Query, Value};
use crate::hook::sql::session::{Session, cell};
use crate::hook::sql::settings::KeyType;

/// Whether an index finds one order by its key, and the overdue ones among the many.
pub(super) async fn check_index(
    kind: KeyType,
    declared: &Declared,
    session: &mut Session,
    found: &mut Found,
) -> std::result::Result<(), Failure> {
    let dialect = session.dialect();
    let (key, table) = (declared.key.quoted(dialect), declared.table.quoted(dialect));
    let indexed = match dialect {
        Dialect::Postgres => has_key_index(session, declared).await?,
        Dialect::Mysql | Dialect::Sqlite => {
            let value = if kind == KeyType::Bigint { "1" } else { "'x'" };
            let query = Query::plain(dialect, format!("SELECT 1 FROM {table} WHERE {key} = {value}"));
            !scans(session, &query).await?
        }
    };
    if !indexed {
        found.warnings.push(format!("key: no index starts with {key}: each close reads the whole table"));
    }
    if let Some(overdue) = declared.overdue_query(dialect)
        && scans(session, &Query::plain(dialect, overdue)).await?
    {
        found.warnings.push(
            "overdue: no index serves it: feed and sweep read the whole table; compare a bare indexed column with a constant"
                .to_owned(),
        );
    }
    Ok(())
}

async fn has_key_index(session: &mut Session, declared: &Declared) -> std::result::Result<bool, Failure> {
    let mut query = Query::new(Dialect::Postgres);
    query
        .text("SELECT i.indexrelid::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] \
               WHERE i.indpred IS NULL AND i.indrelid = to_regclass(")
        .bind(Value::text(&declared.table.quoted(Dialect::Postgres)))
        .text(") AND a.attname = ")
        .bind(Value::text(&declared.key.name));
    Ok(!session.rows(query, false).await?.is_empty())
}

/// Whether the database can only answer `query` by reading the whole table.
pub(in crate::hook::sql) async fn scans(
    session: &mut Session,
    query: &Query,
) -> std::result::Result<bool, Failure> {
    let dialect = session.dialect();
    let explained = |word: &str| Query { sql: format!("{word} {}", query.sql), ..query.clone() };
    match dialect {
        Dialect::Postgres => {
            // On a small table it would read the whole in any case; this asks what it could do.
            session.raw("SET LOCAL enable_seqscan = off").await?;
            let rows = session.rows(explained("EXPLAIN"), false).await?;
            session.raw("SET LOCAL enable_seqscan = on").await?;
            Ok(rows.iter().any(|row| cell(row, 0).is_some_and(|line| line.contains("Seq Scan"))))
        }
        Dialect::Mysql => {
            let columns = session.prepare(&explained("EXPLAIN").sql).await?;
            let rows = session.rows(explained("EXPLAIN"), false).await?;
            let place = |name: &str| columns.iter().position(|c| c.name.eq_ignore_ascii_case(name));
            let possible = place("possible_keys").unwrap_or(5);
            let table = place("table").unwrap_or(2);
            // The first line is the orders table; a line without a table needs none.
            Ok(rows.first().is_some_and(|row| cell(row, table).is_some() && cell(row, possible).is_none()))
        }
        Dialect::Sqlite => {
            let rows = session.rows(explained("EXPLAIN QUERY PLAN"), false).await?;
            Ok(rows.iter().any(|row| {
                cell(row, 3).is_some_and(|line| line.starts_with("SCAN") && !line.contains("INDEX"))
            }))
        }
    }
}
