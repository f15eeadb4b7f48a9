//! `duewheel drain`: one worker claims nothing more, until it is let go on.

use clap::Args;
use serde_json::json;

use super::arguments::ByAndWhy;
use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use crate::error::escaped;

/// Arguments of `drain`.
#[derive(Debug, Args)]
#[command(
    about = "Drains one worker from outside, or lets it go on",
    long_about = "Tells one worker of the wheel to drain: it claims nothing more, finishes what it has in hand, and stays; the others take its \
                  shards. It hears of it with its next heartbeat, within about a second. `--end` lets it go on. A worker that is started \
                  anew knows nothing of it. To end a worker, send it SIGTERM. `duewheel drain --list` names the workers. Exit code 5 where \
                  there is no such worker.",
    after_help = "Examples:\n  duewheel drain --list\n  duewheel drain 3f2a9c… --reason 'host goes down for repair'\n  duewheel drain 3f2a9c… --end"
)]
pub struct Drain {
    /// The worker's token; the first letters of it are enough where they mean one worker
    #[arg(value_name = "WORKER", required_unless_present = "list")]
    worker: Option<String>,
    /// Lets it go on
    #[arg(long)]
    end: bool,
    /// Lists the workers instead
    #[arg(long, conflicts_with_all = ["worker", "end"])]
    list: bool,
    #[command(flatten)]
    why: ByAndWhy,
}

impl Drain {
    /// Whether it changes nothing.
    pub fn reads(&self) -> bool {
        self.list
    }
}

/// Drains it, or lets it go on.
pub async fn run(args: &Drain, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.why.who)?;
    let wheel = operator.wheel();
    let workers = wheel.presence().await?.workers;
    let Some(asked) = &args.worker else {
        let row = |worker: &crate::wheel::WorkerRecord| {
            let state = if worker.draining { "draining" } else { "working" };
            let held = worker.held_back.iter().map(|reason| escaped(reason)).collect::<Vec<_>>().join("; ");
            let numbers = [worker.pid.to_string(), worker.in_flight.to_string()];
            let [pid, in_flight] = numbers;
            vec![escaped(&worker.token), escaped(&worker.host), pid, in_flight, state.to_owned(), held]
        };
        if output.is_json() {
            for worker in &workers {
                output.object(worker)?;
            }
        } else if workers.is_empty() {
            output.note(&format!("none on wheel {}", wheel.name()));
        } else {
            let header = ["worker", "host", "pid", "in work", "state", "held back"];
            output.table(&header, workers.iter().map(row).collect())?;
        }
        return Ok(Exit::Done);
    };
    let mut meant =
        workers.iter().map(|worker| worker.token.as_str()).filter(|token| token.starts_with(asked));
    let token = match (meant.next(), meant.next()) {
        (Some(_), Some(_)) if !workers.iter().any(|worker| worker.token == *asked) => {
            return Err(Failure::Usage(format!("worker {}: means several; give more of it", escaped(asked))));
        }
        (Some(one), None) => one,
        _ => asked.as_str(),
    };
    let known = if args.end {
        operator.resume_worker(token, &args.why.reason).await?
    } else {
        let reason = if args.why.reason.is_empty() { "drained" } else { args.why.reason.as_str() };
        operator.drain(token, reason).await?
    };
    let outcome = match (known, args.end) {
        (false, _) => "absent",
        (true, true) => "resuming",
        (true, false) => "draining",
    };
    let text = if known { outcome.to_owned() } else { "there is no such worker".to_owned() };
    let object = json!({"outcome": outcome, "wheel": wheel.name().as_str(), "worker": token});
    output.say(&format!("{} worker {}: {text}", wheel.name(), escaped(token)), &object)?;
    Ok(if known { Exit::Done } else { Exit::Absent })
}
