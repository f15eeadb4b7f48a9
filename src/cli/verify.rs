//! `duewheel verify`: is everything in Redis where it should be?

use clap::Args;

use super::arguments::ByAndWhy;
use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use crate::error::escaped;

/// Arguments of `verify`.
#[derive(Debug, Args)]
#[command(
    about = "Looks for damage in Redis, and mends it",
    long_about = "Scans every shard for what should not be: a body without a place, a place without a body, an id in two places, a \
                  slot that is not in the index, counters that are off. Exit code 3 where something was found and not mended.",
    after_help = "Examples:\n  duewheel verify\n  duewheel verify --heal\n  duewheel verify --json | jq .findings"
)]
pub struct Verify {
    /// Mends what can be mended without guessing
    #[arg(long)]
    pub heal: bool,
    #[command(flatten)]
    why: ByAndWhy,
}

/// Verifies.
pub async fn run(args: &Verify, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.why.who)?;
    let wheel = operator.wheel();
    // Looking is no act; mending is one of a person.
    let found = if args.heal { operator.heal(&args.why.reason).await? } else { wheel.verify(false).await? };
    let open = found.findings.iter().filter(|f| !f.healed).count();
    if output.is_json() {
        output.object(&found)?;
    } else {
        let row = |f: &crate::wheel::answer::Finding| {
            let healed = if f.healed { "healed" } else { "open" };
            vec![f.shard.to_string(), f.kind.clone(), escaped(&f.subject), healed.to_owned()]
        };
        if !found.findings.is_empty() {
            output.table(&["shard", "finding", "what", ""], found.findings.iter().map(row).collect())?;
        }
        let (scanned, all) = (found.scanned, found.findings.len());
        output.say(&format!("{}: {scanned} ids scanned, {all} findings, {open} open", wheel.name()), &())?;
    }
    Ok(if open == 0 { Exit::Done } else { Exit::Findings })
}
