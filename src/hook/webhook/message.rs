//! One call as it is sent: the body, the headers, and what ties them together. docs/hook-webhook.md is its reference.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::http::{Method, Request, Uri};

use super::signature::Signer;
use crate::clock::Moment;
use crate::deadline::{Payload, Stage};
use crate::lease::Lease;
use crate::shard::WheelName;
use crate::trace::{self, Traceparent};

/// The first line of what `duewheel-signature` covers. No `webhook-id` begins so, therefore no signature of a body can be passed off
/// as one of headers, or the other way round.
const HEADERS_SIGNED_AS: &str = "duewheel-headers-v1\n";

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const ENQUEUED_IN: HeaderName = HeaderName::from_static("duewheel-traceparent");
const DUEWHEEL_SIGNATURE: HeaderName = HeaderName::from_static("duewheel-signature");

/// The headers of the lease, in the order in which they are signed.
const LEASE_HEADERS: [HeaderName; 8] = [
    HeaderName::from_static("duewheel-wheel"),
    HeaderName::from_static("duewheel-id"),
    HeaderName::from_static("duewheel-generation"),
    HeaderName::from_static("duewheel-stage"),
    HeaderName::from_static("duewheel-due-at"),
    HeaderName::from_static("duewheel-cause"),
    HeaderName::from_static("duewheel-attempt"),
    HeaderName::from_static("duewheel-fence"),
];

/// Headers that a call sets itself, or that would change what the connection does. An endpoint's own `headers` may not name them.
pub(super) fn is_reserved(name: &HeaderName) -> bool {
    const NAMES: [&str; 16] = [
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "te",
        "traceparent",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    ];
    let name = name.as_str();
    NAMES.contains(&name) || ["webhook-", "duewheel-", "proxy-"].iter().any(|prefix| name.starts_with(prefix))
}

/// `<wheel>_<id>_<generation>_<stage>`: the same for every attempt of one stage of one life of an id, and never that of another. An
/// encoded id holds no `_`, so that reading from the right is unambiguous; nothing holds a `.`, which the signature uses as separator.
pub(super) fn webhook_id(wheel: &WheelName, lease: &Lease) -> String {
    let id = encoded_id(lease.id.as_str());
    format!("{wheel}_{id}_{}_{}", lease.generation, lease.stage.0)
}

/// An id as it may stand in a header: letters, digits and `-` as they are, every other byte as `~` and two upper-case hex digits.
fn encoded_id(id: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut out = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            out.push(char::from(byte));
        } else {
            out.push('~');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
    out
}

/// The request for one attempt, signed now; an error, as a fragment, when no secret is valid any more.
pub(super) fn request(
    uri: &Uri,
    base: &HeaderMap,
    signer: &Signer,
    wheel: &WheelName,
    lease: &Lease,
) -> Result<Request<Full<Bytes>>, String> {
    let now = Moment::host_now();
    let timestamp = (now.as_millis() / 1000).to_string();
    let id = webhook_id(wheel, lease);
    let body = body(wheel, lease, now);

    let signature = signer.sign(now, &[id.as_bytes(), b".", timestamp.as_bytes(), b".", &body]);
    if signature.is_empty() {
        return Err("not sent, because no signing secret is valid any more".to_owned());
    }
    let mut headers = base.clone();
    let mut signed = String::with_capacity(512);
    signed.push_str(HEADERS_SIGNED_AS);
    let values = [
        wheel.to_string(),
        encoded_id(lease.id.as_str()),
        lease.generation.to_string(),
        lease.stage.0.to_string(),
        lease.due_at.to_string(),
        lease.cause.as_str().to_owned(),
        lease.attempt.to_string(),
        lease.fence.to_string(),
    ];
    let idempotency_key = format!("\"{id}\"");
    for (name, value) in
        [(ID, id), (TIMESTAMP, timestamp)].into_iter().chain(LEASE_HEADERS.into_iter().zip(values))
    {
        signed.push_str(name.as_str());
        signed.push(':');
        signed.push_str(&value);
        signed.push('\n');
        put(&mut headers, name, value);
    }
    put(&mut headers, SIGNATURE, signature);
    put(&mut headers, DUEWHEEL_SIGNATURE, signer.sign(now, &[signed.as_bytes()]));
    put(&mut headers, IDEMPOTENCY_KEY, idempotency_key);
    if let Some(traceparent) = trace::outgoing(lease.traceparent.as_deref()) {
        put(&mut headers, TRACEPARENT, traceparent);
    }
    if let Some(enqueued) = lease.traceparent.as_deref().and_then(Traceparent::parse) {
        put(&mut headers, ENQUEUED_IN, enqueued.to_string());
    }

    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri.clone();
    *request.headers_mut() = headers;
    Ok(request)
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: String) {
    // Every value is printable ASCII by construction, so none is left out.
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

/// `{type, timestamp, data}`. The payload stands last and byte for byte.
fn body(wheel: &WheelName, lease: &Lease, now: Moment) -> Vec<u8> {
    let kind = if lease.stage == Stage::CLOSE { "order.close_due" } else { "order.reminder_due" };
    let mut out = Vec::with_capacity(384 + lease.payload.as_bytes().len());
    let mut text = |text: &str| out.extend_from_slice(text.as_bytes());
    text(&format!(r#"{{"type":"{kind}","timestamp":"{now}","data":{{"wheel":"{wheel}","id":"#));
    text(&quoted(lease.id.as_str()));
    text(&format!(
        r#","generation":{},"stage":{},"due_at":"{}","cause":"{}","attempt":{},"fence":{}"#,
        lease.generation,
        lease.stage.0,
        lease.due_at,
        lease.cause.as_str(),
        lease.attempt,
        lease.fence
    ));
    if let Some(note) = &lease.note {
        text(&format!(r#","actor":{},"reason":{}"#, quoted(&note.actor), quoted(&note.reason)));
    }
    match embeddable(&lease.payload) {
        Some(json) => text(&format!(r#","payload":{json}}}}}"#)),
        None => {
            use base64::Engine;
            let base64 = base64::engine::general_purpose::STANDARD.encode(lease.payload.as_bytes());
            text(&format!(r#","payload":null,"payload_base64":"{base64}"}}}}"#));
        }
    }
    out
}

/// The payload as it may stand inside the body. What Redis holds is not trusted: text that is no JSON could end the object and begin
/// another, with another id and fence, under our signature. Such a payload travels as base64, so that its order is closed all the same.
fn embeddable(payload: &Payload) -> Option<&str> {
    if payload.is_empty() {
        return Some("null");
    }
    let text = std::str::from_utf8(payload.as_bytes()).ok()?;
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok().map(|_| text)
}

fn quoted(text: &str) -> String {
    // A string always has a JSON form.
    serde_json::to_string(text).unwrap_or_default()
}
