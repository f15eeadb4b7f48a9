//! The story of one deadline, as `duewheel explain` tells it. A build without SQL knows no orders table and tells the wheel's part.

use super::figure::At;
use super::visit::Visit;
use crate::clock::{Moment, distance};
use crate::deadline::Id;
use crate::error::Result;
use crate::wheel::answer::Inspection;

/// Something that happened, or is to come.
pub(super) struct Told {
    pub at: At,
    pub source: &'static str,
    pub what: String,
    /// Whether it is still to come.
    pub is_coming: bool,
}

/// The story.
pub(super) struct Story {
    pub seen: Inspection,
    pub why: String,
    pub timeline: Vec<Told>,
    pub row: Vec<(&'static str, String)>,
    /// What is to be said of the row.
    pub row_note: String,
}

fn told(at: Moment, now: Moment, source: &'static str, what: String) -> Told {
    Told { at: At::seen(at, now), source, what, is_coming: at > now }
}

#[cfg(feature = "sql")]
impl Story {
    /// Asks the wheel, and the orders table where the hook declares one.
    pub async fn of(visit: &Visit, id: &Id) -> Result<Self> {
        use crate::sweep::{Explanation, Table};

        let story = Explanation::of(visit.wheel(), visit.table(), id).await?;
        let now = story.survey.seen.now;
        let timeline =
            story.timeline().into_iter().map(|one| told(one.at, now, one.source.as_str(), one.what));
        let (row, row_note) = match &story.table {
            Table::Undeclared => (Vec::new(), "This server knows no orders table of this wheel.".to_owned()),
            Table::Away(reason) => (
                Vec::new(),
                format!("The orders table could not be asked: {}", crate::error::escaped(reason)),
            ),
            Table::Asked(None, _) => (Vec::new(), "The orders table has no such row.".to_owned()),
            Table::Asked(Some(fact), _) => {
                let mut row = vec![("Open", if fact.open { "yes" } else { "no" }.to_owned())];
                row.extend(fact.state.as_ref().map(|state| ("State", crate::error::escaped(state))));
                row.push(("Overdue", if fact.overdue { "yes" } else { "no" }.to_owned()));
                let close_at = fact.close_at.map(|at| format!("{at}, {}", distance(at, now)));
                row.extend(close_at.map(|text| ("To be closed", text)));
                (row, String::new())
            }
        };
        Ok(Self { why: story.why(), timeline: timeline.collect(), row, row_note, seen: story.survey.seen })
    }
}

#[cfg(not(feature = "sql"))]
impl Story {
    /// Asks the wheel.
    pub async fn of(visit: &Visit, id: &Id) -> Result<Self> {
        let wheel = visit.wheel();
        let survey = wheel.survey(id).await?;
        let (why, seen, events) = (survey.why(), survey.seen, survey.events);
        let at = |ms: u64| Moment::EPOCH.plus(std::time::Duration::from_millis(ms));
        let timeline = events
            .into_iter()
            .map(|event| told(at(event.at_ms), seen.now, "events", crate::error::escaped(&event.what)));
        let row_note =
            format!("This build reads no orders table; looked at {}.", distance(seen.now, seen.now));
        Ok(Self { why, timeline: timeline.collect(), row: Vec::new(), row_note, seen })
    }
}
