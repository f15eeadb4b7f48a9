//! From the endpoint's answer to a verdict: the table of docs/hook-webhook.md.

use std::time::Duration;

use hyper::header::{HeaderMap, LOCATION, RETRY_AFTER};
use serde::Deserialize;

use super::pool::Reply;
use super::reason::Reasons;
use super::retry_after;
use crate::clock::Moment;
use crate::error::shown;
use crate::hook::Verdict;

/// What a receiver that knows duewheel writes: `{"verdict": "paid"}`. Other members are ignored, and so is one of the wrong type.
#[derive(Debug, Deserialize)]
struct OurAnswer {
    verdict: String,
    #[serde(default)]
    state: serde_json::Value,
    #[serde(default, alias = "close_at")]
    until: serde_json::Value,
    #[serde(default)]
    reason: serde_json::Value,
}

/// What the answer means for the order. `cap` bounds an obeyed `Retry-After`.
pub(super) fn of(reply: &Reply, reasons: &Reasons, cap: Duration) -> Verdict {
    let status = reply.status;
    let is_success = (200..300).contains(&status);
    let is_redirect = (300..400).contains(&status);
    // A redirect is never followed, and what stands beside it is not the endpoint's word on an order.
    if is_redirect {
        return Verdict::Failed { reason: reasons.say(&redirect(status, &reply.headers)) };
    }
    if let Some(broken) = &reply.broken {
        // The lost part may have said that the order is paid: ask again, under the same webhook-id.
        return unavailable(reasons.say(&format!("status {status}, but {broken}")), reply, cap);
    }
    if let Ok(answer) = serde_json::from_slice::<OurAnswer>(&reply.body)
        && let Some(verdict) = spoken(&answer, reply, reasons, cap)
    {
        return verdict;
    }
    match status {
        _ if is_success => Verdict::Closed,
        408 | 425 | 429 | 502..=504 => {
            unavailable(reasons.say_with(&format!("status {status}"), &reply.body), reply, cap)
        }
        _ => Verdict::Failed { reason: reasons.say_with(&format!("status {status}"), &reply.body) },
    }
}

/// The receiver's own word, whatever the status; `None` where the word is not one of ours and the status is no success either.
fn spoken(answer: &OurAnswer, reply: &Reply, reasons: &Reasons, cap: Duration) -> Option<Verdict> {
    let said = || {
        let what = format!("status {}, verdict {}", reply.status, answer.verdict);
        reasons.say_with(&what, answer.reason.as_str().unwrap_or_default().as_bytes())
    };
    let state = |word: &str| Verdict::Skipped { state: shown(answer.state.as_str().unwrap_or(word)) };
    Some(match answer.verdict.as_str() {
        "closed" => Verdict::Closed,
        "paid" => state("paid"),
        "already_closed" => state("closed"),
        "skipped" => state("skipped"),
        "not_due" => Verdict::NotDue { until: moment(&answer.until) },
        "unavailable" => unavailable(said(), reply, cap),
        "failed" => Verdict::Failed { reason: said() },
        "rejected" => Verdict::Rejected { reason: said() },
        "gone" => Verdict::Gone { reason: said() },
        // A success with a word that is not understood must not end the order: it may say that nothing was closed.
        other if (200..300).contains(&reply.status) => Verdict::Failed {
            reason: reasons.say(&format!("status {}, but verdict \"{other}\" is unknown", reply.status)),
        },
        _ => return None,
    })
}

/// RFC 3339 with an offset, or epoch milliseconds; anything else is no moment, and the worker's own wait stands.
fn moment(until: &serde_json::Value) -> Option<Moment> {
    match until {
        serde_json::Value::String(text) => Moment::parse("until", text).ok(),
        serde_json::Value::Number(number) => Moment::parse("until", &number.to_string()).ok(),
        _ => None,
    }
}

fn unavailable(reason: String, reply: &Reply, cap: Duration) -> Verdict {
    let asked = reply.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let retry_after = asked.and_then(|value| retry_after::parse(value, Moment::host_now(), cap));
    Verdict::Unavailable { reason, retry_after }
}

fn redirect(status: u16, headers: &HeaderMap) -> String {
    match headers.get(LOCATION) {
        Some(location) => {
            let location = String::from_utf8_lossy(location.as_bytes());
            // A query may carry a ticket.
            let bare = location.split(['?', '#']).next().unwrap_or_default();
            format!(
                "status {status}, redirect to \"{bare}\" is not followed; set the url to where calls belong"
            )
        }
        None => format!("status {status} without a Location, redirects are not followed"),
    }
}
