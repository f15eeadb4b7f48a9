//! Numbers, moments and spans as a person reads them.

use std::fmt;
use std::time::Duration;

use askama::filters::HtmlSafe;

use crate::clock::{Moment, distance};
pub(super) use crate::figure::grouped as count;

/// So many of a thing: `1 worker`, `2 workers`.
pub(super) fn of(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Bytes, with three digits at most that matter.
pub(super) fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (number as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    if unit == 0 || value >= 100.0 {
        format!("{value:.0} {}", units[unit])
    } else {
        format!("{value:.1} {}", units[unit])
    }
}

/// How long something took or is late, short: `0 ms`, `850 ms`, `2.4 s`, `3 m 20 s`, `2 h 5 m`, `9 d 4 h`.
pub(super) fn span(duration: Duration) -> String {
    let (ms, s) = (duration.as_millis(), duration.as_secs());
    match s {
        0 => format!("{ms} ms"),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{} m {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} m", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
    }
}

/// A moment: `<time>` in UTC, how far away, and for the script to add the reader's own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    moment: Moment,
    now: Option<Moment>,
}

impl At {
    /// The moment alone.
    pub fn of(moment: Moment) -> Self {
        Self { moment, now: None }
    }

    /// With how far away it is.
    pub fn seen(moment: Moment, now: Moment) -> Self {
        Self { moment, now: Some(now) }
    }

    /// The same, of milliseconds since 1970.
    pub fn millis(ms: u64) -> Self {
        Self::of(Moment::EPOCH.plus(Duration::from_millis(ms)))
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = self.moment.to_string();
        // A moment is digits and separators of our own making: nothing of others is in it.
        let text = full.get(..19).unwrap_or(&full).replace('T', " ");
        write!(f, "<time datetime=\"{full}\">{text}</time>")?;
        let Some(now) = self.now else { return Ok(()) };
        // Whole seconds: a page is older than that when it is read.
        let whole = |moment: Moment| Moment::EPOCH.plus(Duration::from_secs(moment.as_millis() / 1000));
        write!(f, " <span class=\"away\">{}</span>", distance(whole(self.moment), whole(now)))
    }
}

impl HtmlSafe for At {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(of(1, "worker", "workers"), "1 worker");
        assert_eq!(
            [0, 1023, 1024, 150 << 20, 3 << 40].map(bytes),
            ["0 B", "1023 B", "1.0 KiB", "150 MiB", "3.0 TiB"].map(str::to_owned)
        );
        let seconds = |s: f64| span(Duration::from_secs_f64(s));
        assert_eq!(
            [0.0, 0.85, 2.4, 200.0, 7500.0, 792_000.0].map(seconds),
            ["0 ms", "850 ms", "2.4 s", "3 m 20 s", "2 h 5 m", "9 d 4 h"].map(str::to_owned)
        );
        let at = At::seen(
            Moment::from_millis(1_772_337_600_000).unwrap(),
            Moment::from_millis(1_772_337_660_000).unwrap(),
        );
        assert_eq!(
            at.to_string(),
            "<time datetime=\"2026-03-01T04:00:00.000Z\">2026-03-01 04:00:00</time> <span class=\"away\">1m ago</span>"
        );
    }
}
