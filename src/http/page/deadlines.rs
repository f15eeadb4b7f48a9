//! The listing of deadlines: by state, moment and shard, or by the beginning of their ids.

use std::time::Duration;

use askama::Template;
use futures_util::future::join_all;

use super::fault::Outcome;
use super::figure::{count, of};
use super::filter::{Filter, LENGTHS, STATES};
use super::frame::Frame;
use super::line::Line;
use super::parameters::Link;
use super::visit::Visit;
use crate::clock::Moment;
use crate::deadline::{Id, State};
use crate::error::Error;
use crate::wheel::answer::{Cursor, Page as Listed};
use crate::wheel::{Look, Narrowed};

/// Ids or deadlines that one page looks at, and how long it may take, where there is no index: by id, by attempts, by reason, by payload.
const SEARCH_MOST: u64 = 100_000;
const SEARCH_LONGEST: Duration = Duration::from_millis(150);
/// Ids that one page of a search shows.
const SEARCH_LENGTH: usize = 50;

#[derive(Template)]
#[template(path = "deadlines.html")]
struct Page {
    frame: Frame,
    filter: Filter,
    /// What was searched for; empty where the filter says it.
    search: String,
    lines: Vec<Line>,
    complaints: Vec<String>,
    /// What the listing is, in words.
    said: String,
    next: Option<String>,
    /// The first page again, where this is another.
    first: Option<String>,
    ndjson: String,
    csv: String,
}

/// `GET /wheels/{wheel}/deadlines`.
pub(super) async fn show(visit: Visit) -> Outcome {
    let now = visit.wheel().now().await?;
    let mut complaints = Vec::new();
    let filter = Filter::read(&visit.query, now, visit.wheel().shards(), &mut complaints);
    let search = visit.query.exact("id").to_owned();
    let frame = visit.frame("Deadlines");
    let mut page = Page {
        ndjson: filter.link(frame.at("/deadlines.ndjson")).to_string(),
        csv: filter.link(frame.at("/deadlines.csv")).to_string(),
        lines: Vec::new(),
        said: String::new(),
        next: None,
        first: None,
        complaints,
        search,
        filter,
        frame,
    };
    let given = visit.query.text("cursor").to_owned();
    let cursor = (!given.is_empty()).then_some(Cursor(given));
    if page.search.is_empty() {
        page.list(&visit, now, cursor).await?;
    } else {
        page.find(&visit, cursor).await?;
    }
    visit.page(&page)
}

impl Page {
    async fn list(&mut self, visit: &Visit, now: Moment, cursor: Option<Cursor>) -> Result<(), Error> {
        let listed = match read(visit, &self.filter, cursor.as_ref()).await {
            Err(Error::Invalid(bad)) => {
                self.complaints.push(format!("{bad}; this is the first page"));
                read(visit, &self.filter, None).await?
            }
            other => {
                self.first = cursor.map(|_| self.filter.link(self.frame.at("/deadlines")).to_string());
                other?
            }
        };
        let of_one = self.frame.at("/deadline");
        let Narrowed { page: listed, looked_at } = listed;
        self.lines = listed.rows.into_iter().map(|row| Line::of(row, &of_one, now)).collect();
        let next =
            |next: Cursor| self.filter.link(self.frame.at("/deadlines")).with("cursor", &next.0).to_string();
        self.next = listed.next.map(next);
        let order = if self.filter.of_state() == State::Ended { "in no order" } else { "by time" };
        let n = count(self.lines.len() as u64);
        self.said = match (self.lines.len(), &self.next) {
            (_, Some(_)) if !self.filter.narrow.is_wide() => format!(
                "{n} found among {}, {order}. There is no index by attempts, reason or payload, so the search stops here and goes on when you say so.",
                count(looked_at)
            ),
            (0, _) => "None.".to_owned(),
            (n, None) if self.first.is_none() => format!("All {}, {order}.", count(n as u64)),
            (n, _) => format!("{} on this page, {order}.", count(n as u64)),
        };
        Ok(())
    }

    /// The exact id first, then those that begin so.
    async fn find(&mut self, visit: &Visit, cursor: Option<Cursor>) -> Result<(), Error> {
        let (wheel, of_one) = (visit.wheel(), self.frame.at("/deadline"));
        let exact = match Id::new(&self.search) {
            Ok(id) => id,
            Err(bad) => {
                self.complaints.push(bad.to_string());
                self.said = "Nothing was searched for.".to_owned();
                return Ok(());
            }
        };
        let search = |cursor| wheel.find(exact.as_str(), cursor, SEARCH_LENGTH, SEARCH_MOST, SEARCH_LONGEST);
        let found = match search(cursor.as_ref()).await {
            Err(Error::Invalid(bad)) => {
                self.complaints.push(format!("{bad}; this is the first page"));
                search(None).await?
            }
            other => {
                let link = || Link::to(self.frame.at("/deadlines")).with("id", exact.as_str()).to_string();
                self.first = cursor.as_ref().map(|_| link());
                other?
            }
        };
        let mut ids = found.ids;
        ids.retain(|id| *id != exact);
        if self.first.is_none() {
            ids.insert(0, exact.clone());
        }
        let seen = join_all(ids.iter().map(|id| wheel.inspect(id))).await;
        for (id, seen) in ids.iter().zip(seen) {
            self.lines.extend(Line::inspected(id.as_str(), seen?, &of_one));
        }
        let link = |next: Cursor| {
            Link::to(self.frame.at("/deadlines"))
                .with("id", exact.as_str())
                .with("cursor", &next.0)
                .to_string()
        };
        let so_far = if self.first.is_none() { "" } else { " more" };
        self.said = match &found.next {
            Some(_) => format!(
                "{} found among about {}{so_far} ids. There is no index by id, so the search stops here and goes on when you say so.",
                count(self.lines.len() as u64),
                count(found.looked_at)
            ),
            None => format!(
                "{} found; every id was looked at.",
                of(self.lines.len() as u64, "deadline", "deadlines")
            ),
        };
        self.next = found.next.map(link);
        Ok(())
    }

    fn states(&self) -> [&'static str; 5] {
        STATES
    }

    fn lengths(&self) -> [&'static str; 4] {
        let mut lengths = LENGTHS;
        lengths.sort_by_key(|length| length.parse::<u32>().unwrap_or(0));
        lengths
    }

    fn is_dead(&self) -> bool {
        self.search.is_empty() && self.filter.state == "dead"
    }

    /// Whether what is listed can be picked: what a worker has, or has ended, is nobody's to move.
    fn can_act(&self) -> bool {
        !self.search.is_empty() || matches!(self.filter.state, "scheduled" | "due" | "dead")
    }

    /// Whether the filter is one that a bulk act has, too.
    fn can_bulk(&self) -> bool {
        let narrow = &self.filter.narrow;
        self.can_act() && self.filter.shard.is_none() && narrow.attempts == 0 && narrow.payload.is_none()
    }

    /// The filter as a bulk act takes it: every moment fixed, so that what is confirmed is what was seen.
    fn bulk_fields(&self) -> Vec<(&'static str, String)> {
        if !self.search.is_empty() {
            return vec![("prefix", self.search.clone())];
        }
        let (from, to) = self.filter.range();
        let mut fields = Vec::new();
        if from > Moment::EPOCH {
            fields.push(("from", from.to_string()));
        }
        if to < Moment::MAX {
            fields.push(("to", to.to_string()));
        }
        if let Some(reason) = &self.filter.narrow.reason {
            fields.push(("reason_part", reason.clone()));
        }
        fields
    }

    /// What leads to the next page.
    fn onward(&self) -> &'static str {
        if self.search.is_empty() && self.filter.narrow.is_wide() { "Next page" } else { "Search on" }
    }

    /// What the first moment of a line is.
    fn moment(&self) -> &'static str {
        match (self.search.is_empty(), self.filter.state) {
            (false, _) => "When",
            (true, "dead") => "Died",
            (true, "leased") => "Lease ends",
            (true, "ended") => "Ended",
            _ => "Fires",
        }
    }
}

async fn read(visit: &Visit, filter: &Filter, cursor: Option<&Cursor>) -> Result<Narrowed, Error> {
    let (from, to) = filter.range();
    if from > to {
        return Ok(Narrowed { page: Listed { rows: Vec::new(), next: None }, looked_at: 0 });
    }
    let look = Look { limit: filter.limit(), most: SEARCH_MOST, longest: SEARCH_LONGEST };
    visit.wheel().list_narrow(filter.shard, filter.of_state(), from..=to, &filter.narrow, cursor, look).await
}
