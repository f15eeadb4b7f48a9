//! `duewheel dead`: deadlines that wait for a person.

use clap::{Args, Subcommand};

use super::arguments::{self, ByAndWhy};
use super::context::{Context, confirm};
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use super::{bulk, cancel, list, reschedule};
use crate::clock::Moment;
use crate::deadline::{Id, State};
use crate::error::escaped;
use crate::operator::Operator;
use crate::wheel::answer::Cursor;
use crate::wheel::{BulkAct, BulkFilter};

/// Arguments of `dead`.
#[derive(Debug, Args)]
#[command(
    about = "Deals with deadlines that wait for a person",
    long_about = "Deals with deadlines that were put aside: every attempt failed, the hook rejected the order, or workers were lost \
                  with it.",
    after_help = "Examples:\n  duewheel dead list\n  duewheel dead revive o-1042     it fires at once, attempts counted anew\n  \
                  duewheel dead revive --all\n  duewheel dead drop o-1042 --yes  it ends as cancelled"
)]
pub struct Dead {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists them, oldest death first, with the reason
    List {
        /// Rows of a page, 1 to 500
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
        /// The page that the one before named
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
    },
    /// Gives them a new life: due now, attempts counted anew
    Revive {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        why: ByAndWhy,
    },
    /// Ends them as cancelled: the orders are dealt with
    Drop {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        why: ByAndWhy,
        /// Does not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The orders
    #[arg(value_name = "ID", value_parser = arguments::id)]
    ids: Vec<Id>,
    /// All that are dead, as a bulk act: it goes on where this program is ended
    #[arg(long)]
    all: bool,
}

impl Dead {
    /// Whether it changes nothing.
    pub fn reads(&self) -> bool {
        matches!(self.verb, Verb::List { .. })
    }
}

/// Runs the verb.
pub async fn run(args: &Dead, context: &Context, output: &mut Output) -> Outcome {
    match &args.verb {
        Verb::List { limit, cursor } => {
            let wheel = context.wheel()?;
            let cursor = cursor.clone().map(Cursor);
            let now = wheel.now().await?;
            let page = wheel
                .list(State::Dead, Moment::EPOCH, Moment::MAX, cursor.as_ref(), usize::from(*limit))
                .await?;
            list::print(&page.rows, now, output)?;
            match page.next {
                Some(next) => output.note(&format!("there are more: --cursor {}", next.0)),
                None if page.rows.is_empty() => output.note(&format!("none on wheel {}", wheel.name())),
                None => {}
            }
            Ok(Exit::Done)
        }
        Verb::Revive { which, why } if which.all => {
            all(BulkAct::Revive, &context.operator(&why.who)?, &why.reason, true, output).await
        }
        Verb::Revive { which, why } => {
            let (ids, operator) = (&which.ids, context.operator(&why.who)?);
            let answers = operator.revive(ids, &why.reason).await?;
            let mut exits = Vec::new();
            for (id, answer) in ids.iter().zip(answers) {
                exits.push(reschedule::say(operator.wheel(), id, "revived", answer?, output).await?);
            }
            Ok(Exit::of_all(exits))
        }
        Verb::Drop { which, why, yes } if which.all => {
            all(BulkAct::Drop, &context.operator(&why.who)?, &why.reason, *yes, output).await
        }
        Verb::Drop { which, why, yes } => {
            let (ids, operator) = (&which.ids, context.operator(&why.who)?);
            let name = operator.wheel().name().as_str();
            let what = match ids.as_slice() {
                [id] => format!("dropping {}", escaped(id.as_str())),
                ids => format!("dropping {} dead deadlines of wheel {name}", ids.len()),
            };
            confirm(*yes, &what, name)?;
            let answers = operator.drop(ids, &why.reason).await?;
            cancel::say_all(name, ids, answers, output)
        }
    }
}

/// All that are dead, as the page does it: a job of the wheel, which goes on where this program is ended, and touches each once.
async fn all(act: BulkAct, operator: &Operator, reason: &str, yes: bool, output: &mut Output) -> Outcome {
    let filter = BulkFilter::default();
    let name = operator.wheel().name().as_str();
    let dead = operator.preview(act, &filter).await?.matched;
    if dead == 0 {
        output.note(&format!("none on wheel {name}"));
        return Ok(Exit::Done);
    }
    confirm(yes, &format!("{} of {dead} dead deadlines of wheel {name}", act.as_str()), name)?;
    let begun = operator.begin_bulk(act, filter, None, reason).await?;
    bulk::finish(operator, begun, output).await
}
