//! The shop's own SQL, compiled once: what is written in the configuration, with its named placeholders found and checked.

use super::dialect::Dialect;
use super::order::{Order, rows_json};
use super::query::{Query, Value};
use super::settings::KeyType;
use super::text::{Token, tokens};

/// What a named placeholder stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Bind {
    Id,
    Ids,
    /// `IN (:ids)`, brackets and all.
    InIds,
    Rows,
    DueAt,
    Now,
    Fence,
    Attempt,
    Generation,
    Cause,
    Actor,
    Reason,
    TraceId,
    Payload(Vec<String>),
}

impl Bind {
    const KNOWN: &'static str = ":id :ids :rows :due_at :now :fence :attempt :generation :cause :actor :reason :trace_id \
         :payload.field";

    fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "id" => Self::Id,
            "ids" => Self::Ids,
            "rows" => Self::Rows,
            "due_at" => Self::DueAt,
            "now" => Self::Now,
            "fence" => Self::Fence,
            "attempt" => Self::Attempt,
            "generation" => Self::Generation,
            "cause" => Self::Cause,
            "actor" => Self::Actor,
            "reason" => Self::Reason,
            "trace_id" => Self::TraceId,
            _ => match name.strip_prefix("payload") {
                Some(path) if path.is_empty() || path.starts_with('.') => {
                    Self::Payload(path.split('.').skip(1).map(str::to_owned).collect())
                }
                _ => return Err(format!("unknown placeholder :{name}, expected one of {}", Self::KNOWN)),
            },
        })
    }
}

/// A piece of compiled text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Bind(Bind),
}

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

/// A whole statement of the shop's: one of `then` or `ensure`, or `call`.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    parts: Vec<Part>,
    /// Where it stands, for messages (`then 2`).
    pub(super) field: String,
    /// Whether it runs once for all orders of the batch, or once for each.
    pub(super) per_batch: bool,
}

/// What a statement may be bound to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    /// The kind of the key.
    pub(super) kind: KeyType,
    /// Who closes, for the audit row.
    pub(super) worker: &'a str,
    /// The time of the close as text, where the dialect has no time of the whole transaction.
    pub(super) now: Option<&'a str>,
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

fn push(query: &mut Query, bind: &Bind, context: Context<'_>, orders: &[Order<'_>]) {
    let keys = || orders.iter().map(|o| o.key()).collect::<Vec<_>>();
    match bind {
        Bind::Ids => {
            query.keys(context.kind, &keys());
            return;
        }
        Bind::InIds => {
            query.among(context.kind, &keys());
            return;
        }
        Bind::Rows => {
            query.bind(Value::Text(Some(rows_json(context.kind, context.worker, orders))));
            if query.dialect == Dialect::Postgres {
                query.text("::json");
            }
            return;
        }
        Bind::Now => return push_now(query, context.now),
        _ => {}
    }
    // A statement without :ids or :rows is bound to one order at a time.
    let Some(order) = orders.first() else { return };
    let value = match bind {
        Bind::Id => {
            query.key(context.kind, order.key());
            return;
        }
        Bind::DueAt => return push_moment(query, order.due_millis()),
        Bind::Fence => Value::Int(order.fence()),
        Bind::Attempt => Value::Int(i64::from(order.lease.attempt)),
        Bind::Generation => Value::Int(order.generation()),
        Bind::Actor => Value::Text(order.actor().map(str::to_owned)),
        Bind::Reason => Value::Text(order.reason().map(str::to_owned)),
        Bind::TraceId => Value::Text(order.trace_id().map(str::to_owned)),
        Bind::Payload(path) if path.is_empty() => Value::Text(Some(order.payload().to_owned())),
        Bind::Payload(path) => Value::Text(order.payload_field(path)),
        Bind::Cause | Bind::Ids | Bind::InIds | Bind::Rows | Bind::Now => {
            Value::Text(Some(order.lease.cause.as_str().to_owned()))
        }
    };
    query.bind(value);
}

/// The time of the close, the same in every statement of its transaction.
fn push_now(query: &mut Query, now: Option<&str>) {
    match now {
        Some(now) => query.bind(Value::Text(Some(now.to_owned()))),
        None => query.text(query.dialect.now()),
    };
}

/// A moment as the dialect's own time, in the session's zone.
fn push_moment(query: &mut Query, millis: i64) {
    match query.dialect {
        Dialect::Postgres => query.text("to_timestamp(").bind(Value::Int(millis)).text(" / 1000.0)"),
        Dialect::Mysql => query.text("FROM_UNIXTIME(").bind(Value::Int(millis)).text(" / 1000)"),
        Dialect::Sqlite => query
            .text("strftime('%Y-%m-%d %H:%M:%f', ")
            .bind(Value::Int(millis))
            .text(" / 1000.0, 'unixepoch')"),
    };
}

/// Refuses a second statement, brackets that do not match, and placeholders that are not named.
fn single(found: &[Token<'_>], field: &str) -> Result<(), String> {
    let mut depth = 0_i32;
    for token in found {
        match token {
            Token::Other(";") => return Err(format!("{field}: expected one statement without \";\"")),
            Token::Other("(") => depth += 1,
            Token::Other(")") => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return Err(format!("{field}: a bracket is closed that was not opened"));
        }
    }
    if depth == 0 { Ok(()) } else { Err(format!("{field}: a bracket is not closed")) }
}

/// The names in the text, as written.
fn words(found: &[Token<'_>]) -> Vec<String> {
    found.iter().filter_map(Token::name).map(str::to_owned).collect()
}

fn parts(dialect: Dialect, field: &str, found: &[Token<'_>]) -> Result<Vec<Part>, String> {
    let mut parts: Vec<Part> = Vec::new();
    for (n, token) in found.iter().enumerate() {
        match token {
            Token::Placeholder(name) => {
                let bind = Bind::parse(name).map_err(|e| format!("{field}: {e}"))?;
                parts.push(Part::Bind(bind));
            }
            Token::Other("?") if dialect != Dialect::Postgres => {
                return Err(format!("{field}: expected named placeholders, found \"?\""));
            }
            Token::Other("$") if matches!(found.get(n + 1), Some(Token::Other(d)) if d.starts_with(|c: char| c.is_ascii_digit())) =>
            {
                return Err(format!("{field}: expected named placeholders, found \"$\" and a number"));
            }
            // A comment would swallow what is written behind it; a space stands in its place.
            Token::Comment(_) => append(&mut parts, " "),
            Token::Word(text) | Token::Quoted(text) | Token::Other(text) | Token::Space(text) => {
                append(&mut parts, text);
            }
        }
    }
    in_lists(field, parts)
}

fn append(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        Some(Part::Text(last)) => last.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

/// Turns `IN (:ids)` into the form that the dialect's indexes serve best.
fn in_lists(field: &str, parts: Vec<Part>) -> Result<Vec<Part>, String> {
    let mut out: Vec<Part> = Vec::with_capacity(parts.len());
    let mut rest = parts.into_iter().peekable();
    while let Some(part) = rest.next() {
        if part == Part::Bind(Bind::Ids)
            && let Some(Part::Text(before)) = out.last_mut()
            && let Some(open) = before.trim_end().strip_suffix('(')
            && let open = open.trim_end()
            && open.len() >= 2
            && open.is_char_boundary(open.len() - 2)
            && open[open.len() - 2..].eq_ignore_ascii_case("in")
            && open[..open.len() - 2].ends_with(|c: char| !c.is_alphanumeric() && c != '_')
            && let Some(Part::Text(after)) = rest.peek_mut()
            && let Some(behind) = after.trim_start().strip_prefix(')')
        {
            let kept = open[..open.len() - 2].to_owned();
            if kept.trim_end().to_ascii_lowercase().ends_with("not") {
                return Err(format!("{field}: expected no NOT IN (:ids)"));
            }
            *before = kept;
            *after = behind.to_owned();
            out.push(Part::Bind(Bind::InIds));
        } else {
            out.push(part);
        }
    }
    Ok(out)
}
