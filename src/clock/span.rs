//! The grammar of a duration: whole numbers with a unit, largest unit first. A window of payment is typed by people, so everything
//! that could mean two things is refused: a number without a unit, `M` (month or minute?), signs, fractions.

use std::time::Duration;

use super::Moment;
use crate::error::Invalid;

/// The units, largest first, in milliseconds. A year is 365 days, for "practically never"; months and weeks are left out because `M`
/// and `m` differ by one Shift key.
const UNITS: [(&str, u64); 6] =
    [("y", 31_536_000_000), ("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

const EXPECTED: &str = "expected whole numbers with the units y (365 days), d, h, m, s or ms, largest first, like 30m, 90s or 1h30m";

/// Reads a duration from text; `field` names the input in the refusal.
///
/// `30m`, `1h30m`, `1h 30m`, `100ms`; `0` is the one number that needs no unit. In a compound each part must be less than one of the
/// unit before it (`1h90m` is a slip of the pen). The longest reaches from 1970 to the end of the year 9999.
pub fn parse_duration(field: &str, text: &str) -> Result<Duration, Invalid> {
    parse(text).map(Duration::from_millis).map_err(|reason| Invalid::new(field, text, reason))
}

fn parse(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let mut rest = text;
    let mut total: u64 = 0;
    // What the next part must stay below: nothing yet, then one of the unit before.
    let mut limit: Option<(&str, u64)> = None;
    while !rest.is_empty() {
        let digits_end = rest.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(digits_end);
        let unit_end = after.bytes().position(|b| b == b' ' || b.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        if digits.is_empty() {
            return Err(EXPECTED.to_owned());
        }
        if unit.is_empty() {
            return Err(format!("{digits} has no unit; {EXPECTED}"));
        }
        let Some(&(unit, millis)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("\"{}\" is not a unit; {EXPECTED}", crate::error::shown(unit)));
        };
        let part = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(millis)).ok_or(TOO_LONG)?;
        if let Some((before, one)) = limit
            && (part >= one || millis >= one)
        {
            return Err(format!("{digits}{unit} is not less than 1{before}; {EXPECTED}"));
        }
        limit = Some((unit, millis));
        total = total.checked_add(part).filter(|t| *t <= Moment::MAX.as_millis()).ok_or(TOO_LONG)?;
        rest = after;
        if let Some(more) = after.strip_prefix(' ') {
            // One space between parts, and none at the end.
            if !more.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(EXPECTED.to_owned());
            }
            rest = more;
        }
    }
    limit.map(|_| total).ok_or_else(|| EXPECTED.to_owned())
}

const TOO_LONG: &str = "is too long; expected at most the years from 1970 to 9999, about 8029y";

/// A duration for people, in whole milliseconds (what is finer is cut): `1h 30m`, `250ms`, `0s`. [`parse_duration`] reads it back.
/// The largest unit is the day, because only that is exact in everybody's mind.
pub fn show_duration(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut parts = Vec::new();
    for (unit, millis) in UNITS.into_iter().skip(1) {
        if rest >= millis {
            parts.push(format!("{}{unit}", rest / millis));
            rest %= millis;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// A duration for people, without what is too fine beside the rest: milliseconds from 10 s on, seconds from a day on.
pub fn show_span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    show_duration(match seconds {
        0..10 => duration,
        10..86_400 => Duration::from_secs(seconds),
        _ => Duration::from_secs(seconds / 60 * 60),
    })
}

/// A duration in about two digits, for what is compared at a glance: `0.4 ms`, `12 ms`, `1.5 s`, `240 s`.
pub fn show_brief(duration: Duration) -> String {
    let ms = duration.as_secs_f64() * 1000.0;
    match ms {
        ..9.95 => format!("{ms:.1} ms"),
        ..999.5 => format!("{ms:.0} ms"),
        ..9950.0 => format!("{:.1} s", ms / 1000.0),
        _ => format!("{:.0} s", ms / 1000.0),
    }
}

/// `in 29m 59s`, `3s ago`, `now`: where a moment lies from another.
pub fn distance(moment: Moment, now: Moment) -> String {
    if moment > now {
        format!("in {}", show_span(moment.since(now)))
    } else if now > moment {
        format!("{} ago", show_span(now.since(moment)))
    } else {
        "now".to_owned()
    }
}
