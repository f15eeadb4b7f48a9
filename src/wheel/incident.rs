//! Late payments: a payment for an order that we have closed, or put aside as dead, becomes an incident. It is kept until a person has
//! seen to it, whatever becomes of the deadline's own record.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::Value;

use super::answer::{Cancelled, Ended, Inspection, Refusal};
use super::find::glob_escaped;
use super::{Wheel, keys, reply};
use crate::clock::Moment;
use crate::deadline::{Generation, Id, Note, Outcome, State};
use crate::error::{Invalid, Result};

/// A payment, as it was reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// The order.
    pub id: Id,
    /// When it was paid; `None` for now.
    pub paid_at: Option<Moment>,
    /// How much, in the shop's own words; at most 64 bytes.
    pub amount: Option<String>,
}

impl Payment {
    /// Checks the amount: at most 64 bytes, no control characters.
    pub fn new(id: Id, paid_at: Option<Moment>, amount: Option<String>) -> Result<Self, Invalid> {
        if let Some(text) = &amount
            && (text.is_empty() || text.len() > 64 || text.chars().any(char::is_control))
        {
            return Err(Invalid::new("amount", text, "expected 1 to 64 bytes without control characters"));
        }
        Ok(Self { id, paid_at, amount })
    }
}

/// What a payment met.
#[derive(Debug, Clone, PartialEq)]
pub enum Paid {
    /// The deadline was cancelled, now or before: the order lives.
    InTime(Cancelled),
    /// The close had found the order paid, or closed by somebody else.
    Skipped(Ended),
    /// Nothing is known of the id. The cancellation is remembered.
    Absent,
    /// The order was closed or dead, or is being closed right now: an incident was recorded, now or before.
    Incident(Box<Incident>),
}

/// What had become of an order when its payment came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IncidentKind {
    /// We had closed it.
    Closed,
    /// Its close had failed so often that it waited for a person. It will not be tried any more.
    Dead,
    /// A worker was closing it. Becomes *closed*, or goes away, once that attempt has ended.
    Closing,
}

impl IncidentKind {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Dead => "dead",
            Self::Closing => "closing",
        }
    }
}

/// A payment that a person must look at.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Incident {
    /// The order.
    pub id: String,
    /// What had become of it.
    pub kind: IncidentKind,
    /// Which life of the id; one incident for each.
    pub generation: u64,
    /// When it was to be closed, in milliseconds since the epoch.
    pub due_at_ms: u64,
    /// When we closed it or put it aside; for *closing*, when the payment was reported.
    pub ended_at_ms: u64,
    /// When it was paid.
    pub paid_at_ms: u64,
    /// When the payment was reported to us.
    pub reported_at_ms: u64,
    /// How much, in the shop's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
    /// Whether the event `late_payment` was written.
    pub told: bool,
    /// Who has seen to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledgement>,
}

impl Incident {
    /// How long after the end the payment came, in milliseconds; negative where it was made before and reported after.
    pub fn age_ms(&self) -> i64 {
        let signed = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        signed(self.paid_at_ms) - signed(self.ended_at_ms)
    }

    fn field(&self) -> String {
        format!("{}:{}", self.generation, self.id)
    }
}

/// Who has seen to an incident, and when.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Acknowledgement {
    /// Who.
    pub by: String,
    /// What was done about it.
    pub reason: String,
    /// When, in milliseconds since the epoch by Redis's clock.
    pub at_ms: u64,
}

/// What an acknowledgement met.
#[derive(Debug, Clone, PartialEq)]
pub enum Acknowledged {
    /// These are seen to now.
    Now(Vec<Incident>),
    /// They were before; the first acknowledgement stands.
    Before(Vec<Incident>),
    /// There is no incident of that id.
    Absent,
}

/// How long an incident that was seen to is kept, by `incidents`.
const KEEP: Duration = Duration::from_secs(90 * 86_400);

impl Wheel {
    /// A payment came in: ends the deadline where the order is still open, else records an incident, once for each life of the id. A
    /// repeat of the same call is harmless and answers the same.
    ///
    /// An order that a worker is closing right now is waited for, at most `wait`; what is not decided by then stays an incident of kind
    /// *closing*, which [`Wheel::incidents`] settles when it is asked next.
    pub async fn paid(&self, payment: &Payment, wait: Duration) -> Result<Paid> {
        let until = Instant::now() + wait;
        loop {
            let before = self.inspect(&payment.id).await?;
            let now = before.now;
            let new = |kind, generation: Generation, due_at: Moment, ended_at: Moment| Incident {
                id: payment.id.as_str().to_owned(),
                kind,
                generation: generation.0,
                due_at_ms: due_at.as_millis(),
                ended_at_ms: ended_at.as_millis(),
                paid_at_ms: payment.paid_at.unwrap_or(now).as_millis(),
                reported_at_ms: now.as_millis(),
                amount: payment.amount.clone(),
                told: false,
                acknowledged: None,
            };
            let entry = before.entry.as_ref();
            // Recorded before the deadline is touched: whatever dies in between, the repeat finds it.
            if let (State::Dead, Some(entry), Some((died_at, _))) = (before.state, entry, &before.death) {
                let incident = new(IncidentKind::Dead, entry.generation, entry.due_at, *died_at);
                let incident = self.record(incident).await?;
                self.cancel_one(&payment.id).await?.ok();
                return Ok(Paid::Incident(Box::new(incident)));
            }
            let incident = match self.cancel_one(&payment.id).await? {
                // Its close may have been under way when this payment was reported before.
                Ok(Cancelled::Absent) => match self.closing_of(&payment.id).await? {
                    Some(incident) => incident,
                    None => return Ok(Paid::Absent),
                },
                Ok(Cancelled::Already) => {
                    let known = match before.ended.map_or(0, |ended| ended.generation.0) {
                        0 => self.closing_of(&payment.id).await?,
                        life => self.incident(&format!("{life}:{}", payment.id)).await?,
                    };
                    match known {
                        Some(incident) => incident,
                        None => return Ok(Paid::InTime(Cancelled::Already)),
                    }
                }
                Ok(Cancelled::Cancelled) => return Ok(Paid::InTime(Cancelled::Cancelled)),
                Err(Refusal::Ended(ended)) if ended.outcome == Outcome::Closed => {
                    new(IncidentKind::Closed, ended.generation, ended.due_at, ended.ended_at)
                }
                Err(Refusal::Ended(ended)) => return Ok(Paid::Skipped(ended)),
                Ok(Cancelled::Leased) => match entry {
                    Some(entry) => new(IncidentKind::Closing, entry.generation, entry.due_at, now),
                    // It was placed and leased between two looks.
                    None => continue,
                },
                Err(other) => return Err(reply::unexpected("cancel", &other)),
            };
            let mut incident = self.record(incident).await?;
            while incident.kind == IncidentKind::Closing {
                match self.settled(&incident).await? {
                    Settling::Open if Instant::now() < until => {
                        tokio::time::sleep(Duration::from_millis(25)).await;
                    }
                    Settling::Open => break,
                    Settling::InTime => return Ok(Paid::InTime(Cancelled::Cancelled)),
                    Settling::Late(late) => incident = late,
                }
            }
            return Ok(Paid::Incident(Box::new(incident)));
        }
    }

    /// The incidents that nobody has seen to; `all` for the others too. The oldest first. Those that were *closing* are settled first.
    pub async fn incidents(&self, all: bool) -> Result<Vec<Incident>> {
        let now = self.now().await?;
        let acknowledged = self.every("incident_acks").await?;
        let mut incidents = Vec::new();
        for (field, text) in self.every("incidents").await? {
            let Ok(mut incident) = serde_json::from_slice::<Incident>(&text) else { continue };
            if incident.kind == IncidentKind::Closing {
                match self.settled(&incident).await? {
                    Settling::Open => {}
                    Settling::InTime => continue,
                    Settling::Late(late) => incident = late,
                }
            } else if !incident.told {
                // Whoever recorded it died before it could tell.
                incident = self.tell_late(incident).await?;
            }
            incident.acknowledged =
                acknowledged.get(&field).and_then(|text| serde_json::from_slice(text).ok());
            let seen_at = incident.acknowledged.as_ref().map(|ack| ack.at_ms);
            if seen_at.is_some_and(|at| u128::from(now.as_millis().saturating_sub(at)) > KEEP.as_millis()) {
                self.forget_incident(&field).await?;
            } else if all || seen_at.is_none() {
                incidents.push(incident);
            }
        }
        incidents.sort_by(|a, b| (a.reported_at_ms, &a.id).cmp(&(b.reported_at_ms, &b.id)));
        Ok(incidents)
    }

    /// A person has seen to the incidents of an id: remembered with who, what and when. The first one stands.
    pub async fn acknowledge(&self, id: &Id, note: &Note) -> Result<Acknowledged> {
        let mut of_id = self.incidents(true).await?;
        of_id.retain(|incident| incident.id == id.as_str());
        if of_id.is_empty() {
            return Ok(Acknowledged::Absent);
        }
        let at_ms = self.now().await?.as_millis();
        let own = Acknowledgement { by: note.actor.clone(), reason: note.reason.clone(), at_ms };
        let text = serde_json::to_string(&own).unwrap_or_default();
        let mut now = Vec::new();
        for incident in of_id.iter().filter(|incident| incident.acknowledged.is_none()) {
            let mut cmd = redis::cmd("HSETNX");
            cmd.arg(self.of_wheel("incident_acks")).arg(incident.field()).arg(&text);
            if reply::number(&self.store().command(&cmd, "acknowledge an incident").await?) == Some(1) {
                now.push(Incident { acknowledged: Some(own.clone()), ..incident.clone() });
            }
        }
        Ok(if now.is_empty() { Acknowledged::Before(of_id) } else { Acknowledged::Now(now) })
    }

    async fn cancel_one(&self, id: &Id) -> Result<super::answer::Answer<Cancelled>> {
        let answer = self.cancel(std::slice::from_ref(id)).await.pop();
        answer.unwrap_or_else(|| Err(reply::unexpected("cancel", &"no answer")))
    }

    /// Records an incident unless it is known, and tells of it; answers what is recorded.
    async fn record(&self, incident: Incident) -> Result<Incident> {
        let text = serde_json::to_string(&incident).unwrap_or_default();
        let mut cmd = redis::cmd("HSETNX");
        cmd.arg(self.of_wheel("incidents")).arg(incident.field()).arg(text);
        let new = reply::number(&self.store().command(&cmd, "record an incident").await?) == Some(1);
        let known = if new { None } else { self.incident(&incident.field()).await? };
        let current = match known {
            // What was being closed is closed by now; when it was paid stays as it was said first.
            Some(known) if known.kind == IncidentKind::Closing && incident.kind != IncidentKind::Closing => {
                let (kind, ended_at_ms) = (incident.kind, incident.ended_at_ms);
                Incident { kind, ended_at_ms, ..known }
            }
            Some(known) => known,
            None => incident,
        };
        if current.kind == IncidentKind::Closing || current.told {
            return Ok(current);
        }
        self.tell_late(current).await
    }

    /// Writes the event, then remembers that it was written: a crash in between tells twice, and never not at all.
    async fn tell_late(&self, incident: Incident) -> Result<Incident> {
        let id = Id::new(&incident.id)?;
        let keep = self.settings().events_keep.as_millis();
        if keep > 0 {
            let shard = usize::from(self.shard_of(&id).0);
            let now_ms = u128::from(self.now().await?.as_millis());
            let mut cmd = redis::cmd("XADD");
            cmd.arg(&self.inner.keys[shard % self.inner.keys.len()][8]);
            cmd.arg("MINID").arg("~").arg(now_ms.saturating_sub(keep).to_string()).arg("*");
            cmd.arg("late_payment").arg(id.as_bytes());
            cmd.arg("late_payment.age_ms").arg(incident.age_ms());
            cmd.arg("late_payment.kind").arg(incident.kind.as_str());
            self.store().command(&cmd, "tell of a late payment").await?;
        }
        let told = Incident { told: true, acknowledged: None, ..incident };
        let mut cmd = redis::cmd("HSET");
        cmd.arg(self.of_wheel("incidents")).arg(told.field());
        cmd.arg(serde_json::to_string(&told).unwrap_or_default());
        self.store().command(&cmd, "record an incident").await?;
        Ok(told)
    }

    /// What became of an order that was being closed when its payment came.
    async fn settled(&self, incident: &Incident) -> Result<Settling> {
        let id = Id::new(&incident.id)?;
        let seen = self.inspect(&id).await?;
        let generation = Generation(incident.generation);
        let entry = seen.entry.as_ref().filter(|entry| entry.generation == generation);
        let ended = seen.ended.as_ref().filter(|ended| ended.generation == generation);
        let late =
            |kind, ended_at: Moment| Incident { kind, ended_at_ms: ended_at.as_millis(), ..incident.clone() };
        match (entry, ended) {
            (Some(_), _) if seen.state == State::Dead => {
                let died_at = seen.death.map_or(seen.now, |(at, _)| at);
                let late = self.record(late(IncidentKind::Dead, died_at)).await?;
                self.cancel_one(&id).await?.ok();
                Ok(Settling::Late(late))
            }
            (Some(_), _) if seen.state == State::Leased => Ok(Settling::Open),
            // Put back without the mark, which only an older program does: now it can be ended.
            (Some(_), _) => match self.cancel_one(&id).await? {
                Ok(Cancelled::Cancelled | Cancelled::Already) => self.in_time(incident).await,
                _ => Ok(Settling::Open),
            },
            (None, Some(ended)) if ended.outcome == Outcome::Closed => {
                Ok(Settling::Late(self.record(late(IncidentKind::Closed, ended.ended_at)).await?))
            }
            (None, Some(_)) => self.in_time(incident).await,
            // No life of it is remembered, and a close still would be: it was cancelled, and that is forgotten.
            (None, None) if is_of_no_life(&seen) && self.would_know_a_close(incident, seen.now).await? => {
                self.in_time(incident).await
            }
            // Forgotten, or another life by now: nobody can say any more, so a person must.
            (None, None) => Ok(Settling::Open),
        }
    }

    /// Whether a close that was under way when this payment came would still be remembered, had it closed the order.
    async fn would_know_a_close(&self, incident: &Incident, now: Moment) -> Result<bool> {
        let age_ms = u128::from(now.as_millis().saturating_sub(incident.reported_at_ms));
        if age_ms >= self.settings().ended_keep.as_millis() {
            return Ok(false);
        }
        // A shard that was lost, and formatted anew since, knows nothing of what happened before.
        let shard = usize::from(self.shard_of(&Id::new(&incident.id)?).0);
        let mut cmd = redis::cmd("HMGET");
        cmd.arg(&self.inner.keys[shard % self.inner.keys.len()][0]).arg("layout").arg("formatted");
        let value = self.store().command(&cmd, "read since when a shard knows").await?;
        let mut reply = reply::Reply::array("meta", value)?;
        let (layout, formatted) = (reply.value()?, reply.value()?);
        // One that an older program formatted does not say since when.
        let formatted_at_ms = reply::number(&formatted).and_then(|ms| u64::try_from(ms).ok()).unwrap_or(0);
        Ok(layout != Value::Nil && formatted_at_ms <= incident.reported_at_ms)
    }

    /// The incident of an id that is not decided.
    async fn closing_of(&self, id: &Id) -> Result<Option<Incident>> {
        let pattern = format!("*:{}", glob_escaped(id.as_str()));
        let found = self.matching("incidents", &pattern).await?;
        let mut found = found.into_values().filter_map(|text| serde_json::from_slice::<Incident>(&text).ok());
        Ok(found.rfind(|one| one.kind == IncidentKind::Closing && one.id == id.as_str()))
    }

    async fn in_time(&self, incident: &Incident) -> Result<Settling> {
        self.forget_incident(&incident.field()).await?;
        Ok(Settling::InTime)
    }

    async fn forget_incident(&self, field: &str) -> Result<()> {
        for name in ["incidents", "incident_acks"] {
            let mut cmd = redis::cmd("HDEL");
            cmd.arg(self.of_wheel(name)).arg(field);
            self.store().command(&cmd, "forget an incident").await?;
        }
        Ok(())
    }

    async fn incident(&self, field: &str) -> Result<Option<Incident>> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(self.of_wheel("incidents")).arg(field);
        match self.store().command(&cmd, "read an incident").await? {
            Value::BulkString(text) => Ok(serde_json::from_slice(&text).ok()),
            _ => Ok(None),
        }
    }

    /// All fields of a hash of the wheel, page by page.
    async fn every(&self, name: &str) -> Result<BTreeMap<String, Vec<u8>>> {
        self.matching(name, "*").await
    }

    /// Those whose names fit a pattern.
    async fn matching(&self, name: &str, pattern: &str) -> Result<BTreeMap<String, Vec<u8>>> {
        let (mut all, mut cursor) = (BTreeMap::new(), "0".to_owned());
        loop {
            let mut cmd = redis::cmd("HSCAN");
            cmd.arg(self.of_wheel(name)).arg(&cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(500);
            let page = self.store().command(&cmd, "read the incidents").await?;
            let mut page = reply::Reply::array("incidents", page)?;
            cursor = page.word()?;
            let mut pairs = reply::Reply::array("incidents", page.value()?)?;
            while pairs.len() >= 2 {
                all.insert(pairs.word()?, pairs.bytes()?);
            }
            if cursor == "0" {
                return Ok(all);
            }
        }
    }

    fn of_wheel(&self, name: &str) -> String {
        keys::of_wheel(self.name(), name)
    }
}

/// Whether there is no deadline and no end of one; a cancellation that met nothing leaves an end of no life.
fn is_of_no_life(seen: &Inspection) -> bool {
    seen.entry.is_none() && seen.ended.as_ref().is_none_or(|ended| ended.generation.0 == 0)
}

/// What became of a close that was under way.
enum Settling {
    /// It is not decided.
    Open,
    /// It closed nothing: the payment came in time.
    InTime,
    /// It closed the order.
    Late(Incident),
}
