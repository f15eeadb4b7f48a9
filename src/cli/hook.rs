//! From the configured hook to one that closes orders.

use std::sync::Arc;

use crate::config::{HookSettings, ReminderSettings, WheelConfig};
#[cfg(any(feature = "sql", feature = "webhook"))]
use crate::error::Error;
use crate::error::Result;
use crate::hook::Hook;
use crate::hook::log::LogHook;
#[cfg(feature = "sql")]
use crate::hook::sql::SqlHook;
#[cfg(feature = "webhook")]
use crate::hook::webhook::WebhookHook;

/// The hook of one wheel, kept by its kind so that its secrets can be changed while it works.
pub enum Closer {
    /// Writes a log line.
    Log(Arc<LogHook>),
    /// Calls the shop.
    #[cfg(feature = "webhook")]
    Webhook(Arc<WebhookHook>),
    /// Closes in the shop's database.
    #[cfg(feature = "sql")]
    Sql(Arc<SqlHook>),
}

impl Closer {
    /// Builds the hook of a wheel; `None` where nothing closes its orders.
    pub fn of(config: &WheelConfig) -> Result<Option<Self>> {
        match &config.hook {
            HookSettings::None => Ok(None),
            HookSettings::Log => Ok(Some(Self::Log(Arc::new(LogHook)))),
            #[cfg(feature = "webhook")]
            HookSettings::Webhook(settings) => {
                let hook = WebhookHook::new(settings).map_err(|e| name_problems(config, e))?;
                Ok(Some(Self::Webhook(Arc::new(hook))))
            }
            #[cfg(feature = "sql")]
            HookSettings::Sql(settings) => {
                let hook =
                    SqlHook::new(SqlHookSettings::clone(settings)).map_err(|e| name_problems(config, e))?;
                Ok(Some(Self::Sql(Arc::new(hook))))
            }
        }
    }

    /// Builds what reminds before the close; `None` where the event alone does.
    pub fn reminding(config: &WheelConfig) -> Result<Option<Self>> {
        match (&config.reminder, &config.hook) {
            (ReminderSettings::Event, _) | (ReminderSettings::Hook, HookSettings::None) => Ok(None),
            #[cfg(feature = "sql")]
            (ReminderSettings::Hook, HookSettings::Sql(settings)) if settings.remind.is_empty() => Ok(None),
            // A hook of its own, with connections of its own: a reminder that hangs holds up no close.
            (ReminderSettings::Hook, _) => Self::of(config),
            #[cfg(feature = "webhook")]
            (ReminderSettings::Webhook(settings), _) => {
                let hook = WebhookHook::new(settings).map_err(|e| name_problems(config, e))?;
                Ok(Some(Self::Webhook(Arc::new(hook))))
            }
        }
    }

    /// As a worker takes it.
    pub fn hook(&self) -> Arc<dyn Hook> {
        match self {
            Self::Log(hook) => hook.clone(),
            #[cfg(feature = "webhook")]
            Self::Webhook(hook) => hook.clone(),
            #[cfg(feature = "sql")]
            Self::Sql(hook) => hook.clone(),
        }
    }

    /// Takes over the secrets of a configuration that was read again; answers whether there was anything to take over.
    pub fn take_secrets(&self, config: &WheelConfig) -> Result<bool> {
        self.take_secrets_of(config, &config.hook)
    }

    /// The same for what reminds.
    pub fn take_reminder_secrets(&self, config: &WheelConfig) -> Result<bool> {
        match &config.reminder {
            #[cfg(feature = "webhook")]
            ReminderSettings::Webhook(settings) => {
                self.take_secrets_of(config, &HookSettings::Webhook(settings.clone()))
            }
            _ => self.take_secrets_of(config, &config.hook),
        }
    }

    #[cfg_attr(
        not(any(feature = "sql", feature = "webhook")),
        expect(unused_variables, reason = "the other hooks have no secrets")
    )]
    fn take_secrets_of(&self, config: &WheelConfig, hook: &HookSettings) -> Result<bool> {
        match (self, hook) {
            #[cfg(feature = "webhook")]
            (Self::Webhook(hook), HookSettings::Webhook(settings)) => {
                hook.take_over(settings).map_err(|e| name_problems(config, e))?;
                Ok(true)
            }
            #[cfg(feature = "sql")]
            (Self::Sql(hook), HookSettings::Sql(settings)) => {
                hook.set_urls(&settings.urls).map_err(|e| name_problems(config, e))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

#[cfg(feature = "sql")]
type SqlHookSettings = crate::hook::sql::SqlSettings;

/// The hook knows its keys by their own names; a reader of several wheels needs to know whose they are.
#[cfg(any(feature = "sql", feature = "webhook"))]
fn name_problems(config: &WheelConfig, error: Error) -> Error {
    let prefix = format!("wheel.{}.hook", config.wheel.name);
    match error {
        Error::Config(problems) => {
            Error::Config(problems.into_iter().map(|problem| format!("{prefix}: {problem}")).collect())
        }
        Error::Hook(reason) => Error::Hook(format!("{prefix}: {reason}")),
        Error::HookAway(reason) => Error::HookAway(format!("{prefix}: {reason}")),
        other => other,
    }
}
