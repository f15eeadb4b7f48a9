//! `duewheel sweep`: what the orders table holds overdue and the wheel does not.

use clap::Args;

use super::arguments::ByAndWhy;
use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::net::declared;
use super::output::Output;
use crate::clock::{Moment, show_duration};
use crate::config::WheelConfig;
use crate::error::escaped;
use crate::hook::sql::SqlSettings;
use crate::sweep::{Report, Sweep as Job};
use crate::wheel::Wheel;

/// Arguments of `sweep`.
#[derive(Debug, Args)]
#[command(
    about = "Enqueues overdue orders of the table that the wheel does not hold",
    long_about = "Reads the overdue unpaid orders of the hook's table, page by page, and enqueues what the wheel does not hold, due at \
                  the row's own time. What the wheel holds stays as it is; what it remembers as ended is brought back only if it is \
                  open on the primary all the same, up to resurrect_max; what is dead waits for a person. Workers do this by \
                  themselves ([wheel.NAME.sweep] every). Exit code 6 where another runner is at it.",
    after_help = "Examples:\n  duewheel sweep --dry-run         what would be done\n  duewheel sweep --json\n  duewheel sweep --runs            \
                  the last runs"
)]
pub struct Sweep {
    /// Only says what would be done
    #[arg(long)]
    dry_run: bool,
    /// Lists the last runs instead
    #[arg(long, conflicts_with = "dry_run")]
    runs: bool,
    #[command(flatten)]
    why: ByAndWhy,
}

/// Sweeps.
pub async fn run(args: &Sweep, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.why.who)?;
    let wheel = operator.wheel().clone();
    if args.runs {
        return runs(&wheel, "sweep", output).await;
    }
    let (config, hook) = table_of(context)?;
    let job = Job::new(wheel.clone(), hook, config.sweep.clone())?;
    let bar = super::enqueue::progress(output, None);
    let progress = |report: &Report| bar.set_position(report.seen);
    let mut interrupt = super::context::interrupt()?;
    let work = async {
        if args.dry_run {
            return job.dry_run(progress).await;
        }
        let swept = async { job.run(progress).await.map(|report| (report.changed(), report)) };
        operator.run("sweep", &args.why.reason, swept).await
    };
    let done = tokio::select! {
        done = work => done,
        _ = interrupt.recv() => {
            let_go().await;
            return Ok(Exit::Interrupted);
        }
    };
    bar.finish_and_clear();
    let would = if args.dry_run { "would be " } else { "" };
    print(&wheel, &done?, would, output)
}

/// A run that is dropped lets its job go in the background: gives it the time to.
pub async fn let_go() {
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
}

/// The wheel's configuration and the table that its hook declares.
pub fn table_of(context: &Context) -> Result<(&WheelConfig, &SqlSettings), Failure> {
    let config = context.wheel_config()?;
    let hook = declared(config).ok_or_else(|| {
        let reason = format!(
            "wheel.{}.hook: declares no table: expected kind = \"sql\" without call",
            config.wheel.name
        );
        Failure::World(crate::error::Error::Config(vec![reason]))
    })?;
    Ok((config, hook))
}

/// Says what a run did.
pub fn print(wheel: &Wheel, report: &Report, would: &str, output: &mut Output) -> Outcome {
    if let Some(refusal) = &report.refusal {
        let rows = if report.refused == 1 { "row" } else { "rows" };
        output.warn(&format!(
            "{} {rows} cannot be deadlines; the first: {}",
            report.refused,
            escaped(refusal)
        ));
    }
    if report.dead > 0 {
        output.warn(&format!("{} orders are dead and wait for a person: duewheel dead list", report.dead));
    }
    if report.capped > 0 {
        output.warn(&format!(
            "{} more orders are open though the wheel remembers their end: resurrect_max",
            report.capped
        ));
    }
    let took = show_duration(std::time::Duration::from_millis(report.took_ms));
    let text = format!(
        "{}: {} rows in {} pages, {} {would}enqueued, {} {would}resurrected, {} held, {} ended, {} dead, {} refused; took {took}",
        wheel.name(),
        report.seen,
        report.pages,
        report.enqueued,
        report.resurrected,
        report.held,
        report.ended,
        report.dead,
        report.refused
    );
    output.say(&text, report)?;
    Ok(Exit::Done)
}

/// The last runs of a job, newest first.
pub async fn runs(wheel: &Wheel, job: &'static str, output: &mut Output) -> Outcome {
    let runs = wheel.job_runs(job, 100).await?;
    let reports: Vec<Report> = runs.iter().filter_map(|run| serde_json::from_str(run).ok()).collect();
    if output.is_json() {
        for report in &reports {
            output.object(report)?;
        }
        return Ok(Exit::Done);
    }
    let row = |r: &Report| {
        let began = Moment::from_millis(r.began_at_ms).map(|at| at.to_string()).unwrap_or_default();
        let took = show_duration(std::time::Duration::from_millis(r.took_ms));
        let numbers =
            [r.seen, r.held, r.enqueued, r.resurrected, r.ended, r.dead, r.refused].map(|n| n.to_string());
        [vec![began, took], numbers.to_vec(), vec![escaped(&r.runner)]].concat()
    };
    if !reports.is_empty() {
        let header = [
            "began",
            "took",
            "seen",
            "held",
            "enqueued",
            "resurrected",
            "ended",
            "dead",
            "refused",
            "runner",
        ];
        output.table(&header, reports.iter().map(row).collect())?;
    }
    let record = wheel.job_record(job).await?;
    if let Some(error) = record.fields.get("error") {
        output.warn(&format!("the last run failed: {}", escaped(error)));
    }
    if let (Some(runner), Some(until)) = (&record.runner, record.held_until) {
        output.note(&format!("{} has it until {until}", escaped(runner)));
    }
    Ok(Exit::Done)
}
