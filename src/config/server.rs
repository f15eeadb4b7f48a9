//! `[redis]`: where Redis is, and how long to wait for it.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};

use super::section::Section;
use super::shown_url;
use crate::wheel::RedisSettings;

pub(super) fn resolve(section: &mut Section<'_>) -> RedisSettings {
    let wait = Duration::from_millis(10)..=Duration::from_secs(300);
    let url = section.url("url");
    let username = section.text("username");
    let mut passwords = section.secrets("password", |_| "***".to_owned());
    // Without a URL its problem has been noted.
    let url = url.map(|url| {
        let (text, password) = (url.expose_secret(), passwords.pop());
        let checked = RedisSettings::check_url(text)
            .and_then(|()| with_login(text, username.as_deref(), password.as_ref()));
        checked.unwrap_or_else(|reason| {
            section.problem("url", &format!("\"{}\": {reason}", shown_url(text)));
            url.clone()
        })
    });
    let ca_file = section.text("ca_file");
    let is_tls = url.as_ref().is_none_or(|url| {
        let url = url.expose_secret();
        url.starts_with("rediss") || url.starts_with("valkeys")
    });
    if ca_file.is_some() && !is_tls {
        section.problem("ca_file", "says nothing without rediss:// or valkeys:// in url");
    }
    RedisSettings {
        url: url.unwrap_or_default(),
        ca_file: ca_file.map(Into::into),
        connect_timeout: section.duration("connect_timeout", wait.clone()),
        response_timeout: section.duration("response_timeout", wait),
        pool_size: section.whole("pool_size", 1..=1000) as usize,
    }
}

/// User and password put where they are read from: in front of the hosts, or in the query of a unix socket's URL.
fn with_login(
    url: &str,
    username: Option<&str>,
    password: Option<&SecretString>,
) -> Result<SecretString, String> {
    let password = password.map(|p| p.expose_secret());
    if username.is_none() && password.is_none() {
        return Ok(SecretString::from(url));
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
    if scheme.ends_with("unix") {
        let mut url = url::Url::parse(url).map_err(|e| e.to_string())?;
        for (name, value) in [("user", username), ("pass", password)] {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        return Ok(SecretString::from(String::from(url)));
    }
    // The login of a URL with one host, since a URL with several is none to the library.
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let at = rest[..end].rfind('@').map_or(0, |at| at + 1);
    let mut one = url::Url::parse(&format!("redis://{}host", &rest[..at])).map_err(|e| e.to_string())?;
    // Both fail only for URLs that have no host.
    let _ = username.map(|u| one.set_username(u));
    let _ = password.map(|p| one.set_password(Some(p)));
    let login = String::from(one);
    let login = login.trim_start_matches("redis://").trim_end_matches("host");
    Ok(SecretString::from(format!("{scheme}://{login}{}", &rest[at..])))
}
