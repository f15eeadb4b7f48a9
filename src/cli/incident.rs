//! `duewheel incident`: payments that came too late, and who has seen to them.

use clap::{Args, Subcommand};
use serde_json::json;

use super::arguments;
use super::context::{Context, person};
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use super::paid::age;
use crate::clock::Moment;
use crate::deadline::Id;
use crate::error::escaped;
use crate::operator::{Door, Operator};
use crate::wheel::shape::incident_json;
use crate::wheel::{Acknowledged, Incident};

/// Arguments of `incident`.
#[derive(Debug, Args)]
#[command(
    about = "Lists payments that came too late, and notes who has seen to them",
    long_about = "Payments that were reported (duewheel paid) for orders that we had closed, or put aside as dead. Each waits for a \
                  person: refund it, or open the order again, then acknowledge it.",
    after_help = "Examples:\n  duewheel incident list\n  duewheel incident list --all --json\n  duewheel incident ack o-1042 --by anna \
                  --reason 'refunded, ticket 311'"
)]
pub struct IncidentCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Lists the incidents that nobody has seen to, oldest first
    #[command(
        after_help = "Examples:\n  duewheel incident list\n  duewheel incident list --all --json | jq .age_ms"
    )]
    List {
        /// Those that were acknowledged in the last 90 days, too
        #[arg(long)]
        all: bool,
    },
    /// Notes who has seen to the incidents of an order; the first note stands
    #[command(
        after_help = "Examples:\n  duewheel incident ack o-1042 --by anna --reason 'refunded, ticket 311'"
    )]
    Ack {
        /// The order
        #[arg(value_name = "ID", value_parser = arguments::id)]
        id: Id,
        /// Who has seen to it
        #[arg(long, value_name = "NAME")]
        by: String,
        /// What was done about it
        #[arg(long, value_name = "TEXT", default_value = "seen")]
        reason: String,
    },
}

impl IncidentCommand {
    /// Whether it only looks.
    pub fn reads(&self) -> bool {
        matches!(self.what, What::List { .. })
    }
}

/// Lists, or acknowledges.
pub async fn run(args: &IncidentCommand, context: &Context, output: &mut Output) -> Outcome {
    match &args.what {
        What::List { all } => list(*all, context, output).await,
        What::Ack { id, by, reason } => ack(id, by, reason, context, output).await,
    }
}

async fn list(all: bool, context: &Context, output: &mut Output) -> Outcome {
    let wheel = context.wheel()?;
    let incidents = wheel.incidents(all).await?;
    if output.is_json() {
        for incident in &incidents {
            output.object(&incident_json(incident))?;
        }
    } else if incidents.is_empty() {
        output.note(&format!("none on wheel {}", wheel.name()));
    } else {
        let rows = incidents.iter().map(cells).collect();
        output.table(&["id", "was", "since", "payment", "amount", "seen to by"], rows)?;
    }
    Ok(Exit::Done)
}

fn cells(incident: &Incident) -> Vec<String> {
    let since = Moment::EPOCH.plus(std::time::Duration::from_millis(incident.ended_at_ms));
    vec![
        escaped(&incident.id),
        incident.kind.as_str().to_owned(),
        since.to_string(),
        age(incident),
        incident.amount.as_deref().map(escaped).unwrap_or_default(),
        incident.acknowledged.as_ref().map(|ack| escaped(&ack.by)).unwrap_or_default(),
    ]
}

async fn ack(id: &Id, by: &str, reason: &str, context: &Context, output: &mut Output) -> Outcome {
    let operator = Operator::new(context.wheel()?, person(Some(by), Door::Cli)?);
    let name = operator.wheel().name().as_str();
    let shown = escaped(id.as_str());
    let (outcome, text, incidents, exit) = match operator.acknowledge(id, reason).await? {
        Acknowledged::Now(now) => ("acknowledged", "acknowledged".to_owned(), now, Exit::Done),
        Acknowledged::Before(before) => {
            let who = before.iter().find_map(|incident| incident.acknowledged.as_ref());
            let who = who.map(|ack| escaped(&ack.by)).unwrap_or_default();
            ("already_acknowledged", format!("{who} has seen to it before"), before, Exit::Done)
        }
        Acknowledged::Absent => ("absent", "there is no incident of it".to_owned(), Vec::new(), Exit::Absent),
    };
    let incidents: Vec<_> = incidents.iter().map(incident_json).collect();
    let object = json!({"outcome": outcome, "wheel": name, "id": id.as_str(), "incidents": incidents});
    output.say(&format!("{name} {shown}: {text}"), &object)?;
    Ok(exit)
}
