//! Where the API listens, whom it lets in, and how much of everything it gives to one client.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::token::Token;

/// The API as it is configured.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Who may come in. Empty: everybody on this machine, and nobody else.
    pub tokens: Vec<Token>,
    /// Certificate and key for TLS; without them the API speaks plain HTTP.
    pub tls: Option<TlsFiles>,
    /// What every path of API and page begins with, where a proxy hands on only a part of its own paths: empty, or like `/duewheel`.
    pub base_path: String,
    /// What one client, and all of them, may take.
    pub limits: Limits,
}

/// Files with PEM text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those that vouch for it, its own first.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// What one client, and all of them, may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once. Beyond it the one that has been idle for longest makes room.
    pub max_connections: usize,
    /// Requests in work at once; beyond it the answer is 429.
    pub max_requests: usize,
    /// Event streams at once; beyond it the answer is 429.
    pub max_streams: usize,
    /// The longest wait for the head of a request, from when the last answer was given: idle connections end by it, too.
    pub header_timeout: Duration,
    /// The longest wait for the body of a request.
    pub body_timeout: Duration,
    /// How long a client may take none of an answer.
    pub write_timeout: Duration,
    /// How long requests in work may go on once the server is told to stop.
    pub grace: Duration,
    /// The longest body, in bytes.
    pub max_body: usize,
    /// The longest body of a batch, in bytes.
    pub max_batch_body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_requests: 1024,
            max_streams: 64,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(15),
            write_timeout: Duration::from_secs(15),
            grace: Duration::from_secs(10),
            max_body: 256 * 1024,
            max_batch_body: 8 * 1024 * 1024,
        }
    }
}
