//! `[wheel.NAME.reminder]`: who reminds before the close. When to, stands with the wheel (`remind`) or with each deadline.

use std::time::Duration;

use super::section::Section;
use crate::clock::parse_duration;
use crate::deadline::Reminders;

/// Who gives the reminders of a wheel. Whoever it is, an event tells of each that was given.
#[derive(Debug, Clone, Default)]
pub enum ReminderSettings {
    /// The wheel's own hook: the same endpoint, told apart by the call's type; the statements of `remind`; a log line.
    #[default]
    Hook,
    /// Nobody: the event is the reminder.
    Event,
    /// An endpoint of its own.
    #[cfg(feature = "webhook")]
    Webhook(Box<crate::hook::webhook::WebhookSettings>),
}

impl ReminderSettings {
    /// The longest one call may take, where it is not the wheel's own hook's.
    pub(super) fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Hook | Self::Event => None,
            #[cfg(feature = "webhook")]
            Self::Webhook(settings) => Some(settings.timeout),
        }
    }
}

/// Reads the keys of one kind.
pub(super) fn resolve(section: &mut Section<'_>, kind: &str) -> ReminderSettings {
    match kind {
        "hook" => ReminderSettings::Hook,
        "event" => ReminderSettings::Event,
        #[cfg(feature = "webhook")]
        "webhook" => ReminderSettings::Webhook(Box::new(super::hook::webhook::resolve(section))),
        other => {
            let reason = format!("\"{}\": expected hook, event or webhook", crate::error::shown(other));
            section.problem("kind", &reason);
            ReminderSettings::Event
        }
    }
}

/// `remind = ["5m", "1m"]`.
pub(super) fn when(section: &mut Section<'_>) -> Reminders {
    let mut before = Vec::new();
    for text in section.texts("remind") {
        match parse_duration("remind", &text) {
            Ok(one) => before.push(one),
            Err(e) => section.problem("remind", &format!("\"{}\": {}", e.value, e.reason)),
        }
    }
    let checked = Reminders::new(&before);
    section.checked("remind", checked).unwrap_or_default()
}
