//! What a person typed or a link carries, read leniently: what is not understood is said beside the field, and never blanks the page.

use crate::clock::{Moment, parse_typed};
use crate::error::shown;

/// Parameters of a query or a form, decoded.
#[derive(Debug, Clone, Default)]
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub fn parse(text: &[u8]) -> Self {
        // More than any page has; a query of a megabyte is nobody's.
        const MOST: usize = 2000;
        Self(
            url::form_urlencoded::parse(text)
                .take(MOST)
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// The trimmed text of a parameter; empty where it is missing.
    pub fn text(&self, name: &str) -> &str {
        self.exact(name).trim()
    }

    /// The text as it was given: ids may begin or end with a space.
    pub fn exact(&self, name: &str) -> &str {
        self.0.iter().find(|(given, _)| given == name).map_or("", |(_, value)| value)
    }

    /// All values of a parameter that may be repeated.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// One of some words; the first where it is another, which is complained of.
    pub fn word(&self, name: &str, words: &[&'static str], complaints: &mut Vec<String>) -> &'static str {
        let first = words.first().copied().unwrap_or_default();
        let given = self.text(name);
        if given.is_empty() {
            return first;
        }
        words.iter().copied().find(|word| *word == given).unwrap_or_else(|| {
            complaints.push(format!("{name} \"{}\": expected one of {}", shown(given), words.join(", ")));
            first
        })
    }

    /// A whole number within a range; `default` where it is none, which is complained of.
    pub fn whole(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<u32>,
        default: u32,
        complaints: &mut Vec<String>,
    ) -> u32 {
        let given = self.text(name);
        if given.is_empty() {
            return default;
        }
        let number = given.parse().ok().filter(|n| range.contains(n));
        number.unwrap_or_else(|| {
            complaints.push(format!(
                "{name} \"{}\": expected {} to {}",
                shown(given),
                range.start(),
                range.end()
            ));
            default
        })
    }

    /// A moment; `None` where there is none, or one that is complained of.
    pub fn moment(&self, name: &str, now: Moment, complaints: &mut Vec<String>) -> Option<Moment> {
        let given = self.text(name);
        if given.is_empty() {
            return None;
        }
        parse_typed(name, given, now).map_err(|reason| complaints.push(reason)).ok()
    }
}

/// A link: a path, and parameters behind it.
#[derive(Debug, Clone)]
pub(super) struct Link(String, bool);

impl Link {
    pub fn to(path: impl Into<String>) -> Self {
        Self(path.into(), false)
    }

    /// With a parameter; one without a value is left out.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.0.push(if self.1 { '&' } else { '?' });
            let mut pair = url::form_urlencoded::Serializer::new(String::new());
            pair.append_pair(name, value);
            self.0.push_str(&pair.finish());
            self.1 = true;
        }
        self
    }
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_carries_any_text() {
        let link = Link::to("/x").with("id", "a&b=ü ?").with("none", "").with("s", "1");
        assert_eq!(link.to_string(), "/x?id=a%26b%3D%C3%BC+%3F&s=1");
        assert_eq!(Parameters::parse(b"id=a%26b%3D%C3%BC+%3F&s=1").exact("id"), "a&b=ü ?");
    }
}
