//! The operators' audit of a wheel: what people did to it through which door, why, and what came of it; and what the breaker tripped.
//!
//! An act is written twice: what is intended before it is done, and what came of it afterwards, naming the first. A listing shows one entry
//! for both, and one for an end that was written twice; one whose end was never written shows as *begun*: whether it was done nobody can
//! say.

use std::collections::BTreeSet;

use super::answer::Cursor;
use super::events::{entries, stamp_ms};
use super::{BulkAct, Wheel, keys, reply, script};
use crate::clock::Moment;
use crate::deadline::Id;
use crate::error::{Invalid, Result};

/// Entries that are kept, about.
const KEEP: u64 = 100_000;
/// Entries read at once: each may name up to a thousand ids.
const PAGE: usize = 100;
/// Entries looked at for one page of a listing that is narrowed: at most a moment of Redis's time.
const MOST: usize = 20_000;

/// What came of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditOutcome {
    /// It was to be done; nothing is written of its end.
    Begun,
    /// Done, for all that it was about.
    #[default]
    Done,
    /// Done for some of them.
    Partial,
    /// Refused: nothing was changed.
    Refused,
    /// It failed.
    Failed,
    /// The answer was lost: it may be done or not.
    Unknown,
    /// A person stopped it on the way.
    Stopped,
}

impl AuditOutcome {
    const ALL: [Self; 7] =
        [Self::Begun, Self::Done, Self::Partial, Self::Refused, Self::Failed, Self::Unknown, Self::Stopped];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Partial => "partial",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Stopped => "stopped",
        }
    }
}

/// One act.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct AuditEntry {
    /// Its place in the audit, `<ms>-<n>`; of an act that ended, where its end stands.
    pub entry: String,
    /// When that was written, in milliseconds since the epoch by Redis's clock.
    pub at_ms: u64,
    /// When the act began, where that was written apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_at_ms: Option<u64>,
    /// What: `close`, `revive`, `pause`, …, or `trip`, which the breaker does.
    pub act: String,
    /// Who.
    pub by: String,
    /// Through which door: `page`, `api`, `cli`, `top`; none for the breaker, and for what an older program wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub door: Option<String>,
    /// The orders that it is about, where they were named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// What else says what it is about: a filter, a worker, a job, another moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// Why, in the person's words; may be empty.
    pub reason: String,
    /// How many it was about.
    pub asked: u64,
    /// How many of them it was done to.
    pub done: u64,
    /// What came of it.
    pub outcome: AuditOutcome,
    /// More of that: why it was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// Which acts a listing shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditFilter {
    /// Those that name this order.
    pub id: Option<Id>,
    /// With them those that were about all that fit a filter, which may have been about it, too.
    pub or_bulk: bool,
    /// Those of this word.
    pub act: Option<String>,
}

/// One page of the audit, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuditPage {
    /// The acts.
    pub entries: Vec<AuditEntry>,
    /// Where to go on; `None` at the end. A narrowed page may be short, or empty, and go on all the same.
    pub next: Option<Cursor>,
}

impl AuditEntry {
    /// Whether it was about all that fit a filter.
    pub fn is_bulk(&self) -> bool {
        self.ids.is_empty() && self.about.is_some() && BulkAct::WORDS.contains(&self.act.as_str())
    }

    /// Whether it was under way at that moment.
    pub fn lasted(&self, at: Moment) -> bool {
        (self.began_at_ms.unwrap_or(self.at_ms)..=self.at_ms).contains(&at.as_millis())
    }
}

impl AuditFilter {
    fn fits(&self, entry: &AuditEntry) -> bool {
        let names = |id: &Id| entry.ids.iter().any(|one| one == id.as_str());
        let id = self.id.as_ref().is_none_or(|id| names(id) || (self.or_bulk && entry.is_bulk()));
        id && self.act.as_ref().is_none_or(|act| *act == entry.act)
    }
}

impl Wheel {
    /// The audit, newest first: at most `limit` acts (1 to 500). One call looks at no more than 20,000 entries.
    pub async fn audit(
        &self,
        filter: &AuditFilter,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<AuditPage> {
        let limit = limit.clamp(1, super::MAX_BATCH);
        let (mut end, mut ended) = cursor.map_or(Ok(("+".to_owned(), BTreeSet::new())), parse_cursor)?;
        let mut page = AuditPage::default();
        let key = keys::of_wheel(self.name(), "audit");
        for _ in 0..MOST / PAGE {
            let mut cmd = redis::cmd("XREVRANGE");
            cmd.arg(&key).arg(&end).arg("-").arg("COUNT").arg(PAGE);
            let read = entries("audit", self.store().command(&cmd, "read the audit").await?)?;
            let full = read.len() == PAGE;
            for one in read {
                let behind = format!("({}", one.stamp);
                // What was intended: its end was shown before.
                if ended.remove(&one.stamp) {
                    end = behind;
                    continue;
                }
                let (entry, of) = decode(one.stamp, one.fields);
                // An end that was written again, because nobody knew whether it had been; the last one was shown before.
                if of.as_ref().is_some_and(|of| ended.contains(of)) {
                    end = behind;
                    continue;
                }
                if filter.fits(&entry) {
                    if page.entries.len() == limit {
                        page.next = Some(make_cursor(&end, &ended));
                        return Ok(page);
                    }
                    page.entries.push(entry);
                }
                ended.extend(of);
                end = behind;
            }
            if !full {
                return Ok(page);
            }
        }
        page.next = Some(make_cursor(&end, &ended));
        Ok(page)
    }

    /// Writes an act: what is intended, where `entry` has no place yet, else what came of the act that was written there. Answers the
    /// place.
    pub async fn write_audit(&self, entry: &AuditEntry) -> Result<String> {
        let keys = [keys::of_wheel(self.name(), "audit")];
        let numbers = [entry.asked, entry.done].map(|n| n.to_string());
        let ids = entry.ids.join("\n");
        let fields = [
            ("action", entry.act.as_str()),
            ("id", ids.as_str()),
            ("about", entry.about.as_deref().unwrap_or_default()),
            ("by", entry.by.as_str()),
            ("door", entry.door.as_deref().unwrap_or_default()),
            ("reason", entry.reason.as_str()),
            ("asked", numbers[0].as_str()),
            ("done", numbers[1].as_str()),
            ("outcome", entry.outcome.as_str()),
            ("said", entry.said.as_deref().unwrap_or_default()),
            ("of", entry.entry.as_str()),
        ];
        let args = |cmd: &mut redis::Cmd| {
            cmd.arg(KEEP);
            for (field, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
                cmd.arg(*field).arg(*value);
            }
        };
        let attempted = format!("write the audit of wheel {}", self.name());
        let stamp = self.store().run(&script::AUDIT, &keys, args, &attempted).await?;
        Ok(String::from_utf8_lossy(&reply::bytes("audit", stamp)?).into_owned())
    }
}

/// An entry as it is stored, and the place of the intent that it is the end of. What an older program wrote has fewer fields.
fn decode(stamp: String, fields: Vec<(String, Vec<u8>)>) -> (AuditEntry, Option<String>) {
    let mut entry = AuditEntry { at_ms: stamp_ms(&stamp), entry: stamp, ..AuditEntry::default() };
    let (mut of, mut asked, mut done, mut outcome) = (None, None, None, AuditOutcome::Done);
    for (name, value) in fields {
        let text = String::from_utf8_lossy(&value).into_owned();
        match name.as_str() {
            "action" => entry.act = text,
            "id" => entry.ids = text.split('\n').map(str::to_owned).collect(),
            "about" => entry.about = Some(text),
            "by" => entry.by = text,
            "door" => entry.door = Some(text),
            "reason" => entry.reason = text,
            "asked" => asked = text.parse().ok(),
            "done" => done = text.parse().ok(),
            "outcome" => {
                let known = AuditOutcome::ALL.into_iter().find(|word| word.as_str() == text);
                outcome = known.unwrap_or(AuditOutcome::Unknown);
            }
            "said" => entry.said = Some(text),
            "of" => of = Some(text),
            _ => {}
        }
    }
    // The words of older programs, and of the script that trips.
    match entry.act.as_str() {
        "resumed" => entry.act = "resume".to_owned(),
        "tripped" => entry.act = "trip".to_owned(),
        "incident_ack" => entry.act = "acknowledge".to_owned(),
        _ => {}
    }
    let one = entry.ids.len().max(1) as u64;
    entry.asked = asked.unwrap_or(one);
    entry.done = done.unwrap_or(if outcome == AuditOutcome::Done { one } else { 0 });
    entry.outcome = outcome;
    entry.began_at_ms = of.as_deref().map(stamp_ms);
    (entry, of)
}

/// Where the next page begins, and the intents behind it whose ends were shown.
fn make_cursor(end: &str, ended: &BTreeSet<String>) -> Cursor {
    let mut text = end.trim_start_matches('(').to_owned();
    for stamp in ended {
        text.push('.');
        text.push_str(stamp);
    }
    Cursor(text)
}

fn parse_cursor(cursor: &Cursor) -> Result<(String, BTreeSet<String>)> {
    let is_stamp = |text: &&str| {
        let (ms, n) = text.split_once('-').unwrap_or_default();
        let number = |part: &str| part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u64>().is_ok();
        number(ms) && number(n) && **text != *"0-0"
    };
    let bad = || Invalid::new("cursor", &cursor.0, "expected a cursor that a page of this listing gave");
    let mut stamps = cursor.0.split('.');
    let end = stamps.next().filter(is_stamp).ok_or_else(bad)?;
    let ended: BTreeSet<&str> = stamps.collect();
    if ended.iter().all(is_stamp) {
        Ok((format!("({end}"), ended.into_iter().map(str::to_owned).collect()))
    } else {
        Err(bad().into())
    }
}
