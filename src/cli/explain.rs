//! `duewheel explain`: one order's story over wheel, orders table, audit table and events, and why it is not closed.

use clap::Args;
use serde_json::json;

use super::arguments;
use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::net::declared;
use super::output::Output;
use crate::clock::distance;
use crate::deadline::Id;
use crate::error::escaped;
use crate::sweep::{Explanation, Table};

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
    let hook = context.wheel_config().ok().and_then(declared);
    let story = Explanation::of(&wheel, hook, &args.id).await?;
    let (why, timeline) = (story.why(), story.timeline());
    if output.is_json() {
        let (fact, trail, away) = match &story.table {
            Table::Undeclared => (None, &[][..], None),
            Table::Away(reason) => (None, &[][..], Some(reason)),
            Table::Asked(fact, trail) => (fact.as_ref(), trail.as_slice(), None),
        };
        let told = |one: &crate::sweep::Told| json!({"at": one.at.to_string(), "at_ms": one.at.as_millis(), "source": one.source.as_str(), "what": one.what});
        let row = fact.map(|fact| {
            json!({
                "open": fact.open,
                "overdue": fact.overdue,
                "close_at": fact.close_at.map(|at| at.to_string()),
                "state": fact.state,
            })
        });
        let audit = trail.iter().map(|row| {
            json!({
                "action": row.action, "at": row.at.to_string(), "generation": row.generation, "attempt": row.attempt,
                "fence": row.fence, "actor": row.actor, "reason": row.reason, "trace_id": row.trace_id, "worker": row.worker,
            })
        });
        output.object(&json!({
            "wheel": wheel.name().as_str(),
            "id": args.id.as_str(),
            "state": story.seen.state.as_str(),
            "now": story.seen.now.to_string(),
            "why": why,
            "timeline": timeline.iter().map(told).collect::<Vec<_>>(),
            "row": row,
            "audit": audit.collect::<Vec<_>>(),
            "table_away": away,
        }))?;
    } else {
        output.line(&format!(
            "{} on wheel {}, {}",
            escaped(args.id.as_str()),
            wheel.name(),
            story.seen.state.as_str()
        ))?;
        for one in &timeline {
            let when = distance(one.at, story.seen.now);
            output.line(&format!("  {}  {:<12} {:<7} {}", one.at, when, one.source.as_str(), one.what))?;
        }
        output.line(&format!("why: {why}"))?;
    }
    Ok(if story.is_known() { Exit::Done } else { Exit::Absent })
}
