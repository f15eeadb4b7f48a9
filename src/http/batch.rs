//! Many deadlines in one request: a JSON array, or NDJSON. Each item has an answer of its own, in the same order.

use axum::http::StatusCode;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::body::Kind;
use super::call::{Call, Outcome, json};
use super::deadlines::status_of;
use super::fields::bad_json;
use super::placement::{self, Channel};
use super::problem::Problem;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::wheel::answer::{Answer, Enqueued};
use crate::wheel::shape::enqueued_json;

/// The most items of a batch.
pub(super) const MOST: usize = 1000;

/// `POST …/deadlines`. 200 where every item was placed, else 207; 503 where nothing is known of any.
pub(super) async fn enqueue(call: Call) -> Outcome {
    let on_conflict = placement::on_conflict(call.query.text("on_conflict"))?;
    let texts = items(&call)?;
    if texts.is_empty() || texts.len() > MOST {
        let detail = format!("{} items: expected 1 to {MOST}", texts.len());
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "batch_size", detail));
    }
    let (deadlines, mut results) = read(&call, &texts).await?;
    let answers = if deadlines.is_empty() {
        Vec::new()
    } else {
        call.door.combiner.enqueue(deadlines.iter().map(|(_, d)| d.clone()).collect(), on_conflict).await
    };
    if let Some(Err(first)) = answers.first()
        && answers.iter().all(Result::is_err)
        && results.iter().all(Value::is_null)
    {
        return Err(call.failed(first));
    }
    for ((at, deadline), answer) in deadlines.iter().zip(answers) {
        results[*at] = result(&call, deadline, answer);
    }
    let placed = results.iter().filter(|one| one["status"].as_u64().is_some_and(|s| s < 300)).count();
    let status = if placed == results.len() { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    let value = json!({
        "wheel": call.wheel().name().as_str(),
        "placed": placed,
        "refused": results.len() - placed,
        "results": results,
    });
    Ok(json(status, &value))
}

/// The text of each item.
fn items(call: &Call) -> Result<Vec<&str>, Problem> {
    let text = call.text()?;
    match call.kind {
        Kind::Json => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|e| bad_json(&e))?;
            Ok(items.into_iter().map(RawValue::get).collect())
        }
        // Empty lines say nothing.
        Kind::Lines => Ok(text.lines().filter(|line| !line.trim().is_empty()).collect()),
    }
}

/// The deadlines that can be placed, each with its place among the items, and what became of the others.
async fn read(call: &Call, texts: &[&str]) -> Result<(Vec<(usize, Deadline)>, Vec<Value>), Problem> {
    let mut results = vec![Value::Null; texts.len()];
    let mut read: Vec<(usize, Deadline, Option<Channel>)> = Vec::with_capacity(texts.len());
    for (at, text) in texts.iter().enumerate() {
        match placement::item(text, call.wheel().settings()) {
            Ok((deadline, channel)) => read.push((at, deadline, channel)),
            Err(problem) => results[at] = refused(at, None, &problem),
        }
    }
    let asks = read.iter().any(|(_, _, channel)| channel.is_some());
    let now =
        if asks { Some(call.wheel().now().await.map_err(|e| Problem::failed(&e, false))?) } else { None };
    let mut deadlines = Vec::with_capacity(read.len());
    for (at, deadline, channel) in read {
        let admitted = match (&channel, now) {
            (Some(channel), Some(now)) => channel.admit(deadline.due_at, call.wheel(), now),
            _ => Ok(()),
        };
        match admitted {
            Ok(()) => deadlines.push((at, deadline)),
            Err(problem) => results[at] = refused(at, Some(deadline.id.as_str()), &problem),
        }
    }
    Ok((deadlines, results))
}

fn result(call: &Call, deadline: &Deadline, answer: Result<Answer<Enqueued>>) -> Value {
    let (name, id) = (call.wheel().name().as_str(), &deadline.id);
    let problem = match answer {
        Ok(Ok(enqueued)) => {
            let mut value = enqueued_json(name, id.as_str(), &enqueued);
            value["status"] = status_of(enqueued.how).as_u16().into();
            if let Some(members) = value.as_object_mut() {
                members.remove("wheel");
            }
            return value;
        }
        Ok(Err(refusal)) => Problem::refused(name, id, &refusal),
        Err(e) => call.failed(&e),
    };
    let mut members = problem.members();
    members.remove("wheel");
    members.insert("id".to_owned(), id.as_str().into());
    Value::Object(members)
}

/// An item that was not sent: its place says which, where its id could not be read.
fn refused(at: usize, id: Option<&str>, problem: &Problem) -> Value {
    let mut members = problem.members();
    members.insert("index".to_owned(), at.into());
    if let Some(id) = id {
        members.insert("id".to_owned(), id.into());
    }
    Value::Object(members)
}
