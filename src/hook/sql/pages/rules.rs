//! The shop's own questions to its database: one SELECT each, run read-only, with a limit in time and rows.
//!
//! Three locks keep a question from changing anything: its text is checked, it runs as a derived table (where nothing but a query may
//! stand), and in a read-only transaction. Functions with effects are beyond all three: give the user of `url` the right to read only.

use super::OrdersTable;
use crate::error::{Error, Result, escaped};
use crate::hook::sql::dialect::Dialect;
use crate::hook::sql::failure::Failure;
use crate::hook::sql::placeholder::single;
use crate::hook::sql::pool::Pool;
use crate::hook::sql::query::Query;
use crate::hook::sql::session::{Cells, Session};
use crate::hook::sql::text::{Token, tokens};

/// A question whose text has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    sql: String,
}

/// One answer: the id in the first column, and the other columns by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The first column as text; empty where it is NULL.
    pub id: String,
    /// The others, `None` where NULL.
    pub columns: Vec<(String, Option<String>)>,
}

/// Words that no question needs as they stand, and every statement that changes or locks something does.
const REFUSED: [&str; 13] = [
    "insert", "update", "delete", "merge", "into", "call", "do", "truncate", "drop", "alter", "create",
    "grant", "lock",
];

impl Question {
    /// Checks the text: one SELECT or WITH that neither writes nor locks; the error begins with `field`.
    pub fn parse(dialect: Dialect, field: &str, text: &str) -> Result<Self, String> {
        let found = tokens(dialect, text).map_err(|e| format!("{field}: {e}"))?;
        single(&found, field)?;
        let solid = || found.iter().filter(|t| !matches!(t, Token::Space(_) | Token::Comment(_)));
        let first = match solid().next() {
            Some(Token::Word(word)) => word.to_ascii_uppercase(),
            _ => String::new(),
        };
        if !["SELECT", "WITH"].contains(&first.as_str()) {
            return Err(format!("{field}: expected one SELECT or WITH, found \"{}\"", escaped(&first)));
        }
        for token in &found {
            match token {
                Token::Word(word) if REFUSED.iter().any(|refused| word.eq_ignore_ascii_case(refused)) => {
                    return Err(format!(
                        "{field}: expected a query that only reads, found {}",
                        word.to_ascii_uppercase()
                    ));
                }
                // FOR UPDATE is caught above.
                Token::Word(word) if word.eq_ignore_ascii_case("share") => {
                    return Err(format!("{field}: expected a query that locks nothing, found SHARE"));
                }
                Token::Placeholder(name) => {
                    return Err(format!("{field}: expected no placeholder, found :{name}"));
                }
                // MariaDB and MySQL run what stands in such a comment.
                Token::Comment(comment) if comment.starts_with("/*!") || comment.starts_with("/*M!") => {
                    return Err(format!("{field}: expected no comment that is run"));
                }
                _ => {}
            }
        }
        // A comment would swallow what is written behind it; a space stands in its place.
        let sql = found.iter().map(|token| match token {
            Token::Comment(_) => " ",
            Token::Word(text) | Token::Quoted(text) | Token::Other(text) | Token::Space(text) => text,
            Token::Placeholder(_) => "",
        });
        Ok(Self { sql: sql.collect::<String>().trim().to_owned() })
    }
}

impl OrdersTable {
    /// The dialect of its databases.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The answers of all databases, at most `limit` in all, by id; `true` beside them where there were more.
    pub async fn ask(&self, question: &Question, limit: usize) -> Result<(Vec<Answered>, bool)> {
        let mut all = Vec::new();
        for pool in &self.readers {
            all.extend(self.within_as("asking", pool, self.ask_one(pool, question, limit)).await?);
        }
        let more = all.len() > limit;
        all.truncate(limit);
        Ok((all, more))
    }

    async fn ask_one(
        &self,
        pool: &Pool,
        question: &Question,
        limit: usize,
    ) -> std::result::Result<Vec<Answered>, Failure> {
        // A session of its own: what it is told about reading only must not outlive the question.
        let mut session = pool.fresh().await?;
        match self.dialect {
            Dialect::Postgres => {
                pool.database.begin(&mut session, false).await?;
                session.raw("SET TRANSACTION READ ONLY").await?;
            }
            Dialect::Mysql => session.raw("START TRANSACTION READ ONLY").await?,
            Dialect::Sqlite => session.raw("PRAGMA query_only = 1").await?,
        }
        let rows = self.answers(&mut session, question, limit).await;
        session.close().await;
        rows
    }

    async fn answers(
        &self,
        session: &mut Session,
        question: &Question,
        limit: usize,
    ) -> std::result::Result<Vec<Answered>, Failure> {
        let derived = format!("FROM (\n{}\n) AS dw_found", question.sql);
        let columns = session.prepare(&format!("SELECT * {derived}")).await?;
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        if let Some((n, name)) = names.iter().enumerate().find(|(n, name)| names[..*n].contains(name)) {
            let reason =
                format!("two columns are named {}: number {}, and one before it", escaped(name), n + 1);
            return Err(Failure::Data(reason));
        }
        let quote = if self.dialect == Dialect::Mysql { '`' } else { '"' };
        let doubled = quote.to_string().repeat(2);
        let text = |name: &&str| {
            let name = format!("{quote}{}{quote}", name.replace(quote, &doubled));
            self.dialect.as_text(&format!("dw_found.{name}"))
        };
        let parts: Vec<String> = names.iter().map(text).collect();
        // Sorted, so that two runs over the same rows report the same first ones.
        let sql =
            format!("SELECT {} {derived} ORDER BY 1 LIMIT {}", parts.join(", "), limit.saturating_add(1));
        let rows = session.rows(Query::plain(self.dialect, sql), false).await?;
        let answered = |cells: Cells| {
            let mut cells = cells.into_iter();
            let id = cells.next().flatten().unwrap_or_default();
            let names = names.iter().skip(1).map(|name| (*name).to_owned());
            Answered { id, columns: names.zip(cells).collect() }
        };
        Ok(rows.into_iter().map(answered).collect())
    }

    async fn within_as<T>(
        &self,
        verb: &str,
        pool: &Pool,
        work: impl Future<Output = std::result::Result<T, Failure>>,
    ) -> Result<T> {
        let said = |reason: &str| format!("{verb} {}: {reason}", pool.database.shown);
        match tokio::time::timeout(self.limit, work).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(failure)) if failure.may_pass() => Err(Error::HookAway(said(failure.reason()))),
            Ok(Err(failure)) => Err(Error::Hook(said(failure.reason()))),
            Err(_) => Err(Error::HookAway(said(&format!("no answer within {:?}", self.limit)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_query_that_reads_is_a_question() {
        for good in [
            "SELECT id FROM orders WHERE amount < 0",
            "with late AS (SELECT id FROM orders) SELECT id FROM late -- those",
            "SELECT id, replace(note, ';', '') FROM orders WHERE note <> 'for update; delete'",
            "SELECT update_time FROM orders",
        ] {
            assert!(Question::parse(Dialect::Postgres, "sql", good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("", "expected one SELECT or WITH"),
            ("UPDATE orders SET status = 4", "expected one SELECT or WITH"),
            ("SELECT 1; DROP TABLE orders", "without \";\""),
            ("WITH gone AS (DELETE FROM orders RETURNING id) SELECT id FROM gone", "found DELETE"),
            ("SELECT id INTO kept FROM orders", "found INTO"),
            ("SELECT id FROM orders FOR UPDATE", "found UPDATE"),
            ("SELECT id FROM orders FOR SHARE", "found SHARE"),
            ("SELECT id FROM orders LOCK IN SHARE MODE", "found LOCK"),
            ("SELECT id FROM orders WHERE id = :id", "placeholder"),
            ("SELECT id FROM orders) AS x, (SELECT 1", "bracket"),
            ("SELECT id FROM orders /*! INTO OUTFILE '/tmp/x' */", "comment that is run"),
            ("EXPLAIN SELECT 1", "expected one SELECT or WITH"),
            ("(SELECT 1)", "expected one SELECT or WITH"),
            ("SELECT 'a", "not closed"),
        ] {
            let refused = Question::parse(Dialect::Mysql, "sql", bad).unwrap_err();
            assert!(refused.starts_with("sql: ") && refused.contains(why), "{bad}: {refused}");
        }
    }
}
