//! The SQL hook: the close is declared, and duewheel writes the statement, so that it cannot be written wrong.

mod settings;

pub use settings::{KeyType, Route, SqlSettings, TimeType};
