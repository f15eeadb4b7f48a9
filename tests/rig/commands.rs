//! The commands of Redis that the program uses, read out of its source.

use std::collections::BTreeSet;

use super::redis::RedisServer;

/// The commands that stand between `before` and the next quote, in all files of a folder.
pub fn named_in(folder: &str, before: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                for (at, _) in text.match_indices(before) {
                    let name = text[at + before.len()..].split(['\'', '"']).next().unwrap();
                    found.insert(name.to_lowercase());
                }
            }
        }
    }
    found
}

/// Those of the scripts' commands that Redis itself calls writes.
pub fn script_writes(server: &RedisServer) -> Vec<String> {
    let used = named_in("lua", "call('");
    let writes = |name: &String| {
        let about: Vec<Vec<redis::Value>> = server.command(&["COMMAND", "INFO", name]);
        // Name, arity, flags.
        format!("{:?}", about[0][2]).contains("\"write\"")
    };
    let found: Vec<String> = used.into_iter().filter(writes).collect();
    // That it finds them at all.
    for known in ["del", "hset", "pexpire", "xadd", "zrem"] {
        assert!(found.iter().any(|name| name == known), "{known} is not among {found:?}");
    }
    found
}
