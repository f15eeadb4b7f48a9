//! The dead, which wait for a person: listed, given a new life or dropped, by id or by what they have in common.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::call::{Call, Outcome, json};
use super::deadlines::page;
use super::fields::Fields;
use super::problem::Problem;
use crate::clock::Moment;
use crate::deadline::{Id, State};
use crate::wheel::answer::Row;
use crate::wheel::shape::scheduled_json;

/// The most that one call revives or drops.
pub(super) const MOST: usize = 1000;

/// `GET …/dead`.
pub(super) async fn list(call: Call) -> Outcome {
    let limit = call.query.whole("limit", 1..=500, 50)?;
    page(&call, State::Dead, Moment::EPOCH, Moment::MAX, limit).await
}

/// `POST …/dead/revive`.
pub(super) async fn revive(call: Call) -> Outcome {
    let fields = call.fields(MEMBERS)?;
    let (operator, why) = (call.operator(&fields)?, call.reason(&fields)?);
    let chosen = choose(&call, &fields).await?;
    let name = call.wheel().name().as_str();
    let answers = operator.revive(&chosen.ids, &why).await;
    let result = |(id, answer): (&Id, _)| match answer {
        Ok(Ok(scheduled)) => scheduled_json(name, id.as_str(), "revived", &scheduled),
        Ok(Err(refusal)) => problem_of(id, &Problem::refused(name, id, &refusal)),
        Err(e) => problem_of(id, &call.failed(&e)),
    };
    let answers = answers.map_err(|e| call.failed(&e))?;
    let results = chosen.ids.iter().zip(answers).map(result).collect();
    Ok(answered(&call, "revived", &chosen, results))
}

/// `POST …/dead/drop`.
pub(super) async fn drop(call: Call) -> Outcome {
    let fields = call.fields(MEMBERS)?;
    let (operator, why) = (call.operator(&fields)?, call.reason(&fields)?);
    let chosen = choose(&call, &fields).await?;
    let name = call.wheel().name().as_str();
    let answers = operator.drop(&chosen.ids, &why).await;
    let result = |(id, answer): (&Id, _)| match answer {
        Ok(Ok(_)) => json!({"id": id.as_str(), "outcome": "dropped"}),
        Ok(Err(refusal)) => problem_of(id, &Problem::refused(name, id, &refusal)),
        Err(e) => problem_of(id, &call.failed(&e)),
    };
    let answers = answers.map_err(|e| call.failed(&e))?;
    let results = chosen.ids.iter().zip(answers).map(result).collect();
    Ok(answered(&call, "dropped", &chosen, results))
}

/// The members of their bodies.
const MEMBERS: &[&str] = &["ids", "filter", "reason", "actor"];

/// What a call is about.
struct Chosen {
    ids: Vec<Id>,
    /// Whether the filter fits others, too.
    more: bool,
}

async fn choose(call: &Call, fields: &Fields<'_>) -> Result<Chosen, Problem> {
    let ids = fields.texts("ids")?;
    let filter = fields.object("filter", &["from", "to", "reason", "all"])?;
    match (ids, filter) {
        (Some(ids), None) => {
            if ids.is_empty() || ids.len() > MOST {
                return Err(Problem::unprocessable("ids", format!("ids: expected 1 to {MOST}")));
            }
            let ids = ids.iter().map(|id| Id::new(id)).collect::<Result<_, _>>()?;
            Ok(Chosen { ids, more: false })
        }
        (None, Some(filter)) => {
            let (from, to) = (filter.moment("from")?, filter.moment("to")?);
            let (reason, all) = (filter.text("reason")?, filter.flag("all")?);
            if from.is_none() && to.is_none() && reason.is_none() && !all {
                let detail = "filter: expected from, to or reason; or all: true";
                return Err(Problem::unprocessable("filter", detail));
            }
            let (from, to) = (from.unwrap_or(Moment::EPOCH), to.unwrap_or(Moment::MAX));
            found(call, from, to, reason.as_deref()).await
        }
        _ => Err(Problem::unprocessable("ids", "expected either ids or filter")),
    }
}

/// Those that died from `from` to `to` for a reason that holds this text.
async fn found(call: &Call, from: Moment, to: Moment, because: Option<&str>) -> Result<Chosen, Problem> {
    let (mut ids, mut cursor) = (Vec::new(), None);
    loop {
        let page = call.wheel().list(State::Dead, from, to, cursor.as_ref(), 500).await;
        let page = page.map_err(|e| Problem::failed(&e, false))?;
        for row in page.rows {
            if let Row::Live { entry, reason, .. } = row
                && because.is_none_or(|text| reason.is_some_and(|reason| reason.contains(text)))
            {
                if ids.len() == MOST {
                    return Ok(Chosen { ids, more: true });
                }
                ids.push(entry.id);
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(Chosen { ids, more: false });
        }
    }
}

fn problem_of(id: &Id, problem: &Problem) -> Value {
    let mut members = problem.members();
    members.insert("id".to_owned(), id.as_str().into());
    Value::Object(members)
}

fn answered(call: &Call, outcome: &str, chosen: &Chosen, results: Vec<Value>) -> axum::response::Response {
    let done = results.iter().filter(|one| one.get("outcome").is_some()).count();
    tracing::info!(
        sender = call.sender, wheel = %call.wheel().name(), outcome, done, request_id = call.request_id,
        "the dead were seen to"
    );
    let status = if done == results.len() { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    let value = json!({
        "wheel": call.wheel().name().as_str(),
        outcome: done,
        "refused": results.len() - done,
        "more": chosen.more,
        "results": results,
    });
    json(status, &value)
}
