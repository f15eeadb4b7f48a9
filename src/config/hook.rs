//! `[wheel.NAME.hook]`: what closes an order.

use std::time::Duration;

use super::section::Section;

/// What closes the orders of a wheel.
#[derive(Debug, Clone)]
pub enum HookSettings {
    /// Nothing: deadlines are kept, and no worker serves the wheel.
    None,
    /// A log line: a trial beside another system.
    Log,
    /// A signed HTTP call.
    #[cfg(feature = "webhook")]
    Webhook(Box<crate::hook::webhook::WebhookSettings>),
    /// The shop's database.
    #[cfg(feature = "sql")]
    Sql(Box<crate::hook::sql::SqlSettings>),
}

impl HookSettings {
    /// The word of `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Log => "log",
            #[cfg(feature = "webhook")]
            Self::Webhook(_) => "webhook",
            #[cfg(feature = "sql")]
            Self::Sql(_) => "sql",
        }
    }

    /// The longest one call may take, if it can take time.
    pub fn timeout(&self) -> Option<Duration> {
        match self {
            Self::None | Self::Log => None,
            #[cfg(feature = "webhook")]
            Self::Webhook(settings) => Some(settings.timeout),
            #[cfg(feature = "sql")]
            Self::Sql(settings) => Some(settings.timeout),
        }
    }
}

/// The kinds that have keys of their own.
pub(super) const KINDS_WITH_KEYS: [&str; 2] = ["webhook", "sql"];

/// Reads the keys of one kind.
pub(super) fn resolve(section: &mut Section<'_>, kind: &str) -> HookSettings {
    match kind {
        "none" => HookSettings::None,
        "log" => HookSettings::Log,
        #[cfg(feature = "webhook")]
        "webhook" => HookSettings::Webhook(Box::new(webhook::resolve(section))),
        #[cfg(feature = "sql")]
        "sql" => HookSettings::Sql(Box::new(sql::resolve(section))),
        other => {
            let reason = if KINDS_WITH_KEYS.contains(&other) {
                format!("\"{other}\": this build was made without it")
            } else {
                format!("\"{}\": expected webhook, sql, log or none", crate::error::shown(other))
            };
            section.problem("kind", &reason);
            HookSettings::None
        }
    }
}

#[cfg(feature = "webhook")]
pub(super) mod webhook;

#[cfg(feature = "sql")]
mod sql;
