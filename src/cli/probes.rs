//! The port of a process that answers scrapes and probes.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::context::Context;
use super::failure::Failure;
use crate::http::health::Probes;
use crate::http::{Limits, Server};

/// A probe or a scrape says at once what it wants.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers for as long as the handle is kept; bound before the work begins, so that a taken port is met at once. Nothing where none is
/// configured.
pub async fn answer(context: &Context, probes: Probes) -> Result<Option<AbortOnDropHandle<()>>, Failure> {
    let Some(address) = context.config.metrics.listen else { return Ok(None) };
    let limits = Limits { max_connections: 1024, header_timeout: HEADER_TIMEOUT, ..Limits::default() };
    let server = Server::bind("metrics.listen", address, limits).await?;
    tracing::info!(address = %server.address(), "answering /metrics, /livez and /readyz");
    let answering = tokio::spawn(server.run(probes.router(), CancellationToken::new()));
    Ok(Some(AbortOnDropHandle::new(answering)))
}
