//! One statement on its way to the database: text with placeholders of the dialect's own form, and the values bound to them.

use std::fmt::Write;

use super::dialect::Dialect;
use super::settings::KeyType;
use crate::trace::Traceparent;

/// A bound value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// A whole number.
    Int(i64),
    /// Text, or NULL.
    Text(Option<String>),
    /// A PostgreSQL array of numbers.
    Ints(Vec<i64>),
    /// A PostgreSQL array of texts.
    Texts(Vec<Option<String>>),
}

impl Value {
    /// One text.
    pub(super) fn text(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }

    /// The type to cast a PostgreSQL parameter to, so that its type never depends on where it stands.
    fn postgres_type(&self) -> &'static str {
        match self {
            Self::Int(_) => "bigint",
            Self::Text(_) => "text",
            Self::Ints(_) => "bigint[]",
            Self::Texts(_) => "text[]",
        }
    }
}

/// A statement and its values.
#[derive(Debug, Clone)]
pub(super) struct Query {
    /// The dialect of the text.
    pub(super) dialect: Dialect,
    /// The text.
    pub(super) sql: String,
    /// The values, in the order of their placeholders.
    pub(super) values: Vec<Value>,
}

impl Query {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, sql: String::with_capacity(256), values: Vec::new() }
    }

    /// A statement without values.
    pub(super) fn plain(dialect: Dialect, sql: impl Into<String>) -> Self {
        Self { dialect, sql: sql.into(), values: Vec::new() }
    }

    /// Appends text as it is.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.sql.push_str(text);
        self
    }

    /// Appends the trace that the statement is part of, as a comment. A checked traceparent holds hex digits and dashes only, so that
    /// nothing in it ends the comment.
    pub(super) fn trace(&mut self, traceparent: &Traceparent<'_>) -> &mut Self {
        self.text(&format!(" /*traceparent='{traceparent}'*/"))
    }

    /// Appends a placeholder and binds `value` to it.
    pub(super) fn bind(&mut self, value: Value) -> &mut Self {
        let kind = value.postgres_type();
        self.values.push(value);
        match self.dialect {
            Dialect::Postgres => {
                // Writing to a String cannot fail.
                let _ = write!(self.sql, "(${}::{kind})", self.values.len());
            }
            Dialect::Mysql | Dialect::Sqlite => self.sql.push('?'),
        }
        self
    }

    /// Appends one key as a value.
    pub(super) fn key(&mut self, kind: KeyType, key: &str) -> &mut Self {
        match (kind, self.dialect) {
            (KeyType::Bigint, _) => self.bind(Value::Int(key.parse().unwrap_or_default())),
            (KeyType::Uuid, Dialect::Postgres) => self.bind(Value::Text(Some(key.to_owned()))).text("::uuid"),
            (KeyType::Uuid | KeyType::Text, _) => self.bind(Value::Text(Some(key.to_owned()))),
        }
    }

    /// Appends the keys as one value: a PostgreSQL array, elsewhere a JSON array.
    pub(super) fn keys(&mut self, kind: KeyType, keys: &[&str]) -> &mut Self {
        match (self.dialect, kind) {
            (Dialect::Postgres, KeyType::Bigint) => {
                self.bind(Value::Ints(keys.iter().map(|k| k.parse().unwrap_or_default()).collect()))
            }
            (Dialect::Postgres, KeyType::Text) => self.bind(texts(keys)),
            (Dialect::Postgres, KeyType::Uuid) => self.bind(texts(keys)).text("::uuid[]"),
            (Dialect::Mysql | Dialect::Sqlite, _) => self.bind(Value::Text(Some(json_keys(kind, keys)))),
        }
    }

    /// Appends `IN` or its better form, and the keys.
    pub(super) fn among(&mut self, kind: KeyType, keys: &[&str]) -> &mut Self {
        match self.dialect {
            Dialect::Postgres => self.text("= ANY(").keys(kind, keys).text(")"),
            Dialect::Sqlite => self.text("IN (SELECT value FROM json_each(").keys(kind, keys).text("))"),
            Dialect::Mysql => {
                self.text("IN (");
                for (n, key) in padded(keys).enumerate() {
                    self.text(if n == 0 { "" } else { "," }).key(kind, key);
                }
                self.text(")")
            }
        }
    }

    /// Appends the condition that `column` is one of the keys: for text byte for byte, whatever the column's collation thinks equal,
    /// beside a first condition that the column's own index serves.
    pub(super) fn is_key(&mut self, column: &str, kind: KeyType, keys: &[&str]) -> &mut Self {
        self.text(column).text(" ").among(kind, keys);
        if kind != KeyType::Text {
            return self;
        }
        match self.dialect {
            Dialect::Postgres => self.text(&format!(" AND {column}::text COLLATE \"C\" ")).among(kind, keys),
            Dialect::Sqlite => {
                self.text(&format!(" AND CAST({column} AS TEXT) COLLATE BINARY ")).among(kind, keys)
            }
            Dialect::Mysql => {
                // Binary strings are compared without padding; the `_bin` collations of MariaDB are not.
                self.text(&format!(" AND CAST(CONVERT({column} USING utf8mb4) AS BINARY) IN ("));
                for (n, key) in padded(keys).enumerate() {
                    self.text(if n == 0 { "CAST(" } else { ",CAST(" }).key(kind, key).text(" AS BINARY)");
                }
                self.text(")")
            }
        }
    }
}

fn texts(keys: &[&str]) -> Value {
    Value::Texts(keys.iter().map(|&k| Some(k.to_owned())).collect())
}

/// The keys, the last one repeated up to a power of two: so the number of different statements, each prepared once a session, stays
/// small.
fn padded<'a>(keys: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let last = keys.last().copied().unwrap_or_default();
    keys.iter().copied().chain(std::iter::repeat_n(last, keys.len().next_power_of_two() - keys.len()))
}

/// The keys as a JSON array; numbers as numbers, exact whatever their size.
fn json_keys(kind: KeyType, keys: &[&str]) -> String {
    let mut out = String::from("[");
    for (n, key) in keys.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        match kind {
            KeyType::Bigint => out.push_str(key),
            KeyType::Text | KeyType::Uuid => push_json(&mut out, key),
        }
    }
    out.push(']');
    out
}

/// Appends `text` as a JSON string.
pub(super) fn push_json(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_grow_by_powers_of_two_so_that_few_statements_are_prepared() {
        let mut query = Query::new(Dialect::Mysql);
        query.is_key("`id`", KeyType::Bigint, &["1", "2", "3"]);
        assert_eq!(query.sql, "`id` IN (?,?,?,?)");
        assert_eq!(query.values, [1, 2, 3, 3].map(Value::Int));
    }

    #[test]
    fn a_trace_stands_in_a_comment_behind_the_statement() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let mut query = Query::plain(Dialect::Sqlite, "SELECT 1");
        query.trace(&Traceparent::parse(text).unwrap());
        assert_eq!(query.sql, format!("SELECT 1 /*traceparent='{text}'*/"));
    }

    #[test]
    fn big_numbers_and_quotes_pass_through_json_unchanged() {
        assert_eq!(json_keys(KeyType::Bigint, &["9007199254740993", "-1"]), "[9007199254740993,-1]");
        assert_eq!(json_keys(KeyType::Text, &["a\"b\\", "订"]), r#"["a\"b\\","订"]"#);
    }
}
