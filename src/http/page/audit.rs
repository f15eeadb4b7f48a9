//! The audit: what people did to this wheel, through every door, newest first.

use askama::Template;

use super::fault::{Fault, Outcome};
use super::figure::{At, count};
use super::frame::Frame;
use super::parameters::Link;
use super::visit::Visit;
use crate::deadline::Id;
use crate::operator::Act;
use crate::wheel::answer::Cursor;
use crate::wheel::{AuditEntry, AuditFilter, AuditOutcome};

/// Acts on a page.
const ROWS: usize = 50;
/// Ids of one act that are named; the others are counted.
const NAMED: usize = 5;

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    frame: Frame,
    id: String,
    act: String,
    acts: Vec<&'static str>,
    complaints: Vec<String>,
    rows: Vec<Row>,
    /// Whether this page is the newest.
    first: bool,
    newest: Link,
    older: Option<Link>,
}

struct Row {
    at: At,
    entry: AuditEntry,
    ids: Vec<(String, String)>,
    /// How many ids are not named here.
    more: String,
    many: String,
    good: bool,
    bad: bool,
}

/// `GET /audit`.
pub(super) async fn show(visit: Visit) -> Outcome {
    let frame = visit.frame("Audit");
    let mut complaints = Vec::new();
    let id = visit.query.exact("id").to_owned();
    let wanted = (!id.is_empty()).then(|| Id::new(&id));
    let wanted = wanted.transpose().map_err(|e| complaints.push(e.to_string())).unwrap_or_default();
    let words: Vec<&'static str> = [vec![""], Act::words()].concat();
    let act = visit.query.word("act", &words, &mut complaints);
    let filter = AuditFilter { id: wanted, act: (!act.is_empty()).then(|| act.to_owned()), or_bulk: false };
    let cursor = visit.query.text("cursor");
    let cursor = (!cursor.is_empty()).then(|| Cursor(cursor.to_owned()));
    let page = visit.wheel().audit(&filter, cursor.as_ref(), ROWS).await.map_err(Fault::from)?;
    let newest = Link::to(frame.at("/audit")).with("id", &id).with("act", act);
    let older = page.next.map(|next| newest.clone().with("cursor", &next.0));
    let row = |entry: AuditEntry| {
        let named = entry.ids.iter().take(NAMED);
        Row {
            at: At::millis(entry.at_ms),
            ids: named
                .map(|id| (id.clone(), Link::to(frame.at("/deadline")).with("id", id).to_string()))
                .collect(),
            more: if entry.ids.len() > NAMED {
                count((entry.ids.len() - NAMED) as u64)
            } else {
                String::new()
            },
            many: if entry.done == entry.asked {
                count(entry.done)
            } else {
                format!("{} of {}", count(entry.done), count(entry.asked))
            },
            good: entry.outcome == AuditOutcome::Done,
            bad: matches!(entry.outcome, AuditOutcome::Failed | AuditOutcome::Unknown | AuditOutcome::Begun),
            entry,
        }
    };
    let rows = page.entries.into_iter().map(row).collect();
    let page = Page {
        rows,
        id,
        act: act.to_owned(),
        acts: words,
        complaints,
        first: cursor.is_none(),
        newest,
        older,
        frame,
    };
    visit.page(&page)
}
