//! `duewheel paid`: a payment came in. Ends the deadline, or records that it came too late.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::arguments;
use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use super::row::ended_json;
use crate::clock::{Moment, show_span};
use crate::deadline::Id;
use crate::error::escaped;
use crate::wheel::answer::Cancelled;
use crate::wheel::shape::{incident_json, late_word};
use crate::wheel::{Incident, IncidentKind, Paid as Met, Payment};

/// Arguments of `paid`.
#[derive(Debug, Args)]
#[command(
    about = "Reports a payment: ends the deadline, or records that it came too late",
    long_about = "Reports a payment. Where the order is still open its deadline is cancelled, as by `cancel`. Where we have closed it, \
                  or put it aside as dead, the payment becomes an incident, one for each life of the id however often it is \
                  reported, and others are told by the event `late_payment`; exit code 6. An order that is being closed right now \
                  is waited for. What nobody knows of answers `absent`, exit code 5, and the cancellation is remembered.\n\nRepeat \
                  a call that was not answered: it is harmless, and nothing is lost in between.",
    after_help = "Examples:\n  duewheel paid o-1042\n  duewheel paid o-1042 --at 2026-03-01T12:00:03+08:00 --amount '99.00 CNY'\n  \
                  duewheel incident list     what came too late"
)]
pub struct Paid {
    /// The order
    #[arg(value_name = "ID", value_parser = arguments::id)]
    id: Id,
    /// When it was paid [default: now]
    #[arg(long, value_name = "RFC3339", value_parser = arguments::moment)]
    at: Option<Moment>,
    /// How much, in your own words; kept with an incident
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    amount: Option<String>,
    /// How long to wait for a close that is under way
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = arguments::duration)]
    wait: Duration,
}

/// Reports it.
pub async fn run(args: &Paid, context: &Context, output: &mut Output) -> Outcome {
    let wheel = context.wheel()?;
    let payment = Payment::new(args.id.clone(), args.at, args.amount.clone())?;
    let (name, id) = (wheel.name().as_str(), args.id.as_str());
    let mut object = json!({"wheel": name, "id": id});
    let (outcome, text, exit) = match wheel.paid(&payment, args.wait).await? {
        Met::InTime(Cancelled::Already) => {
            ("already_cancelled", "was cancelled before".to_owned(), Exit::Done)
        }
        Met::InTime(_) => ("cancelled", "paid in time; its deadline is cancelled".to_owned(), Exit::Done),
        Met::Skipped(ended) => {
            object["ended"] = ended_json(id, &ended);
            ("skipped", "its close had found it paid, or closed by somebody else".to_owned(), Exit::Done)
        }
        Met::Absent => {
            ("absent", "nothing is known of it; the cancellation is remembered".to_owned(), Exit::Absent)
        }
        Met::Incident(incident) => {
            object["incident"] = incident_json(&incident);
            (late_word(incident.kind), late(&incident), Exit::Refused)
        }
    };
    object["outcome"] = outcome.into();
    output.say(&format!("{name} {}: {text}", escaped(id)), &object)?;
    Ok(exit)
}

/// `closed 3m before the payment; see duewheel incident`.
fn late(incident: &Incident) -> String {
    let age = age(incident);
    match incident.kind {
        IncidentKind::Closed => format!("too late: we had closed it, {age}; see duewheel incident"),
        IncidentKind::Dead => format!("its close had failed and it was dead, {age}; see duewheel incident"),
        IncidentKind::Closing => {
            "a worker is closing it right now; duewheel incident list says what came of it".to_owned()
        }
    }
}

/// When the payment was made, beside the end.
pub fn age(incident: &Incident) -> String {
    let ms = incident.age_ms();
    let by = show_span(Duration::from_millis(ms.unsigned_abs()));
    if ms < 0 { format!("paid {by} before") } else { format!("paid {by} after") }
}
