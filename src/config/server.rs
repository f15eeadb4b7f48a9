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
    let url = url.map(|url| match checked(url.expose_secret()) {
        Ok(parsed) => with_login(parsed, username.as_deref(), passwords.pop().as_ref()),
        Err(reason) => {
            section.problem("url", &format!("\"{}\": {reason}", shown_url(url.expose_secret())));
            url
        }
    });
    let ca_file = section.text("ca_file");
    let is_tls = url.as_ref().is_none_or(|url| {
        let url = url.expose_secret();
        url.starts_with("rediss:") || url.starts_with("valkeys:")
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

fn checked(url: &str) -> Result<url::Url, String> {
    let forms = "expected redis://host:port/db, rediss://…, unix:///path or valkey://…";
    let (scheme, rest) = url.split_once("://").ok_or(forms)?;
    if scheme.contains("sentinel") || scheme.contains("cluster") {
        return Err(format!("{scheme}:// is not supported yet; {forms}"));
    }
    if scheme.ends_with("unix") {
        let good = matches!(scheme, "unix" | "redis+unix" | "valkey+unix") && rest.starts_with('/');
        return if good { url::Url::parse(url).map_err(|e| e.to_string()) } else { Err(forms.to_owned()) };
    }
    if !matches!(scheme, "redis" | "rediss" | "valkey" | "valkeys") {
        return Err(forms.to_owned());
    }
    let parsed = url::Url::parse(url).map_err(|e| format!("{e}; {forms}"))?;
    if parsed.host_str().is_none_or(str::is_empty) {
        return Err(format!("names no host; {forms}"));
    }
    if parsed.port() == Some(0) {
        return Err("port 0 is no port".to_owned());
    }
    let db = parsed.path().trim_matches('/');
    if !db.is_empty() && db.parse::<u16>().is_err() {
        return Err(format!("\"{}\" is no database number", crate::error::shown(db)));
    }
    Ok(parsed)
}

/// User and password put where redis-rs reads them: in the authority, or in the query of a unix socket's URL.
fn with_login(mut url: url::Url, username: Option<&str>, password: Option<&SecretString>) -> SecretString {
    let password = password.map(|p| p.expose_secret());
    if url.scheme().ends_with("unix") {
        let pairs = [("user", username), ("pass", password)];
        for (name, value) in pairs {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
    } else {
        // Both fail only for URLs that have no host, and those were refused.
        let _ = username.map(|u| url.set_username(u));
        let _ = password.map(|p| url.set_password(Some(p)));
    }
    SecretString::from(String::from(url))
}
