//! Coming and going: the token once, a cookie from then on. And the two addresses that only lead on.

use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::response::Response;

use super::cookie;
use super::entrance::{Arrival, Origin, Sender, admit, is_followed_link, origin, read_form_of_anybody};
use super::fault::{Fault, Outcome};
use super::frame::Frame;
use super::parameters::{Link, Parameters};
use super::session::LIFE;
use super::visit::{html, own_path, redirect};
use crate::clock::Moment;
use crate::http::Api;
use crate::http::token::{Scope, find};

/// The longest path that a login leads on to: as a form has it, each byte may be three characters.
const LONGEST_NEXT: usize = 4096;

#[derive(Template)]
#[template(path = "login.html")]
struct Page {
    frame: Frame,
    next: String,
    problem: &'static str,
    hours: u64,
}

#[derive(Template)]
#[template(path = "again.html")]
struct Again {
    to: String,
}

/// `GET /` and `GET /wheels`: the first wheel.
pub(super) async fn home(State(api): State<Arc<Api>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let arrival = Arrival::of(&api, &parts);
    arrival.dressed(match (admit(&api, &parts), api.doors.keys().next()) {
        (Err(fault), _) => fault.respond(arrival.frame(None)),
        (Ok(None), _) => arrival.login(),
        (_, Some(wheel)) => redirect(&format!("{}/wheels/{wheel}", arrival.base)),
        (_, None) => Fault::not_found("This server has no wheel.").respond(arrival.frame(None)),
    })
}

/// `GET /login`.
pub(super) async fn show(State(api): State<Arc<Api>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let arrival = Arrival::of(&api, &parts);
    let query = Parameters::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let next = next(&arrival, &query);
    let outcome = match admit(&api, &parts) {
        Err(fault) => Err(fault),
        Ok(Some(_)) => Ok(redirect(&next)),
        // A browser keeps the cookie back where a page of others led here; from a page of ours, which does nothing but lead on, it sends it.
        Ok(None) if is_followed_link(&parts.headers) && query.text("again").is_empty() => {
            let to = Link::to(format!("{}/login", arrival.base)).with("next", &next).with("again", "1");
            html(&Again { to: to.to_string() })
        }
        Ok(None) => html(&page(&arrival, next, "")),
    };
    arrival.dressed(outcome.unwrap_or_else(|fault| fault.respond(arrival.frame(None))))
}

/// `POST /login`.
pub(super) async fn enter(State(api): State<Arc<Api>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let arrival = Arrival::of(&api, &parts);
    let outcome = log_in(&api, &parts, body, &arrival).await;
    arrival.dressed(outcome.unwrap_or_else(|fault| fault.respond(arrival.frame(None))))
}

async fn log_in(api: &Api, parts: &Parts, body: Body, arrival: &Arrival) -> Outcome {
    if origin(&parts.headers) == Origin::Foreign {
        return Err(Fault::forbidden("A page of others may not log anybody in."));
    }
    let_in(api, arrival, &read_form_of_anybody(body, api).await?)
}

fn let_in(api: &Api, arrival: &Arrival, form: &Parameters) -> Outcome {
    let (tokens, now) = (api.tokens(), Moment::host_now());
    let next = next(arrival, form);
    if tokens.is_empty() {
        return Ok(redirect(&next));
    }
    let secret = form.text("token");
    let problem = match find(&tokens, secret, now) {
        None => "That is no token of this server, or its time is over.",
        Some(token) if !token.allows(Scope::Read) => "That token lacks the scope read, which looking needs.",
        Some(token) => {
            let Some(set) = api
                .page
                .sessions
                .seal(token, secret, now)
                .and_then(|value| arrival.jar.set(cookie::SESSION, &value, Some(LIFE.as_secs())))
            else {
                return Err(Fault::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "That failed",
                    "The system gives no random bytes.",
                ));
            };
            tracing::info!(token = token.name(), request_id = arrival.request_id, "logged in to the page");
            let mut response = redirect(&next);
            response.headers_mut().insert(SET_COOKIE, set);
            return Ok(response);
        }
    };
    tracing::warn!(request_id = arrival.request_id, "a login to the page was refused");
    let mut response = html(&page(arrival, next, problem))?;
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    Ok(response)
}

/// `POST /logout`.
pub(super) async fn leave(State(api): State<Arc<Api>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let arrival = Arrival::of(&api, &parts);
    if origin(&parts.headers) == Origin::Foreign {
        return arrival.dressed(
            Fault::forbidden("A page of others may not log anybody out.").respond(arrival.frame(None)),
        );
    }
    if let Some(value) = cookie::read(&parts.headers, cookie::SESSION) {
        api.page.sessions.end(&api.tokens(), value, Moment::host_now());
    }
    let mut response = redirect(&format!("{}/login", arrival.base));
    response.headers_mut().extend(arrival.jar.set(cookie::SESSION, "", Some(0)).map(|set| (SET_COOKIE, set)));
    arrival.dressed(response)
}

/// `POST /theme`: light, dark, or what the browser prefers.
pub(super) async fn theme(State(api): State<Arc<Api>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let arrival = Arrival::of(&api, &parts);
    let outcome = set_theme(&api, &parts, body, &arrival).await;
    arrival.dressed(outcome.unwrap_or_else(|fault| fault.respond(arrival.frame(None))))
}

async fn set_theme(api: &Api, parts: &Parts, body: Body, arrival: &Arrival) -> Outcome {
    if origin(&parts.headers) == Origin::Foreign {
        return Err(Fault::forbidden("A page of others may not do that."));
    }
    let form = read_form_of_anybody(body, api).await?;
    let home = format!("{}/", arrival.base);
    let mut response = redirect(own_path(&arrival.base, form.exact("back")).unwrap_or(&home));
    let (value, seconds) = match form.text("theme") {
        "light" => ("light", 365 * 86_400),
        "dark" => ("dark", 365 * 86_400),
        _ => ("", 0),
    };
    response
        .headers_mut()
        .extend(arrival.jar.set(cookie::THEME, value, Some(seconds)).map(|set| (SET_COOKIE, set)));
    Ok(response)
}

fn page(arrival: &Arrival, next: String, problem: &'static str) -> Page {
    let frame = Frame { title: "Log in".to_owned(), ..arrival.frame(None::<&Sender>) };
    Page { frame, next, problem, hours: LIFE.as_secs() / 3600 }
}

/// Where the login leads. A path that would not fit into its form leads nowhere but home.
fn next(arrival: &Arrival, given: &Parameters) -> String {
    let path = Some(given.exact("next")).filter(|path| path.len() <= LONGEST_NEXT);
    path.and_then(|path| own_path(&arrival.base, path))
        .map_or_else(|| format!("{}/", arrival.base), str::to_owned)
}
