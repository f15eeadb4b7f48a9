//! The tabs that list: deadlines, dead, workers.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};

use super::super::super::row::cells;
use super::super::look::Seen;
use super::super::model::{Model, Tab};
use super::super::plain::{WORKER_HEADER, worker_cells};
use super::fitted;
use super::ink::Ink;
use crate::clock::Moment;
use crate::error::escaped;
use crate::figure::grouped;

/// From this width on all columns fit.
const WIDE: u16 = 90;
const NARROW: u16 = 60;

/// Deadlines or dead.
pub fn deadlines(frame: &mut Frame<'_>, area: Rect, model: &Model, now: Moment, ink: Ink) {
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    frame.render_widget(Paragraph::new(Line::styled(fitted(&summary(model), head.width), ink.dim())), head);
    let Some(listing) = model.listing() else {
        return frame.render_widget(Paragraph::new("reading …"), body);
    };
    if listing.rows.is_empty() {
        let none = if listing.filter.is_empty() { "none" } else { "nothing matches; Esc clears the filter" };
        return frame.render_widget(Paragraph::new(none), body);
    }
    // id, state, at, when, attempts, remark: as `duewheel list` prints them.
    let (kept, widths): (&[usize], Vec<Constraint>) = match area.width {
        WIDE.. => (
            &[0, 1, 2, 3, 4, 5],
            vec![
                Constraint::Fill(2),
                Constraint::Length(9),
                Constraint::Length(24),
                Constraint::Length(14),
                Constraint::Length(3),
                Constraint::Fill(3),
            ],
        ),
        NARROW..WIDE => (
            &[0, 3, 4, 5],
            vec![Constraint::Fill(2), Constraint::Length(14), Constraint::Length(3), Constraint::Fill(3)],
        ),
        _ => (&[0, 3, 5], vec![Constraint::Fill(2), Constraint::Length(10), Constraint::Fill(2)]),
    };
    let header = ["id", "state", "at", "when", "att", "remark"];
    let pick = |all: &[String]| kept.iter().filter_map(|n| all.get(*n).cloned()).collect::<Vec<_>>();
    // Only what is in sight is written out: a listing may have 20,000 rows.
    let tall = usize::from(body.height.saturating_sub(1)).max(1);
    let from = model.line().saturating_sub(tall - 1);
    let rows = listing.rows.iter().skip(from).take(tall).map(|row| Row::new(pick(&cells(row, now))));
    let header = kept.iter().filter_map(|n| header.get(*n).copied());
    draw(frame, body, header, rows, widths, model.line() - from, ink);
}

/// `37 of 1,204 match "timeout"`.
fn summary(model: &Model) -> String {
    let what = match model.tab {
        Tab::Dead => "dead",
        _ => model.wanted.as_str(),
    };
    let Some(listing) = model.listing() else { return what.to_owned() };
    let plus = if listing.more { "+" } else { "" };
    let read = grouped(listing.read as u64);
    if listing.filter.is_empty() {
        let first = if listing.more { "the first " } else { "" };
        return format!("{what}: {first}{read}");
    }
    let rows = grouped(listing.rows.len() as u64);
    format!("{what}: {rows} of {read}{plus} match \"{}\"", escaped(&listing.filter))
}

/// Who closes.
pub fn workers(frame: &mut Frame<'_>, area: Rect, model: &Model, seen: &Seen, ink: Ink) {
    if seen.workers.is_empty() {
        return frame.render_widget(Paragraph::new("nobody closes orders on this wheel"), area);
    }
    let (kept, widths): (&[usize], Vec<Constraint>) = if area.width >= NARROW {
        (
            &[0, 1, 2, 3, 4],
            vec![
                Constraint::Fill(2),
                Constraint::Length(7),
                Constraint::Length(12),
                Constraint::Length(8),
                Constraint::Fill(3),
            ],
        )
    } else {
        (&[0, 1, 4], vec![Constraint::Fill(2), Constraint::Length(7), Constraint::Fill(2)])
    };
    let tall = usize::from(area.height.saturating_sub(1)).max(1);
    let from = model.line().saturating_sub(tall - 1);
    let rows = seen.workers.iter().skip(from).take(tall).map(|worker| {
        let all = worker_cells(worker, seen.now);
        Row::new(kept.iter().filter_map(|n| all.get(*n).cloned()).collect::<Vec<_>>())
    });
    let header = kept.iter().filter_map(|n| WORKER_HEADER.get(*n).copied());
    draw(frame, area, header, rows, widths, model.line().saturating_sub(from), ink);
}

fn draw<'a>(
    frame: &mut Frame<'_>,
    area: Rect,
    header: impl Iterator<Item = &'a str>,
    rows: impl Iterator<Item = Row<'a>>,
    widths: Vec<Constraint>,
    chosen: usize,
    ink: Ink,
) {
    let header = Row::new(header.map(Cell::new)).style(ink.dim());
    let table = Table::new(rows, widths).header(header).row_highlight_style(ink.chosen());
    let mut state = TableState::default().with_selected(Some(chosen));
    frame.render_stateful_widget(table, area, &mut state);
}
