//! How the shop's endpoint is called.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use crate::clock::Moment;

/// One endpoint: where it is, how calls are signed, and what they may cost. Nothing here is checked before
/// `WebhookHook::new`, which reports all problems together.
#[derive(Clone)]
pub struct WebhookSettings {
    /// `http://` or `https://`, a host name or a plainly written address, an optional port, path and query. No user, password or
    /// fragment. A query may hold a token, so it is never shown.
    pub url: String,
    /// Each call is signed with every secret that is still valid, in this order: first the new one, then the ones it replaces. At
    /// least one.
    pub secrets: Vec<WebhookSecret>,
    /// One call in all: waiting for a free connection, connecting, sending, and reading the answer. 100 ms to 10 min.
    pub timeout: Duration,
    /// Making one connection: name resolution, every address, TLS. At most `timeout`.
    pub connect_timeout: Duration,
    /// Whether addresses that are not public (loopback, private, link-local, metadata, …) may be called.
    pub allow_private: bool,
    /// A PEM file with certificate authorities to trust besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// Takes any certificate of any name. Only for a trial: whoever sits on the way reads and forges all calls.
    pub dangerous_accept_invalid_certs: bool,
    /// More headers for each call, such as `Authorization`. Values are never shown. Names that the call itself sets are refused.
    pub headers: Vec<(String, SecretString)>,
    /// The form of body, headers and signature.
    pub format: WebhookFormat,
    /// Calls to this endpoint at once, 1 to 10,000; the others wait, within their `timeout`.
    pub max_concurrency: usize,
    /// A connection that is idle for longer is closed, not used again. Must be below the idle time of the server, and of any proxy
    /// before it; a lower `Keep-Alive: timeout=…` of the server is obeyed too.
    pub idle_timeout: Duration,
    /// The longest `Retry-After` that is obeyed.
    pub retry_after_cap: Duration,
    /// The `User-Agent` header.
    pub user_agent: String,
}

impl WebhookSettings {
    /// The endpoint `url` with the defaults of `config/default.toml`; secrets must be added.
    pub fn new(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            secrets: Vec::new(),
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(3),
            allow_private: false,
            ca_file: None,
            dangerous_accept_invalid_certs: false,
            headers: Vec::new(),
            format: WebhookFormat::default(),
            // More than one small shop serves at once, fewer than a worker's usual file limit of 1024.
            max_concurrency: 256,
            // Below the 5 s after which Node and several Python servers close an idle connection.
            idle_timeout: Duration::from_secs(4),
            // An order may not be parked for longer than a person needs to notice.
            retry_after_cap: Duration::from_secs(3600),
            user_agent: concat!("duewheel/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl fmt::Debug for WebhookSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only names of headers, and no query of the URL: both may carry tokens. A password is refused later, but may stand here now.
        let bare = self.url.split(['?', '#']).next().unwrap_or_default();
        let shown = if self.url.contains('@') { "(not shown: it may hold a password)" } else { bare };
        f.debug_struct("WebhookSettings")
            .field("url", &shown)
            .field("secrets", &self.secrets)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("allow_private", &self.allow_private)
            .field("ca_file", &self.ca_file)
            .field("dangerous_accept_invalid_certs", &self.dangerous_accept_invalid_certs)
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("format", &self.format)
            .field("max_concurrency", &self.max_concurrency)
            .field("idle_timeout", &self.idle_timeout)
            .field("retry_after_cap", &self.retry_after_cap)
            .field("user_agent", &self.user_agent)
            .finish()
    }
}

/// One signing secret.
#[derive(Debug, Clone)]
pub struct WebhookSecret {
    /// `whsec_` and the base64 of 24 to 64 random bytes.
    pub secret: SecretString,
    /// The last moment, by this host's clock, at which calls are still signed with it; `None` for the current secret.
    pub not_after: Option<Moment>,
}

impl WebhookSecret {
    /// A secret without an end.
    pub fn new(secret: SecretString) -> Self {
        Self { secret, not_after: None }
    }
}

/// The form of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WebhookFormat {
    /// Standard Webhooks 1.0: `{type, timestamp, data}`, signed with HMAC-SHA256 (`v1`).
    #[default]
    StandardWebhooks,
}

impl WebhookFormat {
    /// The stable word of the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StandardWebhooks => "standard-webhooks",
        }
    }

    /// The format behind a word of the configuration.
    pub fn from_word(word: &str) -> Option<Self> {
        (word == Self::StandardWebhooks.as_str()).then_some(Self::StandardWebhooks)
    }
}
