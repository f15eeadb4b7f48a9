//! The statements that duewheel writes around the shop's declaration.

use super::audit;
use super::dialect::{Dialect, Name};
use super::order::Order;
use super::query::{Query, Value};
use super::settings::{KeyType, SqlSettings, TimeType};
use super::statement::{Context, Expression, Statement, assigned};

/// The declaration, checked and compiled for one dialect.
pub(super) struct Plan {
    pub(super) dialect: Dialect,
    pub(super) form: Form,
    pub(super) kind: KeyType,
    pub(super) then: Vec<Statement>,
    pub(super) ensure: Vec<Statement>,
    /// The audit table, quoted.
    pub(super) audit: Option<Name>,
    pub(super) worker: String,
    pub(super) named: bool,
}

/// How orders are closed.
pub(super) enum Form {
    Declared(Box<Declared>),
    Call(Statement),
}

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

/// Statements that may follow a close; nothing that ends a transaction or changes a schema.
const THEN: &[&str] = &["INSERT", "UPDATE", "DELETE", "SELECT", "WITH", "REPLACE", "MERGE", "CALL"];

impl Plan {
    /// Checks and compiles the declaration; every problem found is added to `problems`.
    pub(super) fn compile(
        dialect: Dialect,
        settings: &SqlSettings,
        problems: &mut Vec<String>,
    ) -> Option<Self> {
        let before = problems.len();
        let form = match &settings.call {
            Some(call) => {
                for (field, given) in
                    [("table", &settings.table), ("guard", &settings.guard), ("set", &settings.set)]
                {
                    if !given.is_empty() {
                        problems
                            .push(format!("{field}: expected none beside call: the call closes by itself"));
                    }
                }
                keep(
                    Statement::compile(dialect, "call".to_owned(), call, &["CALL", "SELECT", "WITH"]),
                    problems,
                )
                .map(Form::Call)
            }
            None => Declared::compile(dialect, settings, problems).map(|d| Form::Declared(Box::new(d))),
        };
        let mut statements = |field: &str, texts: &[String], allowed: &[&str]| {
            let compile = |(n, text): (usize, &String)| {
                keep(Statement::compile(dialect, format!("{field} {}", n + 1), text, allowed), problems)
            };
            texts.iter().enumerate().filter_map(compile).collect::<Vec<_>>()
        };
        let then = statements("then", &settings.then, THEN);
        let ensure = statements("ensure", &settings.ensure, &["SELECT", "WITH"]);
        let audit = settings.audit.as_ref().and_then(|t| keep(Name::parse("audit", t, true), problems));
        if problems.len() > before {
            return None;
        }
        Some(Self {
            dialect,
            form: form?,
            kind: settings.key_type,
            then,
            ensure,
            audit,
            worker: settings.worker.clone(),
            named: settings.prepared,
        })
    }

    /// What the statements of the shop are bound to.
    pub(super) fn context<'a>(&'a self, now: Option<&'a str>) -> Context<'a> {
        Context { kind: self.kind, worker: &self.worker, now }
    }

    /// Writes the audit rows of the closed orders; nothing where no audit table is declared.
    pub(super) fn audit_inserts(&self, orders: &[Order<'_>]) -> Vec<Query> {
        let Some(table) = &self.audit else { return Vec::new() };
        audit::inserts(self.dialect, &table.quoted(self.dialect), &self.worker, orders)
    }

    /// Reads which of the orders an earlier call closed in the same life: rows of id and generation.
    pub(super) fn audit_lookup(&self, keys: &[&str]) -> Option<Query> {
        let table = self.audit.as_ref()?.quoted(self.dialect);
        let mut query = Query::new(self.dialect);
        query.text(&format!(
            "SELECT order_id, {} FROM {table} WHERE order_id ",
            self.dialect.as_text("generation")
        ));
        query.among(KeyType::Text, keys);
        Some(query)
    }
}

impl Declared {
    fn compile(dialect: Dialect, settings: &SqlSettings, problems: &mut Vec<String>) -> Option<Self> {
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
fn keep<T>(result: Result<T, String>, problems: &mut Vec<String>) -> Option<T> {
    result.map_err(|problem| problems.push(problem)).ok()
}

/// One text value, where a query needs a single one.
pub(super) fn text_value(text: &str) -> Value {
    Value::Text(Some(text.to_owned()))
}
