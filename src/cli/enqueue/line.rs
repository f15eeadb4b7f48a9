//! One line of a bulk file: a JSON object, strict. A misspelt time that was ignored would close an order at once.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Through;
use crate::clock::{Moment, parse_duration};
use crate::deadline::{Cause, Deadline, DueAt, Id, Payload, Reminders};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    #[serde(borrow)]
    id: std::borrow::Cow<'a, str>,
    #[serde(default, borrow)]
    due_at: Option<&'a RawValue>,
    #[serde(default, borrow, rename = "in")]
    window: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, borrow)]
    payload: Option<&'a RawValue>,
    #[serde(default)]
    traceparent: Option<String>,
    #[serde(default)]
    remind: Option<Vec<String>>,
    #[serde(default)]
    channel: Option<String>,
    #[serde(default, borrow)]
    created_at: Option<&'a RawValue>,
}

/// What a line asks for.
#[derive(Debug)]
pub struct Line {
    /// The deadline.
    pub deadline: Deadline,
    /// The payment channel whose rules it must obey.
    pub through: Option<Through>,
}

/// What a line is, or what is wrong with it.
pub fn parse(line: &[u8]) -> Result<Line, String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
    let fields: Fields<'_> = serde_json::from_str(text).map_err(|e| reason(&e))?;
    let due_at = match (fields.due_at, fields.window) {
        (Some(moment), None) => DueAt::Moment(moment_of("due_at", moment)?),
        (None, Some(window)) => DueAt::After(parse_duration("in", &window).map_err(|e| e.to_string())?),
        (Some(_), Some(_)) => return Err("holds both due_at and in".to_owned()),
        (None, None) => return Err("holds no time: due_at or in is missing".to_owned()),
    };
    let created_at = fields.created_at.map(|moment| moment_of("created_at", moment)).transpose()?;
    let through = match fields.channel {
        Some(channel) => Some(Through { channel, created_at }),
        None if created_at.is_some() => return Err("holds created_at and no channel".to_owned()),
        None => None,
    };
    let payload = fields.payload.map_or(&b""[..], |p| p.get().as_bytes());
    let deadline = Deadline {
        id: Id::new(&fields.id).map_err(|e| e.to_string())?,
        due_at,
        payload: Payload::from_json(payload).map_err(|e| e.to_string())?,
        traceparent: fields
            .traceparent
            .map(|t| super::traceparent(&t))
            .transpose()
            .map_err(|e| e.to_string())?,
        cause: Cause::Due,
        reminders: fields.remind.map(|before| reminders(&before)).transpose()?,
    };
    Ok(Line { deadline, through })
}

fn reminders(before: &[String]) -> Result<Reminders, String> {
    let before: Result<Vec<_>, _> = before.iter().map(|text| parse_duration("remind", text)).collect();
    before.and_then(|before| Reminders::new(&before)).map_err(|e| e.to_string())
}

/// A moment as text, or as a number of epoch milliseconds.
fn moment_of(field: &str, raw: &RawValue) -> Result<Moment, String> {
    let text = match serde_json::from_str::<std::borrow::Cow<'_, str>>(raw.get()) {
        Ok(text) => text,
        Err(_) => raw.get().into(),
    };
    Moment::parse(field, &text).map_err(|e| e.to_string())
}

/// serde_json's reason without its own line number, which is always 1 here.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line 1 column").unwrap_or(text.len());
    let column = if error.is_data() { String::new() } else { format!(" at column {}", error.column()) };
    crate::error::escaped(&format!("{}{column}", &text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        parse(line.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_line_is_read_and_its_payload_kept_byte_for_byte() {
        let deadline = parse(
            br#" {"payload": {"order_id":9007199254740993, "amount":0.1,"x":1e400}, "id":"o\u002d1","due_at":1772337600000} "#,
        )
        .unwrap()
        .deadline;
        assert_eq!(deadline.id.as_str(), "o-1");
        assert_eq!(deadline.payload.as_bytes(), br#"{"order_id":9007199254740993, "amount":0.1,"x":1e400}"#);
        assert_eq!(deadline.due_at, DueAt::Moment(Moment::from_millis(1_772_337_600_000).unwrap()));
        let window = parse(br#"{"id":"a","in":"1h 30m"}"#).unwrap().deadline;
        assert_eq!(window.due_at, DueAt::After(std::time::Duration::from_secs(5400)));
        assert!(window.payload.is_empty());
    }

    #[test]
    fn a_line_names_the_channel_whose_rules_it_obeys() {
        let line = parse(br#"{"id":"a","in":"1m","channel":"wechat","created_at":1772337600000}"#).unwrap();
        let through = line.through.unwrap();
        assert_eq!(
            (through.channel.as_str(), through.created_at.unwrap().as_millis()),
            ("wechat", 1772337600000)
        );
        assert!(parse(br#"{"id":"a","in":"1m"}"#).unwrap().through.is_none());
        assert_eq!(
            refused(r#"{"id":"a","in":"1m","created_at":1772337600000}"#),
            "holds created_at and no channel"
        );
        assert!(refused(r#"{"id":"a","in":"1m","channel":"w","created_at":"x"}"#).contains("created_at"));
    }

    #[test]
    fn a_line_that_could_mean_something_else_is_refused_with_the_key() {
        assert!(refused(r#"{"id":"a","closeAt":"2026-03-01T04:00:00Z"}"#).contains("closeAt"));
        assert_eq!(refused(r#"{"id":"a"}"#), "holds no time: due_at or in is missing");
        assert_eq!(refused(r#"{"id":"a","in":"1m","due_at":1772337600000}"#), "holds both due_at and in");
        assert!(
            refused(r#"{"id":"a","due_at":1772337600000,"due_at":"2026-03-01T04:00:00Z"}"#)
                .contains("duplicate field `due_at`")
        );
        assert!(refused(r#"{"id":"a","due_at":1772337600}"#).contains("seconds"));
        assert!(refused(r#"{"id":"a","due_at":null}"#).contains("due_at"));
        assert!(refused(r#"{"id":"a","due_at":1.5}"#).contains("due_at"));
        assert!(refused(r#"{"id":"a","in":30}"#).contains("invalid type"));
        assert!(refused(r#"{"id":"","in":"1m"}"#).contains("id"));
        assert!(refused(r#"{"id":7,"in":"1m"}"#).contains("invalid type"));
        assert!(refused(r#"{"id":"a","in":"1m"}{"id":"b","in":"1m"}"#).contains("trailing characters"));
        assert!(refused("[1]").contains("invalid"));
        assert_eq!(parse(b"{\"id\":\"\xff\",\"in\":\"1m\"}").unwrap_err(), "not UTF-8");
        assert!(
            refused(&format!(r#"{{"id":"a","in":"1m","payload":"{}"}}"#, "x".repeat(65_536)))
                .contains("65536")
        );
    }
}
