//! `/livez`, `/readyz` and `/metrics`: for the machines that watch a process. They need no token and tell no ids, so they stand on a
//! port of their own, which belongs to the inside.

use std::sync::Arc;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::worker::{Check, Health};

/// What the probes look at.
#[derive(Debug, Clone)]
pub struct Probes {
    metrics: Metrics,
    workers: Vec<Arc<Health>>,
    /// When a server without workers ends.
    stop: Option<CancellationToken>,
}

impl Probes {
    /// These metrics, and the health of these workers.
    pub fn new(metrics: Metrics, workers: Vec<Arc<Health>>) -> Self {
        Self { metrics, workers, stop: None }
    }

    /// A process without workers: ready until `stop`, while it still answers what is in work.
    pub fn of_server(metrics: Metrics, stop: CancellationToken) -> Self {
        Self { metrics, workers: Vec::new(), stop: Some(stop) }
    }

    fn ending(&self) -> Option<Check> {
        let is_ending = self.stop.as_ref()?.is_cancelled();
        Some(Check { name: "serving".to_owned(), problem: is_ending.then(|| "draining".to_owned()) })
    }

    /// The routes.
    pub fn router(self) -> Router {
        Router::new()
            .route("/livez", get(alive))
            .route("/healthz", get(alive))
            .route("/readyz", get(ready))
            .route("/metrics", get(scrape))
            .with_state(self)
    }
}

async fn alive(State(probes): State<Probes>, RawQuery(query): RawQuery) -> Response {
    answer("livez", probes.workers.iter().flat_map(|worker| worker.alive()).collect(), query.as_deref())
}

async fn ready(State(probes): State<Probes>, RawQuery(query): RawQuery) -> Response {
    let checks = probes.workers.iter().flat_map(|worker| worker.ready());
    answer("readyz", checks.chain(probes.ending()).collect(), query.as_deref())
}

/// `ok`, or 503 and what is wrong; with `?verbose` every check on a line of its own.
fn answer(probe: &str, checks: Vec<Check>, query: Option<&str>) -> Response {
    let verbose =
        query.is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some("verbose")));
    let failed = checks.iter().any(|check| check.problem.is_some());
    let mut text = String::new();
    for check in checks.iter().filter(|check| verbose || check.problem.is_some()) {
        match &check.problem {
            None => text.push_str(&format!("[+] {}: ok\n", check.name)),
            Some(problem) => text.push_str(&format!("[-] {}: {problem}\n", check.name)),
        }
    }
    let (status, end) = if failed {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{probe} failed\n"))
    } else {
        (StatusCode::OK, if verbose { format!("{probe} passed\n") } else { "ok\n".to_owned() })
    };
    text.push_str(&end);
    let headers = [(header::CONTENT_TYPE, "text/plain; charset=utf-8"), (header::CACHE_CONTROL, "no-store")];
    (status, headers, text).into_response()
}

async fn scrape(State(probes): State<Probes>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let exposition = probes.metrics.scrape(accept);
    ([(header::CONTENT_TYPE, exposition.content_type)], exposition.text).into_response()
}
