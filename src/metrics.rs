//! What is measured: counters, gauges and histograms by the names of docs/metrics.md, as Prometheus reads them.
//!
//! Nothing here is global: whoever assembles a process makes one [`Metrics`] and hands it down; a worker or a store that was given none
//! counts into one of its own that nobody reads. Series are resolved once, so that counting is an atomic addition.

pub mod catalog;
mod exposition;
mod histogram;
mod process;
mod spread;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

pub use catalog::{Described, Kind, Scope, Unit};
pub use exposition::Exposition;
pub use histogram::Histogram;
pub use spread::Spread;

use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// A number that only grows. Cheap to clone; clones count together.
pub type Counter = prometheus_client::metrics::counter::Counter<u64, AtomicU64>;

/// A number that goes up and down. Cheap to clone; clones are one.
pub type Gauge = prometheus_client::metrics::gauge::Gauge<f64, AtomicU64>;

/// Names and values, in the order of the catalog.
type Labels = Vec<(&'static str, String)>;

/// Brings series up to date before they are read; answers whether its source still exists.
type Refresh = Box<dyn FnMut() -> bool + Send>;

/// Everything that is measured in one process. Cheap to clone; clones are one.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Registry,
    families: HashMap<&'static str, Series>,
    refreshes: Mutex<Vec<Refresh>>,
}

#[derive(Clone)]
enum Series {
    Counter(Family<Labels, Counter>),
    Gauge(Family<Labels, Gauge>),
    Histogram(Family<Labels, Histogram, histogram::Bounds>),
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Every family of the catalog, without series yet.
    pub fn new() -> Self {
        let (mut registry, mut families) = (Registry::default(), HashMap::new());
        for family in catalog::ALL {
            if family.name.starts_with("process_") {
                // Read from the system at each scrape.
                continue;
            }
            let series = match family.kind {
                Kind::Counter => Series::Counter(Family::default()),
                Kind::Gauge => Series::Gauge(Family::default()),
                Kind::Histogram(bounds) => {
                    Series::Histogram(Family::new_with_constructor(histogram::Bounds(bounds)))
                }
            };
            register(&mut registry, family, &series);
            families.insert(family.name, series);
        }
        registry.register_collector(Box::new(process::Process));
        let metrics = Self { inner: Arc::new(Inner { registry, families, refreshes: Mutex::default() }) };
        metrics.gauge(&catalog::BUILD_INFO, &[env!("CARGO_PKG_VERSION")]).set(1.0);
        metrics
    }

    /// The counter of this family with these values of its labels, at zero where it is new.
    pub fn counter(&self, family: &Described, values: &[&str]) -> Counter {
        match self.inner.families.get(family.name) {
            Some(Series::Counter(series)) => series.get_or_create_owned(&labels(family, values)),
            // Counted where nobody reads: a wrong kind is met by the tests of the catalog.
            _ => Counter::default(),
        }
    }

    /// The gauge of this family with these values of its labels, at zero where it is new.
    pub fn gauge(&self, family: &Described, values: &[&str]) -> Gauge {
        match self.inner.families.get(family.name) {
            Some(Series::Gauge(series)) => series.get_or_create_owned(&labels(family, values)),
            _ => Gauge::default(),
        }
    }

    /// The histogram of this family with these values of its labels.
    pub fn histogram(&self, family: &Described, values: &[&str]) -> Histogram {
        match (self.inner.families.get(family.name), family.kind) {
            (Some(Series::Histogram(series)), _) => series.get_or_create_owned(&labels(family, values)),
            (_, Kind::Histogram(bounds)) => Histogram::new(bounds),
            _ => Histogram::new(&[]),
        }
    }

    /// Takes a gauge out of the scrape: its value is not known any more.
    pub fn forget(&self, family: &Described, values: &[&str]) {
        if let Some(Series::Gauge(series)) = self.inner.families.get(family.name) {
            series.remove(&labels(family, values));
        }
    }

    /// Calls `refresh` before each scrape, to bring series up to date, until it answers `false`.
    pub fn before_scrape(&self, refresh: impl FnMut() -> bool + Send + 'static) {
        self.refreshes().push(Box::new(refresh));
    }

    /// Everything as text: OpenMetrics where `accept`, the header of the request, takes it, else the classic form.
    pub fn scrape(&self, accept: Option<&str>) -> Exposition {
        self.refreshes().retain_mut(|refresh| refresh());
        Exposition::of(&self.inner.registry, accept)
    }

    fn refreshes(&self) -> std::sync::MutexGuard<'_, Vec<Refresh>> {
        self.inner.refreshes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("families", &self.inner.families.len()).finish_non_exhaustive()
    }
}

fn labels(family: &Described, values: &[&str]) -> Labels {
    debug_assert_eq!(family.labels.len(), values.len(), "labels of {}", family.name);
    family.labels.iter().zip(values).map(|(name, value)| (*name, (*value).to_owned())).collect()
}

/// The name without what the encoder adds: the unit, and `_total` for a counter.
fn register(registry: &mut Registry, family: &Described, series: &Series) {
    let name = family.stem();
    match (series.clone(), family.unit.map(Unit::encoded)) {
        (Series::Counter(s), Some(unit)) => registry.register_with_unit(name, family.help, unit, s),
        (Series::Counter(s), None) => registry.register(name, family.help, s),
        (Series::Gauge(s), Some(unit)) => registry.register_with_unit(name, family.help, unit, s),
        (Series::Gauge(s), None) => registry.register(name, family.help, s),
        (Series::Histogram(s), Some(unit)) => registry.register_with_unit(name, family.help, unit, s),
        (Series::Histogram(s), None) => registry.register(name, family.help, s),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_read_by_its_name_and_labels() {
        let metrics = Metrics::new();
        metrics.counter(&catalog::CLAIMS, &["orders"]).inc_by(3);
        metrics.clone().counter(&catalog::CLAIMS, &["orders"]).inc();
        metrics.gauge(&catalog::BACKLOG, &["or\"ders"]).set(7.0);
        metrics.histogram(&catalog::LATENESS, &["orders"]).observe(std::time::Duration::from_millis(3), 2);
        let text = metrics.scrape(None).text;
        for line in [
            "duewheel_claims_total{wheel=\"orders\"} 4",
            "duewheel_backlog{wheel=\"or\\\"ders\"} 7.0",
            "duewheel_lateness_seconds_bucket{wheel=\"orders\",le=\"0.0025\"} 0",
            "duewheel_lateness_seconds_bucket{wheel=\"orders\",le=\"0.005\"} 2",
            "duewheel_lateness_seconds_bucket{wheel=\"orders\",le=\"+Inf\"} 2",
            "duewheel_lateness_seconds_sum{wheel=\"orders\"} 0.006",
            "duewheel_lateness_seconds_count{wheel=\"orders\"} 2",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
        }
        metrics.forget(&catalog::BACKLOG, &["or\"ders"]);
        assert!(!metrics.scrape(None).text.contains("duewheel_backlog{"));
    }

    #[test]
    fn a_refresh_runs_before_each_scrape_until_its_source_is_gone() {
        let metrics = Metrics::new();
        let (counter, mut left) = (metrics.counter(&catalog::CLAIMS, &["orders"]), 2);
        metrics.before_scrape(move || {
            counter.inc();
            left -= 1;
            left > 0
        });
        (0..4).for_each(|_| drop(metrics.scrape(None)));
        assert_eq!(metrics.counter(&catalog::CLAIMS, &["orders"]).get(), 2);
    }
}
