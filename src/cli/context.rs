//! What a command stands on: the configuration, the wheel it means, the connections.

use std::sync::Arc;

use super::arguments::{By, Command, Global};
use super::failure::Failure;
use super::output::Output;
use secrecy::ExposeSecret as _;

use crate::config::{Config, Draft, Environment, LogFormat, WheelConfig, shown_url};
use crate::error::Result;
use crate::operator::{Door, Operator, Person};
use crate::telemetry::Telemetry;
use crate::wheel::{Store, Wheel};

/// The configuration in force, and what was asked for on the command line.
pub struct Context {
    /// The configuration.
    pub config: Config,
    /// The wheel that was named.
    pub wheel: Option<String>,
    telemetry: Option<Telemetry>,
    flags: Vec<(&'static str, String)>,
    file: Option<std::path::PathBuf>,
}

impl Context {
    /// Gathers and resolves the configuration, and starts the log.
    pub fn load(global: &Global, command: &Command) -> Result<Self, Failure> {
        let mut flags = flags(global);
        let metrics = match command {
            Command::Worker(worker) => worker.metrics.as_ref(),
            Command::Serve(serve) => serve.metrics.as_ref(),
            _ => None,
        };
        flags.extend(metrics.map(|address| ("--metrics", format!("metrics.listen={address}"))));
        flags.extend(command.listen().map(|address| ("--listen", format!("http.listen={address}"))));
        let mut context = Self {
            config: resolve(global.config.as_deref(), &flags, global.wheel.as_deref())?,
            wheel: global.wheel.clone(),
            telemetry: None,
            flags,
            file: global.config.clone(),
        };
        let log = &context.config.log;
        // A command that ends at once says its own part; the log is for what goes on.
        let filter = if log.level_is_given || command.goes_on() { log.level.as_str() } else { "warn" };
        let telemetry = Telemetry::start(filter, log.format == LogFormat::Json).map_err(Failure::Usage)?;
        context.telemetry = Some(telemetry);
        Ok(context)
    }

    /// The configuration read again, with the same flags: for SIGHUP.
    pub fn reload(&self) -> Result<Config> {
        resolve(self.file.as_deref(), &self.flags, self.wheel.as_deref())
    }

    /// The running log.
    pub fn telemetry(&self) -> Option<&Telemetry> {
        self.telemetry.as_ref()
    }

    /// Says what is odd about the configuration.
    pub fn say_warnings(&self, output: &Output) {
        self.config.warnings.iter().for_each(|warning| output.warn(warning));
    }

    /// The configuration of the wheel that is meant.
    pub fn wheel_config(&self) -> Result<&WheelConfig> {
        self.config.wheel(self.wheel.as_deref())
    }

    /// Where Redis is, without a password.
    pub fn shown_redis_url(&self) -> String {
        shown_url(self.config.redis.url.expose_secret())
    }

    /// The connections; the first use makes the first one.
    pub fn store(&self) -> Result<Arc<Store>> {
        self.connections().map(Arc::new)
    }

    /// The same, not yet shared.
    pub fn connections(&self) -> Result<Store> {
        Store::new(&self.config.redis)
    }

    /// The wheel that is meant.
    pub fn wheel(&self) -> Result<Wheel> {
        Ok(Wheel::new(self.store()?, self.wheel_config()?.wheel.clone()))
    }

    /// Whoever sits at this command line, at the wheel that is meant.
    pub fn operator(&self, by: &By) -> Result<Operator> {
        Ok(Operator::new(self.wheel()?, person(by.by.as_deref(), Door::Cli)?))
    }
}

fn resolve(
    file: Option<&std::path::Path>,
    flags: &[(&'static str, String)],
    wheel: Option<&str>,
) -> Result<Config> {
    Config::resolve(Draft::gather(file, &Environment::of_process(), flags, wheel))
}

/// The flags that stand for keys of the configuration; later ones win.
fn flags(global: &Global) -> Vec<(&'static str, String)> {
    let mut flags: Vec<(&'static str, String)> = Vec::new();
    let verbose = match global.verbose {
        0 => None,
        1 => Some("info"),
        2 => Some("debug"),
        _ => Some("trace"),
    };
    flags.extend(verbose.map(|level| ("-v", format!("log.level={level}"))));
    flags.extend(global.log.iter().map(|filter| ("--log", format!("log.level={filter}"))));
    flags.extend(global.redis_url_file.iter().map(|f| ("--redis-url-file", format!("redis.url_file={f}"))));
    if let Some(wait) = &global.timeout {
        flags.push(("--timeout", format!("redis.connect_timeout={wait}")));
        flags.push(("--timeout", format!("redis.response_timeout={wait}")));
    }
    flags.extend(global.set.iter().map(|pair| ("--set", pair.clone())));
    flags
}

/// A runtime: one thread for a command that asks and ends, all cores for one that works.
pub fn runtime(command: &Command) -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = if command.goes_on() || matches!(command, Command::Bench(_)) {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    builder.enable_all().build().map_err(|e| Failure::Stopped(super::exit::Exit::Failure, e.to_string()))
}

/// SIGINT, kept until it is asked for: one that comes while something else is awaited must not be lost.
pub fn interrupt() -> Result<tokio::signal::unix::Signal, Failure> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())
        .map_err(|e| Failure::Stopped(super::exit::Exit::Failure, format!("signals: {e}")))
}

/// Who sits at this command line: the one that was named, else the user of this process on this host.
pub fn person(by: Option<&str>, door: Door) -> Result<Person> {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let own = || {
        let host = host.as_deref().map(str::trim).unwrap_or_default();
        format!("{}@{host}", user.as_deref().unwrap_or("unknown"))
    };
    let name = by.map_or_else(own, str::to_owned);
    Ok(Person::new(&name, door)?)
}

/// Asks before something that cannot be undone: `--yes` answers, else a person at a terminal; without one it is refused.
pub fn confirm(yes: bool, what: &str, word: &str) -> Result<(), Failure> {
    use std::io::{BufRead as _, IsTerminal as _};
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(format!("{what} needs --yes where nobody can be asked")));
    }
    super::output::ask(&format!("{what}. Type {word} to go on: "));
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    if answer.trim() == word {
        Ok(())
    } else {
        Err(Failure::Usage("not confirmed; nothing was done".to_owned()))
    }
}
