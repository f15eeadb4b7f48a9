//! One section of the draft, read key by key. Every read checks type and range, notes a problem with the value's source instead of
//! stopping, and lists the effective value, so that one pass makes the settings, all problems and the listing.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use secrecy::SecretString;

use super::draft::{Draft, Given, Key, Source, Value};
use super::resolve::Shown;
use super::{file, secret, shown_url};
use crate::clock::{parse_duration, show_duration};
use crate::error::{Invalid, shown};

/// What a pass over the draft gathers.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) problems: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) shown: Vec<Shown>,
    /// Every key of the draft that was asked for.
    pub(super) used: BTreeSet<Key>,
    /// Every key that could have been given, for "did you mean".
    pub(super) known: BTreeSet<Key>,
}

/// A section of the draft: the table at `path`; what it lacks is taken from the table at `fallback`.
pub(super) struct Section<'a> {
    pub(super) draft: &'a Draft,
    pub(super) findings: &'a mut Findings,
    path: Vec<String>,
    fallback: Option<Vec<String>>,
}

impl<'a> Section<'a> {
    pub(super) fn new(
        draft: &'a Draft,
        findings: &'a mut Findings,
        path: &[&str],
        fallback: Option<&[&str]>,
    ) -> Self {
        let owned = |p: &[&str]| p.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        Self { draft, findings, path: owned(path), fallback: fallback.map(owned) }
    }

    /// `wheel.orders.shards`.
    pub(super) fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.path.join("."))
    }

    /// Notes a problem of `key`, with where its value came from.
    pub(super) fn problem(&mut self, key: &str, reason: &str) {
        let from = match self.find(key).map(|g| g.source.clone()) {
            Some(Source::Default) | None => String::new(),
            Some(source) => format!("{source}: "),
        };
        let name = self.name(key);
        self.findings.problems.push(format!("{from}{name}: {reason}"));
    }

    /// Whether a problem of `key` has been noted.
    pub(super) fn has_problem(&self, key: &str) -> bool {
        let name = format!("{}: ", self.name(key));
        self.findings.problems.iter().any(|p| p.starts_with(&name) || p.contains(&format!(": {name}")))
    }

    /// The value of `key`, and whether it stands in the section's own place (0) or its fallback (1).
    fn place(&mut self, key: &str) -> Option<(usize, &'a Given)> {
        let draft = self.draft;
        let mut places = vec![self.path.clone()];
        places.extend(self.fallback.clone());
        let mut found = None;
        for (n, mut place) in places.into_iter().enumerate() {
            place.push(key.to_owned());
            self.findings.known.insert(place.clone());
            if let Some(given) = draft.values.get(&place).filter(|g| g.value != Value::Table) {
                self.findings.used.insert(place);
                found = found.or(Some((n, given)));
            }
        }
        found
    }

    fn find(&mut self, key: &str) -> Option<&'a Given> {
        self.place(key).map(|(_, given)| given)
    }

    /// Whether anybody but the defaults gave `key`.
    pub(super) fn is_given(&mut self, key: &str) -> bool {
        self.find(key).is_some_and(|g| g.source != Source::Default)
    }

    /// Notes a problem where the section itself was given a value: `wheel.orders = 5`.
    pub(super) fn is_table(&mut self) {
        if let Some(given) = self.draft.values.get(&self.path)
            && given.value != Value::Table
        {
            self.findings.used.insert(self.path.clone());
            let (source, name) = (&given.source, self.path.join("."));
            self.findings.problems.push(format!("{source}: {name}: is a value, expected a section [{name}]"));
        }
    }

    /// Keeps a checked wheel name, or notes why it was refused, with where the wheel was named.
    pub(super) fn checked_name<T>(&mut self, checked: Result<T, Invalid>) -> Option<T> {
        let named = self.draft.values.iter().find(|(k, _)| k.starts_with(&self.path));
        let from = named.map_or(String::new(), |(_, g)| format!("{}: ", g.source));
        checked.map_err(|e| self.findings.problems.push(format!("{from}{e}"))).ok()
    }

    /// Notes problems that another part found in this section's values; each begins with its key.
    #[cfg(any(feature = "sql", feature = "webhook"))]
    pub(super) fn foreign_problems(&mut self, problems: &[String]) {
        for problem in problems {
            let end = problem.find([':', ' ', '[']).unwrap_or(problem.len());
            let (key, rest) = problem.split_at(end);
            // A range that this pass has refused already needs no second sentence.
            if !self.has_problem(key) {
                self.problem(key, rest.trim_start_matches(':').trim_start());
            }
        }
    }

    /// A section of secrets: each name with its value, from the name itself or from the file that `NAME_file` names.
    pub(super) fn named_secrets(&mut self, table: &str) -> Vec<(String, SecretString)> {
        let (names, mut section) = self.below(table);
        let names: BTreeSet<String> =
            names.into_iter().map(|name| name.strip_suffix("_file").unwrap_or(&name).to_owned()).collect();
        let mut named = Vec::new();
        for name in names {
            let values = section.secrets(&name, |_| "***".to_owned());
            named.extend(values.into_iter().map(|value| (name.clone(), value)));
        }
        named
    }

    fn list(&mut self, key: &str, text: String, source: &Source) {
        let key = self.name(key);
        self.findings.shown.push(Shown { key, value: text, source: source.to_string() });
    }

    /// Reads `key` by `read`; notes what `read` refuses. `None` where absent or refused.
    fn get<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&Value) -> Result<T, String>,
        show: impl FnOnce(&T) -> String,
    ) -> Option<T> {
        let given = self.find(key)?;
        match read(&given.value) {
            Ok(value) => {
                self.list(key, show(&value), &given.source);
                Some(value)
            }
            Err(reason) => {
                self.problem(key, &reason);
                None
            }
        }
    }

    /// Text, if given. Empty text is a problem.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        let read = |value: &Value| match value {
            Value::Text(text) if text.trim().is_empty() => Err("is empty".to_owned()),
            Value::Text(text) => Ok(text.clone()),
            other => Err(wrong_type(other, "text in quotes")),
        };
        self.get(key, read, |text| format!("{text:?}"))
    }

    /// Text that `parse` understands; `T::default()` where absent.
    pub(super) fn parsed<T: Default>(&mut self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        let Some(text) = self.text(key) else { return T::default() };
        parse(&text).unwrap_or_else(|reason| {
            self.problem(key, &format!("\"{}\": {reason}", shown(&text)));
            T::default()
        })
    }

    /// A duration within a range; the range's start stands in for a problem.
    pub(super) fn duration(&mut self, key: &str, range: RangeInclusive<Duration>) -> Duration {
        let expected =
            format!("expected {} to {}", show_duration(*range.start()), show_duration(*range.end()));
        let read = |value: &Value| match value {
            Value::Text(text) => {
                let duration =
                    parse_duration(key, text).map_err(|e| format!("\"{}\": {}", e.value, e.reason))?;
                let good = range.contains(&duration);
                if good { Ok(duration) } else { Err(format!("\"{}\": {expected}", shown(text))) }
            }
            other => Err(wrong_type(other, "a duration in quotes, like \"30s\"")),
        };
        self.get(key, read, |d| format!("{:?}", show_duration(*d))).unwrap_or(*range.start())
    }

    /// A duration within a range, if given.
    #[cfg(feature = "sql")]
    pub(super) fn optional_duration(
        &mut self,
        key: &str,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        self.find(key)?;
        Some(self.duration(key, range))
    }

    /// A section of durations within a range: each name with its value.
    #[cfg(feature = "sql")]
    pub(super) fn durations(
        &mut self,
        table: &str,
        range: RangeInclusive<Duration>,
    ) -> Vec<(String, Duration)> {
        let (names, mut section) = self.below(table);
        names.into_iter().map(|name| (name.clone(), section.duration(&name, range.clone()))).collect()
    }

    /// The section below this one, and the names given in it.
    fn below(&mut self, table: &str) -> (BTreeSet<String>, Section<'_>) {
        let below = |path: &Vec<String>| path.iter().cloned().chain([table.to_owned()]).collect::<Vec<_>>();
        let (path, fallback) = (below(&self.path), self.fallback.as_ref().map(below));
        let mut names = BTreeSet::new();
        for place in [Some(&path), fallback.as_ref()].into_iter().flatten() {
            // Known even when empty, so that an empty section is none that is unknown.
            self.findings.known.insert(place.iter().cloned().chain(["*".to_owned()]).collect());
            let inside =
                self.draft.values.keys().filter(|k| k.starts_with(place) && k.len() == place.len() + 1);
            names.extend(inside.filter_map(|k| k.last()).cloned());
        }
        (names, Section { draft: self.draft, findings: self.findings, path, fallback })
    }

    /// A whole number within a range; the range's start stands in for a problem.
    pub(super) fn whole(&mut self, key: &str, range: RangeInclusive<u32>) -> u32 {
        let expected = format!("expected a whole number from {} to {}", range.start(), range.end());
        let read = |value: &Value| {
            let number = match value {
                Value::Whole(n) => u32::try_from(*n).ok(),
                Value::Text(text) => text.parse().ok(),
                _ => return Err(wrong_type(value, "a whole number")),
            };
            number.filter(|n| range.contains(n)).ok_or_else(|| format!("{}: {expected}", plain(value)))
        };
        self.get(key, read, u32::to_string).unwrap_or(*range.start())
    }

    /// A number within a range; the range's start stands in for a problem.
    pub(super) fn number(&mut self, key: &str, range: RangeInclusive<f64>) -> f64 {
        let expected = format!("expected a number from {} to {}", range.start(), range.end());
        let read = |value: &Value| {
            let number = match value {
                Value::Number(n) => Some(*n),
                Value::Whole(n) => i32::try_from(*n).ok().map(f64::from),
                Value::Text(text) => text.parse().ok(),
                _ => return Err(wrong_type(value, "a number")),
            };
            number.filter(|n| range.contains(n)).ok_or_else(|| format!("{}: {expected}", plain(value)))
        };
        self.get(key, read, f64::to_string).unwrap_or(*range.start())
    }

    /// `true` or `false`; `false` stands in for a problem.
    pub(super) fn flag(&mut self, key: &str) -> bool {
        let read = |value: &Value| match value {
            Value::Flag(flag) => Ok(*flag),
            Value::Text(text) if text == "true" || text == "false" => Ok(text == "true"),
            other => Err(wrong_type(other, "true or false")),
        };
        self.get(key, read, bool::to_string).unwrap_or(false)
    }

    /// A list of texts; one text is a list of one. Empty where absent.
    pub(super) fn texts(&mut self, key: &str) -> Vec<String> {
        self.get(key, read_texts, |texts| format!("{texts:?}")).unwrap_or_default()
    }

    /// A secret or a list of them, from `key` or from the file that `key_file` names. `show` makes what may be seen of each.
    pub(super) fn secrets(&mut self, key: &str, show: impl Fn(&str) -> String) -> Vec<SecretString> {
        let file_key = format!("{key}_file");
        let from_file = match (self.place(key), self.place(&file_key)) {
            (Some((m, a)), Some((n, b))) if m == n && a.source.rank() == b.source.rank() => {
                self.problem(key, &format!("given twice: here and as {file_key} ({})", b.source));
                return Vec::new();
            }
            (Some((m, a)), Some((n, b))) => n < m || m == n && a.source.rank() < b.source.rank(),
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let texts = if from_file { self.secrets_of_files(&file_key) } else { self.in_place(key, show) };
        texts.into_iter().map(SecretString::from).collect()
    }

    fn in_place(&mut self, key: &str, show: impl Fn(&str) -> String) -> Vec<String> {
        let read = |value: &Value| {
            let texts = read_texts(value)?;
            // Other programs replace ${NAME}; who expects it here would log in with the text itself.
            if texts.iter().any(|t| t.contains("${")) {
                return Err("holds ${…}, which is not replaced; use the environment or a file".to_owned());
            }
            Ok(texts)
        };
        self.get(key, read, |texts| texts.iter().map(|t| show(t)).collect::<Vec<_>>().join(", "))
            .unwrap_or_default()
    }

    /// Warns of a file with secrets that others may read.
    pub(super) fn warn_of_mode(&mut self, path: &str, holds: &str) {
        self.findings.warnings.extend(file::mode_warning(Path::new(path), holds));
    }

    fn secrets_of_files(&mut self, key: &str) -> Vec<String> {
        let mut secrets = Vec::new();
        for path in self.texts(key) {
            match secret::read(Path::new(&path), &mut self.findings.warnings) {
                Ok(secret) => secrets.push(secret),
                Err(reason) => self.problem(key, &format!("\"{}\": {reason}", shown(&path))),
            }
        }
        secrets
    }

    /// A URL from `key` or `key_file`, at most one.
    pub(super) fn url(&mut self, key: &str) -> Option<SecretString> {
        let mut urls = self.secrets(key, shown_url);
        if urls.len() > 1 {
            self.problem(key, "expected one");
        }
        urls.pop()
    }

    /// Keeps `checked`, or notes why it was refused.
    pub(super) fn checked<T>(&mut self, key: &str, checked: Result<T, Invalid>) -> Option<T> {
        match checked {
            Ok(value) => Some(value),
            Err(e) => {
                let value = if e.value.is_empty() { String::new() } else { format!("{}: ", e.value) };
                self.problem(key, &format!("{value}{}", e.reason));
                None
            }
        }
    }
}

fn read_texts(value: &Value) -> Result<Vec<String>, String> {
    let one = |value: &Value| match value {
        Value::Text(text) if text.trim().is_empty() => Err("is empty".to_owned()),
        Value::Text(text) => Ok(text.clone()),
        other => Err(wrong_type(other, "text in quotes, or a list of texts")),
    };
    match value {
        // A variable can only hold text; a TOML list in it is a list.
        Value::Text(text) if text.starts_with('[') => {
            let mut items = Err("expected a list of texts in TOML's form".to_owned());
            let problems =
                super::file::parse(&format!("list = {text}"), &mut |_, value, _| items = Ok(value));
            match (items?, problems.is_empty()) {
                (Value::List(items), true) => items.iter().map(one).collect(),
                _ => Err("expected a list of texts in TOML's form".to_owned()),
            }
        }
        Value::List(items) => items.iter().map(one).collect(),
        other => one(other).map(|text| vec![text]),
    }
}

fn wrong_type(value: &Value, expected: &str) -> String {
    let found = match value {
        Value::Text(_) => "text",
        Value::Whole(_) | Value::Number(_) => "a number",
        Value::Flag(_) => "true or false",
        Value::List(_) => "a list",
        Value::Table => "a section",
        Value::Other(name) => name,
    };
    format!("is {found}, expected {expected}")
}

fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("\"{}\"", shown(text)),
        Value::Whole(n) => n.to_string(),
        Value::Number(n) => n.to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::List(_) => "a list".to_owned(),
        Value::Table => "a section".to_owned(),
        Value::Other(name) => (*name).to_owned(),
    }
}
