//! `Retry-After`: a wait that the other side asks for, in seconds or as a date.

use std::time::Duration;

use jiff::civil::DateTime;

use crate::clock::Moment;

/// The three forms of an HTTP date: IMF-fixdate, RFC 850, asctime. All are in GMT.
const FORMS: [&str; 3] = ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];

/// The wait that `value` asks for at `now`, at most `cap`. `None` for what is neither form and for a date that has passed: then the
/// worker's own back-off stands.
pub(super) fn parse(value: &str, now: Moment, cap: Duration) -> Option<Duration> {
    let value = value.trim();
    if value.is_empty() {
        return None;
    }
    if value.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than fit are a long wait, not a bad value.
        let seconds = value.parse().unwrap_or(u64::MAX);
        return Some(Duration::from_secs(seconds).min(cap));
    }
    let date = FORMS.iter().find_map(|form| DateTime::strptime(form, value).ok())?;
    let since_epoch = date.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    let at = Moment::from_millis(u64::try_from(since_epoch.as_millis()).ok()?).ok()?;
    (at > now).then(|| at.since(now).min(cap))
}
