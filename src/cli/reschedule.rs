//! `duewheel reschedule`: another moment for a deadline.

use clap::Args;

use super::arguments::{self, ByAndWhy, When};
use super::context::Context;
use super::enqueue::ThroughChannel;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use super::row::{refusal_json, refusal_text, scheduled_json, scheduled_text};
use crate::deadline::{Generation, Id};
use crate::error::escaped;
use crate::wheel::Wheel;
use crate::wheel::answer::{Answer, Scheduled};

/// Arguments of `reschedule`.
#[derive(Debug, Args)]
#[command(
    about = "Moves a deadline to another moment",
    long_about = "Moves a scheduled deadline to another moment, earlier or later. Refused while a worker has it, after it ended, \
                  and while it is dead.",
    after_help = "Examples:\n  duewheel reschedule o-1042 --in 1h\n  duewheel reschedule o-1042 --at 2026-03-01T12:00:00+08:00\n  \
                  duewheel reschedule o-1042 --in 1h --generation 1772337600000000     only if nobody moved it meanwhile"
)]
pub struct Reschedule {
    /// The order
    #[arg(value_name = "ID", value_parser = arguments::id)]
    id: Id,
    #[command(flatten)]
    when: When,
    #[command(flatten)]
    through: ThroughChannel,
    /// Only if the stored generation is still this one
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u64>,
    #[command(flatten)]
    why: ByAndWhy,
}

/// Moves it.
pub async fn run(args: &Reschedule, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.why.who)?;
    args.through.admit(operator.wheel(), args.when.due_at()).await?;
    let (due_at, expected) = (args.when.due_at(), args.generation.map(Generation));
    let answer = operator.reschedule(&args.id, due_at, expected, &args.why.reason).await?;
    say(operator.wheel(), &args.id, "rescheduled", answer, output).await
}

/// Says what a verb that moves one deadline answered.
pub async fn say(
    wheel: &Wheel,
    id: &Id,
    outcome: &str,
    answer: Answer<Scheduled>,
    output: &mut Output,
) -> Outcome {
    let (name, shown) = (wheel.name().as_str(), escaped(id.as_str()));
    match answer {
        Ok(scheduled) => {
            // Shown beside it, so that a mistaken unit is seen; only people need Redis's clock for that.
            let now = if output.is_json() { scheduled.due_at } else { wheel.now().await? };
            let text = format!("{name} {shown}: {outcome}, {}", scheduled_text(&scheduled, now));
            output.say(&text, &scheduled_json(name, id.as_str(), outcome, &scheduled))?;
            Ok(Exit::Done)
        }
        Err(refusal) => {
            let text = format!("{name} {shown}: not {outcome}: {}", refusal_text(&refusal));
            output.say(&text, &refusal_json(name, id.as_str(), &refusal))?;
            Ok(Exit::of_refusal(&refusal))
        }
    }
}
