//! Many deadlines from a file: read and parsed on a thread of its own, stored batch by batch. Memory stays flat whatever the file holds.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;

use super::line::{self, Line};
use crate::cli::exit::Exit;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::output::Output;
use crate::clock::Moment;
use crate::deadline::{Deadline, DueAt, OnConflict};
use crate::error::{Error, Invalid, StoreKind, escaped};
use crate::wheel::Wheel;

/// Lines stored together: for 16 shards about 250 each, so that a script call stays near a millisecond.
const BATCH: usize = 4000;
/// The longest line: a payload of 64 KiB, an id, and room for escapes.
const MAX_LINE: u64 = 512 * 1024;
/// Reported one by one; a file of the wrong kind would bury the summary otherwise.
const MAX_REPORTS: u64 = 100;
/// How often a batch that Redis only put off is sent again, with a pause that doubles from 50 ms: about six seconds in all.
const TRIES: u32 = 7;

/// What to read, and how to store it.
pub struct Rules<'a> {
    pub file: &'a str,
    pub from_line: u64,
    pub on_conflict: OnConflict,
    pub force: bool,
}

/// Some lines of the file, in order.
#[derive(Default)]
struct Batch {
    lines: Vec<(u64, Line)>,
    rejected: Vec<(u64, String)>,
    /// The first line that comes after this batch.
    next_line: u64,
    bytes: u64,
    /// Why reading ended here, if it did not end at the end.
    failure: Option<String>,
}

/// Stores every line of the file.
pub async fn run(rules: &Rules<'_>, wheel: &Wheel, output: &mut Output) -> Outcome {
    let (reader, length) = open(rules.file)?;
    let (sender, mut batches) = mpsc::channel(2);
    let from_line = rules.from_line;
    let reading = std::thread::spawn(move || read(reader, from_line, &sender));
    let bar = super::progress(output, length);
    let mut interrupt = crate::cli::context::interrupt()?;
    let mut count = Count { next_line: from_line, ..Count::default() };
    let stopped = loop {
        let batch = tokio::select! {
            batch = batches.recv() => batch,
            _ = interrupt.recv() => break Some((Exit::Interrupted, "interrupted".to_owned())),
        };
        let Some(batch) = batch else { break None };
        count.report(rules.file, &batch.rejected, output);
        // A batch is stored whole even when a signal comes: what was named as stored must be.
        if let Err(error) = store(rules, wheel, &batch, &mut count, output).await {
            break Some((Exit::of_error(&error, false), error.to_string()));
        }
        count.next_line = batch.next_line;
        bar.inc(if length.is_some() { batch.bytes } else { batch.lines.len() as u64 });
        if let Some(failure) = batch.failure {
            break Some((Exit::BadData, failure));
        }
    };
    bar.finish_and_clear();
    // The reader ends by itself when nobody takes its batches; one that waits for a terminal is left behind.
    drop(batches);
    if stopped.is_none() {
        let _ = reading.join();
    }
    count.say(wheel, output)?;
    match stopped {
        None => Ok(count.exit()),
        Some((exit, reason)) => {
            let next = count.next_line;
            let file = escaped(rules.file);
            Err(Failure::Stopped(exit, format!("{file}: {reason}; go on with --from-line {next}")))
        }
    }
}

fn open(file: &str) -> Result<(Box<dyn Read + Send>, Option<u64>), Failure> {
    if file == "-" {
        return Ok((Box::new(io::stdin()), None));
    }
    let bad = |e: io::Error| Failure::Data(format!("--file {}: {e}", escaped(file)));
    let meta = std::fs::metadata(file).map_err(bad)?;
    if meta.is_dir() {
        return Err(Failure::Data(format!("--file {}: is a directory", escaped(file))));
    }
    Ok((Box::new(std::fs::File::open(file).map_err(bad)?), meta.is_file().then_some(meta.len())))
}

fn read(from: impl Read, from_line: u64, batches: &mpsc::Sender<Batch>) {
    let mut from = BufReader::with_capacity(256 * 1024, from);
    let mut number = 0;
    let mut batch = Batch::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        match next_line(&mut from, &mut line) {
            Ok(0) => break,
            Ok(bytes) => {
                number += 1;
                batch.bytes += bytes;
                batch.next_line = number + 1;
                if number >= from_line {
                    take(&mut batch, number, &line, bytes);
                }
            }
            Err(e) => {
                batch.next_line = number + 1;
                batch.failure = Some(e.to_string());
                break;
            }
        }
        if batch.lines.len() + batch.rejected.len() >= BATCH
            && batches.blocking_send(std::mem::take(&mut batch)).is_err()
        {
            return;
        }
    }
    batch.next_line = batch.next_line.max(number + 1);
    let _ = batches.blocking_send(batch);
}

/// Reads one line, line end included, and returns its length. Of one that is too long only the beginning is kept.
fn next_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    let mut bytes = from.by_ref().take(MAX_LINE).read_until(b'\n', line)? as u64;
    if bytes == MAX_LINE && line.last() != Some(&b'\n') {
        loop {
            let buffer = from.fill_buf()?;
            let (skipped, end) = match buffer.iter().position(|b| *b == b'\n') {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            from.consume(skipped);
            bytes += skipped as u64;
            if end {
                break;
            }
        }
    }
    Ok(bytes)
}

fn take(batch: &mut Batch, number: u64, line: &[u8], bytes: u64) {
    let line = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
    if bytes > MAX_LINE {
        batch.rejected.push((number, format!("is longer than {MAX_LINE} bytes")));
    } else if !line.iter().all(u8::is_ascii_whitespace) {
        match line::parse(line) {
            Ok(line) => batch.lines.push((number, line)),
            Err(reason) => batch.rejected.push((number, reason)),
        }
    }
}

/// Stores a batch; sends again what Redis put off without having done anything.
async fn store(
    rules: &Rules<'_>,
    wheel: &Wheel,
    batch: &Batch,
    count: &mut Count,
    output: &Output,
) -> Result<(), Error> {
    let mut rest: Vec<&(u64, Line)> = batch.lines.iter().collect();
    let mut pause = Duration::from_millis(50);
    // Windows become moments once a batch, by Redis's clock: a call that is repeated because its answer was lost then answers
    // `exists`, where a window would have moved on and met its own deadline as a conflict.
    let mut windows_from: Option<Moment> = None;
    for attempt in 1.. {
        if windows_from.is_none() {
            match wheel.now().await {
                Ok(now) => {
                    rest.retain(|(number, line)| match line.admitted(wheel, now) {
                        Ok(()) => true,
                        Err(e) => {
                            count.report(rules.file, &[(*number, e.to_string())], output);
                            false
                        }
                    });
                    // What TIME cut off would make the window too short.
                    windows_from = Some(now.plus(Duration::from_millis(1)));
                }
                Err(e) if may_be_repeated(&e) && attempt < TRIES => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                    continue;
                }
                Err(e) => return Err(e),
            }
        }
        let deadlines: Vec<Deadline> =
            rest.iter().map(|(_, line)| at_moment(&line.deadline, windows_from)).collect();
        let answers = wheel.enqueue_batch(&deadlines, rules.on_conflict, rules.force).await;
        let (mut again, mut failure) = (Vec::new(), None);
        for (&one, answer) in rest.iter().zip(answers) {
            match answer {
                Ok(Ok(enqueued)) => count.add(enqueued.how.as_str()),
                Ok(Err(refusal)) => count.add(refusal.as_str()),
                // One deadline beyond the wheel's reach refuses its whole call; alone it is named.
                Err(Error::Invalid(e)) if deadlines.len() == 1 => {
                    count.report(rules.file, &[(one.0, e.to_string())], output);
                }
                Err(e) => {
                    again.push(one);
                    failure = Some(e);
                }
            }
        }
        let Some(failure) = failure else { return Ok(()) };
        match &failure {
            Error::Invalid(_) => {
                let (far, near): (Vec<_>, Vec<_>) =
                    again.into_iter().partition(|(_, line)| !wheel_reaches(wheel, &line.deadline));
                for (number, _) in &far {
                    let days = wheel.settings().max_ahead.as_secs() / 86_400;
                    let reason = format!("due_at: expected at most {days} days ahead");
                    count.report(rules.file, &[(*number, reason)], output);
                }
                if far.is_empty() {
                    return Err(failure);
                }
                again = near;
            }
            error if may_be_repeated(error) && attempt < TRIES => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            _ => return Err(failure),
        }
        rest = again;
    }
    Ok(())
}

impl Line {
    /// Whether its channel allows it.
    fn admitted(&self, wheel: &Wheel, now: Moment) -> Result<(), Invalid> {
        let field = if matches!(self.deadline.due_at, DueAt::Moment(_)) { "due_at" } else { "in" };
        self.through.as_ref().map_or(Ok(()), |through| through.admit(wheel, field, self.deadline.due_at, now))
    }
}

/// Whether the call may be sent again: Redis put it off, or its answer was lost, and an enqueue is idempotent.
fn may_be_repeated(error: &Error) -> bool {
    error.store_kind().is_some_and(|kind| kind.is_temporary() || kind == StoreKind::Unknown)
}

/// The deadline with its window counted from that moment.
fn at_moment(deadline: &Deadline, from: Option<Moment>) -> Deadline {
    match (deadline.due_at, from) {
        (DueAt::After(window), Some(from)) if window <= Moment::MAX.since(from) => {
            Deadline { due_at: DueAt::Moment(from.plus(window)), ..deadline.clone() }
        }
        _ => deadline.clone(),
    }
}

fn wheel_reaches(wheel: &Wheel, deadline: &Deadline) -> bool {
    let ahead = match deadline.due_at {
        DueAt::Moment(moment) => moment.since(Moment::host_now()),
        DueAt::After(window) => window,
    };
    ahead <= wheel.settings().max_ahead
}

/// What became of the lines.
#[derive(Default)]
struct Count {
    outcomes: BTreeMap<&'static str, u64>,
    rejected: u64,
    next_line: u64,
}

impl Count {
    fn add(&mut self, outcome: &'static str) {
        *self.outcomes.entry(outcome).or_default() += 1;
    }

    fn report(&mut self, file: &str, rejected: &[(u64, String)], output: &Output) {
        for (number, reason) in rejected {
            self.rejected += 1;
            if self.rejected <= MAX_REPORTS {
                output.warn(&format!("{}:{number}: {reason}", escaped(file)));
            } else if self.rejected == MAX_REPORTS + 1 {
                output.warn("more lines were rejected; only their number is told");
            }
        }
    }

    fn say(&self, wheel: &Wheel, output: &mut Output) -> io::Result<()> {
        let mut parts: Vec<String> = self.outcomes.iter().map(|(what, n)| format!("{n} {what}")).collect();
        if self.rejected > 0 {
            parts.push(format!("{} rejected", self.rejected));
        }
        let text = if parts.is_empty() { "no lines".to_owned() } else { parts.join(", ") };
        let object = json!({
            "wheel": wheel.name().as_str(), "outcomes": self.outcomes, "rejected": self.rejected, "next_line": self.next_line,
        });
        output.say(&format!("{}: {text}", wheel.name()), &object)
    }

    fn exit(&self) -> Exit {
        let good = ["enqueued", "exists", "replaced", "resurrected"];
        let refused = self.outcomes.keys().any(|what| !good.contains(what));
        let stored = self.outcomes.keys().any(|what| good.contains(what));
        match (stored, refused, self.rejected > 0) {
            (_, false, false) => Exit::Done,
            (false, true, false) => Exit::Refused,
            (false, false, true) => Exit::BadData,
            _ => Exit::Partial,
        }
    }
}
