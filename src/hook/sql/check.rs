//! The start-up checks: the declaration against the database itself. What could not close, or could close wrongly, is refused with
//! the reason; what is only slow or unsafe in a corner is a warning.

mod close_at;
pub(super) mod index;
mod table;

use crate::error::{Error, Result};

use super::SqlHook;
use super::declared::Declared;
use super::dialect::Dialect;
use super::failure::Failure;
use super::order::Order;
use super::plan::{Form, Plan};
use super::pool::Pool;
use super::query::Query;
use super::session::{Session, cell};
use super::settings::KeyType;
use close_at::check_types;
use index::check_index;
use table::check_declared;

/// Checks every database; answers warnings, or refuses with all reasons of the first database that does not fit.
pub(super) async fn check(hook: &SqlHook) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    for pool in &hook.pools {
        let limit = hook.settings.timeout;
        let checked = tokio::time::timeout(limit, check_database(hook, pool)).await;
        let said = |reason: &str| format!("sql hook, {}: {reason}", pool.database.shown);
        let refused = |reason: String| Error::Hook(said(&reason));
        let found = match checked {
            Ok(Ok(found)) => found,
            Ok(Err(failure)) if failure.may_pass() => return Err(Error::HookAway(said(failure.reason()))),
            Ok(Err(failure)) => return Err(refused(failure.reason().to_owned())),
            Err(_) => return Err(Error::HookAway(said(&format!("no answer within {limit:?}")))),
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
        was_held: false,
        was_put_off: false,
        note: None,
        reminders: crate::deadline::Reminders::default(),
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
    if let (Form::Declared(declared), false) = (&plan.form, plan.remind.is_empty()) {
        let open = declared.open(plan.dialect, plan.kind, &keys, false);
        statements.push(("guard, for a reminder".to_owned(), open));
    }
    for statement in plan.then.iter().chain(&plan.ensure).chain(&plan.remind) {
        statements.push((statement.field.clone(), statement.bound(plan.dialect, plan.context(now), &orders)));
    }
    for insert in plan.audit_inserts(&orders) {
        let create = "audit (docs/hook-sql.md has the statement that creates the table)";
        statements.push((create.to_owned(), insert));
    }
    for (field, query) in statements {
        if let Err(failure) = session.prepare(&query.sql).await {
            if failure.may_pass() {
                return Err(failure.during(&field));
            }
            found.refusals.push(format!("{field}: {}", failure.reason()));
            if plan.dialect == Dialect::Postgres {
                // PostgreSQL answers nothing more in this transaction.
                return Ok(());
            }
        }
    }
    Ok(())
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
        if failure.may_pass() {
            return Err(failure.during("set: closing an order on trial"));
        }
        found.refusals.push(format!("set: closing an order on trial failed: {}", failure.reason()));
        return Ok(());
    }
    let rows = session.rows(declared.classify(plan.dialect, plan.kind, &keys), false).await?;
    if rows.first().and_then(|row| cell(row, 1)) == Some("1") {
        found
            .refusals
            .push("set: it leaves the guard true: an order would be closed again and again".to_owned());
    }
    try_audit(plan, &keys, session, found).await
}

/// Writes an audit row and looks for one, on trial as well: to prepare a statement shows no missing right in PostgreSQL.
async fn try_audit(
    plan: &Plan,
    keys: &[&str],
    session: &mut Session,
    found: &mut Found,
) -> std::result::Result<(), Failure> {
    let Some(lease) = sample(plan.kind) else { return Ok(()) };
    let inserts = plan.audit_inserts(&[Order { place: 0, lease: &lease }]);
    for query in inserts.into_iter().chain(plan.audit_lookup(keys)) {
        match session.rows(query, plan.named).await {
            Ok(_) => {}
            // Another worker that starts at the same time tries the same row.
            Err(failure) if failure.may_pass() => return Err(failure.during("audit: using it on trial")),
            Err(failure) => {
                found.refusals.push(format!("audit: using it on trial failed: {}", failure.reason()));
                return Ok(());
            }
        }
    }
    Ok(())
}
