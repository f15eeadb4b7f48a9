//! What is found out about an order, and which verdict that is. Why a row was not closed is always read, never guessed.

use std::collections::{HashMap, HashSet};

use crate::clock::Moment;
use crate::hook::Verdict;

use super::declared::Declared;
use super::failure::Failure;
use super::order::{Order, moment};
use super::plan::Plan;
use super::session::cell;
use super::session::{Cells, Session};
use super::statement::Statement;

/// What a transaction found out about one order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Finding {
    /// Closed by this transaction.
    Closed,
    /// Closed by an earlier one for the same life: our own audit row says so.
    ClosedBefore,
    /// Open and due, yet not closed: somebody else holds the row, or changed it just now.
    Busy,
    /// Nothing to close, by the shop's own word.
    Skipped(String),
    /// The table's time is later.
    NotDue(Option<Moment>),
    /// No such row.
    Gone,
    /// More than one row of that key.
    Rejected(String),
    /// The row does not say when it is due, or a procedure answered nonsense.
    Failed(String),
    /// A procedure asks for another time.
    Unavailable(String),
}

impl Finding {
    /// The verdict for the worker.
    pub(super) fn into_verdict(self, looked_for: &str) -> Verdict {
        match self {
            Self::Closed | Self::ClosedBefore => Verdict::Closed,
            Self::Busy => Verdict::Held { reason: "the row is held by another session".to_owned() },
            Self::Skipped(state) => Verdict::Skipped { state },
            Self::NotDue(until) => Verdict::NotDue { until },
            Self::Gone => Verdict::Gone { reason: looked_for.to_owned() },
            Self::Rejected(reason) => Verdict::Rejected { reason },
            Self::Failed(reason) => Verdict::Failed { reason },
            Self::Unavailable(reason) => Verdict::Unavailable { reason, retry_after: None },
        }
    }
}

/// Reads the rows of orders that were not closed.
pub(super) async fn of_rows(
    session: &mut Session,
    plan: &Plan,
    declared: &Declared,
    orders: &[Order<'_>],
    manual: bool,
) -> Result<Vec<Finding>, Failure> {
    let keys: Vec<&str> = orders.iter().map(|o| o.key()).collect();
    let query = declared.classify(plan.dialect, plan.kind, &keys);
    let rows = session.rows(query, plan.named).await.map_err(|f| f.during("reading the state"))?;
    let mut by_key: HashMap<&str, Vec<&Cells>> = HashMap::with_capacity(rows.len());
    for row in &rows {
        by_key.entry(cell(row, 0).unwrap_or_default()).or_default().push(row);
    }
    let mut findings: Vec<Finding> = keys
        .iter()
        .map(|key| match by_key.get(key).map(Vec::as_slice) {
            None | Some([]) => Finding::Gone,
            Some([row]) => of_row(row, manual),
            Some(many) => Finding::Rejected(format!("matched {} rows", many.len())),
        })
        .collect();
    // What is not open any more may have been closed by us, in a transaction whose answer was lost.
    let ended: Vec<Order<'_>> = orders
        .iter()
        .zip(&findings)
        .filter(|(_, f)| matches!(f, Finding::Skipped(_) | Finding::Gone))
        .map(|(order, _)| *order)
        .collect();
    if !ended.is_empty() {
        let ours = audited(session, plan, &ended).await?;
        for (order, finding) in orders.iter().zip(&mut findings) {
            if ours.contains(&order.place) {
                *finding = Finding::ClosedBefore;
            }
        }
    }
    Ok(findings)
}

fn of_row(row: &Cells, manual: bool) -> Finding {
    let is = |column| cell(row, column) == Some("1");
    let (open, due, timeless) = (is(1), is(2), is(3));
    if !open {
        Finding::Skipped(cell(row, 5).unwrap_or("unknown").to_owned())
    } else if manual || due {
        Finding::Busy
    } else if timeless {
        Finding::Failed("close_at is null: the row does not say when it is due".to_owned())
    } else {
        Finding::NotDue(cell(row, 4).and_then(moment))
    }
}

/// What the audit table alone says, where the orders' rows are the procedure's business.
pub(super) async fn of_audit(
    session: &mut Session,
    plan: &Plan,
    orders: &[Order<'_>],
) -> Result<Vec<Finding>, Failure> {
    let ours = audited(session, plan, orders).await?;
    let finding = |order: &Order<'_>| {
        if ours.contains(&order.place) {
            Finding::ClosedBefore
        } else {
            Finding::Unavailable("the commit was not answered; it is asked again".to_owned())
        }
    };
    Ok(orders.iter().map(finding).collect())
}

/// The places of the orders for which an audit row of the same life says that it was done before.
pub(super) async fn audited(
    session: &mut Session,
    plan: &Plan,
    orders: &[Order<'_>],
) -> Result<HashSet<usize>, Failure> {
    let keys: Vec<&str> = orders.iter().map(|o| o.key()).collect();
    let Some(query) = plan.audit_lookup(&keys) else { return Ok(HashSet::new()) };
    let rows = session.rows(query, plan.named).await.map_err(|f| f.during("reading the audit"))?;
    let read = |row: &Cells| {
        let text = |column| cell(row, column).unwrap_or_default().to_owned();
        (text(0), text(1), text(2))
    };
    let known: HashSet<(String, String, String)> = rows.iter().map(read).collect();
    let is_ours = |order: &&Order<'_>| {
        let of = |action: &str| {
            known.contains(&(order.key().to_owned(), order.generation().to_string(), action.to_owned()))
        };
        order.actions().into_iter().any(of)
    };
    Ok(orders.iter().filter(is_ours).map(|o| o.place).collect())
}

/// Calls the shop's procedure and reads its words: rows of id, word, detail for the whole batch, of word, detail for one order.
pub(super) async fn of_call(
    session: &mut Session,
    plan: &Plan,
    call: &Statement,
    orders: &[Order<'_>],
) -> Result<Vec<Finding>, Failure> {
    let context = plan.context(None);
    if call.per_batch {
        let rows = session.rows(call.bound(plan.dialect, context, orders), plan.named);
        let rows = rows.await.map_err(|f| f.during("call"))?;
        let by_key: HashMap<&str, &Cells> =
            rows.iter().map(|row| (cell(row, 0).unwrap_or_default(), row)).collect();
        let finding = |order: &Order<'_>| match by_key.get(order.key()) {
            Some(row) => of_word(cell(row, 1), cell(row, 2)),
            None => Finding::Failed("call: answered no row for this order".to_owned()),
        };
        return Ok(orders.iter().map(finding).collect());
    }
    let mut findings = Vec::with_capacity(orders.len());
    for order in orders {
        let rows = session.rows(call.bound(plan.dialect, context, std::slice::from_ref(order)), plan.named);
        let rows = rows.await.map_err(|f| f.during("call"))?;
        findings.push(match rows.first() {
            Some(row) => of_word(cell(row, 0), cell(row, 1)),
            None => Finding::Failed("call: answered no row".to_owned()),
        });
    }
    Ok(findings)
}

/// The words of a procedure. The detail is the state, the reason, or the close time in milliseconds since 1970.
fn of_word(word: Option<&str>, detail: Option<&str>) -> Finding {
    let detail_or = |default: &str| detail.unwrap_or(default).to_owned();
    match word.unwrap_or("null") {
        "closed" => Finding::Closed,
        "skipped" => Finding::Skipped(detail_or("not open")),
        "not_due" => Finding::NotDue(detail.and_then(moment)),
        "unavailable" => Finding::Unavailable(detail_or("the procedure asks for another time")),
        "failed" => Finding::Failed(detail_or("the procedure failed")),
        "rejected" => Finding::Rejected(detail_or("the procedure refuses to close it")),
        "gone" => Finding::Gone,
        other => Finding::Failed(format!(
            "call: answered \"{}\", expected closed, skipped, not_due, unavailable, failed, rejected or gone",
            crate::error::shown(other)
        )),
    }
}
