//! An explanation for machines.

use serde_json::{Value, json};

use super::{Explanation, Table, Told};
use crate::hook::sql::pages::facts::Fact;
use crate::hook::sql::pages::trail::Trail;
use crate::wheel::Holder;
use crate::wheel::shape::failures_json;

impl Explanation {
    /// One object: state, why, timeline, the row and the audit rows of the shop's database.
    pub fn json(&self, wheel: &str, id: &str) -> Value {
        let (fact, trail, away) = match &self.table {
            Table::Undeclared => (None, &[][..], None),
            Table::Away(reason) => (None, &[][..], Some(reason)),
            Table::Asked(fact, trail) => (fact.as_ref(), trail.as_slice(), None),
        };
        json!({
            "wheel": wheel,
            "id": id,
            "state": self.survey.seen.state.as_str(),
            "now": self.survey.seen.now.to_string(),
            "why": self.why(),
            "claimed_by": self.survey.holder().map(holder),
            "failures": failures_json(&self.survey.seen.failures),
            "timeline": self.timeline().iter().map(told).collect::<Vec<_>>(),
            "row": fact.map(row),
            "audit": trail.iter().map(audit).collect::<Vec<_>>(),
            "table_away": away,
        })
    }
}

fn holder(holder: Holder<'_>) -> Value {
    let Holder { worker, claim, lost } = holder;
    json!({
        "worker": worker.token, "host": worker.host, "pid": worker.pid,
        "claimed_at": claim.claimed_at().to_string(), "fence": claim.fence,
        "lost": lost.is_some(),
    })
}

fn told(one: &Told) -> Value {
    json!({"at": one.at.to_string(), "at_ms": one.at.as_millis(), "source": one.source.as_str(), "what": one.what})
}

fn row(fact: &Fact) -> Value {
    json!({
        "open": fact.open,
        "overdue": fact.overdue,
        "close_at": fact.close_at.map(|at| at.to_string()),
        "state": fact.state,
    })
}

fn audit(row: &Trail) -> Value {
    json!({
        "action": row.action, "at": row.at.to_string(), "generation": row.generation, "attempt": row.attempt,
        "fence": row.fence, "actor": row.actor, "reason": row.reason, "trace_id": row.trace_id, "worker": row.worker,
    })
}
