//! The examples of docs/api.md and the README are run, one after the other, and answer what stands below them.

use std::process::Command;

use serde_json::Value;

use crate::rig::PATIENCE;
use crate::rig::cli::Cli;
use crate::rig::eventually_blocking;
use crate::rig::redis::{RedisOptions, RedisServer};

/// A fenced block: its language and text.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => open = Some((language.to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, text)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// The examples that use curl, each with the answer that stands behind it.
fn examples(file: &str) -> Vec<(String, Option<Value>)> {
    let text = std::fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let blocks = blocks(&text);
    let mut examples = Vec::new();
    for (n, (language, text)) in blocks.iter().enumerate() {
        // A stream does not end by itself: tests/http/events.rs.
        if language != "sh" || !text.contains("curl ") || text.contains("curl -N") {
            continue;
        }
        let answer = blocks.get(n + 1).filter(|(language, _)| language == "json");
        let answer =
            answer.map(|(_, text)| serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}")));
        examples.push((text.clone(), answer));
    }
    examples
}

/// Without what is another each time; that it is there at all is compared.
fn steady(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let volatile = name.ends_with("_at")
                    || name.ends_with("_at_ms")
                    || [
                        "generation",
                        "now",
                        "now_ms",
                        "next_ms",
                        "oldest_due_ms",
                        "from",
                        "from_ms",
                        "request_id",
                        "shard",
                    ]
                    .contains(&name.as_str());
                if volatile && !value.is_null() {
                    *value = Value::from("ANOTHER");
                } else {
                    steady(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(steady),
        _ => {}
    }
}

#[test]
fn the_examples_of_the_manual_answer_what_stands_below_them() {
    let redis = RedisServer::start(RedisOptions::default());
    let cli = Cli::new(&redis);
    let log = cli.dir.path().join("server.log");
    let mut command = cli.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("DUEWHEEL_WHEEL", "orders").stderr(std::fs::File::create(&log).unwrap());
    let mut server = command.spawn().unwrap();
    let address = eventually_blocking(PATIENCE, || {
        let text = std::fs::read_to_string(&log).unwrap();
        let line = text.lines().find(|line| line.contains("listening"))?;
        Some(line.split("address=").nth(1)?.split(' ').next()?.to_owned())
    });
    let mut count = 0;
    for file in ["docs/api.md", "README.md"] {
        for (text, expected) in examples(file) {
            let script = text.replace("curl ", "curl -sS ").replace("localhost:8480", &address);
            let ran = Command::new("sh").args(["-c", &script]).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert!(ran.status.success(), "{text}{}", String::from_utf8_lossy(&ran.stderr));
            let mut expected = expected.unwrap_or_else(|| panic!("{file}: no answer stands below\n{text}"));
            let mut answer: Value =
                serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {text}{said}"));
            steady(&mut expected);
            steady(&mut answer);
            assert_eq!(answer, expected, "{file}:\n{text}");
            count += 1;
        }
    }
    assert!(count >= 12, "only {count} examples were found");
    crate::rig::signal(server.id(), "TERM");
    assert!(server.wait().unwrap().success());
}

/// Each code that a problem can have stands in the manual.
#[test]
fn the_manual_names_every_code() {
    let manual = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/api.md")).unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http");
    let mut missing = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let Ok(text) = std::fs::read_to_string(entry.unwrap().path()) else { continue };
        let made = ["Problem::new(StatusCode::", "Self::new(StatusCode::", "bad_request(", "not_found("];
        for start in made {
            for (at, _) in text.match_indices(start) {
                let Some(code) = text[at + start.len()..].split('"').nth(1) else { continue };
                if code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
                    && !manual.contains(&format!("`{code}`"))
                {
                    missing.push(code.to_owned());
                }
            }
        }
    }
    assert!(missing.is_empty(), "docs/api.md does not name {missing:?}");
}
