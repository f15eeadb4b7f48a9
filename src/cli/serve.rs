//! `duewheel serve`: the HTTP API until it is told to stop.

use std::sync::Arc;

use clap::Args;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::exit::Exit;
use super::failure::{Failure, Outcome};
use super::output::Output;
use super::signals::{Asked, Signals};
use super::spans::Spans;
use super::supervisor::Supervisor;
use super::worker::changed;
use crate::config::Config;
use crate::error::{Error, StoreKind};
use crate::http::health::Probes;
use crate::http::{Api, ServedWheel, Server, Setting, Tls};
use crate::metrics::Metrics;
use crate::operator::Foreman;
use crate::wheel::{Store, Wheel};
use crate::worker::Meter;
use crate::worker::service::drive;

/// Arguments of `serve`.
#[derive(Debug, Args)]
#[command(
    about = "Serves the HTTP API until it is told to stop",
    long_about = "Serves the HTTP API over every configured wheel, or the one of --wheel: enqueue, cancel, reschedule, hold, look, and \
                  what operators do. It closes nothing by itself; workers do, elsewhere or with `duewheel worker --listen`. Any number \
                  of servers work side by side. The manual is docs/api.md, the grammar /openapi.json.\n\nWithout tokens it listens on \
                  this machine only (`duewheel token new`). SIGTERM and SIGINT let requests in work finish within `http.grace`; SIGHUP \
                  reads tokens, certificate, log level and every secret (logins of Redis and databases) again.",
    after_help = "Examples:\n  duewheel serve\n  duewheel serve --listen 127.0.0.1:9000\n  duewheel serve --listen 0.0.0.0:8480 \
                  --config /etc/duewheel/duewheel.toml     with [http] tokens_file and TLS"
)]
pub struct Serve {
    /// Where to listen: ADDRESS:PORT [default: http.listen, 127.0.0.1:8480]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Answers /metrics, /livez and /readyz there: an IP address and a port
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<String>,
}

/// Serves.
pub async fn run(_args: &Serve, context: &Context, _output: &mut Output) -> Outcome {
    let mut signals = Signals::listen()?;
    let spans = Spans::start()?;
    let metrics = Metrics::new();
    let store = Arc::new(context.connections()?.measured_by(&metrics));
    match super::check::unfit(&store).await {
        Ok(problems) if !problems.is_empty() => return Err(Error::Config(problems).into()),
        Ok(_) => {}
        Err(e) if e.store_kind().is_some_and(StoreKind::is_temporary) => {
            tracing::warn!(error = %e, "redis is away; serving all the same");
        }
        Err(e) => return Err(e.into()),
    }
    let configs = match &context.wheel {
        Some(_) => vec![context.wheel_config()?],
        None => context.config.wheels.iter().collect(),
    };
    let stop = CancellationToken::new();
    let probes = Probes::of_server(metrics.clone(), stop.clone());
    let _answering = super::probes::answer(context, probes).await?;
    let wheels =
        configs.into_iter().map(|config| Wheel::new(store.clone(), config.wheel.clone())).collect::<Vec<_>>();
    for wheel in &wheels {
        tokio::spawn(drive(Foreman::new(wheel.clone()), stop.clone()));
    }
    if context.config.metrics.listen.is_some() {
        // A server also knows when there is no worker at all.
        for wheel in &wheels {
            tokio::spawn(drive(Meter::new(wheel.clone(), &metrics), stop.clone()));
        }
    }
    let (service, mut answering) = Service::start(context, wheels, &metrics, &stop).await?;
    let mut supervisor = Supervisor::of_process();
    let status = format!("serving http on {}", context.config.http.listen);
    supervisor.ready(&status);
    loop {
        tokio::select! {
            _ = &mut answering => break,
            signal = signals.next() => match signal {
                Asked::End(exit) if stop.is_cancelled() => return Ok(exit),
                Asked::End(_) => {
                    supervisor.stopping("answering what is in work");
                    stop.cancel();
                }
                Asked::Hangup => {
                    supervisor.reloading();
                    reload(context, &store, &service);
                    supervisor.ready(&status);
                }
                Asked::Stop | Asked::Continue => {}
            },
            () = supervisor.beat(|| true) => {}
        }
    }
    spans.end().await;
    Ok(Exit::Done)
}

fn reload(context: &Context, store: &Store, service: &Service) {
    let config = match context.reload() {
        Ok(config) => config,
        Err(e) => {
            tracing::error!(error = %e, "configuration was read again and is not taken over");
            return;
        }
    };
    if let Some(telemetry) = context.telemetry()
        && let Err(e) = telemetry.set_filter(&config.log.level)
    {
        tracing::error!(error = %e, "log level is not taken over");
    }
    super::worker::reload_redis(context, &config, store);
    service.reload(&config);
    let changed = changed(&context.config, &config);
    if !changed.is_empty() {
        tracing::warn!(keys = changed.join(", "), "changed, and need a restart");
    }
}

/// What a server knows of a wheel.
fn served(config: &Config, wheel: Wheel, settings: &Arc<[Setting]>) -> ServedWheel {
    #[cfg(feature = "sql")]
    let table = config.wheels.iter().find(|known| known.wheel.name == *wheel.name());
    #[cfg(not(feature = "sql"))]
    let _ = config;
    ServedWheel {
        #[cfg(feature = "sql")]
        table: table.and_then(super::net::declared).map(|hook| Arc::new(crate::sweep::Inquiry::new(hook))),
        settings: settings.clone(),
        wheel,
    }
}

/// The configuration in force, as `duewheel config` shows it.
fn settings_in_force(config: &Config) -> Arc<[Setting]> {
    let shown = config.shown.iter().cloned();
    shown.map(|one| Setting { key: one.key, value: one.value, source: one.source }).collect()
}

/// The API, answering.
pub struct Service {
    api: Arc<Api>,
    tls: Option<Arc<Tls>>,
    #[cfg(feature = "sql")]
    served: Vec<ServedWheel>,
}

impl Service {
    /// Listens, and answers requests about these wheels until `stop`; the task ends when the last one is answered.
    pub async fn start(
        context: &Context,
        wheels: impl IntoIterator<Item = Wheel>,
        metrics: &Metrics,
        stop: &CancellationToken,
    ) -> Result<(Self, JoinHandle<()>), Failure> {
        let settings = &context.config.http;
        let tls = settings.tls.as_ref().map(Tls::load).transpose()?.map(Arc::new);
        let server = Server::bind("http.listen", settings.listen, settings.limits.clone()).await?;
        let (address, guarded) = (server.address(), !settings.tokens.is_empty());
        if tls.is_none() && !address.ip().is_loopback() {
            tracing::warn!(%address, "tokens and orders cross the network unencrypted: set http.tls_cert_file, or put a proxy in front");
        }
        let server = match &tls {
            Some(tls) => server.with_tls(tls.clone()),
            None => server,
        };
        tracing::info!(%address, tls = tls.is_some(), tokens = guarded, "listening");
        let shown = settings_in_force(&context.config);
        let served: Vec<ServedWheel> =
            wheels.into_iter().map(|wheel| served(&context.config, wheel, &shown)).collect();
        let api = Api::new(served.iter().cloned(), settings, metrics, stop.clone());
        let answering = tokio::spawn(server.run(api.router(), stop.clone()));
        let service = Self {
            api,
            tls,
            #[cfg(feature = "sql")]
            served,
        };
        Ok((service, answering))
    }

    /// Takes over tokens, certificate and the logins of the orders tables.
    pub fn reload(&self, config: &Config) {
        #[cfg(feature = "sql")]
        self.reload_logins(config);
        let count = config.http.tokens.len();
        if self.api.set_tokens(config.http.tokens.clone()) {
            tracing::info!(tokens = count, "tokens were read again");
        } else {
            tracing::error!("tokens are not taken over: from none to some or back needs a restart");
        }
        if let (Some(tls), Some(files)) = (&self.tls, &config.http.tls) {
            match tls.reload(files) {
                Ok(()) => tracing::info!("certificate was read again"),
                Err(e) => tracing::error!(error = %e, "certificate is not taken over"),
            }
        }
    }

    #[cfg(feature = "sql")]
    fn reload_logins(&self, config: &Config) {
        for one in &self.served {
            let name = one.wheel.name();
            let fresh = config.wheels.iter().find(|known| known.wheel.name == *name);
            if let (Some(table), Some(hook)) = (&one.table, fresh.and_then(super::net::declared))
                && let Err(e) = table.set_urls(&hook.urls)
            {
                tracing::error!(wheel = %name, error = %e, "the login of the orders table, for explanations, is not taken over");
            }
        }
    }
}
