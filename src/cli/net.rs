//! The safety net of one wheel, as a worker runs it: feed, sweep and rebuild beside the fleet.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::{HookSettings, WheelConfig};
use crate::error::{Error, Result};
use crate::hook::sql::SqlSettings;
use crate::sweep::reconcile::Reconciliation;
use crate::sweep::{Feed, Looked, Measures, Rebuild, Reconcile, Report, Sweep};
use crate::wheel::Wheel;
use crate::worker::Health;
use crate::worker::service::{Service, drive_watched};

/// The jobs that a wheel's configuration asks for.
#[derive(Default)]
pub struct Net {
    pub feed: Option<Arc<Feed>>,
    pub sweep: Option<Arc<Sweep>>,
    pub rebuild: Option<Arc<Rebuild>>,
    pub reconcile: Option<Arc<Reconcile>>,
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
        let settings = &config.reconcile;
        let reconcile = (!settings.every.is_off())
            .then(|| Reconcile::new(wheel.clone(), hook, &config.sweep, settings.clone()))
            .transpose()?;
        Ok(Self {
            feed: feed.map(Arc::new),
            sweep: sweep.map(Arc::new),
            rebuild: rebuild.map(Arc::new),
            reconcile: reconcile.map(Arc::new),
        })
    }

    /// Runs them until `stop`. A run under way is dropped then, and its job let go for another worker.
    pub async fn run(&self, stop: &CancellationToken, measures: &Measures, health: &Health) {
        measures.enable(&self.enabled());
        let feed = async {
            if let Some(feed) = &self.feed {
                let feed = Feeder(feed.clone(), measures.clone());
                watched(feed, stop, health).await;
            }
        };
        let sweep = async {
            if let Some(sweep) = &self.sweep {
                let sweep = Sweeper(sweep.clone(), measures.clone());
                watched(sweep, stop, health).await;
            }
        };
        let rebuild = async {
            if let Some(rebuild) = &self.rebuild {
                let rebuild = Rebuilder(rebuild.clone(), measures.clone());
                watched(rebuild, stop, health).await;
            }
        };
        let reconcile = async {
            if let Some(reconcile) = &self.reconcile {
                let reconcile = Reconciler(reconcile.clone(), measures.clone());
                watched(reconcile, stop, health).await;
            }
        };
        tokio::join!(feed, sweep, rebuild, reconcile);
    }

    /// The jobs there are.
    fn enabled(&self) -> Vec<&'static str> {
        let jobs = [
            ("feed", self.feed.is_some()),
            ("sweep", self.sweep.is_some()),
            ("rebuild", self.rebuild.is_some()),
            ("reconcile", self.reconcile.is_some()),
        ];
        jobs.into_iter().filter(|(_, there)| *there).map(|(job, _)| job).collect()
    }

    /// Takes over logins that were read again.
    pub fn set_urls(&self, config: &WheelConfig) -> Result<()> {
        let Some(hook) = declared(config) else { return Ok(()) };
        let tables = [
            self.feed.as_ref().map(|feed| feed.table()),
            self.sweep.as_ref().map(|sweep| sweep.table()),
            self.rebuild.as_ref().map(|rebuild| rebuild.table()),
            self.reconcile.as_ref().map(|reconcile| reconcile.table()),
        ];
        tables.into_iter().flatten().try_for_each(|table| table.set_urls(&hook.urls, &config.sweep.urls))
    }
}

struct Feeder(Arc<Feed>, Measures);
struct Sweeper(Arc<Sweep>, Measures);
struct Rebuilder(Arc<Rebuild>, Measures);
struct Reconciler(Arc<Reconcile>, Measures);

/// A run reads whole tables, at the pace that it is told.
const LONGEST: Duration = Duration::from_secs(6 * 3600);

async fn watched<S: Service>(service: S, stop: &CancellationToken, health: &Health) {
    drive_watched(service, stop.clone(), health.pulse(S::NAME, S::LONGEST)).await;
}

impl Service for Feeder {
    const NAME: &'static str = "feeder";
    const LONGEST: Duration = LONGEST;

    async fn pass(&mut self) -> Result<Duration> {
        next("feed", &self.1, self.0.look().await)
    }
}

impl Service for Sweeper {
    const NAME: &'static str = "sweeper";
    const LONGEST: Duration = LONGEST;

    async fn pass(&mut self) -> Result<Duration> {
        next("sweep", &self.1, self.0.look().await)
    }
}

impl Service for Rebuilder {
    const NAME: &'static str = "rebuilder";
    const LONGEST: Duration = LONGEST;

    async fn pass(&mut self) -> Result<Duration> {
        next("rebuild", &self.1, self.0.look().await)
    }
}

impl Service for Reconciler {
    const NAME: &'static str = "reconciler";
    const LONGEST: Duration = LONGEST;

    async fn pass(&mut self) -> Result<Duration> {
        let looked = self.0.look().await;
        if let Ok(Looked::Ran(report)) = &looked {
            say_findings(report);
            self.1.ran("reconcile", Duration::from_millis(report.took_ms));
        }
        let looked = looked.map(|looked| match looked {
            Looked::Ran(_) => Looked::Not(Duration::from_millis(1)),
            Looked::Not(wait) => Looked::Not(wait),
        });
        next("reconcile", &self.1, looked)
    }
}

/// When to look again. A job that was taken over is the other runner's now.
fn next(task: &'static str, measures: &Measures, looked: Result<Looked>) -> Result<Duration> {
    if let Err(e) = &looked {
        measures.failed(task, e);
    }
    match looked {
        Ok(Looked::Ran(report)) => {
            measures.ran(task, Duration::from_millis(report.took_ms));
            measures.found(task, &report);
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

/// One line for the run, and one for each class and rule that needs somebody.
fn say_findings(report: &Reconciliation) {
    for section in report.sections().filter(|section| section.is_open()) {
        tracing::warn!(
            wheel = report.wheel,
            finding = section.name,
            level = section.level.as_str(),
            found = section.count,
            healed = section.healed,
            left = section.left(),
            error = section.error,
            "table, wheel and close log do not agree"
        );
    }
    tracing::info!("reconciled {}", report.summary());
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
