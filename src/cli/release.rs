//! `duewheel release`: the payment failed, the hold ends.

use clap::Args;

use super::arguments::{self, ByAndWhy};
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
    #[command(flatten)]
    why: ByAndWhy,
}

/// Releases it.
pub async fn run(args: &Release, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.why.who)?;
    let answer = operator.release(&args.id, &args.why.reason).await?;
    say(operator.wheel(), &args.id, "released", answer, output).await
}
