//! What of the settings is refused, what only deserves a warning, and the headers that every call begins with.

use std::time::Duration;

use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use secrecy::ExposeSecret;

use super::message::is_reserved;
use super::settings::WebhookSettings;
use super::target::Target;
use crate::clock::{Moment, show_duration};

/// All headers of one's own together; common servers refuse heads above 8 KiB, and a call needs a part of that itself.
const OWN_HEADERS_MAX_BYTES: usize = 4096;

/// The numbers that are out of range, one fragment each.
pub(super) fn limits(settings: &WebhookSettings) -> Vec<String> {
    let mut problems = Vec::new();
    let mut within = |field: &str, value: Duration, least: Duration, most: Duration| {
        if value < least || value > most {
            let (value, least, most) = (show_duration(value), show_duration(least), show_duration(most));
            problems.push(format!("{field} {value}, expected {least} to {most}"));
        }
    };
    let least = Duration::from_millis(100);
    within("timeout", settings.timeout, least, Duration::from_secs(600));
    within(
        "connect_timeout",
        settings.connect_timeout,
        Duration::from_millis(10),
        settings.timeout.max(least),
    );
    within("idle_timeout", settings.idle_timeout, Duration::ZERO, Duration::from_secs(300));
    within("retry_after_cap", settings.retry_after_cap, Duration::ZERO, Duration::from_secs(7 * 86_400));
    if !(1..=10_000).contains(&settings.max_concurrency) {
        problems.push(format!("max_concurrency {}, expected 1 to 10000", settings.max_concurrency));
    }
    problems
}

/// The headers that are the same for each call; or every problem with the endpoint's own ones. No value is shown.
pub(super) fn base_headers(settings: &WebhookSettings) -> Result<HeaderMap, Vec<String>> {
    let mut headers = HeaderMap::new();
    let mut problems = Vec::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    // Nothing is ever decompressed: a bomb stays as small as it came.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    match HeaderValue::try_from(&settings.user_agent) {
        Ok(agent) => drop(headers.insert(USER_AGENT, agent)),
        Err(_) => problems.push("user_agent: expected printable ASCII".to_owned()),
    }
    let mut bytes = 0;
    for (name, value) in &settings.headers {
        let value = value.expose_secret();
        bytes += name.len() + value.len();
        let shown = crate::error::shown(name);
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Err(_), _) => problems.push(format!("headers: \"{shown}\" is not the name of a header")),
            (Ok(name), _) if is_reserved(&name) => {
                problems.push(format!("headers: \"{shown}\" is set by duewheel itself"));
            }
            (Ok(_), Err(_)) => {
                problems.push(format!(
                    "headers: the value of \"{shown}\" holds line breaks or control characters"
                ));
            }
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                headers.append(name, value);
            }
        }
    }
    if bytes > OWN_HEADERS_MAX_BYTES {
        problems.push(format!("headers: {bytes} bytes in all, expected at most {OWN_HEADERS_MAX_BYTES}"));
    }
    if problems.is_empty() { Ok(headers) } else { Err(problems) }
}

/// What works and should not stay so. `signs_until` is the end of the last secret.
pub(super) fn warnings(
    settings: &WebhookSettings,
    target: &Target,
    signs_until: Option<Moment>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    if settings.dangerous_accept_invalid_certs {
        warnings.push(
            "dangerous_accept_invalid_certs is on: whoever sits on the way reads and forges calls".to_owned(),
        );
    }
    if !target.tls {
        warnings.push(format!(
            "{} is not encrypted: payloads can be read on the way; use https",
            target.origin()
        ));
    }
    if settings.allow_private {
        warnings.push(
            "allow_private is on: the name may lead to any machine of the worker's own network".to_owned(),
        );
    }
    if let Some(end) = signs_until {
        warnings
            .push(format!("no secret is valid after {end}: nothing is sent from then on; add the next one"));
    }
    warnings
}
