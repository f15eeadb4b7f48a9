//! How the model is drawn: pure functions from the model to a frame, whatever its size. Colour is never the only sign of anything.

mod heat;
mod hook;
mod ink;
mod over;
mod table;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

use super::keys::KEYS;
use super::look::Seen;
use super::model::{Model, Overlay, Tab};
use super::overview::{Fact, Tone, alarms, facts};
use crate::clock::{show_brief, show_span};
use crate::figure::grouped;
use ink::Ink;

/// Below this nothing sensible fits.
const LEAST: (u16, u16) = (20, 5);
/// A name on the overview is at most so wide.
const NAME: usize = 10;

/// Draws the screen.
pub fn draw(frame: &mut Frame<'_>, model: &mut Model) {
    let (area, ink) = (frame.area(), Ink { colour: model.colour });
    if area.width < LEAST.0 || area.height < LEAST.1 {
        return frame.render_widget(Paragraph::new("duewheel top: too small"), area);
    }
    let mut banners = banners(model);
    banners.truncate(usize::from(area.height / 4).max(1));
    let tall = u16::try_from(banners.len()).unwrap_or(1);
    let [head, above, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(tall),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    model.page = usize::from(body.height.saturating_sub(1)).max(1);
    frame.render_widget(Paragraph::new(tabs(model, head.width, ink)), head);
    let lines: Vec<Line<'_>> = banners
        .into_iter()
        .map(|text| Line::styled(fitted(&format!(" {text}"), above.width), ink.bad()))
        .collect();
    frame.render_widget(Paragraph::new(lines), above);
    match &model.overlay {
        Overlay::Detail(detail) => over::detail(frame, body, detail, ink),
        Overlay::Help(from) => over::help(frame, body, *from, ink),
        _ => tab(frame, body, model, ink),
    }
    if let Overlay::Dialog(dialog) = &model.overlay {
        over::dialog(frame, body, dialog, ink);
    }
    frame.render_widget(Paragraph::new(footer(model, foot.width, body.height, ink)), foot);
}

/// What stands above everything: Redis is away, and what the last look found broken.
fn banners(model: &Model) -> Vec<String> {
    let mut banners = Vec::new();
    if let Some((why, since)) = &model.trouble {
        banners.push(format!("trying again for {}: {why}", show_span(*since)));
    }
    banners.extend(model.seen.iter().flat_map(alarms));
    banners
}

fn tabs(model: &Model, width: u16, ink: Ink) -> Line<'static> {
    let mut spans = vec![Span::styled(format!("{} ", fitted(&model.wheel, width / 3)), ink.strong())];
    let all = Tab::ALL.iter().map(|tab| tab.title().len() + 3).sum::<usize>() + model.wheel.len() + 2;
    if all > usize::from(width) {
        let place = model.tab.place() + 1;
        spans.push(Span::styled(format!("‹{place}/{} {}›", Tab::ALL.len(), model.tab.title()), ink.chosen()));
        return Line::from(spans);
    }
    for tab in Tab::ALL {
        let style = if tab == model.tab { ink.chosen() } else { ink.plain() };
        spans.push(Span::styled(format!("{} {}", tab.place() + 1, tab.title()), style));
        spans.push(Span::raw(" "));
    }
    Line::from(spans)
}

fn footer(model: &Model, width: u16, tall: u16, ink: Ink) -> Line<'static> {
    let (text, style) = if let Overlay::Filter(_) = model.overlay {
        (format!("/{}▏ Enter: filter, Esc: as before", crate::error::escaped(&model.filter)), ink.plain())
    } else if let Some(doing) = &model.doing {
        (format!("doing: {doing} …"), ink.odd())
    } else if let Some(said) = &model.said {
        (said.text.clone(), if said.is_bad { ink.bad() } else { ink.good() })
    } else {
        let keys = match (&model.overlay, model.tab) {
            (Overlay::Help(_), _) if KEYS.len() > usize::from(tall) => "↑ ↓ more  any other key: back",
            (Overlay::Help(_), _) => "any key: back",
            (Overlay::Dialog(_), _) => "Enter: go on  Esc: leave it",
            (Overlay::Detail(_), _) => "Esc back  r revive  c cancel  f close  t to  o hold  y copy",
            (_, Tab::Deadlines) => "Enter story  / filter  s state  c cancel  f close  t to  o hold  ? help",
            (_, Tab::Dead) => "Enter story  / filter  r revive  c drop  R C all  ? help",
            (_, Tab::Hooks) => "↑ ↓ more  p pause  ? help  q quit",
            (_, Tab::Workers) => "d drain or let go on  p pause  ? help  q quit",
            _ => "Tab: next  p pause  ? help  q quit",
        };
        let mode = if model.read_only { "read-only  " } else { "" };
        (format!("{mode}{keys}"), ink.dim())
    };
    Line::styled(fitted(&text, width), style)
}

fn tab(frame: &mut Frame<'_>, area: Rect, model: &Model, ink: Ink) {
    let Some(seen) = &model.seen else {
        let text = if model.trouble.is_some() { "nothing has been read yet" } else { "reading …" };
        return frame.render_widget(Paragraph::new(text), area);
    };
    match model.tab {
        Tab::Overview => overview(frame, area, seen, ink),
        Tab::Wheel => heat::draw(frame, area, seen, model.line(), ink),
        Tab::Deadlines | Tab::Dead => table::deadlines(frame, area, model, seen.now, ink),
        Tab::Hooks => hook::draw(frame, area, seen, model.line(), ink),
        Tab::Workers => table::workers(frame, area, model, seen, ink),
    }
}

fn overview(frame: &mut Frame<'_>, area: Rect, seen: &Seen, ink: Ink) {
    let facts = facts(seen);
    let [text, charts] =
        Layout::vertical([Constraint::Length(u16::try_from(facts.len()).unwrap_or(10)), Constraint::Min(0)])
            .areas(area);
    let lines: Vec<Line<'_>> = facts.iter().map(|fact| line(fact, text.width, ink)).collect();
    frame.render_widget(Paragraph::new(lines), text);
    if charts.height < 4 {
        return;
    }
    let closes: Vec<u64> = seen.hour.minutes.iter().map(|minute| minute.closed).collect();
    let most = closes.iter().max().copied().unwrap_or(0);
    let late: Vec<_> = seen.hour.minutes.iter().map(|minute| minute.lateness.quantile(0.99)).collect();
    let latest = late.iter().flatten().max();
    // By its order of magnitude: a quarter of a decade is one step, from a millisecond up.
    let heights: Vec<u64> = late
        .iter()
        .map(|late| late.map_or(0, |late| 1 + ((late.as_secs_f64() * 1000.0).max(1.0).log10() * 4.0) as u64))
        .collect();
    let [_, first, second] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Fill(1)]).areas(charts);
    let closed = format!("closed in each of the last 60 minutes, at most {}", grouped(most));
    spark(frame, first, &closed, &closes, ink);
    let text = latest.map_or_else(|| "–".to_owned(), |latest| show_brief(*latest));
    spark(
        frame,
        second,
        &format!("lateness p99, each step ten times in four, at most {text}"),
        &heights,
        ink,
    );
}

fn spark(frame: &mut Frame<'_>, area: Rect, title: &str, values: &[u64], ink: Ink) {
    let [head, plot] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    frame.render_widget(Paragraph::new(Line::styled(fitted(title, head.width), ink.dim())), head);
    // Where 60 columns do not fit, the last ones are shown.
    let from = values.len().saturating_sub(usize::from(plot.width));
    let shown = values.get(from..).unwrap_or_default();
    let tall = Rect { height: plot.height.min(8), ..plot };
    frame.render_widget(Sparkline::default().data(shown.iter().copied()).style(ink.good()), tall);
}

fn line(fact: &Fact, width: u16, ink: Ink) -> Line<'static> {
    let style = match fact.tone {
        Tone::Plain => ink.strong(),
        Tone::Odd => ink.odd(),
        Tone::Bad => ink.bad(),
    };
    let head = format!(" {:<NAME$} ", fact.name);
    let left = width.saturating_sub(u16::try_from(head.len()).unwrap_or(width));
    let value = fitted(&fact.value, left);
    let rest = left.saturating_sub(u16::try_from(value.chars().count() + 2).unwrap_or(left));
    Line::from(vec![
        Span::styled(head, ink.dim()),
        Span::styled(value, style),
        Span::raw("  "),
        Span::raw(fitted(&fact.remark, rest)),
    ])
}

/// Text cut to so many columns, with a sign that it was.
fn fitted(text: &str, width: u16) -> String {
    let width = usize::from(width);
    if Span::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        out.push(c);
        if Span::raw(out.as_str()).width() >= width {
            out.pop();
            break;
        }
    }
    if width > 0 {
        out.push('…');
    }
    out
}
