//! `--payload JSON|@file|-`: read with a limit, so that a mistaken path costs no memory.

use std::io::Read;

use super::failure::Failure;
use crate::deadline::Payload;
use crate::error::{escaped, shown};

/// The payload that the argument means.
pub fn read(argument: Option<&str>) -> Result<Payload, Failure> {
    let Some(argument) = argument else { return Ok(Payload::default()) };
    let bytes = match argument.strip_prefix('@') {
        Some(path) => from_file(path)?,
        None if argument == "-" => {
            let bytes = limited(std::io::stdin().lock(), "stdin")?;
            if bytes.is_empty() {
                return Err(Failure::Data("--payload -: stdin is empty".to_owned()));
            }
            bytes
        }
        None => argument.as_bytes().to_vec(),
    };
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Failure::Data(format!("--payload {}: is empty, expected JSON", shown(argument))));
    }
    Ok(Payload::from_json(bytes)?)
}

fn from_file(path: &str) -> Result<Vec<u8>, Failure> {
    let bad = |reason: String| Failure::Data(format!("--payload @{}: {reason}", escaped(path)));
    if std::fs::metadata(path).map_err(|e| bad(e.to_string()))?.is_dir() {
        return Err(bad("is a directory".to_owned()));
    }
    let file = std::fs::File::open(path).map_err(|e| bad(e.to_string()))?;
    limited(file, &format!("@{}", escaped(path)))
}

fn limited(from: impl Read, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let limit = Payload::MAX_BYTES as u64 + 1;
    from.take(limit).read_to_end(&mut bytes).map_err(|e| Failure::Data(format!("--payload {name}: {e}")))?;
    if bytes.len() > Payload::MAX_BYTES {
        let reason = format!("is longer than {} bytes", Payload::MAX_BYTES);
        return Err(Failure::Data(format!("--payload {name}: {reason}")));
    }
    Ok(bytes)
}
