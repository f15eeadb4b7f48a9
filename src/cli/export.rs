//! `duewheel export`: all deadlines as NDJSON, to be read by import.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use crate::clock::{Moment, parse_duration};
use crate::deadline::{Cause, Generation, Id, Note, Outcome as End, Payload, Reminders, Stage, State};
use crate::error::{Error, escaped, escaped_json};
use crate::lease::Fence;
use crate::wheel::answer::{Ended, Entry, Row};
use crate::wheel::{Carried, Wheel};

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(
    about = "Writes all deadlines as NDJSON",
    long_about = "Writes all deadlines of a wheel as NDJSON: scheduled and dead ones with all they have, leased ones as scheduled, \
                  and the remembered ends. It is no snapshot: what moves meanwhile may stand twice or not at all, so stop the \
                  callers or pause first where that matters.",
    after_help = "Examples:\n  duewheel export > orders.ndjson\n  duewheel export --out orders.ndjson --wheel orders\n  duewheel \
                  export | duewheel --wheel copy import -"
)]
pub struct Export {
    /// The file to write, with mode 0600; - is stdout
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

impl Export {
    /// Whether it goes to stdout.
    pub fn to_stdout(&self) -> bool {
        self.out.as_os_str() == "-"
    }
}

/// Exports.
pub async fn run(args: &Export, context: &Context, output: &mut Output) -> Outcome {
    let wheel = context.wheel()?;
    let mut file = if args.to_stdout() { None } else { Some(create(&args.out)?) };
    let bar = super::enqueue::progress(output, None);
    let mut count = 0;
    for state in [State::Scheduled, State::Leased, State::Dead, State::Ended] {
        let mut cursor = None;
        loop {
            let page = wheel.list(state, Moment::EPOCH, Moment::MAX, cursor.as_ref(), 500).await?;
            for row in page.rows {
                let Some(record) = Record::of(&wheel, row, output) else { continue };
                let line = escaped_json(&serde_json::to_string(&record).map_err(std::io::Error::from)?);
                match &mut file {
                    None => output.line(&line)?,
                    Some(file) => writeln!(file, "{line}").map_err(|e| bad_file(&args.out, &e))?,
                }
                count += 1;
            }
            bar.set_position(count);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
    }
    bar.finish_and_clear();
    if let Some(file) = file {
        keep(file).map_err(|e| bad_file(&args.out, &e))?;
    }
    output.note(&format!("{}: {count} exported", wheel.name()));
    Ok(Exit::Done)
}

pub fn create(path: &std::path::Path) -> Result<std::io::BufWriter<std::fs::File>, Failure> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // Payloads are the shop's business, and nobody else's.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path).map_err(|e| bad_file(path, &e))?;
    #[cfg(unix)]
    close_to_others(&file).map_err(|e| bad_file(path, &e))?;
    Ok(std::io::BufWriter::new(file))
}

/// A file that was there before keeps its mode, unless it is told otherwise; a pipe or a terminal is left alone.
#[cfg(unix)]
fn close_to_others(file: &std::fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let meta = file.metadata()?;
    if meta.is_file() && meta.permissions().mode() & 0o077 != 0 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// Sees to it that all of it is on the disk; a pipe has none.
pub fn keep(mut file: std::io::BufWriter<std::fs::File>) -> std::io::Result<()> {
    file.flush()?;
    if file.get_ref().metadata()?.is_file() { file.get_ref().sync_all() } else { Ok(()) }
}

pub fn bad_file(path: &std::path::Path, e: &std::io::Error) -> Failure {
    let attempted = format!("write {}", escaped(&path.to_string_lossy()));
    Error::File { attempted, reason: e.to_string() }.into()
}

/// One line. The payload stands as text, so that every byte of it survives.
#[derive(Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", deny_unknown_fields)]
pub enum Record {
    /// Waiting for its moment.
    Scheduled(Live),
    /// Waiting for a person.
    Dead(Live),
    /// Ended and remembered.
    Ended {
        /// The order.
        id: String,
        /// How it ended.
        outcome: String,
        /// Why it fired.
        cause: String,
        /// Which life.
        generation: u64,
        /// The promise.
        due_at: String,
        /// When it ended.
        ended_at: String,
        /// The attempt that ended it.
        attempt: u32,
        /// The fence of that attempt.
        fence: u64,
    },
}

/// A deadline that has not ended.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Live {
    id: String,
    due_at: String,
    next_at: String,
    generation: u64,
    stage: u8,
    cause: String,
    attempts: u32,
    losses: u32,
    hold_count: u32,
    hold_total: String,
    cancelled: bool,
    /// Of a dead one: when it died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    died_at: Option<String>,
    /// Of a dead one: why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<Note>,
    /// How long before the close to remind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    remind: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    payload: String,
}

impl Record {
    fn of(wheel: &Wheel, row: Row, output: &Output) -> Option<Self> {
        match row {
            Row::Live { state: State::Dead, at, entry, reason } => {
                let (died_at, reason) = (Some(at.to_string()), reason.unwrap_or_default());
                Some(Self::Dead(Live { died_at, reason, ..Live::of(&entry) }))
            }
            Row::Live { entry, .. } => Some(Self::Scheduled(Live::of(&entry))),
            Row::Ended { id, ended } => Some(Self::Ended {
                id: id.as_str().to_owned(),
                outcome: ended.outcome.as_str().to_owned(),
                cause: ended.cause.as_str().to_owned(),
                generation: ended.generation.0,
                due_at: ended.due_at.to_string(),
                ended_at: ended.ended_at.to_string(),
                attempt: ended.attempt,
                fence: ended.fence.0,
            }),
            Row::Foreign { id, reason, .. } => {
                output.warn(&format!("{} {}: left out: {}", wheel.name(), escaped(&id), escaped(&reason)));
                None
            }
        }
    }

    /// The deadline as the wheel takes it over, or what is wrong with the line.
    pub fn carried(self, wheel: &Wheel) -> Result<Carried, String> {
        let text = |e: crate::error::Invalid| e.to_string();
        let moment = |field: &str, value: &str| Moment::parse(field, value).map_err(text);
        Ok(match self {
            Self::Scheduled(live) => {
                let entry = Box::new(live.entry(wheel)?);
                Carried::Live { state: State::Scheduled, at: entry.next_at, entry, reason: String::new() }
            }
            Self::Dead(mut live) => {
                let died_at = live.died_at.take().ok_or("died_at is missing")?;
                let (at, reason) = (moment("died_at", &died_at)?, std::mem::take(&mut live.reason));
                Carried::Live { state: State::Dead, at, entry: Box::new(live.entry(wheel)?), reason }
            }
            Self::Ended { id, outcome, cause, generation, due_at, ended_at, attempt, fence } => {
                let outcome = (1..=3).filter_map(End::from_stored).find(|o| o.as_str() == outcome);
                Carried::Ended {
                    id: Id::new(&id).map_err(text)?,
                    ended: Ended {
                        outcome: outcome.ok_or("outcome: expected closed, skipped or cancelled")?,
                        cause: cause_of(&cause)?,
                        generation: Generation(generation),
                        due_at: moment("due_at", &due_at)?,
                        ended_at: moment("ended_at", &ended_at)?,
                        attempt,
                        fence: Fence(fence),
                    },
                }
            }
        })
    }
}

fn cause_of(word: &str) -> Result<Cause, String> {
    let found = (0..=u8::MAX).map_while(Cause::from_stored).find(|c| c.as_str() == word);
    found.ok_or_else(|| format!("cause \"{}\": not known", crate::error::shown(word)))
}

impl Live {
    fn of(entry: &Entry) -> Self {
        Self {
            id: entry.id.as_str().to_owned(),
            due_at: entry.due_at.to_string(),
            next_at: entry.next_at.to_string(),
            generation: entry.generation.0,
            stage: entry.stage.0,
            cause: entry.cause.as_str().to_owned(),
            attempts: entry.attempts,
            losses: entry.losses,
            hold_count: entry.hold_count,
            hold_total: crate::clock::show_duration(entry.hold_total),
            cancelled: entry.cancelled,
            died_at: None,
            reason: String::new(),
            note: entry.note.clone(),
            remind: entry.reminders.before().map(crate::clock::show_duration).collect(),
            traceparent: entry.traceparent.clone(),
            payload: String::from_utf8_lossy(entry.payload.as_bytes()).into_owned(),
        }
    }

    fn entry(self, wheel: &Wheel) -> Result<Entry, String> {
        let text = |e: crate::error::Invalid| e.to_string();
        let due_at = Moment::parse("due_at", &self.due_at).map_err(text)?;
        let next_at = Moment::parse("next_at", &self.next_at).map_err(text)?;
        let remind: Result<Vec<_>, _> = self.remind.iter().map(|one| parse_duration("remind", one)).collect();
        Ok(Entry {
            id: Id::new(&self.id).map_err(text)?,
            generation: Generation(self.generation),
            due_at,
            next_at,
            slot: wheel.settings().slot_width.slot_of(next_at, Moment::host_now()),
            stage: Stage(self.stage),
            hold_count: self.hold_count,
            hold_total: parse_duration("hold_total", &self.hold_total).map_err(text)?,
            cause: cause_of(&self.cause)?,
            attempts: self.attempts,
            losses: self.losses,
            cancelled: self.cancelled,
            note: self.note.map(|n| Note::new(&n.actor, &n.reason)).transpose().map_err(text)?,
            reminders: remind.and_then(|all| Reminders::new(&all)).map_err(text)?,
            payload: Payload::from_json(self.payload).map_err(text)?,
            traceparent: self.traceparent,
        })
    }
}
