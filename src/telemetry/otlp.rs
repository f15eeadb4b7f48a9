//! Spans, sent to a collector by OTLP (http/protobuf) as the standard `OTEL_*` variables say. Nothing is sent unless one of them asks
//! for it, and a collector that is away costs spans, never an order.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use opentelemetry::{KeyValue, global};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;

/// The longest wait for the collector, unless the environment says otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Of an answer that is kept; what it says beyond is not needed.
const MOST_ANSWER: usize = 64 * 1024;
/// For the last spans, at the end.
const FAREWELL: Duration = Duration::from_secs(3);
/// One failure in so many is said: there may be one every few seconds.
const SAID: u32 = 20;

/// The running exporter.
#[derive(Debug)]
pub struct Exporter {
    provider: SdkTracerProvider,
}

impl Exporter {
    /// Starts exporting where the environment asks for it: an endpoint is named, or `OTEL_TRACES_EXPORTER` is `otlp`. Called within the
    /// runtime that is to send.
    pub fn start() -> Result<Option<Self>, String> {
        if !is_asked_for()? {
            return Ok(None);
        }
        let client = Client {
            runtime: Handle::current(),
            tls: tls()?,
            timeout: timeout()?,
            failures: AtomicU32::new(0),
        };
        let exporter = SpanExporter::builder().with_http().with_http_client(client).build();
        let exporter = exporter.map_err(|e| format!("spans cannot be exported: {e}"))?;
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
        global::set_tracer_provider(provider.clone());
        crate::trace::export();
        Ok(Some(Self { provider }))
    }

    /// Sends what is left, and ends.
    pub async fn end(self) {
        // It waits for a thread of its own, which needs this runtime to send.
        let shut_down = tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(FAREWELL));
        match shut_down.await {
            Ok(Ok(())) => {}
            Ok(Err(e)) => tracing::warn!(error = %e, "the last spans may be lost"),
            Err(e) => tracing::warn!(error = %e, "the last spans may be lost"),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

fn is_asked_for() -> Result<bool, String> {
    if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(false);
    }
    let named = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
    let asked = match variable("OTEL_TRACES_EXPORTER").as_deref() {
        None => named.into_iter().any(|name| variable(name).is_some()),
        Some("otlp") => true,
        Some("none") => false,
        Some(other) => {
            return Err(format!(
                "OTEL_TRACES_EXPORTER \"{}\": expected otlp or none",
                crate::error::shown(other)
            ));
        }
    };
    let protocols = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
    if let Some((name, protocol)) = protocols.iter().find_map(|name| Some((name, variable(name)?)))
        && asked
        && protocol != "http/protobuf"
    {
        return Err(format!("{name} \"{}\": expected http/protobuf", crate::error::shown(&protocol)));
    }
    Ok(asked)
}

fn timeout() -> Result<Duration, String> {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
    let Some((name, value)) = names.iter().find_map(|name| Some((name, variable(name)?))) else {
        return Ok(TIMEOUT);
    };
    let millis = value.trim().parse().map(Duration::from_millis);
    millis.map_err(|_| format!("{name} \"{}\": expected milliseconds", crate::error::shown(&value)))
}

/// Who sends: `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`, else our own name.
fn resource() -> Resource {
    let named = variable("OTEL_SERVICE_NAME").is_some()
        || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|all| all.contains("service.name="));
    let builder =
        Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if named { builder.build() } else { builder.with_service_name("duewheel").build() }
}

fn tls() -> Result<TlsConnector, String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("TLS cannot be set up: {e}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Sends one request on a connection of its own: there is one every few seconds.
struct Client {
    runtime: Handle,
    tls: TlsConnector,
    timeout: Duration,
    failures: AtomicU32,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

type Answering<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Client {
    fn send_bytes<'life0, 'async_trait>(&'life0 self, request: Request<Bytes>) -> Answering<'async_trait>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            // The exporter's own thread knows no runtime.
            let (tls, limit) = (self.tls.clone(), self.timeout);
            let sent = self.runtime.spawn(async move {
                match tokio::time::timeout(limit, send(&tls, request)).await {
                    Ok(answer) => answer,
                    Err(_) => Err(format!("no answer within {limit:?}").into()),
                }
            });
            let answer = sent.await.unwrap_or_else(|e| Err(e.into()));
            self.say(&answer);
            answer
        })
    }
}

impl Client {
    fn say(&self, answer: &Result<Response<Bytes>, HttpError>) {
        let problem = match answer {
            Ok(answer) if answer.status().is_success() => {
                self.failures.store(0, Ordering::Relaxed);
                return;
            }
            Ok(answer) => answer.status().to_string(),
            Err(e) => e.to_string(),
        };
        if self.failures.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAID) {
            tracing::warn!(problem, "spans could not be exported");
        }
    }
}

async fn send(tls: &TlsConnector, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
    let uri = request.uri().clone();
    let host = uri.host().ok_or("the endpoint names no host")?;
    let is_tls = uri.scheme_str() == Some("https");
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let tcp = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
    if is_tls {
        let name = rustls::pki_types::ServerName::try_from(host.trim_matches(['[', ']']).to_owned())?;
        exchange(tls.connect(name, tcp).await?, request).await
    } else {
        exchange(tcp, request).await
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let (mut head, body) = request.into_parts();
    if let Some(authority) = head.uri.authority() {
        head.headers.insert(HOST, HeaderValue::try_from(authority.as_str())?);
    }
    head.uri = head.uri.path_and_query().map_or("/", |path| path.as_str()).parse()?;
    let answer = sender.send_request(Request::from_parts(head, Full::new(body))).await?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, MOST_ANSWER).collect().await?.to_bytes();
    driver.abort();
    Ok(Response::from_parts(head, body))
}
