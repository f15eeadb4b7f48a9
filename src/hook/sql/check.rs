//! The start-up checks: the declaration against the database itself. What could not close, or could close wrongly, is refused with
//! the reason; what is only slow or unsafe in a corner is a warning.

use crate::error::{Error, Result};

use super::SqlHook;
use super::dialect::{Dialect, Name};
use super::failure::Failure;
use super::order::Order;
use super::plan::{Declared, Form, Plan, text_value};
use super::pool::Pool;
use super::query::Query;
use super::session::{Cells, Session};
use super::settings::{KeyType, TimeType};
use super::transaction::cell;

/// Checks every database; answers warnings, or refuses with all reasons of the first database that does not fit.
pub(super) async fn check(hook: &SqlHook) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    for pool in &hook.pools {
        let limit = hook.settings.timeout;
        let checked = tokio::time::timeout(limit, check_database(hook, pool)).await;
        let refused = |reason: String| Error::Hook(format!("sql hook, {}: {reason}", pool.database.shown));
        let found = match checked {
            Ok(found) => found.map_err(|failure| refused(failure.reason().to_owned()))?,
            Err(_) => return Err(refused(format!("no answer within {limit:?}"))),
        };
        if !found.refusals.is_empty() {
            return Err(refused(found.refusals.join("; ")));
        }
        warnings.extend(found.warnings.into_iter().map(|w| format!("{}: {w}", pool.database.shown)));
    }
    if hook.pools.len() > 1 {
        warnings.sort();
        warnings.dedup();
    }
    Ok(warnings)
}

/// What one database's checks found.
#[derive(Default)]
struct Found {
    refusals: Vec<String>,
    warnings: Vec<String>,
}

async fn check_database(hook: &SqlHook, pool: &Pool) -> std::result::Result<Found, Failure> {
    let mut session = pool.fresh().await?;
    let mut found = Found::default();
    // All in one transaction that is never committed: it also shows that the session may write.
    pool.database.begin(&mut session, true).await?;
    if let Form::Declared(declared) = &hook.plan.form {
        check_declared(hook, declared, &mut session, &mut found).await?;
    }
    if found.refusals.is_empty() {
        check_statements(&hook.plan, &mut session, &mut found).await?;
    }
    if let (Form::Declared(declared), true) = (&hook.plan.form, found.refusals.is_empty()) {
        check_types(hook, declared, &mut session, &mut found).await?;
        check_index(hook.plan.kind, declared, &mut session, &mut found).await?;
        dry_run(&hook.plan, declared, &mut session, &mut found).await?;
    }
    if hook.plan.audit.is_none() {
        found.warnings.push(
            "audit: none: after a crash a close of our own cannot be told from one of the shop's, and it is reported as skipped"
                .to_owned(),
        );
    }
    session.raw("ROLLBACK").await?;
    session.close().await;
    Ok(found)
}

/// A column of the orders table.
struct Column {
    name: String,
    kind: String,
}

async fn check_declared(
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
fn is_naive(dialect: Dialect, column: &str) -> bool {
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
            .bind(text_value(&table.quoted(dialect)))
            .text(") AND attnum > 0 AND NOT attisdropped"),
        Dialect::Mysql => query
            .text("SELECT CAST(column_name AS CHAR), CAST(column_type AS CHAR) FROM information_schema.columns WHERE table_name = ")
            .bind(text_value(&table.name))
            .text(" AND table_schema = coalesce(")
            .bind(super::query::Value::Text(table.schema.clone()))
            .text(", database())"),
        Dialect::Sqlite => {
            query.text("SELECT name, type FROM pragma_table_info(").bind(text_value(&table.name));
            if let Some(schema) = &table.schema {
                query.text(", ").bind(text_value(schema));
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
        .bind(text_value(&table.name))
        .text(" AND table_schema = coalesce(")
        .bind(super::query::Value::Text(table.schema.clone()))
        .text(", database())");
    let rows = session.rows(query, false).await?;
    Ok(rows.first().and_then(|row| cell(row, 0)).map(str::to_owned))
}

/// A key that no order has.
fn no_key(kind: KeyType) -> &'static str {
    match kind {
        KeyType::Bigint => "-9223372036854775808",
        KeyType::Text => "duewheel check",
        KeyType::Uuid => "00000000-0000-0000-0000-000000000000",
    }
}

/// A lease of no order, to write the statements for.
fn sample(kind: KeyType) -> Option<crate::lease::Lease> {
    let now = std::time::Instant::now();
    Some(crate::lease::Lease {
        id: crate::deadline::Id::new(no_key(kind)).ok()?,
        due_at: crate::clock::Moment::host_now(),
        generation: crate::deadline::Generation(1),
        stage: crate::deadline::Stage::CLOSE,
        cause: crate::deadline::Cause::Due,
        attempt: 1,
        fence: crate::lease::Fence(1),
        payload: crate::deadline::Payload::default(),
        traceparent: None,
        note: None,
        trusted_until: now,
        redis_clock: crate::lease::RedisClock { us: 0, at: now },
    })
}

/// Prepares every statement as it will be sent, so that wrong names, types and missing rights show now.
async fn check_statements(
    plan: &Plan,
    session: &mut Session,
    found: &mut Found,
) -> std::result::Result<(), Failure> {
    let Some(lease) = sample(plan.kind) else { return Ok(()) };
    let orders = [Order { place: 0, lease: &lease }];
    let keys = [lease.id.as_str()];
    let mut statements: Vec<(String, Query)> = Vec::new();
    match &plan.form {
        Form::Declared(declared) => {
            for manual in [false, true] {
                if plan.dialect == Dialect::Mysql {
                    statements
                        .push(("guard, close_at".to_owned(), declared.lock(plan.kind, &keys, manual, true)));
                    statements.push(("set".to_owned(), declared.update(plan.kind, &keys, manual, Some(""))));
                } else {
                    let close = declared.close(plan.dialect, plan.kind, &keys, manual, false);
                    statements.push(("guard, close_at, set".to_owned(), close));
                }
            }
            statements.push(("state".to_owned(), declared.classify(plan.dialect, plan.kind, &keys)));
            if let Some(overdue) = declared.overdue_query(plan.dialect) {
                statements.push(("overdue".to_owned(), Query::plain(plan.dialect, overdue)));
            }
        }
        Form::Call(call) => {
            statements.push((call.field.clone(), call.bound(plan.dialect, plan.context(None), &orders)));
        }
    }
    let now = (plan.dialect != Dialect::Postgres).then_some("2026-01-01 00:00:00");
    for statement in plan.then.iter().chain(&plan.ensure) {
        statements.push((statement.field.clone(), statement.bound(plan.dialect, plan.context(now), &orders)));
    }
    for insert in plan.audit_inserts(&orders) {
        let create = "audit (docs/hook-sql.md has the statement that creates the table)";
        statements.push((create.to_owned(), insert));
    }
    for (field, query) in statements {
        if let Err(failure) = session.prepare(&query.sql).await {
            found.refusals.push(format!("{field}: {}", failure.reason()));
            if matches!(failure, Failure::Lost(_)) {
                return Err(failure);
            }
            if plan.dialect == Dialect::Postgres {
                // PostgreSQL answers nothing more in this transaction.
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Whether `close_at` yields what the configuration says it does.
async fn check_types(
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

/// Whether an index finds one order by its key, and the overdue ones among the many.
async fn check_index(
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
            !scans(session, &format!("SELECT 1 FROM {table} WHERE {key} = {value}")).await?
        }
    };
    if !indexed {
        found.warnings.push(format!("key: no index starts with {key}: each close reads the whole table"));
    }
    if let Some(overdue) = declared.overdue_query(dialect)
        && scans(session, &overdue).await?
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
        .bind(text_value(&declared.table.quoted(Dialect::Postgres)))
        .text(") AND a.attname = ")
        .bind(text_value(&declared.key.name));
    Ok(!session.rows(query, false).await?.is_empty())
}

/// Whether the database can only answer `query` by reading the whole table.
async fn scans(session: &mut Session, query: &str) -> std::result::Result<bool, Failure> {
    let dialect = session.dialect();
    match dialect {
        Dialect::Postgres => {
            // On a small table it would read the whole in any case; this asks what it could do.
            session.raw("SET LOCAL enable_seqscan = off").await?;
            let rows = session.rows(Query::plain(dialect, format!("EXPLAIN {query}")), false).await?;
            session.raw("SET LOCAL enable_seqscan = on").await?;
            Ok(rows.iter().any(|row| cell(row, 0).is_some_and(|line| line.contains("Seq Scan"))))
        }
        Dialect::Mysql => {
            let columns = session.prepare(&format!("EXPLAIN {query}")).await?;
            let rows = session.rows(Query::plain(dialect, format!("EXPLAIN {query}")), false).await?;
            let place = |name: &str| columns.iter().position(|c| c.name.eq_ignore_ascii_case(name));
            let possible = place("possible_keys").unwrap_or(5);
            let table = place("table").unwrap_or(2);
            // The first line is the orders table; a line without a table needs none.
            Ok(rows.first().is_some_and(|row| cell(row, table).is_some() && cell(row, possible).is_none()))
        }
        Dialect::Sqlite => {
            let rows =
                session.rows(Query::plain(dialect, format!("EXPLAIN QUERY PLAN {query}")), false).await?;
            Ok(rows.iter().any(|row| {
                cell(row, 3).is_some_and(|line| line.starts_with("SCAN") && !line.contains("INDEX"))
            }))
        }
    }
}

/// Closes one open order, looks whether the guard let go of it, and rolls back.
async fn dry_run(
    plan: &Plan,
    declared: &Declared,
    session: &mut Session,
    found: &mut Found,
) -> std::result::Result<(), Failure> {
    let rows = session.rows(declared.any_open(plan.dialect), false).await?;
    // Without an open order the statement is run for none: whether this user may write shows in any case.
    let key = match rows.first().and_then(|row| cell(row, 0)) {
        Some(key) => key.to_owned(),
        None => no_key(plan.kind).to_owned(),
    };
    if !super::key::is_canonical(plan.kind, &key) {
        found.refusals.push(format!(
            "key_type {}: the table holds the key \"{}\", which is no canonical one",
            plan.kind.as_str(),
            crate::error::shown(&key)
        ));
        return Ok(());
    }
    let keys = [key.as_str()];
    let closed = if plan.dialect == Dialect::Mysql {
        let rows = session.rows(declared.lock(plan.kind, &keys, true, false), false).await?;
        let now = rows.first().and_then(|row| cell(row, 1));
        session.run(declared.update(plan.kind, &keys, true, now), false).await.map(drop)
    } else {
        session.rows(declared.close(plan.dialect, plan.kind, &keys, true, false), false).await.map(drop)
    };
    if let Err(failure) = closed {
        found.refusals.push(format!("set: closing an order on trial failed: {}", failure.reason()));
        return Ok(());
    }
    let rows = session.rows(declared.classify(plan.dialect, plan.kind, &keys), false).await?;
    if rows.first().and_then(|row| cell(row, 1)) == Some("1") {
        found
            .refusals
            .push("set: it leaves the guard true: an order would be closed again and again".to_owned());
    }
    Ok(())
}
