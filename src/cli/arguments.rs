//! What may be typed: the global flags, and one entry for each command.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};

use super::output::Colour;
use super::{
    audit, bench, bulk, cancel, check, close, completions, configuration, dead, drain, enqueue, events, exit,
    export, forecast, hold, import, incident, inspect, list, man, paid, pause, release, reschedule, resume,
    stats, verify, wheel, worker,
};
use crate::clock::Moment;
use crate::deadline::{DueAt, Id};

/// Closes unpaid orders at their deadline: once, never early, never a paid one.
///
/// Deadlines live in Redis; workers claim those that are due and call a hook, a webhook or SQL, that closes the order if it is still
/// unpaid.
#[derive(Debug, Parser)]
#[command(
    name = "duewheel",
    version,
    after_help = exit::TABLE,
    arg_required_else_help = true,
    subcommand_required = true,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Arguments {
    /// What holds for every command.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// What holds for every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The configuration file [default: ./duewheel.toml, $XDG_CONFIG_HOME/duewheel/duewheel.toml, /etc/duewheel/duewheel.toml]
    #[arg(long, global = true, value_name = "FILE", env = "DUEWHEEL_CONFIG", hide_env_values = true)]
    pub config: Option<PathBuf>,
    /// Sets a configuration key for this call, like wheel.orders.worker.lease=1m; never a secret
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// A file that holds the URL of Redis
    #[arg(long, global = true, value_name = "FILE")]
    pub redis_url_file: Option<String>,
    /// The wheel, where several are configured
    #[arg(long, short, global = true, value_name = "NAME", env = "DUEWHEEL_WHEEL", hide_env_values = true)]
    pub wheel: Option<String>,
    /// Prints JSON: one object, or one object a line where there are many; errors too
    #[arg(long, global = true)]
    pub json: bool,
    /// Says nothing but errors and data that was asked for
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Logs more: -v info, -vv debug, -vvv trace
    #[arg(long, short, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// What is logged, like RUST_LOG: info, or duewheel::worker=debug
    #[arg(long, global = true, value_name = "FILTER", env = "DUEWHEEL_LOG", hide_env_values = true)]
    pub log: Option<String>,
    /// When colour is used
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub color: Colour,
    /// The longest wait for Redis, to connect and for each answer [default: 3s]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration_text)]
    pub timeout: Option<String>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Enqueue(enqueue::Enqueue),
    Cancel(cancel::Cancel),
    Paid(paid::Paid),
    Incident(incident::IncidentCommand),
    Reschedule(reschedule::Reschedule),
    Hold(hold::Hold),
    Release(release::Release),
    Close(close::Close),
    Inspect(inspect::Inspect),
    #[cfg(feature = "sql")]
    Explain(super::explain::Explain),
    List(list::List),
    Stats(stats::Stats),
    #[cfg(feature = "top")]
    Top(super::top::Top),
    Events(events::Events),
    Forecast(forecast::Forecast),
    Dead(dead::Dead),
    Bulk(bulk::Bulk),
    Audit(audit::Audit),
    Pause(pause::Pause),
    Resume(resume::Resume),
    Drain(drain::Drain),
    Wheel(wheel::WheelCommand),
    Verify(verify::Verify),
    #[cfg(feature = "sql")]
    Feed(super::feed::Feed),
    #[cfg(feature = "sql")]
    Sweep(super::sweep::Sweep),
    #[cfg(feature = "sql")]
    Rebuild(super::rebuild::Rebuild),
    #[cfg(feature = "sql")]
    Reconcile(super::reconcile::Reconcile),
    Export(export::Export),
    Import(import::Import),
    Worker(worker::Worker),
    Serve(super::serve::Serve),
    Probe(super::probe::Probe),
    Token(super::token::TokenCommand),
    Check(check::Check),
    Config(configuration::Configuration),
    Bench(bench::Bench),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Command {
    /// Whether it changes nothing, so that it may be repeated without a thought.
    pub fn reads(&self) -> bool {
        match self {
            Self::Inspect(_) | Self::List(_) | Self::Stats(_) | Self::Events(_) => true,
            Self::Forecast(_) | Self::Export(_) | Self::Audit(_) => true,
            // It acts, too, but answers for each act on its own screen.
            #[cfg(feature = "top")]
            Self::Top(_) => true,
            Self::Probe(_) | Self::Check(_) | Self::Config(_) | Self::Completions(_) | Self::Man(_) => true,
            Self::Verify(args) => !args.heal,
            #[cfg(feature = "sql")]
            Self::Explain(_) => true,
            #[cfg(feature = "sql")]
            Self::Reconcile(args) => !args.heal,
            Self::Token(_) => true,
            Self::Dead(args) => args.reads(),
            Self::Bulk(args) => args.reads(),
            Self::Drain(args) => args.reads(),
            Self::Incident(args) => args.reads(),
            Self::Wheel(args) => args.reads(),
            _ => false,
        }
    }

    /// Whether it goes on until it is told to stop.
    pub fn goes_on(&self) -> bool {
        matches!(self, Self::Worker(_) | Self::Serve(_))
    }

    /// Where it is told to listen.
    pub fn listen(&self) -> Option<&str> {
        match self {
            Self::Worker(args) => args.listen.as_deref(),
            Self::Serve(args) => args.listen.as_deref(),
            _ => None,
        }
    }

    /// Whether it is good for nothing where nobody can read what it prints.
    pub fn only_prints(&self) -> bool {
        match self {
            Self::Verify(_) | Self::Probe(_) | Self::Check(_) | Self::Inspect(_) => false,
            #[cfg(feature = "sql")]
            Self::Explain(_) | Self::Reconcile(_) => false,
            Self::Export(args) => args.to_stdout(),
            Self::Man(args) => args.to_stdout(),
            _ => self.reads(),
        }
    }
}

/// When a deadline is due, on the command line: after a window, or at a moment.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct When {
    /// The window from now, by Redis's clock: 30m, 1h30m, 90s; units y, d, h, m, s, ms
    #[arg(long = "in", value_name = "DURATION", value_parser = duration)]
    pub window: Option<Duration>,
    /// The moment, with its offset: 2026-03-01T12:00:00+08:00, or 13-digit epoch milliseconds. One that has passed is due now
    #[arg(long = "at", value_name = "RFC3339", value_parser = moment)]
    pub moment: Option<Moment>,
}

impl When {
    /// As the wheel takes it.
    pub fn due_at(&self) -> DueAt {
        match (self.moment, self.window) {
            (Some(moment), _) => DueAt::Moment(moment),
            (None, window) => DueAt::After(window.unwrap_or_default()),
        }
    }
}

/// Who does something by hand.
#[derive(Debug, Args)]
pub struct By {
    /// Who, for the audit [default: the user of this process at this host]
    #[arg(long, visible_alias = "actor", value_name = "NAME")]
    pub by: Option<String>,
}

/// Who does something by hand, and why, where nobody must say why.
#[derive(Debug, Args)]
pub struct ByAndWhy {
    #[command(flatten)]
    pub who: By,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}

/// Reads a duration; for clap.
pub fn duration(text: &str) -> Result<Duration, String> {
    crate::clock::parse_duration("", text).map_err(|e| e.reason)
}

fn duration_text(text: &str) -> Result<String, String> {
    duration(text).map(|_| text.to_owned())
}

/// Reads a moment; for clap.
pub fn moment(text: &str) -> Result<Moment, String> {
    Moment::parse("", text).map_err(|e| e.reason)
}

/// Reads an id; for clap.
pub fn id(text: &str) -> Result<Id, String> {
    Id::new(text).map_err(|e| e.reason)
}
