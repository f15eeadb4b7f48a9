//! The rules of the house that a compiler does not know: imports point one way, files stay small and carry a noun, one place prints.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The tiers of docs/architecture.md, lowest first. A module imports from tiers below its own; siblings of the outer tiers do not know
/// each other, while the words, the arithmetic and what assembles may, as long as no circle comes of it.
const TIERS: [(&[&str], Siblings); 7] = [
    (&["error", "telemetry", "clock", "figure", "metrics", "trace"], Siblings::MayMeet),
    (&["retry", "deadline", "shard", "slot", "lease"], Siblings::MayMeet),
    (&["wheel", "hook"], Siblings::Apart),
    (&["worker", "sweep", "relay"], Siblings::Apart),
    (&["operator"], Siblings::Apart),
    (&["http", "config"], Siblings::MayMeet),
    (&["cli", "main"], Siblings::MayMeet),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Siblings {
    MayMeet,
    Apart,
}

const MAX_LINES: usize = 500;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder whose names end so, as (path from the root, text).
fn files(folder: &str, ends: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if ends.iter().any(|end| path.to_string_lossy().ends_with(end))
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                found.push((from_root(&path), text));
            }
        }
    }
    found.sort();
    found
}

fn from_root(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().into_owned()
}

/// Source without its tests and comments: what is left is code and strings.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let uncommented = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    uncommented.map(|line| line.split(" // ").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// `src/wheel/reply.rs` -> `wheel`.
fn module(path: &str) -> String {
    let inside = path.trim_start_matches("src/").trim_end_matches(".rs");
    inside.split('/').next().unwrap_or_default().to_owned()
}

/// Where `needle` stands as a word of its own, not as the end of a longer path or name.
fn stands_in(code: &str, needle: &str) -> bool {
    code.match_indices(needle).any(|(at, _)| {
        let before = code[..at].chars().next_back().unwrap_or(' ');
        !(before.is_alphanumeric() || before == '_' || before == ':')
    })
}

/// The top-level modules that a piece of code names by `crate::` or, in the binary, `duewheel::`.
fn imports(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for prefix in ["crate::", "duewheel::"] {
        for (at, _) in code.match_indices(prefix) {
            let rest = &code[at + prefix.len()..];
            if let Some(group) = rest.strip_prefix('{') {
                let mut depth = 1;
                let mut fresh = true;
                for (i, c) in group.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' => depth -= 1,
                        ',' if depth == 1 => fresh = true,
                        _ if depth == 1 && fresh && c.is_alphabetic() => {
                            found.insert(ident(&group[i..]));
                            fresh = false;
                        }
                        _ => {}
                    }
                    if depth == 0 {
                        break;
                    }
                }
            } else {
                found.insert(ident(rest));
            }
        }
    }
    // `crate::Thing` re-exported at the root is a type, a macro or `self`, not a module.
    found.retain(|name| name.starts_with(|c: char| c.is_ascii_lowercase()) && name != "self");
    found
}

fn ident(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn tier(module: &str) -> Option<usize> {
    TIERS.iter().position(|(names, _)| names.contains(&module))
}

#[test]
fn imports_point_one_way() {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (path, text) in files("src", &[".rs"]) {
        let from = module(&path);
        if from == "lib" {
            continue;
        }
        let Some(own) = tier(&from) else {
            wrong.push(format!(
                "{path}: module {from} has no tier; give it one here and in docs/architecture.md"
            ));
            continue;
        };
        let depth = path.matches('/').count();
        if code(&text).contains(&"super::".repeat(depth)) {
            wrong.push(format!(
                "{path}: reaches the crate root by super::; write crate:: so that the arrow shows"
            ));
        }
        for to in imports(&code(&text)).into_iter().filter(|to| *to != from) {
            match tier(&to) {
                None => wrong.push(format!("{path}: names crate::{to}, which has no tier")),
                Some(other) if other > own || (other == own && TIERS[own].1 == Siblings::Apart) => {
                    wrong.push(format!("{path}: {from} imports {to}, which is not below it"));
                }
                Some(_) => {
                    graph.entry(from.clone()).or_default().insert(to);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Take away what imports nothing, again and again: what never goes away is a circle.
    while let Some(leaf) = graph.keys().find(|m| graph[*m].iter().all(|to| !graph.contains_key(to))).cloned()
    {
        graph.remove(&leaf);
    }
    assert!(graph.is_empty(), "a circle of imports: {graph:?}");
}

#[test]
fn only_the_wheel_names_the_redis_client() {
    only("src/wheel", &["redis::", "deadpool_redis::", "use redis", "use deadpool_redis"]);
}

/// A script made of text is one that Redis compiles and keeps for each text, and one that the text may have a say in.
#[test]
fn no_script_is_put_together_while_the_program_runs() {
    only_in(&["src/wheel/store.rs", "src/wheel/floor.rs"], &["\"EVAL\"", "\"EVALSHA\""]);
    only("src/wheel/script.rs", &["Script::new", "redis::Script", "include_str!(concat!(\"../../lua"]);
    let mut wrong = Vec::new();
    for (path, text) in files("src", &[".rs"]) {
        let code = code(&text);
        // What a script says stands in lua/, or in a constant.
        for (at, _) in code.match_indices("format!(") {
            let made = arguments(&code[at..]);
            let words = ["redis.call", "redis.pcall", "KEYS[", "ARGV[", "#!lua", ".source()"];
            wrong.extend(
                words
                    .iter()
                    .filter(|word| made.contains(*word))
                    .map(|word| format!("{path}: {word} in {made}")),
            );
        }
        if !code.contains("\"EVAL\"") {
            continue;
        }
        let lines: Vec<&str> = code.lines().collect();
        for (n, _) in lines.iter().enumerate().filter(|(_, line)| line.contains("\"EVAL\"")) {
            let begin = lines[..n].iter().rposition(|line| line.contains("fn ")).unwrap_or_default();
            let near = lines[begin..lines.len().min(n + 6)].join("\n");
            let constant = near.contains("source: &'static str") && near.contains(".arg(source)");
            if near.contains("format!") || !constant {
                wrong.push(format!("{path}: EVAL takes a text that is no constant:\n{near}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The arguments of the macro that the code begins with, brackets and all.
fn arguments(code: &str) -> &str {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return &code[..=at];
        }
    }
    code
}

#[test]
fn only_the_hook_names_a_database_or_an_http_client() {
    only("src/hook", &["sqlx::", "use sqlx"]);
    // Spans are sent to a collector, which is neither a shop nor a database.
    only_in(&["src/hook", "src/telemetry/otlp.rs"], &["hyper::client", "TlsConnector"]);
}

#[test]
fn only_the_output_file_prints() {
    only("src/cli/output.rs", &["print!", "println!", "eprint!", "eprintln!", "dbg!"]);
}

fn only(owner: &str, words: &[&str]) {
    only_in(&[owner], words);
}

fn only_in(owners: &[&str], words: &[&str]) {
    let mut wrong = Vec::new();
    for (path, text) in files("src", &[".rs"]) {
        if owners.iter().any(|owner| path.starts_with(owner)) {
            continue;
        }
        let code = code(&text);
        wrong.extend(words.iter().filter(|w| stands_in(&code, w)).map(|w| format!("{path}: {w}")));
    }
    assert!(wrong.is_empty(), "only {owners:?} may name these:\n{}", wrong.join("\n"));
}

#[test]
fn no_file_grows_beyond_what_one_reads_in_one_go() {
    let mut wrong = Vec::new();
    for (path, text) in files("src", &[".rs"]).into_iter().chain(files("lua", &[".lua"])) {
        let lines = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default().lines().count();
        if lines > MAX_LINES {
            wrong.push(format!("{path}: {lines} lines, at most {MAX_LINES}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_is_named_after_a_noun_of_the_domain() {
    let forbidden = ["utils", "util", "common", "helpers", "helper", "types", "misc", "mod", "shared"];
    for folder in ["src", "tests", "lua", "benches", "examples"] {
        for (path, _) in files(folder, &[".rs", ".lua"]) {
            let stem = Path::new(&path).file_stem().unwrap().to_string_lossy().into_owned();
            assert!(!forbidden.contains(&stem.as_str()), "{path} says nothing about what it holds");
        }
    }
}

#[test]
fn no_test_is_switched_off() {
    // Spelled in two halves, or this file would find itself.
    let switched_off = ["#[", "ignore"].concat();
    for folder in ["src", "tests", "benches"] {
        for (path, text) in files(folder, &[".rs"]) {
            assert!(!text.contains(&switched_off), "{path} switches a test off");
        }
    }
}

#[test]
fn every_verb_in_lua_says_what_it_takes_and_returns() {
    for (path, text) in files("lua", &[".lua"]) {
        let header: Vec<&str> =
            text.lines().take_while(|l| l.starts_with("--") || l.starts_with("#!")).collect();
        let stem = Path::new(&path).file_stem().unwrap().to_string_lossy().into_owned();
        let first = header.iter().find(|l| l.starts_with("--")).copied().unwrap_or_default();
        assert!(!first.is_empty(), "{path} begins without a header comment");
        if path.matches('/').count() == 1 {
            assert!(first.starts_with(&format!("-- {stem}: ")), "{path} does not begin with its own name");
            for word in ["ARGV", "Returns", "O("] {
                assert!(header.iter().any(|l| l.contains(word)), "{path}: the header does not say {word}");
            }
        }
    }
}

#[test]
fn every_verb_in_lua_is_used() {
    let rust: String = files("src", &[".rs"]).into_iter().map(|(_, text)| text).collect();
    for (path, _) in files("lua", &[".lua"]) {
        let stem = Path::new(&path).file_stem().unwrap().to_string_lossy().into_owned();
        assert!(
            rust.contains(&format!("{stem}.lua")) || rust.contains(&format!("\"{stem}\"")),
            "{path} is dead"
        );
    }
}

#[test]
fn nothing_names_the_machine_it_was_written_on() {
    let homes = ["/wo", "rk/"].concat();
    for folder in ["src", "tests", "lua", "benches", "examples", "scripts", "docs", "deploy", "config", ".ci"]
    {
        for (path, text) in files(folder, &[""]) {
            assert!(!text.contains(&homes), "{path} names a folder of one machine");
        }
    }
}

#[test]
fn the_reading_of_imports_sees_groups_and_paths() {
    let source = "use crate::{clock::Moment, hook::{self, Verdict}, Error};\nlet x = crate::slot::REACH;\nduewheel::cli::run();";
    let expected = ["cli", "clock", "hook", "slot"].map(str::to_owned);
    assert_eq!(imports(&code(source)), BTreeSet::from(expected));
    assert!(stands_in("use redis::Cmd;", "redis::") && !stands_in("deadpool_redis::Pool", "redis::"));
    assert_eq!(arguments("format!(\"{}\", f(1)) + g(2)"), "format!(\"{}\", f(1))");
    assert_eq!(code("a // why\n// b\nc"), "a\nc");
}
