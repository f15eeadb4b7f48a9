//! `duewheel resume`: workers close again.

use clap::Args;

use super::context::Context;
use super::failure::Outcome;
use super::output::Output;
use super::pause::say;

/// Arguments of `resume`.
#[derive(Debug, Args)]
#[command(
    about = "Goes on closing",
    long_about = "Goes on closing after pause. What came due meanwhile is closed oldest first.",
    after_help = "Example:\n  duewheel resume --wheel orders"
)]
pub struct Resume {}

/// Resumes the wheel.
pub async fn run(_: &Resume, context: &Context, output: &mut Output) -> Outcome {
    let wheel = context.wheel()?;
    let counts = wheel.resume().await?;
    say(wheel.name().as_str(), "resumed", counts, output)
}
