//! What holds claiming back: `[wheel.NAME.clock]`, `[wheel.NAME.limit]`, `[wheel.NAME.circuit]`, `[wheel.NAME.breaker]`.

use std::time::Duration;

use super::draft::Draft;
use super::section::{Findings, Section};
use crate::wheel::{Band, Rate};
use crate::worker::{CircuitSettings, WorkerSettings};

const HOUR: Duration = Duration::from_secs(3600);

/// Reads one section into the settings.
type Read = fn(&mut Section<'_>, &mut WorkerSettings);

/// The sections, each of them also under `[defaults]`.
const SECTIONS: [(&str, Read); 4] =
    [("clock", clock), ("limit", limit), ("circuit", circuit), ("breaker", breaker)];

/// Reads the sections of one wheel.
pub(super) fn resolve(draft: &Draft, findings: &mut Findings, wheel: &str, worker: &mut WorkerSettings) {
    for (name, read) in SECTIONS {
        let mut section = Section::new(draft, findings, &["wheel", wheel, name], Some(&["defaults", name]));
        section.is_table();
        read(&mut section, worker);
    }
}

/// Reads what stands under `[defaults]`, so that it is known also where no wheel needs it.
pub(super) fn know_the_defaults(draft: &Draft, findings: &mut Findings) {
    for (name, read) in SECTIONS {
        let mut section = Section::new(draft, findings, &["defaults", name], None);
        read(&mut section, &mut WorkerSettings::default());
    }
}

fn clock(section: &mut Section<'_>, worker: &mut WorkerSettings) {
    worker.skew_max = section.duration("skew_max", Duration::ZERO..=HOUR);
}

fn limit(section: &mut Section<'_>, worker: &mut WorkerSettings) {
    let rate = section.number("rate", 0.0..=1e6);
    let burst = section.whole("burst", 0..=1_000_000);
    if rate == 0.0 {
        worker.rate = None;
        return;
    }
    // A quarter of a second's worth; in range, so nothing is cut.
    let burst = if burst == 0 { (rate / 4.0).ceil().max(1.0) as u32 } else { burst };
    worker.rate = section.checked("rate", Rate::new(rate, burst));
}

fn circuit(section: &mut Section<'_>, worker: &mut WorkerSettings) {
    worker.circuit = CircuitSettings {
        streak: section.whole("streak", 1..=1000),
        ratio: section.number("ratio", 0.01..=2.0),
        probe_interval: section
            .duration("probe_interval", Duration::from_millis(10)..=Duration::from_secs(60)),
    };
}

fn breaker(section: &mut Section<'_>, worker: &mut WorkerSettings) {
    worker.band = Band {
        closes_per_minute: section.whole("closes_per_minute", 0..=1_000_000_000),
        closed_ratio: section.number("closed_ratio", 0.0..=1.0),
        ratio_least: section.whole("ratio_least", 1..=1_000_000_000),
        rejected_run: section.whole("rejected_run", 0..=1_000_000_000),
    };
}
