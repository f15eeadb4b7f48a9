//! Verbs that move one deadline, and the payment that ends it.

use std::time::Duration;

use axum::http::header::IF_MATCH;
use axum::http::{HeaderMap, StatusCode};
use serde_json::json;

use super::call::{Call, Outcome, json, tagged};
use super::placement;
use super::problem::Problem;
use crate::deadline::Generation;
use crate::error::Result;
use crate::wheel::answer::{Answer, Cancelled, Scheduled};
use crate::wheel::shape::{ended_json, incident_json, late_word, scheduled_json};
use crate::wheel::{Paid, Payment};

/// `PATCH …/deadlines/{id}`.
pub(super) async fn reschedule(call: Call) -> Outcome {
    let fields = call.fields(placement::MOVE_MEMBERS)?;
    let (field, due_at) = placement::due_at(&fields)?;
    placement::within_reach(field, due_at, call.wheel().settings())?;
    if let Some(channel) = placement::through(field, &fields)? {
        let now = call.wheel().now().await.map_err(|e| Problem::failed(&e, false))?;
        channel.admit(due_at, call.wheel(), now)?;
    }
    let expected = if_match(&call.headers)?;
    let answer = call.wheel().reschedule(call.id()?, due_at, expected).await;
    moved(&call, StatusCode::OK, "rescheduled", answer)
}

/// `POST …/deadlines/{id}/hold`.
pub(super) async fn hold(call: Call) -> Outcome {
    let fields = call.fields(&["for", "channel"])?;
    let missing = || Problem::unprocessable("for", "for: is missing, how long from now?");
    let for_long = fields.duration("for")?.ok_or_else(missing)?;
    let channel = fields.text("channel")?;
    let answer = call.wheel().hold_through(call.id()?, for_long, channel.as_deref()).await;
    moved(&call, StatusCode::OK, "held", answer)
}

/// `POST …/deadlines/{id}/release`.
pub(super) async fn release(call: Call) -> Outcome {
    call.fields(&[])?;
    let answer = call.wheel().release(call.id()?).await;
    moved(&call, StatusCode::OK, "released", answer)
}

/// `POST …/deadlines/{id}/close`. 202: a worker closes it.
pub(super) async fn close(call: Call) -> Outcome {
    let fields = call.fields(&["reason", "actor"])?;
    let answer = call.operator(&fields)?.close(call.id()?, &fields.needed("reason")?).await;
    moved(&call, StatusCode::ACCEPTED, "closing", answer)
}

fn moved(call: &Call, status: StatusCode, outcome: &str, answer: Result<Answer<Scheduled>>) -> Outcome {
    let (name, id) = (call.wheel().name().as_str(), call.id()?);
    match answer.map_err(|e| call.failed(&e))? {
        Ok(scheduled) => {
            let value = scheduled_json(name, id.as_str(), outcome, &scheduled);
            Ok(tagged(status, &value, scheduled.generation))
        }
        Err(refusal) => Err(Problem::refused(name, id, &refusal)),
    }
}

/// The longest wait for a close that is under way.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// `POST …/deadlines/{id}/paid`.
pub(super) async fn paid(call: Call) -> Outcome {
    let fields = call.fields(&["at", "amount", "wait"])?;
    let id = call.id()?;
    let amount = fields.text("amount")?.map(|text| text.into_owned());
    let payment = Payment::new(id.clone(), fields.moment("at")?, amount)?;
    let wait = fields.duration("wait")?.unwrap_or(Duration::from_secs(2));
    if wait > LONGEST_WAIT {
        return Err(Problem::unprocessable("wait", "wait: expected at most 20s"));
    }
    let mut value = json!({"wheel": call.wheel().name().as_str(), "id": id.as_str()});
    let mut status = StatusCode::OK;
    value["outcome"] = match call.wheel().paid(&payment, wait).await.map_err(|e| call.failed(&e))? {
        Paid::InTime(Cancelled::Already) => "already_cancelled".into(),
        Paid::InTime(_) => "cancelled".into(),
        Paid::Absent => "absent".into(),
        Paid::Skipped(ended) => {
            value["ended"] = ended_json(id.as_str(), &ended);
            "skipped".into()
        }
        Paid::Incident(incident) => {
            let word = late_word(incident.kind);
            if word == "closing" {
                status = StatusCode::ACCEPTED;
            }
            value["incident"] = incident_json(&incident);
            word.into()
        }
    };
    Ok(json(status, &value))
}

/// The last generation that there can be: microseconds since the epoch, until the year 2255, as far as scripts count exactly.
const LAST_GENERATION: u64 = 9_000_000_000_000_000;

/// The generation that the client expects. A weak tag, or a number that no generation
/// can be, never matches, so that it expects one that there is not.
fn if_match(headers: &HeaderMap) -> Result<Option<Generation>, Problem> {
    let bad = || {
        let detail = "expected If-Match with one entity tag, as ETag gave it";
        Problem::bad_request("bad_if_match", detail).of_field("If-Match")
    };
    let mut given = headers.get_all(IF_MATCH).iter();
    let Some(value) = given.next() else { return Ok(None) };
    let text = value.to_str().map_err(|_| bad())?.trim();
    if given.next().is_some() {
        return Err(bad());
    }
    if text == "*" {
        return Ok(None);
    }
    if text.starts_with("W/") {
        return Ok(Some(Generation(0)));
    }
    let bare = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    if !bare.is_empty() && bare.len() <= 16 && bare.bytes().all(|b| b.is_ascii_digit()) {
        let number = bare.parse().ok().filter(|number| *number <= LAST_GENERATION);
        return Ok(Some(Generation(number.unwrap_or(0))));
    }
    // Another's tag, which surely is not ours.
    if text.starts_with('"') && text.ends_with('"') && !text.contains(',') && text.len() > 1 {
        return Ok(Some(Generation(0)));
    }
    Err(bad())
}
