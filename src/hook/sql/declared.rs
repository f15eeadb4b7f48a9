//! The declared close: table, key, guard, time and assignments, and the statements that duewheel writes around them.

use super::dialect::{Dialect, Name};
use super::expression::{Expression, assigned};
use super::query::Query;
use super::settings::{KeyType, SqlSettings, TimeType};

/// The declared close.
pub(super) struct Declared {
    pub(super) table: Name,
    pub(super) key: Name,
    pub(super) guard: Expression,
    pub(super) close_at: Option<Expression>,
    pub(super) close_at_type: TimeType,
    pub(super) overdue: Option<Expression>,
    pub(super) set: Expression,
    /// The columns that `set` changes.
    pub(super) assigned: Vec<String>,
    pub(super) state: Option<Expression>,
}

impl Declared {
    /// Checks and compiles the declaration; every problem found is added to `problems`.
    pub(super) fn compile(
        dialect: Dialect,
        settings: &SqlSettings,
        problems: &mut Vec<String>,
    ) -> Option<Self> {
        let mut optional = |field: &str, text: &Option<String>| {
            text.as_ref().and_then(|t| keep(Expression::compile(dialect, field, t), problems))
        };
        let close_at = optional("close_at", &settings.close_at);
        let overdue = optional("overdue", &settings.overdue);
        let state = optional("state", &settings.state);
        let table = keep(Name::parse("table", &settings.table, true), problems);
        let key = keep(Name::parse("key", &settings.key, false), problems);
        let guard = keep(Expression::compile(dialect, "guard", &settings.guard), problems);
        let set = keep(Expression::compile(dialect, "set", &settings.set), problems);
        let assigned = keep(assigned(dialect, &settings.set), problems);
        if let (Some(guard), Some(assigned)) = (&guard, &assigned) {
            let looks_at = |column: &&String| guard.words.iter().any(|w| w.eq_ignore_ascii_case(column));
            if !assigned.iter().any(|column| looks_at(&column)) {
                problems.push(format!(
                    "guard: expected it to look at a column that set changes ({}), or an order would be closed again and again",
                    assigned.join(", ")
                ));
            }
        }
        Some(Self {
            table: table?,
            key: key?,
            guard: guard?,
            close_at,
            close_at_type: settings.close_at_type,
            overdue,
            set: set?,
            assigned: assigned?,
            state,
        })
    }

    fn key(&self, dialect: Dialect) -> String {
        self.key.quoted(dialect)
    }

    /// What must be true of a row to be closed: the guard, and unless a person closes, the table's own time.
    ///
    /// Wrapped, so that only the key can pick the index: a planner without fresh statistics may otherwise take the one for overdue
    /// orders and walk through all of them for each batch (measured on PostgreSQL: 2.2 s instead of 4 ms), locking what it meets.
    fn closable(&self, dialect: Dialect, manual: bool) -> String {
        let guard = self.guard.text(dialect);
        match (&self.close_at, manual) {
            (Some(close_at), false) => {
                let due = dialect.is_due(&close_at.text(dialect), self.close_at_type);
                format!("coalesce(({guard}) AND {due}, {})", dialect.falsehood())
            }
            _ => format!("coalesce(({guard}), {})", dialect.falsehood()),
        }
    }

    /// The orders among `keys` that may be closed.
    fn push_closable(&self, query: &mut Query, kind: KeyType, keys: &[&str], manual: bool) {
        let dialect = query.dialect;
        query.text(" WHERE ").is_key(&self.key(dialect), kind, keys);
        query.text(" AND ").text(&self.closable(dialect, manual));
    }

    /// MariaDB: locks the orders that may be closed, in the order of their keys; rows of key and now.
    pub(super) fn lock(&self, kind: KeyType, keys: &[&str], manual: bool, patient: bool) -> Query {
        let dialect = Dialect::Mysql;
        let (key, table) = (self.key(dialect), self.table.quoted(dialect));
        let mut query = Query::new(dialect);
        query.text(&format!("SELECT {}, CAST(NOW(6) AS CHAR) FROM {table}", dialect.as_text(&key)));
        self.push_closable(&mut query, kind, keys, manual);
        query.text(&format!(" ORDER BY {key} FOR UPDATE{}", skip_locked(patient)));
        query
    }

    /// The orders among `keys` that are still open, whenever they are due, locked: rows of key and now.
    pub(super) fn open(&self, dialect: Dialect, kind: KeyType, keys: &[&str], patient: bool) -> Query {
        if dialect == Dialect::Mysql {
            return self.lock(kind, keys, true, patient);
        }
        let (key, table) = (self.key(dialect), self.table.quoted(dialect));
        let mut query = Query::new(dialect);
        let (shown, now) = (dialect.as_text(&key), dialect.as_text(dialect.now()));
        query.text(&format!("SELECT {shown}, {now} FROM {table}"));
        self.push_closable(&mut query, kind, keys, true);
        if dialect == Dialect::Postgres {
            query.text(&format!(" ORDER BY {key} FOR UPDATE{}", skip_locked(patient)));
        }
        query
    }

    /// MariaDB: closes exactly the orders that were locked; `now` is the time of the lock, so that one close has one time.
    pub(super) fn update(&self, kind: KeyType, keys: &[&str], manual: bool, now: Option<&str>) -> Query {
        let dialect = Dialect::Mysql;
        let mut query = Query::new(dialect);
        query.text(&format!("UPDATE {} SET ", self.table.quoted(dialect)));
        self.set.push(&mut query, now);
        self.push_closable(&mut query, kind, keys, manual);
        query
    }

    /// PostgreSQL, SQLite: closes in one statement; rows of key, now, and whether the guard still holds.
    ///
    /// PostgreSQL locks in the order of the keys first and passes over rows that others hold. The sub-select names rows only: what is
    /// true of them is decided by the UPDATE's own WHERE, on the row as it is then.
    pub(super) fn close(
        &self,
        dialect: Dialect,
        kind: KeyType,
        keys: &[&str],
        manual: bool,
        patient: bool,
    ) -> Query {
        let (key, table) = (self.key(dialect), self.table.quoted(dialect));
        let mut query = Query::new(dialect);
        if dialect == Dialect::Postgres {
            query.text(&format!("WITH dw_locked AS MATERIALIZED (SELECT {key} AS dw_key FROM {table}"));
            self.push_closable(&mut query, kind, keys, manual);
            query.text(&format!(" ORDER BY {key} FOR UPDATE{}) ", skip_locked(patient)));
        }
        query.text(&format!("UPDATE {table} SET {}", self.set.text(dialect)));
        if dialect == Dialect::Postgres {
            query.text(&format!(" WHERE {key} IN (SELECT dw_key FROM dw_locked) AND "));
            if kind == KeyType::Text {
                // The key's own collation may take a neighbour for equal.
                query
                    .text(&format!("{key}::text COLLATE \"C\" IN (SELECT dw_key::text FROM dw_locked) AND "));
            }
            query.text(&self.closable(dialect, manual));
        } else {
            self.push_closable(&mut query, kind, keys, manual);
        }
        query.text(&format!(
            " RETURNING {}, {}, {}",
            dialect.as_text(&key),
            dialect.as_text(dialect.now()),
            dialect.as_text(&format!("coalesce(({}), {})", self.guard.text(dialect), dialect.falsehood()))
        ));
        query
    }

    /// Reads what is true of the orders: rows of key, guard, due, whether close_at is null, close_at in milliseconds, state.
    pub(super) fn classify(&self, dialect: Dialect, kind: KeyType, keys: &[&str]) -> Query {
        let key = self.key(dialect);
        let truth = |condition: &str| format!("CASE WHEN {condition} THEN '1' ELSE '0' END");
        let (due, null, at) = match &self.close_at {
            Some(close_at) => {
                let text = close_at.text(dialect);
                (
                    truth(&dialect.is_due(&text, self.close_at_type)),
                    truth(&format!("({text}) IS NULL")),
                    dialect.as_millis(&text, self.close_at_type),
                )
            }
            None => ("'1'".to_owned(), "'0'".to_owned(), "NULL".to_owned()),
        };
        let state = match &self.state {
            Some(state) => dialect.as_text(&state.text(dialect)),
            None => "'not open'".to_owned(),
        };
        let mut query = Query::new(dialect);
        query.text(&format!(
            "SELECT {}, {}, {due}, {null}, {at}, {state} FROM {} WHERE ",
            dialect.as_text(&key),
            truth(&format!("({})", self.guard.text(dialect))),
            self.table.quoted(dialect)
        ));
        query.is_key(&key, kind, keys);
        query
    }

    /// Finds overdue rows as feed and sweep do; only explained, never run.
    pub(super) fn overdue_query(&self, dialect: Dialect) -> Option<String> {
        let overdue = match (&self.overdue, &self.close_at) {
            (Some(overdue), _) => format!("({})", overdue.text(dialect)),
            (None, Some(close_at)) => dialect.is_due(&close_at.text(dialect), self.close_at_type),
            (None, None) => return None,
        };
        Some(format!(
            "SELECT {} FROM {} WHERE ({}) AND {overdue}",
            self.key(dialect),
            self.table.quoted(dialect),
            self.guard.text(dialect)
        ))
    }

    /// Any one open row, locked, for the dry run: a row of its key.
    pub(super) fn any_open(&self, dialect: Dialect) -> Query {
        let locking = if dialect == Dialect::Sqlite { "" } else { " FOR UPDATE SKIP LOCKED" };
        Query::plain(
            dialect,
            format!(
                "SELECT {} FROM {} WHERE ({}) LIMIT 1{locking}",
                dialect.as_text(&self.key(dialect)),
                self.table.quoted(dialect),
                self.guard.text(dialect)
            ),
        )
    }
}

fn skip_locked(patient: bool) -> &'static str {
    if patient { "" } else { " SKIP LOCKED" }
}

/// The value, or its problem added to the others.
pub(super) fn keep<T>(result: Result<T, String>, problems: &mut Vec<String>) -> Option<T> {
    result.map_err(|problem| problems.push(problem)).ok()
}
