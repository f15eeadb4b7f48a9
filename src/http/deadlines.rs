//! One deadline: place it, look at it, end it; and the listing of many.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::call::{Call, Outcome, json, tagged};
use super::placement;
use super::problem::Problem;
use crate::clock::Moment;
use crate::deadline::{Generation, State};
use crate::error::Result;
use crate::trace::Traceparent;
use crate::wheel::answer::{Answer, Cancelled, Cursor, Enqueued, EnqueuedHow, Inspection, Row};
use crate::wheel::shape::{EntryJson, ended_json, enqueued_json, entry_json, failures_json, row_json};
use crate::wheel::{Look, Narrow};

/// `PUT …/deadlines/{id}`.
pub(super) async fn enqueue(call: Call) -> Outcome {
    let fields = call.fields(placement::MEMBERS)?;
    let on_conflict = placement::on_conflict(fields.text("on_conflict")?.as_deref())?;
    let (mut deadline, channel) = placement::deadline(call.id()?.clone(), &fields, call.wheel().settings())?;
    // As W3C asks: a header that is no traceparent is as good as none.
    let header = call.headers.get("traceparent").and_then(|value| value.to_str().ok());
    deadline.traceparent = header.filter(|text| Traceparent::parse(text).is_some()).map(str::to_owned);
    if let Some(channel) = channel {
        let now = call.wheel().now().await.map_err(|e| Problem::failed(&e, false))?;
        channel.admit(deadline.due_at, call.wheel(), now)?;
    }
    let answer = call.door.combiner.enqueue(vec![deadline], on_conflict).await.pop();
    let Some(answer) = answer else { return Err(Problem::busy("no answer")) };
    let (status, value, generation) = enqueued(&call, answer)?;
    Ok(tagged(status, &value, generation))
}

fn enqueued(
    call: &Call,
    answer: Result<Answer<Enqueued>>,
) -> Result<(StatusCode, Value, Generation), Problem> {
    let (name, id) = (call.wheel().name().as_str(), call.id()?);
    match answer.map_err(|e| call.failed(&e))? {
        Ok(enqueued) => {
            Ok((status_of(enqueued.how), enqueued_json(name, id.as_str(), &enqueued), enqueued.generation))
        }
        Err(refusal) => Err(Problem::refused(name, id, &refusal)),
    }
}

/// 201 for a new life, 200 for what was there.
pub(super) fn status_of(how: EnqueuedHow) -> StatusCode {
    match how {
        EnqueuedHow::New | EnqueuedHow::Resurrected => StatusCode::CREATED,
        EnqueuedHow::Exists | EnqueuedHow::Replaced => StatusCode::OK,
    }
}

/// `DELETE …/deadlines/{id}`.
pub(super) async fn cancel(call: Call) -> Outcome {
    let (name, id) = (call.wheel().name().as_str(), call.id()?);
    let answer = call.wheel().cancel(std::slice::from_ref(id)).await.pop();
    let Some(answer) = answer else { return Err(Problem::busy("no answer")) };
    match answer.map_err(|e| call.failed(&e))? {
        Ok(cancelled) => cancelled_as(name, id, cancelled),
        Err(refusal) => Err(Problem::refused(name, id, &refusal)),
    }
}

/// What a cancellation did. An id that nobody knows is a 404, though its cancellation is remembered: a misspelt one must be seen.
fn cancelled_as(name: &str, id: &crate::deadline::Id, cancelled: Cancelled) -> Outcome {
    let status = match cancelled {
        Cancelled::Cancelled | Cancelled::Already => StatusCode::OK,
        Cancelled::Leased => StatusCode::ACCEPTED,
        Cancelled::Absent => {
            let detail = "nothing is known of it; the cancellation is remembered";
            return Err(Problem::not_found("absent", detail));
        }
    };
    Ok(json(status, &json!({"outcome": cancelled.as_str(), "wheel": name, "id": id.as_str()})))
}

#[derive(serde::Serialize)]
struct Inspected<'a> {
    wheel: &'a str,
    id: &'a str,
    shard: u16,
    state: &'static str,
    now: String,
    paused: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<EntryJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ends_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    died: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<Value>,
}

/// `GET …/deadlines/{id}`.
pub(super) async fn inspect(call: Call) -> Outcome {
    let id = call.id()?;
    let seen = call.wheel().inspect(id).await.map_err(|e| call.failed(&e))?;
    if seen.state == State::Absent {
        return Err(Problem::not_found("absent", "nothing is known of it"));
    }
    let generation = seen.entry.as_ref().map(|entry| entry.generation);
    let generation = generation.or(seen.ended.as_ref().map(|ended| ended.generation));
    Ok(tagged(StatusCode::OK, &inspected(&call, id.as_str(), &seen), generation.unwrap_or(Generation(0))))
}

fn inspected<'a>(call: &'a Call, id: &'a str, seen: &Inspection) -> Inspected<'a> {
    let died = |(at, reason): &(Moment, String)| json!({"at": at.to_string(), "at_ms": at.as_millis(), "reason": reason});
    Inspected {
        wheel: call.wheel().name().as_str(),
        id,
        shard: seen.shard.0,
        state: seen.state.as_str(),
        now: seen.now.to_string(),
        paused: seen.paused,
        deadline: seen.entry.as_ref().map(|entry| entry_json(entry, seen.state.as_str(), seen.failure())),
        lease_ends_at: seen.lease_ends_at().map(|at| at.to_string()),
        died: seen.death.as_ref().map(died),
        failures: failures_json(&seen.failures),
        ended: seen.ended.as_ref().map(|ended| ended_json(id, ended)),
    }
}

/// The states that can be listed.
pub(super) const STATES: [&str; 5] = ["scheduled", "due", "leased", "dead", "ended"];

/// `GET …/deadlines`.
pub(super) async fn list(call: Call) -> Outcome {
    let (query, wheel) = (&call.query, call.wheel());
    let word = query.word("state", &STATES, "scheduled")?;
    let state = match word {
        "leased" => State::Leased,
        "dead" => State::Dead,
        "ended" => State::Ended,
        _ => State::Scheduled,
    };
    let (from, to) = (query.moment("from")?, query.moment("to")?);
    if state == State::Ended && (from.is_some() || to.is_some()) {
        let detail = "from and to do not select ended deadlines, which are in no order";
        return Err(Problem::unprocessable("from", detail));
    }
    let limit = query.whole("limit", 1..=500, 50)?;
    let to = match word {
        "due" => {
            let now = wheel.now().await.map_err(|e| call.failed(&e))?;
            to.unwrap_or(now).min(now)
        }
        _ => to.unwrap_or(Moment::MAX),
    };
    let narrow = Narrow {
        attempts: query.whole("attempts", 0..=1_000_000, 0)?,
        reason: query.text("reason").filter(|text| !text.is_empty()).map(str::to_owned),
        payload: query.text("payload").filter(|text| !text.is_empty()).map(str::to_owned),
    };
    if narrow.payload.is_some() && state == State::Ended {
        let detail = "payload does not select ended deadlines, whose payloads are not kept";
        return Err(Problem::unprocessable("payload", detail));
    }
    if narrow.reason.is_some() && state == State::Ended {
        let detail = "reason does not select ended deadlines, of which none is kept";
        return Err(Problem::unprocessable("reason", detail));
    }
    let from = from.unwrap_or(Moment::EPOCH);
    if narrow.is_wide() {
        return page(&call, state, from, to, limit).await;
    }
    let cursor = query.text("cursor").map(|text| Cursor(text.to_owned()));
    let look =
        Look { limit: usize::try_from(limit).unwrap_or(500), most: NARROW_MOST, longest: NARROW_LONGEST };
    let found = wheel.list_narrow(None, state, from..=to, &narrow, cursor.as_ref(), look).await;
    let found = found.map_err(|e| call.failed(&e))?.page;
    Ok(listed(wheel.name().as_str(), &found.rows, found.next.map(|next| next.0)))
}

/// Deadlines that one page looks at, and how long it may take, where it is narrowed by what has no index.
const NARROW_MOST: u64 = 100_000;
const NARROW_LONGEST: Duration = Duration::from_millis(150);

/// One page of a listing.
pub(super) async fn page(call: &Call, state: State, from: Moment, to: Moment, limit: u32) -> Outcome {
    let cursor = call.query.text("cursor").map(|text| Cursor(text.to_owned()));
    let limit = usize::try_from(limit).unwrap_or(500);
    let page = call.wheel().list(state, from, to, cursor.as_ref(), limit).await;
    let page = page.map_err(|e| call.failed(&e))?;
    Ok(listed(call.wheel().name().as_str(), &page.rows, page.next.map(|next| next.0)))
}

#[derive(serde::Serialize)]
struct Listed<'a> {
    wheel: &'a str,
    deadlines: Vec<Box<RawValue>>,
    /// What `cursor` takes for the next page; `null` at the end.
    next: Option<String>,
}

fn listed(wheel: &str, rows: &[Row], next: Option<String>) -> Response {
    let text = |row: &Row| RawValue::from_string(row_json(row).ok()?).ok();
    let deadlines = rows.iter().filter_map(text).collect();
    json(StatusCode::OK, &Listed { wheel, deadlines, next })
}
