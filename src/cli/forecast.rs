//! `duewheel forecast`: how many orders will be closed in each stretch of the future.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::arguments;
use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use crate::clock::Moment;

/// Arguments of `forecast`.
#[derive(Debug, Args)]
#[command(
    about = "Shows how many orders will be closed in each future minute",
    long_about = "Shows how many deadlines fire in each stretch of the future; what is overdue counts in the first. It is read from \
                  the wheel's slots and costs nearly nothing.",
    after_help = "Examples:\n  duewheel forecast                        the next hour, by the minute\n  duewheel forecast --step 1h \
                  --count 24\n  duewheel forecast --json | jq .count"
)]
pub struct Forecast {
    /// The length of a stretch
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = arguments::duration)]
    step: Duration,
    /// How many stretches, 1 to 1500
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1500))]
    count: u32,
    /// Shows stretches without deadlines, too
    #[arg(long)]
    zeros: bool,
}

/// Shows it.
pub async fn run(args: &Forecast, context: &Context, output: &mut Output) -> Outcome {
    if args.step < Duration::from_millis(1) {
        return Err(Failure::Usage("--step: expected at least 1ms".to_owned()));
    }
    let wheel = context.wheel()?;
    // Stretches begin at whole multiples, so that two looks a second apart show the same minutes.
    let step = u64::try_from(args.step.as_millis()).unwrap_or(u64::MAX);
    let now = wheel.now().await?.as_millis();
    let from = Moment::EPOCH.plus(Duration::from_millis(now / step * step));
    let buckets = wheel.forecast(from, args.step, args.count).await?;
    let most = buckets.iter().map(|b| b.count).max().unwrap_or(0).max(1);
    let total: u64 = buckets.iter().map(|b| b.count).sum();
    let start = |ms: u64| Moment::EPOCH.plus(Duration::from_millis(ms)).to_string();
    let wanted = buckets.iter().filter(|b| args.zeros || b.count > 0);
    if output.is_json() {
        for bucket in wanted {
            output.object(
                &json!({"from": start(bucket.from_ms), "from_ms": bucket.from_ms, "count": bucket.count}),
            )?;
        }
        return Ok(Exit::Done);
    }
    let bar =
        |count: u64| "#".repeat(usize::try_from(count * 40 / most).unwrap_or(40).max(usize::from(count > 0)));
    let rows: Vec<_> = wanted.map(|b| vec![start(b.from_ms), b.count.to_string(), bar(b.count)]).collect();
    if rows.is_empty() {
        output.note(&format!("nothing fires on wheel {} in that time", wheel.name()));
    } else {
        output.table(&["from", "count", ""], rows)?;
        output.note(&format!("{total} in all"));
    }
    Ok(Exit::Done)
}
