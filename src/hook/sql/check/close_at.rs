//! What `close_at` yields, against what the declaration says it does.

use super::Found;
use super::table::is_naive;
use crate::hook::sql::SqlHook;
use crate::hook::sql::declared::Declared;
use crate::hook::sql::dialect::Dialect;
use crate::hook::sql::failure::Failure;
use crate::hook::sql::query::Query;
use crate::hook::sql::session::{Session, cell};
use crate::hook::sql::settings::TimeType;

/// Whether `close_at` yields what the configuration says it does.
pub(super) async fn check_types(
    hook: &SqlHook,
    declared: &Declared,
    session: &mut Session,
    found: &mut Found,
) -> std::result::Result<(), Failure> {
    let Some(close_at) = &declared.close_at else { return Ok(()) };
    let dialect = session.dialect();
    let text = close_at.text(dialect);
    let table = declared.table.quoted(dialect);
    let kind = if dialect == Dialect::Sqlite {
        // Types belong to values there: any one row tells.
        let query = format!("SELECT typeof({text}) FROM {table} WHERE ({text}) IS NOT NULL LIMIT 1");
        let rows = session.rows(Query::plain(dialect, query), false).await?;
        match rows.first().and_then(|row| cell(row, 0)) {
            Some(kind) => kind.to_owned(),
            None => return Ok(()),
        }
    } else {
        let columns = session.prepare(&format!("SELECT ({text}) AS close_at FROM {table}")).await?;
        columns.first().map(|c| c.kind.clone()).unwrap_or_default()
    };
    let kind = kind.to_ascii_lowercase();
    let is_number =
        ["int", "numeric", "decimal", "float", "double", "real", "bigint"].iter().any(|t| kind.contains(t));
    let is_time = match dialect {
        Dialect::Sqlite => kind == "text",
        _ => kind.starts_with("timestamp") || kind.starts_with("datetime") || kind == "date",
    };
    match declared.close_at_type {
        TimeType::Time if !is_time => found.refusals.push(format!(
            "close_at: yields {kind}, expected a time; for a number set close_at_type to unix_seconds or unix_ms"
        )),
        TimeType::UnixSeconds | TimeType::UnixMillis if !is_number => found.refusals.push(format!(
            "close_at: yields {kind}, expected a number for close_at_type {}",
            declared.close_at_type.as_str()
        )),
        // The expression may be naive though no column was found to be.
        TimeType::Time if dialect != Dialect::Sqlite && is_naive(dialect, &format!("{kind} ").replace("timestamptz ", "timestamp with time zone")) && hook.zone.is_none() => {
            found.refusals.push(format!("time_zone: close_at yields {kind}, which carries no zone; say which it is in"));
        }
        TimeType::UnixSeconds | TimeType::UnixMillis => check_magnitude(declared, session, found, &text).await?,
        TimeType::Time => {}
    }
    Ok(())
}

/// Whether a number can be what it is said to be: seconds below 10^11 are before the year 5138, milliseconds above are after 1973.
async fn check_magnitude(
    declared: &Declared,
    session: &mut Session,
    found: &mut Found,
    close_at: &str,
) -> std::result::Result<(), Failure> {
    let dialect = session.dialect();
    let table = declared.table.quoted(dialect);
    let large = format!("CASE WHEN ({close_at}) > 100000000000 THEN '1' ELSE '0' END");
    let query = format!("SELECT {large} FROM {table} WHERE ({close_at}) IS NOT NULL LIMIT 1");
    let rows = session.rows(Query::plain(dialect, query), false).await?;
    let is_large = rows.first().and_then(|row| cell(row, 0)).map(|c| c == "1");
    let expected = declared.close_at_type == TimeType::UnixMillis;
    if is_large.is_some_and(|large| large != expected) {
        found.refusals.push(format!(
            "close_at_type {}: the numbers look like {}",
            declared.close_at_type.as_str(),
            if expected { "seconds" } else { "milliseconds" }
        ));
    }
    Ok(())
}
