//! Why a command could not go on, and how that is said: one line on stderr, or one JSON object.

use std::io;

use serde_json::json;

use super::exit::Exit;
use crate::error::{Error, StoreKind};

/// The result of a command.
pub type Outcome = Result<Exit, Failure>;

/// Why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// The world is broken, or the input is not valid.
    World(Error),
    /// What stdout said when written to.
    Output(io::Error),
    /// The command line makes no sense in a way that clap cannot see.
    Usage(String),
    /// Input data cannot be used.
    Data(String),
    /// A job ended early; the text says how far it came.
    Stopped(Exit, String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::World(error)
    }
}

impl From<crate::error::Invalid> for Failure {
    fn from(invalid: crate::error::Invalid) -> Self {
        Self::World(invalid.into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl Failure {
    /// Whether the reader of our output went away: no failure at all.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(e) if e.kind() == io::ErrorKind::BrokenPipe)
    }

    /// With the place of Redis beside what Redis or the connection said; `url` has no password in it.
    #[must_use]
    pub fn at(self, url: &str) -> Self {
        match self {
            Self::World(Error::Store { kind, attempted, message }) if kind != StoreKind::Layout => {
                let message = format!("{message} ({url})");
                Self::World(Error::Store { kind, attempted, message })
            }
            other => other,
        }
    }

    /// The code it ends with.
    pub fn exit(&self, reads: bool) -> Exit {
        match self {
            _ if self.is_broken_pipe() => Exit::Done,
            Self::World(error) => Exit::of_error(error, reads),
            Self::Output(_) => Exit::Failure,
            Self::Usage(_) => Exit::Usage,
            Self::Data(_) => Exit::BadData,
            Self::Stopped(exit, _) => *exit,
        }
    }

    /// The lines for a person.
    pub fn lines(&self) -> Vec<String> {
        match self {
            Self::World(Error::Config(problems)) => problems.clone(),
            Self::World(error) => vec![error.to_string()],
            Self::Output(error) => vec![format!("stdout: {error}")],
            Self::Usage(text) | Self::Data(text) | Self::Stopped(_, text) => vec![text.clone()],
        }
    }

    /// The object for a machine: code, message and, where one is to blame, the field.
    pub fn json(&self, reads: bool) -> serde_json::Value {
        let code = match self {
            Self::World(Error::Store { kind, .. }) => kind.as_str(),
            _ => match self.exit(reads) {
                Exit::Usage => "invalid",
                Exit::Config => "config",
                Exit::BadData => "bad_data",
                _ => "failed",
            },
        };
        let field = match self {
            Self::World(Error::Invalid(invalid)) => Some(invalid.field.clone()),
            _ => None,
        };
        json!({"error": {"code": code, "message": self.lines().join("\n"), "field": field}})
    }
}
