//! `duewheel hold`: a payment is in progress, so the close waits.

use std::time::Duration;

use clap::Args;

use super::arguments::{self, ByAndWhy};
use super::context::Context;
use super::failure::Outcome;
use super::output::Output;
use super::reschedule::say;
use crate::deadline::Id;

/// Arguments of `hold`.
#[derive(Debug, Args)]
#[command(
    about = "Puts a deadline off while a payment is in progress",
    long_about = "Puts a scheduled deadline off while a payment is in progress: it fires no earlier than the given time from now. \
                  Works on one that is overdue, too. One hold, their number and their total are limited (hold_max_for, hold_max_count, \
                  hold_max_total), also by channel; a hold that is too long or not allowed is refused with exit code 2.\n\nA reminder that falls into the hold comes when it ends, or not at all where the close comes first.\n\nHolds live \
                  in Redis only: a shop that must not lose them keeps *paying* as a status of the order.",
    after_help = "Examples:\n  duewheel hold o-1042 --for 5m\n  duewheel hold o-1042 --for 5m --channel alipay\n  duewheel release o-1042     the payment failed"
)]
pub struct Hold {
    /// The order
    #[arg(value_name = "ID", value_parser = arguments::id)]
    id: Id,
    /// How long from now, by Redis's clock
    #[arg(long = "for", value_name = "DURATION", value_parser = arguments::duration)]
    for_long: Duration,
    /// The payment's channel; its limits hold ([wheel.NAME.channel.CHANNEL])
    #[arg(long, value_name = "CHANNEL")]
    channel: Option<String>,
    #[command(flatten)]
    why: ByAndWhy,
}

/// Holds it.
pub async fn run(args: &Hold, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.why.who)?;
    let (channel, reason) = (args.channel.as_deref(), &args.why.reason);
    let answer = operator.hold(&args.id, args.for_long, channel, reason).await?;
    say(operator.wheel(), &args.id, "held", answer, output).await
}
