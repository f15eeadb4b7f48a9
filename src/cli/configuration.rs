//! `duewheel config`: the values in force, each with where it came from; or the commented defaults.

use clap::Args;
use serde_json::json;

use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;

/// Arguments of `config`.
#[derive(Debug, Args)]
#[command(
    about = "Shows the configuration in force, each value with its source",
    long_about = "Shows the configuration in force, each value with its source. Secrets are hidden.\n\nA value is taken from \
                  the first of: flags, DUEWHEEL_* variables (`__` stands for the dot of a key), REDIS_URL, DATABASE_URL and \
                  RUST_LOG, one file, the defaults.",
    after_help = "Examples:\n  duewheel config --default > duewheel.toml     start a configuration from the commented defaults\n  \
                  duewheel config --json | jq .\n  DUEWHEEL_WHEEL__ORDERS__SHARDS=32 duewheel config"
)]
pub struct Configuration {
    /// Prints the commented defaults: the manual of every key
    #[arg(long)]
    pub default: bool,
}

/// Prints the embedded file.
pub fn print_default(output: &mut Output) -> Outcome {
    output.raw(crate::config::DEFAULT.as_bytes())?;
    Ok(Exit::Done)
}

/// Prints what is in force.
pub fn run(context: &Context, output: &mut Output) -> Outcome {
    let config = &context.config;
    if output.is_json() {
        let file = config.file.as_ref().map(|f| f.display().to_string());
        output.object(&json!({"file": file, "warnings": config.warnings, "values": config.shown}))?;
    } else {
        context.say_warnings(output);
        let row = |s: &crate::config::Shown| vec![s.key.clone(), s.value.clone(), s.source.clone()];
        output.table(&["key", "value", "source"], config.shown.iter().map(row).collect())?;
    }
    Ok(Exit::Done)
}
