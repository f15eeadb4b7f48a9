//! Secrets: which keys hold them, how they come from files, how they are hidden.

use std::path::Path;

use super::file;

/// Far above any password or URL.
const MAX_BYTES: u64 = 64 * 1024;

/// Whether a key holds a secret, and so may come from a `…_file` and is never taken from the command line nor shown.
pub(super) fn is_secret(key: &[String]) -> bool {
    let last = key.last().map(String::as_str).unwrap_or_default();
    let in_table = key.iter().rev().nth(1).is_some_and(|table| table == "headers" || table == "properties");
    matches!(last, "url" | "password" | "secret" | "old_secret") || in_table && !last.ends_with("_file")
}

/// The secret in a file: its text without the line end that editors add. Not UTF-8, empty or too long is a problem; a file that others
/// may read is a warning.
pub(super) fn read(path: &Path, warnings: &mut Vec<String>) -> Result<String, String> {
    let bytes = file::read_limited(path, MAX_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    if secret.trim().is_empty() {
        return Err("is empty".to_owned());
    }
    warnings.extend(file::mode_warning(path, "holds a secret"));
    Ok(secret.to_owned())
}

/// A URL as it may be shown: without its password, and without query values that are secrets by their name. What is no URL is not
/// shown at all, because it may be a bare password.
pub fn shown_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return "***".to_owned();
    };
    // To the last @, because passwords that were not encoded may hold a ? or an @ themselves.
    let (rest, query) = match rest.split_once('?') {
        Some((before, query)) if !query.contains('@') => (before, Some(query)),
        _ => (rest, None),
    };
    let place = match rest.rsplit_once('@') {
        Some((user, place)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:***@{place}"),
            None => format!("{user}@{place}"),
        },
        None => rest.to_owned(),
    };
    let query = query.map(|q| format!("?{}", q.split('&').map(shown_pair).collect::<Vec<_>>().join("&")));
    crate::error::escaped(&format!("{scheme}://{place}{}", query.unwrap_or_default()))
}

fn shown_pair(pair: &str) -> String {
    let secret = ["pass", "pwd", "secret", "token", "key", "cert"];
    match pair.split_once('=') {
        Some((name, _)) if secret.iter().any(|s| name.to_lowercase().contains(s)) => format!("{name}=***"),
        _ => pair.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password() {
        for (url, shown) in [
            ("redis://:hunter2@h:6379/0", "redis://:***@h:6379/0"),
            ("rediss://user:p%40ss@h", "rediss://user:***@h"),
            ("mysql://u:p@ss/w@rd@db:3306/shop", "mysql://u:***@db:3306/shop"),
            ("redis://u:p?w@h", "redis://u:***@h"),
            ("redis://h:6379", "redis://h:6379"),
            ("unix:///run/r.sock?db=1&pass=hunter2", "unix:///run/r.sock?db=1&pass=***"),
            ("postgres://u@h/db?sslmode=require", "postgres://u@h/db?sslmode=require"),
            ("hunter2", "***"),
        ] {
            assert_eq!(shown_url(url), shown);
        }
    }
}
