//! `duewheel resume`: workers close again.

use clap::Args;
use serde_json::json;

use super::arguments::ByAndWhy;
use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use crate::error::escaped;

/// Arguments of `resume`.
#[derive(Debug, Args)]
#[command(
    about = "Goes on closing",
    long_about = "Goes on closing after pause, and after the breaker was tripped: says what it lifts. What came due meanwhile is closed \
                  oldest first. The breaker's counts begin anew, so look first at what had tripped it (`duewheel stats`).",
    after_help = "Examples:\n  duewheel resume --wheel orders\n  duewheel resume --reason 'payments are recorded again'"
)]
pub struct Resume {
    #[command(flatten)]
    why: ByAndWhy,
}

/// Resumes the wheel.
pub async fn run(args: &Resume, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.why.who)?;
    let (held, (written, shards)) = operator.resume(&args.why.reason).await?;
    let name = operator.wheel().name().as_str();
    let mut lifted = Vec::new();
    let mut text = format!("{name}: resumed, {written} of {shards} shards");
    if let Some(trip) = &held.trip {
        lifted.push(json!({"what": "tripped", "at": trip.at().to_string(), "by": trip.by, "why": trip.why}));
        text += &format!(
            "; lifted the breaker's trip of {} by worker {}: {}",
            trip.at(),
            escaped(&trip.by),
            escaped(&trip.why)
        );
    }
    if let Some(pause) = &held.paused {
        lifted.push(json!({"what": "paused", "by": pause.actor, "why": pause.reason}));
        text += &format!("; lifted the pause by {}: {}", escaped(&pause.actor), escaped(&pause.reason));
    }
    let object = json!({
        "outcome": "resumed", "wheel": name, "written": written, "shards": shards, "lifted": lifted,
    });
    output.say(&text, &object)?;
    Ok(if written == shards { Exit::Done } else { Exit::Partial })
}
