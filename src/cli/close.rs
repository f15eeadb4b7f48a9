//! `duewheel close`: an order is closed now, by hand.

use clap::Args;

use super::arguments::{self, By};
use super::context::Context;
use super::failure::Outcome;
use super::output::Output;
use super::reschedule::say;
use crate::deadline::Id;

/// Arguments of `close`.
#[derive(Debug, Args)]
#[command(
    about = "Closes an order now, by hand, audited",
    long_about = "Closes an order now, by hand: its deadline fires at once with cause `manual`, and a worker closes it if it is \
                  still unpaid. Who and why stand in the audit row. Works on a dead deadline, too.",
    after_help = "Examples:\n  duewheel close o-1042 --reason 'customer asked'\n  duewheel close o-1042 --reason fraud --by alice"
)]
pub struct Close {
    /// The order
    #[arg(value_name = "ID", value_parser = arguments::id)]
    id: Id,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    who: By,
}

/// Closes it.
pub async fn run(args: &Close, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.who)?;
    let answer = operator.close(&args.id, &args.reason).await?;
    say(operator.wheel(), &args.id, "closing", answer, output).await
}
