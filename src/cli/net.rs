//! The safety net of one wheel, as a worker runs it: feed, sweep and rebuild beside the fleet.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::{HookSettings, WheelConfig};
use crate::error::{Error, Result};
use crate::hook::sql::SqlSettings;
use crate::sweep::{Feed, Looked, Rebuild, Report, Sweep};
use crate::wheel::Wheel;
use crate::worker::service::{Service, drive};

/// The jobs that a wheel's configuration asks for.
#[derive(Default)]
pub struct Net {
    pub feed: Option<Arc<Feed>>,
    pub sweep: Option<Arc<Sweep>>,
    pub rebuild: Option<Arc<Rebuild>>,
}

/// The hook's table, where it declares one.
pub fn declared(config: &WheelConfig) -> Option<&SqlSettings> {
    match &config.hook {
        HookSettings::Sql(settings) if settings.call.is_none() => Some(settings),
        _ => None,
    }
}

impl Net {
    /// The jobs of this wheel. What the table cannot give (it knows no close time) is left out.
    pub fn of(config: &WheelConfig, wheel: &Wheel) -> Result<Self> {
        let Some(hook) = declared(config) else { return Ok(Self::default()) };
        let has_time = hook.close_at.is_some();
        let sweep = (has_time || hook.overdue.is_some()) && !config.sweep.every.is_off();
        let rebuild = has_time && config.sweep.rebuild;
        let feed = config.feed.time.is_some();
        let sweep = sweep.then(|| Sweep::new(wheel.clone(), hook, config.sweep.clone())).transpose()?;
        let rebuild = rebuild.then(|| Rebuild::new(wheel.clone(), hook, config.sweep.clone())).transpose()?;
        let feed =
            feed.then(|| Feed::new(wheel.clone(), hook, &config.sweep, config.feed.clone())).transpose()?;
        Ok(Self { feed: feed.map(Arc::new), sweep: sweep.map(Arc::new), rebuild: rebuild.map(Arc::new) })
    }

    /// Runs them until `stop`. A run under way is dropped then, and its job let go for another worker.
    pub async fn run(&self, stop: &CancellationToken) {
        let feed = async {
            if let Some(feed) = &self.feed {
                drive(Feeder(feed.clone()), stop.clone()).await;
            }
        };
        let sweep = async {
            if let Some(sweep) = &self.sweep {
                drive(Sweeper(sweep.clone()), stop.clone()).await;
            }
        };
        let rebuild = async {
            if let Some(rebuild) = &self.rebuild {
                drive(Rebuilder(rebuild.clone()), stop.clone()).await;
            }
        };
        tokio::join!(feed, sweep, rebuild);
    }

    /// Takes over logins that were read again.
    pub fn set_urls(&self, config: &WheelConfig) -> Result<()> {
        let Some(hook) = declared(config) else { return Ok(()) };
        let tables = [
            self.feed.as_ref().map(|feed| feed.table()),
            self.sweep.as_ref().map(|sweep| sweep.table()),
            self.rebuild.as_ref().map(|rebuild| rebuild.table()),
        ];
        tables.into_iter().flatten().try_for_each(|table| table.set_urls(&hook.urls, &config.sweep.urls))
    }
}

struct Feeder(Arc<Feed>);
struct Sweeper(Arc<Sweep>);
struct Rebuilder(Arc<Rebuild>);

impl Service for Feeder {
    const NAME: &'static str = "feeder";

    async fn pass(&mut self) -> Result<Duration> {
        next(self.0.look().await)
    }
}

impl Service for Sweeper {
    const NAME: &'static str = "sweeper";

    async fn pass(&mut self) -> Result<Duration> {
        next(self.0.look().await)
    }
}

impl Service for Rebuilder {
    const NAME: &'static str = "rebuilder";

    async fn pass(&mut self) -> Result<Duration> {
        next(self.0.look().await)
    }
}

/// When to look again. A job that was taken over is the other runner's now.
fn next(looked: Result<Looked>) -> Result<Duration> {
    match looked {
        Ok(Looked::Ran(report)) => {
            say(&report);
            Ok(Duration::from_millis(1))
        }
        Ok(Looked::Not(wait)) => Ok(wait.max(Duration::from_millis(1))),
        Err(Error::Overtaken(reason)) => {
            tracing::warn!("{reason}");
            Ok(Duration::from_secs(1))
        }
        Err(e) => Err(e),
    }
}

fn say(report: &Report) {
    if report.job == "feed" && report.refused + report.dead == 0 {
        // It runs each second; what it did is in the wheel's own numbers.
        return;
    }
    if report.is_worth_saying() {
        tracing::info!(
            job = report.job,
            seen = report.seen,
            held = report.held,
            enqueued = report.enqueued,
            resurrected = report.resurrected,
            dead = report.dead,
            capped = report.capped,
            refused = report.refused,
            refusal = report.refusal,
            took_ms = report.took_ms,
            "orders table was read"
        );
    }
}
