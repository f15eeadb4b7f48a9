//! What the environment says: `DUEWHEEL_*`, where `__` stands for the dot of a key, and the names that other programs read, too.

use std::ffi::OsString;
use std::path::PathBuf;

use super::draft::{Draft, Key, Source, Value};
use super::suggestion::nearest;
use crate::error::shown;

/// The variables that are flags of the command line, not keys.
const FLAGS: [&str; 3] = ["CONFIG", "WHEEL", "LOG"];

/// Keys of [redis], [log] and [metrics], to tell a key whose dot was written `_` from a name of somebody else's.
const KEYS: [&str; 11] = [
    "URL",
    "URL_FILE",
    "USERNAME",
    "PASSWORD",
    "PASSWORD_FILE",
    "CONNECT_TIMEOUT",
    "RESPONSE_TIMEOUT",
    "POOL_SIZE",
    "LEVEL",
    "FORMAT",
    "LISTEN",
];

/// A process environment, taken once, so that a test can pass its own.
#[derive(Debug, Clone, Default)]
pub struct Environment(Vec<(OsString, OsString)>);

impl Environment {
    /// This process's environment.
    pub fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    /// The given variables only.
    pub fn of(variables: &[(&str, &str)]) -> Self {
        Self(variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect())
    }

    fn get(&self, name: &str) -> Option<&OsString> {
        self.0.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v)
    }

    /// The first file that exists in the usual places.
    pub(super) fn config_file(&self) -> Option<PathBuf> {
        let user = self
            .get("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| self.get("HOME").map(|home| PathBuf::from(home).join(".config")));
        [
            Some(PathBuf::from("duewheel.toml")),
            user.map(|folder| folder.join("duewheel/duewheel.toml")),
            Some(PathBuf::from("/etc/duewheel/duewheel.toml")),
        ]
        .into_iter()
        .flatten()
        .find(|path| path.is_file())
    }

    /// Adds every variable that is ours, weaker ones first.
    pub(super) fn add_to(&self, draft: &mut Draft) {
        let well_known: [(&'static str, &[&str]); 5] = [
            ("REDIS_URL", &["redis", "url"]),
            ("REDIS_URL_FILE", &["redis", "url_file"]),
            ("DATABASE_URL", &["defaults", "hook", "sql", "url"]),
            ("DATABASE_URL_FILE", &["defaults", "hook", "sql", "url_file"]),
            ("RUST_LOG", &["log", "level"]),
        ];
        for (name, key) in well_known {
            match self.get(name).map(|v| v.to_str()) {
                None => {}
                Some(None) => draft.problems.push(format!("${name}: not UTF-8")),
                Some(Some(value)) => {
                    let key = key.iter().map(|k| (*k).to_owned()).collect();
                    draft.insert(key, Value::Text(value.to_owned()), Source::WellKnown(name));
                }
            }
        }
        for (name, value) in &self.0 {
            if let Some(name) = name.to_str()
                && let Some(rest) = name.strip_prefix("DUEWHEEL_")
                && !FLAGS.contains(&rest)
                // A build for tests may be told where to die: src/worker/failpoint.rs.
                && !(cfg!(debug_assertions) && rest == "FAILPOINT")
                && !is_service_link(rest)
                // The suite's own: where its servers are.
                && !rest.starts_with("TEST_")
            {
                self.add_own(draft, name, rest, value);
            }
        }
    }

    fn add_own(&self, draft: &mut Draft, name: &str, rest: &str, value: &OsString) {
        let Some(value) = value.to_str() else {
            draft.problems.push(format!("${}: not UTF-8", shown(name)));
            return;
        };
        let mut key: Key = rest.split("__").map(str::to_lowercase).collect();
        if key.len() < 2 {
            no_key(draft, &shown(name), rest, &key[0]);
            return;
        }
        // Shells allow no dash in a name: FLASH_ORDERS also means the wheel flash-orders, if there is one.
        if key[0] == "wheel" {
            let dashed = draft.names_below("wheel").into_iter().find(|n| n.replace('-', "_") == key[1]);
            key[1] = dashed.unwrap_or_else(|| key[1].clone());
        }
        draft.insert(key, Value::Text(value.to_owned()), Source::Environment(name.to_owned()));
    }
}

/// A name that is no key: wrong where it was probably meant as one, else only odd, because other programs may use the prefix, too.
fn no_key(draft: &mut Draft, name: &str, rest: &str, word: &str) {
    let flags = FLAGS.map(str::to_lowercase);
    let meant = match (nearest(word, flags.iter().map(String::as_str)), rest.split_once('_')) {
        (Some(flag), _) => Some(flag.to_uppercase()),
        (None, Some((section @ ("WHEEL" | "DEFAULTS"), key))) => Some(format!("{section}__{key}")),
        (None, Some((section @ ("REDIS" | "LOG" | "METRICS"), key))) if KEYS.contains(&key) => {
            Some(format!("{section}__{key}"))
        }
        (None, _) => None,
    };
    match meant {
        Some(meant) => draft.problems.push(format!(
            "${name}: names no key; `__` stands for the dot of a key; did you mean $DUEWHEEL_{meant}?"
        )),
        None => draft.warnings.push(format!("${name} is not read: it names no key")),
    }
}

/// Kubernetes sets `DUEWHEEL_SERVICE_HOST`, `DUEWHEEL_REDIS_PORT_6379_TCP_ADDR` and the like for services that happen to bear our
/// name; they are no configuration.
fn is_service_link(rest: &str) -> bool {
    rest.ends_with("SERVICE_HOST")
        || rest.contains("SERVICE_PORT")
        || rest == "PORT"
        || rest.ends_with("_PORT")
        || rest.contains("PORT_") && (rest.contains("_TCP") || rest.contains("_UDP"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_links_of_kubernetes_are_no_configuration() {
        for name in [
            "SERVICE_HOST",
            "SERVICE_PORT_HTTP",
            "PORT",
            "PORT_8080_TCP",
            "REDIS_PORT_6379_TCP_ADDR",
            "REDIS_SERVICE_HOST",
        ] {
            assert!(is_service_link(name), "{name}");
        }
        assert!(!is_service_link("REDIS__URL"));
        assert!(!is_service_link("WHEEL__ORDERS__SHARDS"));
    }
}
