//! The confirmation before an act: what will be done to how many, why, and above a threshold the number typed again.

use super::deed::Deed;
use crate::clock::Moment;

/// From so many orders on the number must be typed: a slip of a finger must not revive ten thousand.
pub const TYPED_FROM: usize = 10;
/// What is done is written down with its reason; a reason is at most so long.
const REASON_MOST: usize = 200;
/// Whatever else a deed needs to know is at most so long.
const VALUE_MOST: usize = 40;

/// An act that waits to be confirmed.
#[derive(Debug)]
pub struct Dialog {
    /// What would be done.
    pub deed: Deed,
    /// What the deed needs to know, so far; `None` once that is given, and where it needs nothing.
    pub value: Option<String>,
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
        let value = deed.needs().map(|needs| needs.first.to_owned());
        Self { deed, value, reason: String::new(), typed: None, complaint: None, of }
    }

    /// The question.
    pub fn question(&self) -> String {
        match (self.of, &self.value) {
            (Some(of), _) => format!("{}: {} of {of} match", self.deed.title(), self.deed.count()),
            (None, Some(_)) => self.deed.subject(),
            (None, None) => self.deed.title(),
        }
    }

    /// The number that must be typed; `None` where Enter is enough.
    pub fn number(&self) -> Option<usize> {
        Some(self.deed.count()).filter(|count| *count >= TYPED_FROM)
    }

    /// Takes a character.
    pub fn put(&mut self, c: char) {
        self.complaint = None;
        if let Some(value) = &mut self.value {
            if !c.is_control() && value.len() < VALUE_MOST {
                value.push(c);
            }
            return;
        }
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
        if let Some(value) = &mut self.value {
            value.pop();
            return;
        }
        match &mut self.typed {
            Some(typed) => drop(typed.pop()),
            None => drop(self.reason.pop()),
        }
    }

    /// Enter: on to the reason, to the number, or done. `now` is Redis's clock as it was last seen.
    pub fn enter(&mut self, now: Moment) -> Turn {
        if let (Some(value), Some(needs)) = (&self.value, self.deed.needs()) {
            match self.deed.with(value.trim(), now) {
                Some(deed) => (self.deed, self.value) = (deed, None),
                None => self.complaint = Some(needs.complaint),
            }
            return Turn::Waits;
        }
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
