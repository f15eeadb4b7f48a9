//! The confirmation before an act: what will be done to how many, why, and above a threshold the number typed again.

use super::deed::Deed;

/// From so many orders on the number must be typed: a slip of a finger must not revive ten thousand.
pub const TYPED_FROM: usize = 10;
/// What is done is written down with its reason; a reason is at most so long.
const REASON_MOST: usize = 200;

/// An act that waits to be confirmed.
#[derive(Debug)]
pub struct Dialog {
    /// What would be done.
    pub deed: Deed,
    /// The reason so far.
    pub reason: String,
    /// The number so far; `None` until the reason is given, and where none is asked for.
    pub typed: Option<String>,
    /// What is missing.
    pub complaint: Option<&'static str>,
    /// How many orders there are of which these are some, where they were chosen by a filter.
    pub of: Option<usize>,
}

/// What a dialog has come to.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// It goes on.
    Waits,
    /// The act is confirmed.
    Confirmed,
}

impl Dialog {
    /// Asks for that act.
    pub fn new(deed: Deed, of: Option<usize>) -> Self {
        Self { deed, reason: String::new(), typed: None, complaint: None, of }
    }

    /// The question.
    pub fn question(&self) -> String {
        match self.of {
            Some(of) => format!("{}: {} of {of} match", self.deed.title(), self.deed.count()),
            None => self.deed.title(),
        }
    }

    /// The number that must be typed; `None` where Enter is enough.
    pub fn number(&self) -> Option<usize> {
        Some(self.deed.count()).filter(|count| *count >= TYPED_FROM)
    }

    /// Takes a character.
    pub fn put(&mut self, c: char) {
        self.complaint = None;
        match &mut self.typed {
            Some(typed) if c.is_ascii_digit() && typed.len() < 12 => typed.push(c),
            Some(_) => {}
            None if !c.is_control() && self.reason.len() < REASON_MOST => self.reason.push(c),
            None => {}
        }
    }

    /// Takes the last character back.
    pub fn take_back(&mut self) {
        self.complaint = None;
        match &mut self.typed {
            Some(typed) => drop(typed.pop()),
            None => drop(self.reason.pop()),
        }
    }

    /// Enter: on to the number, or done.
    pub fn enter(&mut self) -> Turn {
        if self.deed.needs_reason() && self.reason.trim().is_empty() {
            self.complaint = Some("a reason is needed");
            return Turn::Waits;
        }
        match (self.number(), &self.typed) {
            (None, _) => Turn::Confirmed,
            (Some(_), None) => {
                self.typed = Some(String::new());
                Turn::Waits
            }
            (Some(number), Some(typed)) if *typed == number.to_string() => Turn::Confirmed,
            (Some(_), Some(_)) => {
                self.complaint = Some("that is another number");
                Turn::Waits
            }
        }
    }
}
