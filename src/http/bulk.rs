//! Something done to all deadlines that match, as a job of the wheel: counted, begun, looked at, stopped.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::call::{Call, Outcome, json};
use super::problem::Problem;
use super::query::one_of;
use crate::wheel::{Bulk, BulkAct, BulkFilter};

/// `POST …/bulk`. 200 where it was only counted, 202 where it was begun.
pub(super) async fn begin(call: Call) -> Outcome {
    let fields = call.fields(&["act", "for", "filter", "most", "count", "reason", "actor"])?;
    let (operator, word) = (call.operator(&fields)?, fields.needed("act")?);
    one_of("act", &word, &BulkAct::WORDS)?;
    let act = BulkAct::parse(&word, fields.duration("for")?)?;
    let filter = match fields.object("filter", &["reason", "group", "prefix", "from", "to", "all"])? {
        None => return Err(Problem::unprocessable("filter", "filter: is missing; {\"all\": true} for all")),
        Some(filter) => {
            let text = |name| Ok::<_, Problem>(filter.text(name)?.map(|text| text.into_owned()));
            let moment = |name| Ok::<_, Problem>(filter.moment(name)?.map(|at| at.as_millis()));
            let read = BulkFilter {
                reason: text("reason")?,
                group: text("group")?,
                prefix: text("prefix")?,
                from_ms: moment("from")?,
                to_ms: moment("to")?,
            };
            if !filter.flag("all")? && read == BulkFilter::default() {
                let detail = "filter: expected reason, group, prefix, from or to; or all: true";
                return Err(Problem::unprocessable("filter", detail));
            }
            read
        }
    };
    let most = fields.whole("most", 1)?;
    if fields.flag("count")? {
        let count = operator.preview(act, &filter).await.map_err(|e| call.failed(&e))?;
        let mut value = json!(count);
        value["wheel"] = call.wheel().name().as_str().into();
        return Ok(json(StatusCode::OK, &value));
    }
    let bulk = operator.begin_bulk(act, filter, most, &call.reason(&fields)?).await;
    let bulk = bulk.map_err(|e| call.failed(&e))?;
    Ok(json(StatusCode::ACCEPTED, &shape(&call, &bulk)))
}

/// `GET …/bulk`.
pub(super) async fn list(call: Call) -> Outcome {
    let bulks = call.wheel().bulks().await.map_err(|e| call.failed(&e))?;
    let value = json!({"wheel": call.wheel().name().as_str(), "bulks": bulks});
    Ok(json(StatusCode::OK, &value))
}

/// `GET …/bulk/{bulk}`.
pub(super) async fn inspect(call: Call) -> Outcome {
    let found = call.wheel().bulk(call.part()).await.map_err(|e| call.failed(&e))?;
    Ok(json(StatusCode::OK, &shape(&call, &found.ok_or_else(absent)?)))
}

/// `DELETE …/bulk/{bulk}`. What is done stays done.
pub(super) async fn stop(call: Call) -> Outcome {
    let operator = call.bare_operator()?;
    let found = operator.stop_bulk(call.part(), "").await.map_err(|e| call.failed(&e))?;
    Ok(json(StatusCode::OK, &shape(&call, &found.ok_or_else(absent)?)))
}

fn absent() -> Problem {
    Problem::not_found("absent", "there is no bulk act of that id")
}

fn shape(call: &Call, bulk: &Bulk) -> Value {
    let mut value = json!(bulk);
    value["wheel"] = call.wheel().name().as_str().into();
    value
}
