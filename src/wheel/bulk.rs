//! Bulk acts as Redis keeps them: what was asked for, how far it has come, and the last ones. What they do is `operator`'s.
//!
//! Those that are not over lie in a hash of the wheel, oldest first by their ids. Their runner takes the wheel's job `bulk`, so that there is
//! one at a time, and keeps how far it has come in the job's record, under its fence; those that are over are the job's last runs.

use std::collections::BTreeMap;
use std::time::Duration;

use redis::Value;

use super::{Job, Place, Taken, Wheel, keys, reply};
use crate::clock::Moment;
use crate::error::{Invalid, Result};

/// The job that runs them.
pub const BULK: &str = "bulk";
/// Where the job's record keeps how far the current one has come.
const AT: &str = "at";
/// The one that was over last: a runner that died between writing that and taking it off the list did not do it twice.
const LAST: &str = "last";

/// What is done to all that match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum BulkAct {
    /// Gives the dead a new life.
    Revive,
    /// Ends the dead as cancelled.
    Drop,
    /// Ends scheduled deadlines.
    Cancel,
    /// Closes scheduled deadlines now.
    Close,
    /// Gives scheduled deadlines a later moment.
    Reschedule {
        /// How much later than each is due, in milliseconds.
        by_ms: u64,
    },
    /// Keeps scheduled deadlines from firing.
    Hold {
        /// For how long from now, in milliseconds.
        for_ms: u64,
    },
}

impl BulkAct {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Revive => "revive",
            Self::Drop => "drop",
            Self::Cancel => "cancel",
            Self::Close => "close",
            Self::Reschedule { .. } => "reschedule",
            Self::Hold { .. } => "hold",
        }
    }

    /// The words of all of them.
    pub const WORDS: [&str; 6] = ["revive", "drop", "cancel", "close", "reschedule", "hold"];

    /// The act of a word. `long` is how much later (reschedule) or for how long (hold): 1 ms to 10 years, needed there and nowhere else.
    pub fn parse(word: &str, long: Option<Duration>) -> Result<Self, Invalid> {
        let ms = long.map(|long| u64::try_from(long.as_millis()).unwrap_or(u64::MAX));
        let good = ms.filter(|ms| (1..=315_360_000_000).contains(ms));
        match (word, ms, good) {
            ("revive", None, _) => Ok(Self::Revive),
            ("drop", None, _) => Ok(Self::Drop),
            ("cancel", None, _) => Ok(Self::Cancel),
            ("close", None, _) => Ok(Self::Close),
            ("reschedule", _, Some(by_ms)) => Ok(Self::Reschedule { by_ms }),
            ("hold", _, Some(for_ms)) => Ok(Self::Hold { for_ms }),
            ("reschedule" | "hold", None, _) => {
                Err(Invalid::new("for", "", "is missing: by how much, or for how long?"))
            }
            ("reschedule" | "hold", _, None) => Err(Invalid::new("for", "", "expected 1ms to 3650d")),
            ("revive" | "drop" | "cancel" | "close", Some(_), _) => {
                Err(Invalid::new("for", "", format!("expected none for {word}")))
            }
            _ => Err(Invalid::new("act", word, format!("expected one of {}", Self::WORDS.join(", ")))),
        }
    }

    /// Whether it is done to the dead; else to what is scheduled.
    pub fn is_of_dead(self) -> bool {
        matches!(self, Self::Revive | Self::Drop)
    }
}

/// Which deadlines a bulk act is about: those that fit every part that is given. Nothing at all fits everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct BulkFilter {
    /// Of the dead: a part of the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of the dead: the group of the reason, as [`reason_group`](crate::deadline::reason_group) names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The id begins so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Died then or later; of the scheduled, fires then or later. In milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_ms: Option<u64>,
    /// Died then or earlier; of the scheduled, fires then or earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_ms: Option<u64>,
}

impl BulkFilter {
    /// The earliest moment that fits.
    pub fn from(&self) -> Moment {
        self.from_ms.map_or(Moment::EPOCH, moment)
    }

    /// The latest one.
    pub fn to(&self) -> Moment {
        self.to_ms.map_or(Moment::MAX, moment)
    }

    /// For people: `died from …, reason holds …`; text of others in it is escaped.
    pub fn text(&self) -> String {
        let quoted = |what: &str, text: &Option<String>| {
            text.as_ref().map(|text| format!("{what} \"{}\"", crate::error::shown(text)))
        };
        let at = |what: &str, ms: Option<u64>| ms.map(|ms| format!("{what} {}", moment(ms)));
        let parts = [
            quoted("reason holds", &self.reason),
            quoted("group", &self.group),
            quoted("id begins with", &self.prefix),
            at("from", self.from_ms),
            at("to", self.to_ms),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "all".to_owned() } else { parts.join(", ") }
    }
}

fn moment(ms: u64) -> Moment {
    Moment::from_millis(ms).unwrap_or(Moment::MAX)
}

/// How a bulk act stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BulkState {
    /// No runner has begun with it.
    #[default]
    Waiting,
    /// A runner has it, or had it when it died.
    Running,
    /// It is over.
    Done,
    /// A person stopped it.
    Stopped,
}

impl BulkState {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Done => "done",
            Self::Stopped => "stopped",
        }
    }
}

/// A bulk act, and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Bulk {
    /// Its id: when it was asked for, in microseconds of Redis's clock. Only what matched before that moment is touched.
    pub id: String,
    /// What is done.
    #[serde(flatten)]
    pub act: BulkAct,
    /// To which.
    pub filter: BulkFilter,
    /// Who asked for it.
    pub by: String,
    /// Through which door.
    pub door: String,
    /// Why; may be empty.
    pub reason: String,
    /// When it was asked for, in milliseconds since the epoch.
    pub asked_at_ms: u64,
    /// How many matched then.
    pub matched: u64,
    /// Whether that is all of them, or only as many as were counted.
    pub exact: bool,
    /// To how many it is done at most; `None` for all that match.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub most: Option<u64>,
    /// Where its intent stands in the audit.
    pub audit: String,
    /// How it stands.
    #[serde(default)]
    pub state: BulkState,
    /// To how many it was done.
    #[serde(default)]
    pub done: u64,
    /// How many refused, because they had moved on.
    #[serde(default)]
    pub refused: u64,
    /// How many are still to come, as far as was counted.
    #[serde(default)]
    pub left: u64,
    /// Who runs it, or ran it last: host, process and a random part.
    #[serde(default)]
    pub runner: String,
    /// When it was over.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ended_at_ms: Option<u64>,
    /// Why its last runner gave up; another one goes on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}

impl Bulk {
    /// Whether nothing more is done.
    pub fn is_over(&self) -> bool {
        matches!(self.state, BulkState::Done | BulkState::Stopped)
    }

    /// The moment that what it touches must have matched before, in microseconds.
    pub fn asked_at_us(&self) -> u64 {
        self.id.parse().unwrap_or(0)
    }
}

/// How far a bulk act has come, as its runner keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct BulkAt {
    /// Which one.
    pub id: String,
    /// To how many it was done.
    pub done: u64,
    /// How many refused.
    pub refused: u64,
    /// The shard that is walked.
    pub shard: u16,
    /// Behind which entry of that shard the walk goes on.
    pub after: Option<Place>,
    /// Those that were to be touched next, each with a mark of how it stood: done or not, nobody can say who did not write it down.
    pub page: Vec<(String, String)>,
}

/// A bulk act that this runner has.
#[derive(Debug)]
pub struct TakenBulk {
    /// The job under which it is run.
    pub job: Job,
    /// What is to be done.
    pub bulk: Bulk,
    /// How far it has come.
    pub at: BulkAt,
}

/// What a runner is to do.
#[derive(Debug)]
pub enum Task {
    /// Run this one, or go on with it.
    Run(Box<TakenBulk>),
    /// This one is over, but its runner was cut off before it had said so: say it, then forget it.
    Tell(Job, Box<Bulk>),
}

impl Wheel {
    /// The oldest bulk act that a runner has yet to end, also one that a person stopped.
    pub(super) async fn bulk_under_way(&self) -> Result<Option<Bulk>> {
        let record = self.job_record(BULK).await?;
        let last = record.fields.get(LAST);
        Ok(self.open_bulks().await?.0.into_iter().find(|bulk| Some(&bulk.id) != last))
    }

    /// Puts a bulk act on the list. Its id is set here.
    pub async fn put_bulk(&self, mut bulk: Bulk) -> Result<Bulk> {
        loop {
            let now = self.store().read_clock().await?.us;
            (bulk.id, bulk.asked_at_ms) = (format!("{now:016}"), now / 1000);
            let text = serde_json::to_string(&bulk).unwrap_or_default();
            let mut cmd = redis::cmd("HSETNX");
            cmd.arg(keys::of_wheel(self.name(), "bulks")).arg(&bulk.id).arg(text);
            if reply::number(&self.store().command(&cmd, "begin a bulk act").await?) == Some(1) {
                return Ok(bulk);
            }
        }
    }

    /// The bulk acts: those that are not over, newest first, then the last ones that are, at most 100.
    pub async fn bulks(&self) -> Result<Vec<Bulk>> {
        let (mut open, stops) = self.open_bulks().await?;
        let record = self.job_record(BULK).await?;
        let at: Option<BulkAt> = record.fields.get(AT).and_then(|text| serde_json::from_str(text).ok());
        let last = record.fields.get(LAST);
        open.retain(|bulk| Some(&bulk.id) != last);
        for bulk in &mut open {
            if let Some(at) = at.as_ref().filter(|at| at.id == bulk.id) {
                bulk.state = BulkState::Running;
                (bulk.done, bulk.refused) = (at.done, at.refused);
                bulk.runner = record.runner.clone().unwrap_or_default();
                bulk.error = record.fields.get("error").cloned();
            }
            if stops.contains_key(&bulk.id) && bulk.state == BulkState::Waiting {
                bulk.state = BulkState::Stopped;
            }
            bulk.left = bulk.matched.saturating_sub(bulk.done + bulk.refused);
        }
        open.reverse();
        let over = self.job_runs(BULK, 100).await?;
        open.extend(over.iter().filter_map(|text| serde_json::from_str(text).ok()));
        Ok(open)
    }

    /// One of them.
    pub async fn bulk(&self, id: &str) -> Result<Option<Bulk>> {
        Ok(self.bulks().await?.into_iter().find(|bulk| bulk.id == id))
    }

    /// Stops one: its runner sees it before the next page. Answers it as it stands; `None` where there is none of that id.
    pub async fn stop_bulk(&self, id: &str, by: &str) -> Result<Option<Bulk>> {
        let found = self.bulk(id).await?;
        if found.as_ref().is_some_and(|bulk| !bulk.is_over()) {
            let mut cmd = redis::cmd("HSET");
            cmd.arg(keys::of_wheel(self.name(), "bulks")).arg(format!("stop:{id}")).arg(by);
            self.store().command(&cmd, "stop a bulk act").await?;
        }
        Ok(found)
    }

    /// Who stopped it, where somebody did.
    pub async fn stopped_bulk(&self, id: &str) -> Result<Option<String>> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(keys::of_wheel(self.name(), "bulks")).arg(format!("stop:{id}"));
        match self.store().command(&cmd, "read a bulk act").await? {
            Value::BulkString(by) => Ok(Some(String::from_utf8_lossy(&by).into_owned())),
            _ => Ok(None),
        }
    }

    /// Takes the oldest one that is on the list, unless another runner has it.
    pub async fn take_bulk(&self, runner: &str, lease: Duration) -> Result<Option<Task>> {
        if self.open_bulks().await?.0.is_empty() {
            return Ok(None);
        }
        let Taken::Mine(job) = self.take_job(BULK, runner, lease, None).await? else { return Ok(None) };
        // Read again: what was over a moment ago is not on the list any more.
        for bulk in self.open_bulks().await?.0 {
            if job.field(LAST) == Some(bulk.id.as_str()) {
                let over = self.job_runs(BULK, 1).await?.pop();
                let over = over.and_then(|text| serde_json::from_str::<Bulk>(&text).ok());
                match over.filter(|over| over.id == bulk.id) {
                    Some(over) => return Ok(Some(Task::Tell(job, Box::new(over)))),
                    // Its record is gone: there is nothing left to say of it.
                    None => self.forget_bulk(&bulk.id).await?,
                }
                continue;
            }
            let at: Option<BulkAt> = job.field(AT).and_then(|text| serde_json::from_str(text).ok());
            let fresh = || BulkAt { id: bulk.id.clone(), ..BulkAt::default() };
            let at = at.filter(|at| at.id == bulk.id).unwrap_or_else(fresh);
            return Ok(Some(Task::Run(Box::new(TakenBulk { job, bulk, at }))));
        }
        job.release(&[]).await?;
        Ok(None)
    }

    /// Takes it off the list: it is over.
    pub async fn forget_bulk(&self, id: &str) -> Result<()> {
        let mut cmd = redis::cmd("HDEL");
        cmd.arg(keys::of_wheel(self.name(), "bulks")).arg(id).arg(format!("stop:{id}"));
        self.store().command(&cmd, "forget a bulk act").await.map(drop)
    }

    /// Those that are not over, oldest first, and who stopped which.
    async fn open_bulks(&self) -> Result<(Vec<Bulk>, BTreeMap<String, String>)> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(keys::of_wheel(self.name(), "bulks"));
        let mut reply =
            reply::Reply::pairs("bulks", self.store().command(&cmd, "read the bulk acts").await?)?;
        let (mut open, mut stops) = (Vec::new(), BTreeMap::new());
        while reply.len() >= 2 {
            let (name, text) = (reply.word()?, reply.word()?);
            if let Some(id) = name.strip_prefix("stop:") {
                stops.insert(id.to_owned(), text);
            } else if let Ok(bulk) = serde_json::from_str::<Bulk>(&text) {
                open.push(bulk);
            }
        }
        open.sort_by(|a, b| a.id.cmp(&b.id));
        Ok((open, stops))
    }
}

impl Job {
    /// Writes down how far a bulk act has come, and extends the job's lease.
    pub async fn save_bulk(&self, at: &BulkAt) -> Result<()> {
        let text = serde_json::to_string(at).unwrap_or_default();
        self.save(&[(AT, &text), ("error", "")]).await
    }

    /// Writes down that a bulk act is over.
    pub async fn finish_bulk(&self, bulk: &Bulk) -> Result<()> {
        let record = serde_json::to_string(bulk).unwrap_or_default();
        self.finish(&record, &[(AT, ""), (LAST, &bulk.id), ("error", "")]).await
    }
}
