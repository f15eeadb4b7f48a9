//! What can go wrong with the world. Refusals that a caller must expect (*exists*, *leased*, *stale*, …) are values of the verb
//! that refuses; an [`Error`] means that the answer could not be had, or that the input was not valid.

use std::fmt;

/// The result of every call that can meet a broken world.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A broken world: Redis, the configuration or the caller's input.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Redis refused, failed or did not answer.
    #[error("{attempted}: {message}")]
    Store {
        /// What kind of failure, and with it what may be done next.
        kind: StoreKind,
        /// What was attempted, as a fragment (`enqueue on wheel orders, shard 3`).
        attempted: String,
        /// What Redis or the connection said, without secrets.
        message: String,
    },
    /// A value given by the caller is not valid. Nothing was stored.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The configuration cannot be used; every problem found, one a line.
    #[error("{}", join_problems(.0))]
    Config(Vec<String>),
    /// A hook cannot be used (start-up checks), with the reason.
    #[error("{0}")]
    Hook(String),
    /// A hook cannot be reached or does not serve just now (start-up checks), with the reason; nothing is known against it.
    #[error("{0}")]
    HookAway(String),
    /// A job was taken over by another runner, or its lease could be trusted no more; what that means for the job, as a fragment.
    #[error("{0}")]
    Overtaken(String),
    /// Reading or writing a file failed.
    #[error("{attempted}: {reason}")]
    File {
        /// What was attempted, with the path.
        attempted: String,
        /// The system's own reason.
        reason: String,
    },
}

/// How a call to Redis failed. The three groups of docs/protocol.md: nothing happened, may be half done, outcome unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreKind {
    /// No connection could be made: nothing happened.
    Unreachable,
    /// The request may or may not have run: time-out or a connection lost after sending.
    Unknown,
    /// `LOADING`: Redis reads its data; nothing happened.
    Loading,
    /// `BUSY`: a script of somebody blocks Redis; nothing happened.
    Busy,
    /// `OOM`: memory is full; nothing happened.
    OutOfMemory,
    /// `READONLY` or `MASTERDOWN`: a replica answered; nothing happened.
    ReadOnly,
    /// `NOREPLICAS`: too few replicas; nothing happened.
    NoReplicas,
    /// `MISCONF`: Redis cannot persist; nothing happened.
    CannotPersist,
    /// `NOAUTH`, `WRONGPASS`, `NOPERM`: the user or its rights are wrong.
    Denied,
    /// `TRYAGAIN`, `MOVED`, `ASK`, `CLUSTERDOWN`, or a slot that has moved: nothing happened, ask again.
    Moving,
    /// The shard carries no meta record: Redis was emptied, or the wheel is new.
    Unformatted,
    /// The shard's layout, shard count or slot width is not the caller's.
    Layout,
    /// A key of the wrong type or an error inside a script: may be half done.
    Corrupt,
    /// Anything else Redis said.
    Other,
}

impl StoreKind {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Unreachable,
        Self::Unknown,
        Self::Loading,
        Self::Busy,
        Self::OutOfMemory,
        Self::ReadOnly,
        Self::NoReplicas,
        Self::CannotPersist,
        Self::Denied,
        Self::Moving,
        Self::Unformatted,
        Self::Layout,
        Self::Corrupt,
        Self::Other,
    ];

    /// Whether the call surely changed nothing, so that it may be sent again.
    pub fn is_harmless(self) -> bool {
        !matches!(self, Self::Unknown | Self::Corrupt)
    }

    /// Whether waiting may help, without a person.
    pub fn is_temporary(self) -> bool {
        !matches!(self, Self::Denied | Self::Layout | Self::Corrupt | Self::Other)
    }

    /// The stable word of this kind, for JSON, metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Unknown => "unknown",
            Self::Loading => "loading",
            Self::Busy => "busy",
            Self::OutOfMemory => "out_of_memory",
            Self::ReadOnly => "read_only",
            Self::NoReplicas => "no_replicas",
            Self::CannotPersist => "cannot_persist",
            Self::Denied => "denied",
            Self::Moving => "moving",
            Self::Unformatted => "unformatted",
            Self::Layout => "layout",
            Self::Corrupt => "corrupt",
            Self::Other => "other",
        }
    }
}

impl Error {
    /// The kind of Redis failure, if it is one.
    pub fn store_kind(&self) -> Option<StoreKind> {
        match self {
            Self::Store { kind, .. } => Some(*kind),
            _ => None,
        }
    }
}

/// A value that was refused at the edge: which field, what was given, what is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The field's name as the caller wrote it (`id`, `--in`, `payload`).
    pub field: String,
    /// The refused value, escaped and cut to 60 characters; empty where it must not be shown.
    pub value: String,
    /// What is wrong and what is valid, as a fragment.
    pub reason: String,
}

impl Invalid {
    /// Refuses `value` for `field`.
    pub fn new(field: &str, value: &str, reason: impl Into<String>) -> Self {
        Self { field: field.to_owned(), value: shown(value), reason: reason.into() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.value.is_empty() {
            write!(f, "{}: {}", self.field, self.reason)
        } else {
            write!(f, "{} \"{}\": {}", self.field, self.value, self.reason)
        }
    }
}

impl std::error::Error for Invalid {}

/// Text of others as it may be shown on a terminal or in a log line: control and direction-changing characters escaped, cut to
/// 60 characters.
pub fn shown(text: &str) -> String {
    let mut out = String::new();
    for (n, c) in text.chars().enumerate() {
        if n == 60 {
            out.push('…');
            break;
        }
        push_escaped(&mut out, c);
    }
    out
}

/// Text of others, escaped like [`shown`] but whole.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| push_escaped(&mut out, c));
    out
}

/// JSON text with the characters that [`escaped`] escapes written as JSON escapes: the same value, safe on a terminal. They stand only
/// inside its strings, but for line ends and tabs between tokens, which become spaces.
pub fn escaped_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if needs_escape(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

fn needs_escape(c: char) -> bool {
    // Bidirectional controls reorder what a person reads; they are no more welcome on a terminal than ESC.
    let reorders = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || reorders
}

fn push_escaped(out: &mut String, c: char) {
    if needs_escape(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
}

fn join_problems(problems: &[String]) -> String {
    problems.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_move_the_cursor_or_reorder_a_line() {
        assert_eq!(shown("a\u{1b}[2J\u{202e}b"), "a\\u{1b}[2J\\u{202e}b");
        assert_eq!(shown(&"x".repeat(80)).chars().count(), 61);
    }

    #[test]
    fn only_unknown_and_corrupt_may_have_changed_something() {
        assert!(StoreKind::OutOfMemory.is_harmless());
        assert!(!StoreKind::Unknown.is_harmless());
        assert!(!StoreKind::Corrupt.is_harmless());
    }
}
