//! Reading SQL text just well enough to find what is not inside a string, a quoted name or a comment: placeholders, words, brackets.

use super::dialect::Dialect;

/// A piece of SQL text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// `:name` or `:payload.field`, without the colon.
    Placeholder(&'a str),
    /// A bare word: keyword, table, column, function.
    Word(&'a str),
    /// A quoted name, with its quotes.
    Quoted(&'a str),
    /// A string, number, operator or bracket, as written.
    Other(&'a str),
    /// White space.
    Space(&'a str),
    /// A comment.
    Comment(&'a str),
}

impl<'a> Token<'a> {
    /// The name that a word or a quoted name is.
    pub(super) fn name(&self) -> Option<&'a str> {
        match self {
            Self::Word(word) => Some(word),
            Self::Quoted(quoted) => quoted.get(1..quoted.len() - 1),
            _ => None,
        }
    }
}

/// Cuts `text` into tokens; an unfinished string, name or comment is an error.
pub(super) fn tokens(dialect: Dialect, text: &str) -> Result<Vec<Token<'_>>, String> {
    let mut rest = text;
    let mut out = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, length) = next(dialect, rest, first)?;
        out.push(token);
        rest = &rest[length..];
    }
    Ok(out)
}

fn next(dialect: Dialect, rest: &str, first: char) -> Result<(Token<'_>, usize), String> {
    if first.is_whitespace() {
        let length = run(rest, char::is_whitespace);
        return Ok((Token::Space(&rest[..length]), length));
    }
    if rest.starts_with("--") || (first == '#' && dialect == Dialect::Mysql) {
        let length = rest.find('\n').unwrap_or(rest.len());
        return Ok((Token::Comment(&rest[..length]), length));
    }
    if rest.starts_with("/*") {
        let length = block_comment(dialect, rest).ok_or("a comment is not closed")?;
        return Ok((Token::Comment(&rest[..length]), length));
    }
    match first {
        '\'' => {
            // PostgreSQL knows backslash escapes only in E'…', which is read as a word and a string; standard strings have none.
            let length = quoted(rest, '\'', dialect == Dialect::Mysql).ok_or("a string is not closed")?;
            Ok((Token::Other(&rest[..length]), length))
        }
        // MariaDB reads "…" as a string unless told otherwise.
        '"' if dialect == Dialect::Mysql => {
            let length = quoted(rest, '"', true).ok_or("a string is not closed")?;
            Ok((Token::Other(&rest[..length]), length))
        }
        '"' | '`' => {
            let length = quoted(rest, first, false).ok_or("a quoted name is not closed")?;
            Ok((Token::Quoted(&rest[..length]), length))
        }
        '[' if dialect == Dialect::Sqlite => {
            let length = rest.find(']').ok_or("a quoted name is not closed")? + 1;
            Ok((Token::Quoted(&rest[..length]), length))
        }
        '$' if dialect == Dialect::Postgres && dollar_tag(rest).is_some() => {
            let tag = dollar_tag(rest).unwrap_or_default();
            let body = &rest[tag.len()..];
            let length = body.find(tag).ok_or("a dollar-quoted string is not closed")? + 2 * tag.len();
            Ok((Token::Other(&rest[..length]), length))
        }
        ':' if rest.starts_with("::") || rest.starts_with(":=") => Ok((Token::Other(&rest[..2]), 2)),
        ':' => {
            let name = placeholder(&rest[1..]);
            if name == 0 {
                Ok((Token::Other(":"), 1))
            } else {
                Ok((Token::Placeholder(&rest[1..=name]), name + 1))
            }
        }
        'E' | 'e' if dialect == Dialect::Postgres && rest[1..].starts_with('\'') => {
            let length = 1 + quoted(&rest[1..], '\'', true).ok_or("a string is not closed")?;
            Ok((Token::Other(&rest[..length]), length))
        }
        c if starts_word(c) => {
            let length = run(rest, continues_word);
            Ok((Token::Word(&rest[..length]), length))
        }
        c if c.is_ascii_digit() => {
            let length = run(rest, |c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
            Ok((Token::Other(&rest[..length]), length))
        }
        c => Ok((Token::Other(&rest[..c.len_utf8()]), c.len_utf8())),
    }
}

fn starts_word(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn continues_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// The length of the longest start of `text` whose characters all satisfy `belongs`.
fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

/// The length of a placeholder's name: a word, and for `payload` the dotted path behind it.
fn placeholder(text: &str) -> usize {
    if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        return 0;
    }
    let word = |text: &str| run(text, |c| c.is_ascii_alphanumeric() || c == '_');
    let mut length = word(text);
    if &text[..length] == "payload" {
        while text[length..].starts_with('.') && word(&text[length + 1..]) > 0 {
            length += 1 + word(&text[length + 1..]);
        }
    }
    length
}

/// The length of a quoted piece, both quotes included; a doubled quote is the quote itself.
fn quoted(text: &str, quote: char, backslash: bool) -> Option<usize> {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        if c == '\\' && backslash {
            chars.next();
        } else if c == quote {
            match chars.peek() {
                Some((_, next)) if *next == quote => drop(chars.next()),
                _ => return Some(at + quote.len_utf8()),
            }
        }
    }
    None
}

/// The length of a block comment. PostgreSQL's nest.
fn block_comment(dialect: Dialect, text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") && (depth == 0 || dialect == Dialect::Postgres) {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    None
}

/// `$$` or `$tag$` at the start of `text`; `$1` is none.
fn dollar_tag(text: &str) -> Option<&str> {
    let name = run(&text[1..], |c| c.is_ascii_alphanumeric() || c == '_');
    let numbered = text[1..].starts_with(|c: char| c.is_ascii_digit());
    (!numbered && text[1 + name..].starts_with('$')).then(|| &text[..name + 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placeholders(dialect: Dialect, text: &str) -> Vec<&str> {
        let found = tokens(dialect, text).unwrap();
        found.into_iter().filter_map(|t| if let Token::Placeholder(p) = t { Some(p) } else { None }).collect()
    }

    #[test]
    fn placeholders_are_found_only_outside_strings_names_comments_and_casts() {
        let text = "SELECT :id, ':no', 'it''s :no', \":no\", a::text, /* :no */ :payload.a.b::int -- :no\n, :due_at.x";
        assert_eq!(placeholders(Dialect::Postgres, text), ["id", "payload.a.b", "due_at"]);
        assert_eq!(
            placeholders(Dialect::Postgres, "E'\\' :no' :id $$ :no $$ $t$ :no $ $t$ /* /* :no */ :no */"),
            ["id"]
        );
        assert_eq!(placeholders(Dialect::Mysql, "'a\\' :no' `:no` # :no\n @x := :id"), ["id"]);
        assert_eq!(placeholders(Dialect::Sqlite, "[:no] 'a\\' , :id"), ["id"]);
        assert_eq!(placeholders(Dialect::Postgres, "a[1:2] 'π' :id"), ["id"]);
    }

    #[test]
    fn what_is_opened_and_not_closed_is_refused() {
        for text in ["'a", "\"a", "/* a", "$x$ a"] {
            assert!(tokens(Dialect::Postgres, text).is_err(), "{text}");
        }
        assert!(tokens(Dialect::Sqlite, "[a").is_err());
    }
}
