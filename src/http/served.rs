//! One wheel as a server knows it.

use std::sync::Arc;

use crate::wheel::Wheel;

/// What a server knows of a wheel. [`From`] a [`Wheel`] alone: no table, no settings to show.
#[derive(Debug, Clone)]
pub struct ServedWheel {
    /// The wheel.
    pub wheel: Wheel,
    /// The orders table that its hook declares, for explanations; `None` where it declares none.
    #[cfg(feature = "sql")]
    pub table: Option<Arc<crate::sweep::Inquiry>>,
    /// The configuration in force, as `duewheel config` shows it: of the whole process, secrets hidden.
    pub settings: Arc<[Setting]>,
}

/// A value of the configuration in force.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Setting {
    /// The key, dotted.
    pub key: String,
    /// The value in TOML's form; a secret is hidden.
    pub value: String,
    /// Where it came from: `default`, `file:line`, `$VARIABLE` or the flag.
    pub source: String,
}

impl From<Wheel> for ServedWheel {
    fn from(wheel: Wheel) -> Self {
        Self {
            wheel,
            #[cfg(feature = "sql")]
            table: None,
            settings: Arc::default(),
        }
    }
}
