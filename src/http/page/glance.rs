//! The wheel at a glance: what the overview shows. Read at most once a second however many people look, and the costlier parts of it at most
//! once in ten seconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::clock::Moment;
use crate::error::Result;
use crate::wheel::answer::{ForecastBucket, Stats};
use crate::wheel::{Held, Hour, JobRecord, ServerFacts, Wheel, WorkerRecord};

/// How old the numbers may be.
const FRESH: Duration = Duration::from_secs(1);
/// How old what costs more may be: the hour ahead looks into each of its slots.
const FRESH_WIDE: Duration = Duration::from_secs(10);
/// Minutes that are called lately.
const LATELY: usize = 10;
/// A stretch of the forecast.
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// What is seen at one moment.
#[derive(Debug, Clone)]
pub(super) struct Glance {
    pub now: Moment,
    pub stats: Stats,
    pub workers: Vec<WorkerRecord>,
    /// Those that fell silent lately without a word, the latest first.
    pub lost: Vec<WorkerRecord>,
    pub held: Held,
    /// How many fire within the next minute and five minutes, without what is due already.
    pub next_minute: u64,
    pub next_five: u64,
    /// Deadlines put aside within the last ten minutes.
    pub buried_lately: u64,
    pub wide: Arc<Wide>,
}

/// The costlier part.
#[derive(Debug, Default)]
pub(super) struct Wide {
    /// The next hour, minute by minute, without what is due already.
    pub hour: Vec<ForecastBucket>,
    /// What was done in the last hour.
    pub done: Hour,
    pub redis: ServerFacts,
    pub sweep: JobRecord,
    /// The last finished run of the sweep: its report.
    pub last_sweep: Option<serde_json::Value>,
}

impl Wide {
    async fn of(wheel: &Wheel, now: Moment, due: u64) -> Result<Self> {
        let mut hour = wheel.forecast(now, MINUTE, 60).await?;
        if let Some(first) = hour.first_mut() {
            first.count = first.count.saturating_sub(due);
        }
        let last_sweep = wheel.job_runs("sweep", 1).await?.pop();
        Ok(Self {
            hour,
            done: wheel.hour().await?,
            redis: wheel.store().facts().await?,
            sweep: wheel.job_record("sweep").await?,
            last_sweep: last_sweep.and_then(|text| serde_json::from_str(&text).ok()),
        })
    }
}

impl Glance {
    async fn of(wheel: &Wheel, wide: Option<Arc<Wide>>) -> Result<Self> {
        let (stats, presence, held) = tokio::try_join!(wheel.stats(), wheel.presence(), wheel.held_by())?;
        let now = wheel.now().await?;
        let near = wheel.forecast(now, MINUTE, 5).await?;
        let wide = match wide {
            Some(wide) => wide,
            None => Arc::new(Wide::of(wheel, now, stats.due).await?),
        };
        let within = |minutes: usize| {
            near.iter().take(minutes).map(|bucket| bucket.count).sum::<u64>().saturating_sub(stats.due)
        };
        Ok(Self {
            now,
            next_minute: within(1),
            next_five: within(5),
            buried_lately: wide.done.last(LATELY).buried,
            workers: presence.workers,
            lost: presence.lost,
            held,
            wide,
            stats,
        })
    }

    /// How many fire within the next hour, without what is due already.
    pub fn next_hour(&self) -> u64 {
        self.wide.hour.iter().map(|bucket| bucket.count).sum()
    }

    /// A number of the last sweep's report; 0 where there is none.
    pub fn sweep_number(&self, name: &str) -> u64 {
        self.wide.last_sweep.as_ref().and_then(|report| report.get(name)?.as_u64()).unwrap_or(0)
    }

    /// A wheel that keeps all its promises.
    #[cfg(test)]
    pub fn calm() -> Self {
        let now = Moment::host_now();
        let worker = WorkerRecord {
            token: "t".to_owned(),
            host: "h".to_owned(),
            pid: 1,
            version: "0".to_owned(),
            started_ms: 0,
            in_flight: 0,
            draining: false,
            drained: None,
            clocks: std::collections::BTreeMap::new(),
            pauses: std::collections::BTreeMap::new(),
            held_back: Vec::new(),
            claims: Vec::new(),
        };
        let wide = Wide { sweep: JobRecord { ran_at: Some(now), ..JobRecord::default() }, ..Wide::default() };
        Self {
            now,
            stats: Stats { shards: 16, scheduled: 7, ..Stats::default() },
            workers: vec![worker],
            lost: Vec::new(),
            held: Held::default(),
            next_minute: 0,
            next_five: 0,
            buried_lately: 0,
            wide: Arc::new(wide),
        }
    }
}

/// The last glance at one wheel.
#[derive(Debug, Default)]
pub(super) struct Glances(Mutex<Option<Seen>>);

#[derive(Debug)]
struct Seen {
    at: Instant,
    wide_at: Instant,
    glance: Arc<Glance>,
}

impl Glances {
    /// A glance that is fresh enough. Who comes while another looks waits and is given the same.
    pub async fn look(&self, wheel: &Wheel) -> Result<Arc<Glance>> {
        let mut seen = self.0.lock().await;
        let now = Instant::now();
        if let Some(seen) = seen.as_ref().filter(|seen| now.duration_since(seen.at) < FRESH) {
            return Ok(seen.glance.clone());
        }
        let known = seen.as_ref().filter(|seen| now.duration_since(seen.wide_at) < FRESH_WIDE);
        let wide = known.map(|seen| seen.glance.wide.clone());
        let wide_at = known.map_or(now, |seen| seen.wide_at);
        let glance = Arc::new(Glance::of(wheel, wide).await?);
        *seen = Some(Seen { at: now, wide_at, glance: glance.clone() });
        Ok(glance)
    }

    /// The next look is a new one: something was done.
    pub async fn forget(&self) {
        *self.0.lock().await = None;
    }
}
