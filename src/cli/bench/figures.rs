//! The figures, and the options they were measured with.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::Bench;
use super::ticks::Ticks;
use crate::config::WheelConfig;
use crate::wheel::Wheel;

/// What was measured; absent where it was not asked for.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Deadlines placed in a second.
    pub enqueue_per_s: Option<u64>,
    /// Deadlines closed in a second, through the whole worker.
    pub drain_per_s: Option<u64>,
    /// The bare movement of data, by the same callers: placed in a second.
    pub floor_enqueue_per_s: Option<u64>,
    /// The same: claimed and settled in a second, without poller, hook, permits and leases to renew.
    pub floor_drain_per_s: Option<u64>,
    /// Memory of a scheduled deadline.
    pub bytes_per_deadline: Option<u64>,
    /// Memory of a remembered end, its event included.
    pub bytes_per_ended: Option<u64>,
    /// Redis's processor time of one deadline's whole life, in microseconds.
    pub redis_us_per_deadline: Option<f64>,
    /// The same for the bare movement of data.
    pub floor_us_per_deadline: Option<f64>,
    /// Hook start minus due_at by Redis's clock.
    pub lateness_ms: Option<Lateness>,
    /// The same for the bare movement of data: the answer of the claim minus the moment.
    pub floor_lateness_ms: Option<Lateness>,
    /// Hooks called before the moment.
    pub early: u64,
    /// Deadlines whose hook was never called.
    pub lost: u64,
    /// Deadlines whose hook was called more than once.
    pub twice: u64,
    /// What it was measured with.
    pub options: Options,
}

/// Lateness in milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Lateness {
    /// Half are at most this late.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1000.
    pub p999: f64,
    /// All.
    pub max: f64,
    /// How much of the machine's processor time its host took away meanwhile, in percent; absent where the system does not say.
    pub stolen_percent: Option<f64>,
}

impl Lateness {
    /// From a histogram of microseconds, and the ticks as they stood at its beginning.
    pub fn of(histogram: &Histogram<u64>, since: Option<Ticks>) -> Self {
        let ms = |us: u64| f64::from(u32::try_from(us).unwrap_or(u32::MAX)) / 1000.0;
        let stolen = |since: Ticks| Some(since.stolen_percent_until(Ticks::read()?));
        let stolen_percent = since.and_then(stolen).map(|percent| (percent * 100.0).round() / 100.0);
        let at = |quantile| ms(histogram.value_at_quantile(quantile));
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: ms(histogram.max()), stolen_percent }
    }

    /// For people.
    fn show(self) -> String {
        let Self { p50, p99, p999, max, .. } = self;
        let stolen =
            self.stolen_percent.map(|percent| format!(" (host took {percent:.1} %)")).unwrap_or_default();
        format!("p50 {p50:.2} ms, p99 {p99:.2} ms, p99.9 {p999:.2} ms, max {max:.2} ms{stolen}")
    }
}

/// What the figures were measured with.
#[derive(Debug, Serialize)]
pub struct Options {
    what: String,
    count: u64,
    payload: u32,
    callers: u32,
    rate: u64,
    seconds: u64,
    pending: u64,
    shards: u16,
    slot_width_ms: u32,
    concurrency: usize,
    claim_batch: usize,
    version: &'static str,
    debug_build: bool,
}

impl Figures {
    /// Nothing measured yet.
    pub fn new(args: &Bench, wheel: &Wheel, config: &WheelConfig) -> Self {
        let options = Options {
            what: format!("{:?}", args.what).to_lowercase(),
            count: args.count,
            payload: args.payload,
            callers: args.callers,
            rate: args.rate,
            seconds: args.seconds.as_secs(),
            pending: args.pending,
            shards: wheel.shards().get(),
            slot_width_ms: wheel.settings().slot_width.as_millis(),
            concurrency: config.worker.concurrency,
            claim_batch: config.worker.claim_batch,
            version: env!("CARGO_PKG_VERSION"),
            debug_build: cfg!(debug_assertions),
        };
        Self {
            enqueue_per_s: None,
            drain_per_s: None,
            floor_enqueue_per_s: None,
            floor_drain_per_s: None,
            bytes_per_deadline: None,
            bytes_per_ended: None,
            redis_us_per_deadline: None,
            floor_us_per_deadline: None,
            lateness_ms: None,
            floor_lateness_ms: None,
            early: 0,
            lost: 0,
            twice: 0,
            options,
        }
    }

    /// Whether the books balance.
    pub fn is_right(&self) -> bool {
        self.early == 0 && self.lost == 0 && self.twice == 0
    }

    /// For people.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let mut row = |name: &str, value: Option<String>| {
            rows.extend(value.map(|value| vec![name.to_owned(), value]));
        };
        row("enqueue", self.enqueue_per_s.map(|n| format!("{n}/s")));
        row("drain", self.drain_per_s.map(|n| format!("{n}/s")));
        row("enqueue, raw floor", self.floor_enqueue_per_s.map(|n| format!("{n}/s")));
        row("drain, raw floor", self.floor_drain_per_s.map(|n| format!("{n}/s")));
        row("memory of a deadline", self.bytes_per_deadline.map(|n| format!("{n} bytes")));
        row("memory of an end", self.bytes_per_ended.map(|n| format!("{n} bytes")));
        row("Redis time of a deadline", self.redis_us_per_deadline.map(|us| format!("{us:.1} us")));
        row("raw floor", self.floor_us_per_deadline.map(|us| format!("{us:.1} us")));
        row("lateness", self.lateness_ms.map(Lateness::show));
        row("lateness, raw floor", self.floor_lateness_ms.map(Lateness::show));
        row("early, lost, twice", Some(format!("{}, {}, {}", self.early, self.lost, self.twice)));
        if self.options.debug_build {
            row("build", Some("debug: figures of a release build are several times better".to_owned()));
        }
        rows
    }
}
