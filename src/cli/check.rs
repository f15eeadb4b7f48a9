//! `duewheel check`: is everything fit for the job? Each finding says what to do about it.

mod net;
mod server;

use std::time::Duration;

use clap::Args;
use serde_json::json;
use server::Patched;

use super::context::Context;
use super::exit::Exit;
use super::failure::Outcome;
use super::hook::Closer;
use super::output::Output;
use crate::clock::Reading;
use crate::config::{ReminderSettings, WheelConfig};
use crate::error::{Error, Result, escaped};
use crate::wheel::{ServerFacts, Store, Wheel};

/// Above it a deadline that another host computed fires noticeably early or late for people.
const CLOCK_LIMIT: Duration = Duration::from_millis(500);

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(
    about = "Looks whether configuration, Redis and hook are fit for the job",
    long_about = "Looks whether configuration, Redis and hook are fit for the job, and says of each problem what to do. Changes \
                  nothing but a scratch shard, which goes away by itself. Exit code 3 where a problem was found; warnings leave 0. \
                  69 or 77 where Redis could not be asked at all, 78 where the configuration cannot be used.",
    after_help = "Examples:\n  duewheel check\n  duewheel check --wheel orders --json"
)]
pub struct Check {}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Warning,
    Problem,
}

#[derive(Debug, serde::Serialize)]
struct Finding {
    level: Level,
    check: String,
    found: String,
    advice: String,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, check: &str, found: impl Into<String>) {
        self.add(Level::Ok, check, found, "");
    }

    fn warning(&mut self, check: &str, found: impl Into<String>, advice: &str) {
        self.add(Level::Warning, check, found, advice);
    }

    fn problem(&mut self, check: &str, found: impl Into<String>, advice: &str) {
        self.add(Level::Problem, check, found, advice);
    }

    fn add(&mut self, level: Level, check: &str, found: impl Into<String>, advice: &str) {
        let (check, found, advice) = (check.to_owned(), found.into(), advice.to_owned());
        self.0.push(Finding { level, check, found, advice });
    }
}

/// Checks everything.
pub async fn run(_: &Check, context: &Context, output: &mut Output) -> Outcome {
    let mut findings = Findings::default();
    configuration(context, &mut findings);
    let store = context.store()?;
    let redis = redis(&store, &mut findings).await;
    let (clock, down) = (redis.as_ref().ok().copied().flatten(), redis.err());
    let wheels: Vec<&WheelConfig> = match &context.wheel {
        Some(_) => vec![context.wheel_config()?],
        None => context.config.wheels.iter().collect(),
    };
    for config in wheels {
        let wheel = Wheel::new(store.clone(), config.wheel.clone());
        if down.is_none() {
            layout(&wheel, &mut findings).await;
        }
        hook(config, &wheel, clock.as_ref(), &mut findings).await;
    }
    print(&findings.0, output)?;
    let problems = findings.0.iter().any(|f| f.level == Level::Problem);
    Ok(match down {
        Some(error) => Exit::of_error(&error, true),
        None if problems => Exit::Findings,
        None => Exit::Done,
    })
}

fn print(findings: &[Finding], output: &mut Output) -> std::io::Result<()> {
    if output.is_json() {
        return output.object(&json!({"findings": findings}));
    }
    let word = |level| match level {
        Level::Ok => "ok",
        Level::Warning => "warning",
        Level::Problem => "PROBLEM",
    };
    let row = |f: &Finding| {
        let text = if f.advice.is_empty() {
            escaped(&f.found)
        } else {
            format!("{}: {}", escaped(&f.found), f.advice)
        };
        vec![word(f.level).to_owned(), f.check.clone(), text]
    };
    output.table(&["", "check", "found"], findings.iter().map(row).collect())
}

fn configuration(context: &Context, findings: &mut Findings) {
    let file = context.config.file.as_ref().map_or("defaults only".to_owned(), |f| f.display().to_string());
    findings.ok("config", file);
    for warning in &context.config.warnings {
        findings.warning("config", warning.clone(), "");
    }
}

/// Redis itself, and its clock; an error where it cannot be asked at all.
async fn redis(store: &Store, findings: &mut Findings) -> Result<Option<Reading>> {
    let facts = match store.facts().await {
        Ok(facts) => facts,
        Err(e) => {
            findings.problem("redis", e.to_string(), "check redis.url, the network, and user and password");
            return Err(e);
        }
    };
    for unseen in &facts.unseen {
        let advice = "grant +info +config|get to see version, memory and persistence";
        findings.warning("redis", format!("{unseen} is not allowed"), advice);
    }
    version(&facts, findings);
    memory(&facts, findings);
    persistence(&facts, findings);
    match store.read_clock().await {
        Ok(reading) => {
            clock(&reading, findings);
            Ok(Some(reading))
        }
        Err(e) => {
            findings.problem("clock", e.to_string(), "check the rights of the user");
            Ok(None)
        }
    }
}

fn version(facts: &ServerFacts, findings: &mut Findings) {
    if let Some((name, version)) = facts.version() {
        let shown = server::shown(name, &version);
        match server::judge(name, &version) {
            Patched::Old => {
                findings.problem("redis", shown, "Redis 7.0 or Valkey 7.2 is needed: script flags");
            }
            Patched::Open(least) => findings.warning("redis", shown, &server::advice(name, &least)),
            Patched::Yes => findings.ok("redis", shown),
        }
    }
    match facts.field("role") {
        Some("master") | None => {}
        Some(role) => {
            findings.problem("role", role, "redis.url must name the primary; a replica takes no writes")
        }
    }
}

fn memory(facts: &ServerFacts, findings: &mut Findings) {
    match facts.field("maxmemory_policy") {
        Some("noeviction") => findings.ok("memory", "noeviction"),
        Some(policy) => {
            let advice = "set maxmemory-policy noeviction: anything else lets Redis drop deadlines";
            findings.problem("memory", policy, advice);
        }
        None => {}
    }
    let number = |name: &str| facts.field(name).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let (used, most) = (number("used_memory"), number("maxmemory"));
    if most > 0 && used > most / 10 * 8 {
        let text = format!("{used} of {most} bytes used");
        findings.warning("memory", text, "when it is full, new deadlines are refused; give Redis more");
    }
}

fn persistence(facts: &ServerFacts, findings: &mut Findings) {
    match facts.field("aof_enabled") {
        Some("1") => {
            let fsync = facts.appendfsync.as_deref().unwrap_or("unknown");
            match fsync {
                "no" => findings.warning(
                    "persistence",
                    "appendfsync no",
                    "set everysec: a crash may lose half a minute",
                ),
                other => findings.ok("persistence", format!("append-only file, fsync {other}")),
            }
        }
        Some(_) => {
            let advice = "set appendonly yes: without it a restart of Redis forgets every deadline";
            findings.problem("persistence", "no append-only file", advice);
        }
        None => {}
    }
    for field in ["aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"] {
        if let Some(status) = facts.field(field).filter(|s| *s != "ok") {
            findings.problem("persistence", format!("{field} is {status}"), "look at Redis's log and disk");
        }
    }
}

fn clock(redis: &Reading, findings: &mut Findings) {
    let ahead = redis.host_ahead();
    let (offset, trip) = (ahead.about_ms(), redis.trip().as_micros());
    let text = format!("this host is {offset} ms ahead of Redis (round trip {trip} us)");
    if ahead.exceeds(CLOCK_LIMIT) {
        findings.warning("clock", text, "Redis's clock decides what is due; run NTP on both");
    } else {
        findings.ok("clock", text);
    }
}

/// The wheel's own keys: rights, layout, shards, workers.
async fn layout(wheel: &Wheel, findings: &mut Findings) {
    let name = format!("wheel {}", wheel.name());
    let token = format!("check-{}", uuid::Uuid::new_v4().simple());
    match wheel.selftest(&token).await {
        Ok(()) => findings.ok(&name, "every script runs with this user"),
        Err(e) => {
            findings.problem(&name, e.to_string(), "grant what docs/operations.md lists for the Redis user")
        }
    }
    match wheel.stats().await {
        Ok(stats) => {
            let (held, due) = (stats.scheduled + stats.leased, stats.due);
            findings.ok(
                &name,
                format!("{} shards, {held} deadlines, {due} due, {} dead", stats.shards, stats.dead),
            );
            if stats.tripped_shards > 0 {
                let why = wheel.held_by().await.ok().and_then(|held| held.trip);
                let why = why.map_or(String::new(), |trip| format!(" since {}: {}", trip.at(), trip.why));
                let text = format!("{} of {} shards are tripped{why}", stats.tripped_shards, stats.shards);
                findings.problem(&name, text, "see what closed so much, then duewheel resume");
            }
            if stats.paused_shards > 0 {
                let text = format!("{} of {} shards are paused", stats.paused_shards, stats.shards);
                findings.warning(&name, text, "duewheel resume");
            }
        }
        Err(e) => {
            let advice =
                "shards and slot_width must be those the wheel was made with; see duewheel wheel list";
            findings.problem(&name, e.to_string(), advice);
        }
    }
    let Ok(presence) = wheel.presence().await else { return };
    match presence.workers.len() {
        0 => findings.warning(&name, "no worker serves it", "start duewheel worker"),
        n => findings.ok(&name, format!("{n} workers")),
    }
    for worker in presence.workers {
        for reason in worker.held_back {
            let text = format!("worker {}:{} claims nothing: {reason}", worker.host, worker.pid);
            findings.problem(&name, text, "it goes on by itself when that is over");
        }
    }
}

async fn hook(config: &WheelConfig, wheel: &Wheel, redis: Option<&Reading>, findings: &mut Findings) {
    let name = format!("wheel {} hook", config.wheel.name);
    let closer = match Closer::of(config) {
        Ok(Some(closer)) => closer,
        Ok(None) => {
            findings.warning(&name, "kind is none", "nothing closes these orders: set hook.kind");
            return;
        }
        Err(e) => {
            findings.problem(&name, e.to_string(), "");
            return;
        }
    };
    match closer.hook().check().await {
        Ok(warnings) => {
            warnings.iter().for_each(|warning| findings.warning(&name, warning.clone(), ""));
            findings.ok(&name, config.hook.kind());
            if let Some(redis) = redis {
                let read = closer.hook().clocks().await;
                read.iter()
                    .for_each(|(database, clock)| database_clock(config, database, clock, redis, findings));
            }
            net::net(config, wheel, &name, findings).await;
        }
        Err(e) => findings.problem(&name, e.to_string(), "the hook could not close anything"),
    }
    reminder(config, findings).await;
}

/// The endpoint that reminds, where it is not the hook's own.
async fn reminder(config: &WheelConfig, findings: &mut Findings) {
    if matches!(config.reminder, ReminderSettings::Hook | ReminderSettings::Event) {
        return;
    }
    let name = format!("wheel {} reminder", config.wheel.name);
    let checked = match Closer::reminding(config) {
        Ok(Some(reminder)) => reminder.hook().check().await,
        Ok(None) => return,
        Err(e) => Err(e),
    };
    match checked {
        Ok(warnings) => {
            warnings.iter().for_each(|warning| findings.warning(&name, warning.clone(), ""));
            findings.ok(&name, "webhook");
        }
        Err(e) => findings.problem(&name, e.to_string(), "nobody could be reminded"),
    }
}

/// A database's clock beside Redis's, by the limit of the wheel's workers.
fn database_clock(
    config: &WheelConfig,
    database: &str,
    clock: &Reading,
    redis: &Reading,
    findings: &mut Findings,
) {
    let ahead = clock.ahead_of(redis);
    let text = format!("{database} is {} ms ahead of Redis", ahead.about_ms());
    let limit = config.worker.skew_max;
    if !limit.is_zero() && ahead.exceeds(limit) {
        findings.problem(
            "clock",
            text,
            "no worker claims while they differ by more than clock.skew_max; run NTP on both",
        );
    } else if ahead.exceeds(CLOCK_LIMIT) {
        findings.warning(
            "clock",
            text,
            "Redis's clock decides what is due, the database's whether it may be closed; run NTP on both",
        );
    } else {
        findings.ok("clock", text);
    }
}

/// What forbids to work on this Redis, each with the reason; for the start of a worker.
pub async fn unfit(store: &Store) -> Result<Vec<String>, Error> {
    let facts = store.facts().await?;
    let mut findings = Findings::default();
    version(&facts, &mut findings);
    memory(&facts, &mut findings);
    let problems = findings.0.into_iter().filter(|f| f.level == Level::Problem);
    Ok(problems.map(|f| format!("{}: {}: {}", f.check, f.found, f.advice)).collect())
}
