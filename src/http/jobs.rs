//! The jobs over the orders table: how each stands, its last runs; and the wish for another one.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::call::{Call, Outcome, json};
use super::problem::Problem;
use crate::clock::Moment;
use crate::error::Result;
use crate::wheel::{JOBS, PREVIEW, Wheel};

/// `GET …/jobs`.
pub(super) async fn list(call: Call) -> Outcome {
    let limit = usize::try_from(call.query.whole("limit", 1..=100, 10)?).unwrap_or(100);
    let mut jobs = Vec::with_capacity(JOBS.len() + 1);
    for job in JOBS.into_iter().chain([PREVIEW]) {
        jobs.push(one(call.wheel(), job, limit).await.map_err(|e| call.failed(&e))?);
    }
    Ok(json(StatusCode::OK, &json!({"wheel": call.wheel().name().as_str(), "jobs": jobs})))
}

async fn one(wheel: &Wheel, job: &'static str, limit: usize) -> Result<Value> {
    let record = wheel.job_record(job).await?;
    let runs = wheel.job_runs(job, limit).await?;
    let runs: Vec<Value> = runs.iter().filter_map(|text| serde_json::from_str(text).ok()).collect();
    let at = |moment: Option<Moment>| moment.map(|at| at.to_string());
    Ok(json!({
        "job": job,
        "runner": record.held_until.and(record.runner),
        "held_until": at(record.held_until),
        "ran_at": at(record.ran_at),
        "asked_at": at(record.asked_at),
        "error": record.fields.get("error"),
        "runs": runs,
    }))
}

/// `POST …/jobs/{job}/run`. 202: the next worker that has the job runs it.
pub(super) async fn run(call: Call) -> Outcome {
    let fields = call.fields(&["reason", "actor", "dry_run"])?;
    let (operator, reason) = (call.operator(&fields)?, call.reason(&fields)?);
    let job = call.part();
    if !JOBS.contains(&job) {
        return Err(Problem::not_found("absent", "there is no such job"));
    }
    let dry_run = fields.flag("dry_run")?;
    operator.ask_for(job, dry_run, &reason).await.map_err(|e| call.failed(&e))?;
    let value =
        json!({"outcome": "asked", "wheel": call.wheel().name().as_str(), "job": job, "dry_run": dry_run});
    Ok(json(StatusCode::ACCEPTED, &value))
}
