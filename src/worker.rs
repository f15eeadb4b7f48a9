//! The fleet: claims due deadlines, hands them to the hook, settles the verdicts.
//!
//! One worker serves one wheel. For every shard there is a `poller` that sleeps until the shard's next moment and claims, and a
//! `settler` that writes verdicts in batches; between them the `executor` calls the hook. Beside them small services keep leases
//! alive (`heartbeat`), say who is there (`roster`), forget what is old (`janitor`) and prove that Redis still lets us work
//! (`sentry`). All of them are passes that answer "when next?", driven by the one loop in `service`.

mod alarm;
mod beat;
mod breaker;
mod circuit;
mod clock_guard;
mod executor;
pub mod failpoint;
mod gathering;
mod health;
mod heartbeat;
mod janitor;
mod limits;
mod measures;
mod meter;
mod poller;
pub mod pulse;
mod rate;
mod recorder;
mod reminder;
mod roster;
mod sentry;
pub mod service;
mod settings;
mod settler;
mod tally;
mod verdict;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use circuit::CircuitSettings;
pub use health::{Check, Health};
pub use meter::Meter;
pub use roster::host;
pub use settings::WorkerSettings;
pub use tally::{Tally, TallySnapshot};

use crate::error::{Error, Result};
use crate::hook::Hook;
use crate::metrics::Metrics;
use crate::shard::Shard;
use crate::wheel::Wheel;
pub(crate) use alarm::Alarm;
use clock_guard::ClockReader;
use executor::Executor;
use heartbeat::Leases;
use limits::Limits;
use measures::Measures;
use roster::Preference;
use sentry::Gate;

/// One worker of the fleet: a wheel, a hook, and how to bring them together.
pub struct Worker {
    wheel: Wheel,
    hook: Arc<dyn Hook>,
    settings: WorkerSettings,
    tally: Arc<Tally>,
    measures: Arc<Measures>,
    health: Arc<Health>,
    token: String,
    reminder: Option<Arc<dyn Hook>>,
}

/// How a worker's run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drained {
    /// Whether every lease in hand was settled or given back within the grace.
    pub clean: bool,
    /// Leases that were still in work when the grace ran out; they end by themselves and come back.
    pub left: usize,
    /// What the worker did.
    pub tally: TallySnapshot,
}

impl Worker {
    /// A worker; refuses settings under which a lease could end while its hook is rightly at work.
    pub fn new(wheel: Wheel, hook: Arc<dyn Hook>, settings: WorkerSettings) -> Result<Self> {
        outlives(&wheel, &settings, hook.as_ref())?;
        // Random for each start: two processes of one configured name must never keep each other's leases alive.
        let token = uuid::Uuid::new_v4().simple().to_string();
        let measures = Arc::new(Measures::new(&Metrics::new(), wheel.name()));
        let health = Arc::new(Health::new(wheel.name().clone(), wheel.shards().get().into()));
        Ok(Self { wheel, hook, settings, tally: Arc::default(), measures, health, token, reminder: None })
    }

    /// The same worker with a hook that gives reminders: it is called with leases of a stage before the close, and *closed* means that the
    /// buyer was reminded. Without one, reminders are given by their event alone. Refuses a hook that may take longer than a lease lasts.
    pub fn reminding_by(self, hook: Arc<dyn Hook>) -> Result<Self> {
        outlives(&self.wheel, &self.settings, hook.as_ref())?;
        Ok(Self { reminder: Some(hook), ..self })
    }

    /// The same worker, counting into these metrics.
    pub fn measured_by(self, metrics: &Metrics) -> Self {
        Self { measures: Arc::new(Measures::new(metrics, self.wheel.name())), ..self }
    }

    /// The worker's health, for probes.
    pub fn health(&self) -> Arc<Health> {
        self.health.clone()
    }

    /// What the worker does, while it does it.
    pub fn tally(&self) -> Arc<Tally> {
        self.tally.clone()
    }

    /// The worker's random name.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Works until `stop` is cancelled, then drains: no new claim, work in hand may finish within the grace, what was not begun is
    /// given back.
    ///
    /// Redis being away never ends it; a pass that fails is tried again, at most a few seconds later.
    pub async fn run(&self, stop: CancellationToken) -> Drained {
        let shards: Vec<Shard> = self.wheel.shards().all().collect();
        let permits = Arc::new(Semaphore::new(self.settings.concurrency));
        let leases = Arc::new(Leases::default());
        let gate = Arc::new(Gate::default());
        let limits = Arc::new(Limits::new(&self.wheel, &self.token, self.hook.endpoints(), &self.settings));
        let preference = Arc::new(Preference::new(&self.token, shards.len()));
        let alarm = Alarm::start();
        let looks = beat::Beat::new(self.settings.poll_interval);
        self.watch(&stop, &permits, &preference);
        self.measures.follow(measures::Followed {
            tally: self.tally.clone(),
            hook: self.hook.clone(),
            settings: self.settings.clone(),
            limits: Arc::downgrade(&limits),
            leases: Arc::downgrade(&leases),
            gate: Arc::downgrade(&gate),
            stop: stop.clone(),
        });
        // Background services outlive the drain: a lease in hand must still be renewed and settled while it is finished.
        let services = TaskTracker::new();
        let (end, kill) = (CancellationToken::new(), CancellationToken::new());

        let mut settlers = Vec::with_capacity(shards.len());
        let sooner: Vec<Arc<Notify>> = shards.iter().map(|_| Arc::default()).collect();
        for (&shard, sooner) in shards.iter().zip(&sooner) {
            // Bounded by the permits: a lease that holds one is in the channel at most once.
            let (sender, receiver) = mpsc::unbounded_channel();
            settlers.push(sender);
            let settler = settler::Settler::new(
                self.wheel.clone(),
                shard,
                receiver,
                (permits.clone(), self.settings.concurrency),
                settler::Look { sooner: sooner.clone(), every: self.settings.poll_interval },
                self.tally.clone(),
            );
            services.spawn(settler.run(kill.clone()));
        }
        let executor = Arc::new(Executor::new(
            self.wheel.clone(),
            self.hook.clone(),
            self.settings.clone(),
            executor::Held {
                leases: leases.clone(),
                limits: limits.clone(),
                measures: self.measures.clone(),
            },
            settlers,
            self.tally.clone(),
            reminder::Reminder::new(self.reminder.clone(), self.settings.concurrency),
        ));
        let wheel = || self.wheel.clone();
        let sentry = sentry::Sentry::new(wheel(), self.token.clone(), gate.clone());
        services.spawn(self.driven(sentry, &end));
        let beat =
            heartbeat::Heartbeat::new(wheel(), leases.clone(), self.settings.lease, self.tally.clone());
        services.spawn(self.driven(beat, &end));
        let record = roster::record(&self.token);
        let roster = roster::Roster::new(
            wheel(),
            record,
            roster::Parts {
                preference: preference.clone(),
                leases: leases.clone(),
                limits: limits.clone(),
                stop: stop.clone(),
            },
        );
        services.spawn(self.driven(roster, &end));
        let janitor =
            janitor::Janitor::new(wheel(), self.tally.clone(), self.measures.clone(), self.token.clone());
        services.spawn(self.driven(janitor, &end));
        if let Some(purse) = &limits.purse {
            services.spawn(self.driven(rate::Purser(purse.clone()), &end));
        }
        services.spawn(self.driven(breaker::BreakerWatch(limits.breaker.clone()), &end));
        let ledger = Arc::new(recorder::Ledger::new(
            wheel(),
            self.token.clone(),
            self.tally.clone(),
            self.measures.clone(),
            limits.clone(),
        ));
        services.spawn(self.driven(recorder::Recorder::new(ledger.clone()), &end));
        let reader = ClockReader::new(self.hook.clone(), limits.clocks.clone());
        services.spawn(self.driven(reader, &end));

        let pollers = TaskTracker::new();
        for (&shard, sooner) in shards.iter().zip(sooner) {
            let poller = poller::Poller::new(poller::Parts {
                wheel: wheel(),
                shard,
                settings: self.settings.clone(),
                worker: self.token.clone(),
                permits: permits.clone(),
                executor: executor.clone(),
                gate: gate.clone(),
                limits: limits.clone(),
                preference: preference.clone(),
                tally: self.tally.clone(),
                measures: self.measures.clone(),
                health: self.health.clone(),
                pulse: self.health.pulse(&format!("poller {shard}"), pulse::LONGEST),
                alarm: alarm.clone(),
                looks,
                sooner,
                stop: stop.clone(),
            });
            pollers.spawn(poller.run());
        }

        stop.cancelled().await;
        tracing::info!(wheel = %self.wheel.name(), in_hand = leases.count(), "draining");
        pollers.close();
        let deadline = Instant::now() + self.settings.grace;
        let drained = tokio::time::timeout(self.settings.grace, async {
            pollers.wait().await;
            executor.idle().await;
            // Every permit back means every verdict settled.
            let all = u32::try_from(self.settings.concurrency).unwrap_or(u32::MAX);
            drop(permits.acquire_many(all).await);
            executor.reminded().await;
        })
        .await;
        let left = leases.count();
        end.cancel();
        kill.cancel();
        services.close();
        let rest = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(200));
        let farewell = rest.min(Duration::from_secs(2));
        drop(tokio::time::timeout(farewell, services.wait()).await);
        if let Some(purse) = &limits.purse {
            drop(tokio::time::timeout(farewell, purse.close()).await);
        }
        drop(tokio::time::timeout(farewell, ledger.write()).await);
        drop(tokio::time::timeout(farewell, self.wheel.leave(&self.token)).await);
        Drained { clean: drained.is_ok() && left == 0, left, tally: self.tally.snapshot() }
    }
}

impl Worker {
    /// A service of this worker, with a pulse.
    fn driven<S: service::Service>(
        &self,
        service: S,
        end: &CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<S> {
        service::drive_watched(service, end.clone(), self.health.pulse(S::NAME, S::LONGEST))
    }

    /// Ties the health to this run.
    fn watch(&self, stop: &CancellationToken, permits: &Arc<Semaphore>, preference: &Arc<Preference>) {
        self.health.run(health::Running {
            stop: stop.clone(),
            preference: preference.clone(),
            permits: permits.clone(),
            least_permits: self.settings.least_permits(),
            looks: self.settings.poll_interval,
        });
    }
}

/// Whether a lease outlives a call of that hook.
fn outlives(wheel: &Wheel, settings: &WorkerSettings, hook: &dyn Hook) -> Result<()> {
    let needed = hook.timeout() + settings.lease_margin;
    if settings.lease > needed {
        return Ok(());
    }
    Err(Error::Config(vec![format!(
        "wheel {}: lease {:?} must exceed the hook's timeout {:?} plus lease_margin {:?}",
        wheel.name(),
        settings.lease,
        hook.timeout(),
        settings.lease_margin
    )]))
}
