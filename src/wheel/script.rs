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
macro_rules! script {
    ($name:ident, $verb:literal, $flags:literal, $writes:literal) => {
        #[doc = concat!("`", $verb, "`: see lua/", $verb, ".lua for its contract.")]
        pub static $name: Script = Script {
            verb: $verb,
            writes: $writes,
            source: concat!(
                "#!lua",
                $flags,
                "\n",
                include_str!("../../lua/lib/number.lua"),
                include_str!("../../lua/lib/shard.lua"),
                include_str!("../../lua/lib/header.lua"),
                include_str!("../../lua/lib/slot.lua"),
                include_str!("../../lua/lib/live.lua"),
                include_str!("../../lua/lib/ended.lua"),
                include_str!("../../lua/lib/stage.lua"),
                include_str!("../../lua/lib/lease.lua"),
                include_str!(concat!("../../lua/", $verb, ".lua")),
            ),
            sha: LazyLock::new(|| redis::Script::new($name.source).get_hash().to_owned()),
        };
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

/// A script on the wheel's own tag that limits what is taken out, so it runs while memory is full.
macro_rules! limit_script {
    ($name:ident, $verb:literal) => {
        #[doc = concat!("`", $verb, "`: see lua/", $verb, ".lua for its contract.")]
        pub static $name: Script = Script {
            verb: $verb,
            writes: true,
            source: concat!(
                "#!lua flags=allow-oom\n",
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
wheel_script!(JOB, "job", " flags=allow-oom");

script!(FORMAT, "format", "", true);
script!(ENQUEUE, "enqueue", "", true);
script!(ADOPT, "adopt", "", true);
script!(CLAIM, "claim", " flags=allow-oom", true);
script!(SETTLE, "settle", " flags=allow-oom", true);
script!(RENEW, "renew", " flags=allow-oom", true);
script!(CANCEL, "cancel", " flags=allow-oom", true);
script!(MOVE, "move", " flags=allow-oom", true);
script!(PAUSE, "pause", " flags=allow-oom", true);
script!(PRUNE, "prune", " flags=allow-oom", true);
script!(EVICT, "evict", " flags=allow-oom", true);
script!(HEAL, "heal", " flags=allow-oom", true);
script!(INSPECT, "inspect", " flags=no-writes,allow-oom", false);
script!(HELD, "held", " flags=no-writes,allow-oom", false);
script!(LIST, "list", " flags=no-writes,allow-oom", false);
script!(ENDED_PAGE, "ended_page", " flags=no-writes,allow-oom", false);
script!(STATS, "stats", " flags=no-writes,allow-oom", false);
script!(FORECAST, "forecast", " flags=no-writes,allow-oom", false);
script!(VERIFY, "verify", " flags=no-writes,allow-oom", false);

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
