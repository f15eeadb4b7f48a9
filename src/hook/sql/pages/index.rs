//! Whether an index serves a page: finds its rows, and gives them in their order. Without one each page reads, or sorts, all that is left.

use crate::hook::sql::check::index::scans;
use crate::hook::sql::dialect::{Dialect, Name};
use crate::hook::sql::failure::Failure;
use crate::hook::sql::query::Query;
use crate::hook::sql::session::{Session, cell};

/// What an index does not do for this page; `None` where one serves it. In PostgreSQL the session is in a transaction.
pub(super) async fn lacks(session: &mut Session, query: &Query) -> Result<Option<&'static str>, Failure> {
    if scans(session, query).await? {
        return Ok(Some("no index serves it: each page reads the whole table"));
    }
    Ok(sorts(session, query)
        .await?
        .then_some("no index serves its order: each page sorts all rows that are left"))
}

/// The index by which MariaDB finds a page's rows in their order; `None` where it has none.
pub(super) async fn serving(session: &mut Session, query: &Query) -> Result<Option<Name>, Failure> {
    let rows = session.rows(Query { sql: format!("EXPLAIN {}", query.sql), ..query.clone() }, false).await?;
    let [plan] = rows.as_slice() else { return Ok(None) };
    let sorts = plan.iter().flatten().any(|text| text.contains("filesort"));
    // The sixth column is the key; several at once would be merged, in no order.
    Ok(cell(plan, 5).filter(|_| !sorts).and_then(|key| Name::parse("index", key, false).ok()))
}

async fn sorts(session: &mut Session, query: &Query) -> Result<bool, Failure> {
    let explained = |word: &str| Query { sql: format!("{word} {}", query.sql), ..query.clone() };
    match session.dialect() {
        Dialect::Postgres => {
            // On a small table it may sort in any case; this asks what it could do.
            session.raw("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off").await?;
            let rows = session.rows(explained("EXPLAIN"), false).await?;
            // An incremental sort only puts rows of one time in the order of their keys.
            Ok(rows.iter().filter_map(|row| cell(row, 0)).any(|line| {
                let node = line.trim_start().trim_start_matches("->").trim_start();
                node.starts_with("Sort ")
            }))
        }
        Dialect::Mysql => {
            let rows = session.rows(explained("EXPLAIN"), false).await?;
            Ok(rows.first().is_some_and(|row| row.iter().flatten().any(|text| text.contains("filesort"))))
        }
        Dialect::Sqlite => {
            let rows = session.rows(explained("EXPLAIN QUERY PLAN"), false).await?;
            Ok(rows.iter().filter_map(|row| cell(row, 3)).any(|line| line == "USE TEMP B-TREE FOR ORDER BY"))
        }
    }
}
