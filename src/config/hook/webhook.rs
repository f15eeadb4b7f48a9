//! The keys of `kind = "webhook"`.

use std::time::Duration;

use secrecy::ExposeSecret as _;

use crate::clock::Moment;
use crate::config::section::Section;
use crate::error::Error;
use crate::hook::webhook::{WebhookFormat, WebhookHook, WebhookSecret, WebhookSettings};

pub(in crate::config) fn resolve(section: &mut Section<'_>) -> WebhookSettings {
    let ms = Duration::from_millis;
    let day = Duration::from_secs(86_400);
    // A query may hold a token.
    let shown = |url: &str| crate::config::shown_url(url.split(['?', '#']).next().unwrap_or_default());
    let url = match section.secrets("url", shown).as_slice() {
        [url] => url.expose_secret().to_owned(),
        urls => {
            section.problem("url", if urls.is_empty() { "is missing" } else { "expected one" });
            String::new()
        }
    };
    let mut settings = WebhookSettings::new(&url);
    settings.secrets = secrets(section);
    settings.timeout = section.duration("timeout", ms(100)..=ms(600_000));
    settings.connect_timeout = section.duration("connect_timeout", ms(10)..=ms(600_000));
    if settings.connect_timeout > settings.timeout {
        section.problem("connect_timeout", "expected at most timeout");
    }
    settings.allow_private = section.flag("allow_private");
    settings.ca_file = section.text("ca_file").map(Into::into);
    settings.dangerous_accept_invalid_certs = section.flag("dangerous_accept_invalid_certs");
    settings.headers = section.named_secrets("headers");
    let format =
        |word: &str| WebhookFormat::from_word(word).ok_or_else(|| "expected standard-webhooks".to_owned());
    settings.format = section.parsed("format", format);
    settings.max_concurrency = section.whole("max_concurrency", 1..=10_000) as usize;
    settings.idle_timeout = section.duration("idle_timeout", ms(100)..=ms(300_000));
    settings.retry_after_cap = section.duration("retry_after_cap", Duration::ZERO..=7 * day);
    if let Some(agent) = section.text("user_agent") {
        settings.user_agent = agent;
    }
    // What the endpoint's own parts refuse (URL, headers, secrets, certificates); each problem begins with its key.
    if let Err(Error::Config(problems)) = WebhookHook::new(&settings) {
        section.foreign_problems(&problems);
    }
    settings
}

/// The current secret, then the one it replaces with its end.
fn secrets(section: &mut Section<'_>) -> Vec<WebhookSecret> {
    let hidden = |_: &str| "***".to_owned();
    let mut secrets: Vec<_> = section.secrets("secret", hidden).into_iter().map(WebhookSecret::new).collect();
    if secrets.is_empty() {
        section.problem(
            "secret",
            "is missing; write secret_file, with whsec_ and the base64 of 24 to 64 random bytes in it",
        );
    }
    let old = section.secrets("old_secret", hidden);
    let until = section.text("old_secret_until");
    let until =
        until.and_then(|text| section.checked("old_secret_until", Moment::parse("old_secret_until", &text)));
    if !old.is_empty() && until.is_none() {
        section.problem("old_secret", "old_secret_until is missing: a secret that was replaced must end");
    }
    secrets.extend(old.into_iter().map(|secret| WebhookSecret { secret, not_after: until }));
    secrets
}
