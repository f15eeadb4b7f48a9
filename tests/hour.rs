//! The last hour in Redis: what the whole fleet did, minute by minute, whoever has ended since; bounded, and never counted twice.

use std::sync::Arc;
use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::hook::Verdict;
use duewheel::metrics::Spread;
use duewheel::wheel::{HOUR_MINUTES, Hour, Minute, RedisSettings, Store, Wheel, script};

use crate::rig::crew::{Mate, closed, enqueue_range, quick};
use crate::rig::hook::Recorder;
use crate::rig::redis::{Aof, RedisOptions, RedisServer};
use crate::rig::wheel::{after, enqueue, wheel};
use crate::rig::{PATIENCE, eventually};

async fn hour(wheel: &Wheel) -> Hour {
    wheel.hour().await.unwrap()
}

/// A minute that lies so many before the present one, with so many closes.
async fn minute(wheel: &Wheel, back: u64, closed: u64) -> Minute {
    let now = wheel.now().await.unwrap();
    let then = Moment::from_millis(now.as_millis() - back * 60_000).unwrap();
    Minute { closed, ..Minute::at(then) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_are_added_up_and_what_they_did_outlives_them_and_redis() {
    let mut server = RedisServer::start(RedisOptions::aof(Aof::Always));
    let wheel = wheel(&server, 8).await;
    enqueue_range(&wheel, 0..400, |_| after(0)).await;
    let hook = Arc::new(Recorder::closing());
    let (a, b) = (Mate::start(&wheel, hook.clone(), quick()), Mate::start(&wheel, hook.clone(), quick()));
    closed(&wheel, 400).await;
    let (a, b) = (a.drain().await, b.drain().await);
    assert_eq!(a.tally.closed + b.tally.closed, 400);
    let first = hour(&wheel).await;
    assert_eq!(first.minutes.len(), 60);
    let sum = first.sum();
    assert_eq!((sum.closed, sum.lateness.count()), (400, 400));
    assert_eq!(first.last(3).closed, 400, "they belong to the last minutes");

    server.restart();
    // Each connection learns once that the one before is gone.
    for _ in 0..4 {
        let _ = wheel.now().await;
    }
    let c = Mate::start(&wheel, hook, quick());
    enqueue_range(&wheel, 400..450, |_| after(0)).await;
    closed(&wheel, 450).await;
    c.drain().await;
    assert_eq!(hour(&wheel).await.sum().closed, 450);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_has_told_what_it_did_by_outcome() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    let hook = Recorder::new(|lease| match lease.id.as_str() {
        "paid" => Verdict::Skipped { state: "paid".to_owned() },
        "odd" => Verdict::Rejected { reason: "odd".to_owned() },
        "sick" => Verdict::Failed { reason: "sick".to_owned() },
        "away" if lease.attempt == 1 => {
            Verdict::Unavailable { reason: "away".to_owned(), retry_after: Some(Duration::from_secs(60)) }
        }
        _ => Verdict::Closed,
    });
    for id in ["closes", "paid", "odd", "sick"] {
        enqueue(&wheel, id, after(0)).await.unwrap();
    }
    let worker = Mate::start(&wheel, Arc::new(hook), quick());
    // Sick: two retries, then dead with the third attempt.
    eventually(PATIENCE, || async {
        let sum = wheel.hour().await.ok()?.sum();
        (sum.counts()[..3] == [1, 1, 2] && sum.buried == 2).then_some(())
    })
    .await;
    enqueue(&wheel, "away", after(0)).await.unwrap();
    eventually(PATIENCE, || async {
        (wheel.hour().await.ok()?.sum().counts() == [1, 1, 2, 1, 2]).then_some(())
    })
    .await;
    worker.kill();
    assert_eq!(hour(&wheel).await.sum().counts(), [1, 1, 2, 1, 2]);
    assert_eq!(hour(&wheel).await.sum().lateness.count(), 5, "first attempts alone are measured");
}

#[tokio::test]
async fn what_is_cancelled_by_anybody_is_counted_once_however_many_workers_tell_of_it() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let cancelled = async || hour(&wheel).await.sum().cancelled;
    // So it was before anybody looked: nobody knows in which minute.
    wheel.cancel(&["before"].map(crate::rig::wheel::id)).await;
    enqueue(&wheel, "before-2", after(60_000)).await.unwrap();
    wheel.cancel(&["before-2"].map(crate::rig::wheel::id)).await;
    let mut total = 0;
    for _ in 0..3 {
        total = wheel.record_cancelled(None).await.unwrap();
    }
    assert_eq!(cancelled().await, 0);
    for n in 0..40 {
        enqueue(&wheel, &format!("o-{n}"), after(60_000)).await.unwrap();
    }
    let ids: Vec<_> = (0..40).map(|n| crate::rig::wheel::id(&format!("o-{n}"))).collect();
    // As if the others had told of it a minute ago: the minutes of one test are too few.
    let before = minute_key(&wheel, 1).await;
    RedisServer::shared().command::<u64>(&["HSET", &before, "=", &format!("t {total}")]);
    wheel.cancel(&ids).await;
    let known = wheel.record_cancelled(None).await.unwrap();
    for _ in 0..3 {
        assert_eq!(wheel.record_cancelled(Some(known)).await.unwrap(), known);
        wheel.record_cancelled(None).await.unwrap();
    }
    assert_eq!(cancelled().await, 40);
    // A share of a worker is beside it.
    wheel.record_hour("a", &[minute(&wheel, 0, 3).await]).await.unwrap();
    let sum = hour(&wheel).await.sum();
    assert_eq!((sum.closed, sum.cancelled), (3, 40));
    let worker = Mate::start(&wheel, Arc::new(Recorder::closing()), quick());
    enqueue(&wheel, "closes", after(0)).await.unwrap();
    eventually(PATIENCE, async || (hour(&wheel).await.sum().closed == 4).then_some(())).await;
    worker.drain().await;
    assert_eq!(cancelled().await, 40);
}

/// The key of the minute so many before the present one.
async fn minute_key(wheel: &Wheel, back: u64) -> String {
    let now = wheel.now().await.unwrap().as_millis();
    format!("dw1:{{{}}}:hour:{}", wheel.name(), now / 60_000 - back)
}

#[tokio::test]
async fn percentiles_of_the_fleet_are_those_of_all_shares_together() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    // One worker is on time 99 times, another one late once: half are within a millisecond, one in a hundred took up to 5 s.
    let (mut prompt, mut late) = (minute(&wheel, 0, 99).await, minute(&wheel, 0, 1).await);
    prompt.lateness.put(0, 99);
    late.lateness.put(11, 1);
    wheel.record_hour("a", &[prompt]).await.unwrap();
    wheel.record_hour("b", &[late]).await.unwrap();
    let lateness: Spread = hour(&wheel).await.last(2).lateness;
    assert_eq!(lateness.count(), 100);
    assert!(lateness.quantile(0.5).unwrap() <= Duration::from_millis(1));
    assert!(lateness.quantile(0.99).unwrap() <= Duration::from_millis(1));
    assert_eq!(lateness.quantile(1.0).unwrap(), Duration::from_secs(5));
}

#[tokio::test]
async fn a_repeated_record_counts_nothing_twice_and_a_later_one_replaces_it() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let share = minute(&wheel, 1, 7).await;
    for _ in 0..3 {
        wheel.record_hour("a", std::slice::from_ref(&share)).await.unwrap();
    }
    assert_eq!(hour(&wheel).await.sum().closed, 7);
    wheel.record_hour("a", &[Minute { closed: 9, ..share }]).await.unwrap();
    assert_eq!(hour(&wheel).await.sum().closed, 9);
}

#[tokio::test]
async fn the_hour_is_bounded_forgets_by_itself_and_goes_with_its_wheel() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    let keys = || {
        let mut keys: Vec<String> = server.command(&["KEYS", "dw1:{w*}:hour:*"]);
        keys.sort();
        keys
    };
    let mut minutes = Vec::new();
    for back in 0..HOUR_MINUTES {
        let mut minute = minute(&wheel, back, u64::MAX).await;
        minute.skipped = u64::MAX;
        (0..17).for_each(|place| minute.lateness.put(place, u64::MAX));
        minutes.push(minute);
    }
    for worker in ["a", "b", "c"] {
        wheel.record_hour(worker, &minutes).await.unwrap();
    }
    assert_eq!(keys().len(), 60);
    for key in keys() {
        let left: u64 = server.command(&["PTTL", &key]);
        assert!((1..=70 * 60_000).contains(&left), "{key} lives for {left} ms");
    }
    let bytes: Vec<u64> = keys().iter().map(|key| server.command(&["MEMORY", "USAGE", key])).collect();
    // Three workers, each with numbers as large as there are: less than two kilobytes a minute.
    assert!(bytes.iter().all(|bytes| *bytes < 2048), "{bytes:?}");
    // The largest numbers add up to the largest, and to no panic.
    assert_eq!(hour(&wheel).await.sum().closed, u64::MAX);

    let one_more = minute(&wheel, 60, 1).await;
    let refused = wheel.record_hour("a", &[minutes, vec![one_more]].concat()).await.unwrap_err();
    assert!(refused.to_string().contains("BADCALL"), "{refused}");
    assert_eq!(keys().len(), 60);
    // What is older than an hour is there for a while, and not shown.
    let old = minute(&wheel, 62, 5).await;
    wheel.drop_wheel().await.unwrap();
    assert_eq!(keys(), Vec::<String>::new());
    wheel.record_hour("a", &[old]).await.unwrap();
    assert_eq!(hour(&wheel).await.sum().closed, 0);
}

#[tokio::test]
async fn a_full_redis_goes_on_recording() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    server.command::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    assert!(server.try_command::<()>(&["SET", "x", "y"]).is_err(), "Redis is not full");
    wheel.record_hour("a", &[minute(&wheel, 0, 3).await]).await.unwrap();
    assert_eq!(hour(&wheel).await.sum().closed, 3);
}

#[tokio::test]
async fn a_record_of_nonsense_is_refused_and_writes_nothing() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    let key = |minute: &str| format!("dw1:{{{}}}:hour:{minute}", wheel.name());
    let (one, two, odd) = (key("1"), key("2"), key("x"));
    let (one, two, odd) = (one.as_str(), two.as_str(), odd.as_str());
    let call = |keys: &[&str], args: &[&str]| {
        let count = keys.len().to_string();
        let source = script::RECORD_HOUR.source();
        server.try_command::<Vec<u64>>(&[&["EVAL", source, &count][..], keys, args].concat())
    };
    let long = "1".repeat(513);
    for (keys, args) in [
        (&[][..], &["", "a", "1000"][..]),
        (&[one], &["", "a", "1000"]),
        (&[one], &["", "a", "1000", "1", "1"]),
        (&[one], &["", "", "1000", "1"]),
        (&[one], &["", "a", "0", "1"]),
        (&[one], &["", "a", "-1", "1"]),
        (&[one], &["", "a", "1e3", "1"]),
        (&[one], &["", "a", "1000", &long]),
        (&[one], &["123", "a", "1000", "1"]),
        (&[one, odd], &["", "a", "1000", "1", "1"]),
        (&[one, "dw1:{other}:hour:2"], &["", "a", "1000", "1", "1"]),
        (&["dw1:{x}:state"], &["", "a", "1000", "1"]),
    ] {
        let refused = call(keys, args).expect_err(&format!("{keys:?} {args:?}"));
        assert!(refused.to_string().contains("BADCALL"), "{refused}");
    }
    server.command::<()>(&["SET", two, "not a hash"]);
    assert!(call(&[one, two], &["", "a", "1000", "1", "1"]).is_err());
    assert_eq!(server.command::<u64>(&["EXISTS", one]), 0);
    // Nonsense that somebody else wrote there spoils nothing but itself.
    server.command::<u64>(&["DEL", two]);
    let good = minute(&wheel, 0, 4).await;
    let there = key(&(good.from_ms / 60_000).to_string());
    server.command::<u64>(&["HSET", &there, "x", "\u{202e}not ours", "y", "1 -1 a"]);
    wheel.record_hour("a", &[good]).await.unwrap();
    assert_eq!(hour(&wheel).await.sum().closed, 4);
}

#[tokio::test]
async fn an_hour_of_a_wheel_that_nobody_works_on_is_empty() {
    let server = RedisServer::shared();
    let store = Arc::new(Store::new(&RedisSettings::new(server.url().into())).unwrap());
    let wheel = Wheel::new(store, crate::rig::wheel::settings(4));
    let hour = hour(&wheel).await;
    assert!(hour.minutes.len() == 60 && hour.minutes.iter().all(Minute::is_empty));
    assert_eq!(hour.sum().lateness.quantile(0.99), None);
    let starts: Vec<_> = hour.minutes.iter().map(|minute| minute.from_ms).collect();
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 60_000));
    assert!((starts[59]..starts[59] + 60_000).contains(&hour.now_ms));
}
