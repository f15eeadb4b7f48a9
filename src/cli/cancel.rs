//! `duewheel cancel`: the order is paid, its deadline must not fire.

use clap::Args;
use serde_json::json;

use super::arguments::{self, ByAndWhy};
use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use super::row::{refusal_json, refusal_text};
use crate::deadline::Id;
use crate::error::{Error, escaped};
use crate::wheel::answer::{Answer, Cancelled};

/// Arguments of `cancel`.
#[derive(Debug, Args)]
#[command(
    about = "Ends deadlines that must not fire any more: the orders are paid",
    long_about = "Ends deadlines that must not fire any more. Repeating it is harmless.\n\nAn id that is not known is remembered \
                  as cancelled for a while (cancelled_keep), so that a create event that comes after the payment does not bring \
                  the order back; the answer is `absent`, exit code 5. An id that a worker has right now answers `leased`, exit \
                  code 6: it is closed if that attempt closes it, else cancelled.",
    after_help = "Examples:\n  duewheel cancel o-1042\n  duewheel cancel --json o-1 o-2 o-3     one object a line"
)]
pub struct Cancel {
    /// The orders
    #[arg(required = true, value_name = "ID", value_parser = arguments::id)]
    ids: Vec<Id>,
    #[command(flatten)]
    why: ByAndWhy,
}

/// Cancels, and says what became of each.
pub async fn run(args: &Cancel, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.why.who)?;
    let answers = operator.cancel(&args.ids, &args.why.reason).await?;
    say_all(operator.wheel().name().as_str(), &args.ids, answers, output)
}

/// Says what became of each id; an id whose answer could not be had fails the others not.
pub fn say_all(
    wheel: &str,
    ids: &[Id],
    answers: Vec<Result<Answer<Cancelled>, Error>>,
    output: &mut Output,
) -> Outcome {
    let mut exits = Vec::new();
    let mut failure = None;
    for (id, answer) in ids.iter().zip(answers) {
        match answer {
            Ok(Ok(cancelled)) => {
                let object = json!({"outcome": cancelled.as_str(), "wheel": wheel, "id": id.as_str()});
                output.say(&format!("{wheel} {}: {}", escaped(id.as_str()), text(cancelled)), &object)?;
                exits.push(match cancelled {
                    Cancelled::Cancelled | Cancelled::Already => Exit::Done,
                    Cancelled::Absent => Exit::Absent,
                    Cancelled::Leased => Exit::Refused,
                });
            }
            Ok(Err(refusal)) => {
                let text = format!("{wheel} {}: {}", escaped(id.as_str()), refusal_text(&refusal));
                output.say(&text, &refusal_json(wheel, id.as_str(), &refusal))?;
                exits.push(Exit::of_refusal(&refusal));
            }
            Err(error) => {
                exits.push(Exit::of_error(&error, false));
                failure = Some(error);
            }
        }
    }
    match (Exit::of_all(exits.iter().copied()), failure) {
        // All of them failed in the same way: that way is the answer.
        (exit, Some(error)) if exit != Exit::Partial => Err(error.into()),
        (exit, Some(error)) => {
            output.fail(&error.into(), false);
            Ok(exit)
        }
        (exit, None) => Ok(exit),
    }
}

fn text(cancelled: Cancelled) -> &'static str {
    match cancelled {
        Cancelled::Cancelled => "cancelled",
        Cancelled::Absent => "nothing is known of it; the cancellation is remembered",
        Cancelled::Already => "was cancelled before",
        Cancelled::Leased => "a worker has it right now; it ends as cancelled unless this attempt closes it",
    }
}
