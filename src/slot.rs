//! The slots of the wheel: how a moment becomes the name of a sorted set. The same arithmetic stands in lua/lib/place.lua; a test
//! compares the two.

use std::time::Duration;

use crate::clock::Moment;
use crate::error::Invalid;

/// Slots of a level reach this many slot widths ahead of now.
pub const REACH: u64 = 4096;
/// A slot of a level is this many times as wide as one of the level below.
pub const FACTOR: u64 = 64;
/// The coarsest level.
pub const MAX_LEVEL: u8 = 3;

/// How wide a level-0 slot is, in whole milliseconds: 100 ms to 60 s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotWidth(u32);

impl SlotWidth {
    /// Checks the width.
    pub fn new(width: Duration) -> Result<Self, Invalid> {
        match u32::try_from(width.as_millis()) {
            Ok(ms @ 100..=60_000) => Ok(Self(ms)),
            _ => Err(Invalid::new("slot_width", &format!("{width:?}"), "expected 100ms to 60s")),
        }
    }

    /// The width in milliseconds.
    pub fn as_millis(self) -> u32 {
        self.0
    }

    /// The slot of an entry whose score is `next_at`, placed at `now`: the finest level whose 4096 slots reach it.
    pub fn slot_of(self, next_at: Moment, now: Moment) -> Slot {
        let ahead = next_at.as_millis().saturating_sub(now.as_millis());
        let level =
            (0..MAX_LEVEL).find(|&level| ahead < REACH * self.level_width(level)).unwrap_or(MAX_LEVEL);
        Slot { level, number: next_at.as_millis() / self.level_width(level) }
    }

    /// The width of a slot of `level`, in milliseconds.
    pub fn level_width(self, level: u8) -> u64 {
        u64::from(self.0) * FACTOR.pow(u32::from(level))
    }
}

impl Default for SlotWidth {
    /// One second: at the loads this is built for a slot stays below 128 entries, where Redis keeps the compact encoding.
    fn default() -> Self {
        Self(1000)
    }
}

/// One slot of the wheel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// 0 (finest) to 3.
    pub level: u8,
    /// The slot's start divided by its level's width.
    pub number: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_into_the_finest_level_that_reaches_it() {
        let width = SlotWidth::default();
        let now = Moment::from_millis(1_772_337_600_000).unwrap();
        let level = |ahead_ms: u64| {
            width.slot_of(Moment::from_millis(now.as_millis() + ahead_ms).unwrap(), now).level
        };
        assert_eq!(level(0), 0);
        assert_eq!(level(4_095_999), 0);
        assert_eq!(level(4_096_000), 1);
        assert_eq!(level(64 * 4_096_000), 2);
        assert_eq!(level(64 * 64 * 4_096_000), 3);
        assert_eq!(level(100 * 365 * 86_400_000), 3);
    }

    #[test]
    fn what_is_overdue_goes_into_a_slot_that_has_started() {
        let width = SlotWidth::default();
        let now = Moment::from_millis(1_772_337_600_000).unwrap();
        let slot = width.slot_of(Moment::from_millis(1_772_337_000_500).unwrap(), now);
        assert_eq!(slot, Slot { level: 0, number: 1_772_337_000 });
    }
}
