//! The jobs that read the orders table beside the wheel: their last runs, what they found, and a run now, tried out first.

use askama::Template;
use serde_json::Value;

use super::fault::Outcome;
use super::figure::{At, count, of, span};
use super::frame::Frame;
use super::parameters::Link;
use super::visit::Visit;
use crate::clock::Moment;
use crate::wheel::{JobRecord, PREVIEW};

/// Runs of a job that are shown.
const RUNS: usize = 20;

#[derive(Template)]
#[template(path = "runs.html")]
struct Page {
    frame: Frame,
    /// Whether this server knows the table that the hook declares.
    has_table: bool,
    jobs: Vec<Job>,
}

struct Job {
    name: &'static str,
    title: &'static str,
    what: &'static str,
    /// What a run of it changes; empty where a person cannot ask for one here.
    effect: &'static str,
    /// When it runs by itself.
    every: String,
    running: Option<(String, At)>,
    asked: Option<At>,
    ran: Option<At>,
    error: Option<String>,
    runs: Vec<Run>,
    /// The table's columns: sweep and its like, or reconcile.
    columns: &'static [(&'static str, &'static str)],
}

struct Run {
    began: At,
    took: String,
    runner: String,
    /// In the order of the columns.
    numbers: Vec<String>,
    remarks: Vec<String>,
    findings: Vec<Finding>,
}

/// What a reconciliation found of one kind.
struct Finding {
    name: String,
    level: String,
    count: String,
    healed: String,
    /// Why nobody knows.
    error: Option<String>,
    /// The first orders: id, where it is shown, what the table and the wheel say.
    first: Vec<(String, String, String)>,
}

/// Columns of a run that enqueues: heading, field of the record.
const ENQUEUING: [(&str, &str); 7] = [
    ("found", "seen"),
    ("held", "held"),
    ("missing, enqueued", "enqueued"),
    ("brought back", "resurrected"),
    ("ended", "ended"),
    ("dead", "dead"),
    ("refused", "refused"),
];
/// Columns of a comparison.
const COMPARING: [(&str, &str); 4] =
    [("rows", "rows"), ("deadlines", "deadlines"), ("ends", "ended"), ("moved meanwhile", "moved")];

/// `GET /runs`.
pub(super) async fn show(visit: Visit) -> Outcome {
    let wheel = visit.wheel();
    let frame = visit.frame("Runs");
    let now = wheel.now().await?;
    let mut jobs = Vec::with_capacity(KINDS.len());
    for kind in &KINDS {
        let record = wheel.job_record(kind.name).await?;
        let runs = wheel.job_runs(kind.name, RUNS).await?;
        jobs.push(job(&visit, &frame, kind, &record, &runs, now));
    }
    #[cfg(feature = "sql")]
    let has_table = visit.door.served.table.is_some();
    #[cfg(not(feature = "sql"))]
    let has_table = false;
    visit.page(&Page { frame, has_table, jobs })
}

/// `POST /runs/try`: a worker is asked what a sweep would do.
pub(super) async fn try_out(visit: Visit) -> Outcome {
    visit.operator()?.ask_for("sweep", true, &visit.reason()).await?;
    visit.done(true, "A worker was asked what a sweep would do; its answer stands below within seconds. Nothing is changed.")
}

/// `POST /runs/run`: a worker is asked for a run.
pub(super) async fn run(visit: Visit) -> Outcome {
    let job = visit.form.text("job");
    visit.operator()?.ask_for(job, false, &visit.reason()).await?;
    visit.done(
        true,
        format!("A worker was asked for a run of {job}; it begins within seconds where one has that job."),
    )
}

/// A job as it is shown.
struct Kind {
    name: &'static str,
    title: &'static str,
    what: &'static str,
    effect: &'static str,
    columns: &'static [(&'static str, &'static str)],
}

const KINDS: [Kind; 5] = [
    Kind {
        name: "sweep",
        title: "Sweep",
        what: "finds overdue orders of the table that the wheel does not hold",
        effect: "It enqueues every overdue order of the table that the wheel does not hold. Try one first: it says how many.",
        columns: &ENQUEUING,
    },
    Kind {
        name: PREVIEW,
        title: "Sweep, tried",
        what: "what a sweep would have done",
        effect: "",
        columns: &ENQUEUING,
    },
    Kind {
        name: "reconcile",
        title: "Reconcile",
        what: "compares table, wheel and close log",
        effect: "It looks, and mends only where reconcile.heal says so.",
        columns: &COMPARING,
    },
    Kind {
        name: "rebuild",
        title: "Rebuild",
        what: "fills an empty or wrong wheel with every open order",
        effect: "It reads every open order of the table and enqueues what the wheel does not hold.",
        columns: &ENQUEUING,
    },
    Kind {
        name: "feed",
        title: "Feed",
        what: "puts new orders of the table on the wheel",
        effect: "It reads what is new since the last read, which it does by itself all the time.",
        columns: &ENQUEUING,
    },
];

fn job(visit: &Visit, frame: &Frame, kind: &Kind, record: &JobRecord, runs: &[String], now: Moment) -> Job {
    let section =
        if kind.name == "rebuild" { "sweep.rebuild".to_owned() } else { format!("{}.every", kind.name) };
    let key = format!("wheel.{}.{section}", frame.wheel);
    let every = visit.door.served.settings.iter().find(|setting| setting.key == key);
    let seen = |moment: Moment| At::seen(moment, now);
    let read = runs.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
    Job {
        name: kind.name,
        title: kind.title,
        what: kind.what,
        effect: kind.effect,
        every: every.map(|setting| by_itself(kind.name, setting.value.trim_matches('"'))).unwrap_or_default(),
        running: record.runner.clone().zip(record.held_until.filter(|until| *until > now).map(seen)),
        asked: record.asked_at.filter(|asked| record.ran_at.is_none_or(|ran| ran < *asked)).map(seen),
        ran: record.ran_at.map(seen),
        error: record.fields.get("error").cloned(),
        runs: read.map(|value| run_of(&value, kind.columns, frame, now)).collect(),
        columns: kind.columns,
    }
}

/// When a job runs by itself, as its setting says.
fn by_itself(job: &str, setting: &str) -> String {
    match (job, setting) {
        (_, "off") | ("rebuild", "false") => "runs only when it is asked for".to_owned(),
        ("rebuild", _) => "runs where the wheel is new or was emptied".to_owned(),
        (_, cron) if cron.contains(' ') => format!("runs at {cron} (cron, UTC)"),
        (_, interval) => format!("runs every {interval}"),
    }
}

fn run_of(record: &Value, columns: &[(&str, &str)], frame: &Frame, now: Moment) -> Run {
    let sections = ["classes", "rules"].into_iter().filter_map(|part| record[part].as_array()).flatten();
    let open = sections
        .filter(|section| section["count"].as_u64().unwrap_or_default() > 0 || section["error"].is_string());
    let began = std::time::Duration::from_millis(record["began_at_ms"].as_u64().unwrap_or_default());
    Run {
        began: At::seen(Moment::EPOCH.plus(began), now),
        took: took(record),
        runner: text(&record["runner"]),
        numbers: columns.iter().map(|(_, field)| number(record, field)).collect(),
        remarks: remarks(record),
        findings: open.map(|section| finding(section, frame)).collect(),
    }
}

fn finding(section: &Value, frame: &Frame) -> Finding {
    let first = |one: &Value| {
        let id = text(&one["id"]);
        let path = Link::to(frame.at("/deadline")).with("id", &id).to_string();
        let wheel = text(&one["wheel"]);
        let said = if wheel.is_empty() {
            text(&one["table"])
        } else {
            format!("table: {}; wheel: {wheel}", text(&one["table"]))
        };
        (id, path, said)
    };
    Finding {
        name: text(&section["name"]),
        level: text(&section["level"]),
        count: format!(
            "{}{}",
            number(section, "count"),
            if section["capped"] == true { " or more" } else { "" }
        ),
        healed: number(section, "healed"),
        error: section["error"].as_str().map(str::to_owned),
        first: section["first"].as_array().into_iter().flatten().map(first).collect(),
    }
}

/// What of a run a person should know besides its numbers.
fn remarks(record: &Value) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(refusal) = record["refusal"].as_str() {
        let refused = record["refused"].as_u64().unwrap_or_default();
        let rows = of(refused, "row cannot be a deadline", "rows cannot be deadlines");
        remarks.push(format!("{rows}; the first: {refusal}"));
    }
    if record["capped"].as_u64().is_some_and(|capped| capped > 0) {
        remarks.push(format!(
            "{} more are open though the wheel remembers their end (resurrect_max)",
            number(record, "capped")
        ));
    }
    remarks
}

fn took(record: &Value) -> String {
    span(std::time::Duration::from_millis(record["took_ms"].as_u64().unwrap_or_default()))
}

fn number(record: &Value, field: &str) -> String {
    count(record[field].as_u64().unwrap_or_default())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
