//! The screens, in one table. A new one is a file beside this one, its template, and a line here.

use std::future::Future;
use std::pin::Pin;

use axum::routing::MethodFilter;

use super::fault::Outcome;
use super::visit::Visit;
use super::{
    act, audit, bulk, dead, deadline, deadlines, export, hooks, overview, runs, settings, wheel, workers,
};
use crate::http::token::Scope;

/// What answers a visit.
type Show = fn(Visit) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// One screen, or one thing that is done on a screen.
pub(super) struct Screen {
    /// What the navigation calls it; empty where it is not in there.
    pub tab: &'static str,
    /// Below `/wheels/{wheel}`.
    pub path: &'static str,
    /// Who may: `Read` looks, `Operate` acts. What acts is a POST.
    pub scope: Scope,
    pub show: Show,
}

impl Screen {
    /// A screen of the navigation.
    const fn tab(tab: &'static str, path: &'static str, show: Show) -> Self {
        Self { tab, path, scope: Scope::Read, show }
    }

    /// A screen, or a part of one, that others lead to.
    const fn part(path: &'static str, show: Show) -> Self {
        Self { tab: "", path, scope: Scope::Read, show }
    }

    /// Something that a person does: a POST, for those who may operate.
    const fn act(path: &'static str, show: Show) -> Self {
        Self { tab: "", path, scope: Scope::Operate, show }
    }

    /// The method by which it is asked for.
    pub fn filter(&self) -> MethodFilter {
        if self.acts() { MethodFilter::POST } else { MethodFilter::GET }
    }

    /// Whether it changes something.
    pub fn acts(&self) -> bool {
        self.scope == Scope::Operate
    }
}

/// All of them; those with a tab stand in the navigation in this order.
pub(super) static SCREENS: [Screen; 26] = [
    Screen::tab("Overview", "", |visit| Box::pin(overview::show(visit))),
    Screen::part("/live", |visit| Box::pin(overview::live(visit))),
    Screen::tab("Wheel", "/wheel", |visit| Box::pin(wheel::show(visit))),
    Screen::tab("Deadlines", "/deadlines", |visit| Box::pin(deadlines::show(visit))),
    Screen::part("/deadlines.ndjson", |visit| Box::pin(export::ndjson(visit))),
    Screen::part("/deadlines.csv", |visit| Box::pin(export::csv(visit))),
    Screen::part("/deadline", |visit| Box::pin(deadline::show(visit))),
    Screen::part("/payload", |visit| Box::pin(deadline::payload(visit))),
    Screen::tab("Dead", "/dead", |visit| Box::pin(dead::show(visit))),
    Screen::tab("Bulk acts", "/bulks", |visit| Box::pin(bulk::list(visit))),
    Screen::part("/bulk", |visit| Box::pin(bulk::show(visit))),
    Screen::part("/bulk/confirm", |visit| Box::pin(bulk::confirm(visit))),
    Screen::act("/act", |visit| Box::pin(act::act(visit))),
    Screen::act("/pause", |visit| Box::pin(act::pause(visit))),
    Screen::act("/resume", |visit| Box::pin(act::resume(visit))),
    Screen::act("/bulk/begin", |visit| Box::pin(bulk::begin(visit))),
    Screen::act("/bulk/stop", |visit| Box::pin(bulk::stop(visit))),
    Screen::tab("Hooks", "/hooks", |visit| Box::pin(hooks::show(visit))),
    Screen::tab("Workers", "/workers", |visit| Box::pin(workers::show(visit))),
    Screen::act("/workers/drain", |visit| Box::pin(workers::drain(visit))),
    Screen::act("/workers/resume", |visit| Box::pin(workers::resume(visit))),
    Screen::tab("Runs", "/runs", |visit| Box::pin(runs::show(visit))),
    Screen::act("/runs/try", |visit| Box::pin(runs::try_out(visit))),
    Screen::act("/runs/run", |visit| Box::pin(runs::run(visit))),
    Screen::tab("Audit", "/audit", |visit| Box::pin(audit::show(visit))),
    Screen::tab("Settings", "/settings", |visit| Box::pin(settings::show(visit))),
];
