//! `duewheel worker`: closes due orders until it is told to stop.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::future::join_all;
use secrecy::ExposeSecret as _;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::hook::Closer;
use super::output::Output;
use super::serve::Service;
use super::signals::{Asked, Signals};
use super::spans::Spans;
use super::supervisor::Supervisor;
use crate::config::{Config, WheelConfig, shown_url};
use crate::error::{Error, StoreKind};
use crate::http::health::Probes;
use crate::metrics::Metrics;
use crate::operator::Foreman;
#[cfg(feature = "sql")]
use crate::sweep::Measures;
use crate::wheel::{RedisSettings, Store, Wheel};
use crate::worker::service::{Service as _, drive_watched};
use crate::worker::{Drained, Meter, Tally, Worker as Fleet};

/// How often the log says what was done.
const REPORT: Duration = Duration::from_secs(60);
/// Between two start-up checks of a hook that cannot be reached.
const CHECK_PAUSE: Duration = Duration::from_secs(2);
/// For the jobs in hand to be let go at the end.
const LET_GO: Duration = Duration::from_secs(2);

/// Arguments of `worker`.
#[derive(Debug, Args)]
#[command(
    about = "Closes due orders until it is told to stop",
    long_about = "Closes due orders until it is told to stop. Serves every configured wheel that has a hook, or the one of --wheel. \
                  Any number of workers share the work; one that dies costs a lease's time, no order.\n\nSIGTERM and SIGINT drain: \
                  nothing more is claimed, work in hand may finish within `grace`, the rest is given back; exit code 0. A second \
                  signal ends it at once. SIGHUP reads the configuration again and takes over the \
                  log level and every secret (logins of Redis and databases, webhook secrets); what else changed needs a restart \
                  and is said.",
    after_help = "Examples:\n  duewheel worker\n  duewheel worker --wheel orders --set wheel.orders.worker.concurrency=64\n  duewheel \
                  worker --log info,duewheel::worker=debug\n  duewheel worker --metrics 127.0.0.1:9464"
)]
pub struct Worker {
    /// Closes what is due now, and ends when nothing is due or in work any more
    #[arg(long)]
    until_idle: bool,
    /// Answers /metrics, /livez and /readyz there: an IP address and a port
    #[arg(long, value_name = "ADDR")]
    pub(super) metrics: Option<String>,
    /// Serves the HTTP API, too, here: ADDRESS:PORT (see duewheel serve)
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
}

/// One wheel that is served.
struct Served {
    config: WheelConfig,
    closer: Closer,
    reminder: Option<Closer>,
    wheel: Wheel,
    fleet: Fleet,
    metrics: Metrics,
    #[cfg(feature = "sql")]
    net: super::net::Net,
    #[cfg(feature = "kafka")]
    relay: Option<crate::relay::Relay>,
}

/// Works.
pub async fn run(args: &Worker, context: &Context, output: &mut Output) -> Outcome {
    let metrics = Metrics::new();
    let served = served(context, &metrics)?;
    let probes = Probes::new(metrics.clone(), served.iter().map(|one| one.fleet.health()).collect());
    let _answering = super::probes::answer(context, probes).await?;
    let spans = Spans::start()?;
    let mut signals = Signals::listen()?;
    let stop = CancellationToken::new();
    for one in &served {
        tokio::select! {
            ready = ready(one) => ready?,
            exit = signals.ended() => return Ok(exit),
        }
    }
    let mut supervisor = Supervisor::of_process();
    supervisor.ready(&serving(&served));
    let tallies: Vec<Arc<Tally>> = served.iter().map(|one| one.fleet.tally()).collect();
    let service = match &args.listen {
        Some(_) => {
            Some(Service::start(context, served.iter().map(|one| one.wheel.clone()), &metrics, &stop).await?)
        }
        None => None,
    };
    let work = join_all(served.iter().map(|one| serve(one, context, !args.until_idle, stop.clone())));
    tokio::pin!(work);
    let mut report = tokio::time::interval(REPORT);
    report.reset();
    let mut idle = tokio::time::interval(Duration::from_millis(100));
    let drained = loop {
        tokio::select! {
            drained = &mut work => break drained,
            signal = signals.next() => match signal {
                Asked::End(exit) if stop.is_cancelled() => {
                    tracing::warn!("second signal: ending at once; leases in hand end by themselves");
                    return Ok(exit);
                }
                Asked::End(_) => {
                    supervisor.stopping("draining");
                    stop.cancel();
                }
                Asked::Hangup => {
                    supervisor.reloading();
                    if let (Some(config), Some((service, _))) = (reload(context, &served), &service) {
                        service.reload(&config);
                    }
                    supervisor.ready(&serving(&served));
                }
                Asked::Stop | Asked::Continue => {}
            },
            () = supervisor.beat(|| are_alive(&served)) => {}
            _ = report.tick() => served.iter().zip(&tallies).for_each(|(one, tally)| say(one, tally)),
            _ = idle.tick(), if args.until_idle && !stop.is_cancelled() => {
                if is_idle(&served).await {
                    stop.cancel();
                }
            }
        }
    };
    if let Some((_, answering)) = service {
        stop.cancel();
        let _ = answering.await;
    }
    spans.end().await;
    let drained: Vec<Drained> = drained.into_iter().collect::<Result<_, _>>()?;
    said(&served, &drained, output)
}

/// What `/livez` asks: whether each loop goes on.
fn are_alive(served: &[Served]) -> bool {
    served.iter().all(|one| one.fleet.health().alive().iter().all(|check| check.problem.is_none()))
}

/// What the service manager shows of a worker.
fn serving(served: &[Served]) -> String {
    let names: Vec<_> = served.iter().map(|one| one.wheel.name().as_str()).collect();
    format!("serving {}", names.join(", "))
}

/// Serves one wheel from the moment its hook has passed its checks. A hook that is refused ends the whole worker.
///
/// The jobs run beside it, unless this worker is only to empty what is due now.
async fn serve(
    one: &Served,
    context: &Context,
    with_jobs: bool,
    stop: CancellationToken,
) -> Result<Drained, Failure> {
    let checked = tokio::select! {
        () = stop.cancelled() => {
            return Ok(Drained { clean: true, left: 0, tally: one.fleet.tally().snapshot() });
        }
        checked = checked(one) => checked,
    };
    if let Err(refused) = checked {
        stop.cancel();
        return Err(refused);
    }
    let name = one.wheel.name();
    tracing::info!(wheel = %name, shards = one.wheel.shards().get(), hook = one.config.hook.kind(), worker = one.fleet.token(), "serving");
    let end = CancellationToken::new();
    let read = async {
        // Nobody reads what is not scraped.
        if context.config.metrics.listen.is_some() {
            let meter = Meter::new(one.wheel.clone(), &one.metrics);
            let pulse = one.fleet.health().pulse(Meter::NAME, Meter::LONGEST);
            drive_watched(meter, end.clone(), pulse).await;
        }
    };
    let work = async {
        let drained = if with_jobs {
            tokio::join!(one.fleet.run(stop.clone()), jobs(one, &stop)).0
        } else {
            one.fleet.run(stop.clone()).await
        };
        end.cancel();
        drained
    };
    Ok(tokio::join!(work, read).0)
}

/// What a wheel wants done beside the closing, by one worker of the fleet at a time: the jobs over the orders table, the relay, and what
/// people do to all that match.
async fn jobs(one: &Served, stop: &CancellationToken) {
    #[cfg(feature = "sql")]
    let (measures, health) = (Measures::new(&one.metrics, one.wheel.name()), one.fleet.health());
    #[cfg(feature = "sql")]
    let net = one.net.run(stop, &measures, &health);
    #[cfg(not(feature = "sql"))]
    let net = std::future::ready(());
    #[cfg(feature = "kafka")]
    let relay = async {
        if let Some(relay) = &one.relay {
            relay.run(stop).await;
        }
    };
    #[cfg(not(feature = "kafka"))]
    let relay = std::future::ready(());
    let foreman = drive_watched(
        Foreman::new(one.wheel.clone()),
        stop.clone(),
        one.fleet.health().pulse(Foreman::NAME, Foreman::LONGEST),
    );
    tokio::join!(net, relay, foreman);
    one.wheel.let_go(LET_GO).await;
}

/// Waits for a hook that is away: it could close nothing, and other wheels are served meanwhile.
async fn checked(one: &Served) -> Result<(), Failure> {
    let name = one.wheel.name();
    let mut tries: u32 = 0;
    loop {
        match one.closer.hook().check().await {
            Ok(warnings) => {
                warnings.iter().for_each(|warning| tracing::warn!(wheel = %name, "{warning}"));
                return Ok(());
            }
            Err(e @ Error::HookAway(_)) => {
                if tries.is_multiple_of(15) {
                    tracing::warn!(wheel = %name, error = %e, "the hook is not ready; asking again");
                }
                tries += 1;
                tokio::time::sleep(CHECK_PAUSE).await;
            }
            Err(e) => return Err(e.into()),
        }
    }
}

/// The wheels to serve: the one that was named, else all that have a hook.
fn served(context: &Context, metrics: &Metrics) -> Result<Vec<Served>, Failure> {
    let configs: Vec<&WheelConfig> = match &context.wheel {
        Some(_) => vec![context.wheel_config()?],
        None => context.config.wheels.iter().collect(),
    };
    let store = Arc::new(context.connections()?.measured_by(metrics));
    let (mut served, mut problems) = (Vec::new(), Vec::new());
    for config in configs {
        let made = Closer::of(config).and_then(|closer| {
            let Some(closer) = closer else { return Ok(()) };
            let wheel = Wheel::new(store.clone(), config.wheel.clone());
            let fleet = Fleet::new(wheel.clone(), closer.hook(), config.worker.clone())?.measured_by(metrics);
            let reminder = Closer::reminding(config)?;
            let fleet = match &reminder {
                Some(reminder) => fleet.reminding_by(reminder.hook())?,
                None => fleet,
            };
            #[cfg(feature = "sql")]
            let net = super::net::Net::of(config, &wheel)?;
            #[cfg(feature = "kafka")]
            let relay = config
                .kafka
                .as_ref()
                .map(|topic| crate::relay::Relay::new(wheel.clone(), topic))
                .transpose()?;
            served.push(Served {
                config: config.clone(),
                closer,
                reminder,
                wheel,
                fleet,
                metrics: metrics.clone(),
                #[cfg(feature = "kafka")]
                relay,
                #[cfg(feature = "sql")]
                net,
            });
            Ok(())
        });
        match made {
            Ok(()) => {}
            Err(Error::Config(more)) => problems.extend(more),
            Err(other) => problems.push(other.to_string()),
        }
    }
    if problems.is_empty() && served.is_empty() {
        problems
            .push("no wheel has a hook: set wheel.NAME.hook.kind; see duewheel config --default".to_owned());
    }
    if problems.is_empty() { Ok(served) } else { Err(Error::Config(problems).into()) }
}

/// What must be right before the first claim. What is merely away is waited for, by the loops themselves.
async fn ready(one: &Served) -> Result<(), Failure> {
    let name = one.wheel.name();
    match super::check::unfit(one.wheel.store()).await {
        Ok(problems) if !problems.is_empty() => return Err(Error::Config(problems).into()),
        Ok(_) => {}
        Err(e) if e.store_kind().is_some_and(StoreKind::is_temporary) => {
            tracing::warn!(wheel = %name, error = %e, "redis is away; waiting for it");
        }
        Err(e) => return Err(e.into()),
    }
    match one.wheel.format().await {
        Ok(_) => {}
        Err(e) if e.store_kind().is_some_and(|k| k.is_temporary() || k == StoreKind::Unknown) => {}
        Err(e) => return Err(e.into()),
    }
    Ok(())
}

/// Whether nothing is due and nothing is with a worker. A Redis that does not answer is not idle.
async fn is_idle(served: &[Served]) -> bool {
    for one in served {
        match one.wheel.stats().await {
            Ok(stats) if stats.due == 0 && stats.leased == 0 => {}
            _ => return false,
        }
    }
    true
}

/// Takes over what can change while it works, and says what cannot.
fn reload(context: &Context, served: &[Served]) -> Option<Config> {
    let config = match context.reload() {
        Ok(config) => config,
        Err(e) => {
            tracing::error!(error = %e, "configuration was read again and is not taken over");
            return None;
        }
    };
    tracing::info!("configuration was read again");
    if let Some(telemetry) = context.telemetry()
        && let Err(e) = telemetry.set_filter(&config.log.level)
    {
        tracing::error!(error = %e, "log level is not taken over");
    }
    if let Some(one) = served.first() {
        reload_redis(context, &config, one.wheel.store());
    }
    for one in served {
        let Some(fresh) = config.wheels.iter().find(|w| w.wheel.name == *one.wheel.name()) else { continue };
        #[cfg(feature = "sql")]
        if let Err(e) = one.net.set_urls(fresh) {
            tracing::error!(wheel = %one.wheel.name(), error = %e, "logins of feed, sweep and rebuild are not taken over");
        }
        let reminder =
            one.reminder.as_ref().map_or(Ok(false), |reminder| reminder.take_reminder_secrets(fresh));
        match one.closer.take_secrets(fresh).and_then(|taken| Ok(taken | reminder?)) {
            Ok(true) => tracing::info!(wheel = %one.wheel.name(), "secrets were read again"),
            Ok(false) => {}
            Err(e) => tracing::error!(wheel = %one.wheel.name(), error = %e, "secrets are not taken over"),
        }
    }
    let changed = changed(&context.config, &config);
    if !changed.is_empty() {
        tracing::warn!(keys = changed.join(", "), "changed, and need a restart");
    }
    Some(config)
}

/// Takes over the login of Redis. Only that: another server under the open connections would split the wheel in two.
pub fn reload_redis(context: &Context, config: &Config, store: &Store) {
    let redis = RedisSettings { url: config.redis.url.clone(), ..context.config.redis.clone() };
    if shown(config) == shown(&context.config)
        && let Err(e) = store.set_login(&redis)
    {
        tracing::error!(error = %e, "redis login is not taken over");
    }
}

/// Where Redis is, without the password.
fn shown(config: &Config) -> String {
    shown_url(config.redis.url.expose_secret())
}

/// Keys that a reload cannot take over and whose value is another now. Hidden parts are the secrets, which were taken over.
pub fn changed(before: &Config, after: &Config) -> Vec<String> {
    let takes_over = |key: &str| {
        key.starts_with("log.level")
            || key.contains("secret")
            || key.starts_with("redis.password")
            || key.starts_with("http.tokens")
    };
    let differs = |shown: &&crate::config::Shown| {
        !takes_over(&shown.key) && !before.shown.iter().any(|b| b.key == shown.key && b.value == shown.value)
    };
    after.shown.iter().filter(differs).map(|shown| shown.key.clone()).collect()
}

fn say(one: &Served, tally: &Tally) {
    let t = tally.snapshot();
    tracing::info!(
        wheel = %one.wheel.name(), claimed = t.claimed, closed = t.closed, skipped = t.skipped, retried = t.retried,
        unavailable = t.unavailable, buried = t.buried, stale = t.stale, "so far"
    );
}

/// What was done, and whether everything in hand was finished.
fn said(served: &[Served], drained: &[Drained], output: &mut Output) -> Outcome {
    for (one, drained) in served.iter().zip(drained) {
        let (name, t) = (one.wheel.name(), &drained.tally);
        let object = serde_json::json!({"wheel": name.as_str(), "clean": drained.clean, "left": drained.left, "tally": t});
        let text = format!(
            "{name}: {} closed, {} skipped, {} to be tried again, {} dead",
            t.closed,
            t.skipped,
            t.retried + t.unavailable,
            t.buried
        );
        output.say(&text, &object)?;
    }
    let left: usize = drained.iter().map(|d| d.left).sum();
    if drained.iter().all(|d| d.clean) {
        Ok(Exit::Done)
    } else {
        let text =
            format!("the grace ran out with {left} leases in work; they end by themselves and come back");
        Err(Failure::Stopped(Exit::Failure, text))
    }
}
