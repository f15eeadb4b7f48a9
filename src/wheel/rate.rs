//! The rate of a wheel: one bucket of tokens for the whole fleet, on the wheel's own tag.

use std::time::Duration;

use super::{Wheel, keys, reply, script};
use crate::error::{Invalid, Result};

/// How fast a wheel may be claimed from: never more than `per_second * w + burst` deadlines in any window of `w` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Thousandths of a deadline a second.
    millis: u32,
    burst: u32,
}

impl Rate {
    /// Checks the numbers: 0.001 to 1,000,000 deadlines a second, a burst of 1 to 1,000,000.
    pub fn new(per_second: f64, burst: u32) -> std::result::Result<Self, Invalid> {
        let millis = (per_second * 1000.0).round();
        if !(1.0..=1e9).contains(&millis) {
            return Err(Invalid::new("rate", &per_second.to_string(), "expected 0.001 to 1000000 a second"));
        }
        if !(1..=1_000_000).contains(&burst) {
            return Err(Invalid::new("burst", &burst.to_string(), "expected 1 to 1000000"));
        }
        // In range, so nothing is cut.
        Ok(Self { millis: millis as u32, burst })
    }

    /// Deadlines a second.
    pub fn per_second(&self) -> f64 {
        f64::from(self.millis) / 1000.0
    }

    /// Deadlines that may be claimed at once.
    pub fn burst(&self) -> u32 {
        self.burst
    }
}

/// What a worker tells and asks of the bucket.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish {
    /// Tokens it still holds, those in claims under way included.
    pub held: usize,
    /// Tokens it gives back unused. What it neither holds nor gives back it has used.
    pub back: usize,
    /// Tokens it wants besides.
    pub want: usize,
}

/// What the bucket gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// Redis's clock in microseconds.
    pub now_us: u64,
    /// Tokens.
    pub granted: usize,
    /// Until when all tokens that the worker holds are good, by Redis's clock in microseconds.
    pub good_until_us: u64,
    /// When asking again may help.
    pub wait: Duration,
    /// How many of those that the worker said to hold are still its own; the bucket may have been lost.
    pub kept: usize,
}

/// The bucket as it was left by the last grant.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Bucket {
    /// Deadlines a second.
    pub rate: f64,
    /// Deadlines at once.
    pub burst: u64,
    /// Tokens in it.
    pub tokens: u64,
    /// Tokens with workers.
    pub held: u64,
}

impl Wheel {
    /// Settles a worker's tokens with the bucket and asks for more. They are good for `good`, at most a second. Safe to repeat.
    pub async fn grant(&self, rate: Rate, worker: &str, wish: Wish, good: Duration) -> Result<Grant> {
        let keys = [keys::of_wheel(self.name(), "rate")];
        let attempted = format!("ask for tokens of wheel {}", self.name());
        let args = |cmd: &mut redis::Cmd| {
            cmd.arg(&self.inner.front[3]).arg(rate.millis).arg(rate.burst).arg(worker);
            cmd.arg(wish.held).arg(wish.back).arg(wish.want).arg(good.as_micros().to_string());
        };
        let value = self.store().run(&script::GRANT, &keys, args, &attempted).await?;
        let mut reply = reply::Reply::array("grant", value)?;
        Ok(Grant {
            now_us: reply.u64()?,
            granted: usize::try_from(reply.u64()?).unwrap_or(0),
            good_until_us: reply.u64()?,
            wait: Duration::from_micros(reply.u64()?),
            kept: usize::try_from(reply.u64()?).unwrap_or(0),
        })
    }

    /// The bucket; `None` where nobody asked for tokens yet.
    pub async fn bucket(&self) -> Result<Option<Bucket>> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(keys::of_wheel(self.name(), "rate"));
        let mut reply = reply::Reply::pairs("rate", self.store().command(&cmd, "read the bucket").await?)?;
        let mut fields = std::collections::BTreeMap::new();
        while reply.len() >= 2 {
            fields.insert(reply.word()?, reply.word()?);
        }
        let number = |name: &str| fields.get(name).and_then(|text| text.parse::<f64>().ok());
        let (Some(level), Some(rate), Some(burst)) = (number("level"), number("rate"), number("burst"))
        else {
            return Ok(None);
        };
        let workers = fields.iter().filter(|(name, _)| name.starts_with("w:"));
        let held = workers.filter_map(|(_, text)| text.split(' ').next()?.parse::<u64>().ok()).sum();
        // Small numbers: tokens are at most a million, and a level is kept in parts of 1e-9.
        let (tokens, burst) = ((level / 1e9).floor() as u64, burst as u64);
        Ok(Some(Bucket { rate: rate / 1000.0, burst, tokens, held }))
    }
}
