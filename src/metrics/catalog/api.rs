//! Requests to the HTTP API and the operator page.

use super::{Described, Kind, REQUESTS, Scope, Unit, describe};

describe!(
    HTTP_REQUESTS,
    "duewheel_http_requests_total",
    Counter,
    None,
    ["operation", "status"],
    Process,
    "Requests that were answered. operation: the operationId of openapi.json, page, or none where there is no such path. status: the HTTP status"
);
describe!(
    HTTP_REQUEST_DURATION,
    "duewheel_http_request_duration_seconds",
    Histogram(REQUESTS),
    Some(Unit::Seconds),
    ["operation"],
    Process,
    "From the head of a request to the head of its answer"
);
