//! What a histogram has counted, as a value: kept, sent, merged with others of the same bounds, and asked for percentiles.

use std::time::Duration;

use super::{Kind, catalog};

/// So many durations of each size. Two of the same bounds can be added and subtracted, so that the percentiles of a whole fleet and of any
/// stretch of time can be told, which percentiles alone cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// Upper bounds in microseconds, rising.
    limits: Vec<u64>,
    /// One for each bound, and one for what is longer than all of them.
    counts: Vec<u64>,
}

impl Spread {
    /// Counts under these upper bounds in microseconds, rising.
    pub(super) fn new(limits: Vec<u64>, counts: Vec<u64>) -> Self {
        Self { limits, counts }
    }

    /// An empty one with the bounds of `duewheel_lateness_seconds`.
    pub fn of_lateness() -> Self {
        let bounds = match catalog::LATENESS.kind {
            Kind::Histogram(bounds) => bounds,
            Kind::Counter | Kind::Gauge => &[],
        };
        let limits: Vec<u64> = bounds.iter().map(|bound| (bound * 1e6).round() as u64).collect();
        let counts = vec![0; limits.len() + 1];
        Self { limits, counts }
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Counts `times` at that place: 0 is the first bound's, and one more than there are bounds is past all of them. A place that there is
    /// not is past all of them, too: a newer program may know more bounds.
    pub fn put(&mut self, place: usize, times: u64) {
        let last = self.counts.len().saturating_sub(1);
        if let Some(count) = self.counts.get_mut(place.min(last)) {
            *count = count.saturating_add(times);
        }
    }

    /// The places where anything was counted, and how often.
    pub fn places(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().copied().enumerate().filter(|(_, count)| *count > 0)
    }

    /// Adds what another one of the same bounds has counted.
    pub fn add(&mut self, other: &Self) {
        for (place, times) in other.places() {
            self.put(place, times);
        }
    }

    /// What was counted since an earlier moment of the same histogram.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let earlier = before.counts.iter().copied().chain(std::iter::repeat(0));
        let counts =
            self.counts.iter().zip(earlier).map(|(now, before)| now.saturating_sub(before)).collect();
        Self { limits: self.limits.clone(), counts }
    }

    /// The duration that the share `q` (0 to 1) of all does not exceed; `None` where nothing was counted.
    ///
    /// Exact to the bound below and above; between them it is interpolated. What is longer than the last bound is told as that bound, so it
    /// then means *at least*.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (q.clamp(0.0, 1.0) * count as f64).ceil().max(1.0);
        let mut before = 0_u64;
        for (place, times) in self.places() {
            let (from, to) = self.edges(place);
            if (before + times) as f64 >= rank {
                let share = ((rank - before as f64) / times as f64).clamp(0.0, 1.0);
                return Some(Duration::from_micros(from + ((to - from) as f64 * share).round() as u64));
            }
            before += times;
        }
        self.limits.last().map(|last| Duration::from_micros(*last))
    }

    /// Between which two durations, in microseconds, that place counts; the last has no end of its own and is its beginning.
    fn edges(&self, place: usize) -> (u64, u64) {
        let last = self.limits.last().copied().unwrap_or(0);
        let from = place.checked_sub(1).and_then(|below| self.limits.get(below)).copied().unwrap_or(0);
        (from, self.limits.get(place).copied().unwrap_or(last).max(from))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Metrics, catalog};
    use super::*;

    fn spread(micros: &[u64]) -> Spread {
        let histogram = Metrics::new().histogram(&catalog::LATENESS, &["orders"]);
        micros.iter().for_each(|us| histogram.observe_us(*us, 1));
        histogram.spread()
    }

    #[test]
    fn percentiles_of_known_input_are_told_between_the_bounds_around_them() {
        // 100 of 1 ms to 100 ms: half of them are at most 50 ms, 99 of them at most 99 ms.
        let all = spread(&(1..=100).map(|ms| ms * 1000).collect::<Vec<_>>());
        assert_eq!(all.count(), 100);
        assert_eq!(all.quantile(0.5), Some(Duration::from_millis(50)));
        assert_eq!(all.quantile(0.99), Some(Duration::from_millis(99)));
        assert_eq!(all.quantile(0.0), Some(Duration::from_millis(1)));
        assert_eq!(all.quantile(1.0), Some(Duration::from_millis(100)));
    }

    #[test]
    fn nothing_has_no_percentile_and_the_endless_is_told_as_the_last_bound() {
        assert_eq!(Spread::of_lateness().quantile(0.5), None);
        assert_eq!(spread(&[3_600_000_000]).quantile(0.5), Some(Duration::from_secs(300)));
        assert_eq!(spread(&[]), Spread::of_lateness());
    }

    proptest! {
        #[test]
        fn a_percentile_lies_between_the_bounds_of_the_true_one(
            mut micros in prop::collection::vec(0_u64..400_000_000, 1..300), q in 0.0_f64..=1.0,
        ) {
            let told = spread(&micros);
            micros.sort_unstable();
            let rank = ((q * micros.len() as f64).ceil() as usize).max(1);
            let exact = micros[rank - 1];
            let place = told.limits.iter().position(|limit| exact <= *limit).unwrap_or(told.limits.len());
            let (from, to) = told.edges(place);
            let us = told.quantile(q).unwrap().as_micros() as u64;
            prop_assert!((from..=to).contains(&us), "{us} for {exact} in {from}..={to}");
        }

        #[test]
        fn parts_added_up_are_the_whole_in_any_order(
            a in prop::collection::vec(0_u64..400_000_000, 0..100), b in prop::collection::vec(0_u64..400_000_000, 0..100),
        ) {
            let whole = spread(&[a.clone(), b.clone()].concat());
            let (mut ab, mut ba) = (spread(&a), spread(&b));
            ab.add(&spread(&b));
            ba.add(&spread(&a));
            prop_assert_eq!(&ab, &whole);
            prop_assert_eq!(&ba, &whole);
            prop_assert_eq!(whole.since(&spread(&a)), spread(&b));
            prop_assert_eq!(whole.count(), (a.len() + b.len()) as u64);
            let percentiles: Vec<_> = (0..=20).map(|n| whole.quantile(f64::from(n) / 20.0)).collect();
            prop_assert!(percentiles.is_sorted());
        }
    }
}
