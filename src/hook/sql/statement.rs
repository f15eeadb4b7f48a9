//! The shop's own statements, compiled once: what is written in the configuration, with its named placeholders found and checked.

use super::dialect::Dialect;
use super::order::Order;
use super::placeholder::{Bind, Context, Part, parts, push, single, words};
use super::query::Query;
use super::text::{Token, tokens};

/// A whole statement of the shop's: one of `then` or `ensure`, or `call`.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    parts: Vec<Part>,
    /// Where it stands, for messages (`then 2`).
    pub(super) field: String,
    /// Whether it runs once for all orders of the batch, or once for each.
    pub(super) per_batch: bool,
}

impl Statement {
    /// Checks `text`: one statement, of an allowed kind, that names the orders it is for.
    pub(super) fn compile(
        dialect: Dialect,
        field: String,
        text: &str,
        allowed: &[&str],
    ) -> Result<Self, String> {
        let found = tokens(dialect, text).map_err(|e| format!("{field}: {e}"))?;
        single(&found, &field)?;
        let first = found.iter().find(|t| !matches!(t, Token::Space(_) | Token::Comment(_)));
        let kind = match first {
            Some(Token::Word(word)) => word.to_ascii_uppercase(),
            _ => String::new(),
        };
        if !allowed.contains(&kind.as_str()) {
            return Err(format!(
                "{field}: expected one statement of {}, found \"{kind}\"",
                allowed.join(", ")
            ));
        }
        let written = words(&found);
        if ["UPDATE", "DELETE"].contains(&kind.as_str())
            && !written.iter().any(|w| ["where", "on"].iter().any(|k| w.eq_ignore_ascii_case(k)))
        {
            return Err(format!("{field}: expected a WHERE (or a join ON): without it every row is changed"));
        }
        let parts = parts(dialect, &field, &found)?;
        let has = |wanted: &dyn Fn(&Bind) -> bool| {
            parts.iter().any(|p| matches!(p, Part::Bind(bind) if wanted(bind)))
        };
        let per_batch = has(&|b| matches!(b, Bind::Ids | Bind::InIds | Bind::Rows));
        if per_batch && has(&|b| !matches!(b, Bind::Ids | Bind::InIds | Bind::Rows | Bind::Now)) {
            return Err(format!(
                "{field}: a statement with :ids or :rows runs once for the whole batch; take what differs by order from :rows"
            ));
        }
        if !per_batch && !has(&|b| *b == Bind::Id) {
            return Err(format!(
                "{field}: expected :id, :ids or :rows: it would not know which orders were closed"
            ));
        }
        Ok(Self { parts, field, per_batch })
    }

    /// The statement for these orders: all of the batch, or the one.
    pub(super) fn bound(&self, dialect: Dialect, context: Context<'_>, orders: &[Order<'_>]) -> Query {
        let mut query = Query::new(dialect);
        for part in &self.parts {
            match part {
                Part::Text(text) => {
                    query.text(text);
                }
                Part::Bind(bind) => push(&mut query, bind, context, orders),
            }
        }
        query
    }
}
