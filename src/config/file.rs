//! Reading the configuration file: from disk with its size and mode checked, and from TOML to flat keys with their lines.

use std::io::Read as _;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::draft::{Key, Value};
use crate::error::escaped;

/// Far above any configuration written by hand; keeps a mistaken path from filling the memory.
const MAX_BYTES: u64 = 1024 * 1024;

/// The text of the file at `path`, or what is wrong with it, as one sentence with the path.
pub(super) fn read(path: &Path, warnings: &mut Vec<String>) -> Result<String, String> {
    let shown = escaped(&path.to_string_lossy());
    let bytes = read_limited(path, MAX_BYTES).map_err(|reason| format!("{shown}: {reason}"))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{shown}: not UTF-8"))?;
    if text.trim().is_empty() {
        return Err(format!("{shown}: is empty; start from `duewheel config --default`"));
    }
    if holds_a_password(&text) {
        warnings.extend(mode_warning(path, "holds a password"));
    }
    Ok(text)
}

/// The bytes of a regular file or pipe, at most `max` of them.
pub(super) fn read_limited(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let meta = std::fs::metadata(path).map_err(|e| e.to_string())?;
    if meta.is_dir() {
        return Err("is a directory".to_owned());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(max + 1).read_to_end(&mut bytes))
        .map_err(|e| e.to_string())?;
    if bytes.len() as u64 > max {
        return Err(format!("is longer than {max} bytes"));
    }
    Ok(bytes)
}

/// A warning where others than the owner may read a file with secrets.
pub(super) fn mode_warning(path: &Path, holds: &str) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let shown = escaped(&path.to_string_lossy());
            return Some(format!(
                "{shown} {holds} and its mode {mode:04o} lets others read it; chmod 600 it"
            ));
        }
    }
    None
}

/// Whether a secret stands in the text itself: a password in a URL, the value of a key that is a password or secret, a webhook's secret or
/// one of the headers that it is sent.
fn holds_a_password(text: &str) -> bool {
    let in_url = |line: &str| {
        line.split_once("://")
            .and_then(|(_, rest)| rest.rsplit_once('@'))
            .is_some_and(|(user, _)| user.contains(':'))
    };
    let mut in_secrets = false;
    text.lines().map(str::trim).filter(|line| !line.starts_with('#')).any(|line| {
        if line.starts_with('[') && line.contains(']') {
            let name = line.trim_start_matches('[').split(']').next().unwrap_or_default();
            in_secrets = name.ends_with(".headers") || name.ends_with(".properties");
            return false;
        }
        let key = line.split_once('=').map(|(key, _)| key.trim()).unwrap_or_default();
        let (table, last) = key.rsplit_once('.').unwrap_or(("", key));
        let in_secrets = in_secrets || matches!(table.rsplit('.').next(), Some("headers" | "properties"));
        let is_secret = matches!(last, "password" | "secret" | "old_secret")
            || in_secrets && !last.is_empty() && !last.ends_with("_file");
        is_secret || in_url(line) || line.contains("whsec_")
    })
}

/// Hands every leaf value of a TOML text to `add`, with its key and line; answers the lines and texts of what is not TOML. The parser's
/// own rendering is not used, because it quotes the line, and the line may hold a password.
pub(super) fn parse(text: &str, add: &mut dyn FnMut(Key, Value, usize)) -> Vec<(usize, String)> {
    let line_of = |at: usize| text.as_bytes().iter().take(at).filter(|b| **b == b'\n').count() + 1;
    let (table, errors) = DeTable::parse_recoverable(text);
    walk(&mut Vec::new(), table.get_ref(), &mut |key, value, at| add(key, value, line_of(at)));
    errors
        .into_iter()
        .map(|e| (e.span().map_or(1, |s| line_of(s.start)), format!("not TOML: {}", e.message())))
        .collect()
}

fn walk(path: &mut Key, table: &DeTable<'_>, add: &mut dyn FnMut(Key, Value, usize)) {
    for (name, value) in table {
        path.push(name.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(inner) => {
                add(path.clone(), Value::Table, name.span().start);
                walk(path, inner, add);
            }
            other => add(path.clone(), plain(other), name.span().start),
        }
        path.pop();
    }
}

fn plain(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Boolean(flag) => Value::Flag(*flag),
        DeValue::Integer(n) => match i64::from_str_radix(&n.as_str().replace('_', ""), n.radix()) {
            Ok(n) => Value::Whole(n),
            Err(_) => Value::Other("integer beyond 64 bits"),
        },
        DeValue::Float(n) => match n.as_str().replace('_', "").parse() {
            Ok(n) => Value::Number(n),
            Err(_) => Value::Other("float"),
        },
        DeValue::Array(items) => Value::List(items.iter().map(|i| plain(i.get_ref())).collect()),
        other => Value::Other(other.type_str()),
    }
}
