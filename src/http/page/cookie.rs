//! Cookies: read leniently, written strictly.

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderValue};

/// Who is logged in.
pub(super) const SESSION: &str = "duewheel_session";
/// Light or dark, where a person has chosen.
pub(super) const THEME: &str = "duewheel_theme";
/// What the last act came to, shown once.
pub(super) const FLASH: &str = "duewheel_flash";

/// The value of a cookie that the request carries.
pub(super) fn read<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|text| text.split(';')).find_map(|pair| {
        let (given, value) = pair.trim().split_once('=')?;
        (given == name).then_some(value)
    })
}

/// Where cookies of this server are sent: only to itself, only from its own pages.
#[derive(Debug, Clone)]
pub(super) struct Jar {
    /// The path that the page lives under, `/` at least.
    pub path: String,
    /// Whether they are kept off plain connections.
    pub secure: bool,
}

impl Jar {
    /// A `Set-Cookie` header for this value, which must be of letters, digits and `-_.~`. `seconds` of 0 forgets it; `None` keeps it until the browser ends.
    pub fn set(&self, name: &str, value: &str, seconds: Option<u64>) -> Option<HeaderValue> {
        let age = seconds.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
        let secure = if self.secure { "; Secure" } else { "" };
        let text = format!("{name}={value}; Path={}; HttpOnly; SameSite=Strict{age}{secure}", self.path);
        HeaderValue::try_from(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_among_others_by_its_whole_name() {
        let mut headers = HeaderMap::new();
        headers
            .append(COOKIE, HeaderValue::from_static("a=1; xduewheel_theme=no; duewheel_theme=dark;;=; b"));
        headers.append(COOKIE, HeaderValue::from_static("duewheel_session=x~y"));
        assert_eq!(read(&headers, THEME), Some("dark"));
        assert_eq!(read(&headers, SESSION), Some("x~y"));
        assert_eq!(read(&headers, FLASH), None);
    }
}
