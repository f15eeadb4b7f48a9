//! What is measured of requests: how many there were, how they were answered, and how long that took.

use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::operation::Operation;
use crate::metrics::{Metrics, catalog};

/// The series of one server.
#[derive(Debug, Clone)]
pub(super) struct Measures(Metrics);

impl Measures {
    /// The series among these.
    pub fn new(metrics: &Metrics) -> Self {
        Self(metrics.clone())
    }

    fn answered(&self, what: &str, status: u16, took: Duration) {
        self.0.counter(&catalog::HTTP_REQUESTS, &[what, &status.to_string()]).inc();
        self.0.histogram(&catalog::HTTP_REQUEST_DURATION, &[what]).observe(took, 1);
    }
}

/// Measures a request until its answer begins. An answer of the API bears its operation; what else has a route is the page's.
pub(super) async fn measure(State(measures): State<Measures>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let has_route = request.extensions().get::<MatchedPath>().is_some();
    let response = next.run(request).await;
    let operation = response.extensions().get::<Operation>().map(|operation| operation.name());
    let what = operation.unwrap_or(if has_route { "page" } else { "none" });
    measures.answered(what, response.status().as_u16(), began.elapsed());
    response
}
