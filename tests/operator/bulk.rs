//! Bulk acts: all that match, once each, exactly counted, whoever dies on the way.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use duewheel::deadline::{Id, OnConflict, State, reason_group};
use duewheel::operator::{Door, Foreman, Operator, Person};
use duewheel::wheel::{AuditFilter, Bulk, BulkAct, BulkFilter, BulkState, Task, What, Wheel};
use serde_json::json;

use crate::rig::api::ApiServer;
use crate::rig::cli::Cli;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{after, ask, bury, claim, deadline, enqueue, id, wheel, wheel_of};
use crate::rig::{PATIENCE, eventually, is_long};

fn anna(wheel: &Wheel) -> Operator {
    Operator::new(wheel.clone(), Person::new("anna", Door::Page).unwrap())
}

/// Runs what there is to run, and answers the one of that id.
async fn run(wheel: &Wheel, bulk: &Bulk) -> Bulk {
    let foreman = Foreman::new(wheel.clone());
    while foreman.look().await.unwrap().is_some() {}
    wheel.bulk(&bulk.id).await.unwrap().expect("it is among the last ones")
}

fn all() -> BulkFilter {
    BulkFilter::default()
}

/// Puts many aside as dead, for a reason that their number decides.
async fn bury_many(wheel: &Wheel, count: usize) {
    let deadlines: Vec<_> = (0..count).map(|n| deadline(&format!("o-{n}"), after(0))).collect();
    for answer in wheel.enqueue_batch(&deadlines, OnConflict::Keep, false).await {
        answer.unwrap().unwrap();
    }
    for shard in wheel.shards().all() {
        for nonce in 1.. {
            let mut asked = ask(nonce);
            asked.limit = 500;
            let leases = wheel.claim(shard, &asked).await.unwrap().leases;
            if leases.is_empty() {
                break;
            }
            let settle: Vec<_> = leases
                .iter()
                .map(|lease| {
                    let number: usize = lease.id.as_str()[2..].parse().unwrap();
                    let reason = if number.is_multiple_of(4_usize) { "answered 404" } else { "answered 500" };
                    duewheel::wheel::Settlement {
                        id: lease.id.clone(),
                        fence: lease.fence,
                        what: What::Bury(format!("{reason} to order {number}")),
                    }
                })
                .collect();
            wheel.settle(shard, &settle).await.unwrap();
        }
    }
    assert_eq!(wheel.stats().await.unwrap().dead, count as u64);
}

#[tokio::test]
async fn all_that_match_are_revived_or_dropped_and_no_others() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    bury_many(&wheel, 40).await;
    enqueue(&wheel, "alive", after(3_600_000)).await.unwrap();
    let anna = anna(&wheel);
    let count = anna.preview(BulkAct::Revive, &all()).await.unwrap();
    assert_eq!((count.matched, count.of, count.exact), (40, 40, true));
    let not_found = BulkFilter { reason: Some("answered 404".to_owned()), ..all() };
    let count = anna.preview(BulkAct::Drop, &not_found).await.unwrap();
    assert_eq!((count.matched, count.of, count.exact), (10, 40, true));

    let dropped = anna.begin_bulk(BulkAct::Drop, not_found, None, "not ours").await.unwrap();
    assert_eq!((dropped.state, dropped.matched, dropped.left), (BulkState::Waiting, 10, 10));
    let dropped = run(&wheel, &dropped).await;
    assert_eq!((dropped.state, dropped.done, dropped.refused, dropped.left), (BulkState::Done, 10, 0, 0));
    assert_eq!(wheel.inspect(&id("o-4")).await.unwrap().state, State::Ended);

    let group = BulkFilter {
        group: Some(reason_group("answered 500 to order 7")),
        prefix: Some("o-1".to_owned()),
        ..all()
    };
    let some = anna.begin_bulk(BulkAct::Revive, group, Some(3), "a few first").await.unwrap();
    let some = run(&wheel, &some).await;
    assert_eq!(
        (some.matched, some.done, some.state),
        (3, 3, BulkState::Done),
        "at most as many as were confirmed"
    );
    let rest = anna.begin_bulk(BulkAct::Revive, all(), None, "").await.unwrap();
    let rest = run(&wheel, &rest).await;
    assert_eq!((rest.matched, rest.done), (27, 27));
    let stats = wheel.stats().await.unwrap();
    assert_eq!((stats.dead, stats.scheduled), (0, 31));

    let told: Vec<_> = wheel.bulks().await.unwrap().iter().map(|bulk| bulk.id.clone()).collect();
    assert_eq!(told, [rest.id, some.id, dropped.id], "the last ones, newest first");
    let acts = wheel.audit(&duewheel::wheel::AuditFilter::default(), None, 10).await.unwrap().entries;
    let acts: Vec<_> = acts
        .iter()
        .map(|act| {
            format!(
                "{} {}/{} {}: {}",
                act.act,
                act.done,
                act.asked,
                act.outcome.as_str(),
                act.about.clone().unwrap_or_default()
            )
        })
        .collect();
    assert_eq!(
        acts,
        [
            "revive 27/27 done: all matching: all",
            "revive 3/3 done: all matching: group \"answered 500 to order #\", id begins with \"o-1\"; at most 3",
            "drop 10/10 done: all matching: reason holds \"answered 404\"",
        ]
    );
}

#[tokio::test]
async fn what_is_scheduled_is_held_moved_closed_and_cancelled_by_range_and_by_the_beginning_of_its_id() {
    let settings = duewheel::wheel::WheelSettings {
        hold_max_for: Duration::from_secs(7200),
        hold_max_total: Duration::from_secs(7200),
        ..crate::rig::wheel::settings(1)
    };
    let wheel = wheel_of(RedisServer::shared(), settings).await;
    // More than one page, so that what is moved further on lies before the walk again.
    for n in 0..700 {
        let name = if n % 3 == 0 { format!("eu-{n}") } else { format!("us-{n}") };
        enqueue(&wheel, &name, after(600_000 + n * 1000)).await.unwrap();
    }
    let anna = anna(&wheel);
    let now = wheel.now().await.unwrap().as_millis();
    let eu = BulkFilter { prefix: Some("eu-".to_owned()), ..all() };
    let before = wheel.inspect(&id("eu-3")).await.unwrap().entry.unwrap();

    let later =
        anna.begin_bulk(BulkAct::Reschedule { by_ms: 1_800_000 }, eu.clone(), None, "").await.unwrap();
    let later = run(&wheel, &later).await;
    assert_eq!(
        (later.matched, later.done),
        (234, 234),
        "one that was moved behind the hand is not moved again"
    );
    let moved = wheel.inspect(&id("eu-3")).await.unwrap().entry.unwrap();
    assert_eq!(moved.due_at.as_millis(), before.due_at.as_millis() + 1_800_000);

    let held = anna.begin_bulk(BulkAct::Hold { for_ms: 3_600_000 }, all(), None, "").await.unwrap();
    let held = run(&wheel, &held).await;
    assert_eq!((held.matched, held.done, held.refused), (700, 700, 0));
    let entry = wheel.inspect(&id("us-1")).await.unwrap().entry.unwrap();
    assert_eq!(entry.hold_count, 1, "held once, though it lay further on afterwards");

    let early = BulkFilter { to_ms: Some(now + 600_000), ..all() };
    assert_eq!(anna.preview(BulkAct::Close, &early).await.unwrap().matched, 0, "they fire later now");
    let closed = anna.begin_bulk(BulkAct::Close, eu.clone(), None, "fraud").await.unwrap();
    let closed = run(&wheel, &closed).await;
    assert_eq!((closed.matched, closed.done), (234, 234));
    let due = wheel.stats().await.unwrap().due;
    assert_eq!(due, 234);
    assert_eq!(anna.preview(BulkAct::Close, &eu).await.unwrap().matched, 0);

    let rest =
        anna.begin_bulk(BulkAct::Cancel, BulkFilter { from_ms: Some(now), ..all() }, None, "").await.unwrap();
    // What comes after the asking is none of its business.
    enqueue(&wheel, "late", after(600_000)).await.unwrap();
    let rest = run(&wheel, &rest).await;
    assert_eq!(rest.done, 700);
    assert_eq!(wheel.inspect(&id("late")).await.unwrap().state, State::Scheduled);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_is_written() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let anna = anna(&wheel);
    let with = |change: fn(&mut BulkFilter)| {
        let mut filter = all();
        change(&mut filter);
        filter
    };
    let close = BulkAct::Close;
    for (act, filter) in [
        (close, with(|f| f.reason = Some("x".into()))),
        (close, with(|f| f.group = Some("x".into()))),
        (BulkAct::Revive, with(|f| f.prefix = Some(String::new()))),
        (
            BulkAct::Revive,
            with(|f| (f.from_ms, f.to_ms) = (Some(2_000_000_000_000), Some(1_900_000_000_000))),
        ),
        (BulkAct::Hold { for_ms: 315_000_000_000 }, all()),
    ] {
        assert!(anna.begin_bulk(act, filter.clone(), None, "why").await.is_err(), "{act:?} {filter:?}");
    }
    assert!(anna.begin_bulk(close, all(), None, "").await.is_err(), "a close needs a reason");
    let second = Some(Duration::from_secs(1));
    for (word, long) in [("revive", second), ("hold", None), ("hold", Some(Duration::ZERO)), ("dance", None)]
    {
        assert!(BulkAct::parse(word, long).is_err(), "{word}");
    }
    assert!(wheel.bulks().await.unwrap().is_empty());
    assert!(wheel.audit(&duewheel::wheel::AuditFilter::default(), None, 1).await.unwrap().entries.is_empty());
}

#[tokio::test]
async fn what_was_revived_and_died_again_is_not_revived_twice() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    bury_many(&wheel, 10).await;
    let bulk = anna(&wheel).begin_bulk(BulkAct::Revive, all(), None, "").await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    // Somebody else was quicker with one of them, and it died again.
    wheel.revive(&id("o-3")).await.unwrap().unwrap();
    let lease = claim(&wheel, duewheel::shard::Shard(0), 77).await.leases.remove(0);
    let bury = duewheel::wheel::Settlement {
        id: lease.id,
        fence: lease.fence,
        what: What::Bury("again".to_owned()),
    };
    wheel.settle(duewheel::shard::Shard(0), &[bury]).await.unwrap();
    let bulk = run(&wheel, &bulk).await;
    assert_eq!((bulk.done, bulk.state), (9, BulkState::Done));
    assert_eq!(wheel.inspect(&id("o-3")).await.unwrap().state, State::Dead);
}

#[tokio::test]
async fn a_bulk_act_that_is_stopped_leaves_the_rest_as_it_was() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    bury_many(&wheel, 20).await;
    let anna = anna(&wheel);
    let bulk = anna.begin_bulk(BulkAct::Revive, all(), None, "").await.unwrap();
    assert_eq!(anna.stop_bulk("17", "").await.unwrap(), None);
    assert!(anna.stop_bulk(&bulk.id, "wrong ones").await.unwrap().is_some());
    let bulk = run(&wheel, &bulk).await;
    assert_eq!((bulk.state, bulk.done, bulk.left), (BulkState::Stopped, 0, 20));
    assert_eq!(wheel.stats().await.unwrap().dead, 20);
    assert!(anna.stop_bulk(&bulk.id, "").await.unwrap().unwrap().is_over(), "it was over");
    let acts = wheel.audit(&duewheel::wheel::AuditFilter::default(), None, 10).await.unwrap().entries;
    let acts: Vec<_> = acts.iter().map(|act| (act.act.as_str(), act.outcome.as_str())).collect();
    assert_eq!(acts, [("stop", "refused"), ("revive", "stopped"), ("stop", "done"), ("stop", "refused")]);
}

struct Serving(Child);

impl Serving {
    fn start(cli: &Cli) -> Self {
        let log = std::fs::File::create(cli.dir.path().join("server.log")).unwrap();
        let mut command = cli.command(&["serve", "--listen", "127.0.0.1:0"]);
        Self(command.stderr(log).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The figure of the promise: ten thousand, and the server that does it is killed in the middle; in the long form thirty thousand (DW-066),
/// and once more before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reviving_ten_thousand_goes_on_after_its_server_was_killed_and_ends_exact() {
    let long = is_long();
    let dead = if long { 30_000 } else { 10_000 };
    let redis = RedisServer::start(RedisOptions::default());
    let cli = Cli::new(&redis);
    let settings = duewheel::wheel::WheelSettings::new(duewheel::shard::WheelName::new(&cli.wheel).unwrap());
    let wheel = wheel_of(&redis, settings).await;
    bury_many(&wheel, dead).await;
    let began = Instant::now();
    let anna = anna(&wheel);
    let bulk = anna.begin_bulk(BulkAct::Revive, all(), None, "the provider is back").await.unwrap();
    assert_eq!(bulk.matched, dead as u64);
    let seen = |least: u64| {
        let (wheel, id) = (wheel.clone(), bulk.id.clone());
        eventually(PATIENCE, move || {
            let (wheel, id) = (wheel.clone(), id.clone());
            async move {
                let bulk = wheel.bulk(&id).await.ok()??;
                (bulk.done >= least).then_some(bulk)
            }
        })
    };
    let mut server = Serving::start(&cli);
    let kills = if long { vec![dead as u64 / 10, dead as u64 / 2] } else { vec![dead as u64 / 2] };
    for part in kills {
        let half = seen(part).await;
        server.0.kill().unwrap();
        server.0.wait().unwrap();
        assert!(!half.is_over() && half.done < dead as u64, "it was killed too late: {half:?}");
        server = Serving::start(&cli);
    }
    let over = eventually(PATIENCE, || async {
        wheel.bulk(&bulk.id).await.ok()?.filter(|bulk| bulk.state == BulkState::Done)
    })
    .await;
    println!("{dead} revived with their server killed on the way in {:?}", began.elapsed());
    assert_eq!((over.done, over.refused, over.left), (dead as u64, 0, 0));
    let stats = wheel.stats().await.unwrap();
    assert_eq!((stats.dead, stats.scheduled), (0, dead as u64), "none is lost");
    // Each life that was given has its event: exactly one for each order.
    let mut lives = std::collections::BTreeMap::<Id, u32>::new();
    for shard in wheel.shards().all() {
        let key = format!("dw1:{{{}.{shard}}}:events", wheel.name());
        let entries: Vec<(String, Vec<String>)> = redis.command(&["XRANGE", &key, "-", "+"]);
        for pair in entries.iter().flat_map(|(_, fields)| fields.chunks(2)) {
            if pair[0] == "revived" {
                for order in pair[1].lines() {
                    *lives.entry(id(order)).or_default() += 1;
                }
            }
        }
    }
    assert_eq!(lives.len(), dead);
    assert!(lives.values().all(|count| *count == 1), "one was revived twice");
    let acts = wheel.audit(&duewheel::wheel::AuditFilter::default(), None, 10).await.unwrap().entries;
    assert_eq!(acts.len(), 1);
    assert_eq!((acts[0].done, acts[0].outcome.as_str()), (dead as u64, "done"));
}

#[tokio::test]
async fn bulk_acts_are_counted_begun_listed_and_stopped_over_http() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    bury_many(&api.wheel, 8).await;
    let path = api.path("/bulk");
    let count = client
        .json("POST", &path, r#"{"act":"revive","filter":{"all":true},"count":true}"#)
        .await
        .is(200)
        .value();
    assert_eq!((&count["matched"], &count["of"], &count["exact"]), (&json!(8), &json!(8), &json!(true)));
    for bad in [
        r#"{"act":"revive"}"#,
        r#"{"act":"revive","filter":{}}"#,
        r#"{"act":"dance","filter":{"all":true}}"#,
        r#"{"act":"hold","filter":{"all":true}}"#,
        r#"{"act":"close","filter":{"all":true}}"#,
        r#"{"act":"cancel","filter":{"reason":"x"}}"#,
        r#"{"act":"revive","filter":{"all":true},"most":0}"#,
        r#"{"act":"revive","filter":{"all":true},"for":"1m"}"#,
    ] {
        client.json("POST", &path, bad).await.problem(422, "invalid");
    }
    let body = r#"{"act":"revive","filter":{"reason":"404"},"reason":"mended","actor":"anna"}"#;
    let begun = client.json("POST", &path, body).await.is(202).value();
    assert_eq!(
        (&begun["state"], &begun["matched"], &begun["by"]),
        (&json!("waiting"), &json!(2), &json!("anna (token http)"))
    );
    let one = format!("{path}/{}", begun["id"].as_str().unwrap());
    assert_eq!(client.bare("GET", &one).await.is(200).value()["matched"], 2);
    assert_eq!(client.bare("DELETE", &one).await.is(200).value()["id"], begun["id"]);
    assert_eq!(client.bare("GET", &one).await.is(200).value()["state"], "stopped");
    client.bare("GET", &format!("{path}/17")).await.problem(404, "absent");
    client.bare("DELETE", &format!("{path}/17")).await.problem(404, "absent");
    let listed = client.bare("GET", &path).await.is(200).value();
    assert_eq!(listed["bulks"].as_array().unwrap().len(), 1);
    api.stop().await;
}

#[test]
fn the_command_line_counts_begins_waits_and_lists() {
    let cli = Cli::new(RedisServer::shared());
    for n in 0..5 {
        cli.run(&["enqueue", &format!("eu-{n}"), "--in", "1h"]).ends(0);
    }
    let count =
        cli.run(&["bulk", "begin", "cancel", "--prefix", "eu-", "--count", "--json"]).ends(0).object();
    assert_eq!((&count["matched"], &count["exact"]), (&json!(5), &json!(true)));
    cli.run(&["bulk", "begin", "cancel", "--prefix", "eu-"]).ends(2);
    let over = cli
        .run(&["bulk", "begin", "cancel", "--prefix", "eu-", "--yes", "--wait", "--json"])
        .ends(0)
        .object();
    assert_eq!((&over["state"], &over["done"]), (&json!("done"), &json!(5)));
    assert!(cli.run(&["bulk", "list"]).ends(0).stdout.contains("done"));
    let id = over["id"].as_str().unwrap();
    assert!(cli.run(&["bulk", "show", id]).ends(0).stdout.contains("5 done"));
    cli.run(&["bulk", "show", "17"]).ends(5);
    assert_eq!(cli.stat("scheduled"), 0);
}

#[tokio::test]
async fn a_server_runs_what_another_door_began() {
    let redis = RedisServer::start(RedisOptions::default());
    let cli = Cli::new(&redis);
    let settings = duewheel::wheel::WheelSettings::new(duewheel::shard::WheelName::new(&cli.wheel).unwrap());
    let wheel = wheel_of(&redis, settings).await;
    bury(&wheel, "a", "x").await;
    cli.run(&["bulk", "begin", "revive", "--yes"]).ends(0);
    let _server = Serving::start(&cli);
    eventually(PATIENCE, || async { (wheel.stats().await.ok()?.dead == 0).then_some(()) }).await;
}

#[tokio::test]
async fn a_foreman_that_dies_before_it_has_said_the_end_leaves_that_to_the_next_one() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 2).await;
    bury_many(&wheel, 6).await;
    let anna = anna(&wheel);
    let told = async || {
        let acts = wheel.audit(&AuditFilter::default(), None, 100).await.unwrap().entries;
        let told =
            acts.iter().map(|act| format!("{} {}/{} {}", act.act, act.done, act.asked, act.outcome.as_str()));
        told.collect::<Vec<_>>()
    };
    let bulk = anna.begin_bulk(BulkAct::Revive, all(), None, "mended").await.unwrap();
    let Some(Task::Run(taken)) = wheel.take_bulk("dies", Duration::from_secs(60)).await.unwrap() else {
        panic!("there is one to run");
    };
    // Its work is done and written down as done; then it dies.
    let over = Bulk { state: BulkState::Done, done: 6, left: 0, ended_at_ms: Some(1), ..taken.bulk.clone() };
    taken.job.finish_bulk(&over).await.unwrap();
    drop(taken);
    assert_eq!(told().await, ["revive 0/6 begun"]);
    let foreman = Foreman::new(wheel.clone());
    let seen = foreman.look().await.unwrap().unwrap();
    assert_eq!((seen.id, seen.done), (bulk.id.clone(), 6));
    assert_eq!(told().await, ["revive 6/6 done"]);
    assert!(foreman.look().await.unwrap().is_none());
    // Had it died a moment later, its end is said twice, and shown once: on whatever page of the audit the two stand.
    let list = format!("dw1:{{{}}}:bulks", wheel.name());
    server.command::<u64>(&["HSET", &list, &bulk.id, &serde_json::to_string(&bulk).unwrap()]);
    assert!(foreman.look().await.unwrap().is_some());
    assert!(foreman.look().await.unwrap().is_none());
    assert_eq!(told().await, ["revive 6/6 done"]);
    let later = anna.begin_bulk(BulkAct::Drop, all(), None, "").await.unwrap();
    run(&wheel, &later).await;
    let (mut pages, mut cursor) = (Vec::new(), None);
    loop {
        let page = wheel.audit(&AuditFilter::default(), cursor.as_ref(), 1).await.unwrap();
        pages.extend(page.entries.iter().map(|act| (act.act.clone(), act.done, act.outcome.as_str())));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    let act = |word: &str| (word.to_owned(), 6, "done");
    assert_eq!(pages, [act("drop"), act("revive")]);
    assert_eq!(wheel.bulks().await.unwrap().len(), 2);
}
