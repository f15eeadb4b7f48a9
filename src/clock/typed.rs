//! Moments as people type them into a form or a terminal, more leniently than a machine is read.

use std::time::Duration;

use super::{Moment, parse_duration};
use crate::error::shown;

/// A moment as people type it: RFC 3339, epoch milliseconds, a date and time of day in UTC, or a distance from now (`+15m`, `-1h`, `now`).
pub fn parse_typed(field: &str, text: &str, now: Moment) -> Result<Moment, String> {
    let span = |text: &str| parse_duration(field, text).map_err(|e| e.to_string());
    if text == "now" {
        return Ok(now);
    }
    if let Some(ahead) = text.strip_prefix('+') {
        return Ok(now.plus(span(ahead)?));
    }
    if let Some(back) = text.strip_prefix('-') {
        let back = span(back)?;
        return Ok(Moment::EPOCH.plus(Duration::from_millis(now.as_millis()).saturating_sub(back)));
    }
    let upper = text.replacen(' ', "T", 1);
    let utc = [
        text.to_owned(),
        upper.clone(),
        format!("{upper}Z"),
        format!("{upper}:00Z"),
        format!("{upper}T00:00:00Z"),
    ];
    let found = utc.iter().find_map(|text| Moment::parse(field, text).ok());
    found.ok_or_else(|| {
        format!(
            "{field} \"{}\": expected a moment in UTC like 2026-03-01 12:00, or a distance like +15m or -1h",
            shown(text)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_read_as_people_type_it() {
        let now = Moment::parse("", "2026-03-01T12:00:00Z").unwrap();
        let read = |text: &str| parse_typed("from", text, now).map(|m| m.to_string());
        for same in [
            "now",
            "2026-03-01T12:00:00Z",
            "2026-03-01T20:00:00+08:00",
            "2026-03-01 12:00",
            "2026-03-01T12:00:00",
            "1772366400000",
        ] {
            assert_eq!(read(same).unwrap(), now.to_string(), "{same}");
        }
        assert_eq!(read("2026-03-01").unwrap(), "2026-03-01T00:00:00.000Z");
        assert_eq!(read("+15m").unwrap(), "2026-03-01T12:15:00.000Z");
        assert_eq!(read("-1h").unwrap(), "2026-03-01T11:00:00.000Z");
        assert_eq!(read("-9000d").unwrap(), "2001-07-10T12:00:00.000Z");
        for bad in ["soon", "+", "12:00", "<script>", "1772337600"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
