//! Connections kept between calls, and the one race that keeping them brings: the server closes an idle connection while a call is
//! already on its way to it. Connections are therefore kept for less time than servers keep them, the one used last is used first, and
//! a call that dies on a used connection before a byte of the answer was heard is sent again, once, over a new one. The receiver may
//! have seen it twice then; it carries the same `webhook-id` both times.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HeaderMap;
use hyper::http::{Request, Response};
use hyper_util::rt::TokioIo;

use super::connector::Connector;

/// What is read of an answer's body. An answer of ours is below 1 KiB; the rest of a longer one is not read, and its connection is
/// closed.
pub(super) const BODY_MAX: usize = 64 * 1024;

/// What is buffered of an answer's head; also the largest piece of a body in memory.
const HEAD_MAX: usize = 128 * 1024;

/// What came back.
#[derive(Debug)]
pub(super) struct Reply {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, at most [`BODY_MAX`] bytes of it.
    pub body: Vec<u8>,
    /// Why the body ended before its own end, where the server or the network ended it. A body that is merely too long is whole.
    pub broken: Option<String>,
}

/// The connections of one endpoint.
pub(super) struct Pool {
    connector: Connector,
    idle: Arc<Mutex<Idle>>,
    idle_timeout: Duration,
}

#[derive(Default)]
struct Idle {
    /// The oldest at the front.
    connections: VecDeque<Connection>,
    /// Whether a task watches over their age.
    watched: bool,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    heard: Arc<AtomicU64>,
    kept_until: Instant,
}

impl Pool {
    /// No connection yet.
    pub fn new(connector: Connector, idle_timeout: Duration) -> Self {
        Self { connector, idle: Arc::default(), idle_timeout }
    }

    /// Makes a connection and drops it: whether the endpoint can be reached, and its certificate accepted.
    pub async fn probe(&self) -> Result<(), String> {
        self.connector.connect().await.map(drop)
    }

    /// Sends what `request` makes and reads the answer; `connected` is told when a connection stands. Ends by itself only when the
    /// server does: the caller brings the time limit, and dropping this future closes the connection. The error is a fragment.
    pub async fn call(
        &self,
        request: impl Fn() -> Result<Request<Full<Bytes>>, String>,
        connected: impl Fn(),
    ) -> Result<Reply, String> {
        if let Some(mut connection) = self.kept().await {
            connected();
            let before = connection.heard.load(Ordering::Relaxed);
            match connection.sender.send_request(request()?).await {
                Ok(response) => return Ok(self.read(connection, response).await),
                Err(e) if connection.heard.load(Ordering::Relaxed) != before => {
                    return Err(fragment("the answer broke off", &e));
                }
                // Closed while idle. Not an attempt, and not over another kept connection: that may be as dead.
                Err(_) => {}
            }
        }
        let mut connection = self.fresh().await?;
        connected();
        match connection.sender.send_request(request()?).await {
            Ok(response) => Ok(self.read(connection, response).await),
            Err(e) => Err(fragment("no valid answer", &e)),
        }
    }

    /// A connection that is still open, as far as one can know; the one used last.
    async fn kept(&self) -> Option<Connection> {
        loop {
            let mut connection = lock(&self.idle).connections.pop_back()?;
            if connection.is_kept(Instant::now()) && connection.sender.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }

    async fn fresh(&self) -> Result<Connection, String> {
        let wire = self.connector.connect().await?;
        let heard = wire.heard();
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(HEAD_MAX)
            .handshake(TokioIo::new(wire))
            .await
            .map_err(|e| fragment("the connection failed", &e))?;
        // It ends when the server closes the connection, or when `sender` is dropped. What it would say, the call hears too.
        tokio::spawn(async move { drop(driver.await) });
        Ok(Connection { sender, heard, kept_until: Instant::now() })
    }

    async fn read(&self, mut connection: Connection, response: Response<Incoming>) -> Reply {
        let (head, mut incoming) = response.into_parts();
        let mut reply =
            Reply { status: head.status.as_u16(), headers: head.headers, body: Vec::new(), broken: None };
        while let Some(frame) = incoming.frame().await {
            match frame.map(|frame| frame.into_data().unwrap_or_default()) {
                Ok(data) => {
                    let room = BODY_MAX - reply.body.len();
                    reply.body.extend_from_slice(&data[..data.len().min(room)]);
                    if data.len() > room {
                        return reply;
                    }
                }
                Err(e) => {
                    reply.broken = Some(fragment("the body broke off", &e));
                    return reply;
                }
            }
        }
        connection.kept_until = Instant::now() + self.kept_for(&reply.headers);
        self.keep(connection);
        reply
    }

    /// Our own idle time, or the server's where it announces a lower one, less a second for the way.
    fn kept_for(&self, headers: &HeaderMap) -> Duration {
        let announced = headers.get("keep-alive").and_then(|value| value.to_str().ok()).and_then(|value| {
            value.split(',').find_map(|part| part.trim().strip_prefix("timeout=")?.trim().parse().ok())
        });
        match announced {
            Some(seconds) => {
                self.idle_timeout.min(Duration::from_secs(seconds).saturating_sub(Duration::from_secs(1)))
            }
            None => self.idle_timeout,
        }
    }

    fn keep(&self, connection: Connection) {
        let mut idle = lock(&self.idle);
        idle.connections.push_back(connection);
        if !idle.watched {
            idle.watched = true;
            tokio::spawn(watch(Arc::downgrade(&self.idle), self.idle_timeout));
        }
    }
}

impl Connection {
    fn is_kept(&self, now: Instant) -> bool {
        now < self.kept_until && !self.sender.is_closed()
    }
}

/// Closes kept connections whose time is over, until none is left or the hook is gone.
async fn watch(idle: Weak<Mutex<Idle>>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut idle = lock(&idle);
        let now = Instant::now();
        idle.connections.retain(|connection| connection.is_kept(now));
        if idle.connections.is_empty() {
            idle.watched = false;
            return;
        }
    }
}

fn lock(idle: &Mutex<Idle>) -> MutexGuard<'_, Idle> {
    // Nothing in here panics between two states; a poisoned lock would still hold whole connections.
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The error and its causes, as one fragment.
fn fragment(what: &str, error: &hyper::Error) -> String {
    let mut text = format!("{what}: {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}
