//! What the system says of this process, read at each scrape. What cannot be read is left out.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::catalog::{self, Described, Kind, Unit};

/// Clock ticks of /proc in a second; the kernel's interface fixes it on every common architecture.
const TICKS: f64 = 100.0;
/// Of a page of memory.
const PAGE_BYTES: f64 = 4096.0;

#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The command's name stands in parentheses and may hold anything.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |place: usize| fields.get(place).and_then(|text| text.parse::<f64>().ok());
        let open = std::fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count());
        let cpu = field(11).zip(field(12)).map(|(user, system)| (user + system) / TICKS);
        let started = field(19).zip(booted()).map(|(ticks, booted)| booted + ticks / TICKS);
        for (family, value) in [
            (&catalog::PROCESS_START_TIME, started),
            (&catalog::PROCESS_CPU, cpu),
            (&catalog::PROCESS_RESIDENT_MEMORY, field(21).map(|pages| pages * PAGE_BYTES)),
            (&catalog::PROCESS_OPEN_FDS, open.and_then(|count| u32::try_from(count).ok()).map(f64::from)),
            (&catalog::PROCESS_MAX_FDS, max_files()),
        ] {
            if let Some(value) = value {
                write(&mut encoder, family, value)?;
            }
        }
        Ok(())
    }
}

fn write(encoder: &mut DescriptorEncoder<'_>, family: &Described, value: f64) -> Result<(), Error> {
    let unit = family.unit.map(Unit::encoded);
    let (counter, gauge) = (ConstCounter::new(value), ConstGauge::new(value));
    let is_counter = family.kind == Kind::Counter;
    let kind = if is_counter { counter.metric_type() } else { gauge.metric_type() };
    // The registry ends each help with a full stop; here it is ours to do.
    let help = format!("{}.", family.help);
    let metric = encoder.encode_descriptor(family.stem(), &help, unit.as_ref(), kind)?;
    if is_counter { counter.encode(metric) } else { gauge.encode(metric) }
}

/// When the machine was started, in seconds since 1970.
fn booted() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn max_files() -> Option<f64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
