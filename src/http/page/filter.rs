//! Which deadlines a listing shows: read from the URL, and written into every link that must keep it.

use super::parameters::{Link, Parameters};
use crate::clock::Moment;
use crate::deadline::State;
use crate::shard::{Shard, ShardCount};
use crate::wheel::Narrow;

/// The states that can be asked for, the first unless said.
pub(super) const STATES: [&str; 5] = ["scheduled", "due", "leased", "dead", "ended"];
/// The lengths of a page, the first unless said.
pub(super) const LENGTHS: [&str; 4] = ["50", "20", "100", "200"];

/// The most attempts that can be asked for; no deadline has more before it is buried.
const MOST_ATTEMPTS: u32 = 1_000_000;

/// Which deadlines.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    pub state: &'static str,
    /// As it was typed: `+15m` stays what it is in a link that is kept.
    pub from: String,
    pub to: String,
    pub shard: Option<Shard>,
    pub narrow: Narrow,
    pub limit: &'static str,
    range: (Moment, Moment),
}

impl Filter {
    /// Reads it; what is not understood is complained of and left out.
    pub fn read(query: &Parameters, now: Moment, shards: ShardCount, complaints: &mut Vec<String>) -> Self {
        let state = query.word("state", &STATES, complaints);
        let limit = query.word("limit", &LENGTHS, complaints);
        let (from, to) = (query.moment("from", now, complaints), query.moment("to", now, complaints));
        let text = |name: &str, moment: Option<Moment>| {
            moment.map_or(String::new(), |_| query.text(name).to_owned())
        };
        let last = u32::from(shards.get()) - 1;
        let shard = (!query.text("shard").is_empty()).then(|| {
            let before = complaints.len();
            let number = query.whole("shard", 0..=last, 0, complaints);
            (complaints.len() == before).then(|| Shard(u16::try_from(number).unwrap_or(0)))
        });
        let narrow = Narrow {
            attempts: query.whole("attempts", 0..=MOST_ATTEMPTS, 0, complaints),
            reason: Some(query.exact("reason").to_owned()).filter(|text| !text.is_empty()),
            payload: Some(query.text("payload").to_owned()).filter(|text| !text.is_empty()),
        };
        if narrow.payload.is_some() && state == "ended" {
            complaints
                .push("payload does not narrow ended deadlines, whose payloads are not kept".to_owned());
        }
        if narrow.reason.is_some() && state == "ended" {
            complaints.push("reason does not narrow ended deadlines, of which none is kept".to_owned());
        }
        if state == "ended" && (from.is_some() || to.is_some()) {
            complaints
                .push("from and to do not narrow ended deadlines, which are in no order of time".to_owned());
        }
        let low = from.unwrap_or(Moment::EPOCH);
        let mut high = to.unwrap_or(Moment::MAX);
        if state == "due" {
            high = high.min(now);
        }
        if low > high {
            complaints.push("from lies behind to: nothing can be between them".to_owned());
        }
        Self {
            state,
            from: text("from", from),
            to: text("to", to),
            shard: shard.flatten(),
            narrow: match state {
                "ended" => Narrow { reason: None, payload: None, ..narrow },
                _ => narrow,
            },
            limit,
            range: (low, high),
        }
    }

    pub fn of_state(&self) -> State {
        match self.state {
            "leased" => State::Leased,
            "dead" => State::Dead,
            "ended" => State::Ended,
            _ => State::Scheduled,
        }
    }

    pub fn range(&self) -> (Moment, Moment) {
        self.range
    }

    pub fn limit(&self) -> usize {
        self.limit.parse().unwrap_or(50)
    }

    pub fn shard_text(&self) -> String {
        self.shard.map_or(String::new(), |shard| shard.to_string())
    }

    pub fn attempts_text(&self) -> String {
        if self.narrow.attempts == 0 { String::new() } else { self.narrow.attempts.to_string() }
    }

    pub fn reason_text(&self) -> &str {
        self.narrow.reason.as_deref().unwrap_or_default()
    }

    pub fn payload_text(&self) -> &str {
        self.narrow.payload.as_deref().unwrap_or_default()
    }

    /// Whether anything narrows the state.
    pub fn is_narrow(&self) -> bool {
        !self.from.is_empty() || !self.to.is_empty() || self.shard.is_some() || !self.narrow.is_wide()
    }

    /// A link that keeps it.
    pub fn link(&self, path: impl Into<String>) -> Link {
        let state = if self.state == STATES[0] { "" } else { self.state };
        let limit = if self.limit == LENGTHS[0] { "" } else { self.limit };
        Link::to(path)
            .with("state", state)
            .with("from", &self.from)
            .with("to", &self.to)
            .with("shard", &self.shard_text())
            .with("attempts", &self.attempts_text())
            .with("reason", self.reason_text())
            .with("payload", self.payload_text())
            .with("limit", limit)
    }
}
