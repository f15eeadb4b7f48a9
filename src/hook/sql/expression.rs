//! The shop's expressions and assignments, compiled once, which stand inside statements that duewheel writes.

use super::dialect::Dialect;
use super::placeholder::{Bind, Part, parts, push_now, single, words};
use super::query::Query;
use super::text::{Token, tokens};

/// An expression over the columns of the orders table, or the assignments of `set`; only `:now` is bound in it.
#[derive(Debug, Clone)]
pub(super) struct Expression {
    parts: Vec<Part>,
    /// The bare and quoted names in it, as written: possible columns.
    pub(super) words: Vec<String>,
}

impl Expression {
    /// Checks `text`: one expression, closed in itself, that cannot end or swallow the statement written around it.
    pub(super) fn compile(dialect: Dialect, field: &str, text: &str) -> Result<Self, String> {
        let found = tokens(dialect, text).map_err(|e| format!("{field}: {e}"))?;
        if !found.iter().any(|t| matches!(t, Token::Word(_) | Token::Quoted(_) | Token::Other(_))) {
            return Err(format!("{field}: expected an expression, found nothing"));
        }
        single(&found, field)?;
        if found.iter().any(|t| matches!(t, Token::Comment(_))) {
            return Err(format!("{field}: expected no comments"));
        }
        let parts = parts(dialect, field, &found)?;
        if let Some(Part::Bind(_)) =
            parts.iter().find(|p| !matches!(p, Part::Text(_) | Part::Bind(Bind::Now)))
        {
            return Err(format!(
                "{field}: expected no placeholder but :now; what differs by order belongs into then"
            ));
        }
        Ok(Self { parts, words: words(&found) })
    }

    /// The text, with `:now` written as the dialect's own.
    pub(super) fn text(&self, dialect: Dialect) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Bind(_) => dialect.now().to_owned(),
        };
        self.parts.iter().map(part).collect()
    }

    /// Appends the text to `query`, with `:now` bound to the time given, or written as the dialect's own.
    pub(super) fn push(&self, query: &mut Query, now: Option<&str>) {
        for part in &self.parts {
            match part {
                Part::Text(text) => {
                    query.text(text);
                }
                Part::Bind(_) => push_now(query, now),
            }
        }
    }
}

/// The columns that `set` assigns, and a check that it is nothing but assignments.
pub(super) fn assigned(dialect: Dialect, text: &str) -> Result<Vec<String>, String> {
    let found = tokens(dialect, text).map_err(|e| format!("set: {e}"))?;
    let mut depth = 0_i32;
    let mut columns = Vec::new();
    let mut expects_column = true;
    let solid =
        found.iter().filter(|t| !matches!(t, Token::Space(_) | Token::Comment(_))).collect::<Vec<_>>();
    for (n, token) in solid.iter().enumerate() {
        match token {
            Token::Other("(") => depth += 1,
            Token::Other(")") => depth -= 1,
            Token::Other(",") if depth == 0 => expects_column = true,
            Token::Word(word) if depth == 0 && ends_assignments(word) => {
                return Err(format!("set: expected assignments only, found {word}"));
            }
            Token::Word(_) | Token::Quoted(_)
                if depth == 0
                    && expects_column
                    && matches!(solid.get(n + 1), Some(Token::Other("=" | "."))) =>
            {
                // In `orders.status = 4` the column is the last of the dotted names.
                if matches!(solid.get(n + 1), Some(Token::Other("="))) {
                    columns.extend(token.name().map(str::to_owned));
                    expects_column = false;
                }
            }
            Token::Other(".") if expects_column => {}
            _ if expects_column => return Err("set: expected column = expression, …".to_owned()),
            _ => {}
        }
    }
    if expects_column { Err("set: expected column = expression, …".to_owned()) } else { Ok(columns) }
}

fn ends_assignments(word: &str) -> bool {
    ["where", "from", "returning", "order", "limit", "set"].iter().any(|w| word.eq_ignore_ascii_case(w))
}
