//! One leased order as the statements see it.

use crate::clock::Moment;
use crate::deadline::{Cause, Reminders, Stage};
use crate::lease::Lease;

use super::query::push_json;
use super::settings::KeyType;

const AUTO: &str = "AUTO_CLOSE";
const MANUAL: &str = "MANUAL_CLOSE";
/// Stage 1 first; there are at most so many.
const REMINDERS: [&str; Reminders::MAX] = [
    "REMINDER_1",
    "REMINDER_2",
    "REMINDER_3",
    "REMINDER_4",
    "REMINDER_5",
    "REMINDER_6",
    "REMINDER_7",
    "REMINDER_8",
    "REMINDER_9",
    "REMINDER_10",
    "REMINDER_11",
    "REMINDER_12",
    "REMINDER_13",
    "REMINDER_14",
    "REMINDER_15",
    "REMINDER_16",
];

/// A lease, its place in the batch that the worker handed over, and what the statements may ask of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order<'a> {
    /// The place in the worker's batch.
    pub(super) place: usize,
    /// The lease.
    pub(super) lease: &'a Lease,
}

impl<'a> Order<'a> {
    pub(super) fn key(self) -> &'a str {
        self.lease.id.as_str()
    }

    pub(super) fn actor(self) -> Option<&'a str> {
        self.lease.note.as_ref().map(|note| note.actor.as_str())
    }

    pub(super) fn reason(self) -> Option<&'a str> {
        self.lease.note.as_ref().map(|note| note.reason.as_str())
    }

    /// The trace that the order was enqueued in.
    pub(super) fn trace_id(self) -> Option<&'a str> {
        self.lease.trace_id()
    }

    /// The action of the audit row.
    pub(super) fn action(self) -> &'static str {
        match (self.lease.stage, self.lease.cause) {
            (Stage::CLOSE, Cause::Manual) => MANUAL,
            (Stage::CLOSE, _) => AUTO,
            (Stage(n), _) => REMINDERS[usize::from(n).min(REMINDERS.len()) - 1],
        }
    }

    /// The actions of audit rows that say that this was done before.
    pub(super) fn actions(self) -> Vec<&'static str> {
        if self.lease.stage == Stage::CLOSE { vec![AUTO, MANUAL] } else { vec![self.action()] }
    }

    pub(super) fn fence(self) -> i64 {
        signed(self.lease.fence.0)
    }

    pub(super) fn generation(self) -> i64 {
        signed(self.lease.generation.0)
    }

    pub(super) fn due_millis(self) -> i64 {
        signed(self.lease.due_at.as_millis())
    }

    /// A field of the payload as text; `None` where there is none or it is null.
    pub(super) fn payload_field(self, path: &[String]) -> Option<String> {
        self.lease.payload.field(path.iter().map(String::as_str))
    }

    /// The payload as JSON text; `null` where there is none.
    pub(super) fn payload(self) -> &'a str {
        let bytes = self.lease.payload.as_bytes();
        match std::str::from_utf8(bytes) {
            Ok(text) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() => text,
            _ => "null",
        }
    }

    /// Appends this order as a JSON object: the `:rows` of the statements.
    fn push_row(self, kind: KeyType, worker: &str, out: &mut String) {
        out.push_str("{\"id\":");
        match kind {
            KeyType::Bigint => out.push_str(self.key()),
            KeyType::Text | KeyType::Uuid => push_json(out, self.key()),
        }
        for (name, number) in [
            ("due_at_ms", self.due_millis()),
            ("fence", self.fence()),
            ("attempt", i64::from(self.lease.attempt)),
            ("generation", self.generation()),
        ] {
            out.push_str(&format!(",\"{name}\":{number}"));
        }
        for (name, text) in [
            ("due_at", Some(self.lease.due_at.to_string().as_str())),
            ("action", Some(self.action())),
            ("cause", Some(self.lease.cause.as_str())),
            ("actor", self.actor()),
            ("reason", self.reason()),
            ("trace_id", self.trace_id()),
            ("worker", Some(worker)),
        ] {
            out.push_str(&format!(",\"{name}\":"));
            match text {
                Some(text) => push_json(out, text),
                None => out.push_str("null"),
            }
        }
        out.push_str(",\"payload\":");
        out.push_str(self.payload());
        out.push('}');
    }
}

/// The orders as a JSON array, one object each.
pub(super) fn rows_json(kind: KeyType, worker: &str, orders: &[Order<'_>]) -> String {
    let mut out = String::with_capacity(orders.len() * 300);
    for order in orders {
        out.push(if out.is_empty() { '[' } else { ',' });
        order.push_row(kind, worker, &mut out);
    }
    if out.is_empty() { "[]".to_owned() } else { out + "]" }
}

/// A moment of the table as the worker reads it; one before 1970 is the first, one after 9999 the last.
pub(super) fn moment(millis: &str) -> Option<Moment> {
    let millis = millis.parse::<i64>().ok()?;
    Some(Moment::from_millis(u64::try_from(millis).unwrap_or(0)).unwrap_or(Moment::MAX))
}

/// Redis's numbers are microseconds of a clock; they fit until the year 294246.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
