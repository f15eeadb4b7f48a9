//! Why a call failed, as text that may be stored, logged and shown: bounded, printable, without secrets.

use secrecy::{ExposeSecret, SecretString};

use crate::error::escaped;

/// The longest reason, in bytes.
const MAX_BYTES: usize = 4096;

/// Shorter secrets are not searched for: they would also strike ordinary words.
const SEARCHED_MIN: usize = 8;

/// Makes reasons for one endpoint.
pub(super) struct Reasons {
    origin: String,
    secrets: Vec<SecretString>,
}

impl Reasons {
    /// Reasons that begin with `origin` and never show one of `secrets`, although the endpoint may echo what it was sent.
    pub fn new<'a>(origin: String, secrets: impl IntoIterator<Item = &'a SecretString>) -> Self {
        let mut found: Vec<String> = Vec::new();
        for secret in secrets {
            let whole = secret.expose_secret();
            // `Bearer <token>`: the token alone is as secret.
            found.extend([whole, whole.rsplit(' ').next().unwrap_or_default()].map(str::to_owned));
        }
        found.retain(|secret| secret.len() >= SEARCHED_MIN);
        // The longest first, so that no part of one is left standing.
        found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { origin, secrets: found.into_iter().map(SecretString::from).collect() }
    }

    /// `http://host:port: what`.
    pub fn say(&self, what: &str) -> String {
        let mut text = what.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.expose_secret()) {
                text = text.replace(secret.expose_secret(), "[redacted]");
            }
        }
        self.cut(&format!("{}: {text}", self.origin))
    }

    /// [`say`](Self::say), followed by what the endpoint wrote, as far as it fits.
    pub fn say_with(&self, what: &str, body: &[u8]) -> String {
        match String::from_utf8_lossy(body).trim() {
            "" => self.say(what),
            body => self.say(&format!("{what}: {body}")),
        }
    }

    fn cut(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len().min(MAX_BYTES));
        // Cut before the escaping as well, which may lengthen a text tenfold.
        for piece in text.chars().take(MAX_BYTES) {
            let piece = escaped(piece.encode_utf8(&mut [0; 4]));
            if out.len() + piece.len() > MAX_BYTES - "…".len() {
                out.push('…');
                break;
            }
            out.push_str(&piece);
        }
        out
    }
}
