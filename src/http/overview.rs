//! The wheel as a whole: its numbers, what is to come, pause and resume.

use std::time::Duration;

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};

use super::Api;
use super::call::{Call, Outcome, json};
use super::problem::Problem;
use crate::clock::Moment;
use crate::wheel::shape::stats_json;

/// `GET /v1/wheels`.
pub(super) fn wheels(api: &Api) -> Response {
    let one = |(name, door): (&String, &std::sync::Arc<super::door::Door>)| {
        let settings = door.wheel.settings();
        json!({
            "name": name,
            "shards": settings.shards.get(),
            "slot_width_ms": settings.slot_width.as_millis(),
        })
    };
    json(StatusCode::OK, &json!({"wheels": api.doors.iter().map(one).collect::<Vec<_>>()}))
}

/// `GET …/stats`.
pub(super) async fn stats(call: Call) -> Outcome {
    let wheel = call.wheel();
    let failed = |e| call.failed(&e);
    let stats = wheel.stats().await.map_err(failed)?;
    let presence = wheel.presence().await.map_err(failed)?;
    let bucket = wheel.bucket().await.map_err(failed)?;
    let trip = match stats.tripped_shards {
        0 => None,
        _ => wheel.held_by().await.map_err(failed)?.trip,
    };
    let value = stats_json(wheel.name().as_str(), &stats, &presence.workers, bucket, trip.as_ref());
    Ok(json(StatusCode::OK, &value))
}

/// `GET …/forecast`.
pub(super) async fn forecast(call: Call) -> Outcome {
    let step = call.query.duration("step")?.unwrap_or(Duration::from_secs(60));
    let count = call.query.whole("count", 1..=1500, 60)?;
    let step_ms = u64::try_from(step.as_millis()).unwrap_or(u64::MAX);
    // Ten years: what is summed up must not overflow a moment.
    if !(1..=315_360_000_000).contains(&step_ms) {
        return Err(Problem::unprocessable("step", "step: expected 1ms to 3650d"));
    }
    let wheel = call.wheel();
    // Stretches begin at whole multiples, so that two looks a second apart show the same minutes.
    let now = wheel.now().await.map_err(|e| call.failed(&e))?.as_millis();
    let from = Moment::EPOCH.plus(Duration::from_millis(now / step_ms * step_ms));
    let buckets = wheel.forecast(from, step, count).await.map_err(|e| call.failed(&e))?;
    let one = |bucket: &crate::wheel::answer::ForecastBucket| {
        let from = Moment::EPOCH.plus(Duration::from_millis(bucket.from_ms));
        json!({"from": from.to_string(), "from_ms": bucket.from_ms, "count": bucket.count})
    };
    let value = json!({
        "wheel": wheel.name().as_str(),
        "step_ms": step_ms,
        "stretches": buckets.iter().map(one).collect::<Vec<_>>(),
    });
    Ok(json(StatusCode::OK, &value))
}

/// `POST …/pause`.
pub(super) async fn pause(call: Call) -> Outcome {
    let fields = call.fields(&["reason", "actor"])?;
    let counts = call.operator(&fields)?.pause(&fields.needed("reason")?).await;
    let counts = counts.map_err(|e| call.failed(&e))?;
    Ok(written(&call, "paused", counts, json!({})))
}

/// `POST …/resume`.
pub(super) async fn resume(call: Call) -> Outcome {
    let fields = call.fields(&["reason", "actor"])?;
    let reason = call.reason(&fields)?;
    let resumed = call.operator(&fields)?.resume(&reason).await;
    let (held, counts) = resumed.map_err(|e| call.failed(&e))?;
    let mut lifted = Vec::new();
    if let Some(trip) = &held.trip {
        lifted.push(json!({"what": "tripped", "at": trip.at().to_string(), "by": trip.by, "why": trip.why}));
    }
    if let Some(pause) = &held.paused {
        lifted.push(json!({"what": "paused", "by": pause.actor, "why": pause.reason}));
    }
    Ok(written(&call, "resumed", counts, json!({"lifted": lifted})))
}

/// How many shards took it; 207 where not all did, and it is to be sent again.
fn written(call: &Call, outcome: &str, (written, shards): (u64, u64), mut value: Value) -> Response {
    value["outcome"] = outcome.into();
    value["wheel"] = call.wheel().name().as_str().into();
    value["written"] = written.into();
    value["shards"] = shards.into();
    json(if written == shards { StatusCode::OK } else { StatusCode::MULTI_STATUS }, &value)
}

/// `GET /openapi.json`.
pub(super) fn document(api: &Api) -> Response {
    let mut response = Response::new(axum::body::Body::from(api.document.clone()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
