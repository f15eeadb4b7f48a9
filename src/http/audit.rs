//! What people did to the wheel.

use axum::http::StatusCode;
use serde_json::json;

use super::call::{Call, Outcome, json};
use super::query::one_of;
use crate::deadline::Id;
use crate::operator::Act;
use crate::wheel::AuditFilter;
use crate::wheel::answer::Cursor;

/// `GET …/audit`.
pub(super) async fn list(call: Call) -> Outcome {
    let id = call.query.text("id").map(Id::new).transpose()?;
    let act = call.query.text("act").map(str::to_owned);
    if let Some(act) = &act {
        one_of("act", act, &Act::words())?;
    }
    let limit = usize::try_from(call.query.whole("limit", 1..=500, 50)?).unwrap_or(500);
    let cursor = call.query.text("cursor").map(|text| Cursor(text.to_owned()));
    let page = call.wheel().audit(&AuditFilter { id, act, or_bulk: false }, cursor.as_ref(), limit).await;
    let page = page.map_err(|e| call.failed(&e))?;
    let value = json!({
        "wheel": call.wheel().name().as_str(),
        "acts": page.entries,
        "next": page.next.map(|next| next.0),
    });
    Ok(json(StatusCode::OK, &value))
}
