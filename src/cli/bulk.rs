//! `duewheel bulk`: something done to all deadlines that match, as a job that goes on whatever becomes of the program that began it.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::json;

use super::arguments::{self, ByAndWhy};
use super::context::{Context, confirm};
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use crate::clock::Moment;
use crate::error::escaped;
use crate::operator::{Foreman, Operator};
use crate::wheel::{Bulk as Job, BulkAct, BulkFilter};

/// Arguments of `bulk`.
#[derive(Debug, Args)]
#[command(
    about = "Does something to all deadlines that match",
    long_about = "Does something to all deadlines that match: revive or drop the dead, cancel, close, reschedule or hold what is scheduled. It \
                  is a job in Redis, run page by page by any server or worker, one after the other; where its runner dies another one \
                  goes on, and each deadline is touched once. Only what matched before it was asked for is touched.",
    after_help = "Examples:\n  duewheel bulk begin revive --count     how many match\n  duewheel bulk begin revive --reason-holds 'answered 500' \
                  --reason 'mended' --yes\n  duewheel bulk begin reschedule --for 30m --prefix eu- --to 2026-03-01T12:00:00Z --wait\n  \
                  duewheel bulk list\n  duewheel bulk stop 1772337600000000"
)]
pub struct Bulk {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Begins one, after saying how many match
    Begin(Box<Begin>),
    /// Lists those under way and the last ones, newest first
    List,
    /// Shows one
    Show {
        /// Its id
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Stops one; what is done stays done
    Stop {
        /// Its id
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        why: ByAndWhy,
    },
}

#[derive(Debug, Args)]
struct Begin {
    /// What: revive, drop, cancel, close, reschedule, hold
    #[arg(value_name = "ACT", value_parser = BulkAct::WORDS, hide_possible_values = true)]
    act: String,
    /// By how much later (reschedule), or for how long from now (hold)
    #[arg(long = "for", value_name = "DURATION", value_parser = arguments::duration)]
    for_long: Option<Duration>,
    /// Of the dead, those whose reason holds this text
    #[arg(long, value_name = "TEXT")]
    reason_holds: Option<String>,
    /// Of the dead, those of this group of reasons
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Those whose id begins so
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Those that died, or fire, at this moment or later
    #[arg(long, value_name = "RFC3339", value_parser = arguments::moment)]
    from: Option<Moment>,
    /// Those that died, or fire, at this moment or earlier
    #[arg(long, value_name = "RFC3339", value_parser = arguments::moment)]
    to: Option<Moment>,
    /// So many at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    most: Option<u64>,
    /// Only says how many match
    #[arg(long, conflicts_with_all = ["yes", "wait"])]
    count: bool,
    /// Waits until it is over, and runs it here where nobody else does
    #[arg(long)]
    wait: bool,
    /// Does not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    why: ByAndWhy,
}

impl Bulk {
    /// Whether it changes nothing.
    pub fn reads(&self) -> bool {
        match &self.verb {
            Verb::List | Verb::Show { .. } => true,
            Verb::Begin(begin) => begin.count,
            Verb::Stop { .. } => false,
        }
    }
}

/// Runs the verb.
pub async fn run(args: &Bulk, context: &Context, output: &mut Output) -> Outcome {
    match &args.verb {
        Verb::Begin(begin) => self::begin(begin, context, output).await,
        Verb::List => {
            let wheel = context.wheel()?;
            let all = wheel.bulks().await?;
            if output.is_json() {
                for bulk in &all {
                    output.object(bulk)?;
                }
            } else if all.is_empty() {
                output.note(&format!("none on wheel {}", wheel.name()));
            } else {
                let header = ["id", "act", "filter", "state", "done", "refused", "left", "by"];
                output.table(&header, all.iter().map(cells).collect())?;
            }
            Ok(Exit::Done)
        }
        Verb::Show { id } => {
            let found = context.wheel()?.bulk(id).await?;
            show(id, found, output)
        }
        Verb::Stop { id, why } => {
            let found = context.operator(&why.who)?.stop_bulk(id, &why.reason).await?;
            show(id, found, output)
        }
    }
}

async fn begin(args: &Begin, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.why.who)?;
    let act = BulkAct::parse(&args.act, args.for_long)?;
    let filter = BulkFilter {
        reason: args.reason_holds.clone(),
        group: args.group.clone(),
        prefix: args.prefix.clone(),
        from_ms: args.from.map(Moment::as_millis),
        to_ms: args.to.map(Moment::as_millis),
    };
    let count = operator.preview(act, &filter).await?;
    let name = operator.wheel().name().as_str();
    let least = if count.exact { "" } else { "at least " };
    let text = format!("{least}{} of {} match: {}", count.matched, count.of, filter.text());
    if args.count {
        let object = json!({"wheel": name, "matched": count.matched, "of": count.of, "exact": count.exact});
        output.say(&format!("{name}: {text}"), &object)?;
        return Ok(Exit::Done);
    }
    confirm(args.yes, &format!("{} on wheel {name}: {text}", act.as_str()), name)?;
    let bulk = operator.begin_bulk(act, filter, args.most, &args.why.reason).await?;
    if args.wait {
        return finish(&operator, bulk, output).await;
    }
    output.say(&line(&bulk), &bulk)?;
    Ok(Exit::Done)
}

/// Waits until it is over, and says what came of it.
pub async fn finish(operator: &Operator, bulk: Job, output: &mut Output) -> Outcome {
    let bulk = wait(operator, bulk, output).await?;
    output.say(&line(&bulk), &bulk)?;
    Ok(if bulk.refused > 0 { Exit::Partial } else { Exit::Done })
}

/// Runs it here where nobody else does, until it is over.
async fn wait(operator: &Operator, mut bulk: Job, output: &Output) -> Result<Job, Failure> {
    let foreman = Foreman::new(operator.wheel().clone());
    let bar = super::enqueue::progress(output, None);
    let mut interrupt = super::context::interrupt()?;
    while !bulk.is_over() {
        let watch = async {
            loop {
                tokio::time::sleep(Duration::from_millis(200)).await;
                if let Ok(Some(seen)) = operator.wheel().bulk(&bulk.id).await {
                    bar.set_position(seen.done + seen.refused);
                }
            }
        };
        tokio::select! {
            looked = foreman.look() => drop(looked?),
            _ = watch => {}
            _ = interrupt.recv() => {
                bar.finish_and_clear();
                output.note(&format!("interrupted; a server or worker goes on with it: duewheel bulk show {}", bulk.id));
                return Err(Failure::Stopped(Exit::Interrupted, "interrupted".to_owned()));
            }
        }
        match operator.wheel().bulk(&bulk.id).await? {
            Some(seen) => bulk = seen,
            None => break,
        }
        if !bulk.is_over() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    bar.finish_and_clear();
    Ok(bulk)
}

fn show(id: &str, found: Option<Job>, output: &mut Output) -> Outcome {
    match found {
        Some(bulk) => {
            output.say(&line(&bulk), &bulk)?;
            Ok(Exit::Done)
        }
        None => {
            let text = format!("there is no bulk act {}", escaped(id));
            output.say(&text, &json!({"outcome": "absent", "id": id}))?;
            Ok(Exit::Absent)
        }
    }
}

fn line(bulk: &Job) -> String {
    let error = bulk.error.as_ref().map(|error| format!("; failed, and is tried again: {}", escaped(error)));
    format!(
        "{} {} ({}): {}, {} done, {} refused, {} left, by {}{}",
        bulk.id,
        bulk.act.as_str(),
        bulk.filter.text(),
        bulk.state.as_str(),
        bulk.done,
        bulk.refused,
        bulk.left,
        escaped(&bulk.by),
        error.unwrap_or_default()
    )
}

fn cells(bulk: &Job) -> Vec<String> {
    vec![
        bulk.id.clone(),
        bulk.act.as_str().to_owned(),
        bulk.filter.text(),
        bulk.state.as_str().to_owned(),
        bulk.done.to_string(),
        bulk.refused.to_string(),
        bulk.left.to_string(),
        escaped(&bulk.by),
    ]
}
