//! Wheels, their shards, and the hash tags that keep a shard's keys together.

use std::fmt;

use crate::error::Invalid;

/// The layout number: part of every key, kept in each shard's meta, compared on every call.
pub const LAYOUT: u32 = 1;

/// The name of a wheel: `[a-z][a-z0-9_-]*`, at most 48 bytes. The grammar keeps a hash tag or a key separator out of the name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WheelName(Box<str>);

impl WheelName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 48;

    /// Checks `name` against the grammar.
    pub fn new(name: &str) -> Result<Self, Invalid> {
        let grammar =
            "expected a lower-case letter, then lower-case letters, digits, _ or -, at most 48 in all";
        let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
        let goes_on_well =
            name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
        if starts_well && goes_on_well && name.len() <= Self::MAX_BYTES {
            Ok(Self(name.into()))
        } else {
            Err(Invalid::new("wheel", name, grammar))
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WheelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One shard of a wheel, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard(pub u16);

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// How many shards a wheel has: 1 to 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardCount(u16);

const CRC16: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);

impl ShardCount {
    /// Checks the count.
    pub fn new(count: u32) -> Result<Self, Invalid> {
        match u16::try_from(count) {
            Ok(n @ 1..=1024) => Ok(Self(n)),
            _ => Err(Invalid::new("shards", &count.to_string(), "expected 1 to 1024")),
        }
    }

    /// The number itself.
    pub fn get(self) -> u16 {
        self.0
    }

    /// The shard of an id: `crc16(id) % shards`, the CRC that Redis Cluster uses for its hash slots.
    pub fn shard_of(self, id: &[u8]) -> Shard {
        Shard(CRC16.checksum(id) % self.0)
    }

    /// All shards, in order.
    pub fn all(self) -> impl Iterator<Item = Shard> {
        (0..self.0).map(Shard)
    }
}

impl Default for ShardCount {
    /// 16: `bodies` and `ended` stay below 100k fields each up to about 1.5 M deadlines.
    fn default() -> Self {
        Self(16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_carry_a_hash_tag_or_a_key_separator() {
        for bad in ["", "Orders", "a{b}", "a:b", "a b", "7up", &"x".repeat(49)] {
            assert!(WheelName::new(bad).is_err(), "{bad:?} was accepted");
        }
        assert_eq!(WheelName::new("flash_orders-2").unwrap().as_str(), "flash_orders-2");
    }

    #[test]
    fn an_id_keeps_its_shard_for_ever() {
        let sixteen = ShardCount::default();
        // CRC-16/XMODEM of "123456789" is 0x31C3, the check value of that CRC.
        assert_eq!(sixteen.shard_of(b"123456789"), Shard(0x31C3 % 16));
        assert_eq!(ShardCount::new(1).unwrap().shard_of(b"anything"), Shard(0));
    }

    #[test]
    fn a_wheel_has_one_to_1024_shards() {
        assert!(ShardCount::new(0).is_err());
        assert!(ShardCount::new(1025).is_err());
        assert_eq!(ShardCount::new(1024).unwrap().all().count(), 1024);
    }
}
