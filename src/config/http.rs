//! `[http]`: where the API listens, whom it lets in, what it gives to one client.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::ExposeSecret as _;

use super::section::Section;
use crate::http::{HttpSettings, Limits, TlsFiles, Token};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn resolve(section: &mut Section<'_>) -> HttpSettings {
    section.is_table();
    let listen = listen(section);
    let tokens = tokens(section);
    if tokens.is_empty()
        && !listen.ip().is_loopback()
        && !section.has_problem("listen")
        && !section.has_problem("tokens")
        && !section.has_problem("tokens_file")
    {
        let reason = format!(
            "\"{listen}\": others than this machine are let in by tokens only; make one with duewheel token new"
        );
        section.problem("listen", &reason);
    }
    HttpSettings { listen, tokens, tls: tls(section), base_path: base_path(section), limits: limits(section) }
}

fn listen(section: &mut Section<'_>) -> SocketAddr {
    let Some(text) = section.text("listen") else { return SocketAddr::from(([127, 0, 0, 1], 0)) };
    text.parse().unwrap_or_else(|_| {
        let shown = crate::error::shown(&text);
        let reason =
            format!("\"{shown}\": expected ADDRESS:PORT, like 127.0.0.1:8480, 0.0.0.0:8480 or [::1]:8480");
        section.problem("listen", &reason);
        SocketAddr::from(([127, 0, 0, 1], 0))
    })
}

/// Without the slash at its end, so that paths can be put behind it.
fn base_path(section: &mut Section<'_>) -> String {
    section.parsed("base_path", |text| {
        let path = text.trim_end_matches('/');
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.' | b'~');
        let segments = path.split('/').skip(1);
        let fits = path.is_empty() || (path.starts_with('/') && segments.clone().all(|one| !one.is_empty() && one != "." && one != ".."));
        let free = !matches!(segments.into_iter().next(), Some("v1" | "wheels" | "assets" | "login" | "logout" | "theme"));
        if fits && free && path.len() <= 100 && path.bytes().all(good) {
            Ok(path.to_owned())
        } else {
            Err("expected a path like /duewheel, of letters, digits and -_.~, and no path that the server itself has".to_owned())
        }
    })
}

/// One token a line, in the key itself or in a file; blank lines and those that begin with # say nothing.
fn tokens(section: &mut Section<'_>) -> Vec<Token> {
    let mut tokens: Vec<Token> = Vec::new();
    let texts = section.secrets("tokens", |_| "***".to_owned());
    let lines = texts.iter().flat_map(|text| text.expose_secret().lines());
    for (n, line) in (1..).zip(lines) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match Token::parse(line) {
            Ok(token) if tokens.iter().any(|other| other.name() == token.name()) => {
                let reason = format!("line {n}: the name {} is given twice", token.name());
                section.problem("tokens", &reason);
            }
            Ok(token) => tokens.push(token),
            Err(e) => section.problem("tokens", &format!("line {n}: {e}")),
        }
    }
    tokens
}

fn tls(section: &mut Section<'_>) -> Option<TlsFiles> {
    let (cert, key) = (section.text("tls_cert_file"), section.text("tls_key_file"));
    match (cert, key) {
        (Some(cert), Some(key)) => {
            section.warn_of_mode(&key, "holds a private key");
            Some(TlsFiles { cert: PathBuf::from(cert), key: PathBuf::from(key) })
        }
        (None, None) => None,
        (Some(_), None) => {
            section.problem("tls_key_file", "is missing; tls_cert_file is given");
            None
        }
        (None, Some(_)) => {
            section.problem("tls_cert_file", "is missing; tls_key_file is given");
            None
        }
    }
}

fn limits(section: &mut Section<'_>) -> Limits {
    let kib = |n: u32| usize::try_from(n).unwrap_or(usize::MAX) * 1024;
    let wait = 10 * MS..=10 * MINUTE;
    Limits {
        max_connections: section.whole("max_connections", 1..=1_000_000) as usize,
        max_requests: section.whole("max_requests", 1..=100_000) as usize,
        max_streams: section.whole("max_streams", 0..=10_000) as usize,
        header_timeout: section.duration("header_timeout", wait.clone()),
        body_timeout: section.duration("body_timeout", wait.clone()),
        write_timeout: section.duration("write_timeout", wait),
        grace: section.duration("grace", Duration::ZERO..=60 * MINUTE),
        max_body: kib(section.whole("max_body_kib", 1..=65_536)),
        max_batch_body: kib(section.whole("max_batch_body_kib", 1..=262_144)),
    }
}
