//! `duewheel completions`: a completion script for a shell.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::arguments::Arguments;
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(
    about = "Prints a completion script for a shell",
    after_help = "Examples:\n  duewheel completions bash > /etc/bash_completion.d/duewheel\n  duewheel completions zsh > \
                  ~/.zfunc/_duewheel\n  duewheel completions fish > ~/.config/fish/completions/duewheel.fish"
)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &Completions, output: &mut Output) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "duewheel", &mut script);
    output.raw(&script)?;
    Ok(Exit::Done)
}
