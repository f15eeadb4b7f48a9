//! What differs between the three databases in the text of a statement.

use super::settings::TimeType;

/// The dialect of SQL that a database speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL 11 and later.
    Postgres,
    /// MariaDB 10.6 and later, MySQL 8.0.4 and later.
    Mysql,
    /// SQLite 3.42 and later (3.51 is built in).
    Sqlite,
}

impl Dialect {
    /// The dialect behind a URL's scheme.
    pub fn of_scheme(scheme: &str) -> Option<Self> {
        match scheme {
            "postgres" | "postgresql" => Some(Self::Postgres),
            "mysql" | "mariadb" => Some(Self::Mysql),
            "sqlite" => Some(Self::Sqlite),
            _ => None,
        }
    }

    /// The stable word of this dialect.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
        }
    }

    /// A name in this dialect's quotes. The name holds no quote: [`Name::parse`] saw to it.
    fn quote(self, name: &str) -> String {
        match self {
            Self::Mysql => format!("`{name}`"),
            Self::Postgres | Self::Sqlite => format!("\"{name}\""),
        }
    }

    /// A text column or expression as plain text.
    pub(super) fn as_text(self, expression: &str) -> String {
        match self {
            Self::Postgres => format!("({expression})::text"),
            Self::Mysql => format!("CAST({expression} AS CHAR)"),
            Self::Sqlite => format!("CAST({expression} AS TEXT)"),
        }
    }

    /// The constant that is false.
    pub(super) fn falsehood(self) -> &'static str {
        match self {
            Self::Postgres => "false",
            Self::Mysql | Self::Sqlite => "0",
        }
    }

    /// The transaction's (MariaDB, SQLite: the statement's) own time.
    pub(super) fn now(self) -> &'static str {
        match self {
            Self::Postgres => "now()",
            Self::Mysql => "NOW(6)",
            Self::Sqlite => "strftime('%Y-%m-%d %H:%M:%f', 'now')",
        }
    }

    /// The condition that the moment `expression` has come.
    pub(super) fn is_due(self, expression: &str, kind: TimeType) -> String {
        let now = match (self, kind) {
            (Self::Postgres, TimeType::Time) => "now()",
            (Self::Postgres, TimeType::UnixSeconds) => "extract(epoch FROM now())",
            (Self::Postgres, TimeType::UnixMillis) => "extract(epoch FROM now()) * 1000",
            (Self::Mysql, TimeType::Time) => "NOW(6)",
            // Through UTC: UNIX_TIMESTAMP(NOW(6)) reads local time, and so is an hour behind for an hour each autumn.
            (Self::Mysql, TimeType::UnixSeconds) => {
                "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1000000"
            }
            (Self::Mysql, TimeType::UnixMillis) => {
                "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1000"
            }
            (Self::Sqlite, TimeType::Time) => {
                return format!("unixepoch(({expression}), 'subsec') <= unixepoch('now', 'subsec')");
            }
            (Self::Sqlite, TimeType::UnixSeconds) => "unixepoch('now', 'subsec')",
            (Self::Sqlite, TimeType::UnixMillis) => "unixepoch('now', 'subsec') * 1000",
        };
        format!("({expression}) <= {now}")
    }

    /// The moment `expression` as text: milliseconds since 1970, rounded up; NULL where it is none or never comes.
    pub(super) fn as_millis(self, expression: &str, kind: TimeType) -> String {
        let factor = match kind {
            TimeType::UnixMillis => 1,
            TimeType::Time | TimeType::UnixSeconds => 1000,
        };
        match (self, kind) {
            (Self::Postgres, TimeType::Time) => format!(
                "(CASE WHEN isfinite(({expression})::timestamptz) \
                 THEN ceil(extract(epoch FROM ({expression})::timestamptz) * 1000)::bigint END)::text"
            ),
            (Self::Postgres, _) => format!("ceil(({expression}) * {factor})::bigint::text"),
            (Self::Mysql, TimeType::Time) => {
                format!("CAST(CAST(CEIL(UNIX_TIMESTAMP({expression}) * 1000) AS SIGNED) AS CHAR)")
            }
            (Self::Mysql, _) => format!("CAST(CAST(CEIL(({expression}) * {factor}) AS SIGNED) AS CHAR)"),
            (Self::Sqlite, TimeType::Time) => {
                format!("CAST(CAST(round(unixepoch(({expression}), 'subsec') * 1000) AS INTEGER) AS TEXT)")
            }
            (Self::Sqlite, _) => {
                format!("CAST(CAST(round(({expression}) * {factor}) AS INTEGER) AS TEXT)")
            }
        }
    }
}

/// A table or column name of the configuration: plain identifiers, at most one dot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    /// The part before the dot.
    pub(super) schema: Option<String>,
    /// The name itself.
    pub(super) name: String,
}

impl Name {
    /// Checks `name` by grammar: letters, digits, `_` and `$`, not starting with a digit, at most 63 characters a part. It will be
    /// quoted, so reserved words are fine, and letters keep their case.
    pub(super) fn parse(field: &str, text: &str, dotted: bool) -> Result<Self, String> {
        let valid = |part: &str| {
            let mut chars = part.chars();
            chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
                && chars.all(|c| c.is_alphanumeric() || c == '_' || c == '$')
                && part.chars().count() <= 63
        };
        let (schema, name) = match text.split_once('.') {
            Some((schema, name)) if dotted => (Some(schema), name),
            _ => (None, text),
        };
        if valid(name) && schema.is_none_or(valid) {
            Ok(Self { schema: schema.map(str::to_owned), name: name.to_owned() })
        } else {
            let form = if dotted { "name or schema.name" } else { "a name" };
            Err(format!(
                "{field} \"{}\": expected {form}, of letters, digits and _, at most 63 characters",
                crate::error::shown(text)
            ))
        }
    }

    /// The quoted form.
    pub(super) fn quoted(&self, dialect: Dialect) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", dialect.quote(schema), dialect.quote(&self.name)),
            None => dialect.quote(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_by_grammar_and_quoted() {
        assert_eq!(
            Name::parse("table", "shop.order", true).unwrap().quoted(Dialect::Postgres),
            "\"shop\".\"order\""
        );
        assert_eq!(Name::parse("table", "订单", true).unwrap().quoted(Dialect::Mysql), "`订单`");
        for bad in ["orders; drop table x", "\"a\"\"b\"", "a`b", "", "1a", "a.b.c", "a b", &"x".repeat(64)] {
            assert!(Name::parse("table", bad, true).is_err(), "{bad} was accepted");
        }
        assert!(Name::parse("key", "a.b", false).is_err());
    }
}
