//! What is on the screen: the last look at the wheel, where the cursor stands, what is laid over it. Nothing here asks or draws.

use std::time::Duration;

use super::dialog::Dialog;
use super::hook;
use super::look::{Listing, Seen};
use crate::deadline::{Id, State};
use crate::error::escaped;
use crate::wheel::answer::{Entry, Row};

/// The tabs, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// The wheel in numbers.
    Overview,
    /// Shards by time.
    Wheel,
    /// What is scheduled, due, leased or ended.
    Deadlines,
    /// What waits for a person.
    Dead,
    /// What closes orders, and what holds it back.
    Hooks,
    /// Who closes.
    Workers,
}

impl Tab {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Overview, Self::Wheel, Self::Deadlines, Self::Dead, Self::Hooks, Self::Workers];

    /// What it is called.
    pub fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Wheel => "Wheel",
            Self::Deadlines => "Deadlines",
            Self::Dead => "Dead",
            Self::Hooks => "Hooks",
            Self::Workers => "Workers",
        }
    }

    /// Its place, from 0.
    pub fn place(self) -> usize {
        self as usize
    }
}

/// Which deadlines the tab of that name lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Waiting for their moment, due ones included.
    Scheduled,
    /// Those whose moment has come.
    Due,
    /// With a worker.
    Leased,
    /// Remembered ends.
    Ended,
}

impl Wanted {
    /// The next one, for whoever turns the pages.
    pub fn next(self) -> Self {
        match self {
            Self::Scheduled => Self::Due,
            Self::Due => Self::Leased,
            Self::Leased => Self::Ended,
            Self::Ended => Self::Scheduled,
        }
    }

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Due => "due",
            Self::Leased => "leased",
            Self::Ended => "ended",
        }
    }
}

/// What lies over the tab.
#[derive(Debug, Default)]
pub enum Overlay {
    /// Nothing.
    #[default]
    None,
    /// The keys, from that one on.
    Help(usize),
    /// The filter is being typed; with what it was before.
    Filter(String),
    /// One order's story.
    Detail(Detail),
    /// Something is about to be done.
    Dialog(Dialog),
}

/// One order's story.
#[derive(Debug)]
pub struct Detail {
    /// The order.
    pub id: Id,
    /// Its state as it was listed.
    pub state: State,
    /// The story, line by line, escaped; `None` while it is being read.
    pub lines: Option<Vec<String>>,
    /// The first line shown.
    pub from: usize,
}

/// Something said at the foot of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// What, escaped.
    pub text: String,
    /// Whether something went wrong.
    pub is_bad: bool,
}

/// The screen.
#[derive(Debug)]
pub struct Model {
    /// The wheel's name.
    pub wheel: String,
    /// Whether acts are refused.
    pub read_only: bool,
    /// Whether colours are used.
    pub colour: bool,
    /// The tab in sight.
    pub tab: Tab,
    /// Which deadlines are listed.
    pub wanted: Wanted,
    /// What ids or reasons must contain.
    pub filter: String,
    /// The last look that was answered.
    pub seen: Option<Seen>,
    /// The rows of the two tabs that list: deadlines, dead.
    pub listings: [Option<Listing>; 2],
    /// Why the last look was not answered, and for how long that has been so.
    pub trouble: Option<(String, Duration)>,
    /// What lies over the tab.
    pub overlay: Overlay,
    /// What was said last.
    pub said: Option<Said>,
    /// What is being done right now.
    pub doing: Option<String>,
    /// The line of each tab that the cursor is on.
    pub lines: [usize; Tab::ALL.len()],
    /// How many lines the body had when it was last drawn, for page keys.
    pub page: usize,
}

impl Model {
    /// An empty screen.
    pub fn new(wheel: &str, read_only: bool, colour: bool) -> Self {
        Self {
            wheel: escaped(wheel),
            read_only,
            colour,
            tab: Tab::Overview,
            wanted: Wanted::Scheduled,
            filter: String::new(),
            seen: None,
            listings: [None, None],
            trouble: None,
            overlay: Overlay::None,
            said: None,
            doing: None,
            lines: [0; Tab::ALL.len()],
            page: 10,
        }
    }

    /// Takes in a look, and keeps the cursor on the order that it was on.
    pub fn take(&mut self, seen: Seen, listing: Option<(Tab, Listing)>) {
        self.trouble = None;
        self.seen = Some(seen);
        if let Some((tab, listing)) = listing
            && let Some(place) = listing_place(tab)
        {
            // What was asked for before the tab, the state or the filter changed is not what is wanted now.
            if !listing.fits(self.wanted, &self.filter, tab) {
                return;
            }
            let chosen = (tab == self.tab).then(|| self.row().and_then(id_of).map(str::to_owned)).flatten();
            let found =
                chosen.and_then(|id| listing.rows.iter().position(|row| id_of(row) == Some(id.as_str())));
            if let (Some(found), Some(line)) = (found, self.lines.get_mut(tab.place())) {
                *line = found;
            }
            self.listings[place] = Some(listing);
        }
        self.keep_in_sight();
    }

    /// The rows of the tab in sight, where it lists deadlines and they have been read.
    pub fn listing(&self) -> Option<&Listing> {
        self.listings.get(listing_place(self.tab)?)?.as_ref()
    }

    /// The row under the cursor.
    pub fn row(&self) -> Option<&Row> {
        self.listing()?.rows.get(self.line())
    }

    /// The line under the cursor.
    pub fn line(&self) -> usize {
        self.lines.get(self.tab.place()).copied().unwrap_or(0)
    }

    /// How many lines the tab in sight has.
    pub fn line_count(&self) -> usize {
        let seen = self.seen.as_ref();
        match self.tab {
            Tab::Overview => 0,
            Tab::Wheel => seen.map_or(0, |seen| seen.heat.len()),
            Tab::Hooks => seen.map_or(0, |seen| hook::lines(seen).len()),
            Tab::Workers => seen.map_or(0, |seen| seen.workers.len()),
            Tab::Deadlines | Tab::Dead => self.listing().map_or(0, |listing| listing.rows.len()),
        }
    }

    /// Moves the cursor by so many lines.
    pub fn move_by(&mut self, lines: isize) {
        let to = self.line().saturating_add_signed(lines);
        if let Some(line) = self.lines.get_mut(self.tab.place()) {
            *line = to;
        }
        self.keep_in_sight();
    }

    /// The order that an act would be about, and its state: the one whose story is open, else the one under the cursor.
    pub fn target(&self) -> Option<(Id, State)> {
        if let Overlay::Detail(detail) = &self.overlay {
            return Some((detail.id.clone(), detail.state));
        }
        match self.row()? {
            Row::Live { entry, state, .. } => Some((entry.id.clone(), *state)),
            Row::Ended { id, .. } => Some((id.clone(), State::Ended)),
            Row::Foreign { .. } => None,
        }
    }

    /// Whether that order is held, as far as the row under the cursor tells.
    pub fn is_held(&self, id: &Id) -> bool {
        let held = |entry: &Entry| entry.hold_count > 0 && entry.next_at > entry.due_at;
        matches!(self.row(), Some(Row::Live { entry, .. }) if entry.id == *id && held(entry))
    }

    /// Says something at the foot.
    pub fn say(&mut self, text: &str, is_bad: bool) {
        self.said = Some(Said { text: escaped(text), is_bad });
    }

    /// Forgets rows that were listed by another state or filter.
    pub fn forget_rows(&mut self) {
        self.listings = [None, None];
        self.lines[Tab::Deadlines.place()] = 0;
        self.lines[Tab::Dead.place()] = 0;
    }

    fn keep_in_sight(&mut self) {
        let last = self.line_count().saturating_sub(1);
        if let Some(line) = self.lines.get_mut(self.tab.place()) {
            *line = (*line).min(last);
        }
    }
}

/// The id of a row, as it is stored.
fn id_of(row: &Row) -> Option<&str> {
    match row {
        Row::Live { entry, .. } => Some(entry.id.as_str()),
        Row::Ended { id, .. } => Some(id.as_str()),
        Row::Foreign { .. } => None,
    }
}

/// Where a tab's rows are kept.
fn listing_place(tab: Tab) -> Option<usize> {
    match tab {
        Tab::Deadlines => Some(0),
        Tab::Dead => Some(1),
        _ => None,
    }
}
