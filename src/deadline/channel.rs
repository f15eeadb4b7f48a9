//! Payment channels: what a provider asks of deadlines, and how far a payment under way may put a close off.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::{Moment, show_duration};
use crate::error::Invalid;

/// How far deadlines may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldLimits {
    /// The longest one hold.
    pub max_for: Duration,
    /// Holds of one deadline in all.
    pub max_count: u32,
    /// How long one deadline may be held in all.
    pub max_total: Duration,
}

/// What holds for one payment channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    /// Its limits; `None` where it may not hold at all.
    pub hold: Option<HoldLimits>,
    /// The shortest window from the enqueue to the close.
    pub min_window: Duration,
    /// How old an order must be, counted from its creation, before it is closed.
    pub min_age: Duration,
}

/// The channels of a wheel, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Channels {
    /// Their rules.
    pub by_name: BTreeMap<String, Channel>,
    /// Whether a hold must name one.
    pub needed_to_hold: bool,
}

impl Channels {
    fn find(&self, name: &str) -> Result<&Channel, Invalid> {
        self.by_name.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
            let expected = if known.is_empty() {
                "no channel is configured (wheel.NAME.channel.CHANNEL)".to_owned()
            } else {
                format!("expected one of {}", known.join(", "))
            };
            Invalid::new("channel", name, expected)
        })
    }

    /// How far a hold through this channel may go; `otherwise` where none is named. Refuses a channel that may not hold, and one hold
    /// that is too long.
    pub fn hold(
        &self,
        name: Option<&str>,
        for_long: Duration,
        otherwise: HoldLimits,
    ) -> Result<HoldLimits, Invalid> {
        let (limits, whose) = match name {
            None if self.needed_to_hold => {
                let may = self.by_name.iter().filter(|(_, channel)| channel.hold.is_some());
                let who: Vec<&str> = may.map(|(name, _)| name.as_str()).collect();
                let reason = format!("is missing, and only a channel may hold: {}", who.join(", "));
                return Err(Invalid::new("channel", "", reason));
            }
            None => (otherwise, String::new()),
            Some(name) => match self.find(name)?.hold {
                Some(limits) => (limits, format!(" through {name}")),
                None => return Err(Invalid::new("channel", name, "may not hold a close (hold = false)")),
            },
        };
        if for_long > limits.max_for {
            let reason = format!("expected at most {} for one hold{whose}", show_duration(limits.max_for));
            return Err(Invalid::new("for", &show_duration(for_long), reason));
        }
        Ok(limits)
    }

    /// Before which moment an order of this channel may not close that was created then: for orders that are read from a table, where
    /// nobody is there to be refused. `None` where no rule of this name says anything.
    pub fn not_before(&self, name: &str, created_at: Moment) -> Option<Moment> {
        let channel = self.by_name.get(name)?;
        let least = channel.min_age.max(channel.min_window);
        (!least.is_zero()).then(|| created_at.plus(least))
    }

    /// Whether an order of this channel may close `window` from now, `age` after its creation. `field` is what the caller calls the
    /// moment of the close.
    pub fn admit(&self, name: &str, field: &str, window: Duration, age: Duration) -> Result<(), Invalid> {
        let channel = self.find(name)?;
        let least = show_duration;
        if window < channel.min_window {
            let reason =
                format!("expected at least {} from now for {name} (min_window)", least(channel.min_window));
            return Err(Invalid::new(field, &show_duration(window), reason));
        }
        if age < channel.min_age {
            let reason = format!(
                "expected a close at least {} after the order's creation for {name} (min_age)",
                least(channel.min_age)
            );
            return Err(Invalid::new(field, &show_duration(age), reason));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const HOUR: Duration = Duration::from_secs(3600);
    const OTHERWISE: HoldLimits = HoldLimits { max_for: HOUR, max_count: 3, max_total: HOUR };

    fn channels() -> Channels {
        let wechat = Channel {
            hold: Some(HoldLimits { max_for: 5 * MINUTE, max_count: 1, max_total: 5 * MINUTE }),
            min_window: MINUTE,
            min_age: 5 * MINUTE,
        };
        let cash = Channel { hold: None, min_window: Duration::ZERO, min_age: Duration::ZERO };
        let by_name = [("wechat".to_owned(), wechat), ("cash".to_owned(), cash)].into();
        Channels { by_name, needed_to_hold: false }
    }

    fn said<T: std::fmt::Debug>(refused: Result<T, Invalid>) -> String {
        refused.unwrap_err().to_string()
    }

    #[test]
    fn a_hold_is_bounded_by_its_channel() {
        let channels = channels();
        let hold = |name, minutes: u32| channels.hold(name, minutes * MINUTE, OTHERWISE);
        assert_eq!(hold(None, 50), Ok(OTHERWISE));
        assert_eq!(hold(Some("wechat"), 5).unwrap().max_count, 1);
        assert_eq!(
            said(hold(Some("wechat"), 6)),
            "for \"6m\": expected at most 5m for one hold through wechat"
        );
        assert_eq!(said(hold(None, 61)), "for \"1h 1m\": expected at most 1h for one hold");
        assert!(said(hold(Some("cash"), 1)).contains("may not hold"));
        assert!(said(hold(Some("paypal"), 1)).contains("expected one of cash, wechat"));
        let strict = Channels { needed_to_hold: true, ..channels.clone() };
        let unnamed = said(strict.hold(None, MINUTE, OTHERWISE));
        assert_eq!(unnamed, "channel: is missing, and only a channel may hold: wechat");
    }

    #[test]
    fn what_is_read_from_a_table_is_put_off_to_the_stricter_of_both_rules() {
        let channels = channels();
        let created_at = Moment::from_millis(1_760_000_000_000).unwrap();
        assert_eq!(channels.not_before("wechat", created_at), Some(created_at.plus(5 * MINUTE)));
        assert_eq!(channels.not_before("cash", created_at), None);
        assert_eq!(channels.not_before("unknown", created_at), None);
    }

    #[test]
    fn a_deadline_obeys_the_provider() {
        let channels = channels();
        assert_eq!(channels.admit("wechat", "--in", MINUTE, 5 * MINUTE), Ok(()));
        let short = said(channels.admit("wechat", "--in", MINUTE / 2, 50 * MINUTE));
        assert_eq!(short, "--in \"30s\": expected at least 1m from now for wechat (min_window)");
        let young = said(channels.admit("wechat", "--at", 4 * MINUTE, 4 * MINUTE));
        assert!(
            young.starts_with("--at \"4m\": expected a close at least 5m after the order's creation"),
            "{young}"
        );
        assert_eq!(channels.admit("cash", "--in", Duration::ZERO, Duration::ZERO), Ok(()));
    }
}
