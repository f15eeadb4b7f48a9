//! Acts on all that match: asked for, confirmed with how many that is, begun, watched, stopped. Any server or worker does the work.

use std::time::Duration;

use askama::Template;

use super::fault::{Fault, Outcome};
use super::figure::{At, count};
use super::frame::Frame;
use super::parameters::{Link, Parameters};
use super::visit::Visit;
use crate::clock::{Moment, parse_duration, show_duration};
use crate::error::escaped;
use crate::operator::Matched;
use crate::wheel::{Bulk, BulkAct, BulkFilter, BulkState};

/// From so many on, the act's word must be typed.
const TYPED_FROM: u64 = 100;

/// What is asked for.
struct Asked {
    act: BulkAct,
    filter: BulkFilter,
}

impl Asked {
    /// Reads it from a link or a form.
    fn read(given: &Parameters, now: Moment) -> Result<Self, Fault> {
        let long = given.text("for");
        let long = if long.is_empty() {
            None
        } else {
            Some(parse_duration("for", long).map_err(|bad| Fault::bad(bad.to_string()))?)
        };
        let act = BulkAct::parse(given.text("act"), long).map_err(|bad| Fault::bad(bad.to_string()))?;
        let text = |name: &str| Some(given.exact(name).to_owned()).filter(|text| !text.is_empty());
        let mut complaints = Vec::new();
        let mut moment = |name: &str| given.moment(name, now, &mut complaints).map(Moment::as_millis);
        let filter = BulkFilter {
            reason: text("reason_part"),
            group: text("group"),
            prefix: text("prefix"),
            from_ms: moment("from"),
            to_ms: moment("to"),
        };
        // What is left out here would touch more than was meant.
        if complaints.is_empty() { Ok(Self { act, filter }) } else { Err(Fault::bad(complaints.join("; "))) }
    }

    /// The same as hidden fields of a form, every moment fixed.
    fn fields(&self) -> Vec<(&'static str, String)> {
        let long = match self.act {
            BulkAct::Reschedule { by_ms: ms } | BulkAct::Hold { for_ms: ms } => {
                show_duration(Duration::from_millis(ms))
            }
            _ => String::new(),
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let ms = |ms: Option<u64>| {
            ms.map_or(String::new(), |ms| Moment::EPOCH.plus(Duration::from_millis(ms)).to_string())
        };
        let all = [
            ("act", self.act.as_str().to_owned()),
            ("for", long),
            ("reason_part", text(&self.filter.reason)),
            ("group", text(&self.filter.group)),
            ("prefix", text(&self.filter.prefix)),
            ("from", ms(self.filter.from_ms)),
            ("to", ms(self.filter.to_ms)),
        ];
        all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    /// `Revive`, `Hold for 15m`: what the button says.
    fn said(&self) -> String {
        match self.act {
            BulkAct::Revive => "Revive".to_owned(),
            BulkAct::Drop => "Drop".to_owned(),
            BulkAct::Cancel => "Cancel".to_owned(),
            BulkAct::Close => "Close now".to_owned(),
            BulkAct::Reschedule { by_ms } => {
                format!("Reschedule by {}", show_duration(Duration::from_millis(by_ms)))
            }
            BulkAct::Hold { for_ms } => format!("Hold for {}", show_duration(Duration::from_millis(for_ms))),
        }
    }
}

#[derive(Template)]
#[template(path = "bulk_confirm.html")]
struct Confirm {
    frame: Frame,
    said: String,
    word: &'static str,
    filter: String,
    fields: Vec<(&'static str, String)>,
    matched: String,
    of: String,
    /// Whether all were looked at.
    exact: bool,
    none: bool,
    typed: bool,
    needs_reason: bool,
    state: &'static str,
    back: String,
}

/// `GET /wheels/{wheel}/bulk/confirm`: how many match, and whether that is meant.
pub(super) async fn confirm(visit: Visit) -> Outcome {
    if !visit.frame.may_operate {
        return Err(Fault::forbidden("Your token lacks the scope operate."));
    }
    let now = visit.wheel().now().await?;
    let asked = Asked::read(&visit.query, now)?;
    let count_of = visit.operator()?.preview(asked.act, &asked.filter).await?;
    let frame = visit.frame(asked.said());
    let page = Confirm {
        said: asked.said(),
        word: asked.act.as_str(),
        filter: asked.filter.text(),
        fields: asked.fields(),
        matched: count(count_of.matched),
        of: count(count_of.of),
        exact: count_of.exact,
        none: count_of.matched == 0 && count_of.exact,
        typed: must_type(&count_of),
        needs_reason: asked.act == BulkAct::Close,
        state: if asked.act.is_of_dead() { "dead" } else { "scheduled" },
        back: frame.at(if asked.act.is_of_dead() { "/dead" } else { "/deadlines" }),
        frame,
    };
    visit.page(&page)
}

fn must_type(matched: &Matched) -> bool {
    matched.matched >= TYPED_FROM || !matched.exact
}

/// `POST /wheels/{wheel}/bulk/begin`.
pub(super) async fn begin(visit: Visit) -> Outcome {
    let now = visit.wheel().now().await?;
    let asked = Asked::read(&visit.form, now)?;
    let operator = visit.operator()?;
    let matched = operator.preview(asked.act, &asked.filter).await?;
    let mut again = Link::to(visit.frame.at("/bulk/confirm"));
    for (name, value) in asked.fields() {
        again = again.with(name, &value);
    }
    if matched.matched == 0 && matched.exact {
        return visit.go(&again.to_string(), false, "Nothing matches any more.");
    }
    if must_type(&matched) && !visit.form.text("typed").eq_ignore_ascii_case(asked.act.as_str()) {
        let text =
            format!("Type the word {} to confirm it for {}.", asked.act.as_str(), count(matched.matched));
        return visit.go(&again.to_string(), false, text);
    }
    let reason = visit.reason();
    if asked.act == BulkAct::Close && reason.is_empty() {
        return visit.go(
            &again.to_string(),
            false,
            "Closing by hand needs a reason: it stands in the shop's audit.",
        );
    }
    let bulk = operator.begin_bulk(asked.act, asked.filter, None, &reason).await?;
    visit.forget_seen().await;
    let to = Link::to(visit.frame.at("/bulk")).with("id", &bulk.id);
    visit.go(
        &to.to_string(),
        true,
        "It is begun: a worker or server of this wheel does it, and another goes on where one stops.",
    )
}

/// `POST /wheels/{wheel}/bulk/stop`.
pub(super) async fn stop(visit: Visit) -> Outcome {
    let (id, reason) = (visit.form.text("id"), visit.reason());
    match visit.operator()?.stop_bulk(id, &reason).await? {
        None => visit.done(false, "There is no such bulk act any more."),
        Some(bulk) if bulk.is_over() => visit.done(false, "It was over already."),
        Some(_) => visit.done(true, "It stops before its next page. What is done stays done."),
    }
}

/// A bulk act as it is shown.
struct Line {
    id: String,
    href: String,
    said: String,
    filter: String,
    by: String,
    reason: String,
    state: &'static str,
    tone: &'static str,
    asked_at: At,
    ended_at: Option<At>,
    matched: u64,
    so_far: u64,
    progress: String,
    done: String,
    refused: String,
    left: String,
    runner: String,
    error: String,
    is_over: bool,
}

impl Line {
    fn of(bulk: &Bulk, frame: &Frame, now: Moment) -> Self {
        let at = |ms: u64| Moment::EPOCH.plus(Duration::from_millis(ms));
        let so_far = bulk.done + bulk.refused;
        Self {
            id: bulk.id.clone(),
            href: Link::to(frame.at("/bulk")).with("id", &bulk.id).to_string(),
            said: Asked { act: bulk.act, filter: BulkFilter::default() }.said(),
            filter: bulk.filter.text(),
            by: escaped(&bulk.by),
            reason: escaped(&bulk.reason),
            state: bulk.state.as_str(),
            tone: match bulk.state {
                BulkState::Done => "good",
                BulkState::Stopped => "warn",
                _ => "",
            },
            asked_at: At::seen(at(bulk.asked_at_ms), now),
            ended_at: bulk.ended_at_ms.map(|ms| At::seen(at(ms), now)),
            matched: bulk.matched.max(so_far).max(1),
            so_far: if bulk.state == BulkState::Done { bulk.matched.max(so_far).max(1) } else { so_far },
            progress: format!(
                "{} of {}{}",
                count(so_far),
                count(bulk.matched.max(so_far)),
                if bulk.exact { "" } else { " or more" }
            ),
            done: count(bulk.done),
            refused: count(bulk.refused),
            left: count(if bulk.is_over() { 0 } else { bulk.left }),
            runner: escaped(&bulk.runner),
            error: bulk.error.as_deref().map(escaped).unwrap_or_default(),
            is_over: bulk.is_over(),
        }
    }
}

#[derive(Template)]
#[template(path = "bulk.html")]
struct One {
    frame: Frame,
    bulk: Line,
    now: At,
}

#[derive(Template)]
#[template(path = "bulks.html")]
struct All {
    frame: Frame,
    bulks: Vec<Line>,
}

/// `GET /wheels/{wheel}/bulk?id=`.
pub(super) async fn show(visit: Visit) -> Outcome {
    let now = visit.wheel().now().await?;
    let Some(bulk) = visit.wheel().bulk(visit.query.text("id")).await? else {
        return Err(Fault::not_found(
            "There is no such bulk act, or it was over long ago: the last hundred are kept.",
        ));
    };
    let frame = visit.frame("Bulk act");
    let page = One { bulk: Line::of(&bulk, &frame, now), now: At::of(now), frame };
    visit.page(&page)
}

/// `GET /wheels/{wheel}/bulks`.
pub(super) async fn list(visit: Visit) -> Outcome {
    let now = visit.wheel().now().await?;
    let bulks = visit.wheel().bulks().await?;
    let frame = visit.frame("Bulk acts");
    let page = All { bulks: bulks.iter().map(|bulk| Line::of(bulk, &frame, now)).collect(), frame };
    visit.page(&page)
}
