//! The only place that prints. Data goes to stdout, everything said goes to stderr. A reader that went away ends a command quietly; any
//! other failed write is an error.

use std::io::{self, IsTerminal as _, Write};

use comfy_table::{Cell, ContentArrangement, Table, presets};
use serde::Serialize;

use super::failure::Failure;
use crate::error::escaped_json;

/// Where and how a command says things.
pub struct Output {
    stdout: io::BufWriter<io::Stdout>,
    json: bool,
    quiet: bool,
    colour: bool,
}

/// When colour is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless `NO_COLOR` or `TERM=dumb` says otherwise; anywhere with `CLICOLOR_FORCE`.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Output {
    /// Output of one command.
    pub fn new(json: bool, quiet: bool, colour: Colour) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0");
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto if set("NO_COLOR") => false,
            Colour::Auto => set("CLICOLOR_FORCE") || io::stderr().is_terminal() && !dumb,
        };
        Self { stdout: io::BufWriter::new(io::stdout()), json, quiet, colour }
    }

    /// Whether machines read this.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether colours are used on a terminal.
    #[cfg(feature = "top")]
    pub fn draws_colour(&self) -> bool {
        self.colour
    }

    /// Whether progress may be drawn.
    pub fn draws_progress(&self) -> bool {
        !self.quiet && !self.json && io::stderr().is_terminal()
    }

    /// One line of data.
    pub fn line(&mut self, text: &str) -> io::Result<()> {
        self.stdout.write_all(text.as_bytes())?;
        self.stdout.write_all(b"\n")
    }

    /// Text or bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stdout.write_all(bytes)
    }

    /// One JSON object on a line.
    pub fn object(&mut self, object: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(object)?;
        self.line(&escaped_json(&text))
    }

    /// A line for people or an object for machines.
    pub fn say(&mut self, text: &str, object: &impl Serialize) -> io::Result<()> {
        if self.json {
            self.object(object)
        } else if self.quiet {
            Ok(())
        } else {
            self.line(text)
        }
    }

    /// A table. On a terminal it fits its width; elsewhere rows stay whole.
    pub fn table(&mut self, header: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(header.iter().map(|h| Cell::new(h.to_uppercase())));
        let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
        if let Some(width) = columns {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        } else if io::stdout().is_terminal() {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        table.add_rows(rows);
        for line in table.lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// Hands everything to the system, so that a full disk is met now.
    pub fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()
    }

    /// Clears the terminal for the next picture of a `--watch`.
    pub fn clear(&mut self) -> io::Result<()> {
        if io::stdout().is_terminal() { self.raw(b"\x1b[2J\x1b[H") } else { Ok(()) }
    }

    /// Something worth knowing, unless asked to be quiet.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            self.stderr("", text);
        }
    }

    /// Something odd.
    pub fn warn(&self, text: &str) {
        self.stderr("warning: ", text);
    }

    /// Why the command ends.
    pub fn fail(&self, failure: &Failure, reads: bool) {
        if self.json {
            self.stderr("", &escaped_json(&failure.json(reads).to_string()));
        } else {
            failure.lines().iter().for_each(|line| self.stderr("error: ", line));
        }
    }

    fn stderr(&self, prefix: &str, text: &str) {
        let prefix = match prefix {
            "error: " if self.colour => "\x1b[1;31merror:\x1b[0m ",
            "warning: " if self.colour => "\x1b[1;33mwarning:\x1b[0m ",
            plain => plain,
        };
        // Nobody is left to be told that stderr is gone.
        let _ = writeln!(io::stderr().lock(), "{prefix}{text}");
    }
}

/// Whether stdout was closed before the start. The runtime opens /dev/null, for reading and writing, in place of a closed stream, so
/// that writes would go nowhere without an error.
pub fn stdout_is_closed() -> bool {
    let to_null = std::fs::read_link("/proc/self/fd/1").is_ok_and(|to| to.as_os_str() == "/dev/null");
    let info = std::fs::read_to_string("/proc/self/fdinfo/1").unwrap_or_default();
    let flags = info.lines().find_map(|l| l.strip_prefix("flags:")).map(str::trim).unwrap_or_default();
    // The last octal digit is the access mode: 1 is write-only, as `> /dev/null` opens it, 2 is read and write.
    to_null && flags.ends_with('2')
}

/// Asks a person at the terminal.
pub fn ask(question: &str) {
    let mut stderr = io::stderr().lock();
    let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
}
