//! `duewheel bench`: measures this Redis with this program. One object of figures, and the options they were measured with.

mod figures;
mod firing;
mod judge;
mod load;
mod ticks;

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::arguments;
use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use crate::config::WheelConfig;
use crate::error::Result;
use crate::shard::WheelName;
use crate::wheel::{Wheel, WheelSettings};
use figures::Figures;
use load::Load;

/// Arguments of `bench`.
#[derive(Debug, Args)]
#[command(
    about = "Measures this Redis: enqueue, drain, lateness",
    long_about = "Measures this Redis with this program, on a wheel of its own (`bench`, or --wheel), which must be empty and is \
                  removed afterwards.\n\nenqueue: places --count deadlines, due over half an hour, and measures rate and memory.\n\
                  drain: the same, then one worker with a hook that does nothing closes them all through poller, executor and \
                  settle, every id checked; beside it the raw floor, the same movement of data in bare Lua.\nlateness: deadlines \
                  come due at --rate for --seconds, whatever the worker does (open loop); lateness is hook start minus due_at by \
                  Redis's clock; beside it the raw floor again, and how much time the host took from this machine.\n\nOther load on Redis or on this machine is measured, too. Figures of Redis's processor time are \
                  those of its main thread.",
    after_help = "Examples:\n  duewheel bench                                all three, on an empty Redis of its own\n  duewheel bench \
                  lateness --rate 2000 --seconds 30\n  duewheel bench drain --count 1000000 --json"
)]
pub struct Bench {
    /// What to measure
    #[arg(value_enum, default_value_t)]
    what: What,
    /// Deadlines that are placed and closed
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..=50_000_000))]
    count: u64,
    /// Bytes of each payload, 0 to 65536
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=65536))]
    payload: u32,
    /// Callers that place side by side
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    callers: u32,
    /// Deadlines that come due in each second
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=200_000))]
    rate: u64,
    /// How long they do
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = arguments::duration)]
    seconds: Duration,
    /// Deadlines of the far future that lie beside them
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=50_000_000))]
    pending: u64,
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum What {
    /// All three
    #[default]
    All,
    /// Placing
    Enqueue,
    /// Placing and closing, and the raw floor
    Drain,
    /// How late the hook is called
    Lateness,
}

/// Measures.
pub async fn run(args: &Bench, context: &Context, output: &mut Output) -> Outcome {
    if args.seconds < Duration::from_secs(1) || args.seconds > Duration::from_secs(3600) {
        return Err(Failure::Usage("--seconds: expected 1s to 1h".to_owned()));
    }
    let config = config(context)?;
    let wheel = Wheel::new(context.store()?, config.wheel.clone());
    refuse_what_is_in_use(&wheel).await?;
    let figures = tokio::select! {
        figures = measure(args, &wheel, &config, output) => figures,
        _ = tokio::signal::ctrl_c() => {
            wheel.drop_wheel().await?;
            return Ok(Exit::Interrupted);
        }
    };
    wheel.drop_wheel().await?;
    let figures = figures?;
    if output.is_json() {
        output.object(&figures)?;
    } else {
        output.table(&["figure", "value"], figures.rows())?;
    }
    Ok(if figures.is_right() { Exit::Done } else { Exit::Failure })
}

/// The wheel that is measured: the one that was named, else one called `bench` with the settings of the first.
fn config(context: &Context) -> Result<WheelConfig> {
    if context.wheel.is_some() {
        return context.wheel_config().cloned();
    }
    let name = WheelName::new("bench")?;
    Ok(match context.config.wheels.first() {
        Some(first) => WheelConfig { wheel: WheelSettings { name, ..first.wheel.clone() }, ..first.clone() },
        None => context.wheel_config()?.clone(),
    })
}

/// Somebody's deadlines would be closed by a hook that does nothing.
async fn refuse_what_is_in_use(wheel: &Wheel) -> Result<(), Failure> {
    let stats = wheel.stats().await?;
    let held = stats.scheduled + stats.leased + stats.dead + stats.ended;
    let workers = wheel.presence().await?.workers.len();
    if held > 0 || workers > 0 {
        let name = wheel.name();
        let text = format!(
            "wheel {name} holds {held} deadlines and ends and has {workers} workers; bench needs an empty one"
        );
        return Err(Failure::Usage(text));
    }
    Ok(())
}

async fn measure(args: &Bench, wheel: &Wheel, config: &WheelConfig, output: &Output) -> Result<Figures> {
    wheel.format().await?;
    let mut figures = Figures::new(args, wheel, config);
    let load = Load::new(wheel.clone(), args.payload as usize, args.callers as usize);
    if args.what != What::Lateness {
        output.note(&format!("placing {} deadlines", args.count));
        load.enqueue(args.count, &mut figures).await?;
    }
    if matches!(args.what, What::All | What::Drain) {
        output.note("closing them");
        load.drain(args.count, config, &mut figures).await?;
        output.note("the raw floor");
        load.floor(args.count, config.worker.claim_batch, &mut figures).await?;
    }
    if matches!(args.what, What::All | What::Lateness) {
        wheel.drop_wheel().await?;
        wheel.format().await?;
        output.note(&format!("lateness at {}/s", args.rate));
        load.lateness(args.rate, args.seconds, args.pending, config, &mut figures).await?;
        output.note("the same on the raw floor");
        load.floor_lateness(args.rate, args.seconds, config.worker.claim_batch, &mut figures).await?;
    }
    Ok(figures)
}
