//! Configuration in two steps: what was given (a draft: every value with where it came from), then what it means (resolved: checked,
//! all problems reported together). The defaults live in `config/default.toml`, which is also the manual.

mod channel;
mod draft;
mod environment;
mod file;
mod hook;
mod http;
mod kafka;
mod limits;
mod metrics;
#[cfg(feature = "sql")]
mod net;
#[cfg(feature = "sql")]
mod reconcile;
mod reminder;
mod resolve;
mod secret;
mod section;
mod server;
mod suggestion;
mod wheel;

pub use draft::{Draft, Given, Source, Value};
pub use environment::Environment;
pub use hook::HookSettings;
pub use metrics::MetricsSettings;
pub use reminder::ReminderSettings;
pub use resolve::{Config, LogFormat, LogSettings, Shown, WheelConfig};
pub use secret::shown_url;

/// The defaults, commented: the reference manual of every key.
pub const DEFAULT: &str = include_str!("config/default.toml");
