//! The command line. [`main`] is the table of contents: arguments, then configuration, then one command.

mod arguments;
mod audit;
mod bench;
mod bulk;
mod cancel;
mod check;
mod close;
mod completions;
mod configuration;
mod context;
mod dead;
mod drain;
mod enqueue;
mod events;
mod exit;
#[cfg(feature = "sql")]
mod explain;
mod export;
mod failure;
#[cfg(feature = "sql")]
mod feed;
mod forecast;
mod hold;
mod hook;
mod import;
mod incident;
mod inspect;
mod list;
mod man;
#[cfg(feature = "sql")]
mod net;
mod output;
mod paid;
mod pause;
mod payload;
mod probe;
mod probes;
#[cfg(feature = "sql")]
mod rebuild;
#[cfg(feature = "sql")]
mod reconcile;
mod release;
mod reschedule;
mod resume;
mod row;
mod serve;
mod signals;
mod spans;
mod stats;
mod supervisor;
#[cfg(feature = "sql")]
mod sweep;
mod token;
#[cfg(feature = "top")]
mod top;
mod usage;
mod verify;
mod wheel;
mod worker;

use std::process::ExitCode;

use clap::Parser as _;

use arguments::{Arguments, Command};
use context::Context;
use exit::Exit;
use failure::{Failure, Outcome};
use output::Output;

/// Runs the program: parses the arguments of this process, runs one command, and answers how it ended.
pub fn main() -> ExitCode {
    // One provider for every TLS connection of the process. A second installation would be refused, and there is none.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(wrong) => return usage::say(&wrong).into(),
    };
    let global = &arguments.global;
    let mut output = Output::new(global.json, global.quiet, global.color);
    let reads = arguments.command.reads();
    let outcome = run(&arguments, &mut output).and_then(|exit| Ok(output.flush().map(|()| exit)?));
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if !failure.is_broken_pipe() {
                // What was printed before stands before the reason.
                let _ = output.flush();
                output.fail(&failure, reads);
            }
            failure.exit(reads).into()
        }
    }
}

fn run(arguments: &Arguments, output: &mut Output) -> Outcome {
    let command = &arguments.command;
    if command.only_prints() && output::stdout_is_closed() {
        return Err(Failure::Output(std::io::Error::other("is closed")));
    }
    match command {
        Command::Completions(args) => return completions::run(args, output),
        Command::Man(args) => return man::run(args, output),
        Command::Token(args) => return token::run(args, output),
        Command::Config(args) if args.default => return configuration::print_default(output),
        _ => {}
    }
    let context = Context::load(&arguments.global, command)?;
    if let Command::Config(_) = command {
        return configuration::run(&context, output);
    }
    context.say_warnings(output);
    let outcome = context::runtime(command)?.block_on(dispatch(command, &context, output));
    outcome.map_err(|failure| failure.at(&context.shown_redis_url()))
}

async fn dispatch(command: &Command, context: &Context, output: &mut Output) -> Outcome {
    match command {
        Command::Enqueue(args) => enqueue::run(args, context, output).await,
        Command::Cancel(args) => cancel::run(args, context, output).await,
        Command::Paid(args) => paid::run(args, context, output).await,
        Command::Incident(args) => incident::run(args, context, output).await,
        Command::Reschedule(args) => reschedule::run(args, context, output).await,
        Command::Hold(args) => hold::run(args, context, output).await,
        Command::Release(args) => release::run(args, context, output).await,
        Command::Close(args) => close::run(args, context, output).await,
        Command::Inspect(args) => inspect::run(args, context, output).await,
        #[cfg(feature = "sql")]
        Command::Explain(args) => explain::run(args, context, output).await,
        Command::List(args) => list::run(args, context, output).await,
        Command::Stats(args) => stats::run(args, context, output).await,
        #[cfg(feature = "top")]
        Command::Top(args) => top::run(args, context, output).await,
        Command::Events(args) => events::run(args, context, output).await,
        Command::Forecast(args) => forecast::run(args, context, output).await,
        Command::Dead(args) => dead::run(args, context, output).await,
        Command::Drain(args) => drain::run(args, context, output).await,
        Command::Bulk(args) => bulk::run(args, context, output).await,
        Command::Audit(args) => audit::run(args, context, output).await,
        Command::Pause(args) => pause::run(args, context, output).await,
        Command::Resume(args) => resume::run(args, context, output).await,
        Command::Wheel(args) => wheel::run(args, context, output).await,
        Command::Verify(args) => verify::run(args, context, output).await,
        #[cfg(feature = "sql")]
        Command::Feed(args) => feed::run(args, context, output).await,
        #[cfg(feature = "sql")]
        Command::Sweep(args) => sweep::run(args, context, output).await,
        #[cfg(feature = "sql")]
        Command::Rebuild(args) => rebuild::run(args, context, output).await,
        #[cfg(feature = "sql")]
        Command::Reconcile(args) => reconcile::run(args, context, output).await,
        Command::Export(args) => export::run(args, context, output).await,
        Command::Import(args) => import::run(args, context, output).await,
        Command::Worker(args) => worker::run(args, context, output).await,
        Command::Serve(args) => serve::run(args, context, output).await,
        Command::Token(_) => Ok(Exit::Done),
        Command::Probe(args) => probe::run(args, context, output).await,
        Command::Check(args) => check::run(args, context, output).await,
        Command::Bench(args) => bench::run(args, context, output).await,
        Command::Config(_) | Command::Completions(_) | Command::Man(_) => Ok(Exit::Done),
    }
}
