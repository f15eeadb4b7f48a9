//! The HTTP API: the verbs of a wheel for services that do not embed the library. docs/api.md is its manual, `/openapi.json` its grammar.
//!
//! Every request passes the gate (`gate`: sender, shape, room), is handed to the handler of its operation (`operation` is the table), and
//! leaves as JSON or as a problem with a stable code (`problem`). The frame that listens (`server`) knows nothing of it.

mod audit;
mod batch;
mod body;
mod bulk;
mod call;
mod combiner;
mod dead;
mod deadlines;
mod door;
mod events;
mod explanation;
mod fields;
mod fleet;
mod gate;
#[cfg(feature = "cli")]
pub mod health;
mod jobs;
mod measures;
mod movement;
mod openapi;
mod operation;
mod overview;
#[cfg(feature = "page")]
mod page;
mod placement;
mod problem;
mod query;
mod repeat;
mod seat;
mod served;
mod server;
mod settings;
mod stall;
mod tls;
mod token;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::routing::on;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use door::Door;
use measures::Measures;
pub use openapi::document;
use operation::Operation;
pub use seat::{Seat, Working};
pub use served::{ServedWheel, Setting};
pub use server::Server;
pub use settings::{HttpSettings, Limits, TlsFiles};
pub use tls::Tls;
pub use token::{Scope, Token};

/// The API over some wheels.
#[derive(Debug)]
pub struct Api {
    doors: BTreeMap<String, Arc<Door>>,
    tokens: RwLock<Arc<[Token]>>,
    limits: Limits,
    /// Room for requests in work.
    requests: Arc<Semaphore>,
    /// Room for event streams.
    streams: Arc<Semaphore>,
    /// Ends the event streams.
    stop: CancellationToken,
    /// The OpenAPI document.
    document: axum::body::Bytes,
    /// What every path begins with, for who reaches this server through a proxy: nothing, or `/duewheel`.
    base_path: String,
    measures: Measures,
    /// Whether it speaks TLS itself.
    #[cfg_attr(not(feature = "page"), expect(dead_code, reason = "only the page's cookies ask"))]
    is_tls: bool,
    /// What the page keeps.
    #[cfg(feature = "page")]
    page: page::Desk,
}

impl Api {
    /// Serves these wheels, counting into `metrics`. `stop` ends the event streams, which would go on for ever. Needs a tokio runtime.
    pub fn new(
        wheels: impl IntoIterator<Item = impl Into<ServedWheel>>,
        settings: &HttpSettings,
        metrics: &Metrics,
        stop: CancellationToken,
    ) -> Arc<Self> {
        let door = |one: ServedWheel| (one.wheel.name().as_str().to_owned(), Arc::new(Door::new(one)));
        let doors: BTreeMap<_, _> = wheels.into_iter().map(Into::into).map(door).collect();
        Arc::new(Self {
            tokens: RwLock::new(settings.tokens.clone().into()),
            limits: settings.limits.clone(),
            requests: Arc::new(Semaphore::new(settings.limits.max_requests)),
            streams: Arc::new(Semaphore::new(settings.limits.max_streams)),
            stop,
            document: document().into(),
            base_path: settings.base_path.clone(),
            measures: Measures::new(metrics),
            is_tls: settings.tls.is_some(),
            #[cfg(feature = "page")]
            page: page::Desk::of(doors.keys()),
            doors,
        })
    }

    /// Lets these in from now on. None at all is refused where there were some: it would open the door to everybody.
    pub fn set_tokens(&self, tokens: Vec<Token>) -> bool {
        let mut now = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
        let good = now.is_empty() == tokens.is_empty();
        if good {
            *now = tokens.into();
        }
        good
    }

    fn tokens(&self) -> Arc<[Token]> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The routes.
    pub fn router(self: &Arc<Self>) -> Router {
        let mut router = Router::new();
        for operation in Operation::ALL {
            let handler =
                move |State(api): State<Arc<Self>>, request: Request| gate::enter(api, operation, request);
            router = router.route(operation.path(), on(operation.filter(), handler));
        }
        #[cfg(feature = "page")]
        let router = page::routes(router, &self.base_path);
        #[cfg(not(feature = "page"))]
        let router = router.fallback(gate::lost).method_not_allowed_fallback(gate::wrong_method);
        let measured = from_fn_with_state(self.measures.clone(), measures::measure);
        let router = router.layer(measured).with_state(self.clone());
        // A proxy may or may not take the base path off: both are answered.
        if self.base_path.is_empty() { router } else { router.clone().nest(&self.base_path, router) }
    }
}
