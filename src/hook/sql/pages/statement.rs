//! The statements that read the table: which rows, after which position, which parts of each.

use std::time::Duration;

use super::{OrdersTable, Position, Which};
use crate::hook::sql::dialect::{Dialect, Name};
use crate::hook::sql::expression::Expression;
use crate::hook::sql::query::{Query, Value};
use crate::hook::sql::settings::{KeyType, TimeType};

impl OrdersTable {
    /// Which of a page's columns have anything to say. The others are not asked for: with a few short columns a row, each costs the
    /// database and this side a good part of the row.
    pub(super) fn columns(&self, which: Which<'_>) -> [bool; 9] {
        // Only a feed asks how far it has come.
        let since = self.time.is_some() && matches!(which, Which::Since { .. });
        let (close_at, through) = (self.close_at.is_some(), self.through.is_some());
        let (by, payload) = (self.by.is_some(), self.payload.is_some());
        [true, self.time.is_some(), close_at, since, since, by, payload, through, through]
    }

    /// Rows of key, time, close_at (ms), time (ms), mark, by, payload, channel, created_at (ms), as far as [`Self::columns`] names them;
    /// found by `index`, or where it is `None` by what the database chooses.
    pub(super) fn page_query(
        &self,
        which: Which<'_>,
        after: Option<&Position>,
        limit: usize,
        kind: &str,
        index: Option<&Name>,
    ) -> Query {
        let dialect = self.dialect;
        let key = self.key.quoted(dialect);
        let time = self.time.as_ref().map(|name| name.quoted(dialect));
        let none = || "NULL".to_owned();
        let text = |of: &Option<Expression>| {
            of.as_ref()
                .map_or_else(none, |expression| dialect.as_text(&format!("({})", expression.text(dialect))))
        };
        let close_at = self.close_at.as_ref();
        let since = time.as_deref().filter(|_| matches!(which, Which::Since { .. }));
        let [channel, created_at] = self.through_parts();
        let parts = [
            dialect.as_text(&key),
            time.as_deref().map_or_else(none, |t| dialect.as_text(t)),
            close_at.map_or_else(none, |e| dialect.as_millis(&e.text(dialect), self.close_at_type)),
            since.map_or_else(none, |t| dialect.as_millis(t, self.time_type)),
            since.map_or_else(none, |t| self.mark(t, kind)),
            text(&self.by),
            text(&self.payload),
            channel,
            created_at,
        ];
        let mut query = Query::new(dialect);
        // Named, because ORDER BY prefers a name of this list to a column: a key cast to text would be sorted as text.
        let named = parts.iter().zip(self.columns(which)).enumerate().filter(|(_, (_, asked))| *asked);
        let parts: Vec<String> = named.map(|(n, (part, _))| format!("{part} AS dw_{n}")).collect();
        query.text(&format!("SELECT {} FROM {}", parts.join(", "), self.table.quoted(dialect)));
        if let Some(index) = index {
            query.text(&format!(" FORCE INDEX ({})", index.quoted(dialect)));
        }
        query.text(&format!(" WHERE {}", self.guarded()));
        match which {
            Which::Open => {}
            Which::Overdue => {
                query.text(&format!(" AND {}", self.overdue(true)));
            }
            Which::Since { mark: None, .. } => {}
            Which::Since { mark: Some(mark), overlap } => {
                if let Some(time) = &time {
                    query.text(&format!(" AND {time} >= "));
                    self.push_bound(&mut query, kind, mark, overlap);
                }
            }
        }
        if let Some(time) = &time {
            query.text(&format!(" AND {time} IS NOT NULL"));
        }
        if let Some(after) = after {
            self.push_after(&mut query, &key, time.as_deref(), kind, after);
        }
        let order = time.map_or_else(|| key.clone(), |time| format!("{time}, {key}"));
        query.text(&format!(" ORDER BY {order} LIMIT {limit}"));
        query
    }

    /// The keys among these that are open, and with `overdue` whose time has passed.
    pub(super) fn open_query(&self, keys: &[&str], overdue: bool) -> Query {
        let dialect = self.dialect;
        let key = self.key.quoted(dialect);
        let mut query = Query::new(dialect);
        query.text(&format!("SELECT {} FROM {} WHERE ", dialect.as_text(&key), self.table.quoted(dialect)));
        query.is_key(&key, self.kind, keys);
        let due = if overdue { format!(" AND {}", self.overdue(false)) } else { String::new() };
        // Wrapped, so that only the key can pick the index.
        query.text(&format!(" AND coalesce({}{due}, {})", self.guarded(), dialect.falsehood()));
        query
    }

    pub(super) fn guarded(&self) -> String {
        match &self.guard {
            Some(guard) => format!("({})", guard.text(self.dialect)),
            None => "(1 = 1)".to_owned(),
        }
    }

    /// The condition that the close time has passed. `overdue` narrows for an index and may be generous; `close_at` decides.
    pub(super) fn overdue(&self, by_index: bool) -> String {
        let dialect = self.dialect;
        let due = self.close_at.as_ref().map(|e| dialect.is_due(&e.text(dialect), self.close_at_type));
        let narrow = self.overdue.as_ref().map(|e| format!("({})", e.text(dialect)));
        match (narrow, due) {
            (Some(narrow), Some(due)) if by_index => {
                format!("{narrow} AND coalesce({due}, {})", dialect.falsehood())
            }
            (_, Some(due)) => format!("({due})"),
            (Some(narrow), None) => narrow,
            (None, None) => "(1 = 0)".to_owned(),
        }
    }

    /// The rows behind a position. Text keys begin with the position's own key again: what the collation takes for its equal stands
    /// there, too, in no order.
    fn push_after(&self, query: &mut Query, key: &str, time: Option<&str>, kind: &str, after: &Position) {
        let behind = if self.kind == KeyType::Text { ">=" } else { ">" };
        match (time, &after.time) {
            (Some(time), Some(at)) if self.dialect == Dialect::Mysql => {
                // MariaDB serves no comparison of rows by an index.
                query.text(&format!(" AND {time} >= "));
                self.push_time(query, kind, at);
                query.text(&format!(" AND ({time} > "));
                self.push_time(query, kind, at);
                query.text(&format!(" OR {key} {behind} ")).key(self.kind, &after.key).text(")");
            }
            (Some(time), Some(at)) => {
                query.text(&format!(" AND ({time}, {key}) {behind} ("));
                self.push_time(query, kind, at);
                query.text(", ").key(self.kind, &after.key).text(")");
            }
            _ => {
                query.text(&format!(" AND {key} {behind} ")).key(self.kind, &after.key);
            }
        }
    }

    /// A value of the time column, from the database's own text of it.
    fn push_time(&self, query: &mut Query, kind: &str, text: &str) {
        let value = || Value::Text(Some(text.to_owned()));
        let number = text.parse::<i64>().ok();
        match (self.dialect, number) {
            (Dialect::Postgres, _) => query.bind(value()).text(&format!("::{kind}")),
            (_, Some(number)) if self.time_type != TimeType::Time => query.bind(Value::Int(number)),
            (Dialect::Mysql, _) if is_date(kind) => {
                query.text("CAST(").bind(value()).text(" AS DATETIME(6))")
            }
            _ => query.bind(value()),
        };
    }

    /// The time column, but at most the database's now: a row from the future must not make the feed overlook what comes before it.
    fn mark(&self, time: &str, kind: &str) -> String {
        let now = self.now(kind);
        match self.dialect {
            Dialect::Postgres => format!("least({time}, {now})::text"),
            Dialect::Mysql => format!("CAST(LEAST({time}, {now}) AS CHAR)"),
            Dialect::Sqlite => format!("CAST(min({time}, {now}) AS TEXT)"),
        }
    }

    /// The database's now as a value of the time column.
    fn now(&self, kind: &str) -> String {
        match (self.dialect, self.time_type) {
            (Dialect::Postgres, TimeType::Time) => format!("now()::{kind}"),
            (Dialect::Postgres, TimeType::UnixSeconds) => format!("extract(epoch FROM now())::{kind}"),
            (Dialect::Postgres, TimeType::UnixMillis) => {
                format!("(extract(epoch FROM now()) * 1000)::{kind}")
            }
            (Dialect::Mysql, TimeType::Time) => "NOW(6)".to_owned(),
            (Dialect::Mysql, TimeType::UnixSeconds) => {
                "TIMESTAMPDIFF(SECOND, '1970-01-01', UTC_TIMESTAMP(6))".to_owned()
            }
            (Dialect::Mysql, TimeType::UnixMillis) => {
                "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000".to_owned()
            }
            (Dialect::Sqlite, TimeType::Time) => self.dialect.now().to_owned(),
            (Dialect::Sqlite, TimeType::UnixSeconds) => "unixepoch('now')".to_owned(),
            (Dialect::Sqlite, TimeType::UnixMillis) => {
                "CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)".to_owned()
            }
        }
    }

    /// Where a read since a mark begins: the mark or now, whichever is earlier, less the overlap.
    fn push_bound(&self, query: &mut Query, kind: &str, mark: &str, overlap: Duration) {
        let millis = overlap.as_millis();
        let now = self.now(kind);
        match (self.dialect, self.time_type) {
            (Dialect::Postgres, TimeType::Time) => {
                query.text("(least(");
                self.push_time(query, kind, mark);
                query.text(&format!(", {now}) - interval '{millis} milliseconds')"));
            }
            (Dialect::Mysql, TimeType::Time) => {
                query.text("LEAST(");
                self.push_time(query, kind, mark);
                query.text(&format!(", {now}) - INTERVAL {} MICROSECOND", overlap.as_micros()));
            }
            (Dialect::Sqlite, TimeType::Time) => {
                // What strftime cannot read is compared as it stands.
                let form = "strftime('%Y-%m-%d %H:%M:%f', ";
                query.text(&format!("coalesce({form}min({form}"));
                self.push_time(query, kind, mark);
                query.text(&format!("), {now}), '-{}.{:03} seconds'), ", millis / 1000, millis % 1000));
                self.push_time(query, kind, mark);
                query.text(")");
            }
            (dialect, unit) => {
                let less = if unit == TimeType::UnixSeconds { millis.div_ceil(1000) } else { millis };
                query.text(if dialect == Dialect::Sqlite { "(min(" } else { "(least(" });
                self.push_time(query, kind, mark);
                query.text(&format!(", {now}) - {less})"));
            }
        }
    }
}

/// Whether a MariaDB column of this type holds local times.
fn is_date(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    kind.starts_with("datetime") || kind.starts_with("timestamp") || kind == "date"
}
