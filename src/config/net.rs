//! `[wheel.NAME.sweep]` and `[wheel.NAME.feed]`: the safety net over the orders table.

use std::time::Duration;

use super::draft::Draft;
use super::hook::HookSettings;
use super::section::{Findings, Section};
use super::shown_url;
use crate::deadline::Channels;
use crate::error::Error;
use crate::hook::sql::TimeType;
use crate::sweep::{FeedSettings, Schedule, SweepSettings};

const MS: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);

/// Reads both sections of a wheel, and checks them against its hook where that one declares a table.
pub(super) fn resolve(
    draft: &Draft,
    findings: &mut Findings,
    name: &str,
    hook: &HookSettings,
    channels: &Channels,
) -> (SweepSettings, FeedSettings) {
    let sweep_path = ["wheel", name, "sweep"];
    let mut section = Section::new(draft, findings, &sweep_path, Some(&["defaults", "sweep"]));
    section.is_table();
    let mut sweep = sweep(&mut section);
    if let Some(hook) = declared(hook)
        && let Err(Error::Config(problems)) = sweep.table(hook)
    {
        section.foreign_problems(&problems);
    }
    let feed_path = ["wheel", name, "feed"];
    let mut section = Section::new(draft, findings, &feed_path, Some(&["defaults", "feed"]));
    section.is_table();
    let mut feed = feed(&mut section);
    feed.channels = channels.clone();
    if feed.channel.is_some() && feed.time.is_none() {
        section
            .foreign_problems(&["channel: expected time beside it, which its rules count from".to_owned()]);
    }
    if let Some(hook) = declared(hook)
        && feed.time.is_some()
        && sweep.table(hook).is_ok()
        && let Err(Error::Config(problems)) = feed.table(hook, &sweep)
    {
        section.foreign_problems(&problems);
    } else if feed.table.is_none() && feed.time.is_some() {
        // The same column of the same table says whose rules hold for what sweep, rebuild and reconcile find.
        sweep.channel.clone_from(&feed.channel);
        sweep.created_at.clone_from(&feed.time);
        sweep.created_at_type = feed.time_type;
        sweep.channels = channels.clone();
    }
    (sweep, feed)
}

/// What no wheel needs is known all the same.
pub(super) fn know_the_defaults(draft: &Draft, scratch: &mut Findings) {
    sweep(&mut Section::new(draft, scratch, &["defaults", "sweep"], None));
    feed(&mut Section::new(draft, scratch, &["defaults", "feed"], None));
}

/// The hook's settings, where they name a table and are right in themselves.
pub(super) fn declared(hook: &HookSettings) -> Option<&crate::hook::sql::SqlSettings> {
    match hook {
        HookSettings::Sql(settings) if settings.call.is_none() && settings.validate().is_ok() => {
            Some(settings)
        }
        _ => None,
    }
}

fn sweep(section: &mut Section<'_>) -> SweepSettings {
    SweepSettings {
        every: section.parsed("every", Schedule::parse),
        urls: section.secrets("url", shown_url),
        time: section.text("time"),
        time_type: section.parsed("time_type", TimeType::parse),
        payload: section.text("payload"),
        channel: None,
        created_at: None,
        created_at_type: TimeType::Time,
        channels: Channels::default(),
        page: section.whole("page", 1..=10_000) as usize,
        rows_per_second: section.whole("rows_per_second", 1..=10_000_000),
        resurrect_max: section.whole("resurrect_max", 0..=1_000_000),
        rebuild: section.flag("rebuild"),
        statement_timeout: section.duration("statement_timeout", 10 * MS..=DAY / 24),
    }
}

fn feed(section: &mut Section<'_>) -> FeedSettings {
    let window = Duration::ZERO..=366 * DAY;
    FeedSettings {
        every: section.duration("every", 100 * MS..=DAY),
        time: section.text("time"),
        time_type: section.parsed("time_type", TimeType::parse),
        table: section.text("table"),
        key: section.text("key"),
        guard: section.text("guard"),
        close_at: section.text("close_at"),
        close_at_type: section.parsed("close_at_type", TimeType::parse),
        window: section.optional_duration("window", window.clone()),
        window_by: section.text("window_by"),
        windows: section.durations("windows", window).into_iter().collect(),
        channel: section.text("channel"),
        channels: Channels::default(),
        overlap: section.duration("overlap", Duration::ZERO..=DAY),
        page: section.whole("page", 1..=10_000) as usize,
    }
}
