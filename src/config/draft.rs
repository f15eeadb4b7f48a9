//! The draft: every value that was given, merged by precedence, each with where it came from. Nothing is checked yet but the grammar of
//! the file itself.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::{DEFAULT, file};

/// A key as its parts: `["wheel", "orders", "shards"]`.
pub type Key = Vec<String>;

/// A value as it was given.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text, and everything from the environment or a flag.
    Text(String),
    /// A whole number.
    Whole(i64),
    /// A number with a fraction.
    Number(f64),
    /// `true` or `false`.
    Flag(bool),
    /// A list.
    List(Vec<Value>),
    /// A section, which may be empty.
    Table,
    /// Something no key takes (a TOML date, a number beyond 64 bits), by the name of its type.
    Other(&'static str),
}

/// Where a value came from. Later ones win.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The embedded defaults.
    Default,
    /// A line of the configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// `REDIS_URL`, `DATABASE_URL`, `RUST_LOG`: names that other programs read, too.
    WellKnown(&'static str),
    /// A `DUEWHEEL_*` variable.
    Environment(String),
    /// A flag of the command line.
    Flag(&'static str),
}

impl Source {
    /// How strong it is; two values of one rank for one thing contradict each other.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::WellKnown(_) => 2,
            Self::Environment(_) => 3,
            Self::Flag(_) => 4,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => {
                write!(f, "{}:{line}", crate::error::escaped(&path.to_string_lossy()))
            }
            Self::WellKnown(name) => write!(f, "${name}"),
            Self::Environment(name) => write!(f, "${name}"),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One value and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// The value.
    pub value: Value,
    /// Its source.
    pub source: Source,
}

/// What was given, merged.
#[derive(Debug, Default)]
pub struct Draft {
    pub(super) values: BTreeMap<Key, Given>,
    pub(super) problems: Vec<String>,
    /// What is odd but can be lived with; one sentence each.
    pub warnings: Vec<String>,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
}

impl Draft {
    /// Gathers what was given: embedded defaults, the file, the environment, then the flags (`key=value` texts of `--set` and of the
    /// flags that stand for one key, each with the flag's name).
    ///
    /// `path` is the file asked for; without it the first existing one of `./duewheel.toml`, `$XDG_CONFIG_HOME/duewheel/duewheel.toml`
    /// (`~/.config` where unset) and `/etc/duewheel/duewheel.toml` is read, alone. Where no wheel is configured, `wheel` makes one with the
    /// defaults. Problems are kept for [`super::Config::resolve`].
    pub fn gather(
        path: Option<&Path>,
        environment: &Environment,
        flags: &[(&'static str, String)],
        wheel: Option<&str>,
    ) -> Self {
        let mut draft = Self::default();
        file::parse(DEFAULT, &mut |key, value, _| draft.insert(key, value, Source::Default))
            .into_iter()
            .for_each(|(line, problem)| draft.problems.push(format!("default.toml:{line}: {problem}")));
        if let Some(path) = path.map(Path::to_owned).or_else(|| environment.config_file()) {
            draft.read(&path);
        }
        environment.add_to(&mut draft);
        for (flag, text) in flags {
            draft.add_flag(flag, text);
        }
        if let Some(wheel) = wheel
            && draft.names_below("wheel").is_empty()
        {
            draft.insert(vec!["wheel".to_owned(), wheel.to_owned()], Value::Table, Source::Flag("--wheel"));
        }
        draft
    }

    fn read(&mut self, path: &Path) {
        self.file = Some(path.to_owned());
        match file::read(path, &mut self.warnings) {
            Err(problem) => self.problems.push(problem),
            Ok(text) => {
                let source = |line| Source::File { path: path.to_owned(), line };
                let problems =
                    file::parse(&text, &mut |key, value, line| self.insert(key, value, source(line)));
                self.problems.extend(problems.into_iter().map(|(line, p)| format!("{}: {p}", source(line))));
            }
        }
    }

    fn add_flag(&mut self, flag: &'static str, text: &str) {
        let Some((key, value)) = text.split_once('=') else {
            self.problems.push(format!("{flag} \"{}\": expected KEY=VALUE", crate::error::shown(text)));
            return;
        };
        let key: Key = key.trim().split('.').map(str::to_owned).collect();
        // Every process of the machine can read an argument.
        if super::secret::is_secret(&key) {
            let key = key.join(".");
            self.problems.push(format!(
                "{flag} {key}: a secret is not taken from the command line; use {key}_file or the environment"
            ));
            return;
        }
        self.insert(key, Value::Text(value.to_owned()), Source::Flag(flag));
    }

    /// Sets a value unless a stronger one is there.
    pub(super) fn insert(&mut self, key: Key, value: Value, source: Source) {
        let weaker = self.values.get(&key).is_none_or(|g| g.source.rank() <= source.rank());
        if weaker {
            self.values.insert(key, Given { value, source });
        }
    }

    /// The names below a table, in order: `wheel` -> `orders`, ….
    pub(super) fn names_below(&self, table: &str) -> Vec<String> {
        let mut names: Vec<String> =
            self.values.keys().filter(|k| k.len() > 1 && k[0] == table).map(|k| k[1].clone()).collect();
        names.dedup();
        names
    }
}
