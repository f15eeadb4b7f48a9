//! The webhook hook: one signed HTTP call for each order, and the shop judges. docs/hook-webhook.md says what is sent and how each
//! answer is read.

mod address;
mod admission;
mod connector;
mod message;
mod pool;
mod reason;
mod resolver;
mod retry_after;
mod settings;
mod signature;
mod target;
mod tls;
mod verdict;
mod wire;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::join_all;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::http::Uri;
use secrecy::SecretString;
use tokio::sync::Semaphore;

pub use resolver::{Resolve, SystemResolver};
pub use settings::{WebhookFormat, WebhookSecret, WebhookSettings};

use crate::clock::show_duration;
use crate::error::{Error, Result};
use crate::hook::{BoxFuture, Hook, Verdict};
use crate::lease::Lease;
use crate::shard::WheelName;
use connector::Connector;
use pool::{Pool, Reply};
use reason::Reasons;
use signature::Signer;
use target::Target;

/// Asks one HTTP endpoint to close orders. Nothing is connected before the first call.
pub struct WebhookHook {
    settings: WebhookSettings,
    target: Target,
    keys: RwLock<Arc<Keys>>,
    permits: Semaphore,
    pool: Pool,
}

/// The secrets, and what must be known of them: how to sign, where and with what headers to call, and what must never be shown.
struct Keys {
    signer: Signer,
    uri: Uri,
    base: HeaderMap,
    reasons: Reasons,
}

impl WebhookHook {
    /// The hook that `settings` describe; [`Error::Config`] with every problem found.
    pub fn new(settings: &WebhookSettings) -> Result<Self> {
        Self::with_resolver(settings, Arc::new(SystemResolver))
    }

    /// [`WebhookHook::new`] with another name service than the system's.
    pub fn with_resolver(settings: &WebhookSettings, resolver: Arc<dyn Resolve>) -> Result<Self> {
        let mut problems = admission::limits(settings);
        let signer = Signer::new(&settings.secrets);
        problems.extend(signer.as_ref().err().into_iter().flatten().cloned());
        let endpoint = Endpoint::new(settings, resolver);
        problems.extend(endpoint.as_ref().err().into_iter().flatten().cloned());
        match (signer, endpoint) {
            (Ok(signer), Ok(endpoint)) if problems.is_empty() => {
                let reasons = reasons(settings, &endpoint.target);
                let keys = Keys { signer, uri: endpoint.uri, base: endpoint.base, reasons };
                Ok(Self {
                    settings: settings.clone(),
                    target: endpoint.target,
                    keys: RwLock::new(Arc::new(keys)),
                    permits: Semaphore::new(settings.max_concurrency),
                    pool: Pool::new(endpoint.connector, settings.idle_timeout),
                })
            }
            _ => Err(Error::Config(problems)),
        }
    }

    /// Replaces the signing secrets (rotation without a restart). Calls in flight keep the signature they have; on
    /// [`Error::Config`] the old secrets stay.
    pub fn set_secrets(&self, secrets: &[WebhookSecret]) -> Result<()> {
        self.take_over(&WebhookSettings { secrets: secrets.to_vec(), ..self.settings.clone() })
    }

    /// Takes over every secret of these settings: those that sign, headers, and the query of the URL, where a token may stand. Another endpoint is
    /// refused with [`Error::Config`], and then, as where any of them is wrong, the old ones stay.
    pub fn take_over(&self, settings: &WebhookSettings) -> Result<()> {
        let signer = Signer::new(&settings.secrets);
        let at = Endpoint::address(settings);
        let mut problems: Vec<String> =
            [signer.as_ref().err(), at.as_ref().err()].into_iter().flatten().flatten().cloned().collect();
        if let (Ok(signer), Ok((target, uri, base))) = (signer, at) {
            if target.resource() == self.target.resource() {
                let keys = Keys { signer, uri, base, reasons: reasons(settings, &target) };
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
                return Ok(());
            }
            problems.push("url: names another endpoint than at the start, which needs a restart".to_owned());
        }
        Err(Error::Config(problems))
    }

    fn keys(&self) -> Arc<Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks about one order, within its time.
    async fn ask(&self, wheel: &WheelName, lease: &Lease) -> Verdict {
        let keys = self.keys();
        let unavailable =
            |what: &str| Verdict::Unavailable { reason: keys.reasons.say(what), retry_after: None };
        // After the lease the verdict would be dropped, and somebody else may be calling for the same order.
        let limit = self.settings.timeout.min(lease.trust_left());
        if limit.is_zero() {
            return unavailable("not asked, because the lease had ended");
        }
        let step = Step::default();
        match tokio::time::timeout(limit, self.call(wheel, lease, &keys, &step)).await {
            Ok(Ok(reply)) => verdict::of(&reply, &keys.reasons, self.settings.retry_after_cap),
            Ok(Err(problem)) => unavailable(&problem),
            Err(_) => {
                let within = show_duration(limit);
                unavailable(&format!("no answer within {within}, {}", step.as_str()))
            }
        }
    }

    async fn call(
        &self,
        wheel: &WheelName,
        lease: &Lease,
        keys: &Keys,
        step: &Step,
    ) -> Result<Reply, String> {
        let _permit = self.permits.acquire().await.map_err(|e| e.to_string())?;
        step.reach(Step::CONNECTING);
        let request = || message::request(&keys.uri, &keys.base, &keys.signer, wheel, lease);
        self.pool.call(request, || step.reach(Step::SENT)).await
    }
}

impl Hook for WebhookHook {
    fn judge<'a>(&'a self, wheel: &'a WheelName, leases: &'a [Lease]) -> BoxFuture<'a, Vec<Verdict>> {
        Box::pin(async move {
            match leases {
                [lease] => vec![self.ask(wheel, lease).await],
                leases => join_all(leases.iter().map(|lease| self.ask(wheel, lease))).await,
            }
        })
    }

    fn timeout(&self) -> std::time::Duration {
        self.settings.timeout
    }

    fn batch_size(&self) -> usize {
        // An order of its own for each call, so that one slow answer keeps nobody else waiting.
        1
    }

    fn concurrency(&self) -> usize {
        self.settings.max_concurrency
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(async move {
            let keys = self.keys();
            match self.pool.probe().await {
                Ok(()) => Ok(admission::warnings(&self.settings, &self.target, keys.signer.ends())),
                Err(problem) => Err(Error::HookAway(keys.reasons.say(&problem))),
            }
        })
    }
}

/// Where calls go, ready to be called.
struct Endpoint {
    target: Target,
    uri: Uri,
    base: HeaderMap,
    connector: Connector,
}

impl Endpoint {
    fn new(settings: &WebhookSettings, resolver: Arc<dyn Resolve>) -> Result<Self, Vec<String>> {
        let one = |problem: String| vec![problem];
        let (target, uri, base) = Self::address(settings)?;
        let tls = if target.tls { Some(tls::connector(settings).map_err(one)?) } else { None };
        let connector =
            Connector::new(target.clone(), resolver, settings.allow_private, tls, settings.connect_timeout)
                .map_err(one)?;
        Ok(Self { target, uri, base, connector })
    }

    /// Whom to call, what of it, and with which headers.
    fn address(settings: &WebhookSettings) -> Result<(Target, Uri, HeaderMap), Vec<String>> {
        let one = |problem: String| vec![problem];
        let target = Target::parse(&settings.url, settings.allow_private).map_err(|e| one(e.to_string()));
        let base = admission::base_headers(settings);
        let (target, mut base) = match (target, base) {
            (Ok(target), Ok(base)) => (target, base),
            (target, base) => {
                return Err([target.err(), base.err()].into_iter().flatten().flatten().collect());
            }
        };
        let uri = Uri::try_from(&target.path_and_query).map_err(|e| one(format!("url: {e}")))?;
        base.insert(HOST, HeaderValue::try_from(&target.authority).map_err(|e| one(format!("url: {e}")))?);
        Ok((target, uri, base))
    }
}

fn reasons(settings: &WebhookSettings, target: &Target) -> Reasons {
    let headers = settings.headers.iter().map(|(_, value)| value);
    let query = queried(&target.path_and_query);
    let all = headers.chain(settings.secrets.iter().map(|secret| &secret.secret)).chain(&query);
    Reasons::new(target.origin(), all)
}

/// What the query of the URL holds, as it is written and as it is meant: it may be a token.
fn queried(path_and_query: &str) -> Vec<SecretString> {
    let query = path_and_query.split_once('?').map_or("", |(_, query)| query);
    let written = query.split('&').filter_map(|pair| Some(pair.split_once('=')?.1.to_owned()));
    let meant = url::form_urlencoded::parse(query.as_bytes()).map(|(_, value)| value.into_owned());
    written.chain(meant).map(SecretString::from).collect()
}

/// How far a call came, for the reason of a time-out.
#[derive(Default)]
struct Step(AtomicUsize);

impl Step {
    const CONNECTING: usize = 1;
    const SENT: usize = 2;

    fn reach(&self, step: usize) {
        self.0.store(step, Ordering::Relaxed);
    }

    fn as_str(&self) -> &'static str {
        match self.0.load(Ordering::Relaxed) {
            Self::CONNECTING => "still connecting",
            Self::SENT => "the call was sent",
            _ => "still waiting for one of max_concurrency calls to end",
        }
    }
}
