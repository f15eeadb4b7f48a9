//! The second step: what the draft means. All problems are found before any is reported.

use std::path::PathBuf;

use super::draft::{Draft, Key, Source, Value};
use super::hook::{self, HookSettings, KINDS_WITH_KEYS};
use super::kafka;
use super::metrics::{self, MetricsSettings};
use super::reminder::{self, ReminderSettings};
use super::section::{Findings, Section};
use super::suggestion::nearest;
use super::{channel, limits, server, wheel};
use crate::error::{Error, Invalid, Result, escaped};
use crate::shard::WheelName;
use crate::wheel::{RedisSettings, WheelSettings};
use crate::worker::WorkerSettings;

/// The configuration, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// How Redis is reached.
    pub redis: RedisSettings,
    /// The wheels, by name.
    pub wheels: Vec<WheelConfig>,
    /// What is logged.
    pub log: LogSettings,
    /// Where probes and scrapes are answered.
    pub metrics: MetricsSettings,
    /// The HTTP API.
    pub http: crate::http::HttpSettings,
    /// What is odd but can be lived with; one sentence each.
    pub warnings: Vec<String>,
    /// Every value in force and where it came from.
    pub shown: Vec<Shown>,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
}

/// One wheel and all that serves it.
#[derive(Debug, Clone)]
pub struct WheelConfig {
    /// Its layout and rules.
    pub wheel: WheelSettings,
    /// How a worker serves it.
    pub worker: WorkerSettings,
    /// What closes its orders.
    pub hook: HookSettings,
    /// Who reminds before the close.
    pub reminder: ReminderSettings,
    /// The topic that is told what the wheel's events tell.
    pub kafka: Option<crate::relay::KafkaSettings>,
    /// How the orders table is swept, and the wheel rebuilt from it.
    #[cfg(feature = "sql")]
    pub sweep: crate::sweep::SweepSettings,
    /// How new orders are read from the table.
    #[cfg(feature = "sql")]
    pub feed: crate::sweep::FeedSettings,
    /// How table, wheel and close log are compared.
    #[cfg(feature = "sql")]
    pub reconcile: crate::sweep::ReconcileSettings,
}

/// What is logged to stderr.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// A level or filter, as `RUST_LOG` has it.
    pub level: String,
    /// Whether somebody asked for that level, or it is the default.
    pub level_is_given: bool,
    /// Text or JSON.
    pub format: LogFormat,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// A value in force, as it may be shown: secrets are hidden.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Shown {
    /// The key, dotted.
    pub key: String,
    /// The value in TOML's form.
    pub value: String,
    /// Where it came from: `default`, `file:line`, `$VARIABLE` or the flag.
    pub source: String,
}

impl Config {
    /// Checks everything that was given. The error holds every problem, one a line.
    pub fn resolve(mut draft: Draft) -> Result<Self> {
        one_database_url(&mut draft);
        let mut findings = Findings::default();
        let redis = server::resolve(&mut Section::new(&draft, &mut findings, &["redis"], None));
        let log = log(&mut Section::new(&draft, &mut findings, &["log"], None));
        let metrics = metrics::resolve(&mut Section::new(&draft, &mut findings, &["metrics"], None));
        let http = super::http::resolve(&mut Section::new(&draft, &mut findings, &["http"], None));
        let mut names = draft.names_below("wheel");
        if names.is_empty() {
            names.push("orders".to_owned());
        }
        let wheels = names.iter().filter_map(|name| wheel_config(&draft, &mut findings, name)).collect();
        know_the_defaults(&draft, &mut findings);
        let mut problems = draft.problems.clone();
        problems.extend(unknown_keys(&draft, &findings));
        problems.append(&mut findings.problems);
        if !problems.is_empty() {
            return Err(Error::Config(problems));
        }
        let warnings = draft.warnings.iter().cloned().chain(findings.warnings).collect();
        Ok(Self { redis, wheels, log, metrics, http, warnings, shown: findings.shown, file: draft.file })
    }

    /// The wheel of that name; without a name the only one there is.
    pub fn wheel(&self, name: Option<&str>) -> Result<&WheelConfig> {
        let names: Vec<&str> = self.wheels.iter().map(|w| w.wheel.name.as_str()).collect();
        match (name, self.wheels.as_slice()) {
            (None, [only]) => Ok(only),
            (None, _) => {
                let reason = format!("is missing, and several wheels are configured: {}", names.join(", "));
                Err(Invalid::new("--wheel", "", reason).into())
            }
            (Some(name), wheels) => wheels.iter().find(|w| w.wheel.name.as_str() == name).ok_or_else(|| {
                let hint = nearest(name, names.iter().copied());
                let hint = hint.map_or(String::new(), |n| format!("; did you mean {n}?"));
                let reason = format!("is not configured (there is {}){hint}", names.join(", "));
                Invalid::new("--wheel", name, reason).into()
            }),
        }
    }
}

/// `DATABASE_URL` is the url of the SQL hook: stronger than the file where there is one, else of those that name none themselves.
fn one_database_url(draft: &mut Draft) {
    let key = |name: &str, key: &str| -> Key {
        ["wheel", name, "hook", key].iter().map(|s| (*s).to_owned()).collect()
    };
    let is_sql = |name: &String| {
        draft.values.get(&key(name, "kind")).is_some_and(|g| g.value == Value::Text("sql".to_owned()))
    };
    let sql: Vec<String> = draft.names_below("wheel").into_iter().filter(is_sql).collect();
    if let [only] = sql.as_slice() {
        for leaf in ["url", "url_file"] {
            let general: Key = ["defaults", "hook", "sql", leaf].iter().map(|s| (*s).to_owned()).collect();
            if let Some(given) = draft.values.get(&general).cloned()
                && matches!(given.source, Source::WellKnown(_))
            {
                draft.insert(key(only, leaf), given.value, given.source);
            }
        }
    }
}

fn log(section: &mut Section<'_>) -> LogSettings {
    let level_is_given = section.is_given("level");
    let level = section.text("level").unwrap_or_default();
    let format = section.parsed("format", |word| match word {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("expected text or json".to_owned()),
    });
    LogSettings { level, level_is_given, format }
}

fn wheel_config(draft: &Draft, findings: &mut Findings, name: &str) -> Option<WheelConfig> {
    let mut section = Section::new(draft, findings, &["wheel", name], Some(&["defaults"]));
    section.is_table();
    let checked = section.checked_name(WheelName::new(name))?;
    let mut wheel = wheel::resolve(&mut section, checked);
    let needed_to_hold = wheel.channels.needed_to_hold;
    wheel.channels = channel::resolve(draft, findings, name, needed_to_hold, wheel.hold_limits());
    let worker_path = ["wheel", name, "worker"];
    let mut section = Section::new(draft, findings, &worker_path, Some(&["defaults", "worker"]));
    section.is_table();
    let mut worker = wheel::resolve_worker(&mut section);
    limits::resolve(draft, findings, name, &mut worker);
    let hook_path = ["wheel", name, "hook"];
    let mut section = Section::new(draft, findings, &hook_path, Some(&["defaults", "hook"]));
    section.is_table();
    let kind = section.text("kind").unwrap_or_default();
    let mut section = Section::new(draft, findings, &hook_path, Some(&["defaults", "hook", &kind]));
    let hook = hook::resolve(&mut section, &kind);
    let reminder_path = ["wheel", name, "reminder"];
    let mut section = Section::new(draft, findings, &reminder_path, Some(&["defaults", "reminder"]));
    section.is_table();
    let kind = section.text("kind").unwrap_or_default();
    let mut section = Section::new(draft, findings, &reminder_path, Some(&["defaults", "hook", "webhook"]));
    let reminder = reminder::resolve(&mut section, &kind);
    let mut section = Section::new(draft, findings, &worker_path, Some(&["defaults", "worker"]));
    wheel::check_lease(&mut section, &worker, hook.timeout().max(reminder.timeout()));
    #[cfg(feature = "sql")]
    let (sweep, feed) = super::net::resolve(draft, findings, name, &hook, &wheel.channels);
    let kafka = kafka::resolve(draft, findings, name);
    #[cfg(feature = "sql")]
    let reconcile = super::reconcile::resolve(draft, findings, name, &hook, &sweep);
    Some(WheelConfig {
        wheel,
        worker,
        hook,
        reminder,
        kafka,
        #[cfg(feature = "sql")]
        sweep,
        #[cfg(feature = "sql")]
        feed,
        #[cfg(feature = "sql")]
        reconcile,
    })
}

/// `[defaults]` is read only where a wheel needs it; what no wheel needs is known all the same.
fn know_the_defaults(draft: &Draft, findings: &mut Findings) {
    let mut scratch = Findings::default();
    if let Ok(name) = WheelName::new("defaults") {
        wheel::resolve(&mut Section::new(draft, &mut scratch, &["defaults"], None), name);
    }
    wheel::resolve_worker(&mut Section::new(draft, &mut scratch, &["defaults", "worker"], None));
    limits::know_the_defaults(draft, &mut scratch);
    kafka::know_the_defaults(draft, &mut scratch);
    #[cfg(feature = "sql")]
    super::net::know_the_defaults(draft, &mut scratch);
    #[cfg(feature = "sql")]
    super::reconcile::know_the_defaults(draft, &mut scratch);
    Section::new(draft, &mut scratch, &["defaults", "hook"], None).text("kind");
    Section::new(draft, &mut scratch, &["defaults", "reminder"], None).text("kind");
    for kind in KINDS_WITH_KEYS {
        hook::resolve(&mut Section::new(draft, &mut scratch, &["defaults", "hook", kind], None), kind);
    }
    findings.known.append(&mut scratch.known);
    findings.used.append(&mut scratch.used);
}

/// Keys that nothing asked for: each with its source and what was probably meant.
fn unknown_keys(draft: &Draft, findings: &Findings) -> Vec<String> {
    let is_known_table = |path: &[String]| findings.known.iter().any(|k| k.starts_with(path));
    let mut unknown = Vec::new();
    for (key, given) in &draft.values {
        if findings.used.contains(key) || matches!(given.source, Source::Default | Source::WellKnown(_)) {
            continue;
        }
        let table = key.split_last().map_or(&[][..], |(_, table)| table);
        let is_table = given.value == Value::Table;
        // The keys of an unknown section are not reported one by one, and a wheel's bad name has been.
        if (is_table && is_known_table(key)) || is_below_unknown(draft, key, &is_known_table) {
            continue;
        }
        let hint = if is_table { section_hint(key, findings) } else { hint(key, table, findings) };
        let what = if is_table { "unknown section" } else { "unknown key" };
        let name = escaped(&key.join("."));
        unknown.push(format!("{}: {what} {name}{hint}", given.source));
    }
    unknown
}

fn is_below_unknown(draft: &Draft, key: &[String], is_known_table: &dyn Fn(&[String]) -> bool) -> bool {
    let bad_wheel = key.len() > 1 && key[0] == "wheel" && WheelName::new(&key[1]).is_err();
    bad_wheel
        || (1..key.len()).any(|n| {
            let table = &key[..n];
            !is_known_table(table) && draft.values.get(table).is_some_and(|g| g.value == Value::Table)
        })
}

fn section_hint(key: &[String], findings: &Findings) -> String {
    let Some(last) = key.last() else { return String::new() };
    let depth = key.len();
    let sections = findings.known.iter().filter(|k| k.len() > depth).map(|k| k[depth - 1].as_str());
    nearest(last, sections).map_or(String::new(), |s| format!("; did you mean [{s}]?"))
}

fn hint(key: &[String], table: &[String], findings: &Findings) -> String {
    let Some(last) = key.last() else { return String::new() };
    let here = findings.known.iter().filter(|k| k.len() == key.len() && k.starts_with(table));
    if let Some(word) = nearest(last, here.filter_map(|k| k.last()).map(String::as_str)) {
        return format!("; did you mean {word}?");
    }
    // The right word in the wrong place. A wheel's own section is named before the defaults.
    let elsewhere = findings.known.iter().rev().find(|k| k.last() == Some(last));
    match elsewhere.and_then(|k| k.split_last()) {
        Some((_, place)) => {
            let mut place = place.join(".");
            for kind in KINDS_WITH_KEYS {
                if place == format!("defaults.hook.{kind}") {
                    place = format!("wheel.NAME.hook] with kind = \"{kind}\", or to [{place}");
                }
            }
            format!("; it belongs to [{place}]")
        }
        None => String::new(),
    }
}
