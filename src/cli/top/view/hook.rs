//! The tab of the hook: lines that do not fit are scrolled to.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::hook::lines;
use super::super::look::Seen;
use super::super::overview::Tone;
use super::fitted;
use super::ink::Ink;

/// A head is at most so wide: a key of the configuration.
const HEAD: usize = 24;
/// And so wide where there is little room.
const NARROW: usize = 16;

/// Draws it; `chosen` is the line under the cursor.
pub fn draw(frame: &mut Frame<'_>, area: Rect, seen: &Seen, chosen: usize, ink: Ink) {
    let wide = if area.width < 60 { NARROW } else { HEAD };
    let tall = usize::from(area.height).max(1);
    let all = lines(seen);
    let from = chosen.saturating_sub(tall - 1);
    let shown = all.iter().enumerate().skip(from).take(tall).map(|(n, line)| {
        let mark = if n == chosen { ink.chosen() } else { ink.dim() };
        if line.is_title() {
            return Line::styled(
                fitted(&line.head, area.width),
                if n == chosen { mark } else { ink.strong() },
            );
        }
        let style = match line.tone {
            Tone::Plain => ink.plain(),
            Tone::Odd => ink.odd(),
            Tone::Bad => ink.bad(),
        };
        let head = fitted(&line.head, u16::try_from(wide).unwrap_or(area.width));
        let gap = wide.saturating_sub(Span::raw(head.as_str()).width());
        let left = area.width.saturating_sub(u16::try_from(wide + 2).unwrap_or(area.width));
        let value = fitted(&line.value, left);
        let taken = u16::try_from(Span::raw(value.as_str()).width() + 2).unwrap_or(left);
        Line::from(vec![
            Span::raw(" "),
            Span::styled(head, mark),
            Span::raw(" ".repeat(gap + 1)),
            Span::styled(value, style),
            Span::raw("  "),
            Span::styled(fitted(&line.remark, left.saturating_sub(taken)), ink.dim()),
        ])
    });
    frame.render_widget(Paragraph::new(shown.collect::<Vec<_>>()), area);
}
