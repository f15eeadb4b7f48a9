//! Redis, a worker and an endpoint together: what each kind of answer makes of an order in the end.

use std::sync::Arc;
use std::time::Duration;

use duewheel::deadline::State;
use duewheel::hook::webhook::{WebhookHook, WebhookSettings};
use duewheel::retry::{Backoff, RetryPolicy};
use duewheel::wheel::Wheel;
use duewheel::worker::{Drained, Worker, WorkerSettings};
use tokio_util::sync::CancellationToken;

use super::settings;
use crate::rig::redis::RedisServer;
use crate::rig::stub::{Answer, Body, Stub, StubSettings};
use crate::rig::wheel::{after, enqueue, id, wheel};
use crate::rig::{PATIENCE, eventually, free_port};

/// A worker for `wheel`, stopped when dropped.
struct Fleet(CancellationToken, tokio::task::JoinHandle<Drained>);

impl Fleet {
    fn start(wheel: &Wheel, hook: &WebhookSettings) -> Self {
        let backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(100), 0.2).unwrap();
        let settings = WorkerSettings {
            lease: Duration::from_secs(4),
            lease_margin: Duration::from_millis(200),
            retry: RetryPolicy { backoff, max_attempts: 3, poison_limit: 5 },
            gone_grace: Duration::from_millis(50),
            not_due_wait: Duration::from_millis(50),
            ..WorkerSettings::default()
        };
        let hook = Arc::new(WebhookHook::new(hook).unwrap());
        let worker = Worker::new(wheel.clone(), hook, settings).unwrap();
        let stop = CancellationToken::new();
        let given = stop.clone();
        Self(stop, tokio::spawn(async move { worker.run(given).await }))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.0.cancel();
        self.1.abort();
    }
}

fn patient(url: &str) -> WebhookSettings {
    let mut settings = settings(url);
    settings.timeout = Duration::from_secs(3);
    settings.connect_timeout = Duration::from_secs(1);
    settings
}

/// Waits until nothing is scheduled or leased any more.
async fn at_rest(wheel: &Wheel) {
    eventually(PATIENCE, || async {
        let stats = wheel.stats().await.ok()?;
        (stats.scheduled + stats.leased == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_answer_ends_where_the_table_says() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let stub = Stub::start().await;
    let once = |first: Answer| vec![first, Answer::status(200)];
    let status = Answer::status;
    // Id, answers, calls in the end, whether the order ends dead.
    let mut table: Vec<(String, Vec<Answer>, usize, bool)> = Vec::new();
    for code in [200, 201, 202, 204, 205] {
        table.push((format!("ok-{code}"), vec![status(code)], 1, false));
    }
    for code in [300, 301, 302, 303, 304, 307, 308] {
        let to_login = status(code).header("location", "/login");
        table.push((format!("moved-{code}"), vec![to_login.clone()], 3, true));
        table.push((format!("moved-once-{code}"), once(to_login), 2, false));
    }
    for code in [400, 404, 409, 410, 500] {
        table.push((format!("failed-{code}"), vec![status(code)], 3, true));
        table.push((format!("failed-once-{code}"), once(status(code)), 2, false));
    }
    for code in [408, 425, 429, 502, 503, 504] {
        // More often than an order may fail.
        let mut answers = vec![status(code); 6];
        answers.push(status(200));
        table.push((format!("down-{code}"), answers, 7, false));
    }
    let verdict = |body: &str| vec![Answer::verdict(409, body)];
    table.push(("paid".to_owned(), verdict(r#"{"verdict":"paid"}"#), 1, false));
    table.push(("rejected".to_owned(), verdict(r#"{"verdict":"rejected"}"#), 1, true));
    table.push(("cut".to_owned(), once(status(200).of(Body::CutShort(b"{".to_vec()))), 2, false));
    table.push(("not-due".to_owned(), once(Answer::verdict(200, r#"{"verdict":"not_due"}"#)), 2, false));
    for (name, answers, ..) in &table {
        stub.script(name, answers.clone());
        enqueue(&wheel, name, after(0)).await.unwrap();
    }
    let _fleet = Fleet::start(&wheel, &patient(&stub.url("/close")));
    at_rest(&wheel).await;

    for (name, _, calls, dead) in &table {
        let seen = stub.calls_for(name);
        assert_eq!(seen.len(), *calls, "{name}");
        assert!(seen.iter().all(|call| call.header("webhook-id") == seen[0].header("webhook-id")), "{name}");
        let fences: Vec<_> = seen.iter().map(|call| call.data()["fence"].as_u64().unwrap()).collect();
        assert!(fences.is_sorted_by(|a, b| a < b), "{name}: {fences:?}");
        let inspection = wheel.inspect(&id(name)).await.unwrap();
        assert_eq!(inspection.state, if *dead { State::Dead } else { State::Ended }, "{name}");
        if let Some((_, reason)) = inspection.death {
            let code = name.rsplit('-').next().unwrap();
            assert!(reason.contains(code), "{name}: {reason}");
        }
        let attempts: Vec<_> = seen.iter().map(|call| call.data()["attempt"].as_u64().unwrap()).collect();
        if name.starts_with("down") {
            assert!(attempts.iter().all(|attempt| *attempt == 1), "{name}: {attempts:?}");
        }
    }
    assert!(stub.calls().iter().all(|call| call.path == "/close"), "a redirect was followed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_call_waits_as_long_as_retry_after_says() {
    // A pause holds the whole endpoint back, so each kind has one of its own.
    let wait = async |status: u16, asks: &str| {
        let wheel = wheel(RedisServer::shared(), 2).await;
        let stub = Stub::start().await;
        let first = Answer::status(status).header("retry-after", asks);
        stub.script("o-1", vec![first, Answer::status(200)]);
        enqueue(&wheel, "o-1", after(0)).await.unwrap();
        let mut capped = patient(&stub.url("/close"));
        capped.retry_after_cap = Duration::from_secs(2);
        let _fleet = Fleet::start(&wheel, &capped);
        at_rest(&wheel).await;
        let calls = stub.calls_for("o-1");
        assert_eq!(calls.len(), 2, "{status} {asks}");
        calls[1].arrived_ms - calls[0].arrived_ms
    };
    let (two, capped, bad) = ("2", "99999999999", "-2");
    let waits =
        tokio::join!(wait(429, two), wait(503, two), wait(429, capped), wait(429, bad), wait(503, bad));
    for asked in [waits.0, waits.1, waits.2] {
        assert!((2000..4000).contains(&asked), "{waits:?}");
    }
    assert!(waits.3 < 1500 && waits.4 < 1500, "{waits:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_longer_than_all_attempts_buries_nothing() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/close");
    for n in 0..30 {
        enqueue(&wheel, &format!("o-{n}"), after(0)).await.unwrap();
    }
    let _fleet = Fleet::start(&wheel, &patient(&url));
    // 3 attempts with a back-off of 100 ms at most would be over long before.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let stats = wheel.stats().await.unwrap();
    assert_eq!((stats.dead, stats.scheduled + stats.leased), (0, 30));
    let listen = ([127, 0, 0, 1], port).into();
    let stub = Stub::start_as(StubSettings { listen, ..StubSettings::default() }).await;
    at_rest(&wheel).await;
    assert_eq!(wheel.stats().await.unwrap().totals["closed"], 30);
    assert_eq!(stub.calls().len(), 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_endpoint_writes_is_kept_escaped_and_bounded() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let stub = Stub::start().await;
    let nasty = format!("x\n2026-01-01 ERROR fake\r\u{1b}[2J{}", "A".repeat(5000));
    stub.otherwise(Answer::status(500).body(nasty));
    enqueue(&wheel, "o-1", after(0)).await.unwrap();
    let _fleet = Fleet::start(&wheel, &patient(&stub.url("/close")));
    at_rest(&wheel).await;
    let (_, reason) = wheel.inspect(&id("o-1")).await.unwrap().death.unwrap();
    assert!(reason.len() <= 4096 && !reason.chars().any(char::is_control), "{reason}");
    assert!(reason.contains("status 500") && reason.contains("\\u{1b}[2J"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hung_endpoint_does_not_slow_down_another_wheel() {
    let (slow_wheel, quick_wheel) =
        (wheel(RedisServer::shared(), 2).await, wheel(RedisServer::shared(), 2).await);
    let (slow, quick) = (Stub::start().await, Stub::start().await);
    slow.otherwise(Answer::status(200).of(Body::Hang));
    let (_a, _b) = (
        Fleet::start(&slow_wheel, &patient(&slow.url("/close"))),
        Fleet::start(&quick_wheel, &patient(&quick.url("/close"))),
    );
    for n in 0..100 {
        enqueue(&slow_wheel, &format!("o-{n}"), after(0)).await.unwrap();
    }
    eventually(PATIENCE, || async { (slow.answered() >= 50).then_some(()) }).await;
    let began = std::time::Instant::now();
    for n in 0..100 {
        enqueue(&quick_wheel, &format!("o-{n}"), after(0)).await.unwrap();
    }
    at_rest(&quick_wheel).await;
    // The slow ones end after 3 s at the earliest.
    assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    assert_eq!(quick.calls().len(), 100);
}
