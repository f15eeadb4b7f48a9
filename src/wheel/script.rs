//! The Lua scripts: one verb each, composed at compile time from lua/, with the nouns of lua/lib/ in front.

use std::sync::LazyLock;

/// A verb as Redis runs it.
#[derive(Debug)]
pub struct Script {
    /// The verb's word: file name, metric label, span name.
    pub verb: &'static str,
    /// Whether the script changes anything; one that does not may be asked again freely.
    pub writes: bool,
    source: &'static str,
    sha: LazyLock<String>,
}

impl Script {
    /// The text for EVAL.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// The SHA-1 for EVALSHA, in hexadecimal.
    pub fn sha(&self) -> &str {
        &self.sha
    }
}

/// Scripts that take out or look on run while memory is full; scripts that put in do not.
///
/// Each names the nouns of lua/lib/ that it needs, in the order they build on each other, because Redis makes each of their functions anew
/// for every call: a claim with all of them took a fifth of its time for that. What a verb needs only now and then is named as `seldom`,
/// with the words it wants of it, and is made when it is asked for.
macro_rules! script {
    ($name:ident, $verb:literal, $flags:literal, $writes:literal, [$($noun:literal),*]) => {
        script!(@ $name, $verb, $flags, $writes, concat!($(noun!($noun)),*));
    };
    (
        $name:ident, $verb:literal, $flags:literal, $writes:literal, [$($noun:literal),*],
        seldom [$($rare:literal),*] for [$($word:literal),*]
    ) => {
        script!(@ $name, $verb, $flags, $writes, concat!(
            $(noun!($noun)),*,
            "local words\nlocal function seldom()\nif words then return words end\n",
            $(noun!($rare)),*,
            "words = {", $(" ", $word, " = ", $word, ","),*, " }\nreturn words\nend\n"
        ));
    };
    (@ $name:ident, $verb:literal, $flags:literal, $writes:literal, $nouns:expr) => {
        #[doc = concat!("`", $verb, "`: see lua/", $verb, ".lua for its contract.")]
        pub static $name: Script = Script {
            verb: $verb,
            writes: $writes,
            source: concat!("#!lua", $flags, "\n", $nouns, include_str!(concat!("../../lua/", $verb, ".lua"))),
            sha: LazyLock::new(|| redis::Script::new($name.source).get_hash().to_owned()),
        };
    };
}

/// The text of one noun.
macro_rules! noun {
    ($noun:literal) => {
        include_str!(concat!("../../lua/lib/", $noun, ".lua"))
    };
}

/// A script on the wheel's own tag: none of a shard's nouns stand in front of it.
macro_rules! wheel_script {
    ($name:ident, $verb:literal, $flags:literal) => {
        #[doc = concat!("`", $verb, "`: see lua/", $verb, ".lua for its contract.")]
        pub static $name: Script = Script {
            verb: $verb,
            writes: true,
            source: concat!("#!lua", $flags, "\n", include_str!(concat!("../../lua/", $verb, ".lua"))),
            sha: LazyLock::new(|| redis::Script::new($name.source).get_hash().to_owned()),
        };
    };
}

/// A script on the wheel's own tag that limits what is taken out, or tells of it, so it runs while memory is full.
macro_rules! limit_script {
    ($name:ident, $verb:literal) => {
        limit_script!($name, $verb, "allow-oom", true);
    };
    ($name:ident, $verb:literal, $flags:literal, $writes:literal) => {
        #[doc = concat!("`", $verb, "`: see lua/", $verb, ".lua for its contract.")]
        pub static $name: Script = Script {
            verb: $verb,
            writes: $writes,
            source: concat!(
                "#!lua flags=",
                $flags,
                "\n",
                include_str!("../../lua/lib/number.lua"),
                include_str!("../../lua/lib/tag.lua"),
                include_str!(concat!("../../lua/", $verb, ".lua")),
            ),
            sha: LazyLock::new(|| redis::Script::new($name.source).get_hash().to_owned()),
        };
    };
}

limit_script!(GRANT, "grant");
limit_script!(BREAKER, "breaker");
limit_script!(RECORD_HOUR, "record_hour");
limit_script!(HOUR, "hour", "no-writes,allow-oom", false);
wheel_script!(JOB, "job", " flags=allow-oom");
wheel_script!(REQUEST, "request", "");
wheel_script!(AUDIT, "audit", " flags=allow-oom");

script!(FORMAT, "format", "", true, ["number", "shard"]);
script!(
    ENQUEUE,
    "enqueue",
    "",
    true,
    ["number", "shard", "header", "slot", "place", "live", "ended", "stage", "lease"]
);
script!(ADOPT, "adopt", "", true, ["number", "shard", "header", "slot", "place", "live", "ended"]);
script!(
    CLAIM,
    "claim",
    " flags=allow-oom",
    true,
    ["number", "shard", "header", "slot", "live"],
    seldom ["place", "ended", "stage", "lease"] for ["reap", "lease_reminder", "tell_stages", "set_aside"]
);
script!(
    SETTLE,
    "settle",
    " flags=allow-oom",
    true,
    ["number", "shard", "header", "live", "ended"],
    seldom ["slot", "place", "stage", "lease", "back"] for ["fits", "back", "TRYAGAIN"]
);
script!(RENEW, "renew", " flags=allow-oom", true, ["number", "shard"]);
script!(
    CANCEL,
    "cancel",
    " flags=allow-oom",
    true,
    ["number", "shard", "header", "slot", "place", "live", "ended"]
);
script!(
    MOVE,
    "move",
    " flags=allow-oom",
    true,
    ["number", "shard", "header", "slot", "place", "live", "ended", "stage"]
);
script!(PAUSE, "pause", " flags=allow-oom", true, ["number", "shard"]);
script!(PRUNE, "prune", " flags=allow-oom", true, ["number", "shard", "header", "ended"]);
script!(EVICT, "evict", " flags=allow-oom", true, ["number", "shard", "header", "slot", "place"]);
script!(
    HEAL,
    "heal",
    " flags=allow-oom",
    true,
    ["number", "shard", "header", "slot", "place", "live", "ended", "stage", "lease", "totals"]
);
script!(
    INSPECT,
    "inspect",
    " flags=no-writes,allow-oom",
    false,
    ["number", "shard", "header", "slot", "place", "ended"]
);
script!(
    HELD,
    "held",
    " flags=no-writes,allow-oom",
    false,
    ["number", "shard", "header", "slot", "place", "ended"]
);
script!(LIST, "list", " flags=no-writes,allow-oom", false, ["number", "shard", "header", "slot"]);
script!(
    ENDED_PAGE,
    "ended_page",
    " flags=no-writes,allow-oom",
    false,
    ["number", "shard", "header", "ended"]
);
script!(STATS, "stats", " flags=no-writes,allow-oom", false, ["number", "shard", "header", "slot"]);
script!(FORECAST, "forecast", " flags=no-writes,allow-oom", false, ["number", "shard", "header", "slot"]);
script!(
    VERIFY,
    "verify",
    " flags=no-writes,allow-oom",
    false,
    ["number", "shard", "header", "slot", "place", "totals"]
);

/// Every script of a shard, for the start-up self-test and the tests that try each from every state.
pub static ALL: [&Script; 19] = [
    &FORMAT,
    &ENQUEUE,
    &ADOPT,
    &CLAIM,
    &SETTLE,
    &RENEW,
    &CANCEL,
    &MOVE,
    &PAUSE,
    &PRUNE,
    &EVICT,
    &HEAL,
    &INSPECT,
    &HELD,
    &LIST,
    &ENDED_PAGE,
    &STATS,
    &FORECAST,
    &VERIFY,
];

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;

    use super::*;

    fn words(text: &str) -> impl Iterator<Item = &str> {
        text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
    }

    /// The text without comments, strings left in: a name that stands only in a string would be refused wrongly, and none does.
    fn code(source: &str) -> String {
        source.lines().map(|line| line.split("--").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_script_has_every_noun_whose_words_it_uses() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua/lib");
        let mut nouns: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let declared = text.lines().filter_map(|line| line.strip_prefix("local function "));
            let functions = declared.filter_map(|rest| words(rest).next()).map(str::to_owned).collect();
            nouns.insert(path.file_stem().unwrap().to_string_lossy().into_owned(), (text, functions));
        }
        assert!(nouns.len() > 8);
        // `tag` belongs to the scripts of the wheel's own tag, which have no shard.
        nouns.remove("tag");
        for script in ALL {
            let code = code(script.source);
            let used: BTreeSet<&str> = words(&code).collect();
            for (noun, (text, functions)) in &nouns {
                if script.source.contains(text.as_str()) {
                    continue;
                }
                let missing: Vec<_> = functions
                    .iter()
                    .filter(|f| used.contains(f.as_str()) && code.contains(&format!("{f}(")))
                    .filter(|f| !code.contains(&format!("function {f}(")))
                    .collect();
                assert!(missing.is_empty(), "{} uses {missing:?} of lua/lib/{noun}.lua", script.verb);
            }
        }
    }
}
