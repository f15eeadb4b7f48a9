//! `duewheel pause`: no worker closes anything.

use clap::Args;
use serde_json::json;

use super::arguments::By;
use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;

/// Arguments of `pause`.
#[derive(Debug, Args)]
#[command(
    about = "Stops closing, on every worker",
    long_about = "Stops closing on every worker: nothing is claimed until resume. What is in work goes on. Deadlines are still \
                  taken, moved and cancelled.",
    after_help = "Examples:\n  duewheel pause --reason 'payment provider is down'\n  duewheel resume"
)]
pub struct Pause {
    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    who: By,
}

/// Pauses the wheel.
pub async fn run(args: &Pause, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.who)?;
    let counts = operator.pause(&args.reason).await?;
    say(operator.wheel().name().as_str(), "paused", counts, output)
}

/// Says how many shards took it.
pub fn say(wheel: &str, outcome: &str, (written, shards): (u64, u64), output: &mut Output) -> Outcome {
    let object = json!({"outcome": outcome, "wheel": wheel, "written": written, "shards": shards});
    output.say(&format!("{wheel}: {outcome}, {written} of {shards} shards"), &object)?;
    Ok(if written == shards { Exit::Done } else { Exit::Partial })
}
