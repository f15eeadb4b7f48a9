//! A shop's endpoint that does what it is told: a small HTTP/1.1 server that records every call and answers by script, also in ways
//! that no honest server would.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// One call as it arrived.
#[derive(Debug, Clone)]
pub struct Call {
    /// Milliseconds since the epoch, by this host's clock, when its last byte was read.
    pub arrived_ms: u64,
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Names in lower case, in the order of arrival.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Which connection it came over, counted from 1.
    pub connection: u64,
}

impl Call {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The order's id, from the signed body.
    pub fn id(&self) -> String {
        self.data()["id"].as_str().unwrap_or_default().to_owned()
    }

    /// The `data` of the body.
    pub fn data(&self) -> serde_json::Value {
        let body: serde_json::Value = serde_json::from_slice(&self.body).expect("a JSON body");
        body["data"].clone()
    }
}

/// What the stub does with a call.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub after: Duration,
    pub body: Body,
}

/// The body, or what comes instead of an answer.
#[derive(Debug, Clone)]
pub enum Body {
    Text(Vec<u8>),
    /// So many bytes in chunks of 16 KiB, until the client has had enough.
    Giant(u64),
    /// One byte each so often, for ever, in chunks.
    Drip(Duration),
    /// Announces more than it sends, then closes.
    CutShort(Vec<u8>),
    /// These bytes and nothing else, head included; the connection stays open.
    Raw(Vec<u8>),
    /// These bytes and nothing else, head included; then the connection closes.
    Broken(Vec<u8>),
    /// Closes the connection without a word.
    Drop,
    /// Never answers.
    Hang,
}

impl Answer {
    pub fn status(status: u16) -> Self {
        Self { status, headers: Vec::new(), after: Duration::ZERO, body: Body::Text(Vec::new()) }
    }

    /// `{"verdict": …}` and more members, under `status`.
    pub fn verdict(status: u16, body: &str) -> Self {
        Self::status(status).body(body)
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Body::Text(body.into());
        self
    }

    pub fn of(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    pub fn after(mut self, delay: Duration) -> Self {
        self.after = delay;
        self
    }
}

#[derive(Default)]
struct Script {
    calls: Mutex<Vec<Call>>,
    /// For each id, what is still to be answered; the last one stays.
    by_id: Mutex<HashMap<String, Vec<Answer>>>,
    otherwise: Mutex<Option<Answer>>,
    connections: AtomicU64,
    open: AtomicU64,
    answered: AtomicU64,
}

/// The server; it ends when dropped.
pub struct Stub {
    address: SocketAddr,
    scheme: &'static str,
    script: Arc<Script>,
    server: JoinHandle<()>,
}

/// How a stub behaves as a server.
#[derive(Clone)]
pub struct StubSettings {
    /// Where it listens; port 0 for any.
    pub listen: SocketAddr,
    /// Closes a connection on which nothing came for so long.
    pub idle_close: Option<Duration>,
    /// Whether calls are kept and scripts looked up; off for measuring.
    pub record: bool,
    #[cfg(feature = "webhook")]
    pub tls: Option<Arc<rustls::ServerConfig>>,
}

impl Default for StubSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            idle_close: None,
            record: true,
            #[cfg(feature = "webhook")]
            tls: None,
        }
    }
}

impl Stub {
    /// Plain HTTP on a free port of 127.0.0.1, answering 200 to everything.
    pub async fn start() -> Self {
        Self::start_as(StubSettings::default()).await
    }

    pub async fn start_as(settings: StubSettings) -> Self {
        let listener = TcpListener::bind(settings.listen).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let script = Arc::new(Script::default());
        #[cfg(feature = "webhook")]
        let tls = settings.tls.clone().map(tokio_rustls::TlsAcceptor::from);
        #[cfg(feature = "webhook")]
        let scheme = if tls.is_some() { "https" } else { "http" };
        #[cfg(not(feature = "webhook"))]
        let scheme = "http";
        let served = script.clone();
        let server = tokio::spawn(async move {
            // Aborted together with the server.
            let mut serving = tokio::task::JoinSet::new();
            loop {
                let Ok((tcp, _)) = listener.accept().await else { return };
                tcp.set_nodelay(true).expect("nodelay");
                let number = served.connections.fetch_add(1, Ordering::Relaxed) + 1;
                let (script, settings) = (served.clone(), settings.clone());
                #[cfg(feature = "webhook")]
                if let Some(tls) = tls.clone() {
                    serving.spawn(async move {
                        let _open = Open::new(&script);
                        if let Ok(stream) = tls.accept(tcp).await {
                            serve(stream, number, &script, &settings).await;
                        }
                    });
                    continue;
                }
                serving.spawn(async move {
                    let _open = Open::new(&script);
                    serve(tcp, number, &script, &settings).await;
                });
                while serving.try_join_next().is_some() {}
            }
        });
        Self { address, scheme, script, server }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of `path`, by address.
    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    /// Answers calls for `id` by these, one after the other; the last one again and again.
    pub fn script(&self, id: &str, answers: Vec<Answer>) {
        assert!(!answers.is_empty(), "a script needs an answer");
        self.script.by_id.lock().unwrap().insert(id.to_owned(), answers);
    }

    /// Answers all other calls so.
    pub fn otherwise(&self, answer: Answer) {
        *self.script.otherwise.lock().unwrap() = Some(answer);
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.script.calls.lock().unwrap().clone()
    }

    /// The calls for one id.
    pub fn calls_for(&self, id: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.id() == id).collect()
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.script.connections.load(Ordering::Relaxed)
    }

    /// Connections open at this moment.
    pub fn open(&self) -> u64 {
        self.script.open.load(Ordering::Relaxed)
    }

    /// Calls read so far, also when they are not recorded.
    pub fn answered(&self) -> u64 {
        self.script.answered.load(Ordering::Relaxed)
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Counts a connection while it is open.
struct Open<'a>(&'a AtomicU64);

impl<'a> Open<'a> {
    fn new(script: &'a Script) -> Self {
        script.open.fetch_add(1, Ordering::Relaxed);
        Self(&script.open)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves one connection until either side ends it.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    number: u64,
    script: &Script,
    settings: &StubSettings,
) {
    let mut buffer = Vec::with_capacity(4096);
    loop {
        let call = read_call(&mut stream, &mut buffer, number, settings.record);
        let call = match settings.idle_close {
            // The clock starts anew with each answer; a call that is on its way when it rings is not read.
            Some(limit) => match tokio::time::timeout(limit, call).await {
                Ok(call) => call,
                Err(_) => return,
            },
            None => call.await,
        };
        let Some(call) = call else { return };
        script.answered.fetch_add(1, Ordering::Relaxed);
        if !settings.record {
            if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.is_err() {
                return;
            }
            continue;
        }
        let answer = script.next_answer(&call);
        script.calls.lock().unwrap().push(call);
        if answer.after > Duration::ZERO {
            tokio::time::sleep(answer.after).await;
        }
        if !write_answer(&mut stream, &answer).await {
            return;
        }
    }
}

impl Script {
    fn next_answer(&self, call: &Call) -> Answer {
        let body: serde_json::Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let id = body["data"]["id"].as_str().unwrap_or_default();
        if let Some(answers) = self.by_id.lock().unwrap().get_mut(id) {
            return if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        }
        self.otherwise.lock().unwrap().clone().unwrap_or_else(|| Answer::status(200))
    }
}

/// The next call, or `None` when the connection ended. `buffer` keeps what came after it.
async fn read_call<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
    connection: u64,
    record: bool,
) -> Option<Call> {
    let head_end = loop {
        if let Some(at) = find(buffer, b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = std::str::from_utf8(&buffer[..head_end]).expect("a head in UTF-8");
    let mut lines = head.trim_end().split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let method = first.next().unwrap_or_default().to_owned();
    let path = first.next().unwrap_or_default().to_owned();
    let mut length = 0;
    let mut headers = Vec::new();
    for line in lines {
        let (name, value) = line.split_once(':').expect("a header line");
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().expect("a length");
        }
        if record {
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    while buffer.len() < head_end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = if record { buffer[head_end..head_end + length].to_vec() } else { Vec::new() };
    buffer.drain(..head_end + length);
    let arrived_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    Some(Call { arrived_ms, method, path, headers, body, connection })
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// Whether the connection may serve another call.
async fn write_answer<S: AsyncWrite + Unpin>(stream: &mut S, answer: &Answer) -> bool {
    let mut head = format!("HTTP/1.1 {} Answer\r\n", answer.status).into_bytes();
    for (name, value) in &answer.headers {
        head.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    match &answer.body {
        Body::Text(body) => {
            // These carry no body, whatever a header says.
            if !matches!(answer.status, 204 | 304) {
                head.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
            }
            head.extend_from_slice(b"\r\n");
            head.extend_from_slice(body);
            stream.write_all(&head).await.is_ok()
        }
        Body::Giant(bytes) => {
            head.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
            let mut chunk = b"4000\r\n".to_vec();
            chunk.extend(std::iter::repeat_n(b'x', 0x4000));
            chunk.extend_from_slice(b"\r\n");
            let mut sent = stream.write_all(&head).await;
            for _ in 0..bytes.div_ceil(0x4000) {
                if sent.is_err() {
                    return false;
                }
                sent = stream.write_all(&chunk).await;
            }
            stream.write_all(b"0\r\n\r\n").await.is_ok()
        }
        Body::Drip(every) => {
            head.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
            let mut sent = stream.write_all(&head).await;
            while sent.is_ok() {
                tokio::time::sleep(*every).await;
                sent = stream.write_all(b"1\r\nx\r\n").await;
            }
            false
        }
        Body::CutShort(body) => {
            head.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len() + 100).as_bytes());
            head.extend_from_slice(body);
            drop(stream.write_all(&head).await);
            false
        }
        Body::Raw(bytes) => stream.write_all(bytes).await.is_ok(),
        Body::Broken(bytes) => {
            drop(stream.write_all(bytes).await);
            false
        }
        Body::Drop => false,
        Body::Hang => std::future::pending().await,
    }
}
