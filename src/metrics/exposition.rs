//! The numbers as text, in the form that the reader asked for.

use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;

/// The type of the classic text.
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The type of OpenMetrics.
const OPEN: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a scrape answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exposition {
    /// The `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub text: String,
}

impl Exposition {
    pub(super) fn of(registry: &Registry, accept: Option<&str>) -> Self {
        let (mut body, open) = (String::with_capacity(32 * 1024), accept.is_some_and(takes_open));
        let written = if open {
            text::encode(&mut body, registry)
        } else {
            prometheus_text::encode(&mut body, registry)
        };
        if let Err(e) = written {
            // Writing into memory does not fail.
            tracing::error!(error = %e, "metrics could not be written");
        }
        Self { content_type: if open { OPEN } else { CLASSIC }, text: body }
    }
}

/// Whether an `Accept` header takes OpenMetrics. Prometheus names it before the classic text; who names neither gets the classic one.
fn takes_open(accept: &str) -> bool {
    accept.split(',').any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let named =
            parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/openmetrics-text"));
        let refused = |part: &str| {
            let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
            weight.and_then(|weight| weight.parse::<f32>().ok()).is_some_and(|weight| weight <= 0.0)
        };
        named && !parts.any(refused)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_gets_the_form_it_asks_for() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        assert!(takes_open(prometheus));
        for classic in ["text/plain", "*/*", "", "application/openmetrics-text;q=0, text/plain"] {
            assert!(!takes_open(classic), "{classic}");
        }
    }
}
