//! `duewheel wheel`: the wheels of this Redis.

use clap::{Args, Subcommand};
use serde_json::json;

use super::arguments::ByAndWhy;
use super::context::{Context, confirm};
use super::exit::Exit;
use super::failure::Outcome;
use super::output::Output;
use crate::error::escaped;
use crate::shard::ShardCount;
use crate::wheel::Wheel;

/// Arguments of `wheel`.
#[derive(Debug, Args)]
#[command(
    about = "Lists, drops or reshards wheels",
    after_help = "Examples:\n  duewheel wheel list\n  duewheel wheel drop --wheel trial --yes\n  duewheel wheel reshard --wheel orders \
                  --shards 32 --yes     then set shards = 32 and start the workers again"
)]
pub struct WheelCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Lists the wheels that this Redis knows
    List,
    /// Removes a wheel and every deadline on it; its audit stays
    Drop {
        /// Does not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        why: ByAndWhy,
    },
    /// Moves a wheel to another number of shards. Stop its workers first; run it again if it was cut off
    #[command(
        long_about = "Moves a wheel to another number of shards. Drain its workers first (duewheel drain), then stop them and whatever else \
                      uses the wheel; run it again if it was cut off. A pause or trip stays.\n\nRefused while a bulk act is not over. With \
                      fewer shards than before, the streams of events of those that go away go with them: refused while a consumer group \
                      (Kafka's relay, your own) has not acknowledged all of them, and refused without --drop-history while they hold any \
                      event that `explain` and `events` could still tell. Deadlines, the dead and remembered ends are always carried."
    )]
    Reshard {
        /// The new number, 1 to 1024
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
        shards: u32,
        /// Goes on although `explain` and `events` lose what the shards that go away tell
        #[arg(long)]
        drop_history: bool,
        /// Does not ask
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        why: ByAndWhy,
    },
}

impl WheelCommand {
    /// Whether it changes nothing.
    pub fn reads(&self) -> bool {
        matches!(self.verb, Verb::List)
    }
}

/// Runs the verb.
pub async fn run(args: &WheelCommand, context: &Context, output: &mut Output) -> Outcome {
    match &args.verb {
        Verb::List => list(context, output).await,
        Verb::Drop { yes, why } => {
            let operator = context.operator(&why.who)?;
            let name = operator.wheel().name().as_str();
            let stats = operator.wheel().stats().await?;
            let held = stats.scheduled + stats.leased + stats.dead;
            confirm(*yes, &format!("removing wheel {name} with {held} deadlines"), name)?;
            let (held, removed) = operator.remove(&why.reason).await?;
            let object = json!({"outcome": "dropped", "wheel": name, "deadlines": held, "keys": removed});
            output.say(&format!("{name}: dropped, {held} deadlines, {removed} keys"), &object)?;
            Ok(Exit::Done)
        }
        Verb::Reshard { shards, drop_history, yes, why } => {
            reshard(*shards, *drop_history, *yes, why, context, output).await
        }
    }
}

async fn list(context: &Context, output: &mut Output) -> Outcome {
    let store = context.store()?;
    let wheels = Wheel::known(&store).await?;
    let configured = |name: &str| context.config.wheels.iter().any(|w| w.wheel.name.as_str() == name);
    if output.is_json() {
        for (name, shards, width) in &wheels {
            let configured = configured(name);
            output.object(
                &json!({"wheel": name, "shards": shards, "slot_width_ms": width, "configured": configured}),
            )?;
        }
        return Ok(Exit::Done);
    }
    let row = |(name, shards, width): &(String, u64, u64)| {
        let remark = if configured(name) { "configured" } else { "not configured here" };
        vec![escaped(name), shards.to_string(), format!("{width}ms"), remark.to_owned()]
    };
    if wheels.is_empty() {
        output.note("none on this Redis");
    } else {
        output.table(&["wheel", "shards", "slot width", ""], wheels.iter().map(row).collect())?;
    }
    Ok(Exit::Done)
}

async fn reshard(
    shards: u32,
    drop_history: bool,
    yes: bool,
    why: &ByAndWhy,
    context: &Context,
    output: &mut Output,
) -> Outcome {
    let to = ShardCount::new(shards)?;
    let operator = context.operator(&why.who)?;
    let wheel = operator.wheel();
    let name = wheel.name().as_str();
    let from = wheel.shards().get();
    confirm(yes, &format!("moving wheel {name} from {from} to {shards} shards"), name)?;
    let bar = super::enqueue::progress(output, None);
    let (_, carried) =
        operator.reshard(to, drop_history, &why.reason, |carried| bar.set_position(carried)).await?;
    bar.finish_and_clear();
    let object =
        json!({"outcome": "resharded", "wheel": name, "from": from, "shards": shards, "carried": carried});
    output.say(&format!("{name}: {shards} shards, {carried} deadlines carried"), &object)?;
    output.note(&format!("set wheel.{name}.shards = {shards} before anything uses the wheel again"));
    Ok(Exit::Done)
}
