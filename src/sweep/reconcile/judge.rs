//! Whether what the wheel and the table say of one order agrees. No I/O.

use std::time::Duration;

use super::{Class, ReconcileSettings};
use crate::clock::Moment;
use crate::deadline::{Generation, Outcome, State};
use crate::hook::sql::pages::facts::Fact;
use crate::wheel::answer::{Ended, Entry, Inspection};

/// What the wheel says of an order.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub state: State,
    pub generation: Option<Generation>,
    pub due_at: Option<Moment>,
    pub losses: u32,
    /// Kept from firing for a while: a payment is under way.
    pub held: bool,
    pub lease_ends_at: Option<Moment>,
    pub reason: Option<String>,
    pub ended: Option<(Outcome, Moment)>,
    /// Redis's clock at that moment.
    pub now: Moment,
}

impl Seen {
    /// A scheduled, leased or dead entry of a page.
    pub fn of_entry(state: State, at: Moment, entry: &Entry, now: Moment) -> Self {
        Self {
            state,
            generation: Some(entry.generation),
            due_at: Some(entry.due_at),
            losses: entry.losses,
            held: is_held(entry, now),
            lease_ends_at: (state == State::Leased).then_some(at),
            reason: None,
            ended: None,
            now,
        }
    }

    /// Everything that is known of one id.
    pub fn of_inspection(seen: &Inspection) -> Self {
        let ended = |ended: &Ended| (ended.outcome, ended.ended_at);
        Self {
            state: seen.state,
            generation: seen.entry.as_ref().map(|entry| entry.generation),
            due_at: seen.entry.as_ref().map(|entry| entry.due_at),
            losses: seen.entry.as_ref().map_or(0, |entry| entry.losses),
            held: seen.entry.as_ref().is_some_and(|entry| is_held(entry, seen.now)),
            lease_ends_at: seen.lease_ends_at(),
            reason: seen.death.as_ref().map(|(_, reason)| reason.clone()),
            ended: seen.ended.as_ref().filter(|_| seen.state == State::Ended).map(ended),
            now: seen.now,
        }
    }

    /// Whether nothing has become of the order between two looks.
    pub fn stood_still(&self, later: &Self) -> bool {
        self.state == later.state && self.generation == later.generation && self.ended == later.ended
    }

    /// In words.
    pub fn text(&self) -> String {
        let mut text = self.state.as_str().to_owned();
        if let (Some(due_at), State::Scheduled) = (self.due_at, self.state) {
            text.push_str(&format!(", due {due_at}"));
        }
        if self.held {
            text.push_str(", held");
        }
        if let Some(ends_at) = self.lease_ends_at {
            text.push_str(&format!(", until {ends_at}"));
        }
        if self.losses > 0 {
            text.push_str(&format!(", lost {} times", self.losses));
        }
        if let Some(reason) = &self.reason {
            text.push_str(&format!(": {reason}"));
        }
        if let Some((outcome, at)) = self.ended {
            text.push_str(&format!(" {}, {at}", outcome.as_str()));
        }
        text
    }
}

/// What the table says, in words.
pub fn fact_text(fact: Option<&Fact>) -> String {
    let Some(fact) = fact else { return "no such row".to_owned() };
    if !fact.open {
        return fact.state.clone().unwrap_or_else(|| "not open".to_owned());
    }
    match fact.close_at {
        Some(at) if fact.overdue => format!("open, overdue since {at}"),
        Some(at) => format!("open, closes {at}"),
        None if fact.overdue => "open, overdue".to_owned(),
        None => "open".to_owned(),
    }
}

/// How the two disagree; `None` where they agree.
pub fn judge(seen: &Seen, fact: Option<&Fact>, settings: &ReconcileSettings) -> Option<Class> {
    let is_open = fact.is_some_and(|fact| fact.open);
    match seen.state {
        State::Absent | State::Ended if is_open => {
            let overdue = fact.is_some_and(|fact| fact.overdue);
            Some(if overdue { Class::MissingOverdue } else { Class::MissingPending })
        }
        State::Ended if closed(seen) && is_paid(fact) => Some(Class::PaidAfterClose),
        State::Absent | State::Ended => None,
        State::Dead => is_open.then_some(Class::DeadOpen),
        // Paid or closed meanwhile: that attempt will find it out.
        State::Leased => is_stuck(seen, settings).then_some(Class::StuckLease),
        State::Scheduled if !is_open => Some(Class::Orphan),
        State::Scheduled => {
            let close_at = fact.and_then(|fact| fact.close_at);
            let apart = close_at.zip(seen.due_at).map(|(table, wheel)| apart(table, wheel));
            if apart.is_some_and(|apart| apart > settings.tolerance) {
                return Some(Class::DeadlineMismatch);
            }
            is_stuck(seen, settings).then_some(Class::StuckLease)
        }
    }
}

/// Whether the wheel remembers that it closed the order.
pub fn closed(seen: &Seen) -> bool {
    seen.ended.is_some_and(|(outcome, _)| outcome == Outcome::Closed)
}

/// Whether the table says that it is paid.
pub fn is_paid(fact: Option<&Fact>) -> bool {
    fact.is_some_and(|fact| !fact.open && fact.state.as_deref() == Some("paid"))
}

fn is_held(entry: &Entry, now: Moment) -> bool {
    entry.hold_count > 0 && entry.next_at > entry.due_at && entry.next_at > now
}

fn is_stuck(seen: &Seen, settings: &ReconcileSettings) -> bool {
    let ran_out = seen.lease_ends_at.is_some_and(|ends_at| ends_at.plus(settings.stuck_after) < seen.now);
    ran_out || seen.losses >= settings.stuck_losses
}

fn apart(a: Moment, b: Moment) -> Duration {
    Duration::from_millis(a.as_millis().abs_diff(b.as_millis()))
}
