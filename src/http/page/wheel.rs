//! The wheel itself: shards by time, as warm as they are full; what each shard holds, and the oldest that it has let wait.

use std::time::Duration;

use askama::Template;
use futures_util::future::try_join_all;

use super::fault::Outcome;
use super::figure::{At, count, span};
use super::frame::Frame;
use super::histogram::Histogram;
use super::outlook::Stretches;
use super::parameters::Link;
use super::visit::Visit;
use crate::clock::Moment;
use crate::shard::Shard;
use crate::wheel::answer::ForecastBucket;

/// How far ahead is looked: the word, the length of a column in seconds, and how many there are.
const SPANS: [(&str, u64, u32); 5] =
    [("1h", 150, 24), ("5m", 15, 20), ("6h", 900, 24), ("24h", 3600, 24), ("7d", 21_600, 28)];
/// Shards on one page: more rows than that nobody reads.
const ROWS: u16 = 64;

#[derive(Template)]
#[template(path = "wheel.html")]
struct Page {
    frame: Frame,
    spans: Vec<Span>,
    columns: Vec<Column>,
    rows: Vec<Row>,
    hour: Histogram,
    step: String,
    complaints: Vec<String>,
    pages: Vec<Span>,
    shards: String,
    /// How many shards are counted, where not all are.
    counted: Option<String>,
    skew: Option<String>,
    now: At,
}

/// A choice: what it is called, where it leads, whether it is made.
struct Span {
    label: String,
    href: String,
    current: bool,
}

/// The head of a column.
struct Column {
    label: String,
}

/// One shard.
struct Row {
    shard: u16,
    href: String,
    scheduled: String,
    dead: String,
    leased: String,
    overdue: Cell,
    oldest: String,
    cells: Vec<Cell>,
    stopped: &'static str,
}

/// One stretch of one shard.
struct Cell {
    heat: &'static str,
    href: String,
    label: String,
    title: String,
}

impl Cell {
    /// What nobody has counted yet.
    fn awaited() -> Self {
        Self { heat: "awaited", href: String::new(), label: String::new(), title: String::new() }
    }
}

/// `GET /wheels/{wheel}/wheel`.
pub(super) async fn show(visit: Visit) -> Outcome {
    let wheel = visit.wheel();
    let mut complaints = Vec::new();
    let words: Vec<&'static str> = SPANS.iter().map(|(word, ..)| *word).collect();
    let word = visit.query.word("span", &words, &mut complaints);
    let (_, step, columns) = SPANS.into_iter().find(|(known, ..)| *known == word).unwrap_or(SPANS[0]);
    let all = wheel.shards().get();
    let first = visit.query.whole("first", 0..=u32::from(all - 1), 0, &mut complaints);
    let first = u16::try_from(first).unwrap_or(0) / ROWS * ROWS;
    let shown: Vec<Shard> = (first..all.min(first + ROWS)).map(Shard).collect();

    let now = wheel.now().await?;
    let step_ms = step * 1000;
    // Stretches begin at whole multiples, so that two looks a second apart show the same ones.
    let from_ms = now.as_millis() / step_ms * step_ms;
    let from = Moment::EPOCH.plus(Duration::from_millis(from_ms));
    let stats = try_join_all(wheel.shards().all().map(|shard| wheel.shard_stats(shard))).await?;
    let stretches = Stretches { from, step: Duration::from_secs(step), count: columns };
    let mut outlook = visit.seen()?.outlooks.look(wheel, stretches).await?;
    for (counts, stats) in outlook.shards.iter_mut().zip(&stats) {
        if let Some(first) = counts.as_mut().and_then(|counts| counts.first_mut()) {
            *first = first.saturating_sub(stats.due);
        }
    }
    let counts = &outlook.shards;
    let frame = visit.frame("Wheel");
    let listing = frame.at("/deadlines");
    let most = counts.iter().flatten().flatten().copied().max().unwrap_or(0);
    let starts: Vec<u64> = (0..u64::from(columns)).map(|n| from_ms + n * step_ms).collect();
    let rows = shown.iter().filter_map(|shard| {
        let (stats, counts) = (stats.get(usize::from(shard.0))?, counts.get(usize::from(shard.0))?);
        let of_shard = |state: &str| {
            Link::to(&listing).with("state", state).with("shard", &shard.to_string()).to_string()
        };
        let cell = |(start, number): (&u64, &u64)| {
            let link = Link::to(&listing)
                .with("from", &start.to_string())
                .with("to", &(start + step_ms - 1).to_string());
            Cell {
                heat: heat(*number, most),
                href: link.with("shard", &shard.to_string()).to_string(),
                label: brief(*number),
                title: format!("shard {shard}, {} from {} UTC", count(*number), clock(*start, step_ms)),
            }
        };
        Some(Row {
            shard: shard.0,
            href: of_shard(""),
            scheduled: count(stats.scheduled),
            dead: brief(stats.dead),
            leased: brief(stats.leased),
            overdue: Cell {
                heat: if stats.due == 0 { "" } else { "overdue" },
                href: of_shard("due"),
                label: brief(stats.due),
                title: format!("shard {shard}, {} due", count(stats.due)),
            },
            oldest: if stats.due == 0 {
                String::new()
            } else {
                span(Duration::from_millis(stats.oldest_due_ms))
            },
            cells: match counts {
                Some(counts) => starts.iter().zip(counts).map(cell).collect(),
                None => starts.iter().map(|_| Cell::awaited()).collect(),
            },
            stopped: match (stats.paused_shards, stats.tripped_shards) {
                (0, 0) => "",
                (_, 0) => "paused",
                _ => "tripped",
            },
        })
    });
    let rows: Vec<Row> = rows.collect();
    let sums = starts.iter().enumerate().map(|(n, start)| ForecastBucket {
        from_ms: *start,
        count: counts.iter().flatten().filter_map(|shard| shard.get(n)).sum(),
    });
    let sums: Vec<ForecastBucket> = sums.collect();
    let here = |span: &str, first: u16| {
        Link::to(frame.at("/wheel"))
            .with("span", span)
            .with("first", &if first == 0 { String::new() } else { first.to_string() })
            .to_string()
    };
    let mut spans: Vec<(&str, u64)> =
        SPANS.iter().map(|(word, step, columns)| (*word, step * u64::from(*columns))).collect();
    spans.sort_by_key(|(_, length)| *length);
    let pages = (0..all).step_by(usize::from(ROWS)).map(|start| Span {
        label: format!("{start} to {}", all.min(start + ROWS) - 1),
        href: here(word, start),
        current: start == first,
    });
    let page = Page {
        spans: spans
            .iter()
            .map(|(known, _)| Span {
                label: (*known).to_owned(),
                href: here(known, first),
                current: *known == word,
            })
            .collect(),
        pages: if all > ROWS { pages.collect() } else { Vec::new() },
        columns: starts.iter().map(|start| Column { label: clock(*start, step_ms) }).collect(),
        hour: Histogram::of(&sums, &listing, step_ms),
        step: crate::clock::show_duration(Duration::from_secs(step)),
        skew: skew(&stats.iter().map(|one| one.scheduled).collect::<Vec<_>>()),
        shards: count(all.into()),
        counted: (outlook.counted() < usize::from(all)).then(|| count(outlook.counted() as u64)),
        now: At::of(now),
        rows,
        complaints,
        frame,
    };
    visit.page(&page)
}

/// How warm a cell is: five steps by the share of the fullest one, so that little is told from nothing.
fn heat(number: u64, most: u64) -> &'static str {
    match number.saturating_mul(100) / most.max(1) {
        _ if number == 0 => "",
        0..10 => "h1",
        10..30 => "h2",
        30..55 => "h3",
        55..80 => "h4",
        _ => "h5",
    }
}

/// A count that fits a cell: `7`, `999`, `1.2k`, `35k`, `2M`.
fn brief(number: u64) -> String {
    match number {
        0 => String::new(),
        1..1000 => number.to_string(),
        1000..10_000 => format!("{}.{}k", number / 1000, number % 1000 / 100),
        10_000..1_000_000 => format!("{}k", number / 1000),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// Of a moment, what tells a column from the next.
fn clock(ms: u64, step_ms: u64) -> String {
    let full = Moment::EPOCH.plus(Duration::from_millis(ms)).to_string();
    let part = match step_ms {
        0..60_000 => full.get(11..19),
        60_000..3_600_000 => full.get(11..16),
        _ if full.get(11..16) == Some("00:00") || step_ms > 3_600_000 => {
            return full.get(5..13).unwrap_or_default().replace('T', " ") + "h";
        }
        _ => full.get(11..16),
    };
    part.unwrap_or_default().to_owned()
}

/// Whether one shard holds much more than its share; small numbers are uneven by chance.
fn skew(scheduled: &[u64]) -> Option<String> {
    let (sum, shards) = (scheduled.iter().sum::<u64>(), scheduled.len() as u64);
    let (shard, most) = scheduled.iter().copied().enumerate().max_by_key(|(_, number)| *number)?;
    let share = sum / shards.max(1);
    (share >= 100 && most > share * 2).then(|| {
        format!("Shard {shard} holds {} of {}, more than twice its share. Ids that are made alike may fall together.", count(most), count(sum))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_as_warm_as_it_is_full_and_little_is_told_from_nothing() {
        assert_eq!([0, 1, 29, 54, 79, 100].map(|n| heat(n, 100)), ["", "h1", "h2", "h3", "h4", "h5"]);
        assert_eq!([0, 1].map(|n| heat(n, 0)), ["", "h5"]);
        assert_eq!(
            ["", "999", "1.2k", "35k", "2M"],
            [0, 999, 1234, 35_999, 2_000_000].map(brief).each_ref().map(String::as_str)
        );
        assert_eq!(skew(&[100, 90, 110]), None);
        assert!(skew(&[500, 90, 110]).unwrap().starts_with("Shard 0 holds 500 of 700"));
        assert_eq!(skew(&[5, 0, 0]), None);
    }

    #[test]
    fn a_column_is_named_by_what_tells_it_from_the_next() {
        let at = Moment::parse("", "2026-03-01T04:30:15Z").unwrap().as_millis();
        assert_eq!([15_000, 150_000].map(|step| clock(at, step)), ["04:30:15", "04:30"]);
        assert_eq!(clock(at / 3_600_000 * 3_600_000, 3_600_000), "04:00");
        assert_eq!(clock(at / 86_400_000 * 86_400_000, 3_600_000), "03-01 00h");
    }
}
