//! Named points at which a test may end the process as `kill -9` would: `DUEWHEEL_FAILPOINT=<name>` aborts there, and
//! `DUEWHEEL_FAILPOINT=<name>:<id>` only when that id is in hand. Debug builds only; a release build holds none of it.

/// After the claim was answered, before the hook is called.
pub const AFTER_CLAIM: &str = "after_claim";
/// After the hook answered (its work is committed), before the settle.
pub const BEFORE_SETTLE: &str = "before_settle";
/// Just before the hook is called.
pub const IN_HOOK: &str = "in_hook";

/// Ends the process here if the environment asks for it.
#[cfg(debug_assertions)]
pub fn reach<'a>(name: &str, mut ids: impl Iterator<Item = &'a str>) {
    use std::sync::LazyLock;
    static ASKED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("DUEWHEEL_FAILPOINT").ok());
    let Some(asked) = &*ASKED else { return };
    let (point, id) = asked.split_once(':').map_or((asked.as_str(), None), |(point, id)| (point, Some(id)));
    let hit = match id {
        None => ids.next().is_some(),
        Some(id) => ids.any(|one| one == id),
    };
    if point == name && hit {
        std::process::abort();
    }
}

/// Nothing, in a release build.
#[cfg(not(debug_assertions))]
pub fn reach<'a>(_name: &str, _ids: impl Iterator<Item = &'a str>) {}
