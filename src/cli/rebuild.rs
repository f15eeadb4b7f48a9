//! `duewheel rebuild`: fills a wheel from the orders table.

use clap::Args;

use super::arguments::ByAndWhy;
use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use super::sweep::{let_go, print, runs, table_of};
use crate::sweep::{Rebuild as Job, Report};

/// Arguments of `rebuild`.
#[derive(Debug, Args)]
#[command(
    about = "Fills an empty or wrong wheel from the orders table",
    long_about = "Puts every open order of the hook's table on the wheel, each at the table's own close time, while workers run. What \
                  the wheel holds stays as it is. A run that was cut off goes on where it stopped, here or in a worker: workers do \
                  this by themselves for a wheel that is new or was emptied ([wheel.NAME.sweep] rebuild). Exit code 6 where another \
                  runner is at it.",
    after_help = "Examples:\n  duewheel rebuild\n  duewheel rebuild --anew --json     from the beginning, whatever was done before\n  \
                  duewheel rebuild --runs            the last runs"
)]
pub struct Rebuild {
    /// Begins anew instead of going on where a run was cut off
    #[arg(long)]
    anew: bool,
    /// Lists the last runs instead
    #[arg(long, conflicts_with = "anew")]
    runs: bool,
    #[command(flatten)]
    why: ByAndWhy,
}

/// Rebuilds.
pub async fn run(args: &Rebuild, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.why.who)?;
    let wheel = operator.wheel().clone();
    if args.runs {
        return runs(&wheel, "rebuild", output).await;
    }
    let (config, hook) = table_of(context)?;
    let job = Job::new(wheel.clone(), hook, config.sweep.clone())?;
    let bar = super::enqueue::progress(output, None);
    let progress = |report: &Report| bar.set_position(report.seen);
    let mut interrupt = super::context::interrupt()?;
    let rebuilt = async { job.run(args.anew, progress).await.map(|report| (report.changed(), report)) };
    let done = tokio::select! {
        done = operator.run("rebuild", &args.why.reason, rebuilt) => done,
        _ = interrupt.recv() => {
            bar.finish_and_clear();
            let_go().await;
            output.note("interrupted; the next rebuild goes on from here");
            return Ok(Exit::Interrupted);
        }
    };
    bar.finish_and_clear();
    print(&wheel, &done?, "", output)
}
