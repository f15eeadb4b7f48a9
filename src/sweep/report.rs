//! What a run found and did, in numbers.

use std::time::Duration;

use crate::clock::Moment;

/// The numbers of one run. `seen` is the sum of `held`, `dead`, `ended`, `enqueued`, `resurrected`, `capped` and `refused`.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Report {
    /// Which job.
    pub job: String,
    /// Who ran it.
    pub runner: String,
    /// When it began, by Redis's clock, milliseconds since 1970.
    pub began_at_ms: u64,
    /// How long it took.
    pub took_ms: u64,
    /// Pages read.
    pub pages: u64,
    /// Rows read.
    pub seen: u64,
    /// Rows that the wheel held already: scheduled or with a worker.
    pub held: u64,
    /// Rows that the wheel did not hold, and that were enqueued.
    pub enqueued: u64,
    /// Rows that had ended on the wheel, are open on the primary all the same, and were enqueued again.
    pub resurrected: u64,
    /// Rows that are dead on the wheel: they wait for a person.
    pub dead: u64,
    /// Rows that have ended on the wheel and are not open on the primary any more, or that a feed leaves alone.
    pub ended: u64,
    /// Rows that would have been resurrected beyond the limit of one run.
    pub capped: u64,
    /// Rows that cannot be put on the wheel: no id of ours, no close time, too far ahead.
    pub refused: u64,
    /// Why the first of them was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

impl Report {
    /// Notes a row that cannot be put on the wheel.
    pub(super) fn refuse(&mut self, key: &str, reason: &str) {
        self.refused += 1;
        self.refusal.get_or_insert_with(|| format!("\"{}\": {reason}", crate::error::shown(key)));
    }

    /// Says who ran it, when, and for how long.
    pub(super) fn sign(&mut self, job: &str, runner: &str, began_at: Moment, took: Duration) {
        self.job = job.to_owned();
        self.runner = runner.to_owned();
        self.began_at_ms = began_at.as_millis();
        self.took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    }

    /// Adds the numbers of another run of the same job.
    pub(super) fn add(&mut self, more: &Self) {
        for (mine, theirs) in [
            (&mut self.took_ms, more.took_ms),
            (&mut self.pages, more.pages),
            (&mut self.seen, more.seen),
            (&mut self.held, more.held),
            (&mut self.enqueued, more.enqueued),
            (&mut self.resurrected, more.resurrected),
            (&mut self.dead, more.dead),
            (&mut self.ended, more.ended),
            (&mut self.capped, more.capped),
            (&mut self.refused, more.refused),
        ] {
            *mine += theirs;
        }
        if self.refusal.is_none() {
            self.refusal.clone_from(&more.refusal);
        }
    }

    /// How many orders it has put on the wheel.
    pub fn changed(&self) -> u64 {
        self.enqueued + self.resurrected
    }

    /// Whether it changed anything, or found something that a person should know.
    pub fn is_worth_saying(&self) -> bool {
        self.enqueued + self.resurrected + self.dead + self.capped + self.refused > 0
    }

    /// As it is kept in Redis.
    pub(super) fn record(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
