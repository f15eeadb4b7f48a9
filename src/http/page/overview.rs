//! The overview: is anything wrong, what is due, what is to come, who works. Its numbers go on by themselves where there is JavaScript.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, Sse};
use serde_json::json;

use super::chart;
use super::fault::{Fault, Outcome};
use super::figure::{At, bytes, count, of, span};
use super::frame::Frame;
use super::glance::Glance;
use super::histogram::Histogram;
use super::promise::{Banner, broken};
use super::visit::Visit;
use crate::clock::show_brief;
use crate::error::escaped;

/// Between two sets of numbers.
const PAUSE: Duration = Duration::from_secs(2);
/// So many, then the browser asks again, and is asked again who it is.
const TURNS: u32 = 150;

#[derive(Template)]
#[template(path = "overview.html")]
struct Page<'a> {
    frame: Frame,
    glance: &'a Glance,
    figures: Figures,
    banners: Vec<Banner>,
    state: String,
    hour: Histogram,
    /// Drawings of numbers alone: nothing in them is anybody's text, so they stand on the page as they are.
    charts: [String; 2],
    redis: Vec<(&'static str, String)>,
    sweep: Vec<(&'static str, String)>,
    swept_at: Option<At>,
    now: At,
}

/// `GET /wheels/{wheel}`.
pub(super) async fn show(visit: Visit) -> Outcome {
    let glance = visit.glance().await?;
    let banners = broken(&glance, visit.sweep_every());
    let frame = visit.frame("Overview");
    let hour = Histogram::of(&glance.wide.hour, &frame.at("/deadlines"), 60_000);
    let page = Page {
        figures: Figures::of(&glance),
        state: state_of(&banners),
        hour,
        charts: [chart::lateness(&glance.wide.done), chart::throughput(&glance.wide.done)],
        redis: redis(&glance),
        sweep: sweep(&glance),
        swept_at: glance.wide.sweep.ran_at.map(|at| At::seen(at, glance.now)),
        now: At::of(glance.now),
        banners,
        glance: &glance,
        frame,
    };
    visit.page(&page)
}

/// `GET /wheels/{wheel}/live`: the numbers, again and again.
pub(super) async fn live(visit: Visit) -> Outcome {
    let Ok(room) = visit.api.streams.clone().try_acquire_owned() else { return Err(Fault::busy()) };
    let stop = visit.api.stop.clone();
    let stream = futures_util::stream::unfold((visit, 0_u32, room), move |(visit, turn, room)| {
        let stop = stop.clone();
        async move {
            if turn > 0 {
                tokio::select! {
                    () = tokio::time::sleep(PAUSE) => {}
                    () = stop.cancelled() => return None,
                }
            }
            if turn == TURNS || stop.is_cancelled() {
                return None;
            }
            let event = match visit.glance().await {
                Ok(glance) => {
                    let state = state_of(&broken(&glance, visit.sweep_every()));
                    Event::default()
                        .data(json!({"figures": Figures::of(&glance).0, "state": state}).to_string())
                }
                Err(_) => Event::default().data(json!({"state": "away"}).to_string()),
            };
            Some((Ok::<_, Infallible>(event), (visit, turn + 1, room)))
        }
    });
    Ok(Sse::new(stream).into_response())
}

/// The numbers that go on by themselves, by name.
struct Figures(std::collections::BTreeMap<&'static str, String>);

impl Figures {
    fn of(glance: &Glance) -> Self {
        let stats = &glance.stats;
        let total = |name: &str| count(stats.totals.get(name).copied().unwrap_or(0));
        let oldest = match stats.due {
            0 => "nothing waits".to_owned(),
            _ => format!("oldest {}", span(Duration::from_millis(stats.oldest_due_ms))),
        };
        // Five minutes: long enough to mean something, short enough to be now.
        let lately = glance.wide.done.last(5).lateness;
        let late = |share: f64| lately.quantile(share).map(show_brief);
        let serving = glance.workers.iter().filter(|worker| !worker.draining).count() as u64;
        let draining = glance.workers.len() as u64 - serving;
        Self(
            [
                ("due", count(stats.due)),
                ("oldest", oldest),
                ("next_minute", count(glance.next_minute)),
                ("next_five", count(glance.next_five)),
                ("next_hour", count(glance.next_hour())),
                ("late_half", late(0.5).unwrap_or_else(|| "–".to_owned())),
                (
                    "late_most",
                    late(0.99).map_or_else(
                        || "no order was taken".to_owned(),
                        |late| format!("99 of 100 within {late}"),
                    ),
                ),
                ("scheduled", count(stats.scheduled)),
                ("leased", count(stats.leased)),
                ("dead", count(stats.dead)),
                ("ended", count(stats.ended)),
                ("workers", count(serving)),
                (
                    "draining",
                    if draining == 0 {
                        "alive".to_owned()
                    } else {
                        format!("alive, {} draining", count(draining))
                    },
                ),
                ("closed", total("closed")),
                ("skipped", total("skipped")),
                ("cancelled", total("cancelled")),
                ("retried", total("retried")),
                ("buried", total("buried")),
                ("lost", total("lost")),
                ("enqueued", total("enqueued")),
            ]
            .into(),
        )
    }
}

impl Page<'_> {
    fn is_stopped(&self) -> bool {
        let held = &self.glance.held;
        held.paused.is_some()
            || held.trip.is_some()
            || self.glance.stats.paused_shards + self.glance.stats.tripped_shards > 0
    }

    fn figure(&self, name: &str) -> &str {
        self.figures.0.get(name).map_or("", String::as_str)
    }
}

/// Tells one set of banners from another, so that the script knows when to ask for them.
fn state_of(banners: &[Banner]) -> String {
    banners.iter().map(|banner| banner.title.as_str()).collect::<Vec<_>>().join("|")
}

fn redis(glance: &Glance) -> Vec<(&'static str, String)> {
    let facts = &glance.wide.redis;
    let known = |name: &str| facts.field(name).map(escaped);
    let unknown = || "unknown".to_owned();
    let number = |name: &str| facts.field(name).and_then(|text| text.parse::<u64>().ok());
    let version = facts.version().map(|(name, parts)| {
        let parts: Vec<String> = parts.iter().map(u32::to_string).collect();
        format!("{name} {}", parts.join("."))
    });
    let memory = number("used_memory").map(|used| match number("maxmemory") {
        Some(most @ 1..) => {
            format!("{} of {} ({} %)", bytes(used), bytes(most), used.saturating_mul(100) / most)
        }
        _ => format!("{}, no limit", bytes(used)),
    });
    let aof = match facts.field("aof_enabled") {
        Some("1") => {
            Some(format!("on, fsync {}", facts.appendfsync.as_deref().map_or_else(unknown, escaped)))
        }
        Some(_) => Some("off".to_owned()),
        None => None,
    };
    let role = known("role").map(|role| match (role.as_str(), number("connected_slaves")) {
        ("master", Some(replicas)) => format!("primary, {}", of(replicas, "replica", "replicas")),
        ("master", None) => "primary".to_owned(),
        _ => "replica".to_owned(),
    });
    let mut rows = vec![
        ("Server", version.unwrap_or_else(unknown)),
        ("Role", role.unwrap_or_else(unknown)),
        ("Memory", memory.unwrap_or_else(unknown)),
        ("Eviction", known("maxmemory_policy").unwrap_or_else(unknown)),
        ("Append-only file", aof.unwrap_or_else(unknown)),
    ];
    if !facts.unseen.is_empty() {
        rows.push(("May not ask", facts.unseen.join(", ")));
    }
    rows
}

fn sweep(glance: &Glance) -> Vec<(&'static str, String)> {
    if glance.wide.last_sweep.is_none() {
        return Vec::new();
    }
    let number = |name: &str| glance.sweep_number(name);
    vec![
        ("Took", span(Duration::from_millis(number("took_ms")))),
        ("Rows seen", count(number("seen"))),
        ("Held by the wheel", count(number("held"))),
        ("Brought back", count(number("enqueued") + number("resurrected"))),
        ("Dead", count(number("dead"))),
        ("Refused", count(number("refused"))),
    ]
}

impl Visit {
    /// The wheel at a glance.
    pub async fn glance(&self) -> Result<Arc<Glance>, Fault> {
        Ok(self.seen()?.glances.look(self.wheel()).await?)
    }
}
