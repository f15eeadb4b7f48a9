//! `duewheel feed`: new orders, from the table onto the wheel.

use std::time::Duration;

use clap::Args;

use super::arguments::ByAndWhy;
use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use super::sweep::{let_go, print, runs, table_of};
use crate::error::Error;
use crate::sweep::{Feed as Job, Looked, Report};

/// Arguments of `feed`.
#[derive(Debug, Args)]
#[command(
    about = "Enqueues new orders from the table, so that the shop needs no code",
    long_about = "Reads new unpaid orders by a watermark that is kept in Redis, and enqueues each with its own close time. Goes on until \
                  it is interrupted, unless --once. Workers do this by themselves where [wheel.NAME.feed] time is set; beside them \
                  this one waits for its turn. With --once exit code 6 where another runner is at it.",
    after_help = "Examples:\n  duewheel feed --once\n  duewheel feed --once --anew     everything that is open, whatever the watermark \
                  says\n  duewheel feed --runs            what was fed lately"
)]
pub struct Feed {
    /// Reads once
    #[arg(long)]
    once: bool,
    /// Forgets the watermark and begins with the oldest open row
    #[arg(long, requires = "once")]
    anew: bool,
    /// Lists what was fed lately instead
    #[arg(long, conflicts_with = "once")]
    runs: bool,
    #[command(flatten)]
    why: ByAndWhy,
}

/// Feeds.
pub async fn run(args: &Feed, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.why.who)?;
    let wheel = operator.wheel().clone();
    if args.runs {
        return runs(&wheel, "feed", output).await;
    }
    let (config, hook) = table_of(context)?;
    let job = Job::new(wheel.clone(), hook, &config.sweep, config.feed.clone()).map_err(|e| match e {
        Error::Config(problems) => {
            let prefix = format!("wheel.{}.feed", config.wheel.name);
            Error::Config(problems.into_iter().map(|p| format!("{prefix}.{p}")).collect())
        }
        other => other,
    })?;
    let mut interrupt = super::context::interrupt()?;
    let mut pause = crate::worker::service::Pause::default();
    loop {
        let bar = super::enqueue::progress(output, None);
        let progress = |report: &Report| bar.set_position(report.seen);
        let look = async {
            if args.once {
                // One that goes on is a part of the fleet; one that was asked for is an act.
                let fed =
                    async { job.run(args.anew, progress).await.map(|report| (report.changed(), report)) };
                let about = if args.anew { "feed, anew" } else { "feed" };
                let report = operator.run(about, &args.why.reason, fed).await?;
                return Ok(Looked::Ran(Box::new(report)));
            }
            job.look().await
        };
        let looked = tokio::select! {
            looked = look => looked,
            _ = interrupt.recv() => {
                let_go().await;
                return Ok(Exit::Interrupted);
            }
        };
        bar.finish_and_clear();
        let wait = match looked {
            Ok(Looked::Ran(report)) if args.once => return print(&wheel, &report, "", output),
            Ok(Looked::Ran(report)) => {
                pause.reset();
                if report.enqueued + report.refused > 0 {
                    print(&wheel, &report, "", output)?;
                    output.flush()?;
                }
                Duration::from_millis(1)
            }
            Ok(Looked::Not(wait)) => wait,
            Err(e) if args.once || !may_pass(&e) => return Err(Failure::World(e)),
            Err(e) => {
                let wait = pause.lengthen();
                if pause.worth_saying() {
                    output.warn(&format!("{e}; trying again"));
                }
                wait
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            _ = interrupt.recv() => return Ok(Exit::Interrupted),
        }
    }
}

/// Whether waiting may help.
fn may_pass(error: &Error) -> bool {
    matches!(error, Error::HookAway(_) | Error::Overtaken(_)) || error.store_kind().is_some()
}
