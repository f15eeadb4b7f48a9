//! Requests that must not be done twice: a POST with an Idempotency-Key is answered as it was the first time. Most verbs need no such key,
//! because the id of the deadline is one.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use http_body_util::BodyExt as _;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::call::{Call, Outcome};
use super::operation::Operation;
use super::problem::Problem;
use crate::wheel::Begun;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The longest answer that is remembered, in bytes: a thousand deadlines with the longest ids need less.
const LONGEST: usize = 1024 * 1024;
/// From this length on the answer of a batch is long. Whoever sends batches all day would fill Redis with what a repeat asks for within
/// minutes or never; after that the ids themselves keep the batch from being placed twice.
const LONG_BATCH: usize = 16 * 1024;
/// How long an answer is remembered.
const KEEP: Duration = Duration::from_secs(24 * 3600);
/// How long one of a long batch is.
const KEEP_LONG_BATCH: Duration = Duration::from_secs(10 * 60);

const NOT_KEPT: &str = "this request was done before and is not done again; its answer was too long to be kept, so look at what it changed";

/// A request with a key, in work.
#[derive(Debug)]
pub(super) struct Keyed {
    key: String,
    mark: String,
    is_batch: bool,
}

/// What is to be done with a request.
pub(super) enum Turn {
    /// It is carried out; what it is answered is remembered where it has a key.
    Go(Option<Keyed>),
    /// It was carried out before, and answered so.
    Was(Box<Response>),
}

/// An answer as it is remembered.
#[derive(Serialize, Deserialize)]
struct Remembered {
    status: u16,
    kind: String,
    tag: Option<String>,
    body: String,
}

/// Looks whether it was made before.
pub(super) async fn begin(operation: Operation, call: &Call, uri: &Uri) -> Result<Turn, Problem> {
    let Some(given) = call.headers.get(&IDEMPOTENCY_KEY).filter(|_| operation.method() == Method::POST)
    else {
        return Ok(Turn::Go(None));
    };
    let given = key_of(given).ok_or_else(|| {
        let detail = "expected Idempotency-Key of 1 to 255 visible characters, in quotes or without";
        Problem::bad_request("bad_idempotency_key", detail).of_field("Idempotency-Key")
    })?;
    let sender = call.sender.as_deref().unwrap_or_default();
    let mut asked: Vec<&[u8]> = vec![operation.name().as_bytes(), uri.path().as_bytes(), &call.body];
    asked.extend(uri.query().map(str::as_bytes));
    let keyed = Keyed {
        key: hash(&[sender.as_bytes(), given.as_bytes()]),
        mark: hash(&asked),
        is_batch: operation == Operation::EnqueueBatch,
    };
    match call.wheel().begin_request(&keyed.key, &keyed.mark).await.map_err(|e| Problem::failed(&e, false))? {
        Begun::New => Ok(Turn::Go(Some(keyed))),
        Begun::Answered(text) => Ok(match serde_json::from_slice::<Remembered>(&text) {
            Ok(remembered) => Turn::Was(Box::new(remembered.respond())),
            Err(_) => return Err(Problem::new(StatusCode::CONFLICT, "answer_not_kept", NOT_KEPT)),
        }),
        Begun::InWork => {
            let detail = "the same request is in work; send it again later";
            Err(Problem::new(StatusCode::CONFLICT, "in_work", detail).after(1))
        }
        Begun::Other => {
            let detail = "another request had this Idempotency-Key";
            let problem = Problem::new(StatusCode::CONFLICT, "idempotency_key_reused", detail);
            Err(problem.of_field("Idempotency-Key"))
        }
    }
}

impl Keyed {
    /// Remembers the answer of a request that was carried out. One that failed may be made again.
    pub async fn end(self, wheel: &crate::wheel::Wheel, outcome: Outcome) -> Outcome {
        let response = match outcome {
            Ok(response) => response,
            Err(problem) => {
                // Nothing was changed, or nobody knows: either way the repeat must ask the wheel.
                self.forget(wheel).await;
                return Err(problem);
            }
        };
        let (parts, body) = response.into_parts();
        let body = body.collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
        let header = |name| Some(parts.headers.get(name)?.to_str().ok()?.to_owned());
        let remembered = Remembered {
            status: parts.status.as_u16(),
            kind: header(CONTENT_TYPE).unwrap_or_default(),
            tag: header(ETAG),
            body: String::from_utf8_lossy(&body).into_owned(),
        };
        // Nothing, where it is too long: a repeat learns at least that it was done.
        let text = if body.len() <= LONGEST {
            serde_json::to_vec(&remembered).unwrap_or_default()
        } else {
            Vec::new()
        };
        let keep = if self.is_batch && body.len() > LONG_BATCH { KEEP_LONG_BATCH } else { KEEP };
        if let Err(e) = wheel.answer_request(&self.key, &self.mark, &text, keep).await {
            tracing::warn!(error = %e, "an answer is not remembered");
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }

    async fn forget(&self, wheel: &crate::wheel::Wheel) {
        if let Err(e) = wheel.forget_request(&self.key, &self.mark).await {
            tracing::warn!(error = %e, "a request that failed is not forgotten; it is a minute from now");
        }
    }
}

impl Remembered {
    fn respond(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let headers: &mut HeaderMap = response.headers_mut();
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        for (name, text) in [(CONTENT_TYPE, Some(self.kind)), (ETAG, self.tag)] {
            if let Some(value) = text.and_then(|text| HeaderValue::try_from(text).ok()) {
                headers.insert(name, value);
            }
        }
        response
    }
}

/// The key, in the quotes of a structured field or bare.
fn key_of(value: &HeaderValue) -> Option<&str> {
    let text = value.to_str().ok()?.trim();
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let good = (1..=255).contains(&bare.len()) && bare.bytes().all(|b| b.is_ascii_graphic() && b != b'"');
    good.then_some(bare)
}

/// Of parts that cannot run into each other.
fn hash(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_same_in_quotes_and_without() {
        let of = |text: &str| key_of(&HeaderValue::from_str(text).unwrap()).map(str::to_owned);
        assert_eq!(of("\"8e03978e\""), of("8e03978e"));
        for bad in ["", "\"\"", "a b", "a\"b", &"x".repeat(256)] {
            assert_eq!(of(bad), None, "{bad}");
        }
        assert_ne!(hash(&[b"a", b"bc"]), hash(&[b"ab", b"c"]));
    }
}
