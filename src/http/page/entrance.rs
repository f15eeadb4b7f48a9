//! The entrance of the page: who comes, from where, and whether they may. Every answer leaves through here, too, and carries the headers
//! that keep a browser from doing more than showing it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use http_body_util::{BodyExt as _, Limited};

use super::cookie::{self, Jar};
use super::fault::{Fault, Outcome};
use super::frame::Frame;
use super::parameters::{Link, Parameters};
use super::screen::Screen;
use super::visit::{Visit, read_flash, redirect};
use crate::clock::Moment;
use crate::error::shown;
use crate::http::seat::{Seat, carry_on};
use crate::http::token::{Scope, Token, find};
use crate::http::{Api, gate};

/// What a browser may do with a page: take style, script and data from here, and nothing from elsewhere or from within.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// The longest form of somebody who may act, in bytes: 500 ids of 200 bytes, each as three characters a byte.
const LONGEST_FORM: usize = 512 * 1024;
/// The longest form of anybody: a token or a word, and a path to go on to. Half of what the head of a request may be.
const LONGEST_OF_ANYBODY: usize = 16 * 1024;

/// Somebody who may come in.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    /// The token's name; `None` where nobody needs one.
    pub name: Option<String>,
    pub may_read: bool,
    pub may_operate: bool,
}

impl Sender {
    pub fn holding(token: &Token) -> Self {
        Self {
            name: Some(token.name().to_owned()),
            may_read: token.allows(Scope::Read),
            may_operate: token.allows(Scope::Operate),
        }
    }
}

/// Where a request comes from, as the browser says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A page of this server.
    Own,
    /// A page of others.
    Foreign,
    /// It does not say: no browser, or one on a plain connection that was told to send no referrer.
    Silent,
}

/// What every answer to this request needs, whoever sent it.
pub(super) struct Arrival {
    pub base: String,
    pub jar: Jar,
    pub request_id: String,
    theme: &'static str,
    here: String,
}

impl Arrival {
    pub fn of(api: &Api, parts: &Parts) -> Self {
        let base = api.base_path.clone();
        let forwarded = parts.headers.get(X_FORWARDED_PROTO).is_some_and(|proto| proto == "https");
        let path = if base.is_empty() { "/".to_owned() } else { base.clone() };
        let theme = match cookie::read(&parts.headers, cookie::THEME) {
            Some("light") => "light",
            Some("dark") => "dark",
            _ => "",
        };
        let inside = parts.uri.path_and_query().map_or("/", |all| all.as_str());
        Self {
            jar: Jar { path, secure: api.is_tls || forwarded },
            request_id: gate::request_id(&parts.headers),
            theme,
            here: format!("{base}{inside}"),
            base,
        }
    }

    /// The frame of a page, without title and wheel.
    pub fn frame(&self, sender: Option<&Sender>) -> Frame {
        Frame {
            base: self.base.clone(),
            theme: self.theme,
            who: sender.and_then(|sender| sender.name.clone()),
            may_read: sender.is_some_and(|sender| sender.may_read),
            may_operate: sender.is_some_and(|sender| sender.may_operate),
            here: self.here.clone(),
            request_id: self.request_id.clone(),
            ..Frame::default()
        }
    }

    /// The login, which leads back to where this request wanted to go.
    pub fn login(&self) -> Response {
        redirect(&Link::to(format!("{}/login", self.base)).with("next", &self.here).to_string())
    }

    /// Adds what every answer carries.
    pub fn dressed(&self, mut response: Response) -> Response {
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::try_from(&self.request_id) {
            headers.insert(HeaderName::from_static("x-request-id"), id);
        }
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// Answers a request for a screen.
pub(super) async fn enter(api: Arc<Api>, screen: &'static Screen, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let arrival = Arrival::of(&api, &parts);
    let sender = match admit(&api, &parts) {
        Ok(Some(sender)) => sender,
        Ok(None) if screen.acts() && origin(&parts.headers) == Origin::Foreign => {
            // A browser keeps the cookie back; whoever it is, a page of others sent it.
            let fault = Fault::forbidden("A page of others may not do that. Nothing was done.");
            return arrival.dressed(fault.respond(arrival.frame(None)));
        }
        Ok(None) if screen.acts() || !is_document(&parts.headers) => {
            let detail = "You are not logged in any more. Nothing was done; log in and try again.";
            let fault = Fault::new(StatusCode::UNAUTHORIZED, "Log in again", detail);
            return arrival.dressed(fault.respond(arrival.frame(None)));
        }
        Ok(None) => return arrival.dressed(arrival.login()),
        Err(fault) => return arrival.dressed(fault.respond(arrival.frame(None))),
    };
    let mut frame = arrival.frame(Some(&sender));
    frame.wheels = api.doors.keys().cloned().collect();
    frame.screen = screen.path;
    let response = match answer(&api, screen, parts, body, &sender, &arrival, &mut frame).await {
        Ok(response) => response,
        Err(fault) => fault.respond(frame),
    };
    tracing::debug!(
        request_id = arrival.request_id,
        screen = screen.path,
        status = response.status().as_u16(),
        "showed a page"
    );
    arrival.dressed(response)
}

async fn answer(
    api: &Arc<Api>,
    screen: &'static Screen,
    mut parts: Parts,
    body: Body,
    sender: &Sender,
    arrival: &Arrival,
    frame: &mut Frame,
) -> Outcome {
    if !sender.may_read {
        return Err(Fault::forbidden("Your token lacks the scope read."));
    }
    if screen.acts() {
        if origin(&parts.headers) != Origin::Own {
            let detail = "The request does not say that it comes from a page of this server, so nothing was done. Over a plain connection \
                          browsers do not say it: open the page by https, or by localhost.";
            return Err(Fault::forbidden(detail));
        }
        if !sender.may_operate {
            return Err(Fault::forbidden("Your token lacks the scope operate. Nothing was done."));
        }
    }
    let parameters = RawPathParams::from_request_parts(&mut parts, &()).await;
    let name = parameters
        .ok()
        .and_then(|all| all.iter().find(|(name, _)| *name == "wheel").map(|(_, value)| value.to_owned()));
    let name = name.unwrap_or_default();
    let Some(door) = api.doors.get(&name).cloned() else {
        frame.wheel = frame.wheels.first().cloned().unwrap_or_default();
        return Err(Fault::not_found(format!("This server has no wheel \"{}\".", shown(&name))));
    };
    frame.wheel = name;
    frame.flash = cookie::read(&parts.headers, cookie::FLASH).and_then(read_flash);
    let form = if screen.acts() { read_form(body, LONGEST_FORM, api).await? } else { Parameters::default() };
    let Ok(room) = api.requests.clone().try_acquire_owned() else { return Err(Fault::busy()) };
    let seat = parts.extensions.get::<Arc<Seat>>();
    let working = seat.map(Seat::work);
    let query = Parameters::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let visit = Visit { api: api.clone(), door, frame: frame.clone(), query, form, jar: arrival.jar.clone() };
    let shown = (screen.show)(visit);
    if !screen.acts() {
        let shown = shown.await?;
        return Ok(match working {
            Some(working) => working.hand_on(shown),
            None => shown,
        });
    }
    // A browser that is closed meanwhile leaves no act half done.
    let work = carry_on(seat, async move {
        let _held = (room, working);
        shown.await
    });
    work.await.unwrap_or_else(|e| {
        tracing::error!(request_id = arrival.request_id, error = %e, "an act broke off; this is a fault of the program");
        let detail = "The server broke off while it did that. Its log has why; look at what was done.";
        Err(Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "That failed", detail))
    })
}

/// Who sends it; `None` where somebody must log in first.
pub(super) fn admit(api: &Api, parts: &Parts) -> Result<Option<Sender>, Fault> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(Fault::new(StatusCode::BAD_REQUEST, "Nothing was done", "Expected one Host header."));
    }
    let tokens = api.tokens();
    if tokens.is_empty() {
        // A link on a page of others may be followed; nothing else of theirs is answered.
        let followed = parts.method == Method::GET
            && parts.headers.get(SEC_FETCH_DEST).is_some_and(|dest| dest == "document");
        return if gate::is_local(host) && (followed || !gate::is_foreign(&parts.headers)) {
            Ok(Some(Sender { name: None, may_read: true, may_operate: true }))
        } else {
            Err(Fault::forbidden(
                "Without tokens only this machine may look, by localhost or a loopback address.",
            ))
        };
    }
    let now = Moment::host_now();
    let bearer = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer
        .and_then(|text| text.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let by_header = bearer.and_then(|(_, secret)| find(&tokens, secret.trim(), now));
    let by_cookie = || {
        cookie::read(&parts.headers, cookie::SESSION)
            .and_then(|value| api.page.sessions.open(&tokens, value, now))
    };
    Ok(by_header.or_else(by_cookie).map(Sender::holding))
}

/// Where the browser says that the request comes from.
pub(super) fn origin(headers: &HeaderMap) -> Origin {
    if let Some(site) = headers.get(SEC_FETCH_SITE) {
        return if site == "same-origin" { Origin::Own } else { Origin::Foreign };
    }
    let host = headers.get(HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    match headers.get(ORIGIN).and_then(|origin| origin.to_str().ok()) {
        None | Some("null") => Origin::Silent,
        Some(origin) => {
            let own =
                origin.split_once("://").is_some_and(|(_, at)| at.as_bytes().eq_ignore_ascii_case(host));
            if own { Origin::Own } else { Origin::Foreign }
        }
    }
}

/// Whether a browser is to show the answer, rather than a script to read it. Who does not say is shown a page.
fn is_document(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_DEST).is_none_or(|dest| dest == "document")
}

/// Whether a page of others led here.
pub(super) fn is_followed_link(headers: &HeaderMap) -> bool {
    headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "cross-site" || site == "same-site")
}

/// Reads a form of somebody who need not have shown a token.
pub(super) async fn read_form_of_anybody(body: Body, api: &Api) -> Result<Parameters, Fault> {
    read_form(body, LONGEST_OF_ANYBODY, api).await
}

async fn read_form(body: Body, longest: usize, api: &Api) -> Result<Parameters, Fault> {
    let reading = Limited::new(body, longest).collect();
    match tokio::time::timeout(api.limits.body_timeout, reading).await {
        Ok(Ok(collected)) => Ok(Parameters::parse(&collected.to_bytes())),
        Ok(Err(_)) => Err(Fault::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "Nothing was done",
            "The form is too long, or ended early.",
        )),
        Err(_) => {
            Err(Fault::new(StatusCode::REQUEST_TIMEOUT, "Nothing was done", "The form did not come in time."))
        }
    }
}

/// Whether a request that leads nowhere came from a browser that looks for a page.
fn wants_page(request: &Request) -> bool {
    let accepts = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
    accepts.is_some_and(|accept| accept.contains("text/html")) && !request.uri().path().starts_with("/v1")
}

/// Answers a request for a path that there is not.
pub(in crate::http) async fn lost(State(api): State<Arc<Api>>, request: Request) -> Response {
    if !wants_page(&request) {
        return gate::lost(request).await;
    }
    astray(&api, request, Fault::not_found("The address is misspelt, or from another version of duewheel."))
}

/// Answers a request for a path that there is, with a method that it does not know.
pub(in crate::http) async fn wrong_method(State(api): State<Arc<Api>>, request: Request) -> Response {
    if !wants_page(&request) {
        return gate::wrong_method(request).await;
    }
    let detail =
        "This address takes what a form sends, and nothing was sent. Go back to the page that you came from.";
    astray(&api, request, Fault::new(StatusCode::METHOD_NOT_ALLOWED, "There is nothing to see here", detail))
}

fn astray(api: &Api, request: Request, fault: Fault) -> Response {
    let (parts, _) = request.into_parts();
    let arrival = Arrival::of(api, &parts);
    let sender = admit(api, &parts).ok().flatten();
    let mut frame = arrival.frame(sender.as_ref());
    if sender.is_some_and(|sender| sender.may_read) {
        frame.wheels = api.doors.keys().cloned().collect();
        frame.wheel = frame.wheels.first().cloned().unwrap_or_default();
    }
    frame.screen = "?";
    arrival.dressed(fault.respond(frame))
}
