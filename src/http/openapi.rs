//! The OpenAPI document: paths and rights from the table of operations, shapes from `schema`. `docs/openapi.json` is its committed copy.

mod schema;

use axum::http::Method;
use serde_json::{Map, Value, json};

use super::operation::{Operation, Takes};
use super::problem::MEDIA_TYPE;

/// The document as text, indented as the committed copy is.
pub fn document() -> String {
    let mut text = serde_json::to_string_pretty(&value()).unwrap_or_default();
    text.push('\n');
    text
}

fn value() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in Operation::ALL {
        let path = paths.entry(operation.path()).or_insert_with(|| json!({}));
        path[operation.method().as_str().to_lowercase()] = described(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "duewheel",
            "summary": "Closes unpaid orders at their deadline: once, never early, never a paid one.",
            "description": "The manual is docs/api.md. Every answer carries X-Request-Id.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": schema::all(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "duewheel token new"}},
        },
    })
}

fn described(operation: Operation) -> Value {
    let mut described = json!({
        "operationId": operation.name(),
        "summary": summary(operation),
        "parameters": parameters(operation),
        "responses": responses(operation),
    });
    if let Some(scope) = operation.scope() {
        described["security"] = json!([{"token": [scope.as_str()]}]);
    }
    if let Some(body) = body(operation) {
        described["requestBody"] = body;
    }
    described
}

fn summary(operation: Operation) -> &'static str {
    match operation {
        Operation::Enqueue => "Places a deadline; the same id and moment twice is once",
        Operation::EnqueueBatch => "Places many deadlines, each with an answer of its own",
        Operation::Inspect => "Everything known of one deadline",
        Operation::List => "Deadlines in one state, by time, page by page",
        Operation::Cancel => "Ends a deadline that must not fire any more: the order is paid",
        Operation::Reschedule => "Moves a deadline to another moment",
        Operation::Hold => "Puts a deadline off while a payment is under way",
        Operation::Release => "Ends a hold early",
        Operation::Paid => "Reports a payment: ends the deadline, or records that it came too late",
        Operation::Close => "Closes an order now, by hand, audited",
        Operation::Stats => "The wheel in numbers",
        Operation::Forecast => "How many deadlines fire in each stretch of the future",
        Operation::ListDead => "Deadlines that wait for a person",
        Operation::Revive => "Gives dead deadlines a new life, due now",
        Operation::Drop => "Ends dead deadlines as cancelled",
        Operation::Events => "What happens, as server-sent events",
        Operation::Pause => "Stops closing, on every worker",
        Operation::Resume => "Goes on closing",
        Operation::Explain => "One order's story, and why it is not closed yet or never will be",
        Operation::Audit => "What people did to the wheel, newest first",
        Operation::BeginBulk => "Does something to all deadlines that match, or counts them",
        Operation::ListBulk => "Bulk acts under way, and the last ones",
        Operation::InspectBulk => "One bulk act",
        Operation::StopBulk => "Stops a bulk act; what is done stays done",
        Operation::Workers => "The workers of the wheel",
        Operation::Drain => "Tells a worker to claim nothing more, and to stay",
        Operation::ResumeWorker => "Lets a drained worker go on",
        Operation::Jobs => "The jobs over the orders table, each with its last runs",
        Operation::RunJob => "Asks for a run of a job by the next worker that has it",
        Operation::Wheels => "The wheels that are served",
        Operation::Document => "This document",
    }
}

fn parameters(operation: Operation) -> Vec<Value> {
    let mut parameters = Vec::new();
    let path = operation.path();
    if path.contains("{wheel}") {
        parameters.push(json!({
            "name": "wheel", "in": "path", "required": true, "description": "A configured wheel.",
            "schema": {"type": "string", "pattern": "^[a-z][a-z0-9_-]{0,47}$"}, "example": "orders",
        }));
    }
    if path.contains("{id}") {
        parameters.push(json!({
            "name": "id", "in": "path", "required": true, "description": "The order.",
            "schema": {"$ref": "#/components/schemas/Id"}, "example": "o-1042",
        }));
    }
    for (name, description, example) in [
        ("bulk", "A bulk act.", "1772337600000000"),
        ("worker", "A worker's token.", "3f2a9c0d1e4b5a69788c7d6e5f4a3b2c"),
        ("job", "A job.", "sweep"),
    ] {
        if path.contains(&format!("{{{name}}}")) {
            let schema = match name {
                "job" => json!({"enum": crate::wheel::JOBS}),
                _ => json!({"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[0-9a-z]+$"}),
            };
            parameters.push(json!({
                "name": name, "in": "path", "required": true, "description": description, "schema": schema, "example": example,
            }));
        }
    }
    for name in operation.parameters() {
        parameters.push(query_parameter(operation, name));
    }
    let mut header = |name: &str, description: &str, pattern: &str| {
        let schema = if pattern.is_empty() {
            json!({"type": "string"})
        } else {
            json!({"type": "string", "pattern": pattern})
        };
        let header = json!({"name": name, "in": "header", "required": false, "description": description, "schema": schema});
        parameters.push(header);
    };
    if operation.method() == Method::POST {
        let description = "A repeat with the same key is answered as the first one was, for 24 hours; a long batch for ten minutes.";
        header("Idempotency-Key", description, "^(\"[!#-~]{1,255}\"|[!#-~]{1,255})$");
    }
    match operation {
        Operation::Enqueue => {
            header("traceparent", "W3C traceparent; one that is none is as good as none.", "")
        }
        Operation::Reschedule => {
            header("If-Match", "The ETag that was seen.", "^([*]|(W/)?\"[!#-+.-~-]*\"|[0-9]{1,16})$");
        }
        Operation::Events => {
            let description = "The id of the last event that was seen: goes on behind it.";
            header("Last-Event-ID", description, "^[0-9]+-[0-9]+[.][0-9]+[.][0-9]+$");
        }
        _ => {}
    }
    parameters
}

fn query_parameter(operation: Operation, name: &str) -> Value {
    let (description, schema) = match name {
        "id" => ("Only what names this order.", schema::reference("Id")),
        "act" => ("Only this act.", json!({"enum": crate::operator::Act::words()})),
        "limit" if operation == Operation::Jobs => {
            ("Runs of each job.", json!({"type": "integer", "minimum": 1, "maximum": 100, "default": 10}))
        }
        "state" => ("The state.", json!({"enum": super::deadlines::STATES, "default": "scheduled"})),
        "from" => ("From this moment on.", schema::reference("MomentText")),
        "to" => ("Up to this moment.", schema::reference("MomentText")),
        "attempts" => (
            "Only with at least so many failed attempts; of an ended one, so many in all. There is no index: a page may be short, or empty, and go on.",
            json!({"type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 0}),
        ),
        "reason" => (
            "Those that are dead or tried again, and whose reason holds this text. There is no index: a page may be short, or empty, and go on.",
            json!({"type": "string"}),
        ),
        "payload" => (
            "Those whose payload has this value in this field, as in `user_id=4711` or `buyer.name=Li`, or holds this text. Ended ones have none. There is no index: a page may be short, or empty, and go on.",
            json!({"type": "string"}),
        ),
        "limit" => {
            ("Rows of a page.", json!({"type": "integer", "minimum": 1, "maximum": 500, "default": 50}))
        }
        "cursor" => ("The page that the one before named as next.", json!({"type": "string"})),
        "step" => ("The length of a stretch.", schema::reference("Duration")),
        "count" => ("Stretches.", json!({"type": "integer", "minimum": 1, "maximum": 1500, "default": 60})),
        "since" => ("From this long ago on; without it from now on.", schema::reference("Duration")),
        "type" => (
            "Only these kinds, separated by commas; may be repeated.",
            json!({"type": "array", "items": {"enum": crate::wheel::EVENT_KINDS}}),
        ),
        _ => (
            "What to do with ids that are scheduled for another moment.",
            json!({"enum": super::placement::RULES, "default": "keep"}),
        ),
    };
    let mut parameter =
        json!({"name": name, "in": "query", "required": false, "description": description, "schema": schema});
    if name == "type" {
        parameter["style"] = "form".into();
        parameter["explode"] = false.into();
    }
    parameter
}

fn body(operation: Operation) -> Option<Value> {
    let schema = match operation {
        Operation::Enqueue => "Placement",
        Operation::Reschedule => "When",
        Operation::Hold => "Hold",
        Operation::Release => "Nothing",
        Operation::Paid => "Payment",
        Operation::Close | Operation::Pause => "Reason",
        Operation::Resume => "PerhapsReason",
        Operation::Revive | Operation::Drop => "Chosen",
        Operation::BeginBulk => "BulkAct",
        Operation::Drain => "Reason",
        Operation::ResumeWorker => "PerhapsReason",
        Operation::RunJob => "JobRun",
        Operation::EnqueueBatch => "Batch",
        _ => return None,
    };
    let mut content = json!({"application/json": {"schema": schema::reference(schema)}});
    if operation.takes() == Takes::Batch {
        let lines = "One item a line.";
        content["application/x-ndjson"] = json!({"schema": {"type": "string", "description": lines}});
    }
    Some(json!({"required": operation.takes() != Takes::Perhaps, "content": content}))
}

/// Every status that may be answered, with its shape.
fn responses(operation: Operation) -> Value {
    let mut responses = Map::new();
    for (status, shape) in good(operation) {
        let (media, schema) = match *shape {
            "Events" => ("text/event-stream", json!({"type": "string"})),
            "Document" => ("application/json", json!({"type": "object"})),
            shape => ("application/json", schema::reference(shape)),
        };
        let mut response = json!({"description": says(*status), "content": {media: {"schema": schema}}});
        if matches!(*shape, "Enqueued" | "Scheduled" | "Inspected") {
            response["headers"] =
                json!({"ETag": {"schema": {"type": "string"}, "description": "The generation."}});
        }
        if operation == Operation::Enqueue {
            response["links"] = links();
        }
        responses.insert(status.to_string(), response);
    }
    for status in bad(operation) {
        let mut response = json!({
            "description": says(status),
            "content": {MEDIA_TYPE: {"schema": schema::reference("Problem")}},
        });
        if status == 429 {
            response["headers"] =
                json!({"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}});
        }
        responses.insert(status.to_string(), response);
    }
    responses.into()
}

/// What can be done with a deadline that was placed.
fn links() -> Value {
    let same = json!({"wheel": "$request.path.wheel", "id": "$request.path.id"});
    let about = [
        Operation::Inspect,
        Operation::Reschedule,
        Operation::Hold,
        Operation::Release,
        Operation::Paid,
        Operation::Close,
        Operation::Cancel,
    ];
    let link = |operation: Operation| {
        (operation.name().to_owned(), json!({"operationId": operation.name(), "parameters": same}))
    };
    Value::Object(about.into_iter().map(link).collect())
}

/// What is answered when all is well.
fn good(operation: Operation) -> &'static [(u16, &'static str)] {
    match operation {
        Operation::Enqueue => &[(200, "Enqueued"), (201, "Enqueued")],
        Operation::EnqueueBatch => &[(200, "BatchAnswer"), (207, "BatchAnswer")],
        Operation::Inspect => &[(200, "Inspected")],
        Operation::List | Operation::ListDead => &[(200, "Page")],
        Operation::Cancel => &[(200, "Cancelled"), (202, "Cancelled")],
        Operation::Reschedule | Operation::Hold | Operation::Release => &[(200, "Scheduled")],
        Operation::Close => &[(202, "Scheduled")],
        Operation::Paid => &[(200, "Paid"), (202, "Paid")],
        Operation::Stats => &[(200, "Stats")],
        Operation::Forecast => &[(200, "Forecast")],
        Operation::Revive | Operation::Drop => &[(200, "SeenTo"), (207, "SeenTo")],
        Operation::Events => &[(200, "Events")],
        Operation::Pause | Operation::Resume => &[(200, "Written"), (207, "Written")],
        Operation::Explain => &[(200, "Explanation")],
        Operation::Audit => &[(200, "Audit")],
        Operation::BeginBulk => &[(200, "Matched"), (202, "Bulk")],
        Operation::ListBulk => &[(200, "Bulks")],
        Operation::InspectBulk | Operation::StopBulk => &[(200, "Bulk")],
        Operation::Workers => &[(200, "Workers")],
        Operation::Drain | Operation::ResumeWorker => &[(202, "WorkerTold")],
        Operation::Jobs => &[(200, "Jobs")],
        Operation::RunJob => &[(202, "JobAsked")],
        Operation::Wheels => &[(200, "Wheels")],
        Operation::Document => &[(200, "Document")],
    }
}

/// What else may be answered.
fn bad(operation: Operation) -> Vec<u16> {
    let mut statuses = vec![400];
    if operation.scope().is_some() {
        statuses.extend([401, 403, 429, 500, 503]);
    }
    if operation.path().contains("{wheel}") {
        statuses.push(404);
    }
    if operation.takes() != Takes::Nothing {
        statuses.extend([408, 413, 415, 422]);
    }
    if !operation.parameters().is_empty()
        || operation.method() == Method::GET
        || operation == Operation::Cancel
    {
        statuses.push(422);
    }
    match operation {
        Operation::Reschedule => statuses.extend([409, 412]),
        Operation::Enqueue | Operation::Cancel => statuses.push(409),
        _ if operation.method() == Method::POST => statuses.push(409),
        _ => {}
    }
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

fn says(status: u16) -> &'static str {
    match status {
        200 => "Done, or known already.",
        201 => "Placed.",
        202 => "Under way.",
        207 => "Some of it; each says for itself.",
        400 => "The request makes no sense.",
        401 => "No token, or one that is not valid.",
        403 => "The token lacks the scope.",
        404 => "No such wheel, or nothing is known of the id.",
        408 => "The body did not come in time.",
        409 => "The deadline is in another state; nothing was changed.",
        412 => "The generation is another one; nothing was changed.",
        413 => "The body is too long.",
        415 => "The body is of a kind that is not understood.",
        422 => "A value is not valid; `field` names it.",
        429 => "No room just now.",
        500 => "A person must look at the server.",
        _ => "Redis does not serve this now; `stored` says whether something may have been changed.",
    }
}
