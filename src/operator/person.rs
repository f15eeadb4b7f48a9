//! Who does something by hand, and through which door.

use crate::deadline::Note;
use crate::error::Invalid;

/// A way in for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The operator page.
    Page,
    /// The HTTP API.
    Api,
    /// The command line.
    Cli,
    /// The terminal view.
    Top,
}

impl Door {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Api => "api",
            Self::Cli => "cli",
            Self::Top => "top",
        }
    }
}

/// A person at a door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    name: String,
    door: Door,
}

impl Person {
    /// Checks the name: 1 to 500 bytes, no control characters.
    pub fn new(name: &str, door: Door) -> Result<Self, Invalid> {
        let note = Note::new(name, "a reason is given with each act")?;
        Ok(Self { name: note.actor, door })
    }

    /// Who.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Through which door.
    pub fn door(&self) -> Door {
        self.door
    }
}
