//! What duewheel's own audit table tells of one order.

use super::OrdersTable;
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::hook::sql::dialect::{Dialect, Name};
use crate::hook::sql::order::moment;
use crate::hook::sql::query::Query;
use crate::hook::sql::session::cell;
use crate::hook::sql::settings::{KeyType, TimeType};

/// One row of the audit table: a close, or a reminder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trail {
    /// `AUTO_CLOSE`, `MANUAL_CLOSE` or `REMINDER_n`.
    pub action: String,
    /// When, by the database's clock.
    pub at: Moment,
    /// Which life of the id.
    pub generation: u64,
    /// The attempt that did it.
    pub attempt: u32,
    /// The fence of that attempt's claim.
    pub fence: u64,
    /// Who asked for it, where a person did.
    pub actor: Option<String>,
    /// Why, where a person did.
    pub reason: Option<String>,
    /// The trace that it was enqueued in.
    pub trace_id: Option<String>,
    /// The worker that did it.
    pub worker: String,
}

/// An order has one row for each life and action; more than this are not looked at.
const MOST: usize = 100;

impl OrdersTable {
    /// The audit rows of one order, oldest first, from the primaries. Empty where the hook writes none.
    pub async fn trail(&self, id: &str) -> Result<Vec<Trail>> {
        let Some(audit) = &self.hook.audit else { return Ok(Vec::new()) };
        let audit = Name::parse("audit", audit, true).map_err(|problem| Error::Config(vec![problem]))?;
        let millis = match self.dialect {
            // Stored as UTC, whatever zone the session has.
            Dialect::Mysql => {
                "CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', closed_at) DIV 1000 AS CHAR)".to_owned()
            }
            other => other.as_millis("closed_at", TimeType::Time),
        };
        let text = |column: &str| self.dialect.as_text(column);
        let mut trail = Vec::new();
        for pool in &self.primaries {
            let mut query = Query::new(self.dialect);
            query.text(&format!(
                "SELECT action, {millis}, {}, {}, {}, actor, reason, trace_id, worker FROM {} WHERE ",
                text("generation"),
                text("attempt"),
                text("fence"),
                audit.quoted(self.dialect)
            ));
            query.is_key("order_id", KeyType::Text, &[id]);
            query.text(&format!(" ORDER BY closed_at LIMIT {MOST}"));
            for cells in self.within(pool, self.read(pool, query)).await? {
                let number =
                    |n: usize| cell(&cells, n).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
                let word = |n: usize| cell(&cells, n).map(str::to_owned);
                let (Some(action), Some(at)) = (word(0), cell(&cells, 1).and_then(moment)) else { continue };
                trail.push(Trail {
                    action,
                    at,
                    generation: number(2),
                    attempt: u32::try_from(number(3)).unwrap_or(u32::MAX),
                    fence: number(4),
                    actor: word(5),
                    reason: word(6),
                    trace_id: word(7),
                    worker: word(8).unwrap_or_default(),
                });
            }
        }
        trail.sort_by_key(|row| row.at);
        Ok(trail)
    }
}
