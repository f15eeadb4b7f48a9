//! Promises that are broken, or about to be: what a person must know before anything else, each with what to do about it.

use std::time::Duration;

use super::figure::{bytes, count, of, span};
use super::glance::Glance;
use crate::error::escaped;
use crate::wheel::shape::widest;

/// The oldest due deadline may be so old before it is said; what is claimed at once is some milliseconds old.
const LATE: Duration = Duration::from_secs(5);
/// How far a clock may be off before it is said, and before it is bad, in milliseconds.
const SKEW_MS: (u64, u64) = (500, 2000);
/// Deadlines put aside in ten minutes from which on their number is called rising.
const RISING: u64 = 5;

/// One broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Banner {
    /// Whether orders are late or at risk by it now; else it is a warning.
    pub is_bad: bool,
    /// What is wrong, in words that do not change while it is.
    pub title: String,
    pub detail: String,
    /// Where to look further, below `/wheels/{wheel}`, and what that is called; empty where this page says it all.
    pub path: &'static str,
    pub link: &'static str,
}

impl Banner {
    fn new(is_bad: bool, title: &str, detail: String) -> Self {
        Self { is_bad, title: title.to_owned(), detail, path: "", link: "" }
    }

    fn leading(self, path: &'static str, link: &'static str) -> Self {
        Self { path, link, ..self }
    }
}

/// What is broken, the worst first. `sweep_every` is how often the orders table is swept, where that is known.
pub(super) fn broken(glance: &Glance, sweep_every: Option<Duration>) -> Vec<Banner> {
    let mut banners = Vec::new();
    stopped(glance, &mut banners);
    late(glance, &mut banners);
    redis(glance, &mut banners);
    clocks(glance, &mut banners);
    sweep(glance, sweep_every, &mut banners);
    banners.sort_by_key(|banner| !banner.is_bad);
    banners
}

/// What keeps anything from being closed.
fn stopped(glance: &Glance, banners: &mut Vec<Banner>) {
    let waiting = of(glance.stats.due, "order is due and waits", "orders are due and wait");
    if let Some(trip) = &glance.held.trip {
        let detail = format!(
            "{}, says {}. {waiting}. Find out why before you resume: nothing more is closed until you do.",
            escaped(&trip.why),
            escaped(&trip.by)
        );
        banners.push(
            Banner::new(true, "The breaker has tripped: closing is stopped", detail)
                .leading("/deadlines?state=due", "What is due"),
        );
    }
    if let Some(note) = &glance.held.paused {
        let detail = format!(
            "{} paused it: {}. {waiting}. Resume below.",
            escaped(&note.actor),
            escaped(&note.reason)
        );
        banners.push(
            Banner::new(true, "Closing is paused", detail).leading("/deadlines?state=due", "What is due"),
        );
    } else if glance.held.trip.is_none() && glance.stats.paused_shards + glance.stats.tripped_shards > 0 {
        let stopped = glance.stats.paused_shards + glance.stats.tripped_shards;
        let detail = format!(
            "{} of {} are stopped, the wheel as a whole is not. Resume below writes all of them again.",
            of(stopped, "shard", "shards"),
            count(glance.stats.shards)
        );
        banners.push(Banner::new(true, "Some shards are stopped", detail));
    }
    let serving: Vec<_> = glance.workers.iter().filter(|worker| !worker.draining).collect();
    let held: Vec<_> = serving.iter().filter(|worker| !worker.held_back.is_empty()).collect();
    let reasons = || {
        let mut reasons: Vec<String> =
            held.iter().flat_map(|worker| &worker.held_back).map(|reason| escaped(reason)).collect();
        reasons.sort();
        reasons.dedup();
        reasons.truncate(3);
        reasons.join("; ")
    };
    if serving.is_empty() {
        let detail = format!("{waiting}. Start one: duewheel worker. Nothing is lost meanwhile.");
        banners.push(Banner::new(true, "No worker is alive", detail));
    } else if held.len() == serving.len() {
        banners.push(Banner::new(true, "Every worker is held back", format!("{}. {waiting}.", reasons())));
    } else if !held.is_empty() {
        banners.push(Banner::new(false, "Some workers are held back", reasons()));
    }
    if let Some(latest) = glance.lost.first() {
        let who = match glance.lost.len() {
            1 => latest.named(),
            n => format!("{}, and {} more", latest.named(), n - 1),
        };
        let detail = format!(
            "{who}: not heard of any more. What was in hand there goes on to others when its lease ends."
        );
        banners.push(Banner::new(false, "A worker was lost lately", detail).leading("/workers", "Workers"));
    }
}

/// What is late, or will never be closed.
fn late(glance: &Glance, banners: &mut Vec<Banner>) {
    let stats = &glance.stats;
    let oldest = Duration::from_millis(stats.oldest_due_ms);
    let stopped = stats.paused_shards + stats.tripped_shards > 0;
    if oldest > LATE && !stopped {
        let detail =
            format!("The oldest has waited for {}; {}.", span(oldest), of(stats.due, "is due", "are due"));
        banners.push(
            Banner::new(true, "Orders are closed late", detail)
                .leading("/deadlines?state=due", "What is due"),
        );
    }
    if stats.dead > 0 {
        let buried = glance.buried_lately;
        let rising = buried > RISING;
        let title = if rising {
            "More and more deadlines are dead"
        } else {
            "Deadlines are dead and wait for a person"
        };
        let mut detail = format!(
            "{}, and closed by nobody until you revive or drop them.",
            of(stats.dead, "is put aside", "are put aside")
        );
        if buried > 0 {
            detail += &format!(" {} within the last ten minutes.", count(buried));
        }
        banners.push(Banner::new(rising, title, detail).leading("/dead", "The dead"));
    }
}

fn redis(glance: &Glance, banners: &mut Vec<Banner>) {
    let facts = &glance.wide.redis;
    let field = |name: &str| facts.field(name);
    let number = |name: &str| field(name).and_then(|text| text.parse::<u64>().ok());
    if field("role").is_some_and(|role| role != "master") {
        banners.push(Banner::new(
            true,
            "Redis is a replica here",
            "It takes no writes. Point redis.url at the primary.".to_owned(),
        ));
    }
    if let Some(policy) = field("maxmemory_policy").filter(|policy| *policy != "noeviction") {
        let detail = format!(
            "maxmemory-policy is {}: with memory full Redis throws deadlines away. Set it to noeviction.",
            escaped(policy)
        );
        banners.push(Banner::new(true, "Redis may evict deadlines", detail));
    }
    if let (Some(used), Some(most @ 1..)) = (number("used_memory"), number("maxmemory"))
        && used > most / 10 * 8
    {
        let detail = format!(
            "{} of {}. With all of it used, new deadlines are refused; closing goes on.",
            bytes(used),
            bytes(most)
        );
        banners.push(Banner::new(used > most / 20 * 19, "Redis's memory is nearly full", detail));
    }
    if field("aof_enabled") == Some("0") {
        let detail = "Its append-only file is off: a restart loses the wheel, and the next sweep or rebuild must bring it back.".to_owned();
        banners.push(Banner::new(false, "Redis keeps nothing on disk", detail));
    }
    let failing = ["aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status"]
        .into_iter()
        .find(|name| field(name).is_some_and(|status| status != "ok"));
    if let Some(name) = failing {
        banners.push(Banner::new(
            true,
            "Redis cannot persist",
            format!("{name} is not ok. See its log, and its disk."),
        ));
    }
}

fn clocks(glance: &Glance, banners: &mut Vec<Banner>) {
    let off: Vec<_> =
        widest(&glance.workers).into_iter().filter(|(_, ahead)| ahead.unsigned_abs() > SKEW_MS.0).collect();
    let Some(worst) = off.iter().map(|(_, ahead)| ahead.unsigned_abs()).max() else { return };
    let each: Vec<String> =
        off.iter().map(|(name, ahead)| format!("{} {ahead:+} ms", escaped(name))).collect();
    let detail = format!(
        "Against Redis's: {}. Beyond clock.skew_max closing stops. Mend the time of these machines.",
        each.join(", ")
    );
    banners.push(Banner::new(worst > SKEW_MS.1, "Clocks disagree", detail));
}

fn sweep(glance: &Glance, every: Option<Duration>, banners: &mut Vec<Banner>) {
    let ran = glance.wide.sweep.ran_at.or(glance.wide.sweep.asked_at);
    if let (Some(every), Some(ran)) = (every, ran) {
        let since = glance.now.since(ran);
        // One missed run is a slow page or a taken-over lease; from then on the net has a hole.
        if since > every * 2 + Duration::from_secs(60) {
            let detail = format!(
                "It is to run every {} and ran {} ago: what Redis may have lost is not found.",
                span(every),
                span(since)
            );
            banners.push(Banner::new(true, "The sweep is late", detail));
        }
    }
    let found = glance.sweep_number("enqueued") + glance.sweep_number("resurrected");
    if found > 0 {
        let detail = format!(
            "{} brought back, because the table says open and the wheel did not hold it. A shop that never enqueues them has the same look.",
            of(found, "overdue order was", "overdue orders were")
        );
        banners.push(Banner::new(false, "The last sweep found losses", detail));
    }
    let capped = glance.sweep_number("capped");
    if capped > 0 {
        let detail = format!(
            "{} left: sweep.resurrect_max is reached. See whether the wheel or the table is right, then run the sweep again.",
            of(capped, "order was", "orders were")
        );
        banners.push(Banner::new(true, "The sweep has reached its limit", detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::Note;
    use crate::wheel::Trip;

    fn titles(glance: &Glance, every: Option<Duration>) -> Vec<(bool, String)> {
        broken(glance, every).into_iter().map(|banner| (banner.is_bad, banner.title)).collect()
    }

    #[test]
    fn a_wheel_that_keeps_its_promises_says_nothing() {
        assert_eq!(titles(&Glance::calm(), Some(Duration::from_secs(300))), []);
    }

    #[test]
    fn each_broken_promise_is_said_and_the_bad_ones_first() {
        let bad = |text: &str| vec![(true, text.to_owned())];
        let warns = |text: &str| vec![(false, text.to_owned())];
        let with = |change: fn(&mut Glance)| {
            let mut glance = Glance::calm();
            change(&mut glance);
            titles(&glance, Some(Duration::from_secs(300)))
        };
        assert_eq!(with(|g| g.workers.clear()), bad("No worker is alive"));
        assert_eq!(with(|g| g.workers[0].draining = true), bad("No worker is alive"));
        assert_eq!(
            with(|g| g.workers[0].held_back.push("the hook is away".to_owned())),
            bad("Every worker is held back")
        );
        assert_eq!(with(|g| g.lost = g.workers.clone()), warns("A worker was lost lately"));
        assert_eq!(with(|g| g.stats.oldest_due_ms = 5001), bad("Orders are closed late"));
        assert_eq!(with(|g| g.stats.dead = 1), warns("Deadlines are dead and wait for a person"));
        assert_eq!(
            with(|g| (g.stats.dead, g.buried_lately) = (9, 6)),
            bad("More and more deadlines are dead")
        );
        assert_eq!(with(|g| g.stats.paused_shards = 2), bad("Some shards are stopped"));
        assert_eq!(
            with(|g| g.workers[0].clocks.extend([("host".to_owned(), -700)])),
            warns("Clocks disagree")
        );
        assert_eq!(with(|g| g.workers[0].clocks.extend([("host".to_owned(), 2001)])), bad("Clocks disagree"));
        assert_eq!(with(|g| g.now = g.now.plus(Duration::from_secs(661))), bad("The sweep is late"));
        let paused = |g: &mut Glance| {
            g.held.paused = Some(Note { actor: "ada".to_owned(), reason: "drill".to_owned() });
            (g.stats.paused_shards, g.stats.oldest_due_ms) = (16, 60_000);
        };
        assert_eq!(with(paused), bad("Closing is paused"));
        let tripped = |g: &mut Glance| {
            g.held.trip = Some(Trip { at_us: 1, by: "w".to_owned(), why: "100 in a row".to_owned() })
        };
        assert_eq!(with(tripped), bad("The breaker has tripped: closing is stopped"));
        let both = with(|g| {
            g.stats.dead = 1;
            g.workers.clear();
        });
        assert_eq!(both.iter().map(|(is_bad, _)| *is_bad).collect::<Vec<_>>(), [true, false]);
    }
}
