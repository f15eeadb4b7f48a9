//! One order's story: what the wheel, the orders table, the audit table and the events tell of it, in order of time, and in plain words why
//! it is not closed yet or never will be.

mod shape;

use std::time::Duration;

use crate::clock::{Moment, distance, show_span};
use crate::deadline::{Id, Outcome, State};
use crate::error::{Result, escaped};
use crate::hook::sql::SqlSettings;
use crate::hook::sql::pages::facts::Fact;
use crate::hook::sql::pages::trail::Trail;
use crate::hook::sql::pages::{OrdersTable, TableSettings};
use crate::wheel::answer::Inspection;
use crate::wheel::{Event, Survey, Wheel, WorkerRecord};

/// Who tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The deadline, as it is stored.
    Wheel,
    /// The stream of events.
    Events,
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
    /// The deadline.
    pub seen: Inspection,
    /// The workers of the wheel, where one is waited for and they are known.
    pub workers: Option<Vec<WorkerRecord>>,
    /// What the stream of events tells.
    pub events: Vec<Event>,
    /// What the shop's database says.
    pub table: Table,
}

impl Explanation {
    /// Asks the wheel, and the table that the hook declares. Fails where Redis does; a database that is away is part of the story.
    pub async fn of(wheel: &Wheel, hook: Option<&SqlSettings>, id: &Id) -> Result<Self> {
        let Survey { seen, workers, events } = wheel.survey(id).await?;
        let table = match hook {
            None => Table::Undeclared,
            Some(hook) => ask(hook, id).await.unwrap_or_else(|e| Table::Away(e.to_string())),
        };
        Ok(Self { seen, workers, events, table })
    }

    /// Whether anybody knows anything of it.
    pub fn is_known(&self) -> bool {
        let in_table =
            matches!(&self.table, Table::Asked(fact, trail) if fact.is_some() || !trail.is_empty());
        self.seen.state != State::Absent || !self.events.is_empty() || in_table
    }

    /// What happened and what is to come, by time.
    pub fn timeline(&self) -> Vec<Told> {
        let mut told = Vec::new();
        let mut tell = |at, source, what: String| told.push(Told { at, source, what });
        if let Some(entry) = &self.seen.entry {
            let placed = Moment::EPOCH.plus(Duration::from_micros(entry.generation.0));
            let trace = entry.traceparent.as_ref().map(|trace| format!(", trace {}", escaped(trace)));
            tell(
                placed,
                Source::Wheel,
                format!("placed (generation {}{})", entry.generation, trace.unwrap_or_default()),
            );
            tell(entry.due_at, Source::Wheel, format!("due, cause {}", entry.cause.as_str()));
            if entry.next_at != entry.due_at {
                tell(entry.next_at, Source::Wheel, self.next(entry));
            }
        }
        if let Some(at) = self.seen.lease_ends_at {
            tell(at, Source::Wheel, "the lease of the worker that has it ends".to_owned());
        }
        if let Some((at, reason)) = &self.seen.death {
            tell(*at, Source::Wheel, format!("put aside as dead: {}", escaped(reason)));
        }
        if let Some(ended) = &self.seen.ended {
            let what = match ended.fence.0 {
                0 => format!("{}, without an attempt", ended.outcome.as_str()),
                fence => format!("{} by attempt {}, fence {fence}", ended.outcome.as_str(), ended.attempt),
            };
            tell(ended.ended_at, Source::Wheel, what);
            if self.seen.entry.is_none() {
                tell(ended.due_at, Source::Wheel, format!("due, cause {}", ended.cause.as_str()));
            }
        }
        for event in &self.events {
            tell(
                Moment::EPOCH.plus(Duration::from_millis(event.at_ms)),
                Source::Events,
                escaped(&event.what),
            );
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
        match (entry.stage.0, entry.hold_count, entry.attempts) {
            (1.., _, _) => "a reminder fires".to_owned(),
            (_, _, 1..) => format!("tried again, after {} failed attempts", entry.attempts),
            (_, 1.., _) => {
                format!("fires, after {} holds of {} in all", entry.hold_count, show_span(entry.hold_total))
            }
            _ => "fires".to_owned(),
        }
    }

    /// Why it is not closed yet, or why it never will be: the wheel's view, and what the table says about it.
    pub fn why(&self) -> String {
        let wheel = self.seen.why(self.workers.as_deref());
        match &self.table {
            Table::Undeclared => wheel,
            Table::Away(reason) => {
                format!("{wheel}; the orders table could not be asked: {}", escaped(reason))
            }
            Table::Asked(fact, trail) => self.beside_table(wheel, fact.as_ref(), trail),
        }
    }

    fn beside_table(&self, wheel: String, fact: Option<&Fact>, trail: &[Trail]) -> String {
        let Some(fact) = fact else {
            return match self.seen.state {
                State::Absent => "neither the wheel nor the orders table knows it".to_owned(),
                State::Scheduled | State::Leased => format!("{wheel}; the orders table has no such row"),
                _ => wheel,
            };
        };
        let state = fact.state.as_ref().map_or_else(String::new, |state| format!(" ({})", escaped(state)));
        let closed_by_us = trail.iter().any(|row| row.action.ends_with("_CLOSE"));
        let now = self.seen.now;
        match (self.seen.state, fact.open) {
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
                let outcome = self.seen.ended.as_ref().map_or("ended", |ended| match ended.outcome {
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
            (State::Scheduled, true) => match (fact.close_at, &self.seen.entry) {
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

/// A table that cannot be read this way (its orders are routed by a payload that only feed and sweep know) fails like one that is away.
async fn ask(hook: &SqlSettings, id: &Id) -> Result<Table> {
    let table = OrdersTable::new(hook, &TableSettings::of(hook))?;
    let mut facts = table.facts(&[id.as_str()], true).await?;
    Ok(Table::Asked(facts.remove(id.as_str()), table.trail(id.as_str()).await?))
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
