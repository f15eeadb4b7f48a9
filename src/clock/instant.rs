//! The grammar of a moment: RFC 3339 with its offset, or 13 digits of epoch milliseconds. Stricter than the RFC where leniency would
//! guess: jiff's own parser also takes lower-case letters, a space for the `T`, and leap seconds.

use super::Moment;

const EXPECTED: &str = "expected RFC 3339 with an offset, like 2026-03-01T12:00:00+08:00 or 2026-03-01T04:00:00Z, or 13-digit epoch milliseconds";

/// Longer than any moment that says something: 9999-12-31T23:59:59 with an offset, and 30 digits of fraction.
const MAX_BYTES: usize = 56;

/// 1970-01-01T00:00:00, in UTC.
pub(super) const EPOCH: jiff::civil::DateTime = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);

/// The moment that `text` names, or what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Moment, String> {
    if text.is_empty() || text.len() > MAX_BYTES || !text.is_ascii() {
        return Err(EXPECTED.to_owned());
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return epoch_millis(text);
    }
    rfc3339(text)
}

/// Exactly 13 digits: 2001 to 2286. Fewer are seconds, more are microseconds or a date without its dashes.
fn epoch_millis(text: &str) -> Result<Moment, String> {
    match (text.len(), text.parse::<u64>()) {
        (13, Ok(millis)) => Moment::from_millis(millis).map_err(|e| e.reason),
        (9..=10, Ok(seconds)) => Err(format!(
            "looks like seconds since the epoch, and as milliseconds it would be {}; expected 13-digit epoch milliseconds \
             (did you mean {seconds}000?) or RFC 3339 with an offset",
            Moment::from_millis(seconds).map(|m| m.to_string()).unwrap_or_default()
        )),
        _ => Err(EXPECTED.to_owned()),
    }
}

fn rfc3339(text: &str) -> Result<Moment, String> {
    let (date_time, fraction, offset) = split(text).ok_or_else(|| hint(text))?;
    let civil = civil(date_time)?;
    let offset =
        offset_seconds(offset).ok_or("the offset must be Z or from -23:59 to +23:59, written ±HH:MM")?;
    let since_epoch = civil.duration_since(EPOCH) - jiff::SignedDuration::from_secs(offset);
    let millis = u64::try_from(since_epoch.as_millis()).map_err(|_| RANGE.to_owned())?;
    let millis = millis.checked_add(millis_rounded_up(fraction)).ok_or_else(|| RANGE.to_owned())?;
    Moment::from_millis(millis).map_err(|_| RANGE.to_owned())
}

const RANGE: &str = "expected a moment from 1970-01-01T00:00:00Z to 9999-12-31T23:59:59.999Z";

/// Cuts `YYYY-MM-DDTHH:MM:SS`, the fraction's digits (maybe none) and the offset apart; `None` where the shape is another.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    const SHAPE: &[u8] = b"dddd-dd-ddTdd:dd:dd";
    let date_time = text.get(..SHAPE.len())?;
    let fits =
        date_time.bytes().zip(SHAPE).all(|(b, &s)| if s == b'd' { b.is_ascii_digit() } else { b == s });
    let rest = text.get(SHAPE.len()..)?;
    let (fraction, offset) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.bytes().position(|b| !b.is_ascii_digit())?;
            // `….Z` has a point and no digits.
            if end == 0 {
                return None;
            }
            rest.split_at(end)
        }
        None => ("", rest),
    };
    let offset_shape = |o: &str| {
        o == "Z"
            || (o.len() == 6
                && o.starts_with(['+', '-'])
                && o.bytes()
                    .enumerate()
                    .skip(1)
                    .all(|(n, b)| if n == 3 { b == b':' } else { b.is_ascii_digit() }))
    };
    (fits && offset_shape(offset)).then_some((date_time, fraction, offset))
}

/// The calendar date and the time of day, checked; the shape has been.
fn civil(date_time: &str) -> Result<jiff::civil::DateTime, String> {
    let number =
        |from: usize, to: usize| date_time.get(from..to).and_then(|t| t.parse::<i16>().ok()).unwrap_or(-1);
    let small = |from, to| i8::try_from(number(from, to)).unwrap_or(-1);
    let (month, day, hour, minute, second) =
        (small(5, 7), small(8, 10), small(11, 13), small(14, 16), small(17, 19));
    let date =
        jiff::civil::Date::new(number(0, 4), month, day).map_err(|_| "there is no such date".to_owned())?;
    let time = jiff::civil::Time::new(hour, minute, second, 0)
        .map_err(|_| "there is no such time of day; expected 00:00:00 to 23:59:59".to_owned())?;
    Ok(date.to_datetime(time))
}

fn offset_seconds(offset: &str) -> Option<i64> {
    if offset == "Z" {
        return Some(0);
    }
    let hours: i64 = offset.get(1..3)?.parse().ok()?;
    let minutes: i64 = offset.get(4..6)?.parse().ok()?;
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = hours * 3600 + minutes * 60;
    Some(if offset.starts_with('-') { -seconds } else { seconds })
}

/// `5` is 500 ms, `0009` is 1 ms: what is finer than a millisecond counts as a whole one.
fn millis_rounded_up(fraction: &str) -> u64 {
    let digit = |n: usize| fraction.as_bytes().get(n).map_or(0, |b| u64::from(b - b'0'));
    let finer = fraction.bytes().skip(3).any(|b| b != b'0');
    digit(0) * 100 + digit(1) * 10 + digit(2) + u64::from(finer)
}

/// What is wrong with a text of the wrong shape, as exactly as can be told.
fn hint(text: &str) -> String {
    let upper = text.to_ascii_uppercase().replacen(' ', "T", 1);
    if split(&format!("{text}Z")).is_some() {
        format!("has no offset, so it names no moment; add Z or the zone's offset, like {text}+08:00")
    } else if split(&upper).is_some() {
        format!("expected an upper-case T between date and time and an upper-case Z, like {upper}")
    } else if split(&format!("{text}T00:00:00Z")).is_some() {
        format!("is a date without a time of day; expected a moment, like {text}T00:00:00+08:00")
    } else {
        EXPECTED.to_owned()
    }
}
