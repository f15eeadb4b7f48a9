//! One visit to a screen: whose it is, which wheel, what was asked; and the ways to answer it.

use std::sync::Arc;

use askama::Template;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, LOCATION, SET_COOKIE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::Seen;
use super::cookie::{self, Jar};
use super::fault::{Fault, Outcome};
use super::frame::{Flash, Frame};
use super::parameters::Parameters;
use crate::http::Api;
use crate::http::door::Door;
use crate::wheel::Wheel;

/// The longest text of a flash, in bytes: browsers keep 4 KiB of a cookie.
const LONGEST_FLASH: usize = 1500;

/// One visit, by somebody who may see the screen.
pub(super) struct Visit {
    pub api: Arc<Api>,
    pub door: Arc<Door>,
    /// The frame of the answer, but for its title.
    pub frame: Frame,
    pub query: Parameters,
    /// What was posted.
    pub form: Parameters,
    pub jar: Jar,
}

impl Visit {
    pub fn wheel(&self) -> &Wheel {
        &self.door.wheel
    }

    /// What was seen of the wheel a moment ago.
    pub fn seen(&self) -> Result<&Seen, Fault> {
        let seen = self.api.page.seen(self.wheel());
        seen.ok_or_else(|| Fault::not_found("This server does not serve that wheel."))
    }

    /// The orders table that the hook declares, where this server knows it.
    #[cfg(feature = "sql")]
    pub fn table(&self) -> Option<&std::sync::Arc<crate::sweep::Inquiry>> {
        self.door.served.table.as_ref()
    }

    /// How often the orders table is swept, where that is known.
    pub fn sweep_every(&self) -> Option<std::time::Duration> {
        let has_table = {
            #[cfg(feature = "sql")]
            {
                self.table().is_some()
            }
            #[cfg(not(feature = "sql"))]
            false
        };
        let key = format!("wheel.{}.sweep.every", self.wheel().name());
        let setting = self.door.served.settings.iter().find(|setting| has_table && setting.key == key)?;
        // A cron expression says no distance; its runs are told from the workers' logs.
        crate::clock::parse_duration("", setting.value.trim_matches('"')).ok()
    }

    /// The frame of the screen of this title.
    pub fn frame(&self, title: impl Into<String>) -> Frame {
        Frame { title: title.into(), ..self.frame.clone() }
    }

    /// Answers with a page.
    pub fn page(&self, template: &impl Template) -> Outcome {
        let mut response = html(template)?;
        if self.frame.flash.is_some() {
            response
                .headers_mut()
                .extend(self.jar.set(cookie::FLASH, "", Some(0)).map(|set| (SET_COOKIE, set)));
        }
        Ok(response)
    }

    /// Ends an act: back to where the form was, which then says what came of it.
    pub fn done(&self, good: bool, text: impl Into<String>) -> Outcome {
        let fallback = self.frame.at("");
        let back = own_path(&self.frame.base, self.form.exact("back")).unwrap_or(&fallback);
        self.go(back, good, text)
    }

    /// Ends an act at another page of this server.
    pub fn go(&self, to: &str, good: bool, text: impl Into<String>) -> Outcome {
        let mut response = redirect(to);
        let mut text = text.into();
        while text.len() > LONGEST_FLASH {
            text.pop();
        }
        let flash = URL_SAFE_NO_PAD.encode(format!("{}{text}", if good { '+' } else { '-' }));
        response
            .headers_mut()
            .extend(self.jar.set(cookie::FLASH, &flash, Some(60)).map(|set| (SET_COOKIE, set)));
        Ok(response)
    }
}

/// What a flash cookie says. Whoever could set one could only make us show a sentence.
pub(super) fn read_flash(value: &str) -> Option<Flash> {
    let bytes = URL_SAFE_NO_PAD.decode(value).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (good, text) = text
        .strip_prefix('+')
        .map(|text| (true, text))
        .or(text.strip_prefix('-').map(|text| (false, text)))?;
    Some(Flash { good, text: text.to_owned() })
}

/// A rendered template.
pub(super) fn html(template: &impl Template) -> Outcome {
    let text = template.render().map_err(|e| {
        tracing::error!(error = %e, "a template could not be rendered");
        Fault::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "That failed",
            "The page could not be put together; the server's log has why.",
        )
    })?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    Ok(response)
}

/// 303: see there. What is no header value leads home.
pub(super) fn redirect(to: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let location = HeaderValue::try_from(to).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, location);
    response
}

/// A path of this server, or nothing: a form or link of others must not send anybody away from here.
pub(super) fn own_path<'a>(base: &str, path: &'a str) -> Option<&'a str> {
    let inside = path.strip_prefix(base)?;
    let good = inside.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|b| (b'!'..=b'~').contains(&b) && b != b'\\');
    good.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_path_of_this_server_is_gone_back_to() {
        assert_eq!(own_path("", "/wheels/a?x=%20"), Some("/wheels/a?x=%20"));
        assert_eq!(own_path("/dw", "/dw/wheels/a"), Some("/dw/wheels/a"));
        for bad in ["", "//evil", "/\\evil", "https://evil", "javascript:x", "/a b", "/a\nb", "/ü"] {
            assert_eq!(own_path("", bad), None, "{bad}");
        }
        for bad in ["/wheels", "/dwx/wheels", "/dw", "//dw/"] {
            assert_eq!(own_path("/dw", bad), None, "{bad}");
        }
    }
}
