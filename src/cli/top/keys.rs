//! What a key does: it changes the model, or asks for something that only the loop can do. Nothing here waits for anything.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::deed::Deed;
use super::dialog::{Dialog, Turn};
use super::look::MOST_READ;
use super::model::{Detail, Model, Overlay, Tab};
use crate::clock::Moment;
use crate::deadline::{Id, State};
use crate::operator::To;
use crate::wheel::answer::Row;

/// What a key asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// To look again now.
    Look,
    /// To read an order's story.
    Story(Id),
    /// To do something, for that reason.
    Do(Deed, String),
    /// To put an id where the terminal keeps what is copied.
    Copy(String),
    /// To give the terminal back for a while.
    Suspend,
    /// To end.
    Quit,
}

/// A filter is at most so long; so is an id.
const FILTER_MOST: usize = 128;

/// The keys, for `?`.
pub const KEYS: [(&str, &str); 19] = [
    ("Tab, ←, →, 1-6", "another tab"),
    ("↑, ↓, PgUp, PgDn, Home, End", "another line"),
    ("Enter", "the order's story, and why it is not closed"),
    ("/", "filter by id or reason; Esc clears it"),
    ("s", "Deadlines: scheduled, due, leased, ended"),
    ("r", "revive the dead order"),
    ("R", "revive all dead that match the filter"),
    ("c", "cancel it (a dead one is dropped)"),
    ("C", "drop all dead that match the filter"),
    ("f", "close it now"),
    ("t", "reschedule it: to another time"),
    ("o", "put it on hold, or release it"),
    ("p", "pause the wheel, or resume it"),
    ("d", "Workers: drain the worker, or let it go on"),
    ("y", "copy the id"),
    ("Space", "look again now"),
    ("Ctrl-Z", "suspend"),
    ("?", "these keys"),
    ("q, Ctrl-C", "quit"),
];

/// Takes a key.
pub fn press(model: &mut Model, key: KeyEvent) -> Option<Ask> {
    if key.modifiers.contains(KeyModifiers::ALT) {
        // Escape and a key right behind it arrive as one; nothing here asks for Alt.
        press(model, KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
        return press(model, KeyEvent::new(key.code, key.modifiers - KeyModifiers::ALT));
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => Some(Ask::Quit),
            KeyCode::Char('z') => Some(Ask::Suspend),
            _ => None,
        };
    }
    match &model.overlay {
        Overlay::Dialog(_) => in_dialog(model, key.code),
        Overlay::Filter(_) => in_filter(model, key.code),
        Overlay::Help(_) => in_help(model, key.code),
        Overlay::Detail(_) => in_detail(model, key.code),
        Overlay::None => in_tab(model, key.code),
    }
}

fn in_tab(model: &mut Model, key: KeyCode) -> Option<Ask> {
    let page = isize::try_from(model.page).unwrap_or(10).max(1);
    match key {
        KeyCode::Char('q') => return Some(Ask::Quit),
        KeyCode::Tab | KeyCode::Right | KeyCode::Char('l') => return turn(model, 1),
        KeyCode::BackTab | KeyCode::Left | KeyCode::Char('h') => return turn(model, Tab::ALL.len() - 1),
        KeyCode::Char(digit @ '1'..='6') => {
            let place = digit as usize - '1' as usize;
            return turn(model, Tab::ALL.len() + place - model.tab.place());
        }
        KeyCode::Up | KeyCode::Char('k') => model.move_by(-1),
        KeyCode::Down | KeyCode::Char('j') => model.move_by(1),
        KeyCode::PageUp => model.move_by(-page),
        KeyCode::PageDown => model.move_by(page),
        KeyCode::Home | KeyCode::Char('g') => model.move_by(isize::MIN),
        KeyCode::End | KeyCode::Char('G') => model.move_by(isize::MAX),
        KeyCode::Esc => {
            model.said = None;
            if !model.filter.is_empty() {
                model.filter.clear();
                model.forget_rows();
                return Some(Ask::Look);
            }
        }
        KeyCode::Char('/') if matches!(model.tab, Tab::Deadlines | Tab::Dead) => {
            model.overlay = Overlay::Filter(model.filter.clone());
        }
        KeyCode::Char('/') => model.say("only Deadlines and Dead are filtered", false),
        KeyCode::Char('s') if model.tab == Tab::Deadlines => {
            model.wanted = model.wanted.next();
            model.forget_rows();
            return Some(Ask::Look);
        }
        KeyCode::Enter => return open(model),
        KeyCode::Char(' ') => return Some(Ask::Look),
        other => return common(model, other),
    }
    None
}

/// Keys that mean the same in a listing and in an order's story.
fn common(model: &mut Model, key: KeyCode) -> Option<Ask> {
    match key {
        KeyCode::Char('?') => {
            model.said = None;
            model.overlay = Overlay::Help(0);
        }
        KeyCode::Char('y') => match model.target() {
            Some((id, _)) => return Some(Ask::Copy(id.as_str().to_owned())),
            None => model.say("no order is chosen", false),
        },
        KeyCode::Char(act @ ('r' | 'R' | 'c' | 'C' | 'f' | 't' | 'o' | 'p' | 'd')) => {
            if model.read_only {
                model.say("read-only: nothing is changed from here", true);
            } else if let Some(doing) = &model.doing {
                let text = format!("wait for it: {doing}");
                model.say(&text, false);
            } else {
                match deed(model, act) {
                    Ok((deed, of)) => model.overlay = Overlay::Dialog(Dialog::new(deed, of)),
                    Err(why) => model.say(&why, true),
                }
            }
        }
        _ => {}
    }
    None
}

/// What a key would do here, and of how many; or why it does nothing.
fn deed(model: &Model, act: char) -> Result<(Deed, Option<usize>), String> {
    let target = || model.target().ok_or_else(|| "no order is chosen".to_owned());
    match act {
        'p' => {
            let seen = model.seen.as_ref().ok_or("the wheel has not been read yet")?;
            let held = seen.held.paused.is_some() || seen.held.trip.is_some();
            let held = held || seen.stats.paused_shards > 0 || seen.stats.tripped_shards > 0;
            Ok((if held { Deed::Resume } else { Deed::Pause }, None))
        }
        'd' => {
            let worker = model.seen.as_ref().filter(|_| model.tab == Tab::Workers);
            let worker = worker.and_then(|seen| seen.workers.get(model.line()));
            let worker = worker.ok_or("only a worker is drained; choose one on its tab")?;
            let (token, name) = (worker.token.clone(), format!("{}:{}", worker.host, worker.pid));
            let deed = match &worker.drained {
                Some(_) => Deed::Undrain(token, name),
                None => Deed::Drain(token, name),
            };
            Ok((deed, None))
        }
        'f' => match target()? {
            (_, State::Ended) => Err("it has ended; nothing is left to close".to_owned()),
            (id, _) => Ok((Deed::Close(id), None)),
        },
        't' => match target()? {
            (id, State::Scheduled) => Ok((Deed::Reschedule(id, To::Later(Duration::ZERO)), None)),
            _ => Err("only what is scheduled is given another moment".to_owned()),
        },
        'o' => match target()? {
            (id, State::Scheduled) if model.is_held(&id) => Ok((Deed::Release(id), None)),
            (id, State::Scheduled) => Ok((Deed::Hold(id, Duration::ZERO), None)),
            _ => Err("only what is scheduled is held".to_owned()),
        },
        'r' => match target()? {
            (id, State::Dead) => Ok((Deed::Revive(vec![id]), None)),
            _ => Err("only a dead deadline is revived; f closes any other now".to_owned()),
        },
        'c' => match target()? {
            (id, State::Dead) => Ok((Deed::Drop(vec![id]), None)),
            (_, State::Ended) => Err("it has ended; nothing is left to cancel".to_owned()),
            (id, _) => Ok((Deed::Cancel(vec![id]), None)),
        },
        _ => {
            let listing = model.listing().filter(|_| model.tab == Tab::Dead);
            let listing = listing.ok_or("all that match are acted on in the tab Dead alone")?;
            if listing.more {
                return Err(format!("more than {MOST_READ} are dead: use duewheel bulk"));
            }
            let ids: Vec<Id> = listing.rows.iter().filter_map(live_id).collect();
            if ids.is_empty() {
                return Err("nothing matches".to_owned());
            }
            let of = Some(listing.read);
            Ok((if act == 'R' { Deed::Revive(ids) } else { Deed::Drop(ids) }, of))
        }
    }
}

fn live_id(row: &Row) -> Option<Id> {
    match row {
        Row::Live { entry, .. } => Some(entry.id.clone()),
        _ => None,
    }
}

fn turn(model: &mut Model, by: usize) -> Option<Ask> {
    model.tab = Tab::ALL.into_iter().cycle().nth(model.tab.place() + by).unwrap_or(Tab::Overview);
    model.said = None;
    Some(Ask::Look)
}

fn open(model: &mut Model) -> Option<Ask> {
    let (id, state) = model.target()?;
    model.overlay = Overlay::Detail(Detail { id: id.clone(), state, lines: None, from: 0 });
    Some(Ask::Story(id))
}

/// Where the keys do not fit they are scrolled; any other key leads back.
fn in_help(model: &mut Model, key: KeyCode) -> Option<Ask> {
    let Overlay::Help(from) = &mut model.overlay else { return None };
    let last = KEYS.len().saturating_sub(model.page + 1);
    match key {
        KeyCode::Up if *from > 0 => *from -= 1,
        KeyCode::Down if *from < last => *from += 1,
        KeyCode::PageUp => *from = from.saturating_sub(model.page),
        KeyCode::PageDown => *from = (*from + model.page).min(last),
        KeyCode::Up | KeyCode::Down if last > 0 => {}
        key => {
            model.overlay = Overlay::None;
            return (key == KeyCode::Char('q')).then_some(Ask::Quit);
        }
    }
    None
}

fn in_detail(model: &mut Model, key: KeyCode) -> Option<Ask> {
    let page = model.page.max(1);
    let Overlay::Detail(detail) = &mut model.overlay else { return None };
    let last = detail.lines.as_ref().map_or(0, |lines| lines.len().saturating_sub(1));
    match key {
        KeyCode::Esc | KeyCode::Enter | KeyCode::Left | KeyCode::Backspace | KeyCode::Char('q') => {
            model.overlay = Overlay::None;
        }
        KeyCode::Up | KeyCode::Char('k') => detail.from = detail.from.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => detail.from = (detail.from + 1).min(last),
        KeyCode::PageUp => detail.from = detail.from.saturating_sub(page),
        KeyCode::PageDown => detail.from = (detail.from + page).min(last),
        KeyCode::Home => detail.from = 0,
        KeyCode::End => detail.from = last,
        KeyCode::Char(' ') => return Some(Ask::Story(detail.id.clone())),
        other => return common(model, other),
    }
    None
}

fn in_filter(model: &mut Model, key: KeyCode) -> Option<Ask> {
    let Overlay::Filter(before) = &model.overlay else { return None };
    match key {
        KeyCode::Esc => {
            model.filter = before.clone();
            model.overlay = Overlay::None;
        }
        KeyCode::Enter => {
            let changed = *before != model.filter;
            model.overlay = Overlay::None;
            if changed {
                model.forget_rows();
                return Some(Ask::Look);
            }
        }
        KeyCode::Backspace => drop(model.filter.pop()),
        KeyCode::Char(c) if !c.is_control() && model.filter.len() < FILTER_MOST => model.filter.push(c),
        _ => {}
    }
    None
}

fn in_dialog(model: &mut Model, key: KeyCode) -> Option<Ask> {
    let now = model.seen.as_ref().map_or_else(Moment::host_now, |seen| seen.now);
    let Overlay::Dialog(dialog) = &mut model.overlay else { return None };
    match key {
        KeyCode::Esc => {
            model.overlay = Overlay::None;
            model.say("nothing was done", false);
        }
        KeyCode::Backspace => dialog.take_back(),
        KeyCode::Char(c) => dialog.put(c),
        KeyCode::Enter if dialog.enter(now) == Turn::Confirmed => {
            let ask = Ask::Do(dialog.deed.clone(), dialog.reason.trim().to_owned());
            model.doing = Some(dialog.question());
            model.overlay = Overlay::None;
            return Some(ask);
        }
        _ => {}
    }
    None
}
