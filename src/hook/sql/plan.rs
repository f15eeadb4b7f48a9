//! The whole declaration, checked and compiled once: how orders are closed, what follows a close, where it is recorded.

use super::audit;
use super::declared::{Declared, keep};
use super::dialect::{Dialect, Name};
use super::order::Order;
use super::placeholder::Context;
use super::query::Query;
use super::settings::{KeyType, SqlSettings};
use super::statement::Statement;

/// The declaration, checked and compiled for one dialect.
pub(super) struct Plan {
    pub(super) dialect: Dialect,
    pub(super) form: Form,
    pub(super) kind: KeyType,
    pub(super) then: Vec<Statement>,
    pub(super) ensure: Vec<Statement>,
    /// What reminds, before the close.
    pub(super) remind: Vec<Statement>,
    /// The audit table, quoted.
    pub(super) audit: Option<Name>,
    pub(super) worker: String,
    pub(super) named: bool,
    /// Whether the closing statement bears its trace.
    pub(super) trace_comment: bool,
}

/// How orders are closed.
pub(super) enum Form {
    Declared(Box<Declared>),
    Call(Statement),
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
        let remind = statements("remind", &settings.remind, THEN);
        if settings.call.is_some() && !remind.is_empty() {
            problems.push(
                "remind: expected none beside call: there is no guard that says who is still to be reminded"
                    .to_owned(),
            );
        }
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
            remind,
            audit,
            worker: settings.worker.clone(),
            named: settings.prepared,
            trace_comment: settings.trace_comment,
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

    /// Reads what earlier calls did with the orders: rows of id, generation and action.
    pub(super) fn audit_lookup(&self, keys: &[&str]) -> Option<Query> {
        let table = self.audit.as_ref()?.quoted(self.dialect);
        let mut query = Query::new(self.dialect);
        query.text(&format!(
            "SELECT order_id, {}, action FROM {table} WHERE order_id ",
            self.dialect.as_text("generation")
        ));
        query.among(KeyType::Text, keys);
        Some(query)
    }
}
