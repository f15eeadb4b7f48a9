//! The workers of a wheel: who they are; drained and let go on.

use axum::http::StatusCode;
use serde_json::json;

use super::call::{Call, Outcome, json};
use super::problem::Problem;
use crate::wheel::WorkerRecord;

/// `GET …/workers`.
pub(super) async fn list(call: Call) -> Outcome {
    let presence = call.wheel().presence().await.map_err(|e| call.failed(&e))?;
    let one = |worker: &WorkerRecord| {
        let mut value = json!(worker);
        if let Some(heard) = presence.heard.get(&worker.token) {
            value["heard_at"] = heard.to_string().into();
        }
        value
    };
    let all = |workers: &[WorkerRecord]| workers.iter().map(one).collect::<Vec<_>>();
    let value = json!({
        "wheel": call.wheel().name().as_str(),
        "workers": all(&presence.workers),
        "lost": all(&presence.lost),
    });
    Ok(json(StatusCode::OK, &value))
}

/// `POST …/workers/{worker}/drain`. 202: it hears of it with its next heartbeat.
pub(super) async fn drain(call: Call) -> Outcome {
    let fields = call.fields(&["reason", "actor"])?;
    let (operator, reason) = (call.operator(&fields)?, fields.needed("reason")?);
    let known = operator.drain(call.part(), &reason).await.map_err(|e| call.failed(&e))?;
    answered(&call, "draining", known)
}

/// `POST …/workers/{worker}/resume`.
pub(super) async fn resume(call: Call) -> Outcome {
    let fields = call.fields(&["reason", "actor"])?;
    let (operator, reason) = (call.operator(&fields)?, call.reason(&fields)?);
    let known = operator.resume_worker(call.part(), &reason).await.map_err(|e| call.failed(&e))?;
    answered(&call, "resuming", known)
}

fn answered(call: &Call, outcome: &str, known: bool) -> Outcome {
    if !known {
        return Err(Problem::not_found("absent", "there is no such worker"));
    }
    let value = json!({"outcome": outcome, "wheel": call.wheel().name().as_str(), "worker": call.part()});
    Ok(json(StatusCode::ACCEPTED, &value))
}
