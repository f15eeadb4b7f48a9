//! The body of a request: of a kind that is understood, no longer and no later than allowed.

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use super::operation::{Operation, Takes};
use super::problem::Problem;
use super::settings::Limits;

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One JSON value; also where there is none.
    Json,
    /// JSON values, one a line.
    Lines,
}

/// Refuses by the head alone, before anything of the body is read. What has no body is JSON.
pub(super) fn admit(operation: Operation, headers: &HeaderMap, limits: &Limits) -> Result<Kind, Problem> {
    let takes = operation.takes();
    if takes == Takes::Nothing {
        return Ok(Kind::Json);
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|text| text.to_str().ok()?.parse::<u64>().ok());
    let most = most(operation, limits);
    if length.is_some_and(|length| length > most as u64) {
        return Err(Problem::too_large(most));
    }
    if let Some(coding) = headers.get(CONTENT_ENCODING)
        && !coding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(Problem::unsupported("a compressed body is not taken; send it as it is"));
    }
    if takes == Takes::Perhaps && length.unwrap_or(0) == 0 && !headers.contains_key(TRANSFER_ENCODING) {
        return Ok(Kind::Json);
    }
    let given = headers.get(CONTENT_TYPE).map_or(Ok(""), |text| text.to_str()).unwrap_or("?");
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let utf8 = given.split(';').skip(1).all(|parameter| {
        let parameter = parameter.trim().to_ascii_lowercase();
        parameter.strip_prefix("charset=").is_none_or(|charset| charset.trim_matches('"') == "utf-8")
    });
    match (essence.as_str(), takes) {
        ("application/json", _) if utf8 => Ok(Kind::Json),
        ("application/x-ndjson" | "application/jsonl", Takes::Batch) if utf8 => Ok(Kind::Lines),
        (_, Takes::Batch) => {
            Err(Problem::unsupported("expected Content-Type: application/json or application/x-ndjson"))
        }
        _ => Err(Problem::unsupported("expected Content-Type: application/json")),
    }
}

/// Reads it whole.
pub(super) async fn read(operation: Operation, body: Body, limits: &Limits) -> Result<Bytes, Problem> {
    if operation.takes() == Takes::Nothing {
        return Ok(Bytes::new());
    }
    let most = most(operation, limits);
    let reading = Limited::new(body, most).collect();
    match tokio::time::timeout(limits.body_timeout, reading).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(e)) if e.is::<LengthLimitError>() => Err(Problem::too_large(most)),
        Ok(Err(_)) => {
            Err(Problem::bad_request("bad_body", "the body ended early or is not framed as it says")
                .closing())
        }
        Err(_) => Err(Problem::too_slow()),
    }
}

fn most(operation: Operation, limits: &Limits) -> usize {
    if operation.takes() == Takes::Batch { limits.max_batch_body } else { limits.max_body }
}
