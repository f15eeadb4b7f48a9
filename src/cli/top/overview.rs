//! The wheel in a few lines, and what is not as it should be: for the first tab, and for a script that asks once.

use std::time::Duration;

use super::look::Seen;
use crate::clock::{distance, show_brief, show_span};
use crate::error::escaped;
use crate::figure::grouped;
use crate::wheel::{Minute, ServerFacts};

/// From when on a deadline that is due is late enough to say so aloud.
const LATE: Duration = Duration::from_secs(5);

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Plain,
    /// Worth a look.
    Odd,
    /// A promise is broken.
    Bad,
}

/// One line of the overview.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What.
    pub name: &'static str,
    /// How much.
    pub value: String,
    /// What to know besides.
    pub remark: String,
    /// How it is meant.
    pub tone: Tone,
}

/// The wheel in a few lines.
pub fn facts(seen: &Seen) -> Vec<Fact> {
    let fact = |name, value: String, remark: String, tone| Fact { name, value, remark, tone };
    let stats = &seen.stats;
    let late = Duration::from_millis(stats.oldest_due_ms);
    let oldest = if stats.due > 0 { format!("oldest {}", show_span(late)) } else { String::new() };
    let next =
        [(1, "1m"), (5, "5m"), (60, "1h")].map(|(m, word)| format!("{word} {}", grouped(seen.within(m))));
    let (span, recent) = recent(seen);
    let sum = seen.hour.sum();
    let lateness = match (recent.lateness.quantile(0.5), recent.lateness.quantile(0.99)) {
        (Some(p50), Some(p99)) => fact(
            "lateness",
            format!("p50 {}  p99 {}", show_brief(p50), show_brief(p99)),
            format!("of {} in the last {span}", grouped(recent.lateness.count())),
            if p99 > LATE { Tone::Odd } else { Tone::Plain },
        ),
        _ => fact("lateness", "–".to_owned(), "no order in the last hour".to_owned(), Tone::Plain),
    };
    // Only what there was: a line is short.
    let others = [
        (sum.skipped, "skipped"),
        (sum.cancelled, "cancelled"),
        (sum.retried, "retried"),
        (sum.unavailable, "unavailable"),
        (sum.buried, "dead"),
    ];
    let others = others.into_iter().filter(|(count, _)| *count > 0);
    let others: Vec<_> = others.map(|(count, word)| format!("{} {word}", grouped(count))).collect();
    let outcomes =
        format!("in the last hour{}{}", if others.is_empty() { "" } else { "; " }, others.join(", "));
    let tone = |is_odd: bool| if is_odd { Tone::Odd } else { Tone::Plain };
    let mut facts = vec![
        fact(
            "due now",
            grouped(stats.due),
            oldest,
            if stats.due > 0 && late > LATE { Tone::Bad } else { Tone::Plain },
        ),
        fact("scheduled", grouped(stats.scheduled), format!("within {}", next.join(", ")), Tone::Plain),
        fact("leased", grouped(stats.leased), String::new(), Tone::Plain),
        fact("dead", grouped(stats.dead), String::new(), tone(stats.dead > 0)),
        workers(seen),
        lateness,
        fact("closed", grouped(sum.closed), outcomes, tone(sum.unavailable + sum.buried > 0)),
    ];
    if let Some(bucket) = &seen.bucket {
        let remark = format!("of a burst of {}, {} a second", bucket.burst, bucket.rate);
        facts.push(fact("tokens", bucket.tokens.to_string(), remark, Tone::Plain));
    }
    let swept = seen.swept_at.map_or_else(|| "never".to_owned(), |at| distance(at, seen.now));
    facts.push(fact("sweep", swept, String::new(), Tone::Plain));
    facts.push(redis(seen.redis.as_ref()));
    facts
}

/// The last five minutes, or the whole hour where nothing happened in them.
fn recent(seen: &Seen) -> (&'static str, Minute) {
    let five = seen.hour.last(5);
    if five.lateness.count() > 0 { ("5 minutes", five) } else { ("hour", seen.hour.sum()) }
}

fn workers(seen: &Seen) -> Fact {
    let draining = seen.workers.iter().filter(|worker| worker.draining).count();
    let held = seen.workers.iter().filter(|worker| !worker.held_back.is_empty()).count();
    let mut remark = Vec::new();
    if seen.workers.is_empty() {
        remark.push("nobody closes orders on this wheel".to_owned());
    }
    if draining > 0 {
        remark.push(format!("{draining} drain"));
    }
    if held > 0 {
        remark.push(format!("{held} held back"));
    }
    if seen.lost > 0 {
        remark.push(format!("{} lost lately", seen.lost));
    }
    let tone = match (seen.workers.is_empty(), held + seen.lost) {
        (true, _) => Tone::Bad,
        (_, 1..) => Tone::Odd,
        _ => Tone::Plain,
    };
    Fact { name: "workers", value: seen.workers.len().to_string(), remark: remark.join(", "), tone }
}

fn redis(facts: Option<&ServerFacts>) -> Fact {
    let Some(facts) = facts.filter(|facts| facts.field("role").is_some()) else {
        let remark = "INFO is not allowed to the program's user".to_owned();
        return Fact { name: "redis", value: "–".to_owned(), remark, tone: Tone::Plain };
    };
    let field = |name: &str| escaped(facts.field(name).unwrap_or("?"));
    let value = match facts.field("role") {
        Some("master") => "primary".to_owned(),
        other => escaped(other.unwrap_or("?")),
    };
    let limit = match facts.field("maxmemory") {
        Some("0") | None => String::new(),
        Some(_) => format!(" of {}", field("maxmemory_human")),
    };
    let aof = if facts.field("aof_enabled") == Some("1") { "AOF on" } else { "AOF off" };
    let policy = facts.field("maxmemory_policy");
    let remark = format!("{}{limit}, {aof}, {}", field("used_memory_human"), field("maxmemory_policy"));
    let tone = if policy == Some("noeviction") { Tone::Plain } else { Tone::Bad };
    Fact { name: "redis", value, remark, tone }
}

/// Promises that are broken just now, the gravest first.
pub fn alarms(seen: &Seen) -> Vec<String> {
    let mut alarms = Vec::new();
    let stats = &seen.stats;
    if let Some(trip) = &seen.held.trip {
        alarms.push(format!("tripped {}: {}", distance(trip.at(), seen.now), escaped(&trip.why)));
    }
    if let Some(note) = &seen.held.paused {
        alarms.push(format!("paused by {}: {}", escaped(&note.actor), escaped(&note.reason)));
    } else if stats.paused_shards > 0 {
        alarms.push(format!("{} of {} shards are paused", stats.paused_shards, stats.shards));
    }
    if seen.workers.is_empty() {
        alarms.push("no worker: nobody closes orders on this wheel".to_owned());
    }
    let late = Duration::from_millis(stats.oldest_due_ms);
    if stats.due > 0 && late > LATE {
        alarms.push(format!("late: {} are due, the oldest for {}", grouped(stats.due), show_span(late)));
    }
    let mut reasons: Vec<&String> = seen.workers.iter().flat_map(|worker| &worker.held_back).collect();
    reasons.sort();
    reasons.dedup();
    alarms.extend(reasons.into_iter().map(|reason| format!("held back: {}", escaped(reason))));
    let field = |name| seen.redis.as_ref().and_then(|facts| facts.field(name));
    if let Some(policy) = field("maxmemory_policy").filter(|policy| *policy != "noeviction") {
        alarms.push(format!("Redis may throw orders away: maxmemory-policy is {}", escaped(policy)));
    }
    if field("aof_last_write_status").is_some_and(|status| status != "ok") {
        alarms.push("Redis cannot write its log".to_owned());
    }
    alarms
}
