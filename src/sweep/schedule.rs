//! When a job is due: an interval, or a cron expression in UTC.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff_cron::jiff::Timestamp;
use jiff_cron::jiff::tz::TimeZone;

use crate::clock::{Moment, parse_duration, show_duration};

/// When a job is due.
#[derive(Debug, Clone, Default)]
pub enum Schedule {
    /// Never by itself.
    #[default]
    Off,
    /// So long after the last run began.
    Every(Duration),
    /// At the moments that a cron expression names, in UTC.
    Cron(Box<jiff_cron::Schedule>),
}

impl Schedule {
    /// Reads `off`, a duration of 100 ms to 7 days (`5m`), or a cron expression of five fields (`*/5 * * * *`; weekdays by name).
    pub fn parse(text: &str) -> Result<Self, String> {
        const EXPECTED: &str =
            "expected a duration from 100ms to 7d, a cron expression of five fields like */5 * * * *, or off";
        let text = text.trim();
        if text == "off" {
            return Ok(Self::Off);
        }
        let fields: Vec<&str> = text.split_ascii_whitespace().collect();
        if fields.len() == 5 {
            // Programs disagree whether 0, 1 or 7 is Sunday.
            if fields[4].bytes().any(|b| b.is_ascii_digit()) {
                return Err("expected weekdays by name in a cron expression, like Mon-Fri".to_owned());
            }
            let cron = jiff_cron::Schedule::from_str(&format!("0 {text}"))
                .map_err(|e| format!("{EXPECTED} ({e})"))?;
            return Ok(Self::Cron(Box::new(cron)));
        }
        let every = parse_duration("", text).map_err(|_| EXPECTED.to_owned())?;
        if (Duration::from_millis(100)..=Duration::from_secs(7 * 86_400)).contains(&every) {
            Ok(Self::Every(every))
        } else {
            Err(EXPECTED.to_owned())
        }
    }

    /// Whether it is never due.
    pub fn is_off(&self) -> bool {
        matches!(self, Self::Off)
    }

    /// A run that began at this moment or later makes another one needless at `now`; `None` where none is ever due.
    pub fn since(&self, now: Moment) -> Option<Moment> {
        match self {
            Self::Off => None,
            Self::Every(every) => {
                let every = u64::try_from(every.as_millis()).unwrap_or(u64::MAX);
                Moment::from_millis(now.as_millis().saturating_sub(every).max(1)).ok()
            }
            Self::Cron(cron) => {
                let now = Timestamp::from_millisecond(i64::try_from(now.as_millis()).ok()?).ok()?;
                // The iterator goes backwards from its start and leaves it out; a moment that has just come counts.
                let from = now.checked_add(Duration::from_millis(1)).ok()?.to_zoned(TimeZone::UTC);
                let last = cron.after(from).next_back()?;
                Moment::from_millis(u64::try_from(last.timestamp().as_millisecond()).ok()?).ok()
            }
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Every(every) => f.write_str(&show_duration(*every)),
            Self::Cron(cron) => f.write_str(cron.source().strip_prefix("0 ").unwrap_or(cron.source())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Moment {
        Moment::parse("", text).unwrap()
    }

    #[test]
    fn an_interval_counts_from_the_last_run() {
        let schedule = Schedule::parse("5m").unwrap();
        assert_eq!(schedule.since(at("2026-03-01T12:00:00Z")), Some(at("2026-03-01T11:55:00Z")));
        assert_eq!(schedule.to_string(), "5m");
        assert!(Schedule::parse("off").unwrap().since(Moment::MAX).is_none());
    }

    #[test]
    fn a_cron_expression_names_the_last_moment_that_has_come() {
        let schedule = Schedule::parse("30 3 * * Mon-Fri").unwrap();
        // 2026-03-02 is a Monday.
        assert_eq!(schedule.since(at("2026-03-02T03:30:00Z")), Some(at("2026-03-02T03:30:00Z")));
        assert_eq!(schedule.since(at("2026-03-02T03:29:59Z")), Some(at("2026-02-27T03:30:00Z")));
        assert_eq!(schedule.since(at("2026-03-01T12:00:00Z")), Some(at("2026-02-27T03:30:00Z")));
        let every = Schedule::parse("*/5 * * * *").unwrap();
        assert_eq!(every.since(at("2026-03-01T12:03:04.567Z")), Some(at("2026-03-01T12:00:00Z")));
        assert_eq!(every.to_string(), "*/5 * * * *");
    }

    #[test]
    fn what_could_mean_two_things_is_refused() {
        for bad in
            ["", "5", "99ms", "8d", "* * * *", "0 3 * * 1", "0 3 * * 7", "61 * * * *", "on", "5 minutes"]
        {
            assert!(Schedule::parse(bad).is_err(), "{bad} was accepted");
        }
    }
}
