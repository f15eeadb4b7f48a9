//! What went wrong, as a page: what happened, what it means for the orders, what to do.

use askama::Template;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;

use super::frame::Frame;
use crate::error::{Error, StoreKind};

/// What screens answer.
pub(super) type Outcome = Result<Response, Fault>;

/// A page that could not be shown, or something that was not done.
#[derive(Debug)]
pub(super) struct Fault {
    pub status: StatusCode,
    title: String,
    detail: String,
    /// Whether a look a moment later may succeed.
    passes: bool,
}

impl Fault {
    pub fn new(status: StatusCode, title: &str, detail: impl Into<String>) -> Self {
        Self { status, title: title.to_owned(), detail: detail.into(), passes: false }
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is no such page", detail)
    }

    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "That is not allowed", detail)
    }

    /// What was sent makes no sense; nothing was done.
    pub fn bad(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Nothing was done", detail)
    }

    pub fn busy() -> Self {
        let detail = "Too many requests are in work, or too many streams are open. Look again in a moment.";
        Self { passes: true, ..Self::new(StatusCode::TOO_MANY_REQUESTS, "The server is busy", detail) }
    }

    /// The answer, within the frame of the page.
    pub fn respond(&self, frame: Frame) -> Response {
        #[derive(Template)]
        #[template(path = "fault.html")]
        struct Page<'a> {
            frame: Frame,
            fault: &'a Fault,
        }
        let frame = Frame { title: self.title.clone(), ..frame };
        let page = Page { frame, fault: self };
        let mut response = Response::new(page.render().unwrap_or_else(|_| self.title.clone()).into());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        if self.passes {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("2"));
        }
        response
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Error> for Fault {
    fn from(error: &Error) -> Self {
        let kind = match error {
            Error::Invalid(invalid) => return Self::bad(invalid.to_string()),
            Error::Store { kind, .. } => *kind,
            other => return Self::new(StatusCode::INTERNAL_SERVER_ERROR, "That failed", other.to_string()),
        };
        tracing::warn!(error = %error, "a page could not be shown");
        let (title, detail) = match kind {
            StoreKind::Unreachable | StoreKind::Unknown => (
                "Redis does not answer",
                "Nothing is closed until it does; what is due meanwhile is closed late, and is not lost where there is an orders \
                 table to sweep. See whether Redis runs and is reached from this server (duewheel check).",
            ),
            StoreKind::Loading => {
                ("Redis is loading its data", "It answers by itself when it has read them.")
            }
            StoreKind::Busy => {
                ("Redis is busy", "A script of somebody blocks it. See SLOWLOG and CLIENT LIST.")
            }
            StoreKind::OutOfMemory => {
                ("Redis has no memory left", "Closing goes on; new deadlines are refused. Give it memory.")
            }
            StoreKind::ReadOnly | StoreKind::NoReplicas | StoreKind::CannotPersist => (
                "Redis takes no writes",
                "It is a replica, lacks replicas or cannot persist: duewheel check says which.",
            ),
            StoreKind::Denied => (
                "Redis refuses this server",
                "Its user or password is wrong, or it lacks a right: duewheel check says which.",
            ),
            StoreKind::Layout => (
                "The wheel has another layout",
                "Its shards or slot width in Redis are not those of this server's configuration.",
            ),
            StoreKind::Moving | StoreKind::Unformatted => ("The wheel is moving", "Look again in a moment."),
            _ => ("Redis answered something unexpected", "The server's log has it, by the request id below."),
        };
        let status = if kind.is_temporary() {
            StatusCode::SERVICE_UNAVAILABLE
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        Self { passes: kind.is_temporary(), ..Self::new(status, title, detail) }
    }
}
