//! The meter: reads now and then what only Redis knows (the backlog, the dead, who is there, when the jobs ran, how Redis itself stands),
//! so that a scrape costs Redis nothing. It spends a fiftieth of its time reading at most: a wheel that is far behind is read less often.

use std::time::{Duration, Instant, SystemTime};

use super::service::Service;
use crate::clock::Moment;
use crate::error::Result;
use crate::metrics::{Described, Metrics, catalog};
use crate::wheel::answer::Stats;
use crate::wheel::{JOBS, ServerFacts, Wheel};

/// Between two readings.
const PAUSE: Duration = Duration::from_secs(5);
/// A pause is at least so many times as long as the reading before it.
const REST: u32 = 50;
/// Readings of Redis itself, and of the jobs, are taken this seldom: one in so many.
const SELDOM: u32 = 2;
/// And of incidents, each of which is read whole.
const RARELY: u32 = 6;

/// What is left of the findings of one level.
const LEVELS: [&str; 3] = ["high", "medium", "low"];

/// Reads one wheel.
pub struct Meter {
    wheel: Wheel,
    metrics: Metrics,
    passes: u32,
}

impl Meter {
    /// Reads this wheel into these metrics.
    pub fn new(wheel: Wheel, metrics: &Metrics) -> Self {
        let meter = Self { wheel, metrics: metrics.clone(), passes: 0 };
        meter.set(&catalog::WHEEL_READ_TIMESTAMP, &[], 0.0);
        meter
    }

    async fn read(&self) -> Result<()> {
        let stats = self.wheel.stats().await?;
        self.show(&stats);
        let workers = self.wheel.presence().await?.workers;
        let draining = workers.iter().filter(|worker| worker.draining).count();
        self.set(&catalog::WORKERS, &["serving"], count(workers.len() - draining));
        self.set(&catalog::WORKERS, &["draining"], count(draining));
        if self.passes.is_multiple_of(SELDOM) {
            self.read_jobs().await?;
            self.show_server(&self.wheel.store().facts().await?);
        }
        if self.passes.is_multiple_of(RARELY) {
            let incidents = self.wheel.incidents(false).await?;
            for kind in ["closed", "dead", "closing"] {
                let of_kind = incidents.iter().filter(|incident| incident.kind.as_str() == kind).count();
                self.set(&catalog::OPEN_INCIDENTS, &[kind], count(of_kind));
            }
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.set(&catalog::WHEEL_READ_TIMESTAMP, &[], now.as_secs_f64());
        Ok(())
    }

    fn show(&self, stats: &Stats) {
        for (family, value) in [
            (&catalog::BACKLOG, stats.due),
            (&catalog::SCHEDULED, stats.scheduled),
            (&catalog::LEASED, stats.leased),
            (&catalog::DEAD, stats.dead),
            (&catalog::ENDED, stats.ended),
            (&catalog::SHARDS, stats.shards),
            (&catalog::PAUSED_SHARDS, stats.paused_shards),
            (&catalog::TRIPPED_SHARDS, stats.tripped_shards),
        ] {
            self.set(family, &[], value as f64);
        }
        self.set(&catalog::OLDEST_DUE_AGE, &[], millis(stats.oldest_due_ms));
        for (change, total) in &stats.totals {
            // Redis's own count: it is taken over, and not added to.
            let counter = self.metrics.counter(&catalog::CHANGES, &[self.wheel.name().as_str(), change]);
            counter.inner().store(*total, std::sync::atomic::Ordering::Relaxed);
        }
    }

    async fn read_jobs(&self) -> Result<()> {
        for job in JOBS {
            let record = self.wheel.job_record(job).await?;
            let ran_at = record.ran_at.map_or(0, Moment::as_millis);
            self.set(&catalog::JOB_LAST_RUN_TIMESTAMP, &[job], millis(ran_at));
            for (field, mark) in &record.fields {
                let database = field.strip_prefix("mark.").filter(|_| job == "feed");
                let mark: Option<serde_json::Value> = serde_json::from_str(mark).ok();
                let at_ms = mark.and_then(|mark| mark.get("ms")?.as_u64());
                if let (Some(database), Some(at_ms)) = (database, at_ms) {
                    self.set(&catalog::FEED_WATERMARK_TIMESTAMP, &[database], millis(at_ms));
                }
            }
        }
        let last = self.wheel.job_runs("reconcile", 1).await?;
        if let Some(report) = last.first().and_then(|text| serde_json::from_str(text).ok()) {
            self.show_findings(&report);
        }
        Ok(())
    }

    /// The last reconciliation, as its runner wrote it.
    fn show_findings(&self, report: &serde_json::Value) {
        let sections = ["classes", "rules"].into_iter().filter_map(|part| report.get(part)?.as_array());
        let sections: Vec<&serde_json::Value> = sections.flatten().collect();
        let number = |section: &serde_json::Value, field: &str| section.get(field).and_then(|v| v.as_u64());
        for level in LEVELS {
            let of_level = sections.iter().filter(|s| s.get("level").and_then(|v| v.as_str()) == Some(level));
            let left = of_level.map(|section| {
                let found = number(section, "count").unwrap_or(0);
                found.saturating_sub(number(section, "healed").unwrap_or(0))
            });
            self.set(&catalog::RECONCILE_FINDINGS, &[level], left.sum::<u64>() as f64);
        }
        let unanswered = sections.iter().filter(|s| s.get("error").is_some_and(|error| !error.is_null()));
        self.set(&catalog::RECONCILE_UNANSWERED, &[], count(unanswered.count()));
    }

    fn show_server(&self, facts: &ServerFacts) {
        let flag =
            |field: &str, good: &str| facts.field(field).map(|value| if value == good { 1.0 } else { 0.0 });
        let number = |field: &str| facts.field(field).and_then(|value| value.parse::<f64>().ok());
        let written = [flag("aof_last_write_status", "ok"), flag("rdb_last_bgsave_status", "ok")];
        for (family, value) in [
            (&catalog::REDIS_PRIMARY, flag("role", "master")),
            (&catalog::REDIS_AOF_ENABLED, flag("aof_enabled", "1")),
            (&catalog::REDIS_PERSISTENCE_OK, written.into_iter().flatten().reduce(f64::min)),
            (&catalog::REDIS_NOEVICTION, flag("maxmemory_policy", "noeviction")),
            (&catalog::REDIS_USED_MEMORY, number("used_memory")),
            (&catalog::REDIS_MAX_MEMORY, number("maxmemory")),
            (&catalog::REDIS_CONNECTED_REPLICAS, number("connected_slaves")),
        ] {
            match value {
                Some(value) => {
                    self.metrics.gauge(family, &[]).set(value);
                }
                None => self.metrics.forget(family, &[]),
            }
        }
    }

    fn set(&self, family: &Described, values: &[&str], value: f64) {
        let all: Vec<&str> = [self.wheel.name().as_str()].into_iter().chain(values.iter().copied()).collect();
        self.metrics.gauge(family, &all).set(value);
    }
}

fn count(count: usize) -> f64 {
    count as f64
}

fn millis(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

impl Service for Meter {
    const NAME: &'static str = "meter";

    async fn pass(&mut self) -> Result<Duration> {
        let began = Instant::now();
        self.read().await?;
        self.passes = self.passes.wrapping_add(1);
        Ok(PAUSE.max(began.elapsed() * REST))
    }
}
