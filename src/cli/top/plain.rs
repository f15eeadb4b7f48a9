//! The wheel once, as a plain table or as one object: for scripts, and where there is no terminal.

use serde_json::{Value, json};

use super::super::exit::Exit;
use super::super::failure::Outcome;
use super::super::output::Output;
use super::look::{Reader, Seen};
use super::overview::{alarms, facts};
use crate::clock::Moment;
use crate::error::escaped;
use crate::wheel::shape::stats_json;
use crate::wheel::{Minute, WorkerRecord, held_back, pauses};

/// Prints it.
pub async fn print(reader: &mut Reader, output: &mut Output) -> Outcome {
    let seen = reader.look().await?;
    let wheel = reader.wheel().name().as_str();
    if output.is_json() {
        output.object(&object(wheel, &seen))?;
        return Ok(Exit::Done);
    }
    output.line(&format!("{wheel} at {}", seen.now))?;
    for alarm in alarms(&seen) {
        output.line(&format!("! {alarm}"))?;
    }
    let rows = facts(&seen).into_iter().map(|fact| vec![fact.name.to_owned(), fact.value, fact.remark]);
    output.table(&["", "", ""], rows.collect())?;
    if !seen.workers.is_empty() {
        output.line("")?;
        let rows = seen.workers.iter().map(|worker| worker_cells(worker, seen.now)).collect();
        output.table(&WORKER_HEADER, rows)?;
    }
    Ok(Exit::Done)
}

/// The columns of workers.
pub const WORKER_HEADER: [&str; 5] = ["worker", "in work", "up", "version", "state"];

/// A worker, cell by cell.
pub fn worker_cells(worker: &WorkerRecord, now: Moment) -> Vec<String> {
    let up = now.as_millis().saturating_sub(worker.started_ms);
    let mut state = Vec::new();
    if worker.draining {
        state.push("draining".to_owned());
    }
    state.extend(worker.held_back.iter().map(|reason| format!("held back: {}", escaped(reason))));
    for (endpoint, until) in &worker.pauses {
        let left = until.saturating_sub(now.as_millis());
        if left > 0 {
            let left = crate::clock::show_span(std::time::Duration::from_millis(left));
            state.push(format!("{} asked for a pause of {left} more", escaped(endpoint)));
        }
    }
    if state.is_empty() {
        state.push("serving".to_owned());
    }
    vec![
        format!("{}:{}", escaped(&worker.host), worker.pid),
        worker.in_flight.to_string(),
        crate::clock::show_span(std::time::Duration::from_millis(up)),
        escaped(&worker.version),
        state.join("; "),
    ]
}

fn object(wheel: &str, seen: &Seen) -> Value {
    let five = seen.hour.last(5);
    let ms = |minute: &Minute, q| minute.lateness.quantile(q).map(|late| late.as_secs_f64() * 1000.0);
    let counts = |minute: &Minute| {
        json!({
            "closed": minute.closed, "skipped": minute.skipped, "retried": minute.retried,
            "unavailable": minute.unavailable, "cancelled": minute.cancelled, "dead": minute.buried, "measured": minute.lateness.count(),
            "lateness_p50_ms": ms(minute, 0.5), "lateness_p99_ms": ms(minute, 0.99),
        })
    };
    let minute = |minute: &Minute| {
        let mut object = counts(minute);
        object["from_ms"] = minute.from_ms.into();
        object
    };
    let held = held_back(&seen.workers).into_iter();
    let held: Vec<_> = held.map(|(reason, workers)| json!({"reason": reason, "workers": workers})).collect();
    let pauses = pauses(&seen.workers, seen.now).into_iter();
    let pauses: Vec<_> = pauses
        .map(|(endpoint, until, workers)| json!({"endpoint": endpoint, "until": until.to_string(), "workers": workers}))
        .collect();
    let verdicts = seen.stats.verdicts().map(|(word, count, _)| (word.to_owned(), Value::from(count)));
    let field = |name: &str| seen.redis.as_ref().and_then(|facts| facts.field(name));
    json!({
        "wheel": wheel,
        "now": seen.now.to_string(),
        "now_ms": seen.now.as_millis(),
        "alarms": alarms(seen),
        "stats": stats_json(wheel, &seen.stats, &seen.workers, seen.bucket, seen.held.trip.as_ref()),
        "paused": seen.held.paused,
        "upcoming": {"1m": seen.within(1), "5m": seen.within(5), "1h": seen.within(60)},
        "lateness": {"p50_ms": ms(&five, 0.5), "p99_ms": ms(&five, 0.99), "measured": five.lateness.count(), "minutes": 5},
        "last_5_minutes": counts(&five),
        "last_hour": counts(&seen.hour.sum()),
        "minutes": seen.hour.minutes.iter().map(minute).collect::<Vec<_>>(),
        "hook": {"held_back": held, "pauses": pauses, "verdicts": Value::Object(verdicts.into_iter().collect())},
        "workers": seen.workers,
        "swept_at": seen.swept_at.map(|at| at.to_string()),
        "redis": {
            "role": field("role"), "used_memory": number(field("used_memory")), "maxmemory": number(field("maxmemory")),
            "maxmemory_policy": field("maxmemory_policy"), "aof_enabled": field("aof_enabled").map(|on| on == "1"),
        },
    })
}

fn number(text: Option<&str>) -> Option<u64> {
    text?.parse().ok()
}
