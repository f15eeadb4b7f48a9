//! `duewheel events`: what happened, over all shards, once or as it happens.

use std::time::Duration;

use clap::Args;

use super::arguments;
use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use crate::clock::Moment;
use crate::error::{Error, escaped};
use crate::wheel::{EVENT_KINDS, ShardEvent};

/// Between two looks of `--follow`; what happened is shown at most about this much later.
const PAUSE: Duration = Duration::from_millis(250);
/// The longest pause while Redis is away.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Arguments of `events`.
#[derive(Debug, Args)]
#[command(
    about = "Shows what happened: closed, skipped, cancelled, dead, …",
    long_about = "Shows what happened on all shards of the wheel, oldest first: closed, skipped, cancelled, reminded, reminder_failed, dead, revived, \
                  resurrected, late_payment. Reaches back as far as events_keep. With --json one object a line: at_ms, shard, entry, what, id.\n\nWith --follow it goes on until it is interrupted, shows each event \
                  once, and waits for a Redis that is away. A program that must not miss what happened while it was down reads the \
                  streams as a consumer group: docs/events.md.",
    after_help = "Examples:\n  duewheel events                                the last hour\n  duewheel events --since 10m --type closed\n  \
                  duewheel events --follow                       from now on\n  duewheel events --follow --since 1m --json | jq -r .id"
)]
pub struct Events {
    /// Goes on as things happen
    #[arg(long, short)]
    follow: bool,
    /// From this long ago on [default: 1h; with --follow: now]
    #[arg(long, value_name = "DURATION", value_parser = arguments::duration)]
    since: Option<Duration>,
    /// Only this kind of event; may be given again
    #[arg(long = "type", value_name = "TYPE", value_parser = EVENT_KINDS)]
    kinds: Vec<String>,
}

/// Shows them.
pub async fn run(args: &Events, context: &Context, output: &mut Output) -> Outcome {
    let wheel = context.wheel()?;
    let mut interrupt = super::context::interrupt()?;
    let now = wheel.now().await?;
    let since = args.since.unwrap_or(if args.follow { Duration::ZERO } else { Duration::from_secs(3600) });
    let mut reader = wheel.events(back(now, since));
    let mut printer = Printer { kinds: &args.kinds, count: 0 };
    let mut away: Option<Duration> = None;
    loop {
        let pause = match reader.read().await {
            Ok(page) => {
                away = None;
                printer.print(&page.events, output)?;
                if !page.more && !args.follow {
                    printer.print(&reader.rest(), output)?;
                    break;
                }
                if page.more { Duration::ZERO } else { PAUSE }
            }
            Err(e) if args.follow && may_come_back(&e) => {
                if away.is_none() {
                    output.warn(&format!("{e}; asking again"));
                }
                let pause = away.map_or(PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
                away = Some(pause);
                pause
            }
            Err(e) => {
                // What is in hand happened, whatever Redis says now.
                printer.print(&reader.rest(), output)?;
                return Err(e.into());
            }
        };
        output.flush()?;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = interrupt.recv() => {
                printer.print(&reader.rest(), output)?;
                return Ok(Exit::Interrupted);
            }
        }
    }
    if printer.count == 0 && !output.is_json() {
        output.note(&format!("none on wheel {} in that time", wheel.name()));
    }
    Ok(Exit::Done)
}

fn back(now: Moment, by: Duration) -> Moment {
    let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    Moment::EPOCH.plus(Duration::from_millis(now.as_millis().saturating_sub(by)))
}

fn may_come_back(error: &Error) -> bool {
    error.store_kind().is_some_and(|kind| kind.is_temporary() || kind == crate::error::StoreKind::Unknown)
}

struct Printer<'a> {
    kinds: &'a [String],
    count: u64,
}

impl Printer<'_> {
    fn print(&mut self, events: &[ShardEvent], output: &mut Output) -> Result<(), Failure> {
        for event in events {
            if !self.kinds.is_empty() && !self.kinds.contains(&event.what) {
                continue;
            }
            self.count += 1;
            if output.is_json() {
                output.object(event)?;
            } else {
                output.line(&text(event))?;
            }
        }
        Ok(())
    }
}

/// `2026-03-01T04:00:00.123Z  closed       o-1042`.
fn text(event: &ShardEvent) -> String {
    let at = Moment::EPOCH.plus(Duration::from_millis(event.at_ms));
    let details: String =
        event.details.iter().map(|(name, value)| format!("  {name} {}", escaped(value))).collect();
    format!("{at}  {:<15} {}{details}", escaped(&event.what), escaped(&event.id))
}
