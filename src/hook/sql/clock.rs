//! The database's clock, which is the second lock against closing early.

use std::time::Instant;

use super::dialect::Dialect;
use super::pool::Pool;
use super::query::Query;
use crate::clock::Reading;

/// Reads it, named as the pool shows itself. `None` where the database does not answer just now, and for SQLite: its clock is this host's.
pub(super) async fn read(pool: &Pool, named: bool) -> Option<(String, Reading)> {
    let dialect = pool.database.dialect();
    let sql = match dialect {
        Dialect::Postgres => "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint::text",
        Dialect::Mysql => "SELECT CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS CHAR)",
        Dialect::Sqlite => return None,
    };
    // What is away is met by the next close; here it is only no reading.
    let mut held = pool.acquire().await.ok()?;
    let sent = Instant::now();
    let asked = held.session.rows(Query::plain(dialect, sql), named);
    let rows = tokio::time::timeout(pool.patience(), asked).await.ok()?.ok()?;
    let received = Instant::now();
    pool.give_back(held);
    let us = rows.first()?.first()?.as_deref()?.parse().ok()?;
    Some((pool.database.shown.clone(), Reading { us, sent, received }))
}
