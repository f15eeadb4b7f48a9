//! The gate that every request passes: who sends it, is it whole, is there room for it. What passes is handed to its handler; what does
//! not is answered here. Every answer leaves through here, too, and carries what every answer carries.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts as _, RawPathParams, Request};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONNECTION, HOST, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, Version};
use axum::response::Response;
use tokio::task::JoinError;

use super::call::{Call, Outcome};
use super::door::Door;
use super::operation::Operation;
use super::problem::Problem;
use super::query::Query;
use super::repeat::{self, Turn};
use super::seat::{Seat, carry_on};
use super::token::find;
use super::{
    Api, audit, batch, body, bulk, dead, deadlines, events, explanation, fleet, jobs, movement, overview,
};
use crate::clock::Moment;
use crate::deadline::Id;
use crate::error::shown;
use crate::trace;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Answers a request for an operation.
pub(super) async fn enter(api: Arc<Api>, operation: Operation, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let request_id = request_id(&parts.headers);
    let traceparent = parts.headers.get("traceparent").and_then(|value| value.to_str().ok());
    let traced =
        trace::Request::begin(operation.name(), parts.method.as_str(), operation.path(), traceparent);
    let (response, closes) = match answer(&api, operation, parts, body, &request_id).await {
        Ok(response) => (response, false),
        Err(problem) => {
            let closes = problem.closes();
            (problem.respond(&request_id), closes)
        }
    };
    traced.end(response.status().as_u16());
    tracing::debug!(
        request_id,
        operation = operation.name(),
        status = response.status().as_u16(),
        "answered"
    );
    let mut response = dressed(response, &request_id, closes);
    response.extensions_mut().insert(operation);
    response
}

/// Answers a request for a path that there is not.
pub(super) async fn lost(request: Request) -> Response {
    let request_id = request_id(request.headers());
    let problem = Problem::not_found("no_such_path", "there is no such path; see /openapi.json");
    dressed(problem.respond(&request_id), &request_id, false)
}

/// Answers a request for a path that there is, with a method that it does not know.
pub(super) async fn wrong_method(request: Request) -> Response {
    let request_id = request_id(request.headers());
    dressed(Problem::not_allowed().respond(&request_id), &request_id, false)
}

async fn answer(
    api: &Arc<Api>,
    operation: Operation,
    mut parts: Parts,
    body: Body,
    request_id: &str,
) -> Result<Response, Problem> {
    let sender = admit(api, operation, &parts)?;
    let kind = body::admit(operation, &parts.headers, &api.limits)?;
    let Addressed { door, named, other } = addressed(api, &mut parts).await?;
    let query = Query::parse(parts.uri.query(), operation.parameters())?;
    let body = body::read(operation, body, &api.limits).await?;
    // From here on it costs more than a buffer: only so many at once.
    if operation == Operation::Document {
        return Ok(overview::document(api));
    }
    let seat = parts.extensions.get::<Arc<Seat>>().cloned();
    let Some(door) = door else { return Ok(overview::wheels(api)) };
    let call = Call {
        door,
        named,
        other,
        query,
        headers: parts.headers,
        body,
        kind,
        sender,
        request_id: request_id.to_owned(),
        writes: operation.writes(),
    };
    let working = seat.as_ref().map(Seat::work);
    if operation == Operation::Events {
        let told = Box::pin(events::follow(api, call)).await?;
        return Ok(match working {
            Some(working) => working.hand_on(told),
            None => told,
        });
    }
    let Ok(room) = api.requests.clone().try_acquire_owned() else {
        return Err(Problem::busy("too many requests are in work; send it again later"));
    };
    if !operation.has_steps() {
        let _held = (room, working);
        return carry_out(operation, call).await;
    }
    let request_id = call.request_id.clone();
    let work = carry_on(seat.as_ref(), async move {
        let _held = (room, working);
        once(operation, call, &parts.uri).await
    });
    work.await.unwrap_or_else(|e| Err(broken(&request_id, &e)))
}

/// Carries it out, unless it was before.
async fn once(operation: Operation, call: Call, uri: &Uri) -> Outcome {
    let wheel = call.wheel().clone();
    let keyed = match repeat::begin(operation, &call, uri).await? {
        Turn::Go(keyed) => keyed,
        Turn::Was(response) => return Ok(*response),
    };
    let outcome = carry_out(operation, call).await;
    match keyed {
        Some(keyed) => keyed.end(&wheel, outcome).await,
        None => outcome,
    }
}

/// The task that carried it out did not come to its end.
fn broken(request_id: &str, error: &JoinError) -> Problem {
    tracing::error!(request_id, error = %error, "a request broke off; this is a fault of the program");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "see the server's log")
}

/// What shops ask for all day is small; all else is boxed, so that it is not carried about in each of their requests.
async fn carry_out(operation: Operation, call: Call) -> Outcome {
    match operation {
        Operation::Enqueue => deadlines::enqueue(call).await,
        Operation::EnqueueBatch => batch::enqueue(call).await,
        Operation::Cancel => deadlines::cancel(call).await,
        _ => Box::pin(carry_out_else(operation, call)).await,
    }
}

async fn carry_out_else(operation: Operation, call: Call) -> Outcome {
    match operation {
        Operation::Inspect => deadlines::inspect(call).await,
        Operation::List => deadlines::list(call).await,
        Operation::Reschedule => movement::reschedule(call).await,
        Operation::Hold => movement::hold(call).await,
        Operation::Release => movement::release(call).await,
        Operation::Paid => movement::paid(call).await,
        Operation::Close => movement::close(call).await,
        Operation::Stats => overview::stats(call).await,
        Operation::Forecast => overview::forecast(call).await,
        Operation::ListDead => dead::list(call).await,
        Operation::Revive => dead::revive(call).await,
        Operation::Drop => dead::drop(call).await,
        Operation::Pause => overview::pause(call).await,
        Operation::Resume => overview::resume(call).await,
        Operation::Explain => explanation::explain(call).await,
        Operation::Audit => audit::list(call).await,
        Operation::BeginBulk => bulk::begin(call).await,
        Operation::ListBulk => bulk::list(call).await,
        Operation::InspectBulk => bulk::inspect(call).await,
        Operation::StopBulk => bulk::stop(call).await,
        Operation::Workers => fleet::list(call).await,
        Operation::Drain => fleet::drain(call).await,
        Operation::ResumeWorker => fleet::resume(call).await,
        Operation::Jobs => jobs::list(call).await,
        Operation::RunJob => jobs::run(call).await,
        // Answered before: asked for all day, about no wheel, or without an end.
        Operation::Enqueue
        | Operation::EnqueueBatch
        | Operation::Cancel
        | Operation::Events
        | Operation::Wheels
        | Operation::Document => Err(Problem::not_found("no_such_path", "there is no such path")),
    }
}

/// Whether the sender may ask for that; answers the name of its token.
fn admit(api: &Api, operation: Operation, parts: &Parts) -> Result<Option<String>, Problem> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() || (host.is_none() && parts.version == Version::HTTP_11) {
        return Err(Problem::bad_request("bad_host", "expected one Host header"));
    }
    let Some(scope) = operation.scope() else { return Ok(None) };
    let tokens = api.tokens();
    if tokens.is_empty() {
        return unguarded(&parts.headers, host).map(|()| None);
    }
    let shown = parts.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
    let shown = std::str::from_utf8(shown).ok().and_then(|text| text.split_once(' '));
    let secret = match shown {
        Some((scheme, secret)) if scheme.eq_ignore_ascii_case("bearer") => secret.trim(),
        _ => "",
    };
    let token = find(&tokens, secret, Moment::host_now()).ok_or_else(Problem::unauthorized)?;
    if !token.allows(scope) {
        return Err(Problem::out_of_scope(scope));
    }
    Ok(Some(token.name().to_owned()))
}

/// Without tokens everybody on this machine may ask, but no page that a browser of this machine shows: neither by a form of another
/// site, nor by a name that was made to mean this machine.
fn unguarded(headers: &HeaderMap, host: Option<&HeaderValue>) -> Result<(), Problem> {
    if is_local(host) && !is_foreign(headers) {
        return Ok(());
    }
    let detail = "without tokens only this machine may ask, by localhost or a loopback address";
    Err(Problem::new(StatusCode::FORBIDDEN, "not_local", detail))
}

/// Whether the name by which it is asked can only mean this machine.
pub(super) fn is_local(host: Option<&HeaderValue>) -> bool {
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether a browser says that a page of another site asks.
pub(super) fn is_foreign(headers: &HeaderMap) -> bool {
    let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
    site.is_some_and(|site| site != b"same-origin" && site != b"none")
}

/// What a path names.
#[derive(Default)]
struct Addressed {
    door: Option<Arc<Door>>,
    named: Option<Id>,
    other: Option<String>,
}

async fn addressed(api: &Api, parts: &mut Parts) -> Result<Addressed, Problem> {
    let parameters = match RawPathParams::from_request_parts(parts, &()).await {
        Ok(parameters) => parameters,
        // A path without parameters, or one that is no UTF-8.
        Err(_) if !parts.uri.path().contains("/v1/wheels/") => return Ok(Addressed::default()),
        Err(_) => return Err(Problem::bad_request("bad_path", "the path is not UTF-8")),
    };
    let mut addressed = Addressed::default();
    for (name, value) in &parameters {
        if name == "wheel" {
            let unknown = || {
                let detail = format!("there is no wheel \"{}\"", shown(value));
                Problem::not_found("no_such_wheel", detail).of_field("wheel")
            };
            addressed.door = Some(api.doors.get(value).cloned().ok_or_else(unknown)?);
        } else if name == "id" {
            let bad = |e: crate::error::Invalid| Problem::bad_request("bad_id", e.to_string()).of_field("id");
            addressed.named = Some(Id::new(value).map_err(bad)?);
        } else {
            addressed.other = Some(value.to_owned());
        }
    }
    Ok(addressed)
}

/// The id that the client gave, where it may stand in a log line; else a new one.
pub(super) fn request_id(headers: &HeaderMap) -> String {
    let given = headers.get(&X_REQUEST_ID).and_then(|value| value.to_str().ok());
    let good = |text: &&str| {
        (1..=128).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'))
    };
    match given.filter(good) {
        Some(text) => text.to_owned(),
        None => format!("{:032x}", fastrand::u128(..)),
    }
}

/// Adds what every answer carries.
fn dressed(mut response: Response, request_id: &str, closes: bool) -> Response {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::try_from(request_id) {
        headers.insert(X_REQUEST_ID, id);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if closes {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HttpSettings, Limits};
    use crate::metrics::Metrics;

    #[test]
    fn a_request_does_not_carry_every_operation_about() {
        let settings = HttpSettings {
            listen: ([127, 0, 0, 1], 0).into(),
            tokens: Vec::new(),
            tls: None,
            base_path: String::new(),
            limits: Limits::default(),
        };
        let none = std::iter::empty::<crate::wheel::Wheel>();
        let api = Api::new(none, &settings, &Metrics::new(), tokio_util::sync::CancellationToken::new());
        let entered = enter(api, Operation::Enqueue, Request::new(Body::empty()));
        assert!(size_of_val(&entered) < 4096, "{} bytes", size_of_val(&entered));
    }

    #[tokio::test]
    async fn a_request_that_breaks_off_is_a_500_and_not_a_hang() {
        let broke = carry_on(None, async { panic!("a fault") }).await.map(|outcome: Outcome| outcome.is_ok());
        let problem = broke.map_err(|e| broken("r-1", &e)).unwrap_err();
        assert_eq!((problem.status.as_u16(), problem.code), (500, "failed"));
    }
}
