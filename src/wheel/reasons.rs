//! Why: what stands in `reasons` of one id. The reason of its death comes first, and is empty while it lives; behind it stand the attempts
//! that failed, the latest first, a line each: when, which, why (lua/lib/back.lua writes them).

use std::time::Duration;

use crate::clock::Moment;

/// Between the lines: in no text that people write.
const BREAK: char = '\u{1e}';

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// When its verdict was settled, by Redis's clock; `None` where the deadline was carried here from another wheel or layout.
    pub at: Option<Moment>,
    /// Which attempt.
    pub attempt: u32,
    /// Why, at most 256 bytes of it; empty where the hook did not say.
    pub reason: String,
}

/// Decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reasons {
    pub death: String,
    pub failures: Vec<Failure>,
}

impl Reasons {
    pub fn decode(text: &str) -> Self {
        let mut lines = text.split(BREAK);
        let death = lines.next().unwrap_or_default().to_owned();
        Self { death, failures: lines.filter_map(failure).collect() }
    }

    /// Of a dead one why it died, of another why its latest attempt failed.
    pub fn latest(self, is_dead: bool) -> Option<String> {
        let text = if is_dead {
            self.death
        } else {
            self.failures.into_iter().next().map_or(String::new(), |f| f.reason)
        };
        (!text.is_empty()).then_some(text)
    }
}

/// A failure of which only the reason is known, as it is stored.
pub(super) fn carried(attempt: u32, reason: &str) -> String {
    format!("{BREAK}0 {attempt} {}", reason.replace(BREAK, " "))
}

fn failure(line: &str) -> Option<Failure> {
    let mut parts = line.splitn(3, ' ');
    let (at, attempt) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let at = (at != 0).then(|| Moment::EPOCH.plus(Duration::from_millis(at)));
    Some(Failure { at, attempt, reason: parts.next().unwrap_or_default().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_comes_first_and_the_failures_before_it_the_latest_first() {
        let text = "status 500: \n a page\u{1e}1796056449538 2 status 502\u{1e}1796056440000 1 ";
        let reasons = Reasons::decode(text);
        assert_eq!(reasons.death, "status 500: \n a page");
        let told: Vec<_> = reasons
            .failures
            .iter()
            .map(|f| (f.at.unwrap().as_millis(), f.attempt, f.reason.as_str()))
            .collect();
        assert_eq!(told, [(1_796_056_449_538, 2, "status 502"), (1_796_056_440_000, 1, "")]);
        assert_eq!(reasons.clone().latest(true).as_deref(), Some("status 500: \n a page"));
        assert_eq!(reasons.latest(false).as_deref(), Some("status 502"));
    }

    #[test]
    fn what_is_carried_or_cannot_be_read_is_no_failure_with_a_moment() {
        let carried = Reasons::decode(&carried(3, "a \u{1e} b"));
        assert_eq!(carried.failures, [Failure { at: None, attempt: 3, reason: "a   b".to_owned() }]);
        assert_eq!(Reasons::decode(""), Reasons::default());
        assert_eq!(Reasons::decode("\u{1e}\u{1e}x y z\u{1e}99999999999999999999 1 z"), Reasons::default());
    }
}
