//! Logs: one event a line on stderr, as text or JSON. Text of others (ids, answers of the shop, errors of a database) stands in them,
//! so no control character ever reaches a line: a newline would forge an event, an escape sequence would move a reader's cursor.

#[cfg(feature = "otlp")]
mod otlp;

use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry};

use crate::error::{escaped, escaped_json};
#[cfg(feature = "otlp")]
pub use otlp::Exporter;

/// The running log, whose level can be changed.
pub struct Telemetry {
    filter: reload::Handle<EnvFilter, Registry>,
}

impl Telemetry {
    /// Starts logging to stderr for this process. `filter` is a level or what `RUST_LOG` may hold. Fails where the filter cannot be
    /// read, or when logging runs already.
    pub fn start(filter: &str, json: bool) -> Result<Self, String> {
        let (filter, handle) = reload::Layer::new(parse(filter)?);
        let lines = if json { Lines::Json } else { Lines::Text };
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(lines);
        let registry = tracing_subscriber::registry().with(filter);
        let started = if json {
            registry.with(layer.json().flatten_event(true)).try_init()
        } else {
            registry.with(layer.with_target(false)).try_init()
        };
        started.map_err(|e| e.to_string())?;
        Ok(Self { filter: handle })
    }

    /// Changes what is logged from now on.
    pub fn set_filter(&self, filter: &str) -> Result<(), String> {
        self.filter.reload(parse(filter)?).map_err(|e| e.to_string())
    }
}

/// Checks a filter without starting anything.
pub fn check_filter(filter: &str) -> Result<(), String> {
    parse(filter).map(|_| ())
}

fn parse(filter: &str) -> Result<EnvFilter, String> {
    // An unknown level would otherwise be taken for a module of that name that logs everything.
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    for part in filter.split(',').map(str::trim).filter(|p| !p.contains(['=', ':', '['])) {
        if !levels.contains(&part.to_lowercase().as_str()) {
            return Err(format!(
                "\"{}\" is no level; expected error, warn, info, debug or trace",
                escaped(part)
            ));
        }
    }
    EnvFilter::try_new(filter).map_err(|e| escaped(&e.to_string()))
}

/// Takes one formatted event at a time and writes it as one line.
#[derive(Clone, Copy)]
enum Lines {
    Text,
    Json,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl Write for Lines {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        io::stderr().lock().write_all(line(*self, event).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn line(lines: Lines, event: &[u8]) -> String {
    let text = String::from_utf8_lossy(event);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let mut line = match lines {
        Lines::Text => escaped(text),
        Lines::Json => escaped_json(text),
    };
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_without_control_characters() {
        let event = "INFO closed id=x\n2026-01-01 ERROR fake\u{1b}[2J\r\u{9b}31m\n";
        let text = line(Lines::Text, event.as_bytes());
        assert_eq!(text, "INFO closed id=x\\u{a}2026-01-01 ERROR fake\\u{1b}[2J\\u{d}\\u{9b}31m\n");
        let json = line(Lines::Json, "{\"id\":\"x\u{9b}31m\u{202e}\"}\n".as_bytes());
        assert_eq!(json, "{\"id\":\"x\\u009b31m\\u202e\"}\n");
    }

    #[test]
    fn a_filter_with_a_mistyped_level_is_refused() {
        assert!(check_filter("info,duewheel::worker=debug").is_ok());
        assert!(check_filter("DEBUG").is_ok());
        for bad in ["inof", "", "info,loud", "duewheel=loud"] {
            assert!(check_filter(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
