//! The frame that every HTTP door of this program stands in: it listens, bounds what clients may take, speaks TLS, and stops gracefully.
//! What is served is the router's business.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::seat::{Seats, Taken};
use super::settings::Limits;
use super::stall::Stall;
use super::tls::Tls;
use crate::error::{Invalid, Result};

/// The longest head of a request, in bytes: line and headers. Longer ones are answered with 431.
const MAX_HEAD: usize = 32 * 1024;
/// What is said where every seat is taken by a connection that works.
const NO_SEAT: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// A listening HTTP/1.1 server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
    tls: Option<Arc<Tls>>,
}

impl Server {
    /// Listens on `address`; port 0 takes a free one. `field` names the setting or flag in the refusal.
    pub async fn bind(field: &str, address: SocketAddr, limits: Limits) -> Result<Self> {
        let refused = |e: std::io::Error| Invalid::new(field, &address.to_string(), e.to_string());
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        Ok(Self { listener, address, limits, tls: None })
    }

    /// Speaks TLS instead of plain HTTP.
    #[must_use]
    pub fn with_tls(self, tls: Arc<Tls>) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop`, then lets requests in work go on within the grace. Each request carries its connection's
    /// [`Seat`](super::seat::Seat) and the client's [`SocketAddr`] as extensions.
    pub async fn run(self, router: Router, stop: CancellationToken) {
        let seats = Seats::new(self.limits.max_connections);
        let open = TaskTracker::new();
        let end = CancellationToken::new();
        let frame = Arc::new(Frame {
            service: TowerToHyperService::new(router),
            limits: self.limits,
            tls: self.tls,
            stop: stop.clone(),
            end: end.clone(),
        });
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, client)) => match seats.take() {
                    Some(taken) => {
                        open.spawn(frame.clone().connection(stream, client, taken));
                    }
                    None => {
                        // As much as fits at once: nobody is waited for here.
                        let _ = stream.try_write(NO_SEAT);
                    }
                },
                Err(e) if e.kind() == ErrorKind::ConnectionAborted => {}
                Err(e) => {
                    tracing::warn!(error = %e, "a connection could not be accepted");
                    seats.make_room();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
        drop(self.listener);
        open.close();
        let ended = async {
            open.wait().await;
            // What clients began that have hung up since.
            seats.acts_end().await;
        };
        if tokio::time::timeout(frame.limits.grace, ended).await.is_err() {
            end.cancel();
            open.wait().await;
        }
    }
}

/// What all connections share.
struct Frame {
    service: TowerToHyperService<Router>,
    limits: Limits,
    tls: Option<Arc<Tls>>,
    /// No further requests.
    stop: CancellationToken,
    /// The grace is over.
    end: CancellationToken,
}

impl Frame {
    async fn connection(self: Arc<Self>, stream: TcpStream, client: SocketAddr, taken: Taken) {
        let _ = stream.set_nodelay(true);
        let stream = Stall::new(stream, self.limits.write_timeout);
        let talk = async {
            match &self.tls {
                None => self.talk(stream, client, &taken).await,
                Some(tls) => {
                    let greeting = tls.acceptor().accept(stream);
                    match tokio::time::timeout(self.limits.header_timeout, greeting).await {
                        Ok(Ok(stream)) => self.talk(stream, client, &taken).await,
                        Ok(Err(e)) => tracing::debug!(%client, error = %e, "TLS was not agreed on"),
                        Err(_) => {}
                    }
                }
            }
        };
        tokio::select! {
            () = talk => {}
            () = taken.seat.wanted() => tracing::debug!(%client, "its seat was needed"),
            () = self.end.cancelled() => {}
        }
    }

    async fn talk<S>(&self, stream: S, client: SocketAddr, taken: &Taken)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            taken.seat.touch();
            request.extensions_mut().insert(taken.seat.clone());
            request.extensions_mut().insert(client);
            self.service.call(request.map(Body::new))
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_timeout)
            .max_buf_size(MAX_HEAD)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let outcome = tokio::select! {
            outcome = connection.as_mut() => outcome,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(e) = outcome {
            tracing::debug!(%client, error = %e, "a connection ended early");
        }
    }
}
