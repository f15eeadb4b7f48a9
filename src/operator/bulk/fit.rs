//! Whether a bulk act is about a deadline, and how it stood when that was found.

use crate::clock::Moment;
use crate::deadline::{Cause, Generation, Id, State, reason_group};
use crate::wheel::answer::{Entry, Inspection, Row};
use crate::wheel::{BulkAct, BulkFilter};

/// A deadline that a bulk act is about. What is written down of it tells later whether it was touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fit {
    pub id: Id,
    /// How it stood.
    pub mark: String,
    pub generation: Generation,
    pub due_at: Moment,
}

impl Fit {
    /// Whether a row of a listing fits, and did so before the act was asked for.
    pub fn of_row(act: BulkAct, filter: &BulkFilter, asked_at_us: u64, row: &Row) -> Option<Self> {
        match row {
            Row::Live { state, at, entry, reason } => {
                Self::of(act, filter, asked_at_us, *state, *at, entry, reason.as_deref())
            }
            _ => None,
        }
    }

    /// The same of what is known of one id.
    pub fn of_seen(act: BulkAct, filter: &BulkFilter, asked_at_us: u64, seen: &Inspection) -> Option<Self> {
        let entry = seen.entry.as_ref()?;
        let (at, reason) = match &seen.death {
            Some((at, reason)) => (*at, Some(reason.as_str())),
            None => (entry.next_at, None),
        };
        Self::of(act, filter, asked_at_us, seen.state, at, entry, reason)
    }

    fn of(
        act: BulkAct,
        filter: &BulkFilter,
        asked_at_us: u64,
        state: State,
        at: Moment,
        entry: &Entry,
        reason: Option<&str>,
    ) -> Option<Self> {
        if !(filter.from()..=filter.to()).contains(&at)
            || filter.prefix.as_ref().is_some_and(|prefix| !entry.id.as_str().starts_with(prefix.as_str()))
        {
            return None;
        }
        let fits = if act.is_of_dead() {
            // What was revived by this act and died again has another time of death.
            let before = at.as_millis() <= asked_at_us / 1000;
            let reason = reason.unwrap_or_default();
            let holds = filter.reason.as_ref().is_none_or(|text| reason.contains(text.as_str()));
            let grouped = filter.group.as_ref().is_none_or(|group| reason_group(reason) == *group);
            state == State::Dead && before && holds && grouped
        } else {
            state == State::Scheduled && entry.generation.0 < asked_at_us && is_to_do(act, asked_at_us, entry)
        };
        let mark = format!(
            "{}.{}.{}.{}.{}",
            at.as_millis(),
            entry.generation,
            entry.due_at.as_millis(),
            entry.hold_count,
            entry.cause as u8
        );
        let (generation, due_at) = (entry.generation, entry.due_at);
        fits.then(|| Self { id: entry.id.clone(), mark, generation, due_at })
    }
}

/// Whether the act would change anything: what it has done once it does not find again. A new moment or a new life is a generation younger
/// than the asking, so only those that leave the generation as it is are asked for here.
fn is_to_do(act: BulkAct, asked_at_us: u64, entry: &Entry) -> bool {
    match act {
        BulkAct::Close => entry.cause != Cause::Manual,
        BulkAct::Hold { for_ms } => entry.next_at.as_millis() < asked_at_us / 1000 + for_ms,
        _ => true,
    }
}
