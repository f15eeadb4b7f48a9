//! The operator page: what a person looks at and acts by, at three in the morning. docs/page.md is its manual.
//!
//! Every screen is rendered here, works without JavaScript, and stands as one line in the table of `screen`: what it is called, where it
//! is, who may see it and what shows it. A request passes the entrance (`entrance`: who asks, from where), becomes a `Visit`, and leaves
//! as a page, a redirect or a fault. What a person does is a POST and ends in a redirect that says what came of it.

mod act;
mod asset;
mod audit;
mod bulk;
mod chart;
mod cookie;
mod dead;
mod deadline;
mod deadlines;
mod entrance;
mod export;
mod fault;
mod figure;
mod filter;
mod frame;
mod glance;
mod histogram;
mod hooks;
mod line;
mod login;
mod outlook;
mod overview;
mod parameters;
mod payload;
mod promise;
mod runs;
mod screen;
mod session;
mod settings;
mod story;
mod visit;
mod wheel;
mod workers;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::routing::{get, on, post};

use super::Api;
use crate::wheel::Wheel;
use glance::Glances;
use outlook::Outlooks;
use screen::SCREENS;
use session::Sessions;

/// What the page keeps between two requests; another server does without.
#[derive(Debug, Default)]
pub(super) struct Desk {
    sessions: Sessions,
    seen: BTreeMap<String, Seen>,
}

/// What was seen of one wheel a moment ago, and is shown to all who look.
#[derive(Debug, Default)]
struct Seen {
    glances: Glances,
    outlooks: Outlooks,
}

impl Desk {
    /// For wheels of these names.
    pub fn of<'a>(wheels: impl Iterator<Item = &'a String>) -> Self {
        Self {
            sessions: Sessions::default(),
            seen: wheels.map(|name| (name.clone(), Seen::default())).collect(),
        }
    }

    /// What was seen of a wheel that is served.
    fn seen(&self, wheel: &Wheel) -> Option<&Seen> {
        self.seen.get(wheel.name().as_str())
    }
}

/// Adds the page's routes to those of the API, which will stand below `base`, too.
pub(super) fn routes(mut router: Router<Arc<Api>>, base: &str) -> Router<Arc<Api>> {
    if !base.is_empty() {
        // What stands at its root is asked for without a slash there.
        router = router.route(&format!("{base}/"), get(login::home));
    }
    for screen in &SCREENS {
        let handler =
            move |State(api): State<Arc<Api>>, request: Request| entrance::enter(api, screen, request);
        router = router.route(&format!("/wheels/{{wheel}}{}", screen.path), on(screen.filter(), handler));
    }
    router
        .route("/", get(login::home))
        .route("/wheels", get(login::home))
        .route("/login", get(login::show).post(login::enter))
        .route("/logout", post(login::leave))
        .route("/theme", post(login::theme))
        .route("/assets/{name}", get(asset::serve))
        .fallback(entrance::lost)
        .method_not_allowed_fallback(entrance::wrong_method)
}
