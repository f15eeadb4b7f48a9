//! `duewheel reconcile`: table, wheel and close log compared.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::arguments::ByAndWhy;
use super::context::Context;
use super::exit::Exit;
use super::export::{bad_file, create};
use super::failure::{Failure, Outcome};
use super::output::Output;
use super::sweep::{let_go, table_of};
use crate::clock::{Moment, show_duration};
use crate::error::{escaped, escaped_json};
use crate::sweep::reconcile::{JOB, Level, Reconciliation};
use crate::sweep::{Reconcile as Job, SweepSettings};
use crate::wheel::Wheel;

/// Arguments of `reconcile`.
#[derive(Debug, Args)]
#[command(
    about = "Compares the orders table, the wheel and the close log, and reports what does not agree",
    long_about = "Compares the orders table with the wheel and with the closes that wheel and audit table remember, asks the rules of \
                  [wheel.NAME.reconcile], and reports what does not agree. Whatever moves meanwhile is looked at again after the grace \
                  and is no finding. --heal mends what the wheel can have wrong by itself: a missing order is enqueued, an orphan \
                  cancelled, another close time taken from the table; what is dead, paid after its close, stuck or a rule's answer \
                  waits for a person. Workers run it by themselves (every), one at a time.\n\n\
                  The exit code tells the gravest level that is left: 0 nothing, 10 low, 11 medium, 12 high; a rule that cannot be \
                  answered counts at its level. 6 where another runner is at it.",
    after_help = "Examples:\n  duewheel reconcile\n  duewheel reconcile --markdown --out report.md\n  duewheel reconcile --heal --max 100 \
                  --json\n  duewheel reconcile --runs            the last runs"
)]
pub struct Reconcile {
    /// Mends what may be mended
    #[arg(long)]
    pub heal: bool,
    /// Mends at most so many orders; without it heal_max of the configuration
    #[arg(long, value_name = "N", requires = "heal")]
    max: Option<u64>,
    /// Prints the report as Markdown
    #[arg(long)]
    markdown: bool,
    /// Writes the report to a file, too: as JSON with --json, else as Markdown; mode 0600
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Lists the last runs instead
    #[arg(long, conflicts_with_all = ["heal", "markdown", "out"])]
    runs: bool,
    #[command(flatten)]
    why: ByAndWhy,
}

/// Reconciles.
pub async fn run(args: &Reconcile, context: &Context, output: &mut Output) -> Outcome {
    if args.markdown && output.is_json() {
        return Err(Failure::Usage("--markdown: expected without --json".to_owned()));
    }
    let operator = context.operator(&args.why.who)?;
    let wheel = operator.wheel().clone();
    if args.runs {
        return runs(&wheel, output).await;
    }
    let (config, hook) = table_of(context)?;
    let sweep: &SweepSettings = &config.sweep;
    let job = Job::new(wheel.clone(), hook, sweep, config.reconcile.clone())?;
    let file = args.out.as_deref().map(|path| create(path).map(|file| (path, file))).transpose()?;
    let bar = super::enqueue::progress(output, None);
    let progress = |report: &Reconciliation| bar.set_position(report.rows + report.deadlines + report.ended);
    let heal = args.heal.then(|| args.max.unwrap_or(config.reconcile.heal_max));
    let mut interrupt = super::context::interrupt()?;
    let work = async {
        if heal.is_none() {
            return job.run(heal, progress).await;
        }
        let healed = async { job.run(heal, progress).await.map(|report| (report.healed(), report)) };
        operator.run("reconcile", &args.why.reason, healed).await
    };
    let report = tokio::select! {
        done = work => done?,
        _ = interrupt.recv() => {
            bar.finish_and_clear();
            let_go().await;
            return Ok(Exit::Interrupted);
        }
    };
    bar.finish_and_clear();
    if let Some((path, file)) = file {
        write(&report, output.is_json(), path, file)?;
    }
    print(&report, args.markdown, output)?;
    Ok(exit(&report))
}

fn exit(report: &Reconciliation) -> Exit {
    match report.level {
        None => Exit::Done,
        Some(Level::Low) => Exit::FoundLow,
        Some(Level::Medium) => Exit::FoundMedium,
        Some(Level::High) => Exit::FoundHigh,
    }
}

fn write(
    report: &Reconciliation,
    json: bool,
    path: &Path,
    mut file: std::io::BufWriter<std::fs::File>,
) -> Result<(), Failure> {
    let text = if json {
        escaped_json(&serde_json::to_string(report).map_err(std::io::Error::from)?) + "\n"
    } else {
        report.markdown()
    };
    file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(|e| bad_file(path, &e))
}

fn print(report: &Reconciliation, markdown: bool, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return Ok(output.object(report)?);
    }
    if markdown {
        return Ok(output.raw(report.markdown().as_bytes())?);
    }
    report.remarks().iter().for_each(|remark| output.warn(remark));
    output.table(&["finding", "level", "found", "healed", "left"], report.overview())?;
    let examples = report.examples();
    if !examples.is_empty() {
        output.line("")?;
        output.table(&["finding", "id", "table", "wheel", "healed"], examples)?;
    }
    output.note(&report.summary());
    Ok(())
}

/// The last runs, newest first.
async fn runs(wheel: &Wheel, output: &mut Output) -> Outcome {
    let runs = wheel.job_runs(JOB, 100).await?;
    let reports: Vec<Reconciliation> = runs.iter().filter_map(|run| serde_json::from_str(run).ok()).collect();
    if output.is_json() {
        for report in &reports {
            output.object(report)?;
        }
        return Ok(Exit::Done);
    }
    let row = |r: &Reconciliation| {
        let began = Moment::from_millis(r.began_at_ms).map(|at| at.to_string()).unwrap_or_default();
        let level = r.level.map_or("-", Level::as_str).to_owned();
        let took = show_duration(std::time::Duration::from_millis(r.took_ms));
        let numbers = [r.rows, r.deadlines, r.count(), r.healed()].map(|n| n.to_string());
        [vec![began, took, level], numbers.to_vec(), vec![escaped(&r.runner)]].concat()
    };
    if !reports.is_empty() {
        let header = ["began", "took", "level", "rows", "deadlines", "found", "healed", "runner"];
        output.table(&header, reports.iter().map(row).collect())?;
    }
    let record = wheel.job_record(JOB).await?;
    if let Some(error) = record.fields.get("error") {
        output.warn(&format!("the last run failed: {}", escaped(error)));
    }
    if let (Some(runner), Some(until)) = (&record.runner, record.held_until) {
        output.note(&format!("{} has it until {until}", escaped(runner)));
    }
    Ok(Exit::Done)
}
