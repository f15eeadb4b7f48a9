//! The names of everything in Redis. The prefix carries the layout number; all keys of a shard share one hash tag.

use crate::shard::{LAYOUT, Shard, WheelName};

/// The nine fixed keys of a shard, in the order that every script expects.
pub const FIXED: [&str; 9] =
    ["meta", "slots", "bodies", "leases", "live", "dead", "reasons", "ended", "events"];

/// Which wheels there are: a hash of name -> layout, on a tag of its own.
pub fn wheels() -> String {
    format!("dw{LAYOUT}:{{wheels}}:index")
}

/// The fixed keys of one shard.
pub fn of_shard(wheel: &str, shard: Shard) -> [String; 9] {
    FIXED.map(|name| format!("dw{LAYOUT}:{{{wheel}.{shard}}}:{name}"))
}

/// A key of the whole wheel, on the wheel's own tag.
pub fn of_wheel(wheel: &WheelName, name: &str) -> String {
    format!("dw{LAYOUT}:{{{wheel}}}:{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_readable_and_share_a_tag() {
        let keys = of_shard("orders", Shard(7));
        assert_eq!(keys[0], "dw1:{orders.7}:meta");
        assert!(keys.iter().all(|key| key.starts_with("dw1:{orders.7}:")));
        assert_eq!(of_wheel(&WheelName::new("orders").unwrap(), "roster"), "dw1:{orders}:roster");
    }
}
