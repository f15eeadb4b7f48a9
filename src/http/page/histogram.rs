//! Bars over time: how many deadlines fire in each stretch, as inline SVG without a style of its own. Each bar leads to its deadlines.

use super::figure::{At, count};
use super::parameters::Link;
use crate::wheel::answer::ForecastBucket;

/// Width and height of the picture, in its own units.
pub(super) const WIDTH: u64 = 720;
pub(super) const HEIGHT: u64 = 96;

/// The picture.
pub(super) struct Histogram {
    pub bars: Vec<Bar>,
    pub most: String,
    pub sum: String,
    pub from: Option<At>,
    pub to: Option<At>,
}

/// One stretch.
pub(super) struct Bar {
    pub x: u64,
    pub y: u64,
    pub width: u64,
    pub height: u64,
    pub href: String,
    pub label: String,
}

impl Histogram {
    /// Of stretches that are `step_ms` long; `listing` is where deadlines are listed.
    pub fn of(buckets: &[ForecastBucket], listing: &str, step_ms: u64) -> Self {
        let most = buckets.iter().map(|bucket| bucket.count).max().unwrap_or(0);
        let pitch = WIDTH / (buckets.len() as u64).max(1);
        let bar = |(n, bucket): (u64, &ForecastBucket)| {
            // What is there is seen, however little it is beside the most.
            let height = if bucket.count == 0 { 0 } else { (bucket.count * HEIGHT / most.max(1)).max(2) };
            let time = |ms: u64| {
                At::millis(ms)
                    .to_string()
                    .split('>')
                    .nth(1)
                    .unwrap_or_default()
                    .get(11..19)
                    .unwrap_or_default()
                    .to_owned()
            };
            let link = Link::to(listing)
                .with("from", &bucket.from_ms.to_string())
                .with("to", &(bucket.from_ms + step_ms - 1).to_string());
            Bar {
                x: n * pitch,
                y: HEIGHT - height,
                width: pitch.saturating_sub(2).max(1),
                height,
                href: link.to_string(),
                label: format!("{} from {} UTC", count(bucket.count), time(bucket.from_ms)),
            }
        };
        let ends = |ms: Option<u64>| ms.map(At::millis);
        Self {
            bars: (0..).zip(buckets).map(bar).collect(),
            most: count(most),
            sum: count(buckets.iter().map(|bucket| bucket.count).sum()),
            from: ends(buckets.first().map(|bucket| bucket.from_ms)),
            to: ends(buckets.last().map(|bucket| bucket.from_ms + step_ms)),
        }
    }

    pub fn view_box(&self) -> String {
        format!("0 0 {WIDTH} {HEIGHT}")
    }
}
