//! The deadline: one order, when it must be closed, and what its life has been so far.

mod channel;
mod group;
pub mod life;
mod reminder;

use std::fmt;

use crate::clock::Moment;
use crate::error::Invalid;

pub use channel::{Channel, Channels, HoldLimits};
pub use group::reason_group;
pub use reminder::Reminders;

/// An order's id: 1 to 200 bytes of UTF-8 without control characters, kept exactly as given (nothing is trimmed or folded).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(std::sync::Arc<str>);

impl Id {
    /// The longest id, in bytes.
    pub const MAX_BYTES: usize = 200;

    /// Checks `id`.
    pub fn new(id: &str) -> Result<Self, Invalid> {
        let reason = "expected 1 to 200 bytes of UTF-8 without control characters";
        if id.is_empty() || id.len() > Self::MAX_BYTES || id.chars().any(char::is_control) {
            Err(Invalid::new("id", id, reason))
        } else {
            Ok(Self(id.into()))
        }
    }

    /// Checks `id` where it comes as bytes.
    pub fn from_bytes(id: &[u8]) -> Result<Self, Invalid> {
        let text = std::str::from_utf8(id)
            .map_err(|_| Invalid::new("id", &id.escape_ascii().to_string(), "expected UTF-8"))?;
        Self::new(text)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id as the bytes that Redis holds.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the caller stores with a deadline: JSON text of at most 64 KiB, or nothing. Kept and handed on byte for byte; only its syntax
/// is checked, never its meaning, so big numbers, duplicate keys and the order of keys survive.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Payload(Vec<u8>);

impl Payload {
    /// The largest payload, in bytes.
    pub const MAX_BYTES: usize = 64 * 1024;

    /// The deepest nesting of arrays and objects: where most JSON readers, and so perhaps the shop's, give up.
    pub const MAX_DEPTH: usize = 128;

    /// Checks that `json` is one JSON value of an allowed size and depth. Empty input is "no payload".
    pub fn from_json(json: impl Into<Vec<u8>>) -> Result<Self, Invalid> {
        let json = json.into();
        if json.len() > Self::MAX_BYTES {
            let reason = format!("{} bytes, expected at most {}", json.len(), Self::MAX_BYTES);
            return Err(Invalid::new("payload", "", reason));
        }
        if !json.is_empty()
            && let Err(e) = serde_json::from_slice::<serde::de::IgnoredAny>(&json)
        {
            return Err(Invalid::new("payload", &String::from_utf8_lossy(&json), format!("not JSON: {e}")));
        }
        if depth(&json) > Self::MAX_DEPTH {
            let reason = format!("expected arrays and objects at most {} deep", Self::MAX_DEPTH);
            return Err(Invalid::new("payload", "", reason));
        }
        Ok(Self(json))
    }

    /// What Redis held: it was checked when it was stored, and a stored deadline is never refused for its payload.
    pub fn from_stored(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The exact bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A field as text, by the names that lead to it; `None` where there is none or it is null.
    pub fn field<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let payload: serde_json::Value = serde_json::from_slice(&self.0).ok()?;
        let field = path.into_iter().try_fold(&payload, |value, name| value.get(name))?;
        match field {
            serde_json::Value::Null => None,
            serde_json::Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    }

    /// Whether it holds what somebody looks for: `user_id=4711`, where that field has that value (`buyer.name=Li` of one within another),
    /// or any text, as it stands in the JSON.
    pub fn holds(&self, wanted: &str) -> bool {
        let Ok(json) = std::str::from_utf8(&self.0) else { return false };
        if json.contains(wanted) {
            return true;
        }
        let Some((path, value)) = wanted.split_once('=') else { return false };
        // Plain letters and digits stand in JSON as they are: what does not hold them need not be read.
        let is_plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let may = !is_plain || json.contains(value);
        may && self.field(path.split('.')).is_some_and(|found| found == value)
    }
}

/// How deep arrays and objects are nested in valid JSON. Its own parser only skips values here, and skips to any depth.
fn depth(json: &[u8]) -> usize {
    let (mut now, mut deepest, mut in_string, mut escaped) = (0usize, 0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                now += 1;
                deepest = deepest.max(now);
            }
            b']' | b'}' if !in_string => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Which life of an id this is: Redis's time in microseconds at the enqueue, reschedule or revive, rising within a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The part of a deadline's life that fires next: 0 is the close, n the reminder that is n stages before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stage(pub u8);

impl Stage {
    /// The close itself.
    pub const CLOSE: Self = Self(0);
}

/// Why a deadline fires. The number is stored; it never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Its time came.
    Due = 0,
    /// A person closes it by hand.
    Manual = 1,
    /// The sweep found it in the orders table.
    Sweep = 2,
    /// It was restored by a rebuild, an import or a heal.
    Rebuild = 3,
    /// The feed read it from the orders table.
    Feed = 4,
}

impl Cause {
    /// The cause behind a stored number.
    pub fn from_stored(number: u8) -> Option<Self> {
        [Self::Due, Self::Manual, Self::Sweep, Self::Rebuild, Self::Feed]
            .into_iter()
            .find(|c| *c as u8 == number)
    }

    /// The stable word: header, audit row, metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Manual => "manual",
            Self::Sweep => "sweep",
            Self::Rebuild => "rebuild",
            Self::Feed => "feed",
        }
    }
}

/// Who closes by hand, and why. Kept with the deadline until it ends; written to the audit row.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Note {
    /// Who.
    pub actor: String,
    /// Why.
    pub reason: String,
}

impl Note {
    /// The longest actor or reason, in bytes.
    pub const MAX_BYTES: usize = 500;

    /// Checks actor and reason: neither empty, at most 500 bytes each, no control characters.
    pub fn new(actor: &str, reason: &str) -> Result<Self, Invalid> {
        for (field, text) in [("actor", actor), ("reason", reason)] {
            if text.trim().is_empty() || text.len() > Self::MAX_BYTES || text.chars().any(char::is_control) {
                return Err(Invalid::new(field, text, "expected 1 to 500 bytes without control characters"));
            }
        }
        Ok(Self { actor: actor.to_owned(), reason: reason.to_owned() })
    }
}

/// A deadline as a caller hands it to enqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deadline {
    /// The order.
    pub id: Id,
    /// When it must be closed.
    pub due_at: DueAt,
    /// What the hook is given back.
    pub payload: Payload,
    /// W3C traceparent of the caller's span, carried to hook, audit row and log.
    pub traceparent: Option<String>,
    /// Why it will fire, unless a person closes it earlier.
    pub cause: Cause,
    /// When to remind before the close; `None` for what the wheel says.
    pub reminders: Option<Reminders>,
}

/// When a deadline is due, as the caller says it. Only Redis's clock turns a window into a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DueAt {
    /// At this moment; a moment of the past is due now.
    Moment(Moment),
    /// This long after Redis's now, in milliseconds.
    After(std::time::Duration),
}

/// What enqueue does with an id that is already scheduled for another moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Answer *conflict* with the stored moment and change nothing.
    #[default]
    Keep,
    /// Take the new moment and payload.
    Replace,
    /// Take the new moment only if it is later.
    Later,
    /// Take the new moment only if it is earlier.
    Earlier,
}

/// How a deadline ended. The number is stored; it never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The order was closed by us.
    Closed = 1,
    /// The order needed no close: paid, or closed by somebody else.
    Skipped = 2,
    /// The deadline was cancelled.
    Cancelled = 3,
}

impl Outcome {
    /// The outcome behind a stored number.
    pub fn from_stored(number: u8) -> Option<Self> {
        [Self::Closed, Self::Skipped, Self::Cancelled].into_iter().find(|o| *o as u8 == number)
    }

    /// The stable word: CLI, JSON, event field, metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Where an id is: the states of the life cycle (docs/protocol.md draws it). *Due* is a question asked of the score, not a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing is known of the id.
    Absent,
    /// In a slot of the wheel, waiting for `next_at`.
    Scheduled,
    /// Handed to a worker.
    Leased,
    /// Waiting for a person.
    Dead,
    /// Ended, and remembered for a while.
    Ended,
}

impl State {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Scheduled => "scheduled",
            Self::Leased => "leased",
            Self::Dead => "dead",
            Self::Ended => "ended",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_kept_exactly_and_stay_distinct() {
        for id in [
            "123",
            "00123",
            "0",
            "-1",
            "1e3",
            "a:b",
            ":",
            "{order}",
            "}{",
            "订单-2026-001",
            "🧾1",
            "a b",
            " a",
        ] {
            assert_eq!(Id::new(id).unwrap().as_str(), id);
        }
    }

    #[test]
    fn a_payload_is_found_by_a_field_or_by_its_text() {
        let payload =
            Payload::from_json(r#"{"user_id": 4711, "buyer":{"name":"Li = \"Wei\"","vip":true},"note":null,"big":12345678901234567890}"#)
                .unwrap();
        for wanted in [
            "user_id=4711",
            "buyer.name=Li = \"Wei\"",
            "buyer.vip=true",
            "big=12345678901234567890",
            "\"vip\":true",
            "4711",
        ] {
            assert!(payload.holds(wanted), "{wanted}");
        }
        for wanted in
            ["user_id=471", "user_id=47110", "user=4711", "buyer=true", "note=null", "=4711", "vip=true"]
        {
            assert!(!payload.holds(wanted), "{wanted}");
        }
        assert!(!Payload::default().holds("user_id=4711"));
        assert!(!Payload::from_stored(vec![0xff, b'4']).holds("4"));
    }

    #[test]
    fn an_id_that_is_empty_long_or_holds_a_control_character_is_refused() {
        assert!(Id::new("").is_err());
        assert!(Id::new(&"x".repeat(200)).is_ok());
        assert!(Id::new(&"x".repeat(201)).is_err());
        assert!(Id::new("a\nb").is_err());
        assert!(Id::from_bytes(b"\xff\xfe").is_err());
    }

    #[test]
    fn a_payload_is_json_and_survives_byte_for_byte() {
        let nasty = r#"{"order_id":9007199254740993,"n":1e400,"z":-0,"items":[],"a":1,"a":2}"#;
        assert_eq!(Payload::from_json(nasty).unwrap().as_bytes(), nasty.as_bytes());
        for bad in ["{", "nul", r#"{"a":1}{"b":2}"#] {
            assert!(Payload::from_json(bad).is_err(), "{bad} was accepted");
        }
        let at_limit = format!("\"{}\"", "x".repeat(Payload::MAX_BYTES - 2));
        assert!(Payload::from_json(at_limit.clone()).is_ok());
        assert!(Payload::from_json(at_limit + " ").is_err());
    }

    #[test]
    fn a_payload_nested_too_deep_is_refused_without_overflowing_the_stack() {
        let nested = |depth| "[".repeat(depth) + &"]".repeat(depth);
        assert!(Payload::from_json(nested(10_000)).is_err());
        assert!(Payload::from_json(nested(Payload::MAX_DEPTH + 1)).is_err());
        assert!(Payload::from_json(nested(Payload::MAX_DEPTH)).is_ok());
        let in_text = format!(r#""\"{}""#, "[".repeat(1000));
        assert!(Payload::from_json(in_text).is_ok());
    }
}
