//! How a wheel is laid out and how Redis is reached.

use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;

use super::address::Address;
use crate::deadline::{Channels, HoldLimits, Reminders};
use crate::shard::{ShardCount, WheelName};
use crate::slot::SlotWidth;

/// One wheel.
#[derive(Debug, Clone)]
pub struct WheelSettings {
    /// Its name.
    pub name: WheelName,
    /// How many shards; kept in each shard's meta and compared on every call.
    pub shards: ShardCount,
    /// Width of a level-0 slot; kept in each shard's meta and compared on every call.
    pub slot_width: SlotWidth,
    /// How long closed and skipped are remembered; zero turns it off.
    pub ended_keep: Duration,
    /// How long cancelled is remembered; zero turns it off.
    pub cancelled_keep: Duration,
    /// How long events are kept.
    pub events_keep: Duration,
    /// The furthest a deadline may lie ahead.
    pub max_ahead: Duration,
    /// The longest one hold.
    pub hold_max_for: Duration,
    /// Holds a deadline may have in all.
    pub hold_max_count: u32,
    /// Time a deadline may be held in all.
    pub hold_max_total: Duration,
    /// What holds for each payment channel.
    pub channels: Channels,
    /// Reminders of deadlines that do not say themselves.
    pub remind: Reminders,
}

impl WheelSettings {
    /// A wheel of that name with the defaults of `config/default.toml`.
    pub fn new(name: WheelName) -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self {
            name,
            shards: ShardCount::default(),
            slot_width: SlotWidth::default(),
            ended_keep: 72 * HOUR,
            cancelled_keep: HOUR,
            events_keep: 72 * HOUR,
            // A hundred years and a bit: anything further is a unit mistaken.
            max_ahead: 24 * 36_600 * HOUR,
            // As long as the total allows.
            hold_max_for: 24 * 366 * HOUR,
            hold_max_count: 3,
            hold_max_total: HOUR,
            channels: Channels::default(),
            remind: Reminders::default(),
        }
    }
}

impl WheelSettings {
    /// How far a deadline may be held where no channel says otherwise.
    pub fn hold_limits(&self) -> HoldLimits {
        HoldLimits {
            max_for: self.hold_max_for,
            max_count: self.hold_max_count,
            max_total: self.hold_max_total,
        }
    }
}

/// How Redis is reached.
#[derive(Debug, Clone)]
pub struct RedisSettings {
    /// `redis://`, `rediss://`, `unix://`, `valkey://`, `redis+sentinel://`, `redis+cluster://`…; may hold a password, so never shown.
    pub url: SecretString,
    /// The authorities that vouch for the server of `rediss://`, PEM; without it Mozilla's.
    pub ca_file: Option<PathBuf>,
    /// Time to make a connection, TLS and login included.
    pub connect_timeout: Duration,
    /// Time to wait for one answer. After it the outcome is unknown.
    pub response_timeout: Duration,
    /// Connections in the pool.
    pub pool_size: usize,
}

impl RedisSettings {
    /// Redis at `url` with the defaults of `config/default.toml`.
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            ca_file: None,
            connect_timeout: Duration::from_secs(3),
            response_timeout: Duration::from_secs(3),
            pool_size: 8,
        }
    }

    /// What is wrong with a URL, if anything; never repeats it.
    pub fn check_url(url: &str) -> Result<(), String> {
        Address::parse(url).map(drop)
    }
}
