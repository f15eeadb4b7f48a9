//! Charts as inline SVG: pure functions from numbers to text. No script and no style of their own: shapes carry classes for the page's
//! style sheet, and plain attributes that are legible without one, on light and on dark ground. Every chart has a name and a summary for
//! those who hear it, and the same numbers as a table below it.

use std::fmt::Write as _;
use std::time::Duration;

use crate::clock::{Moment, show_brief};
use crate::wheel::{Hour, Minute};

/// The drawing, in its own units: small enough that its text is still read on a phone.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 212.0;
/// The plot within it.
const LEFT: f64 = 62.0;
const RIGHT: f64 = 472.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 182.0;

/// What a colour stands for. The colours have a contrast of 3 and more against white and against near black; none is told by colour alone,
/// since each stands in the legend, in its column's hint and in the table.
struct Key {
    class: &'static str,
    word: &'static str,
    colour: &'static str,
}

/// The outcomes, in the order of [`outcomes`].
const OUTCOMES: [Key; 6] = [
    Key { class: "closed", word: "closed", colour: "#2e9e5b" },
    Key { class: "skipped", word: "skipped", colour: "#5b8def" },
    Key { class: "cancelled", word: "cancelled", colour: "#808894" },
    Key { class: "retried", word: "retried", colour: "#b8860b" },
    Key { class: "unavailable", word: "unavailable", colour: "#d9622b" },
    Key { class: "dead", word: "dead", colour: "#d13f5a" },
];

const P50: Key = Key { class: "p50", word: "p50", colour: "#2e9e5b" };
const P99: Key = Key { class: "p99", word: "p99 (dashed)", colour: "#d9622b" };

/// How late orders were taken, minute by minute: half of them no later than the one line, 99 of 100 no later than the other.
pub(super) fn lateness(hour: &Hour) -> String {
    let sum = hour.sum().lateness;
    let desc = match (sum.quantile(0.5), sum.quantile(0.99)) {
        (Some(p50), Some(p99)) => {
            format!(
                "Of {} orders half were at most {} late, 99 of 100 at most {}.",
                sum.count(),
                show_brief(p50),
                show_brief(p99)
            )
        }
        _ => "No order was taken in the last hour.".to_owned(),
    };
    let mut plot = Plot::new("lateness", "Lateness in the last hour", &desc, &[P50, P99]);
    // A millisecond to 300 s, the last bound of what is counted: each step is ten times the one below.
    let y = |late: Duration| {
        let decades = (late.as_secs_f64().max(0.001) / 0.001).log10();
        BOTTOM - (BOTTOM - TOP) * (decades / 300_000_f64.log10()).min(1.0)
    };
    for (ms, label) in
        [(1, "1 ms"), (10, "10 ms"), (100, "100 ms"), (1000, "1 s"), (10_000, "10 s"), (100_000, "100 s")]
    {
        plot.line_across(y(Duration::from_millis(ms)), label);
    }
    let starts: Vec<u64> = hour.minutes.iter().map(|minute| minute.from_ms).collect();
    plot.times(&starts);
    for (key, q) in [(P50, 0.5), (P99, 0.99)] {
        let points = hour.minutes.iter().enumerate().map(|(n, minute)| {
            minute
                .lateness
                .quantile(q)
                .map(|late| (column(n, starts.len()) + step(starts.len()) / 2.0, y(late)))
        });
        plot.curve(&key, points);
    }
    if sum.count() == 0 {
        plot.nothing("no order was taken");
    }
    let row = |minute: &Minute| {
        let late = |q| minute.lateness.quantile(q).map_or_else(|| "–".to_owned(), show_brief);
        [clock(minute.from_ms), minute.lateness.count().to_string(), late(0.5), late(0.99)].to_vec()
    };
    plot.end(&["minute (UTC)", "orders", "p50", "p99"], hour.minutes.iter().rev().map(row))
}

/// What became of orders, minute by minute, by outcome.
pub(super) fn throughput(hour: &Hour) -> String {
    let sum = hour.sum();
    let words: Vec<String> =
        OUTCOMES.iter().zip(outcomes(&sum)).map(|(key, count)| format!("{count} {}", key.word)).collect();
    let desc = format!("In the last hour: {}.", words.join(", "));
    let mut plot = Plot::new("throughput", "Closes in the last hour, by outcome", &desc, &OUTCOMES);
    let columns: Vec<Column> = hour
        .minutes
        .iter()
        .map(|minute| Column { from_ms: minute.from_ms, parts: outcomes(minute).to_vec() })
        .collect();
    plot.columns(&columns, &OUTCOMES);
    if outcomes(&sum) == [0; 6] {
        plot.nothing("nothing was closed");
    }
    let row = |column: &Column| {
        let counts = column.parts.iter().map(u64::to_string);
        [clock(column.from_ms)].into_iter().chain(counts).collect::<Vec<_>>()
    };
    let header = ["minute (UTC)", "closed", "skipped", "cancelled", "retried", "unavailable", "dead"];
    plot.end(&header, columns.iter().rev().map(row))
}

/// What became of orders in that minute: closed, skipped, cancelled, retried, unavailable, dead.
fn outcomes(minute: &Minute) -> [u64; 6] {
    let [closed, skipped, retried, unavailable, buried] = minute.counts();
    [closed, skipped, minute.cancelled, retried, unavailable, buried]
}

/// One column of a chart: parts on top of each other.
struct Column {
    from_ms: u64,
    parts: Vec<u64>,
}

/// A drawing under way.
struct Plot {
    text: String,
}

impl Plot {
    /// Begins a chart. `name` is its class and makes its ids, so it stands once on a page.
    fn new(name: &str, title: &str, desc: &str, keys: &[Key]) -> Self {
        let mut plot = Self { text: String::with_capacity(16_384) };
        plot.put(format_args!("<figure class=\"chart chart-{name}\">"));
        plot.legend(keys);
        plot.put(format_args!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"100%\" role=\"img\" \
             aria-labelledby=\"chart-{name}-title chart-{name}-desc\" font-size=\"13\" fill=\"currentColor\">\
             <title id=\"chart-{name}-title\">{title}</title><desc id=\"chart-{name}-desc\">{desc}</desc>\n"
        ));
        plot
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Text is never full.
        let _ = self.text.write_fmt(text);
    }

    /// What the colours stand for, as text that is broken where it must be.
    fn legend(&mut self, keys: &[Key]) {
        self.put(format_args!("<p class=\"legend\">"));
        for Key { class, word, colour } in keys {
            self.put(format_args!(
                "<span><svg width=\"10\" height=\"10\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"10\" \
                 height=\"10\" fill=\"{colour}\"/></svg> {word}</span> "
            ));
        }
        self.put(format_args!("</p>\n"));
    }

    /// A line of the grid with its label.
    fn line_across(&mut self, y: f64, label: &str) {
        self.put(format_args!(
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"currentColor\" \
             stroke-opacity=\"0.25\"/><text class=\"label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
            LEFT - 6.0,
            y + 4.0,
        ));
    }

    /// The moments below the plot: five at most, the first and the last among them.
    fn times(&mut self, starts: &[u64]) {
        let last = starts.len().saturating_sub(1);
        let mut marks: Vec<usize> = (0..=4).map(|quarter| last * quarter / 4).collect();
        marks.dedup();
        for n in marks {
            let Some(start) = starts.get(n) else { continue };
            let (x, anchor) = match n {
                0 => (LEFT, "start"),
                n if n == last => (RIGHT, "end"),
                n => (column(n, starts.len()) + step(starts.len()) / 2.0, "middle"),
            };
            self.put(format_args!(
                "<text class=\"label\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>\n",
                BOTTOM + 18.0,
                clock(*start)
            ));
        }
    }

    /// A line through points, interrupted where one is missing; a point without neighbours is a dot.
    fn curve(&mut self, key: &Key, points: impl Iterator<Item = Option<(f64, f64)>>) {
        let mut run: Vec<(f64, f64)> = Vec::new();
        for point in points.chain([None]) {
            match point {
                Some(point) => run.push(point),
                None => self.stretch(key, &std::mem::take(&mut run)),
            }
        }
    }

    fn stretch(&mut self, key: &Key, run: &[(f64, f64)]) {
        let Key { class, colour, .. } = key;
        match run {
            [] => {}
            [(x, y)] => self.put(format_args!(
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n"
            )),
            run => {
                let points: Vec<String> = run.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                let dashes = if key.class == P99.class { " stroke-dasharray=\"5 3\"" } else { "" };
                self.put(format_args!(
                    "<polyline class=\"{class}\" points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>\n",
                    points.join(" ")
                ));
            }
        }
    }

    /// Columns with their scale; pointing at one tells its numbers.
    fn columns(&mut self, columns: &[Column], keys: &[Key]) {
        let height = |column: &Column| column.parts.iter().map(|part| *part as f64).sum::<f64>();
        let top = ceiling(columns.iter().map(height).fold(0.0, f64::max));
        for quarter in [0.0, 0.5, 1.0] {
            let label = if top < 2.0 && quarter == 0.5 { String::new() } else { count(top * quarter) };
            self.line_across(BOTTOM - (BOTTOM - TOP) * quarter, &label);
        }
        let starts: Vec<u64> = columns.iter().map(|column| column.from_ms).collect();
        self.times(&starts);
        let wide = step(columns.len());
        for (n, one) in columns.iter().enumerate().filter(|(_, one)| height(one) > 0.0) {
            let told = keys.iter().zip(&one.parts).filter(|(_, part)| **part > 0);
            let told: Vec<String> = told.map(|(key, part)| format!("{part} {}", key.word)).collect();
            self.put(format_args!("<g><title>{}: {}</title>", clock(one.from_ms), told.join(", ")));
            let mut y = BOTTOM;
            for (key, part) in keys.iter().zip(&one.parts).filter(|(_, part)| **part > 0) {
                // What was is seen, however little of it.
                let tall = ((BOTTOM - TOP) * (*part as f64 / top)).max(1.0);
                y = (y - tall).max(TOP);
                self.put(format_args!(
                    "<rect class=\"{}\" x=\"{:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{tall:.1}\" fill=\"{}\"/>",
                    key.class,
                    column(n, columns.len()) + wide * 0.1,
                    wide * 0.8,
                    key.colour
                ));
            }
            self.put(format_args!("</g>\n"));
        }
    }

    /// Says in the middle that there is nothing to see.
    fn nothing(&mut self, why: &str) {
        self.put(format_args!(
            "<text class=\"nothing\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{why}</text>\n",
            (LEFT + RIGHT) / 2.0,
            // Between two lines of either chart's grid.
            (TOP + BOTTOM) / 2.0 - 18.0
        ));
    }

    /// Ends the chart with its numbers as a table.
    fn end(mut self, header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
        let line = BOTTOM;
        self.put(format_args!(
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{line}\" y2=\"{line}\" stroke=\"currentColor\"/>\n</svg>\n\
             <details class=\"chart-numbers\"><summary>Numbers</summary><table><thead><tr>"
        ));
        header.iter().for_each(|word| self.put(format_args!("<th scope=\"col\">{word}</th>")));
        self.put(format_args!("</tr></thead><tbody>\n"));
        for row in rows {
            self.put(format_args!("<tr>"));
            for (n, cell) in row.iter().enumerate() {
                match n {
                    0 => self.put(format_args!("<th scope=\"row\">{cell}</th>")),
                    _ => self.put(format_args!("<td>{cell}</td>")),
                }
            }
            self.put(format_args!("</tr>\n"));
        }
        self.put(format_args!("</tbody></table></details></figure>\n"));
        self.text
    }
}

/// The left edge of the n-th of so many columns.
fn column(n: usize, columns: usize) -> f64 {
    LEFT + step(columns) * n as f64
}

fn step(columns: usize) -> f64 {
    (RIGHT - LEFT) / columns.max(1) as f64
}

/// The next round number: 1, 2 or 4 and zeros, so that its half is round, too.
fn ceiling(most: f64) -> f64 {
    let mut size = 1.0;
    loop {
        // Half of it is labelled, too, and must be whole.
        for round in [1.0, 2.0, 4.0, 5.0, 6.0, 8.0] {
            if most <= round * size && (round != 5.0 || size > 1.0) {
                return round * size;
            }
        }
        size *= 10.0;
    }
}

/// A number for an axis: 950, 2k, 2.5M.
fn count(number: f64) -> String {
    const UNITS: [(f64, &str); 6] =
        [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match UNITS.iter().find(|(unit, _)| number >= *unit) {
        Some((unit, letter)) => format!("{}{letter}", (number / unit * 10.0).round() / 10.0),
        None => format!("{number}"),
    }
}

/// The time of day in UTC, to the minute.
fn clock(ms: u64) -> String {
    let text = Moment::EPOCH.plus(Duration::from_millis(ms)).to_string();
    text.get(11..16).unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_772_337_600_000;

    fn hour(fill: impl Fn(usize, &mut Minute)) -> Hour {
        let minutes = (0..60).map(|n| {
            let mut minute = Minute::at(Moment::EPOCH.plus(Duration::from_millis(START + n as u64 * 60_000)));
            fill(n, &mut minute);
            minute
        });
        Hour { now_ms: START + 3_599_000, minutes: minutes.collect() }
    }

    fn busy() -> Hour {
        hour(|n, minute| {
            let n = n as u64;
            minute.closed = 400 + 37 * (n % 11);
            minute.skipped = n % 7 * 9;
            if (20..26).contains(&n) {
                (minute.closed, minute.unavailable, minute.retried, minute.buried) = (0, 600, 40, 12);
            }
            minute.lateness.put(1 + n as usize % 3, 500);
            minute.lateness.put(if (24..30).contains(&n) { 13 } else { 5 }, 20);
        })
    }

    /// Tags that are opened and closed in turn, without a parser: good enough for text that has no other `<`.
    fn well_formed(text: &str) {
        let mut open = Vec::new();
        for tag in text.split('<').skip(1) {
            let (tag, _) = tag.split_once('>').expect("a tag ends");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{tag}");
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().unwrap());
            }
        }
        assert!(open.is_empty(), "{open:?}");
        for bad in ["NaN", "inf", "<script", "style=", " on", "href"] {
            assert!(!text.contains(bad), "{bad} in {text}");
        }
        for word in ["role=\"img\"", "<title id=", "<desc id=", "<table>"] {
            assert!(text.contains(word), "no {word}");
        }
    }

    #[test]
    fn a_busy_hour_looks_as_it_did() {
        insta::assert_snapshot!("lateness", lateness(&busy()));
        insta::assert_snapshot!("throughput", throughput(&busy()));
    }

    #[test]
    fn empty_single_and_huge_numbers_make_whole_drawings() {
        let one = hour(|n, minute| {
            if n == 30 {
                minute.closed = 1;
                minute.lateness.put(0, 1);
            }
        });
        let huge = hour(|_, minute| {
            (minute.closed, minute.skipped, minute.buried) = (u64::MAX, u64::MAX, 1);
            minute.lateness.put(16, u64::MAX);
        });
        let none = Hour { now_ms: 0, minutes: Vec::new() };
        for hour in [&busy(), &one, &huge, &none, &hour(|_, _| {})] {
            well_formed(&lateness(hour));
            well_formed(&throughput(hour));
        }
        assert!(lateness(&one).contains("<circle"), "a lone point is a dot");
        assert!(lateness(&none).contains("no order was taken"));
        assert!(throughput(&huge).contains(">40E<"), "{}", throughput(&huge));
    }

    #[test]
    fn an_axis_ends_at_a_round_number_above_all() {
        let tops = [(0.0, 1.0), (1.0, 1.0), (3.0, 4.0), (5.0, 6.0), (9.0, 10.0), (11.0, 20.0), (44.0, 50.0)];
        for (most, top) in
            tops.into_iter().chain([(399.0, 400.0), (401.0, 500.0), (601.0, 800.0), (801.0, 1000.0)])
        {
            assert_eq!(ceiling(most), top);
        }
        assert_eq!([0.0, 500.0, 1000.0, 2500.0, 4e6].map(count), ["0", "500", "1k", "2.5k", "4M"]);
    }
}
