//! The dead: what they have in common, and each of them, the latest first.

use std::collections::BTreeMap;

use askama::Template;

use super::fault::Outcome;
use super::figure::{At, count};
use super::frame::Frame;
use super::line::cut;
use super::parameters::Link;
use super::visit::Visit;
use crate::clock::Moment;
use crate::deadline::reason_group;
use crate::error::escaped;
use crate::wheel::{Dead, DeadSurvey};

/// The dead that are looked at for one page.
const MOST: usize = 20_000;
/// Groups that are shown; further ones have one each, mostly.
const MOST_GROUPS: usize = 50;
/// Lines of a page.
const LENGTH: usize = 50;

#[derive(Template)]
#[template(path = "dead.html")]
struct Page {
    frame: Frame,
    groups: Vec<Group>,
    more_groups: u64,
    /// The group that is shown; empty for all.
    group: String,
    group_shown: String,
    lines: Vec<Line>,
    said: String,
    total: String,
    complaints: Vec<String>,
    next: Option<String>,
    first: Option<String>,
}

/// Those that died for the same reason.
struct Group {
    shown: String,
    href: String,
    number: String,
    /// Of all, in percent; for the bar.
    share: u64,
    latest: At,
    earliest: At,
    current: bool,
}

/// One of them.
struct Line {
    id: String,
    shown: String,
    href: String,
    died_at: At,
    reason: String,
}

/// `GET /wheels/{wheel}/dead`.
pub(super) async fn show(visit: Visit) -> Outcome {
    let wheel = visit.wheel();
    let (now, survey) = tokio::try_join!(wheel.now(), wheel.survey_dead(MOST))?;
    let frame = visit.frame("Dead");
    let mut complaints = Vec::new();
    let group = visit.query.exact("group").to_owned();
    let skip =
        visit.query.whole("skip", 0..=u32::try_from(MOST).unwrap_or(u32::MAX), 0, &mut complaints) as usize;
    // Once for each, and not once for every use of it.
    let named: Vec<String> = survey.dead.iter().map(|dead| reason_group(&dead.reason)).collect();
    let (groups, more_groups) = groups(&survey, &named, &group, &frame, now);
    let of_group = |(_, of): &(&Dead, &String)| group.is_empty() || **of == group;
    let mut chosen: Vec<&Dead> =
        survey.dead.iter().zip(&named).filter(of_group).map(|(dead, _)| dead).collect();
    let number = chosen.len();
    chosen = chosen.into_iter().skip(skip).take(LENGTH).collect();
    let here = |skip: usize| {
        let skip = if skip == 0 { String::new() } else { skip.to_string() };
        Link::to(frame.at("/dead")).with("group", &group).with("skip", &skip).to_string()
    };
    let looked_at = if survey.is_partial() {
        format!(" The latest {} were looked at.", count(survey.dead.len() as u64))
    } else {
        String::new()
    };
    let said = match (number, chosen.len()) {
        (0, _) if group.is_empty() => "None: nothing waits for a person.".to_owned(),
        (0, _) => "None died for that reason, or none does any more.".to_owned(),
        (_, 0) => "There are no more.".to_owned(),
        (all, shown) => format!(
            "{} to {} of {}, the latest first.{looked_at}",
            count(skip as u64 + 1),
            count((skip + shown) as u64),
            count(all as u64)
        ),
    };
    let of_one = frame.at("/deadline");
    let page = Page {
        next: (skip + chosen.len() < number && !chosen.is_empty()).then(|| here(skip + LENGTH)),
        first: (skip > 0).then(|| here(0)),
        lines: chosen.into_iter().map(|dead| Line::of(dead, &of_one, now)).collect(),
        total: count(survey.count),
        group_shown: cut(&group),
        groups,
        more_groups,
        group,
        said,
        complaints,
        frame,
    };
    visit.page(&page)
}

fn groups(
    survey: &DeadSurvey,
    named: &[String],
    current: &str,
    frame: &Frame,
    now: Moment,
) -> (Vec<Group>, u64) {
    let mut by_reason: BTreeMap<&str, (u64, Moment, Moment)> = BTreeMap::new();
    for (dead, name) in survey.dead.iter().zip(named) {
        let known = by_reason.entry(name).or_insert((0, dead.died_at, dead.died_at));
        *known = (known.0 + 1, known.1.max(dead.died_at), known.2.min(dead.died_at));
    }
    let mut sorted: Vec<_> = by_reason.into_iter().collect();
    sorted.sort_by(|(a, x), (b, y)| y.0.cmp(&x.0).then_with(|| a.cmp(b)));
    let more = sorted.len().saturating_sub(MOST_GROUPS) as u64;
    let all = (survey.dead.len() as u64).max(1);
    let group = |(reason, (number, latest, earliest)): (&str, (u64, Moment, Moment))| Group {
        shown: if reason.is_empty() { "(no reason was given)".to_owned() } else { cut(reason) },
        href: Link::to(frame.at("/dead")).with("group", reason).to_string(),
        number: count(number),
        share: number * 100 / all,
        latest: At::seen(latest, now),
        earliest: At::of(earliest),
        current: reason == current,
    };
    (sorted.into_iter().take(MOST_GROUPS).map(group).collect(), more)
}

impl Line {
    fn of(dead: &Dead, page: &str, now: Moment) -> Self {
        Self {
            id: dead.id.as_str().to_owned(),
            shown: escaped(dead.id.as_str()),
            href: Link::to(page).with("id", dead.id.as_str()).to_string(),
            died_at: At::seen(dead.died_at, now),
            reason: cut(&dead.reason),
        }
    }
}
