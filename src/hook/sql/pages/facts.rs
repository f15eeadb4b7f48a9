//! What the table says of given orders now, and which orders the audit table says were closed: for whoever compares both with the wheel.

use std::collections::HashMap;
use std::time::Duration;

use super::OrdersTable;
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::hook::sql::dialect::{Dialect, Name};
use crate::hook::sql::expression::Expression;
use crate::hook::sql::key;
use crate::hook::sql::order::moment;
use crate::hook::sql::query::Query;
use crate::hook::sql::session::cell;
use crate::hook::sql::settings::KeyType;

/// One row, as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// The guard holds: the order is unpaid.
    pub open: bool,
    /// Its close time has passed, by the database's clock, and its channel allows the close.
    pub overdue: bool,
    /// When the table says that it is to be closed, but not before its channel allows it.
    pub close_at: Option<Moment>,
    /// The word of the hook's `state` expression.
    pub state: Option<String>,
    /// The payload of a deadline made from it, as JSON text.
    pub payload: Option<String>,
}

/// Keys of one read.
const MOST: usize = 2000;

impl OrdersTable {
    /// The rows of these ids, from the primaries or from where pages are read. An id without a row is not in the answer.
    pub async fn facts(&self, ids: &[&str], primary: bool) -> Result<HashMap<String, Fact>> {
        let keys: Vec<&str> = ids.iter().copied().filter(|id| key::is_canonical(self.kind, id)).collect();
        let state = self.state()?;
        let mut facts: HashMap<String, Fact> = HashMap::with_capacity(keys.len());
        for pool in if primary { &self.primaries } else { &self.readers } {
            for part in keys.chunks(MOST) {
                let rows = self.within(pool, self.read(pool, self.facts_query(part, state.as_ref()))).await?;
                for cells in &rows {
                    let Some(id) = cell(cells, 0) else { continue };
                    let not_before = self.not_before(cell(cells, 6), cell(cells, 7));
                    let allowed = not_before.is_none_or(|at| at <= Moment::host_now());
                    let fact = Fact {
                        open: cell(cells, 1) == Some("1"),
                        overdue: cell(cells, 2) == Some("1") && allowed,
                        close_at: cell(cells, 3).and_then(moment).map(|at| at.max(not_before.unwrap_or(at))),
                        state: cell(cells, 4).map(str::to_owned),
                        payload: cell(cells, 5).map(str::to_owned),
                    };
                    // An order lives in one database; of two rows the open one is what matters.
                    let known_open = facts.get(id).is_some_and(|known| known.open);
                    if !known_open {
                        facts.insert(id.to_owned(), fact);
                    }
                }
            }
        }
        Ok(facts)
    }

    /// Orders that duewheel's own audit table says were closed within this time, by id behind `after`, at most `limit`; fewer only at the
    /// end. Empty where the hook writes no audit row.
    pub async fn audited(
        &self,
        database: usize,
        within: Duration,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>> {
        let Some(audit) = &self.hook.audit else { return Ok(Vec::new()) };
        let audit = Name::parse("audit", audit, true).map_err(|problem| Error::Config(vec![problem]))?;
        let pool = self.pool_of(database)?;
        let since = match self.dialect {
            Dialect::Postgres => format!("now() - interval '{} seconds'", within.as_secs()),
            Dialect::Mysql => format!("UTC_TIMESTAMP(6) - INTERVAL {} SECOND", within.as_secs()),
            Dialect::Sqlite => {
                format!("strftime('%Y-%m-%d %H:%M:%f', 'now', '-{} seconds')", within.as_secs())
            }
        };
        let mut query = Query::new(self.dialect);
        query.text(&format!(
            "SELECT DISTINCT order_id FROM {} WHERE action IN ('AUTO_CLOSE', 'MANUAL_CLOSE') AND closed_at >= {since}",
            audit.quoted(self.dialect)
        ));
        if let Some(after) = after {
            query.text(" AND order_id > ").key(KeyType::Text, after);
        }
        query.text(&format!(" ORDER BY order_id LIMIT {limit}"));
        let rows = self.within(pool, self.read(pool, query)).await?;
        Ok(rows.iter().filter_map(|cells| cell(cells, 0)).map(str::to_owned).collect())
    }

    /// Whether a state expression is declared: without it nobody can say *paid*.
    pub fn knows_states(&self) -> bool {
        self.hook.state.is_some()
    }

    fn state(&self) -> Result<Option<Expression>> {
        let compile = |text: &String| Expression::compile(self.dialect, "state", text);
        self.hook.state.as_ref().map(compile).transpose().map_err(|problem| Error::Config(vec![problem]))
    }

    /// Rows of key, open, overdue, close_at (ms), state, payload, channel, created_at (ms).
    fn facts_query(&self, keys: &[&str], state: Option<&Expression>) -> Query {
        let dialect = self.dialect;
        let key = self.key.quoted(dialect);
        let truth = |condition: &str| format!("CASE WHEN {condition} THEN '1' ELSE '0' END");
        let text = |of: Option<&Expression>| {
            of.map_or_else(|| "NULL".to_owned(), |e| dialect.as_text(&format!("({})", e.text(dialect))))
        };
        let close_at = self
            .close_at
            .as_ref()
            .map_or_else(|| "NULL".to_owned(), |e| dialect.as_millis(&e.text(dialect), self.close_at_type));
        let [channel, created_at] = self.through_parts();
        let mut query = Query::new(dialect);
        query.text(&format!(
            "SELECT {}, {}, {}, {close_at}, {}, {}, {channel}, {created_at} FROM {} WHERE ",
            dialect.as_text(&key),
            truth(&self.guarded()),
            truth(&self.overdue(false)),
            text(state),
            text(self.payload.as_ref()),
            self.table.quoted(dialect)
        ));
        query.is_key(&key, self.kind, keys);
        query
    }
}
