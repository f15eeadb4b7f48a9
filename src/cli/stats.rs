//! `duewheel stats`: the wheel in numbers, once or again and again.

use std::time::Duration;

use clap::Args;

use super::arguments;
use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use crate::clock::Moment;
use crate::error::escaped;
use crate::wheel::answer::Stats as Numbers;
use crate::wheel::shape::{stats_json, widest};
use crate::wheel::{Presence, Wheel, WorkerRecord};

/// Clocks that differ by less than this are not worth a row.
const CLOCK_SHOWN_MS: i64 = 100;

/// Arguments of `stats`.
#[derive(Debug, Args)]
#[command(
    about = "Shows the wheel in numbers",
    long_about = "Shows the wheel in numbers, at one moment of Redis's clock. `oldest due` is how late the fleet is.",
    after_help = "Examples:\n  duewheel stats\n  duewheel stats --watch           every second until interrupted\n  duewheel stats \
                  --watch 10s --json     one object a line"
)]
pub struct Stats {
    /// Shows it again and again, with this pause
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "1s", value_parser = arguments::duration)]
    watch: Option<Duration>,
}

/// Shows them.
pub async fn run(args: &Stats, context: &Context, output: &mut Output) -> Outcome {
    let wheel = context.wheel()?;
    // A shorter pause would make the watcher part of the load.
    let pause = args.watch.map(|pause| pause.max(Duration::from_millis(100)));
    let mut interrupt = super::context::interrupt()?;
    let mut before: Option<Numbers> = None;
    loop {
        let stats = wheel.stats().await?;
        if pause.is_some() {
            output.clear()?;
        }
        print(&wheel, &stats, before.as_ref(), output).await?;
        output.flush()?;
        let Some(pause) = pause else { return Ok(Exit::Done) };
        before = Some(stats);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = interrupt.recv() => return Ok(Exit::Interrupted),
        }
    }
}

fn workers_remark(presence: &Presence) -> String {
    let nobody = presence.workers.is_empty().then(|| "nobody closes orders on this wheel".to_owned());
    let lost = presence.lost.first().map(|latest| {
        let more = match presence.lost.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("lost lately: {}{more}", latest.named())
    });
    nobody.into_iter().chain(lost).collect::<Vec<_>>().join("; ")
}

async fn print(
    wheel: &Wheel,
    stats: &Numbers,
    before: Option<&Numbers>,
    output: &mut Output,
) -> Result<(), Failure> {
    let presence = wheel.presence().await?;
    let workers = presence.workers.len();
    let bucket = wheel.bucket().await?;
    let trip = if stats.tripped_shards > 0 { wheel.held_by().await?.trip } else { None };
    let held: Vec<&WorkerRecord> = presence.workers.iter().filter(|w| !w.held_back.is_empty()).collect();
    if output.is_json() {
        let object = stats_json(wheel.name().as_str(), stats, &presence.workers, bucket, trip.as_ref());
        return Ok(output.object(&object)?);
    }
    let now = Moment::EPOCH.plus(Duration::from_millis(stats.now_ms));
    let mut rows = vec![
        row("scheduled", stats.scheduled, ""),
        row("due", stats.due, &due_remark(stats)),
        row("leased", stats.leased, ""),
        row("dead", stats.dead, if stats.dead > 0 { "duewheel dead list" } else { "" }),
        row("ended", stats.ended, "remembered"),
        row("workers", workers, &workers_remark(&presence)),
        row("paused", stats.paused_shards, &format!("of {} shards", stats.shards)),
    ];
    if stats.tripped_shards > 0 {
        let why = trip.map_or(String::new(), |trip| format!(", {}: {}", trip.at(), escaped(&trip.why)));
        rows.push(row(
            "tripped",
            stats.tripped_shards,
            &format!("of {} shards{why}; duewheel resume", stats.shards),
        ));
    }
    if let Some(bucket) = bucket {
        let remark = format!("tokens of a burst of {}, {} a second", bucket.burst, bucket.rate);
        rows.push(row("limit", bucket.tokens, &remark));
    }
    for worker in held {
        let name = format!("{}:{}", escaped(&worker.host), worker.pid);
        rows.extend(worker.held_back.iter().map(|reason| row("held back", &name, &escaped(reason))));
    }
    for (name, ahead) in widest(&presence.workers).iter().filter(|(_, ahead)| ahead.abs() >= CLOCK_SHOWN_MS) {
        rows.push(row("clock", format!("{ahead}ms"), &format!("{} ahead of Redis", escaped(name))));
    }
    for (what, count) in &stats.totals {
        rows.push(row(&format!("total {what}"), *count, &rate(what, *count, stats, before)));
    }
    output.line(&format!("{} at {now}", wheel.name()))?;
    Ok(output.table(&["", "count", ""], rows)?)
}

fn row(name: &str, count: impl std::fmt::Display, remark: &str) -> Vec<String> {
    vec![name.to_owned(), count.to_string(), remark.to_owned()]
}

fn due_remark(stats: &Numbers) -> String {
    let span = |ms: u64| crate::clock::show_span(Duration::from_millis(ms));
    match stats.next_ms {
        _ if stats.due > 0 => format!("oldest {}", span(stats.oldest_due_ms)),
        Some(next) => format!("next in {}", span(next.saturating_sub(stats.now_ms))),
        None => String::new(),
    }
}

/// How fast a total grew since the last look.
fn rate(what: &str, count: u64, stats: &Numbers, before: Option<&Numbers>) -> String {
    let Some(before) = before else { return String::new() };
    let millis = stats.now_ms.saturating_sub(before.now_ms).max(1);
    let grown = count.saturating_sub(before.totals.get(what).copied().unwrap_or(0));
    format!("{}/s", grown * 1000 / millis)
}
