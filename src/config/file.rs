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

/// Whether a URL in the text carries a password, or a webhook secret stands in it.
fn holds_a_password(text: &str) -> bool {
    let in_url = |line: &str| {
        line.split_once("://")
            .and_then(|(_, rest)| rest.rsplit_once('@'))
            .is_some_and(|(user, _)| user.contains(':'))
    };
    text.lines().filter(|l| !l.trim_start().starts_with('#')).any(|l| in_url(l) || l.contains("whsec_"))
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
