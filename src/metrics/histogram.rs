//! A histogram of durations whose every part is an atomic, because claims and calls of all shards count into one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::family::MetricConstructor;
use prometheus_client::metrics::{MetricType, TypedMetric};

use super::Spread;

/// Counts durations by size. Cheap to clone; clones count together.
#[derive(Debug, Clone)]
pub struct Histogram {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Upper bounds in seconds, rising.
    bounds: &'static [f64],
    /// The same in microseconds.
    limits: Vec<u64>,
    /// One for each bound, and one for what is longer than all of them.
    counts: Vec<AtomicU64>,
    sum_us: AtomicU64,
}

impl Histogram {
    /// An empty one with these upper bounds, in seconds, rising.
    pub fn new(bounds: &'static [f64]) -> Self {
        let limits: Vec<u64> = bounds.iter().map(|bound| micros(Duration::from_secs_f64(*bound))).collect();
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { inner: Arc::new(Inner { bounds, limits, counts, sum_us: AtomicU64::new(0) }) }
    }

    /// Counts `times` durations of this length.
    pub fn observe(&self, duration: Duration, times: u64) {
        self.observe_us(micros(duration), times);
    }

    /// Counts `times` durations of so many microseconds.
    pub fn observe_us(&self, us: u64, times: u64) {
        let inner = &self.inner;
        let place = inner.limits.iter().position(|limit| us <= *limit).unwrap_or(inner.limits.len());
        if let Some(count) = inner.counts.get(place) {
            count.fetch_add(times, Ordering::Relaxed);
        }
        inner.sum_us.fetch_add(us.saturating_mul(times), Ordering::Relaxed);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.inner.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// What was counted so far, as a value.
    pub fn spread(&self) -> Spread {
        let counts = self.inner.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Spread::new(self.inner.limits.clone(), counts)
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let inner = &self.inner;
        // The encoder sums the counts up; the total is of the same reading, so that the last bucket never disagrees with it.
        let bounds = inner.bounds.iter().copied().chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> =
            bounds.zip(inner.counts.iter().map(|count| count.load(Ordering::Relaxed))).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = Duration::from_micros(inner.sum_us.load(Ordering::Relaxed)).as_secs_f64();
        let none: Option<&HashMap<usize, Exemplar<NoLabelSet, f64>>> = None;
        encoder.encode_histogram(sum, count, &buckets, none)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

/// Makes the histograms of a family.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds(pub(super) &'static [f64]);

impl MetricConstructor<Histogram> for Bounds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new(&[0.001, 0.01]);
        for us in [0, 1000, 1001, 10_000, 10_001, u64::MAX / 2] {
            histogram.observe_us(us, 1);
        }
        let counts: Vec<u64> = histogram.inner.counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        assert_eq!(counts, [2, 2, 2]);
        assert_eq!(histogram.count(), 6);
    }
}
