//! One transaction: closes what may be closed, runs what follows a close, writes the audit rows, reads why the rest stayed open.

use std::collections::HashMap;

use super::database::Database;
use super::declared::Declared;
use super::dialect::Dialect;
use super::failure::Failure;
use super::key;
use super::order::Order;
use super::placeholder::Context;
use super::plan::{Form, Plan};
use super::query::Query;
use super::session::{Cells, Session, cell};
use super::statement::Statement;
use super::verdict::{self, Finding};
use crate::trace::{self, Traceparent};

/// How one transaction is run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// A person closes: the table's own time is not asked.
    pub(super) manual: bool,
    /// Wait for a row that somebody else holds, instead of passing over it.
    pub(super) patient: bool,
    /// Wait for no lock for long: the batch is being cut into pieces.
    pub(super) hurried: bool,
    /// Remind of what is open, and close nothing.
    pub(super) reminds: bool,
}

/// A transaction on its way. It lives outside the future that drives it, so that whoever gives up waiting knows how far it came.
pub(super) struct Transaction<'a> {
    pub(super) plan: &'a Plan,
    pub(super) database: &'a Database,
    pub(super) session: &'a mut Session,
    /// Set right before the commit is sent: from here on no answer means that nobody knows.
    pub(super) committing: &'a mut bool,
}

/// What is known of the orders, one finding each, in their order; and whether the session is at rest again.
pub(super) type Outcome = Result<Vec<Finding>, Failure>;

impl Transaction<'_> {
    /// Runs the whole transaction. On a failure it is rolled back where the session still answers; the second value says whether the
    /// session may be used again.
    pub(super) async fn run(&mut self, orders: &[Order<'_>], manner: Manner) -> (Outcome, bool) {
        if let Err(failure) = self.database.begin(self.session, manner.hurried).await {
            return (Err(failure), false);
        }
        let worked = match self.work(orders, manner).await {
            Ok(findings) if findings.contains(&Finding::Closed) => {
                *self.committing = true;
                match self.session.raw("COMMIT").await {
                    Ok(()) => return (Ok(findings), self.rested(manner).await),
                    Err(failure) => Err(commit_failure(failure)),
                }
            }
            // Nothing was changed: there is nothing to commit, and no disk to wait for.
            other => other,
        };
        let lost = matches!(worked, Err(Failure::Lost(_) | Failure::Unknown(_)));
        let at_rest = !lost && self.session.raw("ROLLBACK").await.is_ok() && self.rested(manner).await;
        // Statements that the server has forgotten are still remembered here: a session that was asked again starts afresh.
        let forgetful =
            matches!(worked, Err(Failure::Again(_))) && self.session.dialect() == Dialect::Postgres;
        (worked, at_rest && !forgetful)
    }

    /// Whether the session is fit for the next transaction, which may not be in a hurry.
    async fn rested(&mut self, manner: Manner) -> bool {
        !manner.hurried || self.database.calm(self.session).await.is_ok()
    }

    async fn work(&mut self, orders: &[Order<'_>], manner: Manner) -> Outcome {
        if let (Form::Declared(declared), true) = (&self.plan.form, manner.reminds) {
            return self.remind(declared, orders, manner).await;
        }
        let (mut findings, now) = match &self.plan.form {
            Form::Declared(declared) => self.declared(declared, orders, manner).await?,
            Form::Call(call) => (verdict::of_call(self.session, self.plan, call, orders).await?, None),
        };
        let mut closed: Vec<Order<'_>> = orders
            .iter()
            .zip(&findings)
            .filter(|(_, finding)| **finding == Finding::Closed)
            .map(|(order, _)| *order)
            .collect();
        // What runs once an order runs in the order of the keys, so that two transactions meet at their first common row.
        closed.sort_by(|a, b| key::compare(self.plan.kind, a.key(), b.key()));
        if !closed.is_empty() {
            self.follow(&closed, now.as_deref()).await?;
            self.ensure(&closed, now.as_deref()).await?;
        }
        if let (Form::Declared(declared), true) = (&self.plan.form, closed.len() < orders.len()) {
            let rest: Vec<Order<'_>> = orders
                .iter()
                .zip(&findings)
                .filter(|(_, finding)| **finding != Finding::Closed)
                .map(|(order, _)| *order)
                .collect();
            let read = verdict::of_rows(self.session, self.plan, declared, &rest, manner.manual).await?;
            let mut read = read.into_iter();
            for finding in findings.iter_mut().filter(|f| **f != Finding::Closed) {
                *finding = read.next().unwrap_or(Finding::Busy);
            }
        }
        Ok(findings)
    }

    /// Closes by the declared statement; *closed* where it did, *busy* for the rest until it is read.
    async fn declared(
        &mut self,
        declared: &Declared,
        orders: &[Order<'_>],
        manner: Manner,
    ) -> Result<(Vec<Finding>, Option<String>), Failure> {
        let (kind, named) = (self.plan.kind, self.plan.named);
        let keys: Vec<&str> = orders.iter().map(|o| o.key()).collect();
        let rows = if self.plan.dialect == Dialect::Mysql {
            // Its UPDATE returns no keys: the rows are locked first, and then exactly those are closed.
            let lock = declared.lock(kind, &keys, manner.manual, manner.patient);
            let locked = self.session.rows(lock, named).await?;
            let hit = matched(&keys, &locked)?;
            if !hit.is_empty() {
                let now = locked.first().and_then(|row| cell(row, 1));
                let update = declared.update(kind, &hit, manner.manual, now);
                let (update, named) = self.traced(update, orders);
                let affected = self.session.run(update, named).await.map_err(|f| f.during("close"))?;
                if affected != hit.len() as u64 {
                    return Err(Failure::Mismatch(format!("locked {} rows, matched {affected}", hit.len())));
                }
            }
            locked
        } else {
            let close = declared.close(self.plan.dialect, kind, &keys, manner.manual, manner.patient);
            let (close, named) = self.traced(close, orders);
            self.session.rows(close, named).await.map_err(|f| f.during("close"))?
        };
        let hit = matched(&keys, &rows)?;
        if rows.iter().any(|row| matches!(cell(row, 2), Some("true" | "1"))) {
            return Err(Failure::Unavailable(
                "set leaves the guard true: the order would be closed again and again".to_owned(),
            ));
        }
        let hit: std::collections::HashSet<&str> = hit.into_iter().collect();
        let finding = |key: &&str| if hit.contains(key) { Finding::Closed } else { Finding::Busy };
        let findings = keys.iter().map(finding).collect();
        // PostgreSQL has a time of the whole transaction; elsewhere the close's own time is handed on.
        let now = match self.plan.dialect {
            Dialect::Postgres => None,
            Dialect::Mysql | Dialect::Sqlite => rows.first().and_then(|row| cell(row, 1)).map(str::to_owned),
        };
        Ok((findings, now))
    }

    /// The closing statement with its trace, where that is asked for, and whether it is kept prepared: not with a text that never comes
    /// again. Where the call has no trace of its own, only a statement for a single order has one.
    fn traced(&self, mut query: Query, orders: &[Order<'_>]) -> (Query, bool) {
        let enqueued = match orders {
            [order] => order.lease.traceparent.as_deref(),
            _ => None,
        };
        let traceparent = if self.plan.trace_comment { trace::outgoing(enqueued) } else { None };
        match traceparent.as_deref().and_then(Traceparent::parse) {
            Some(traceparent) => {
                query.trace(&traceparent);
                (query, false)
            }
            None => (query, self.plan.named),
        }
    }

    /// What belongs to a close: the audit rows, the shop's statements.
    async fn follow(&mut self, closed: &[Order<'_>], now: Option<&str>) -> Result<(), Failure> {
        let context = self.plan.context(now);
        // The audit rows first: they are nobody else's, while stock rows are shared, and what is shared is locked as late as may be.
        for insert in self.plan.audit_inserts(closed) {
            self.session.run(insert, self.plan.named).await.map_err(|f| f.during("audit"))?;
        }
        for statement in &self.plan.then {
            self.each(statement, closed, context).await?;
        }
        Ok(())
    }

    /// Reminds of the orders that are open: the row is locked, so that nobody pays between the look and the reminder.
    async fn remind(&mut self, declared: &Declared, orders: &[Order<'_>], manner: Manner) -> Outcome {
        let before = verdict::audited(self.session, self.plan, orders).await?;
        let asked: Vec<Order<'_>> = orders.iter().filter(|o| !before.contains(&o.place)).copied().collect();
        let keys: Vec<&str> = asked.iter().map(|order| order.key()).collect();
        let query = declared.open(self.plan.dialect, self.plan.kind, &keys, manner.patient);
        let rows = self.session.rows(query, self.plan.named).await.map_err(|f| f.during("guard"))?;
        let hit: std::collections::HashSet<&str> = matched(&keys, &rows)?.into_iter().collect();
        let (open, rest): (Vec<_>, Vec<_>) = asked.iter().copied().partition(|o| hit.contains(o.key()));
        if !open.is_empty() {
            let now = match self.plan.dialect {
                Dialect::Postgres => None,
                Dialect::Mysql | Dialect::Sqlite => rows.first().and_then(|row| cell(row, 1)),
            };
            for insert in self.plan.audit_inserts(&open) {
                self.session.run(insert, self.plan.named).await.map_err(|f| f.during("audit"))?;
            }
            for statement in &self.plan.remind {
                self.each(statement, &open, self.plan.context(now)).await?;
            }
        }
        // A person's manner: when it is due says nothing about who is to be reminded.
        let read = verdict::of_rows(self.session, self.plan, declared, &rest, true).await?;
        let mut read = read.into_iter();
        let finding = |order: &Order<'_>| {
            if before.contains(&order.place) {
                Finding::ClosedBefore
            } else if hit.contains(order.key()) {
                Finding::Closed
            } else {
                read.next().unwrap_or(Finding::Busy)
            }
        };
        Ok(orders.iter().map(finding).collect())
    }

    /// Runs a statement for all orders at once, or for each alone.
    async fn each(
        &mut self,
        statement: &Statement,
        orders: &[Order<'_>],
        context: Context<'_>,
    ) -> Result<(), Failure> {
        for orders in portions(statement.per_batch, orders) {
            let query = statement.bound(self.plan.dialect, context, orders);
            self.session.run(query, self.plan.named).await.map_err(|f| f.during(&statement.field))?;
        }
        Ok(())
    }

    /// The shop's own conditions after a close.
    async fn ensure(&mut self, closed: &[Order<'_>], now: Option<&str>) -> Result<(), Failure> {
        let context = self.plan.context(now);
        for statement in &self.plan.ensure {
            for orders in portions(statement.per_batch, closed) {
                let query = statement.bound(self.plan.dialect, context, orders);
                let rows = self.session.rows(query, self.plan.named);
                let rows = rows.await.map_err(|f| f.during(&statement.field))?;
                if let Some(row) = rows.first() {
                    let shown: Vec<&str> = row.iter().map(|c| c.as_deref().unwrap_or("null")).collect();
                    let shown = crate::error::shown(&shown.join(", "));
                    return Err(Failure::Data(format!(
                        "{}: expected no row, found {shown}",
                        statement.field
                    )));
                }
            }
        }
        Ok(())
    }
}

/// All orders at once, or each alone.
fn portions<'o, 'a>(whole: bool, orders: &'o [Order<'a>]) -> std::slice::Chunks<'o, Order<'a>> {
    orders.chunks(if whole { orders.len().max(1) } else { 1 })
}

/// The keys among `asked` that the rows are of. A row of another key, or two rows of one, and nothing may be changed: the column is
/// not the key that the configuration says it is.
fn matched<'k>(asked: &[&'k str], rows: &[Cells]) -> Result<Vec<&'k str>, Failure> {
    let mut seen: HashMap<&'k str, u32> = asked.iter().map(|key| (*key, 0)).collect();
    for row in rows {
        let found = cell(row, 0).unwrap_or_default();
        match seen.get_mut(found) {
            Some(times) => *times += 1,
            None => return Err(Failure::Mismatch(format!("matched another row, of key \"{found}\""))),
        }
    }
    if let Some((_, times)) = seen.iter().find(|(_, times)| **times > 1) {
        return Err(Failure::Mismatch(format!("matched {times} rows")));
    }
    Ok(asked.iter().copied().filter(|key| seen.get(key) == Some(&1)).collect())
}

/// What an error to COMMIT means. An answer of the server's own says that it rolled back; a broken session says nothing.
fn commit_failure(failure: Failure) -> Failure {
    match failure {
        Failure::Lost(reason) | Failure::Full(reason) | Failure::Unavailable(reason) => {
            Failure::Unknown(format!("commit: {reason}"))
        }
        other => other.during("commit"),
    }
}

/// Reads, by a session of its own, what became of orders whose commit was never answered.
pub(super) async fn resolve(
    database: &Database,
    plan: &Plan,
    session: &mut Session,
    orders: &[Order<'_>],
    (manual, reminds): (bool, bool),
) -> Outcome {
    database.begin(session, true).await?;
    let findings = match &plan.form {
        Form::Declared(_) if reminds => verdict::of_audit(session, plan, orders).await,
        Form::Declared(declared) => verdict::of_rows(session, plan, declared, orders, manual).await,
        Form::Call(_) => verdict::of_audit(session, plan, orders).await,
    };
    session.raw("ROLLBACK").await?;
    findings
}
