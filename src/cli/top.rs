//! `duewheel top`: the wheel in a terminal, looked at and acted on. Without a terminal, or when asked to, one plain table.
//!
//! Read the parts in this order: `model` (what is on the screen), `look` (how it is read from Redis), `keys` (what a key changes in the
//! model, and what it asks for), `view` (how the model is drawn), `deed` (what a person does), `screen` (the loop that ties them together).

mod deed;
mod dialog;
#[cfg(test)]
mod drawn;
mod hook;
mod keys;
mod look;
mod model;
mod overview;
mod plain;
mod screen;
mod terminal;
mod view;

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;

use super::arguments;
use super::context::{self, Context};
use super::failure::Outcome;
use super::output::Output;
use crate::operator::{Door, Operator};
use look::Reader;
use model::Model;

/// Arguments of `top`.
#[derive(Debug, Args)]
#[command(
    about = "Shows the wheel live in the terminal, and acts on it",
    long_about = "Shows the wheel live in the terminal: what is due, what comes, how late, the dead, the hook, the workers; and acts on it: revive, \
                  cancel, close, reschedule, hold, release, pause, resume, drain, each after a confirmation and with a reason, audited under your name. `?` lists the \
                  keys.\n\nWhere stdout or stdin is no terminal, or with --once or --json, it prints one table (or one object) and ends.",
    after_help = "Examples:\n  duewheel top\n  duewheel top --read-only            look, but touch nothing\n  duewheel top --interval 10s\n  \
                  duewheel top --once --json | jq .lateness"
)]
pub struct Top {
    /// Between two looks at Redis, 200ms to 1h. After a look that took long it waits longer
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// Refuses every act
    #[arg(long)]
    read_only: bool,
    /// Prints one plain table and ends
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    who: arguments::By,
}

fn interval(text: &str) -> Result<Duration, String> {
    let long = arguments::duration(text)?;
    if (Duration::from_millis(200)..=Duration::from_secs(3600)).contains(&long) {
        return Ok(long);
    }
    Err("expected 200ms to 1h".to_owned())
}

/// Shows it.
pub async fn run(args: &Top, context: &Context, output: &mut Output) -> Outcome {
    let wheel = context.wheel()?;
    let mut reader = Reader::new(wheel.clone(), context);
    let live = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    if args.once || output.is_json() || !live {
        return plain::print(&mut reader, output).await;
    }
    let operator = Operator::new(wheel.clone(), context::person(args.who.by.as_deref(), Door::Top)?);
    let model = Model::new(wheel.name().as_str(), args.read_only, output.draws_colour());
    screen::Screen::new(model, reader, operator, args.interval).run().await
}
