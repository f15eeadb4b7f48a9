//! The query of a request: known parameters, each at most once unless it may be repeated.

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::problem::Problem;
use crate::clock::{Moment, parse_duration};
use crate::error::shown;

/// Parameters, decoded.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query that has no parameters but these. `type` alone may be repeated.
    pub fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut parameters: Vec<(String, String)> = Vec::new();
        for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            if !known.contains(&&*name) {
                let expected = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                let detail = format!("unknown parameter \"{}\"; expected {expected}", shown(&name));
                return Err(Problem::unprocessable(&shown(&name), detail));
            }
            if name != "type" && parameters.iter().any(|(given, _)| *given == name) {
                return Err(Problem::unprocessable(&name, format!("{name}: is given twice")));
            }
            parameters.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(parameters))
    }

    /// A parameter's text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter that may be repeated.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    pub fn moment(&self, name: &str) -> Result<Option<Moment>, Problem> {
        Ok(self.text(name).map(|text| Moment::parse(name, text)).transpose()?)
    }

    pub fn duration(&self, name: &str) -> Result<Option<Duration>, Problem> {
        Ok(self.text(name).map(|text| parse_duration(name, text)).transpose()?)
    }

    /// A whole number within a range.
    pub fn whole(&self, name: &str, range: RangeInclusive<u32>, default: u32) -> Result<u32, Problem> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let number = text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        number.filter(|n| range.contains(n)).ok_or_else(|| {
            let expected = format!("expected a whole number from {} to {}", range.start(), range.end());
            Problem::unprocessable(name, format!("{name} \"{}\": {expected}", shown(text)))
        })
    }

    /// One of some words.
    pub fn word<'a>(&'a self, name: &str, words: &[&str], default: &'a str) -> Result<&'a str, Problem> {
        let given = self.text(name).unwrap_or(default);
        one_of(name, given, words).map(|()| given)
    }
}

/// Refuses a text that is none of these words.
pub(super) fn one_of(name: &str, given: &str, words: &[&str]) -> Result<(), Problem> {
    if words.contains(&given) {
        return Ok(());
    }
    let given: Cow<'_, str> = shown(given).into();
    Err(Problem::unprocessable(name, format!("{name} \"{given}\": expected one of {}", words.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_that_is_unknown_twice_or_out_of_range_is_refused() {
        let known = ["limit", "type", "from"];
        for bad in ["limt=1", "limit=1&limit=2", "token=abc", "=1"] {
            assert!(Query::parse(Some(bad), &known).is_err(), "{bad}");
        }
        for bad in ["limit=-1", "limit=0", "limit=501", "limit=1e9", "limit=abc", "limit=", "limit=%2B5"] {
            let query = Query::parse(Some(bad), &known).unwrap();
            assert!(query.whole("limit", 1..=500, 50).is_err(), "{bad}");
        }
        let query = Query::parse(Some("limit=7&type=a&type=b&from=1772337600000"), &known).unwrap();
        assert_eq!(query.whole("limit", 1..=500, 50).unwrap(), 7);
        assert_eq!(query.all("type").collect::<Vec<_>>(), ["a", "b"]);
        assert!(query.moment("from").unwrap().is_some());
    }
}
