//! One order's story.

use super::call::{Call, Outcome};

/// `GET …/deadlines/{id}/explain`.
#[cfg(feature = "sql")]
pub(super) async fn explain(call: Call) -> Outcome {
    use super::call::json;
    use super::problem::Problem;
    use crate::sweep::Explanation;

    let id = call.id()?;
    let story = Explanation::of(call.wheel(), call.door.served.table.as_ref(), id).await;
    let story = story.map_err(|e| call.failed(&e))?;
    if !story.is_known() {
        return Err(Problem::not_found("absent", "nobody knows anything of it"));
    }
    Ok(json(axum::http::StatusCode::OK, &story.json(call.wheel().name().as_str(), id.as_str())))
}

/// Without the orders table there is nothing to tell beside what `GET …/deadlines/{id}` does.
#[cfg(not(feature = "sql"))]
pub(super) async fn explain(call: Call) -> Outcome {
    super::deadlines::inspect(call).await
}
