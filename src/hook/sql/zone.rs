//! The time zone of a session, in the words of each database.

/// A zone: an offset from UTC, or a name of the time zone database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Zone {
    /// `+08:00`, east of Greenwich.
    Offset(String),
    /// `Europe/Berlin`.
    Named(String),
}

impl Zone {
    /// Reads `UTC`, `Z`, `±HH:MM` or a zone's name; the name must be known to the time zone database.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "time_zone \"{}\": expected UTC, an offset like +08:00, or a name like Europe/Berlin",
                crate::error::shown(text)
            )
        };
        if matches!(text, "UTC" | "Z") {
            return Ok(Self::Offset("+00:00".to_owned()));
        }
        let bytes = text.as_bytes();
        if let Some(b'+' | b'-') = bytes.first() {
            let number = |range: std::ops::Range<usize>| {
                text.get(range).filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?.parse::<u32>().ok()
            };
            let (hours, minutes) = number(1..3).zip(number(4..6)).ok_or_else(refused)?;
            let valid = bytes.len() == 6 && bytes[3] == b':' && hours <= 13 && minutes <= 59;
            return if valid || text == "+14:00" {
                Ok(Self::Offset(text.to_owned()))
            } else {
                Err(refused())
            };
        }
        let grammatical = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/_+-".contains(&b));
        // Without a time zone database on this host, the shop's database is the one to know.
        let known = jiff::tz::db().is_definitively_empty() || jiff::tz::TimeZone::get(text).is_ok();
        if grammatical && !text.is_empty() && known {
            Ok(Self::Named(text.to_owned()))
        } else {
            Err(refused())
        }
    }

    /// As MariaDB's `time_zone`.
    pub(super) fn for_mysql(&self) -> String {
        match self {
            Self::Offset(text) | Self::Named(text) => text.clone(),
        }
    }

    /// As PostgreSQL's `TimeZone`. A bare `+08:00` would be read by the POSIX rule, west of Greenwich; so that rule is spelled out.
    pub(super) fn for_postgres(&self) -> String {
        match self {
            Self::Offset(text) => {
                let west = if text.starts_with('-') { "+" } else { "-" };
                format!("<{text}>{west}{}", text.get(1..).unwrap_or_default())
            }
            Self::Named(text) => text.clone(),
        }
    }

    /// Whether local times of this zone can be read in two ways.
    pub(super) fn has_summer_time(&self) -> bool {
        let Self::Named(name) = self else { return false };
        let Ok(zone) = jiff::tz::TimeZone::get(name) else { return true };
        zone.following(jiff::Timestamp::now()).next().is_some()
    }

    /// Whether the zone is UTC itself.
    pub(super) fn is_utc(&self) -> bool {
        matches!(self, Self::Offset(text) if text == "+00:00")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_names_are_read_and_anything_else_is_refused() {
        for good in ["+08:00", "-05:00", "+05:30", "+14:00", "Europe/Berlin", "America/New_York", "UTC", "Z"]
        {
            assert!(Zone::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "+8", "+08:60", "+24:00", "08:00", "+0800", "Mars/Olympus", "UTC'; DROP", "+08:00x"] {
            assert!(Zone::parse(bad).is_err(), "{bad}");
        }
        assert!(Zone::parse("Europe/Berlin").unwrap().has_summer_time());
        assert!(!Zone::parse("Asia/Shanghai").unwrap().has_summer_time());
        assert_eq!(Zone::parse("+08:00").unwrap().for_postgres(), "<+08:00>-08:00");
        assert_eq!(Zone::parse("-03:30").unwrap().for_postgres(), "<-03:30>+03:30");
    }
}
