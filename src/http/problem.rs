//! What went wrong, as RFC 9457 says it: `application/problem+json` with a code that never changes.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::token::Scope;
use crate::deadline::Id;
use crate::error::{Error, Invalid, StoreKind};
use crate::wheel::answer::Refusal;
use crate::wheel::shape::refusal_json;

/// The media type.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// A refusal or failure, as the client gets it.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub status: StatusCode,
    /// The stable word.
    pub code: &'static str,
    detail: String,
    rest: Box<Rest>,
}

/// What most problems have little of.
#[derive(Debug, Clone, Default)]
struct Rest {
    /// The parameter or member that is to blame.
    field: Option<String>,
    /// Seconds after which to ask again.
    retry_after: Option<u32>,
    /// What `WWW-Authenticate` says.
    challenge: Option<String>,
    /// More members.
    more: Map<String, Value>,
    /// Whether the connection is closed after the answer.
    closes: bool,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), rest: Box::default() }
    }

    /// Whether the connection is closed after the answer.
    pub fn closes(&self) -> bool {
        self.rest.closes
    }

    /// With the field to blame.
    pub fn of_field(mut self, field: &str) -> Self {
        self.rest.field = Some(field.to_owned());
        self
    }

    /// With the connection closed after the answer: what still comes in is not read.
    pub fn closing(mut self) -> Self {
        self.rest.closes = true;
        self
    }

    /// 400: the request makes no sense as HTTP or as JSON.
    pub fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// 422: understood, and not acceptable.
    pub fn unprocessable(field: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail).of_field(field)
    }

    pub fn not_found(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// 405; the router adds what is allowed.
    pub fn not_allowed() -> Self {
        let what = "the path is known, but not with this method; see Allow";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", what)
    }

    pub fn unsupported(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
    }

    /// 413. What follows of the body is not read.
    pub fn too_large(most: usize) -> Self {
        let detail = format!("the body is longer than {most} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail).closing()
    }

    /// 408. What follows of the body is not read.
    pub fn too_slow() -> Self {
        let detail = "the body did not come in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "body_timeout", detail).closing()
    }

    /// With when to ask again, in seconds.
    pub fn after(mut self, seconds: u32) -> Self {
        self.rest.retry_after = Some(seconds);
        self
    }

    fn challenging(mut self, challenge: String) -> Self {
        self.rest.challenge = Some(challenge);
        self
    }

    /// 429.
    pub fn busy(detail: &str) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "busy", detail).after(1)
    }

    /// 401. The same for a token that is missing, unknown or expired.
    pub fn unauthorized() -> Self {
        let detail = "expected the header Authorization: Bearer TOKEN with a token that is valid";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
            .challenging("Bearer realm=\"duewheel\"".to_owned())
    }

    /// 403: the token is good, but not for this.
    pub fn out_of_scope(scope: Scope) -> Self {
        let scope = scope.as_str();
        let challenge = format!("Bearer realm=\"duewheel\", error=\"insufficient_scope\", scope=\"{scope}\"");
        let detail = format!("the token lacks the scope {scope}");
        Self::new(StatusCode::FORBIDDEN, "out_of_scope", detail).challenging(challenge)
    }

    /// A verb that found the deadline in another state.
    pub fn refused(wheel: &str, id: &Id, refusal: &Refusal) -> Self {
        let status = match refusal {
            Refusal::Absent => StatusCode::NOT_FOUND,
            Refusal::Generation { .. } => StatusCode::PRECONDITION_FAILED,
            _ => StatusCode::CONFLICT,
        };
        let mut problem = Self::new(status, refusal.as_str(), said(refusal));
        if let Value::Object(mut members) = refusal_json(wheel, id.as_str(), refusal) {
            members.remove("outcome");
            problem.rest.more = members;
        }
        problem
    }

    /// A broken world. `writes` says whether the call would have changed something, so that a lost answer leaves it open.
    pub fn failed(error: &Error, writes: bool) -> Self {
        let kind = match error {
            Error::Invalid(invalid) => return invalid.into(),
            Error::Store { kind, .. } => *kind,
            _ => return Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "see the server's log"),
        };
        let (status, retry_after) = match kind {
            StoreKind::Denied | StoreKind::Layout | StoreKind::Corrupt | StoreKind::Other => {
                (StatusCode::INTERNAL_SERVER_ERROR, None)
            }
            StoreKind::OutOfMemory => (StatusCode::SERVICE_UNAVAILABLE, Some(10)),
            _ => (StatusCode::SERVICE_UNAVAILABLE, Some(1)),
        };
        let stored = if writes && !kind.is_harmless() { "unknown" } else { "no" };
        let code = if kind == StoreKind::Unknown { "outcome_unknown" } else { kind.as_str() };
        let detail = match (kind, stored) {
            (StoreKind::Unknown, "unknown") => {
                "the answer of Redis was lost: it may or may not be done; the same request may be sent again"
            }
            (StoreKind::Unknown, _) => "the answer of Redis was lost; nothing was changed",
            (StoreKind::OutOfMemory, _) => "Redis has no memory left; nothing was stored",
            (_, "unknown") => "Redis holds something that it should not; it may be half done",
            _ => "Redis does not serve this now; nothing was changed",
        };
        let mut problem = Self::new(status, code, detail);
        problem.rest.retry_after = retry_after;
        if writes {
            problem.rest.more.insert("stored".to_owned(), stored.into());
        }
        problem
    }

    /// The members of the problem, for a place within another answer.
    pub fn members(&self) -> Map<String, Value> {
        let mut members = self.rest.more.clone();
        members.insert("status".to_owned(), self.status.as_u16().into());
        members.insert("code".to_owned(), self.code.into());
        members.insert("detail".to_owned(), self.detail.as_str().into());
        if let Some(field) = &self.rest.field {
            members.insert("field".to_owned(), field.as_str().into());
        }
        members
    }

    /// The answer to the request of that id.
    pub fn respond(self, request_id: &str) -> Response {
        let mut members = self.members();
        let title = self.status.canonical_reason().unwrap_or("Error");
        members.insert("type".to_owned(), format!("urn:duewheel:problem:{}", self.code).into());
        members.insert("title".to_owned(), title.into());
        members.insert("request_id".to_owned(), request_id.into());
        let mut response = Response::new(Body::from(json!(members).to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(seconds) = self.rest.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = self.rest.challenge.and_then(|text| HeaderValue::try_from(text).ok()) {
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl From<&Invalid> for Problem {
    fn from(invalid: &Invalid) -> Self {
        Self::unprocessable(&invalid.field, invalid.to_string())
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self::from(&invalid)
    }
}

fn said(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Absent => "nothing is known of it",
        Refusal::Leased => "a worker has it right now; nothing was changed",
        Refusal::Dead => "it is dead and waits for a person; nothing was changed",
        Refusal::Scheduled => "it is scheduled; nothing was changed",
        Refusal::Ended(_) => "it has ended; nothing was changed",
        Refusal::Conflict { .. } => {
            "it is scheduled for another moment; nothing was changed (see on_conflict)"
        }
        Refusal::Generation { .. } => "its generation is another one; nothing was changed",
        Refusal::HoldCap { .. } => "it may not be held longer; nothing was changed",
        Refusal::NotHeld => "it is not held; nothing was changed",
    }
}
