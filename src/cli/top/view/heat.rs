//! Shards by time: a row for each shard, a column for each minute to come, darker where more comes due.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::super::look::{MINUTES, Seen};
use super::ink::Ink;
use crate::figure::grouped;

/// From nothing to the most there is, by its order of magnitude.
const SHADES: [char; 6] = [' ', '·', '░', '▒', '▓', '█'];
/// Room for a shard's number on the left and its sum on the right.
const LEFT: usize = 6;
const RIGHT: usize = 10;

/// Draws it; `chosen` is the shard under the cursor.
pub fn draw(frame: &mut Frame<'_>, area: Rect, seen: &Seen, chosen: usize, ink: Ink) {
    let minutes = MINUTES as usize;
    let room = usize::from(area.width).saturating_sub(LEFT + RIGHT).max(1);
    // As many minutes in a column as it takes to fit.
    let in_column = minutes.div_ceil(room).max(1);
    let columns = |shard: &[u64]| shard.chunks(in_column).map(|some| some.iter().sum()).collect::<Vec<u64>>();
    let rows: Vec<Vec<u64>> = seen.heat.iter().map(|shard| columns(shard)).collect();
    let most = rows.iter().flatten().max().copied().unwrap_or(0);
    let wide = minutes.div_ceil(in_column);
    let mut lines = vec![head(wide, in_column)];
    let tall = usize::from(area.height).saturating_sub(2).max(1);
    let from = chosen.saturating_sub(tall.saturating_sub(1)).min(rows.len().saturating_sub(tall));
    for (shard, row) in rows.iter().enumerate().skip(from).take(tall) {
        let cells: String = row.iter().map(|count| shade(*count, most)).collect();
        let style = if shard == chosen { ink.chosen() } else { ink.dim() };
        let sum: u64 = row.iter().sum();
        lines.push(Line::from(vec![
            Span::styled(format!("{shard:>4} "), style),
            Span::raw(" "),
            Span::styled(format!("{cells:<wide$}"), ink.good()),
            Span::raw(format!(" {:>8}", grouped(sum))),
        ]));
    }
    let total: u64 = rows.iter().flatten().sum();
    let legend = format!(
        "{} in the next hour, overdue in the first column; {} of {} shards; █ is {}",
        grouped(total),
        rows.len().min(tall),
        rows.len(),
        grouped(most)
    );
    lines.push(Line::styled(super::fitted(&legend, area.width), ink.dim()));
    frame.render_widget(Paragraph::new(lines), area);
}

fn head(wide: usize, in_column: usize) -> Line<'static> {
    let mut text = format!("{:<LEFT$}", "shard");
    for minute in (0..MINUTES as usize).step_by(15) {
        let at = LEFT + minute / in_column;
        let label = if minute == 0 { "now".to_owned() } else { format!("+{minute}m") };
        if at >= text.chars().count() && at + label.len() <= LEFT + wide {
            text = format!("{text:<at$}{label}");
        }
    }
    Line::from(format!("{text:<width$} {:>8}", "sum", width = LEFT + wide))
}

fn shade(count: u64, most: u64) -> char {
    let last = SHADES.len() - 1;
    let place = match (count, most) {
        (0, _) => 0,
        (_, 0 | 1) => last,
        (count, most) => {
            let share = (count as f64).ln_1p() / (most as f64).ln_1p();
            1 + (share * (last - 1) as f64).round() as usize
        }
    };
    SHADES.get(place.min(last)).copied().unwrap_or(' ')
}
