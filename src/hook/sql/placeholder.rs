//! Named placeholders: what each stands for, where they stand in a text, and how one is bound.

use super::dialect::Dialect;
use super::order::{Order, rows_json};
use super::query::{Query, Value};
use super::settings::KeyType;
use super::text::Token;

/// What a named placeholder stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bind {
    Id,
    Ids,
    /// `IN (:ids)`, brackets and all.
    InIds,
    Rows,
    DueAt,
    Now,
    Fence,
    Attempt,
    Stage,
    Generation,
    Cause,
    Actor,
    Reason,
    TraceId,
    Payload(Vec<String>),
}

impl Bind {
    const KNOWN: &'static str = ":id :ids :rows :due_at :now :fence :attempt :stage :generation :cause :actor :reason :trace_id \
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
            "stage" => Self::Stage,
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
pub(super) enum Part {
    Text(String),
    Bind(Bind),
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

/// Appends what `bind` stands for.
pub(super) fn push(query: &mut Query, bind: &Bind, context: Context<'_>, orders: &[Order<'_>]) {
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
        Bind::Stage => Value::Int(i64::from(order.lease.stage.0)),
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
pub(super) fn push_now(query: &mut Query, now: Option<&str>) {
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
pub(super) fn single(found: &[Token<'_>], field: &str) -> Result<(), String> {
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
pub(super) fn words(found: &[Token<'_>]) -> Vec<String> {
    found.iter().filter_map(Token::name).map(str::to_owned).collect()
}

/// The text cut at its placeholders.
pub(super) fn parts(dialect: Dialect, field: &str, found: &[Token<'_>]) -> Result<Vec<Part>, String> {
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
