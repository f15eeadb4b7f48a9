//! `duewheel audit`: what people did to a wheel, and what came of it.

use clap::Args;

use super::arguments;
use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use crate::clock::Moment;
use crate::deadline::Id;
use crate::error::escaped;
use crate::operator::Act;
use crate::wheel::answer::Cursor;
use crate::wheel::{AuditEntry, AuditFilter};

/// Arguments of `audit`.
#[derive(Debug, Args)]
#[command(
    about = "Lists what people did to a wheel, newest first",
    long_about = "Lists what people did to a wheel, newest first: who, through which door (page, api, cli, top), what, about which orders or \
                  which filter, why, to how many, and what came of it. The breaker's trips stand there, too. An act that shows as \
                  `begun` was cut off: whether it was done nobody can say.\n\nWhat services do over HTTP with the scope `enqueue` is \
                  not listed here; see events. About 100,000 acts are kept.",
    after_help = "Examples:\n  duewheel audit\n  duewheel audit --id o-1042 --json\n  duewheel audit --act revive --limit 10"
)]
pub struct Audit {
    /// Only what names this order
    #[arg(long, value_name = "ID", value_parser = arguments::id)]
    id: Option<Id>,
    /// Only this act: close, reschedule, cancel, hold, release, revive, drop, pause, resume, drain, acknowledge, run, stop, heal, import, reshard,
    /// remove, trip
    #[arg(long, value_name = "ACT", value_parser = act, hide_possible_values = true)]
    act: Option<Act>,
    /// Rows of a page, 1 to 500
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
    /// The page that the one before named
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

fn act(word: &str) -> Result<Act, String> {
    Act::parse(word).map_err(|e| e.reason)
}

/// Lists them.
pub async fn run(args: &Audit, context: &Context, output: &mut Output) -> Outcome {
    let wheel = context.wheel()?;
    let filter =
        AuditFilter { id: args.id.clone(), or_bulk: false, act: args.act.map(|act| act.as_str().to_owned()) };
    let cursor = args.cursor.clone().map(Cursor);
    let page = wheel.audit(&filter, cursor.as_ref(), usize::from(args.limit)).await?;
    if output.is_json() {
        for entry in &page.entries {
            output.object(entry)?;
        }
    } else if !page.entries.is_empty() {
        let header = ["when", "who", "door", "act", "about", "outcome", "done", "why"];
        output.table(&header, page.entries.iter().map(row).collect())?;
    }
    match page.next {
        Some(next) => output.note(&format!("there are more: --cursor {}", next.0)),
        None if page.entries.is_empty() => output.note(&format!("none on wheel {}", wheel.name())),
        None => {}
    }
    Ok(Exit::Done)
}

fn row(entry: &AuditEntry) -> Vec<String> {
    let when = Moment::from_millis(entry.at_ms).map(|at| at.to_string()).unwrap_or_default();
    let outcome = match &entry.said {
        Some(said) => format!("{}: {}", entry.outcome.as_str(), escaped(said)),
        None => entry.outcome.as_str().to_owned(),
    };
    vec![
        when,
        escaped(&entry.by),
        entry.door.as_deref().unwrap_or("-").to_owned(),
        escaped(&entry.act),
        about(entry),
        outcome,
        format!("{}/{}", entry.done, entry.asked),
        escaped(&entry.reason),
    ]
}

/// The orders, the first three by name, and what else it was about.
fn about(entry: &AuditEntry) -> String {
    let mut parts: Vec<String> = entry.ids.iter().take(3).map(|id| escaped(id)).collect();
    if entry.ids.len() > parts.len() {
        parts.push(format!("and {} more", entry.ids.len() - 3));
    }
    let mut text = parts.join(", ");
    if let Some(more) = &entry.about {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&escaped(more));
    }
    text
}
