//! One request as a handler sees it: read, judged and its sender known; and the answer that a handler gives.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;

use super::body::Kind;
use super::door::Door as Served;
use super::fields::Fields;
use super::problem::Problem;
use super::query::Query;
use crate::deadline::{Generation, Id, Note};
use crate::error::Error;
use crate::operator::{Door, Operator, Person};
use crate::wheel::Wheel;

/// With the token's name behind it, it must fit into a name.
const LONGEST_ACTOR: usize = 400;

/// What handlers answer.
pub(super) type Outcome = Result<Response, Problem>;

/// One request.
pub(super) struct Call {
    pub door: Arc<Served>,
    /// The deadline that the path names; [`Call::id`] where the path has one.
    pub named: Option<Id>,
    /// What else the path names: a worker, a job, a bulk act; [`Call::part`] where the path has one.
    pub other: Option<String>,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub kind: Kind,
    /// The name of the token; `None` where nobody needs one.
    pub sender: Option<String>,
    pub request_id: String,
    pub writes: bool,
}

impl Call {
    pub fn wheel(&self) -> &Wheel {
        &self.door.wheel
    }

    /// The deadline that the path names.
    pub fn id(&self) -> Result<&Id, Problem> {
        self.named.as_ref().ok_or_else(|| Problem::unprocessable("id", "id: is missing"))
    }

    /// What else the path names.
    pub fn part(&self) -> &str {
        self.other.as_deref().unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.body).map_err(|_| Problem::bad_request("bad_json", "the body is not UTF-8"))
    }

    /// The members of the body; no body is an object without any.
    pub fn fields(&self, names: &'static [&'static str]) -> Result<Fields<'_>, Problem> {
        let text = self.text()?;
        Fields::parse(if text.is_empty() && self.may_be_empty() { "{}" } else { text }, names)
    }

    fn may_be_empty(&self) -> bool {
        !self.headers.contains_key(CONTENT_TYPE)
    }

    /// What a broken world makes of this request.
    pub fn failed(&self, error: &Error) -> Problem {
        let problem = Problem::failed(error, self.writes);
        if problem.status.is_server_error() {
            tracing::warn!(request_id = self.request_id, wheel = %self.wheel().name(), error = %error, "a request failed");
        }
        problem
    }

    /// Who asks: the actor that the body names and the token's name.
    pub fn operator(&self, fields: &Fields<'_>) -> Result<Operator, Problem> {
        let Some(actor) = fields.text("actor")? else { return self.bare_operator() };
        Person::new(&actor, Door::Api)?;
        if actor.len() > LONGEST_ACTOR {
            let detail = format!("actor: expected at most {LONGEST_ACTOR} bytes");
            return Err(Problem::unprocessable("actor", detail));
        }
        let name = format!("{actor} (token {})", self.sender.as_deref().unwrap_or("http"));
        Ok(Operator::new(self.wheel().clone(), Person::new(&name, Door::Api)?))
    }

    /// The same where there is no body.
    pub fn bare_operator(&self) -> Result<Operator, Problem> {
        let name = format!("token {}", self.sender.as_deref().unwrap_or("http"));
        Ok(Operator::new(self.wheel().clone(), Person::new(&name, Door::Api)?))
    }

    /// Why it is asked: the `reason` of the body, empty where there is none. One that is given says something.
    pub fn reason<'a>(&self, fields: &Fields<'a>) -> Result<Cow<'a, str>, Problem> {
        let Some(reason) = fields.text("reason")? else { return Ok(Cow::Borrowed("")) };
        Note::new("who", &reason)?;
        Ok(reason)
    }
}

/// An answer with a JSON body.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The same for one deadline, with its generation as the entity tag.
pub(super) fn tagged(status: StatusCode, value: &impl Serialize, generation: Generation) -> Response {
    let mut response = json(status, value);
    if let Ok(tag) = HeaderValue::try_from(format!("\"{generation}\"")) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}
