//! The shapes of bodies and answers.

use serde_json::{Value, json};

use crate::http::{batch, dead, placement};
use crate::operator::Act;
use crate::wheel::BulkAct;

/// What follows the largest unit of a duration: each part less than one of the unit before it.
const HOURS: &str = "( ?(1?[0-9]|2[0-3])h)?( ?[1-5]?[0-9]m)?( ?[1-5]?[0-9]s)?( ?[0-9]{1,3}ms)?";
const MINUTES: &str = "( ?[1-5]?[0-9]m)?( ?[1-5]?[0-9]s)?( ?[0-9]{1,3}ms)?";
const SECONDS: &str = "( ?[1-5]?[0-9]s)?( ?[0-9]{1,3}ms)?";
const MILLIS: &str = "( ?[0-9]{1,3}ms)?";

/// A duration, as `clock` reads it; numbers of any sensible size.
fn duration() -> String {
    let days = format!("[0-9]{{1,5}}d{HOURS}");
    format!(
        "^(0|[0-9]{{1,4}}y( ?[0-9]{{1,3}}d)?{HOURS}|{days}|[0-9]{{1,6}}h{MINUTES}|[0-9]{{1,8}}m{SECONDS}|[0-9]{{1,10}}s{MILLIS}|[0-9]{{1,13}}ms)$"
    )
}

/// A moment, as `clock` reads it; whether there is such a day only the server says.
const MOMENT: &str = "^([0-9]{13}|[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))$";

/// A shape by its name.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// All of them.
pub(super) fn all() -> Value {
    let mut all = words();
    for more in [bodies(), answers(), people()] {
        if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
        }
    }
    all
}

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
}

/// An object that may get more members in time.
fn open(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "required": required, "properties": properties})
}

fn words() -> Value {
    json!({
        "Id": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
            "description": "1 to 200 bytes of UTF-8 without control characters, kept exactly as given."},
        "Duration": {"type": "string", "pattern": duration(), "examples": ["30m", "1h30m", "90s"],
            "description": "Whole numbers with the units y (365 days), d, h, m, s or ms, largest first."},
        "MomentText": {"type": "string", "maxLength": 56, "pattern": MOMENT, "examples": ["2026-03-01T12:00:00+08:00", "1772337600000"],
            "description": "RFC 3339 with its offset, or 13 digits of epoch milliseconds."},
        "Moment": {"anyOf": [reference("MomentText"), {"type": "integer", "minimum": 1_000_000_000_000_u64, "maximum": 9_999_999_999_999_u64}]},
        "Instant": {"type": "string", "format": "date-time"},
        "Millis": {"type": "integer", "minimum": 0, "description": "Milliseconds since the epoch."},
        "Generation": {"type": "integer", "minimum": 0, "description": "Which life of the id; microseconds of Redis's clock."},
        "Payload": {"description": "Any JSON of at most 64 KiB, kept byte for byte."},
        "Reminders": {"type": "array", "maxItems": 16, "uniqueItems": true, "items": reference("Duration")},
        "Problem": open(&["type", "title", "status", "detail", "code", "request_id"], json!({
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "code": {"type": "string", "description": "The stable word."},
            "field": {"type": "string", "description": "What is to blame."},
            "request_id": {"type": "string"},
            "stored": {"enum": ["no", "unknown"]},
        })),
    })
}

fn bodies() -> Value {
    let placement = json!({
        "in": reference("Duration"),
        "at": reference("Moment"),
        "due_at": reference("Moment"),
        "payload": reference("Payload"),
        "remind": reference("Reminders"),
        "channel": {"type": "string"},
        "created_at": reference("Moment"),
    });
    let one_when = json!([{"required": ["in"]}, {"required": ["at"]}, {"required": ["due_at"]}]);
    let mut one = object(&[], placement.clone());
    one["properties"]["on_conflict"] = json!({"enum": placement::RULES, "default": "keep"});
    let mut item = object(&["id"], placement);
    item["properties"]["id"] = reference("Id");
    item["properties"]["traceparent"] = json!({"type": "string"});
    for shape in [&mut one, &mut item] {
        shape["oneOf"] = one_when.clone();
    }
    let mut when = object(
        &[],
        json!({
            "in": reference("Duration"), "at": reference("Moment"), "due_at": reference("Moment"),
            "channel": {"type": "string"}, "created_at": reference("Moment"),
        }),
    );
    when["oneOf"] = one_when;
    let mut chosen = object(
        &[],
        json!({
            "ids": {"type": "array", "minItems": 1, "maxItems": dead::MOST, "items": reference("Id")},
            "filter": object(&[], json!({
                "from": reference("Moment"), "to": reference("Moment"),
                "reason": {"type": "string", "description": "A part of the reason."},
                "all": {"type": "boolean"},
            })),
            "reason": {"type": "string", "minLength": 1, "maxLength": 500, "description": "Why, for the audit."},
            "actor": {"type": "string", "minLength": 1, "maxLength": 400},
        }),
    );
    chosen["oneOf"] = json!([{"required": ["ids"]}, {"required": ["filter"]}]);
    // Anything is taken as an item and answered in its place; what is placed has this shape.
    let any_item = json!({"anyOf": [reference("Item"), {}]});
    let reason = json!({
        "reason": {"type": "string", "minLength": 1, "maxLength": 500},
        "actor": {"type": "string", "minLength": 1, "maxLength": 400},
    });
    json!({
        "Placement": one,
        "Item": item,
        "Batch": {"type": "array", "minItems": 1, "maxItems": batch::MOST, "items": any_item},
        "When": when,
        "Hold": object(&["for"], json!({"for": reference("Duration"), "channel": {"type": "string"}})),
        "Nothing": object(&[], json!({})),
        "Payment": object(&[], json!({
            "at": reference("Moment"),
            "amount": {"type": "string", "minLength": 1, "maxLength": 64},
            "wait": reference("Duration"),
        })),
        "Reason": object(&["reason"], reason.clone()),
        "PerhapsReason": object(&[], reason),
        "Chosen": chosen,
        "BulkAct": object(&["act", "filter"], json!({
            "act": {"enum": BulkAct::WORDS},
            "for": {"allOf": [reference("Duration")], "description": "By how much later (reschedule), or for how long (hold); there alone."},
            "filter": object(&[], json!({
                "reason": {"type": "string", "minLength": 1, "maxLength": 250, "description": "Of the dead: a part of the reason."},
                "group": {"type": "string", "minLength": 1, "maxLength": 160, "description": "Of the dead: the group of the reason."},
                "prefix": {"type": "string", "minLength": 1, "maxLength": 200, "description": "The id begins so."},
                "from": reference("Moment"), "to": reference("Moment"), "all": {"type": "boolean"},
            })),
            "most": {"type": "integer", "minimum": 1, "maximum": 9_007_199_254_740_991_u64},
            "count": {"type": "boolean", "description": "Only counts what matches."},
            "reason": {"type": "string", "minLength": 1, "maxLength": 500},
            "actor": {"type": "string", "minLength": 1, "maxLength": 400},
        })),
        "JobRun": object(&[], json!({
            "dry_run": {"type": "boolean", "description": "Of sweep: only says what would be done."},
            "reason": {"type": "string", "minLength": 1, "maxLength": 500},
            "actor": {"type": "string", "minLength": 1, "maxLength": 400},
        })),
    })
}

fn answers() -> Value {
    let whole = json!({"type": "integer", "minimum": 0});
    let placed = json!({
        "outcome": {"enum": ["enqueued", "exists", "replaced", "resurrected"]},
        "wheel": {"type": "string"},
        "id": reference("Id"),
        "due_at": reference("Instant"),
        "due_at_ms": reference("Millis"),
        "generation": reference("Generation"),
    });
    let mut scheduled = placed.clone();
    scheduled["outcome"] = json!({"enum": ["rescheduled", "held", "released", "closing", "revived"]});
    scheduled["next_at"] = reference("Instant");
    scheduled["next_at_ms"] = reference("Millis");
    let result = json!({"type": "object", "required": ["status"], "properties": {
        "status": {"type": "integer"}, "id": {"type": "string"}, "index": whole, "outcome": {"type": "string"},
        "code": {"type": "string"}, "detail": {"type": "string"}, "field": {"type": "string"},
    }});
    json!({
        "Enqueued": open(&["outcome", "wheel", "id", "due_at", "due_at_ms", "generation"], placed),
        "Scheduled": open(&["outcome", "wheel", "id", "due_at", "next_at", "generation"], scheduled),
        "BatchAnswer": open(&["wheel", "placed", "refused", "results"], json!({
            "wheel": {"type": "string"}, "placed": whole, "refused": whole, "results": {"type": "array", "items": result},
        })),
        "Cancelled": open(&["outcome", "wheel", "id"], json!({
            "outcome": {"enum": ["cancelled", "already_cancelled", "leased"]},
            "wheel": {"type": "string"}, "id": reference("Id"),
        })),
        "Paid": open(&["outcome", "wheel", "id"], json!({
            "outcome": {"enum": ["cancelled", "already_cancelled", "skipped", "absent", "late", "dead", "closing"]},
            "wheel": {"type": "string"}, "id": reference("Id"),
            "ended": reference("Ended"), "incident": {"type": "object"},
        })),
        "Deadline": open(&["id", "state"], json!({
            "id": {"type": "string"},
            "state": {"enum": ["scheduled", "leased", "dead", "ended"]},
            "due_at": reference("Instant"), "due_at_ms": reference("Millis"),
            "next_at": reference("Instant"), "next_at_ms": reference("Millis"),
            "generation": reference("Generation"), "stage": whole, "remind": {"type": "array", "items": {"type": "string"}},
            "cause": {"enum": ["due", "manual", "sweep", "rebuild", "feed"]},
            "attempts": whole, "losses": whole, "holds": whole, "held_ms": whole, "cancelled": {"type": "boolean"},
            "note": {"type": "object"}, "traceparent": {"type": "string"}, "reason": {"type": "string"},
            "payload": reference("Payload"),
        })),
        "Ended": open(&["id", "state", "outcome", "ended_at"], json!({
            "id": {"type": "string"}, "state": {"const": "ended"},
            "outcome": {"enum": ["closed", "skipped", "cancelled"]},
            "due_at": reference("Instant"), "ended_at": reference("Instant"), "generation": reference("Generation"),
        })),
        "Inspected": open(&["wheel", "id", "shard", "state", "now", "paused"], json!({
            "wheel": {"type": "string"}, "id": reference("Id"), "shard": whole,
            "state": {"enum": ["scheduled", "leased", "dead", "ended"]},
            "now": reference("Instant"), "paused": {"type": "boolean"},
            "deadline": reference("Deadline"), "lease_ends_at": reference("Instant"),
            "died": {"type": "object"}, "failures": failures(), "ended": reference("Ended"),
        })),
        "Page": open(&["wheel", "deadlines", "next"], json!({
            "wheel": {"type": "string"},
            "deadlines": {"type": "array", "items": {"anyOf": [reference("Deadline"), reference("Ended")]}},
            "next": {"type": ["string", "null"]},
        })),
        "Stats": open(&["wheel", "scheduled", "due", "leased", "dead", "ended", "workers"], json!({
            "wheel": {"type": "string"}, "now_ms": reference("Millis"), "scheduled": whole, "due": whole,
            "oldest_due_ms": whole, "next_ms": {"type": ["integer", "null"]}, "leased": whole, "dead": whole, "ended": whole,
            "paused_shards": whole, "tripped_shards": whole, "shards": whole, "workers": whole,
            "totals": {"type": "object", "additionalProperties": whole},
        })),
        "Forecast": open(&["wheel", "step_ms", "stretches"], json!({
            "wheel": {"type": "string"}, "step_ms": whole,
            "stretches": {"type": "array", "items": open(&["from", "from_ms", "count"], json!({
                "from": reference("Instant"), "from_ms": reference("Millis"), "count": whole,
            }))},
        })),
        "SeenTo": open(&["wheel", "refused", "more", "results"], json!({
            "wheel": {"type": "string"}, "revived": whole, "dropped": whole, "refused": whole, "more": {"type": "boolean"},
            "results": {"type": "array", "items": {"type": "object"}},
        })),
        "Written": open(&["outcome", "wheel", "written", "shards"], json!({
            "outcome": {"enum": ["paused", "resumed"]}, "wheel": {"type": "string"}, "written": whole, "shards": whole,
            "lifted": {"type": "array", "items": {"type": "object"}},
        })),
        "Wheels": open(&["wheels"], json!({
            "wheels": {"type": "array", "items": open(&["name", "shards", "slot_width_ms"], json!({
                "name": {"type": "string"}, "shards": whole, "slot_width_ms": whole,
            }))},
        })),
    })
}

/// Attempts that failed, as far as they are kept.
fn failures() -> Value {
    json!({"type": "array", "description": "The latest attempts that failed, the latest first, at most five.", "items": open(&["attempt", "reason"], json!({
        "at": {"anyOf": [reference("Instant"), {"type": "null"}]}, "attempt": {"type": "integer"}, "reason": {"type": "string"},
    }))})
}

/// The answers about what people do.
fn people() -> Value {
    let whole = json!({"type": "integer", "minimum": 0});
    let text = json!({"type": "string"});
    let bulk = json!({
        "wheel": text, "id": text, "act": {"enum": BulkAct::WORDS}, "filter": {"type": "object"}, "by_ms": whole, "for_ms": whole,
        "by": text, "door": text, "reason": text, "asked_at_ms": reference("Millis"), "matched": whole, "exact": {"type": "boolean"},
        "most": whole, "state": {"enum": ["waiting", "running", "done", "stopped"]}, "done": whole, "refused": whole, "left": whole,
        "runner": text, "ended_at_ms": reference("Millis"), "error": text,
    });
    let act = json!({
        "entry": text, "at_ms": reference("Millis"), "began_at_ms": reference("Millis"), "act": {"type": "string", "examples": Act::words()},
        "by": text, "door": {"enum": ["page", "api", "cli", "top"]}, "ids": {"type": "array", "items": text}, "about": text, "reason": text,
        "asked": whole, "done": whole, "said": text,
        "outcome": {"enum": ["begun", "done", "partial", "refused", "failed", "unknown", "stopped"]},
    });
    let workers = json!({"type": "array", "items": open(&["token", "host", "pid", "version", "draining"], json!({
        "token": text, "host": text, "pid": whole, "version": text, "started_ms": reference("Millis"), "in_flight": whole,
        "draining": {"type": "boolean"}, "held_back": {"type": "array", "items": text}, "drained": {"type": "object"},
        "claims": {"type": "array", "description": "In hand, the oldest first.", "items": {"type": "object"}},
        "heard_at": reference("Instant"),
    }))});
    let claimed_by = json!({
        "type": ["object", "null"],
        "description": "The worker that has it; null where it is not leased, or was claimed within the last second.",
    });
    let needed = ["id", "act", "filter", "by", "state", "matched", "done", "refused", "left"];
    json!({
        "Explanation": open(&["wheel", "id", "state", "why", "timeline"], json!({
            "wheel": text, "id": reference("Id"), "state": {"enum": ["absent", "scheduled", "leased", "dead", "ended"]},
            "now": reference("Instant"), "why": {"type": "string", "description": "In plain words why it is not closed yet, or never will be."},
            "timeline": {"type": "array", "items": open(&["at", "source", "what"], json!({
                "at": reference("Instant"), "at_ms": reference("Millis"), "source": {"enum": ["wheel", "events", "people", "table", "audit"]}, "what": text,
            }))},
            "claimed_by": claimed_by, "failures": failures(),
            "row": {"type": ["object", "null"]}, "audit": {"type": "array", "items": {"type": "object"}},
            "table_away": {"type": ["string", "null"]},
        })),
        "Audit": open(&["wheel", "acts", "next"], json!({
            "wheel": text, "next": {"type": ["string", "null"]},
            "acts": {"type": "array", "items": open(&["entry", "at_ms", "act", "by", "asked", "done", "outcome"], act)},
        })),
        "Matched": open(&["matched", "of", "exact"], json!({
            "wheel": text, "matched": whole, "of": whole,
            "exact": {"type": "boolean", "description": "Whether all were looked at; else there may be more."},
        })),
        "Bulk": open(&needed, bulk.clone()),
        "Bulks": open(&["wheel", "bulks"], json!({
            "wheel": text, "bulks": {"type": "array", "items": open(&needed, bulk)},
        })),
        "Workers": open(&["wheel", "workers", "lost"], json!({
            "wheel": text, "workers": workers,
            "lost": {"type": "array", "description": "Not heard of for four seconds, and never said that they leave.", "items": workers["items"]},
        })),
        "WorkerTold": open(&["outcome", "wheel", "worker"], json!({
            "outcome": {"enum": ["draining", "resuming"]}, "wheel": text, "worker": text,
        })),
        "Jobs": open(&["wheel", "jobs"], json!({
            "wheel": text,
            "jobs": {"type": "array", "items": open(&["job", "runs"], json!({
                "job": text, "runner": {"type": ["string", "null"]}, "held_until": {"type": ["string", "null"]},
                "ran_at": {"type": ["string", "null"]}, "asked_at": {"type": ["string", "null"]}, "error": {"type": ["string", "null"]},
                "runs": {"type": "array", "items": {"type": "object"}},
            }))},
        })),
        "JobAsked": open(&["outcome", "wheel", "job"], json!({
            "outcome": {"const": "asked"}, "wheel": text, "job": text, "dry_run": {"type": "boolean"},
        })),
    })
}
