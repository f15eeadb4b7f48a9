//! One order's story: what the wheel, the orders table, the audit table and the events tell of it, in order of time, and in plain words why
//! it is not closed yet or never will be.

mod shape;

use std::sync::Arc;
use std::time::Duration;

use super::inquiry::Inquiry;
use crate::clock::{Moment, distance, show_span};
use crate::deadline::{Cause, Id, Outcome, State};
use crate::error::{Result, escaped};
use crate::hook::sql::pages::facts::Fact;
use crate::hook::sql::pages::trail::Trail;
use crate::wheel::{AuditEntry, AuditFilter, AuditOutcome, Holder, Survey, Wheel};

/// The latest acts of people that are told.
const ACTS: usize = 50;

/// Who tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The deadline, as it is stored.
    Wheel,
    /// The stream of events.
    Events,
    /// The operators' audit: what people did to it.
    People,
    /// The shop's orders table.
    Table,
    /// The audit table.
    Audit,
}

impl Source {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wheel => "wheel",
            Self::Events => "events",
            Self::People => "people",
            Self::Table => "table",
            Self::Audit => "audit",
        }
    }
}

/// Something that happened, or is to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// When.
    pub at: Moment,
    /// Who tells it.
    pub source: Source,
    /// What, for people; text of others in it is escaped.
    pub what: String,
}

/// What the shop's database says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Table {
    /// No orders table is declared: the hook is not SQL, or a procedure.
    Undeclared,
    /// It could not be asked.
    Away(String),
    /// The row as it stands, if there is one, and what the audit table says.
    Asked(Option<Fact>, Vec<Trail>),
}

/// Everything known of one order.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// What the wheel knows of it.
    pub survey: Survey,
    /// The latest acts of people that name it, or were about all that fit a filter.
    pub acts: Vec<AuditEntry>,
    /// What the shop's database says.
    pub table: Table,
}

impl Explanation {
    /// Asks the wheel, and the table that the hook declares. Fails where Redis does; a database that is away is part of the story.
    pub async fn of(wheel: &Wheel, table: Option<&Arc<Inquiry>>, id: &Id) -> Result<Self> {
        let survey = wheel.survey(id).await?;
        // An extra, like the stream of events.
        let about_it = AuditFilter { id: Some(id.clone()), or_bulk: true, act: None };
        let acts = wheel.audit(&about_it, None, ACTS).await.map(|page| page.entries).unwrap_or_default();
        let table = match table {
            None => Table::Undeclared,
            Some(table) => table.ask(id).await,
        };
        Ok(Self { survey, acts, table })
    }

    /// Whether anybody knows anything of it.
    pub fn is_known(&self) -> bool {
        let in_table =
            matches!(&self.table, Table::Asked(fact, trail) if fact.is_some() || !trail.is_empty());
        self.survey.seen.state != State::Absent || !self.survey.events.is_empty() || in_table
    }

    /// What happened and what is to come, by time.
    pub fn timeline(&self) -> Vec<Told> {
        let (seen, mut told) = (&self.survey.seen, Vec::new());
        // When something was done to it.
        let mut moments: Vec<Moment> = Vec::new();
        let mut tell = |at, source, what: String| told.push(Told { at, source, what });
        if let Some(entry) = &seen.entry {
            let placed = Moment::EPOCH.plus(Duration::from_micros(entry.generation.0));
            moments.push(placed);
            let trace = entry.traceparent.as_ref().map(|trace| format!(", trace {}", escaped(trace)));
            tell(
                placed,
                Source::Wheel,
                format!("placed (generation {}{})", entry.generation, trace.unwrap_or_default()),
            );
            tell(entry.due_at, Source::Wheel, due(entry.cause));
            if entry.next_at != entry.due_at {
                tell(entry.next_at, Source::Wheel, self.next(entry));
            }
        }
        for failure in &seen.failures {
            let Some(at) = failure.at else { continue };
            let why = if failure.reason.is_empty() { "no reason given" } else { &failure.reason };
            tell(at, Source::Wheel, format!("attempt {} failed: {}", failure.attempt, escaped(why)));
        }
        if let Some(Holder { worker, claim, lost }) = self.survey.holder() {
            let by = format!("claimed by worker {}, fence {}", worker.named(), claim.fence);
            tell(claim.claimed_at(), Source::Wheel, by);
            if let Some(at) = lost {
                tell(at, Source::Wheel, "that worker was heard of for the last time".to_owned());
            }
        }
        if let Some(at) = seen.lease_ends_at() {
            tell(at, Source::Wheel, "the lease of the worker that has it ends".to_owned());
        }
        if let Some((at, reason)) = &seen.death {
            tell(*at, Source::Wheel, format!("put aside as dead: {}", escaped(reason)));
        }
        if let Some(ended) = &seen.ended {
            let what = match ended.fence.0 {
                0 => format!("{}, without an attempt", ended.outcome.as_str()),
                fence => format!("{} by attempt {}, fence {fence}", ended.outcome.as_str(), ended.attempt),
            };
            tell(ended.ended_at, Source::Wheel, what);
            if seen.entry.is_none() {
                tell(ended.due_at, Source::Wheel, due(ended.cause));
            }
        }
        for event in &self.survey.events {
            let at = Moment::EPOCH.plus(Duration::from_millis(event.at_ms));
            moments.push(at);
            tell(at, Source::Events, escaped(&event.what));
        }
        for act in &self.acts {
            let began = Moment::EPOCH.plus(Duration::from_millis(act.began_at_ms.unwrap_or(act.at_ms)));
            if !act.is_bulk() {
                tell(began, Source::People, by_hand(act));
            } else if moments.iter().any(|at| act.lasted(*at)) {
                tell(began, Source::People, format!("{}, was under way", by_hand(act)));
            }
        }
        if let Table::Asked(fact, trail) = &self.table {
            if let Some(at) = fact.as_ref().and_then(|fact| fact.close_at) {
                tell(at, Source::Table, "to be closed, says the table".to_owned());
            }
            for row in trail {
                tell(row.at, Source::Audit, audit(row));
            }
        }
        told.sort_by_key(|one| (one.at, one.source));
        told
    }

    fn next(&self, entry: &crate::wheel::answer::Entry) -> String {
        if self.survey.seen.state != State::Scheduled {
            return "fired".to_owned();
        }
        match (entry.stage.0, entry.hold_count, entry.attempts) {
            (1.., _, _) => "a reminder fires".to_owned(),
            (_, _, 1) => "tried again, after a failed attempt".to_owned(),
            (_, _, 2..) => format!("tried again, after {} failed attempts", entry.attempts),
            (_, 1.., _) => {
                format!("fires, after {} holds of {} in all", entry.hold_count, show_span(entry.hold_total))
            }
            _ if entry.due_at < self.survey.seen.now => "tried again".to_owned(),
            _ => "fires".to_owned(),
        }
    }

    /// Why it is not closed yet, or why it never will be: the wheel's view, and what the table says about it.
    pub fn why(&self) -> String {
        let wheel = self.survey.why();
        match &self.table {
            Table::Undeclared => wheel,
            Table::Away(reason) => {
                format!("{wheel}; the orders table could not be asked: {}", escaped(reason))
            }
            Table::Asked(fact, trail) => self.beside_table(wheel, fact.as_ref(), trail),
        }
    }

    fn beside_table(&self, wheel: String, fact: Option<&Fact>, trail: &[Trail]) -> String {
        let seen = &self.survey.seen;
        let Some(fact) = fact else {
            return match seen.state {
                State::Absent => "neither the wheel nor the orders table knows it".to_owned(),
                State::Scheduled | State::Leased => format!("{wheel}; the orders table has no such row"),
                _ => wheel,
            };
        };
        let state = fact.state.as_ref().map_or_else(String::new, |state| format!(" ({})", escaped(state)));
        let closed_by_us = trail.iter().any(|row| row.action.ends_with("_CLOSE"));
        let now = seen.now;
        match (seen.state, fact.open) {
            (State::Absent, true) if fact.overdue => format!(
                "the order is open{state} and overdue, and the wheel does not know it: the next sweep brings it back"
            ),
            (State::Absent, true) => {
                format!(
                    "the order is open{state}, and the wheel does not know it: it was never enqueued, or the wheel lost it; sweep or rebuild bring it"
                )
            }
            (State::Absent, false) if closed_by_us => {
                format!("it was closed{state}, says the audit table; the wheel has forgotten it")
            }
            (State::Absent, false) => {
                format!("it will never be closed: the table says that it is not open any more{state}")
            }
            (State::Ended, true) => {
                let outcome = seen.ended.as_ref().map_or("ended", |ended| match ended.outcome {
                    Outcome::Closed => "closed",
                    Outcome::Skipped => "skipped",
                    Outcome::Cancelled => "cancelled",
                });
                format!(
                    "the wheel has it as {outcome}, and yet the table says that it is open{state}: where it is overdue, the next sweep brings it back"
                )
            }
            (State::Ended, false) => format!("{wheel}; the table agrees that it is not open{state}"),
            (State::Scheduled, false) => {
                format!(
                    "{wheel}; it will be skipped, because the table says that it is not open any more{state}"
                )
            }
            (State::Scheduled, true) => match (fact.close_at, &seen.entry) {
                (Some(at), Some(entry)) if at > entry.due_at => {
                    format!("{wheel}; the table says later, and is right: {}", distance(at, now))
                }
                (Some(at), Some(entry)) if at < entry.due_at => {
                    format!(
                        "{wheel}; the table would have it closed {}: see duewheel reconcile",
                        distance(at, now)
                    )
                }
                _ => wheel,
            },
            (State::Dead, false) => format!("{wheel}; the table says that it is not open any more{state}"),
            (State::Leased | State::Dead, _) => wheel,
        }
    }
}

fn audit(row: &Trail) -> String {
    let mut text = format!("{} by attempt {}, fence {}", escaped(&row.action), row.attempt, row.fence);
    if let Some(actor) = &row.actor {
        text += &format!(", asked for by {}", escaped(actor));
    }
    if let Some(reason) = &row.reason {
        text += &format!(" ({})", escaped(reason));
    }
    if let Some(trace) = &row.trace_id {
        text += &format!(", trace {}", escaped(trace));
    }
    text + &format!(", worker {}", escaped(&row.worker))
}

/// The promise, and whose it is where it is not the caller's.
fn due(cause: Cause) -> String {
    match cause {
        Cause::Due => "due".to_owned(),
        other => format!("due, cause {}", other.as_str()),
    }
}

/// `hold by anna, page: a payment is under way`, and what came of it where that is not what was asked.
fn by_hand(act: &AuditEntry) -> String {
    let mut text = format!("{} by {}", escaped(&act.act), escaped(&act.by));
    if let Some(door) = &act.door {
        text += &format!(", {}", escaped(door));
    }
    if let Some(about) = &act.about {
        text += &format!(", {}", escaped(about));
    }
    if act.asked > 1 {
        text += &format!(", with {} others", act.asked - 1);
    }
    if !act.reason.is_empty() {
        text += &format!(": {}", escaped(&act.reason));
    }
    if act.outcome != AuditOutcome::Done {
        text += &format!(" ({}", act.outcome.as_str());
        if let Some(said) = &act.said {
            text += &format!(", {}", escaped(said));
        }
        text += ")";
    }
    text
}
