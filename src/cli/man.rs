//! `duewheel man`: the manual pages, generated from the arguments.

use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use super::arguments::Arguments;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use crate::error::Error;

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(
    about = "Prints the manual page",
    after_help = "Examples:\n  duewheel man | man -l -\n  duewheel man --dir /usr/local/share/man/man1     one page for each command"
)]
pub struct Man {
    /// Writes the page of every command into this folder
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    /// Whether the page is printed, not written to files.
    pub fn to_stdout(&self) -> bool {
        self.dir.is_none()
    }
}

/// Prints the main page, or writes all.
pub fn run(args: &Man, output: &mut Output) -> Outcome {
    let mut command = Arguments::command();
    command.build();
    let Some(dir) = &args.dir else {
        output.raw(&page(&command, "duewheel")?)?;
        return Ok(Exit::Done);
    };
    write_pages(dir, &command, "duewheel")?;
    Ok(Exit::Done)
}

fn write_pages(dir: &std::path::Path, command: &clap::Command, name: &str) -> Result<(), Failure> {
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, page(command, name)?)
        .map_err(|e| Error::File { attempted: format!("write {}", path.display()), reason: e.to_string() })?;
    for sub in command.get_subcommands() {
        write_pages(dir, sub, &format!("{name}-{}", sub.get_name()))?;
    }
    Ok(())
}

fn page(command: &clap::Command, name: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    clap_mangen::Man::new(command.clone()).title(name.to_owned()).render(&mut bytes)?;
    Ok(bytes)
}
