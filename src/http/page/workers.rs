//! Who works on the wheel, and what each one says of itself.

use std::time::Duration;

use askama::Template;

use super::fault::Outcome;
use super::figure::{At, count, of, span};
use super::frame::Frame;
use super::visit::Visit;
use crate::clock::Moment;
use crate::wheel::WorkerRecord;

#[derive(Template)]
#[template(path = "workers.html")]
struct Page {
    frame: Frame,
    workers: Vec<Worker>,
    /// Those that fell silent without a word.
    lost: Vec<Worker>,
    due: u64,
    /// `2 orders are due and wait`.
    waiting: String,
}

struct Worker {
    token: String,
    host: String,
    pid: u32,
    version: String,
    /// Another version than this server's.
    differs: bool,
    up: String,
    in_flight: String,
    /// Its oldest claim.
    oldest: Option<At>,
    /// Its last heartbeat.
    heard: Option<At>,
    draining: bool,
    /// Who told it to drain, and why.
    drained: Option<(String, String)>,
    clocks: Vec<(String, String)>,
    pauses: Vec<(String, At)>,
    held_back: Vec<String>,
}

/// `GET /workers`.
pub(super) async fn show(visit: Visit) -> Outcome {
    let wheel = visit.wheel();
    let now = wheel.now().await?;
    let presence = wheel.presence().await?;
    let due = if presence.workers.is_empty() { wheel.stats().await?.due } else { 0 };
    let heard = |record: &WorkerRecord| presence.heard.get(&record.token).map(|at| At::seen(*at, now));
    let all = |records: &[WorkerRecord]| {
        records.iter().map(|record| worker(record.clone(), heard(record), now)).collect()
    };
    let page = Page {
        frame: visit.frame("Workers"),
        workers: all(&presence.workers),
        lost: all(&presence.lost),
        waiting: of(due, "order is due and waits", "orders are due and wait"),
        due,
    };
    visit.page(&page)
}

fn worker(record: WorkerRecord, heard: Option<At>, now: Moment) -> Worker {
    let moment = |ms: u64| Moment::EPOCH.plus(Duration::from_millis(ms));
    let started = moment(record.started_ms);
    // Signed, because a clock may be behind as well as ahead.
    let clock = |(name, ahead): (String, i64)| (name, format!("{ahead:+} ms"));
    Worker {
        differs: record.version != env!("CARGO_PKG_VERSION"),
        up: span(now.since(started)),
        in_flight: count(record.in_flight),
        oldest: record.claims.first().map(|claim| At::seen(claim.claimed_at(), now)),
        heard,
        clocks: record.clocks.into_iter().map(clock).collect(),
        pauses: record.pauses.into_iter().map(|(name, ms)| (name, At::seen(moment(ms), now))).collect(),
        token: record.token,
        host: record.host,
        pid: record.pid,
        version: record.version,
        draining: record.draining || record.drained.is_some(),
        drained: record.drained.map(|note| (note.actor, note.reason)),
        held_back: record.held_back,
    }
}

/// `POST /workers/drain`.
pub(super) async fn drain(visit: Visit) -> Outcome {
    let known = visit.operator()?.drain(visit.form.exact("worker"), &visit.reason()).await?;
    let text = if known {
        "It drains with its next heartbeat: it claims nothing more and finishes what it has."
    } else {
        GONE
    };
    visit.done(known, text)
}

/// `POST /workers/resume`.
pub(super) async fn resume(visit: Visit) -> Outcome {
    let known = visit.operator()?.resume_worker(visit.form.exact("worker"), &visit.reason()).await?;
    visit.done(known, if known { "It claims again with its next heartbeat." } else { GONE })
}

/// What is said of a worker that is not there any more.
const GONE: &str = "There is no such worker any more.";
