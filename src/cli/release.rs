//! `duewheel release`: the payment failed, the hold ends.

use clap::Args;

use super::arguments;
use super::context::Context;
use super::failure::Outcome;
use super::output::Output;
use super::reschedule::say;
use crate::deadline::Id;

/// Arguments of `release`.
#[derive(Debug, Args)]
#[command(
    about = "Ends a hold early",
    long_about = "Ends a hold early: the deadline fires at its own moment again, or at once where that has passed.",
    after_help = "Example:\n  duewheel release o-1042"
)]
pub struct Release {
    /// The order
    #[arg(value_name = "ID", value_parser = arguments::id)]
    id: Id,
}

/// Releases it.
pub async fn run(args: &Release, context: &Context, output: &mut Output) -> Outcome {
    let wheel = context.wheel()?;
    let answer = wheel.release(&args.id).await?;
    say(&wheel, &args.id, "released", answer, output).await
}
