//! The HTTP API served from within the test, and a client that speaks as plainly as a test wants.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use duewheel::http::{Api, HttpSettings, Limits, Server, Token};
use duewheel::wheel::Wheel;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::HeaderMap;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::PATIENCE;
use super::redis::RedisServer;

/// A served wheel.
pub struct ApiServer {
    pub address: SocketAddr,
    pub wheel: Wheel,
    pub api: Arc<Api>,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
}

/// Settings without tokens, on a free port.
pub fn settings() -> HttpSettings {
    HttpSettings {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        tokens: Vec::new(),
        tls: None,
        base_path: String::new(),
        limits: Limits::default(),
    }
}

impl ApiServer {
    /// A wheel of its own on the shared Redis.
    pub async fn start() -> Self {
        Self::start_with(RedisServer::shared(), settings()).await
    }

    pub async fn start_with(redis: &RedisServer, settings: HttpSettings) -> Self {
        Self::of(super::wheel::wheel(redis, 4).await, settings).await
    }

    /// Serves that wheel.
    pub async fn of(wheel: Wheel, settings: HttpSettings) -> Self {
        let stop = CancellationToken::new();
        let server = Server::bind("listen", settings.listen, settings.limits.clone()).await.unwrap();
        let server = match &settings.tls {
            Some(files) => server.with_tls(Arc::new(duewheel::http::Tls::load(files).unwrap())),
            None => server,
        };
        let address = server.address();
        let api = Api::new([wheel.clone()], &settings, &duewheel::metrics::Metrics::new(), stop.clone());
        let serving = tokio::spawn(server.run(api.router(), stop.clone()));
        Self { address, wheel, api, stop, serving }
    }

    /// `/v1/wheels/NAME` and the rest.
    pub fn path(&self, rest: &str) -> String {
        format!("/v1/wheels/{}{rest}", self.wheel.name())
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Stops it, and waits until the last request is answered.
    pub async fn stop(self) {
        self.stop.cancel();
        self.serving.await.unwrap();
    }
}

/// One connection.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    pub token: Option<String>,
}

/// What was answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, token: None }
    }

    /// Sends a request with these headers.
    pub async fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = hyper::Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "localhost");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).unwrap();
        self.sender.ready().await.unwrap();
        let answer =
            tokio::time::timeout(PATIENCE, self.sender.send_request(request)).await.unwrap().unwrap();
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    /// Sends JSON.
    pub async fn json(&mut self, method: &str, path: &str, body: &str) -> Answer {
        self.send(method, path, &[("content-type", "application/json")], body).await
    }

    /// Sends nothing but a head.
    pub async fn bare(&mut self, method: &str, path: &str) -> Answer {
        self.send(method, path, &[], "").await
    }
}

impl Answer {
    /// The JSON of the body.
    #[track_caller]
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Must have this status.
    #[track_caller]
    pub fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{} {:?}", String::from_utf8_lossy(&self.body), self.headers);
        self
    }

    /// Must be a problem of this status and code, well formed.
    #[track_caller]
    pub fn problem(self, status: u16, code: &str) -> Self {
        let answer = self.is(status);
        assert_eq!(answer.header("content-type"), "application/problem+json");
        let value = answer.value();
        assert_eq!(value["code"], code, "{value}");
        assert_eq!(value["status"], status);
        assert_eq!(value["type"], format!("urn:duewheel:problem:{code}"));
        assert_eq!(value["request_id"], answer.header("x-request-id"));
        assert!(
            !value["title"].as_str().unwrap().is_empty() && !value["detail"].as_str().unwrap().is_empty()
        );
        answer
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }
}

/// Writes these bytes to a connection of its own and reads until the server closes it or says nothing for `patience`.
pub async fn raw(address: SocketAddr, bytes: &[u8], patience: Duration) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses early closes its end; that is its own business.
    let _ = stream.write_all(bytes).await;
    let (mut heard, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
    while let Ok(Ok(n)) = tokio::time::timeout(patience, stream.read(&mut buffer)).await {
        if n == 0 {
            break;
        }
        heard.extend_from_slice(&buffer[..n]);
    }
    String::from_utf8_lossy(&heard).into_owned()
}

/// A token with these scopes, and what the server keeps of it.
pub fn token(name: &str, scopes: &[duewheel::http::Scope]) -> (String, Token) {
    Token::generate(name, scopes, None).unwrap()
}
