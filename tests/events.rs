//! Others are told what became of orders: once each by the command line, at least once by a consumer group, in order, whatever dies.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::deadline::Outcome;
use duewheel::lease::Lease;
use duewheel::wheel::{Settlement, What, Wheel};

use crate::rig::cli::Cli;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{after, claim, enqueue, id, key, wheel};
use crate::rig::{PATIENCE, eventually_blocking, signal};

#[path = "../examples/consumer.rs"]
mod consumer;

use consumer::{Consumer, Told};

/// Enqueues these for now, claims and closes them.
async fn close(wheel: &Wheel, ids: &[String], nonce: u64) {
    for one in ids {
        enqueue(wheel, one, after(0)).await.unwrap();
    }
    for shard in wheel.shards().all() {
        let leases = claim(wheel, shard, nonce).await.leases;
        let settle = |lease: Lease| Settlement {
            id: lease.id.clone(),
            fence: lease.fence,
            what: What::End { outcome: Outcome::Closed, lease: Arc::new(lease) },
        };
        wheel.settle(shard, &leases.into_iter().map(settle).collect::<Vec<_>>()).await.unwrap();
    }
}

fn names(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|n| format!("o-{n}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_all_shards_come_once_each_and_in_order_while_more_happen() {
    let wheel = wheel(RedisServer::shared(), 8).await;
    let mut reader = wheel.events(Moment::EPOCH);
    // Several at once, so that a shard is written to while another is read.
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let wheel = wheel.clone();
        writers.spawn(async move {
            for round in 0..30 {
                let first = writer * 300 + round * 10;
                close(&wheel, &names(first, first + 10), first as u64 + 1).await;
            }
        });
    }
    let mut seen = Vec::new();
    while writers.try_join_next().is_some() || !writers.is_empty() {
        seen.extend(reader.read().await.unwrap().events);
    }
    while reader.read().await.map(|page| (page.more, seen.extend(page.events)).0).unwrap() {}
    seen.extend(reader.rest());
    let ids: Vec<&str> = seen.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids.len(), 1200);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 1200);
    assert!(seen.iter().all(|event| event.what == "closed"));
    assert!(seen.is_sorted_by_key(|event| event.at_ms), "out of order over the shards");
}

#[tokio::test]
async fn what_something_older_may_still_come_before_is_held_back() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 2).await;
    let mut reader = wheel.events(Moment::EPOCH);
    let add = |shard: u16, entry: &str, order: &str| {
        let stream = key(&wheel, duewheel::shard::Shard(shard), "events");
        server.command::<String>(&["XADD", &stream, entry, "closed", order]);
    };
    let ids =
        |events: &[duewheel::wheel::ShardEvent]| events.iter().map(|e| e.id.clone()).collect::<Vec<_>>();
    add(0, &format!("{}-0", Moment::host_now().as_millis() + 60_000), "later");
    assert_eq!(ids(&reader.read().await.unwrap().events), [""; 0]);
    add(1, "*", "earlier");
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(ids(&reader.read().await.unwrap().events), ["earlier"]);
    assert_eq!(ids(&reader.rest()), ["later"]);
}

#[tokio::test]
async fn more_than_a_page_of_a_shard_is_read_whole_and_in_order() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 2).await;
    for n in 0..1000 {
        let stream = key(&wheel, duewheel::shard::Shard(u16::from(n % 3 == 0)), "events");
        let entry = format!("{}-0", 1_000_000 + n);
        server.command::<String>(&["XADD", &stream, &entry, "closed", &format!("a-{n}\nb-{n}")]);
    }
    let mut reader = wheel.events(Moment::from_millis(1_000_100).unwrap());
    let mut seen = Vec::new();
    loop {
        let page = reader.read().await.unwrap();
        seen.extend(page.events);
        if !page.more {
            break;
        }
    }
    seen.extend(reader.rest());
    let expected: Vec<String> = (100..1000).flat_map(|n| [format!("a-{n}"), format!("b-{n}")]).collect();
    assert_eq!(seen.into_iter().map(|event| event.id).collect::<Vec<_>>(), expected);
}

/// Writes a backlog to the shards of a wheel: entries of 500 ids, one each second of each shard; answers the ids in order of time.
pub(crate) fn write_backlog(server: &RedisServer, wheel: &Wheel, shards: u16, entries: u64) -> Vec<String> {
    let mut all = Vec::new();
    let mut pipe = redis::pipe();
    for n in 1..=entries {
        for shard in 0..shards {
            let ids: Vec<String> = (0..500).map(|id| format!("order-{shard}-{n}-{id}")).collect();
            let stream = key(wheel, duewheel::shard::Shard(shard), "events");
            let stamp = format!("{}-0", 1_000_000 + n * 1000 + u64::from(shard));
            pipe.cmd("XADD").arg(stream).arg(stamp).arg("closed").arg(ids.join("\n")).ignore();
            all.extend(ids);
        }
    }
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    pipe.query::<()>(&mut connection).unwrap();
    all
}

#[tokio::test]
async fn a_long_backlog_is_handed_out_a_little_at_a_time_and_whole() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 4).await;
    let expected = write_backlog(&server, &wheel, 4, 60);
    let mut reader = wheel.events(Moment::EPOCH);
    let (mut seen, mut most) = (Vec::with_capacity(expected.len()), 0);
    loop {
        let page = reader.read().await.unwrap();
        most = most.max(page.events.len());
        seen.extend(page.events.into_iter().map(|event| event.id));
        if !page.more {
            break;
        }
    }
    assert!(seen == expected, "{} of {}", seen.len(), expected.len());
    assert!((500..=1000).contains(&most), "{most} at once");
    assert!(reader.rest().is_empty());
}

#[tokio::test]
async fn what_else_an_entry_says_stands_with_its_id_and_is_no_event() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    let stream = key(&wheel, duewheel::shard::Shard(0), "events");
    server.command::<String>(&[
        "XADD",
        &stream,
        "*",
        "closed",
        "a\nb",
        "reminded",
        "7\nc",
        "reminded.stage",
        "2\n1",
    ]);
    let mut reader = wheel.events(Moment::EPOCH);
    reader.read().await.unwrap();
    let mut seen = wheel.events(Moment::EPOCH).read().await.unwrap().events;
    seen.extend(reader.rest());
    let told: Vec<_> = seen
        .iter()
        .map(|e| (e.what.as_str(), e.id.as_str(), e.details.get("stage").map(String::as_str)))
        .collect();
    let expected = [
        ("closed", "a", None),
        ("closed", "b", None),
        ("reminded", "7", Some("2")),
        ("reminded", "c", Some("1")),
    ];
    assert_eq!(told[told.len() - 4..], expected);
    // `1` is a stage here, not an order that was reminded.
    assert_eq!(wheel.history(&id("1")).await.unwrap(), []);
    assert_eq!(wheel.history(&id("7")).await.unwrap().len(), 1);
}

#[test]
fn the_command_shows_what_happened_by_kind_and_time() {
    let cli = Cli::new(RedisServer::shared());
    for order in ["o-1", "o-2"] {
        cli.run(&["enqueue", order, "--in", "1h"]).ends(0);
    }
    cli.run(&["cancel", "o-1"]).ends(0);
    cli.run(&["enqueue", "o-1", "--in", "1h", "--force"]).ends(0);
    let shown = cli.run(&["events", "--json"]).ends(0).objects();
    let told: Vec<_> =
        shown.iter().map(|e| (e["what"].as_str().unwrap(), e["id"].as_str().unwrap())).collect();
    assert_eq!(told, [("cancelled", "o-1"), ("resurrected", "o-1")]);
    assert_eq!(cli.run(&["events", "--type", "resurrected"]).ends(0).stdout.lines().count(), 1);
    assert!(cli.run(&["events", "--since", "0s"]).ends(0).stderr.contains("none on wheel"));
    let refused = cli.run(&["events", "--type", "closd"]).ends(2);
    assert!(refused.stderr.contains("closed") && refused.stderr.contains("resurrected"), "{refused:?}");
}

/// A child that is ended with its test.
struct Following(Child);

impl Drop for Following {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test]
async fn following_misses_nothing_and_repeats_nothing_while_redis_is_away_for_a_while() {
    let mut server = RedisServer::start(RedisOptions::aof(crate::rig::redis::Aof::Always));
    let cli = Cli::new(&server);
    cli.run(&["enqueue", "o-0", "--in", "1h"]).ends(0);
    let mut command = cli.command(&["events", "--follow", "--since", "1h", "--json"]);
    let mut child = Following(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let out = BufReader::new(child.0.stdout.take().unwrap());
    let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    let mut seen = Vec::new();
    for round in 1..=3 {
        for n in 0..10 {
            cli.run(&["enqueue", &format!("r{round}-{n}"), "--in", "1h"]).ends(0);
            cli.run(&["cancel", &format!("r{round}-{n}")]).ends(0);
        }
        if round == 2 {
            server.restart();
        }
        let wanted = round * 10;
        while seen.len() < wanted {
            let line = tokio::time::timeout(PATIENCE, lines.recv()).await.unwrap().unwrap();
            let event: serde_json::Value = serde_json::from_str(&line).unwrap();
            seen.push(event["id"].as_str().unwrap().to_owned());
        }
    }
    signal(child.0.id(), "INT");
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
    assert_eq!(lines.recv().await, None, "shown again");
    let expected: Vec<_> = (1..=3).flat_map(|r| (0..10).map(move |n| format!("r{r}-{n}"))).collect();
    assert_eq!(seen, expected);
}

fn join(wheel: &Wheel, group: &str, name: &str) -> Consumer {
    let shards = wheel.shards().get().into();
    Consumer::join(&RedisServer::shared().url(), wheel.name().as_str(), shards, group, name).unwrap()
}

/// Everything that is there now.
fn take(consumer: &mut Consumer, told: &mut Vec<Told>) {
    while consumer.next(0, &mut |one| told.push(one.clone())).unwrap() > 0 {}
}

#[tokio::test]
async fn each_group_is_told_everything_and_its_consumers_share_the_work() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let mut early = join(&wheel, "inventory", "a");
    close(&wheel, &names(0, 40), 1).await;
    let mut told = Vec::new();
    take(&mut early, &mut told);
    close(&wheel, &names(40, 80), 2).await;
    take(&mut join(&wheel, "inventory", "b"), &mut told);
    let mut points = Vec::new();
    take(&mut join(&wheel, "points", "a"), &mut points);
    for told in [told, points] {
        let mut ids: Vec<_> = told.iter().map(|one| one.id.clone()).collect();
        ids.sort_by_key(|id| id[2..].parse::<u32>().unwrap());
        assert_eq!(ids, names(0, 80));
    }
}

#[tokio::test]
async fn what_a_consumer_had_in_hand_when_it_died_is_told_again_under_the_same_key() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let mut first = join(&wheel, "inventory", "a");
    close(&wheel, &names(0, 20), 1).await;
    // It dies in the middle of its work: some is done, nothing of that entry is acknowledged.
    let (mut done, died) = (Vec::new(), std::panic::AssertUnwindSafe(&mut first));
    let crash = std::panic::catch_unwind(move || {
        let died = died;
        died.0.next(0, &mut |one| {
            done.push(one.clone());
            assert!(done.len() < 3, "power cut");
        })
    });
    assert!(crash.is_err());
    let mut by_key: BTreeMap<String, u32> = BTreeMap::new();
    let mut note = |one: &Told| *by_key.entry(one.key.clone()).or_default() += 1;
    while join(&wheel, "inventory", "a").unfinished(&mut note).unwrap() > 0 {}
    assert_eq!(by_key.len(), 20, "all that was handed out and not acknowledged");
    assert_eq!(join(&wheel, "inventory", "a").next(0, &mut |_| {}).unwrap(), 0);
}

#[tokio::test]
async fn what_a_dead_consumer_left_is_taken_over_by_another() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    join(&wheel, "inventory", "a");
    close(&wheel, &names(0, 20), 1).await;
    // Handed to `a`, which is never heard of again.
    for shard in wheel.shards().all() {
        let stream = key(&wheel, shard, "events");
        RedisServer::shared().command::<redis::Value>(&[
            "XREADGROUP",
            "GROUP",
            "inventory",
            "a",
            "STREAMS",
            &stream,
            ">",
        ]);
    }
    let mut told = Vec::new();
    let mut other = join(&wheel, "inventory", "b");
    take(&mut other, &mut told);
    assert_eq!(told, []);
    eventually_blocking(PATIENCE, || {
        other.abandoned(20, &mut |one| told.push(one.clone())).unwrap();
        (told.len() == 20).then_some(())
    });
    tokio::time::sleep(Duration::from_millis(25)).await;
    assert_eq!(other.abandoned(20, &mut |_| {}).unwrap(), 0, "acknowledged");
}
