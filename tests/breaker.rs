//! The breaker: closes beyond their band stop the whole wheel, loudly, and nothing is closed until a person resumes it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duewheel::deadline::Note;
use duewheel::hook::Verdict;
use duewheel::operator::{Door, Operator, Person};
use duewheel::shard::Shard;
use duewheel::wheel::{Ask, AuditFilter, AuditOutcome, Band, ShardState, Trip, Verdicts, Wheel};
use duewheel::worker::WorkerSettings;

use crate::rig::crew::{Mate, enqueue_range, held_back, quick};
use crate::rig::hook::Recorder;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{after, ask, wheel, with_test_clock};
use crate::rig::worker::{Fleet, Plan};
use crate::rig::{PATIENCE, eventually};

fn off() -> Band {
    Band { closes_per_minute: 0, closed_ratio: 0.0, ratio_least: 1, rejected_run: 0 }
}

fn banded(band: Band) -> WorkerSettings {
    WorkerSettings { band, concurrency: 8, ..quick() }
}

async fn tripped(wheel: &Wheel) -> Trip {
    eventually(PATIENCE, || async {
        let stats = wheel.stats().await.ok()?;
        (stats.tripped_shards == stats.shards).then_some(())
    })
    .await;
    wheel.held_by().await.unwrap().trip.unwrap()
}

/// What was closed until now, once nothing is leased any more, and again a second later.
async fn closed_and_a_second_later(wheel: &Wheel) -> (u64, u64) {
    eventually(PATIENCE, || async { (wheel.stats().await.ok()?.leased == 0).then_some(()) }).await;
    let closed = async || wheel.stats().await.unwrap().totals["closed"];
    let before = closed().await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    (before, closed().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closes_over_the_band_of_the_fleet_stop_it_until_a_person_resumes() {
    let wheel = wheel(RedisServer::shared(), 8).await;
    let hook = Arc::new(Recorder::closing().one_by_one().taking(Duration::from_millis(5)));
    let settings = banded(Band { closes_per_minute: 100, ..off() });
    // Each of the two stays below the band: together they are over it.
    let mates = [(); 2].map(|()| Mate::start(&wheel, hook.clone(), settings.clone()));
    held_by_both(&wheel).await;
    enqueue_range(&wheel, 0..600, |_| after(0)).await;
    let trip = tripped(&wheel).await;
    assert!(trip.why.contains("closed within a minute, the band is up to 100"), "{trip:?}");
    let (before, later) = closed_and_a_second_later(&wheel).await;
    println!("band 100 a minute, 2 workers of 8: {before} closed");
    // What was under way at that moment is closed: eight calls of each worker, and those until it had heard of it.
    assert!((101..=180).contains(&before) && later == before, "{before}, then {later}");
    let counts = mates.each_ref().map(|mate| mate.tally.snapshot().closed);
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert!(held_back(&wheel, "the breaker was tripped").await.contains(&trip.why));
    let stats = wheel.stats().await.unwrap();
    assert_eq!((stats.due, stats.paused_shards), (600 - before, 0), "what is due stays due");

    let anna = Operator::new(wheel.clone(), Person::new("anna", Door::Top).unwrap());
    let (held, counts) = anna.resume("seen and mended").await.unwrap();
    assert_eq!((held.trip, counts), (Some(trip.clone()), (8, 8)));
    let again = eventually(PATIENCE, || async {
        wheel.held_by().await.ok()?.trip.filter(|again| again.at_us != trip.at_us)
    })
    .await;
    assert!(again.at_us > trip.at_us, "the counts begin anew, and the band still holds");
    let (after_again, later) = closed_and_a_second_later(&wheel).await;
    assert!(after_again > before + 100 && later == after_again, "{before}, {after_again}, {later}");
    for mate in mates {
        assert!(mate.drain().await.clean);
    }
    let audit = wheel.audit(&AuditFilter::default(), None, 10).await.unwrap().entries;
    let what: Vec<_> = audit.iter().map(|act| (act.act.as_str(), act.door.as_deref(), act.outcome)).collect();
    let tripped = ("trip", None, AuditOutcome::Done);
    assert_eq!(what, [tripped, ("resume", Some("top"), AuditOutcome::Done), tripped]);
    assert_eq!((audit[1].by.as_str(), audit[1].reason.as_str()), ("anna", "seen and mended"));
}

async fn held_by_both(wheel: &Wheel) {
    eventually(PATIENCE, || async { (wheel.presence().await.ok()?.workers.len() == 2).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trip_outlives_the_loss_of_redis_and_holds_new_workers() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 4).await;
    let hook = Arc::new(Recorder::closing().one_by_one());
    let settings = banded(Band { closes_per_minute: 20, ..off() });
    let mate = Mate::start(&wheel, hook.clone(), settings.clone());
    enqueue_range(&wheel, 0..200, |_| after(0)).await;
    let trip = tripped(&wheel).await;
    held_back(&wheel, "breaker").await;
    let before = hook.count();
    server.command::<()>(&["FLUSHALL"]);
    wheel.format().await.unwrap();
    enqueue_range(&wheel, 1000..1100, |_| after(0)).await;
    let again = tripped(&wheel).await;
    assert_eq!(again, trip, "the worker that knows of it has written it again");
    let new = Mate::start(&wheel, hook.clone(), settings.clone());
    eventually(PATIENCE, || async {
        let workers = wheel.presence().await.ok()?.workers;
        let held = workers.iter().filter(|w| w.held_back.iter().any(|r| r.contains("breaker"))).count();
        (held == 2).then_some(())
    })
    .await;
    // A shard that lost its meta record is told again too.
    server.command::<u64>(&["DEL", &format!("dw1:{{{}.0}}:meta", wheel.name())]);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(hook.count(), before, "closed while tripped");
    wheel.resume().await.unwrap();
    eventually(PATIENCE, || async { (hook.count() > before).then_some(()) }).await;
    mate.drain().await;
    new.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_of_rejected_and_gone_stops_the_wheel_and_single_ones_do_not() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let hook = Arc::new(
        Recorder::new(|lease| match lease.id.as_str().parse::<u64>().unwrap() {
            n if n >= 1000 && n % 2 == 0 => Verdict::Rejected { reason: "no".to_owned() },
            n if n >= 1000 => Verdict::Gone { reason: "no such order".to_owned() },
            n if n % 3 == 0 => Verdict::Gone { reason: "no such order".to_owned() },
            _ => Verdict::Closed,
        })
        .one_by_one(),
    );
    let settings = banded(Band { rejected_run: 25, ..off() });
    let mate = Mate::start(&wheel, hook.clone(), WorkerSettings { gone_grace: Duration::ZERO, ..settings });
    enqueue_range(&wheel, 0..90, |_| after(0)).await;
    eventually(PATIENCE, || async {
        let stats = wheel.stats().await.ok()?;
        (stats.dead == 30 && stats.totals["closed"] == 60).then_some(())
    })
    .await;
    assert_eq!(wheel.held_by().await.unwrap().trip, None, "one in three is no run");
    enqueue_range(&wheel, 1000..1200, |_| after(0)).await;
    let trip = tripped(&wheel).await;
    assert!(trip.why.contains("in a row were rejected or gone"), "{trip:?}");
    let stats = wheel.stats().await.unwrap();
    assert!((25..60).contains(&(stats.dead - 30)), "most were spared: {stats:?}");
    mate.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_share_of_closed_over_the_band_stops_the_wheel() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let hook = Arc::new(Recorder::new(|lease| match lease.id.as_str().parse::<u64>().unwrap() {
        n if n < 1000 && n % 2 == 0 => Verdict::Skipped { state: "paid".to_owned() },
        _ => Verdict::Closed,
    }));
    let settings = banded(Band { closed_ratio: 0.6, ratio_least: 50, ..off() });
    let mate = Mate::start(&wheel, hook.clone(), settings);
    enqueue_range(&wheel, 0..200, |_| after(0)).await;
    eventually(PATIENCE, || async { (wheel.stats().await.ok()?.scheduled == 0).then_some(()) }).await;
    assert_eq!(wheel.held_by().await.unwrap().trip, None, "half of them were paid");
    enqueue_range(&wheel, 1000..1400, |_| after(0)).await;
    let trip = tripped(&wheel).await;
    assert!(
        trip.why.contains("due orders were closed within a minute, the band is up to 60.0 %"),
        "{trip:?}"
    );
    mate.drain().await;
}

/// What the fleet's counts must say, in plain Rust.
#[derive(Default)]
struct Model {
    reports: Vec<(u64, u64, u64)>,
    run: u64,
    tripped: bool,
}

impl Model {
    fn report(&mut self, now: u64, verdicts: &Verdicts, band: &Band) {
        self.reports.push((now / 2_000_000, verdicts.closed, verdicts.skipped));
        let lead = self.run + verdicts.lead;
        self.run = if verdicts.other { verdicts.tail } else { lead };
        let recent = self.reports.iter().filter(|(bucket, ..)| bucket.abs_diff(now / 2_000_000) < 31);
        let (closed, skipped) = recent.fold((0, 0), |sum, (_, c, s)| (sum.0 + c, sum.1 + s));
        // What has left the window never comes back into it, though the clock may.
        self.reports.retain(|(bucket, ..)| bucket.abs_diff(now / 2_000_000) < 31);
        let judged = closed + skipped;
        self.tripped |= lead.max(verdicts.tail) >= u64::from(band.rejected_run)
            || closed > u64::from(band.closes_per_minute)
            || judged >= u64::from(band.ratio_least) && closed as f64 > band.closed_ratio * judged as f64;
    }
}

/// Reports, claims, jumps of the clock, lost keys and resumes in random order: the wheel trips exactly when the model does, and while it
/// is tripped no claim gives a lease, whoever has lost what.
async fn history(server: &RedisServer, seed: u64) -> (usize, usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let wheel = wheel(server, 3).await;
    let key = |name: &str| format!("dw1:{{{}}}:{name}", wheel.name());
    let test_clock = || server.command::<u64>(&["HSET", &key("breaker"), "clock", "test"]);
    let band = Band { closes_per_minute: 60, closed_ratio: 0.75, ratio_least: 40, rejected_run: 12 };
    let mut now = 1_772_337_600_000_000_u64 + seed * 10_000_000_000;
    with_test_clock(server, &wheel);
    test_clock();
    enqueue_range(&wheel.at_fixed_time(now), 0..900, |_| after(0)).await;
    let (mut model, mut known, mut story) = (Model::default(), None::<Trip>, Vec::new());
    let (mut trips, mut claims) = (0, 0);
    let mut told = BTreeSet::from([0, 1, 2]);
    for nonce in 0..150_u64 {
        now += random.u64(..3_000_000);
        match random.u32(..100) {
            0..45 => {
                let verdicts = Verdicts {
                    closed: random.u64(..8),
                    skipped: random.u64(..5),
                    lead: random.u64(..4),
                    other: random.bool(),
                    tail: 0,
                };
                let verdicts =
                    Verdicts { tail: if verdicts.other { random.u64(..4) } else { 0 }, ..verdicts };
                let before = model.tripped;
                model.report(now, &verdicts, &band);
                let reported = wheel.at_fixed_time(now).report(&verdicts, &band, "w").await.unwrap();
                story.push(format!("{now} {verdicts:?} {reported:?}"));
                assert_eq!(reported.trip.is_some(), model.tripped, "seed {seed}\n{}", story.join("\n"));
                assert_eq!(reported.fresh, !before && model.tripped);
                assert_eq!(reported.run, model.run);
                if reported.fresh {
                    trips += 1;
                    told = BTreeSet::from([0, 1, 2]);
                }
                known = reported.trip.or(known.filter(|_| model.tripped));
            }
            45..85 => {
                let shard = random.u16(..3);
                let asked = Ask { limit: 3, lease: Duration::from_secs(60_000), ..ask(seed * 1000 + nonce) };
                let claimed = wheel.at_fixed_time(now).claim(Shard(shard), &asked).await.unwrap();
                if model.tripped && told.contains(&shard) {
                    assert_eq!(claimed.state, ShardState::Tripped, "seed {seed}\n{}", story.join("\n"));
                    assert!(claimed.leases.is_empty());
                } else {
                    claims += claimed.leases.len();
                }
            }
            85..88 => {
                now += 70_000_000;
            }
            88..90 => now -= random.u64(..3_000_000),
            90..94 if model.tripped => {
                // A shard loses its mark, or the wheel its own; then the roster of a worker that knows passes by.
                let shard = random.u16(..3);
                let meta = format!("dw1:{{{}.{shard}}}:meta", wheel.name());
                server.command::<u64>(&["HDEL", &meta, "tripped"]);
                if random.bool() {
                    server.command::<u64>(&["DEL", &key("state")]);
                }
                let held = wheel.reassert(known.as_ref()).await.unwrap();
                assert_eq!(held.trip, known, "seed {seed}\n{}", story.join("\n"));
                story.push(format!("{now} lost and written again on shard {shard}"));
            }
            94..100 if model.tripped => {
                let (held, _) = wheel.resume().await.unwrap();
                assert_eq!(held.trip, known);
                let after = wheel.reassert(known.as_ref()).await.unwrap();
                assert_eq!(after.trip, None, "a worker that still knows of it does not bring it back");
                (model, known) = (Model::default(), None);
                test_clock();
                story.push(format!("{now} resumed"));
            }
            _ => {}
        }
    }
    (trips, claims)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_history_closes_anything_while_tripped_and_trips_come_exactly_when_they_must() {
    let long = std::env::var_os("DUEWHEEL_TEST_LONG").is_some();
    let (mut trips, mut claims) = (0, 0);
    for seed in 0..if long { 300 } else { 12 } {
        let seen = history(RedisServer::shared(), seed).await;
        (trips, claims) = (trips + seen.0, claims + seen.1);
    }
    assert!(trips >= 10 && claims > 100, "{trips} trips and {claims} claims prove little");
}

#[test]
fn a_report_of_nonsense_is_refused_and_writes_nothing() {
    let server = RedisServer::shared();
    let keys = ["breaker", "state", "audit"].map(|name| format!("dw1:{{nonsense}}:{name}"));
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let good = ["", "1", "1", "0", "1", "0", "10", "0", "100", "10", "w"];
    let source = duewheel::wheel::script::BREAKER.source();
    let call = |keys: &[&str], args: &[&str]| {
        let count = keys.len().to_string();
        server.try_command::<redis::Value>(&[&["EVAL", source, &count][..], keys, args].concat())
    };
    for (at, bad) in [
        (0, "1"),
        (1, "-1"),
        (2, "x"),
        (3, "1.5"),
        (4, "2"),
        (5, ""),
        (6, "1e3"),
        (7, "nan"),
        (8, " 1"),
        (9, "0x1"),
    ] {
        let mut args = good;
        args[at] = bad;
        let refused = call(&keys, &args).expect_err(&format!("argument {at} as {bad}"));
        assert!(refused.to_string().contains("BADCALL"), "{refused}");
    }
    assert!(call(&keys, &good[..10]).is_err() && call(&keys, &[&good[..], &["x"]].concat()).is_err());
    assert!(call(&keys[..2], &good).is_err() && call(&[keys[1], keys[0], keys[2]], &good).is_err());
    let exist = |keys: &[&str]| server.command::<u64>(&[&["EXISTS"], keys].concat());
    assert_eq!(exist(&keys), 0);
    // A key of a wrong type is met before anything is written, whichever it is.
    for broken in &keys {
        server.command::<()>(&["SET", broken, "not what it was"]);
        let tripping = ["", "50", "0", "0", "1", "0", "10", "0", "100", "10", "w"];
        assert!(call(&keys, &tripping).is_err());
        assert_eq!(exist(&keys), 1, "{broken}");
        server.command::<u64>(&["DEL", broken]);
    }
    assert!(call(&keys, &good).is_ok());
    server.command::<u64>(&[&["DEL"], &keys[..]].concat());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stats_and_check_show_a_trip_and_resume_says_what_it_lifts() {
    let server = RedisServer::shared();
    let fleet = Fleet::new(server, &Plan::new(server.url()).shards(2).hook("kind", "\"log\"")).await;
    let verdicts = Verdicts { closed: 70, other: true, ..Verdicts::default() };
    let band = Band { closes_per_minute: 50, ..off() };
    assert!(fleet.wheel.report(&verdicts, &band, "worker-host:17").await.unwrap().fresh);
    fleet.wheel.pause(&Note::new("bob", "deploy").unwrap()).await.unwrap();
    let stats = fleet.run(&["stats", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&stats.stdout).unwrap();
    assert_eq!(
        (object["tripped_shards"].as_u64(), object["trip"]["by"].as_str()),
        (Some(2), Some("worker-host:17"))
    );
    let table = fleet.run(&["stats"]).stdout;
    assert!(table.contains("tripped") && table.contains("70 orders were closed within a minute"), "{table}");
    let check = fleet.run(&["check"]);
    assert!(check.stdout.contains("2 of 2 shards are tripped since"), "{}", check.stdout);
    let resumed = fleet.run(&["resume", "--json", "--actor", "anna", "--reason", "mended"]);
    let object: serde_json::Value = serde_json::from_str(&resumed.stdout).unwrap();
    let lifted: Vec<_> =
        object["lifted"].as_array().unwrap().iter().map(|l| l["what"].as_str().unwrap()).collect();
    assert_eq!(lifted, ["tripped", "paused"], "{}", resumed.stdout);
    let stats = fleet.wheel.stats().await.unwrap();
    assert_eq!((stats.tripped_shards, stats.paused_shards), (0, 0));
    let again = fleet.run(&["resume"]).stdout;
    assert!(again.contains("resumed, 2 of 2 shards") && !again.contains("lifted"), "{again}");
}
