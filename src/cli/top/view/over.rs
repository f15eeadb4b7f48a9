//! What lies over a tab: an order's story, the keys, the confirmation before an act.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::super::dialog::Dialog;
use super::super::keys::KEYS;
use super::super::model::Detail;
use super::fitted;
use super::ink::Ink;
use crate::error::escaped;

/// One order's story.
pub fn detail(frame: &mut Frame<'_>, area: Rect, detail: &Detail, ink: Ink) {
    let Some(lines) = &detail.lines else {
        let text = format!("{}: reading …", escaped(detail.id.as_str()));
        return frame.render_widget(Paragraph::new(text), area);
    };
    let shown = lines.iter().enumerate().skip(detail.from).map(|(n, line)| {
        let style = if n < 2 { ink.strong() } else { ink.plain() };
        Line::styled(line.as_str(), style)
    });
    frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()).wrap(Wrap { trim: false }), area);
}

/// The keys, from that one on.
pub fn help(frame: &mut Frame<'_>, area: Rect, from: usize, ink: Ink) {
    let wide = KEYS.iter().map(|(keys, _)| keys.chars().count()).max().unwrap_or(0);
    let narrow = area.width < 70;
    let lines = KEYS.iter().skip(from).map(|(keys, what)| {
        let text = if narrow { format!("{keys}: {what}") } else { format!(" {keys:<wide$}  {what}") };
        Line::styled(fitted(&text, area.width), ink.plain())
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

/// The confirmation, in the middle of what it is about.
pub fn dialog(frame: &mut Frame<'_>, area: Rect, dialog: &Dialog, ink: Ink) {
    let needed = if dialog.deed.needs_reason() { "reason (needed)" } else { "reason" };
    let mut lines = vec![Line::styled(dialog.question(), ink.strong()), Line::from(dialog.deed.meaning())];
    if let (Some(value), Some(needs)) = (&dialog.value, dialog.deed.needs()) {
        lines.push(Line::from(format!("{}: {}{}", needs.label, escaped(value), caret(true))));
        lines.push(Line::styled(format!("then the {needed}"), ink.dim()));
    } else {
        let caret = caret(dialog.typed.is_none());
        lines.push(Line::from(format!("{needed}: {}{caret}", escaped(&dialog.reason))));
    }
    if let Some(number) = dialog.number() {
        lines.push(match &dialog.typed {
            Some(typed) => Line::from(format!("type {number} to go on: {typed}{}", caret(true))),
            None => Line::styled(format!("then {number} must be typed"), ink.dim()),
        });
    }
    if let Some(complaint) = dialog.complaint {
        lines.push(Line::styled(complaint, ink.bad()));
    }
    let width = area.width.min(72);
    // Long lines wrap; there is room for three more.
    let height = u16::try_from(lines.len() + 5).unwrap_or(8).min(area.height);
    let place =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(" Enter: do it   Esc: leave it ");
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), place);
}

fn caret(here: bool) -> &'static str {
    if here { "▏" } else { "" }
}
