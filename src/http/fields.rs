//! The members of a JSON object, each still as its own text. A member that is not known, or of another type than expected, is refused by
//! its name: a misspelt time that was ignored would close an order at once.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use serde_json::de::StrRead;
use serde_json::value::RawValue;

use super::problem::Problem;
use crate::clock::{Moment, parse_duration};
use crate::error::shown;

/// An object of known members.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    names: &'static [&'static str],
    values: Vec<Option<&'a RawValue>>,
}

impl<'a> Fields<'a> {
    /// Reads an object that has no members but these.
    pub fn parse(text: &'a str, names: &'static [&'static str]) -> Result<Self, Problem> {
        let mut members = Members { names, values: vec![None; names.len()], unknown: None };
        let mut reader = serde_json::Deserializer::from_str(text);
        let outcome = members.read(&mut reader).and_then(|()| reader.end());
        if let Some(name) = members.unknown {
            let known = names.join(", ");
            let detail = format!("unknown member \"{}\"; expected {known}", shown(&name));
            let problem = Problem::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "unknown_field", detail);
            return Err(problem.of_field(&shown(&name)));
        }
        outcome.map_err(|e| bad_json(&e))?;
        Ok(Self { names, values: members.values })
    }

    /// The text of a member as it was written, `null` too.
    pub fn raw(&self, name: &str) -> Option<&'a RawValue> {
        let at = self.names.iter().position(|known| *known == name)?;
        self.values.get(at).copied().flatten()
    }

    /// Whether it was given.
    pub fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    /// A text.
    pub fn text(&self, name: &str) -> Result<Option<Cow<'a, str>>, Problem> {
        self.read(name, "expected text in quotes")
    }

    /// A text that must be there.
    pub fn needed(&self, name: &str) -> Result<Cow<'a, str>, Problem> {
        self.text(name)?.ok_or_else(|| Problem::unprocessable(name, format!("{name}: is missing")))
    }

    /// A list of texts.
    pub fn texts(&self, name: &str) -> Result<Option<Vec<Cow<'a, str>>>, Problem> {
        self.read(name, "expected a list of texts")
    }

    /// `true` or `false`.
    pub fn flag(&self, name: &str) -> Result<bool, Problem> {
        Ok(self.read(name, "expected true or false")?.unwrap_or(false))
    }

    /// A whole number, at least `least`.
    pub fn whole(&self, name: &str, least: u64) -> Result<Option<u64>, Problem> {
        let expected = format!("expected a whole number from {least} on");
        let number: Option<u64> = self.read(name, &expected)?;
        match number {
            Some(number) if number < least => {
                Err(Problem::unprocessable(name, format!("{name}: {expected}")))
            }
            number => Ok(number),
        }
    }

    /// A duration, as text with its units.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>, Problem> {
        let expected = "expected a duration as text with its units, like \"30m\"";
        let text: Option<Cow<'_, str>> = self.read(name, expected)?;
        Ok(text.map(|text| parse_duration(name, &text)).transpose()?)
    }

    /// A moment: RFC 3339 with its offset as text, or 13 digits of epoch milliseconds as text or number.
    pub fn moment(&self, name: &str) -> Result<Option<Moment>, Problem> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        let text: Cow<'_, str> = serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().into());
        Ok(Some(Moment::parse(name, &text)?))
    }

    /// An object within this one.
    pub fn object(&self, name: &str, names: &'static [&'static str]) -> Result<Option<Fields<'a>>, Problem> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        if !raw.get().starts_with('{') {
            return Err(Problem::unprocessable(name, format!("{name}: expected an object")));
        }
        Fields::parse(raw.get(), names).map(Some)
    }

    fn read<T: serde::Deserialize<'a>>(&self, name: &str, expected: &str) -> Result<Option<T>, Problem> {
        let Some(raw) = self.raw(name) else { return Ok(None) };
        match serde_json::from_str(raw.get()) {
            Ok(value) => Ok(Some(value)),
            Err(_) => {
                let detail = format!("{name}: {expected}, not {}", shown(raw.get()));
                Err(Problem::unprocessable(name, detail))
            }
        }
    }
}

/// 400, with serde_json's reason.
pub(super) fn bad_json(error: &serde_json::Error) -> Problem {
    Problem::bad_request("bad_json", crate::error::escaped(&error.to_string()))
}

struct Members<'a> {
    names: &'static [&'static str],
    values: Vec<Option<&'a RawValue>>,
    unknown: Option<String>,
}

impl<'a> Members<'a> {
    fn read(&mut self, reader: &mut serde_json::Deserializer<StrRead<'a>>) -> serde_json::Result<()> {
        self.deserialize(reader)
    }
}

impl<'a> DeserializeSeed<'a> for &mut Members<'a> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'a>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for &mut Members<'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'a>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(name) = map.next_key::<Cow<'a, str>>()? {
            let Some(at) = self.names.iter().position(|known| *known == name) else {
                self.unknown = Some(name.into_owned());
                return Err(M::Error::custom("unknown member"));
            };
            if self.values[at].is_some() {
                return Err(M::Error::custom(format!("member \"{name}\" is given twice")));
            }
            self.values[at] = Some(map.next_value()?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &["in", "at", "remind"];

    fn refused(text: &str) -> (u16, &'static str) {
        let problem = Fields::parse(text, NAMES).unwrap_err();
        (problem.status.as_u16(), problem.code)
    }

    #[test]
    fn what_is_no_object_of_these_members_is_refused() {
        for bad in ["", "{", "[]", "7", "{}x", "{\"in\":\"1m\",\"in\":\"2m\"}", "{\"in\":}", "null"] {
            assert_eq!(refused(bad), (400, "bad_json"), "{bad}");
        }
        assert_eq!(refused("{\"inn\":\"1m\"}"), (422, "unknown_field"));
        let deep = format!("{{\"in\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(Fields::parse(&deep, NAMES).unwrap().text("in").is_err());
    }

    #[test]
    fn a_member_of_another_type_is_refused_by_its_name() {
        for bad in ["null", "7", "true", "[]", "{}", "1e400"] {
            let text = format!("{{\"in\":{bad},\"at\":{bad},\"remind\":{bad}}}");
            let fields = Fields::parse(&text, NAMES).unwrap();
            assert_eq!(fields.duration("in").unwrap_err().members()["field"], "in", "{bad}");
            assert_eq!(fields.moment("at").unwrap_err().members()["field"], "at", "{bad}");
            assert_eq!(fields.texts("remind").is_err(), bad != "[]", "{bad}");
        }
        let fields = Fields::parse(r#"{"at":1772337600000,"in":"1\u006d"}"#, NAMES).unwrap();
        assert_eq!(fields.moment("at").unwrap().unwrap().as_millis(), 1_772_337_600_000);
        assert_eq!(fields.duration("in").unwrap().unwrap().as_secs(), 60);
        assert!(!fields.has("remind"));
    }
}
