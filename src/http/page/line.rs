//! A deadline as one line of a table.

use super::figure::{At, count};
use super::parameters::Link;
use crate::clock::Moment;
use crate::deadline::{Stage, State};
use crate::error::escaped;
use crate::wheel::answer::{Inspection, Row};

/// The longest reason in a line, in characters; its own page has the rest.
const LONGEST_REASON: usize = 160;

/// One line.
pub(super) struct Line {
    /// The id as it is: what a form sends.
    pub id: String,
    /// The id as it may be shown: what a person could not see is written out.
    pub shown: String,
    pub href: String,
    /// What it is, and the class of that.
    pub state: &'static str,
    pub tone: &'static str,
    /// When it fires, died, ended, or its lease ends.
    pub at: Option<At>,
    /// When it was promised to be closed, where that is another moment.
    pub due: Option<At>,
    pub attempts: String,
    pub note: String,
    /// Whether it can be picked: what is no id of ours cannot be named.
    pub is_ours: bool,
}

impl Line {
    pub fn of(row: Row, page: &str, now: Moment) -> Self {
        match row {
            Row::Live { state, at, entry, reason } => {
                let is_due = state == State::Scheduled && at <= now;
                let (word, tone) = match state {
                    State::Dead => ("dead", "bad"),
                    State::Leased => ("leased", "good"),
                    _ if is_due => ("due", "warn"),
                    _ if entry.stage != Stage::CLOSE => ("reminder", ""),
                    _ if entry.attempts > 0 => ("retrying", "warn"),
                    _ if entry.hold_count > 0 && entry.next_at > entry.due_at => ("held", ""),
                    _ => ("scheduled", ""),
                };
                let note = match (reason, &entry.note, entry.cancelled) {
                    (Some(reason), _, _) => cut(&reason),
                    (None, Some(note), _) => cut(&format!("by hand, {}: {}", note.actor, note.reason)),
                    (None, None, true) => "cancelled meanwhile".to_owned(),
                    (None, None, false) if entry.cause.as_str() == "due" => String::new(),
                    (None, None, false) => entry.cause.as_str().to_owned(),
                };
                let differs = at != entry.due_at || state != State::Scheduled;
                Self {
                    at: Some(At::seen(at, now)),
                    due: differs.then(|| At::of(entry.due_at)),
                    attempts: if entry.attempts == 0 { String::new() } else { count(entry.attempts.into()) },
                    note,
                    ..Self::named(entry.id.as_str(), page, word, tone)
                }
            }
            Row::Ended { id, ended } => {
                let tone = if ended.outcome.as_str() == "closed" { "good" } else { "" };
                Self {
                    at: Some(At::seen(ended.ended_at, now)),
                    due: Some(At::of(ended.due_at)),
                    attempts: if ended.attempt == 0 { String::new() } else { count(ended.attempt.into()) },
                    note: ended.cause.as_str().to_owned(),
                    ..Self::named(id.as_str(), page, ended.outcome.as_str(), tone)
                }
            }
            Row::Foreign { id, state, reason } => {
                Self { note: cut(&reason), is_ours: false, ..Self::named(&id, page, state.as_str(), "bad") }
            }
        }
    }

    /// Of what one look at it has seen; `None` where nothing is known of it.
    pub fn inspected(id: &str, seen: Inspection, page: &str) -> Option<Self> {
        let now = seen.now;
        let reason = seen.death.as_ref().map(|(_, reason)| reason.clone());
        let reason = reason.or(seen.failure().map(str::to_owned));
        let ends_at = seen.lease_ends_at();
        let died_at = seen.death.map(|(at, _)| at);
        match (seen.entry, seen.ended) {
            (Some(entry), _) => {
                let at = ends_at.or(died_at).unwrap_or(entry.next_at);
                Some(Self::of(Row::Live { state: seen.state, at, entry: Box::new(entry), reason }, page, now))
            }
            (None, Some(ended)) => {
                let id = crate::deadline::Id::new(id).ok()?;
                Some(Self::of(Row::Ended { id, ended }, page, now))
            }
            (None, None) => None,
        }
    }

    fn named(id: &str, page: &str, state: &'static str, tone: &'static str) -> Self {
        Self {
            id: id.to_owned(),
            shown: escaped(id),
            href: Link::to(page).with("id", id).to_string(),
            state,
            tone,
            at: None,
            due: None,
            attempts: String::new(),
            note: String::new(),
            is_ours: true,
        }
    }
}

/// Text of others for one line.
pub(super) fn cut(text: &str) -> String {
    let mut out: String = escaped(text).chars().take(LONGEST_REASON + 1).collect();
    if out.chars().count() > LONGEST_REASON {
        out.pop();
        out.push('…');
    }
    out
}
