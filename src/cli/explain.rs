//! `duewheel explain`: one order's story over wheel, orders table, audit table and events, and why it is not closed.

use std::sync::Arc;

use clap::Args;

use super::arguments;
use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::net::declared;
use super::output::Output;
use crate::clock::distance;
use crate::deadline::{Id, State};
use crate::error::escaped;
use crate::sweep::{Explanation, Inquiry};

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(
    about = "Tells one order's story, and why it is not closed yet or never will be",
    long_about = "Tells one order's story in order of time: what the wheel, the shop's orders table, the audit table and the events say of \
                  it, and in plain words why it is not closed yet, or why it never will be. `inspect` shows the deadline alone, with its \
                  payload.\n\nThe orders table is asked where the wheel's hook declares one. Exit code 5 where nobody knows the order.",
    after_help = "Examples:\n  duewheel explain 1042\n  duewheel explain o-1042 --json | jq -r .why"
)]
pub struct Explain {
    /// The order
    #[arg(value_name = "ID", value_parser = arguments::id)]
    id: Id,
}

/// Tells it.
pub async fn run(args: &Explain, context: &Context, output: &mut Output) -> Outcome {
    let wheel = context.wheel()?;
    let table = context.wheel_config().ok().and_then(declared).map(|hook| Arc::new(Inquiry::new(hook)));
    let story = Explanation::of(&wheel, table.as_ref(), &args.id).await?;
    if output.is_json() {
        output.object(&story.json(wheel.name().as_str(), args.id.as_str()))?;
    } else {
        let seen = &story.survey.seen;
        output.line(&format!(
            "{} on wheel {}, {}",
            escaped(args.id.as_str()),
            wheel.name(),
            seen.state.as_str()
        ))?;
        for one in &story.timeline() {
            let when = distance(one.at, seen.now);
            output.line(&format!("  {}  {:<12} {:<7} {}", one.at, when, one.source.as_str(), one.what))?;
        }
        output.line(&format!("why: {}", story.why()))?;
        if seen.state == State::Dead {
            output.line("what to do: duewheel dead --help")?;
        }
    }
    Ok(if story.is_known() { Exit::Done } else { Exit::Absent })
}
