//! `[wheel.NAME.channel.CHANNEL]`: what a payment provider asks of deadlines, and how far it may hold them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::draft::Draft;
use super::section::{Findings, Section};
use crate::deadline::{Channel, Channels, HoldLimits};

const DAY: Duration = Duration::from_secs(86_400);

/// Reads all channels of a wheel; what one does not say of its holds is taken from `otherwise`.
pub(super) fn resolve(
    draft: &Draft,
    findings: &mut Findings,
    wheel: &str,
    needed_to_hold: bool,
    otherwise: HoldLimits,
) -> Channels {
    let below =
        |key: &&Vec<String>| key.len() > 3 && key[0] == "wheel" && key[1] == wheel && key[2] == "channel";
    let names: BTreeSet<String> = draft.values.keys().filter(below).map(|key| key[3].clone()).collect();
    let mut by_name = BTreeMap::new();
    for name in names {
        let mut section = Section::new(draft, findings, &["wheel", wheel, "channel", &name], None);
        section.is_table();
        by_name.insert(name.clone(), one(&mut section, otherwise));
    }
    Channels { by_name, needed_to_hold }
}

fn one(section: &mut Section<'_>, otherwise: HoldLimits) -> Channel {
    let mut limits = otherwise;
    let may_hold = !section.is_given("hold") || section.flag("hold");
    if section.is_given("hold_max_for") {
        limits.max_for = section.duration("hold_max_for", Duration::ZERO..=366 * DAY);
    }
    if section.is_given("hold_max_count") {
        limits.max_count = section.whole("hold_max_count", 0..=255);
    }
    if section.is_given("hold_max_total") {
        limits.max_total = section.duration("hold_max_total", Duration::ZERO..=49 * DAY);
    }
    let given = |section: &mut Section<'_>, key: &str| {
        if section.is_given(key) { section.duration(key, Duration::ZERO..=366 * DAY) } else { Duration::ZERO }
    };
    let (min_window, min_age) = (given(section, "min_window"), given(section, "min_age"));
    Channel { hold: may_hold.then_some(limits), min_window, min_age }
}
