//! The numbers of a scrape are those of what happened.

use std::time::{Duration, Instant};

use duewheel::deadline::{DueAt, OnConflict};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::strain::Strain;
use crate::rig::stub::{Answer, Stub};
use crate::rig::wheel::deadline;
use crate::rig::worker::{Fleet, soon};
use crate::rig::{PATIENCE, eventually, is_long};

use super::{get, scraped, unhurried, watched};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_numbers_of_a_scrape_equal_what_happened_and_name_no_order() {
    let (server, stub) = (RedisServer::start(RedisOptions::default()), Stub::start().await);
    stub.script("77001", vec![Answer::status(200).body(r#"{"verdict": "rejected"}"#)]);
    stub.script("77002", vec![Answer::status(200).body(r#"{"verdict": "paid"}"#)]);
    stub.script("77003", vec![Answer::status(500), Answer::status(200)]);
    let fleet = Fleet::new(
        &server,
        &unhurried(&server).calling(&stub.url("/close/secret-path")).hook("timeout", "\"20s\""),
    )
    .await;
    let (worker, address) = watched(&fleet).await;
    fleet.enqueue(77_001..=77_200, |n| soon(n as u64 % 50)).await;
    fleet.idle(PATIENCE).await;
    // What only Redis knows is read every few seconds.
    eventually(PATIENCE, async || {
        let scrape = scraped(&address).await;
        let is = |name, labels: &[_], value| scrape.has(name, labels) && scrape.sum(name, labels) == value;
        let read = is("duewheel_dead", &[], 1.0)
            && is("duewheel_changes_total", &[("change", "closed")], 198.0)
            && is("duewheel_workers", &[("state", "serving")], 1.0)
            && is("duewheel_redis_primary", &[], 1.0);
        read.then_some(())
    })
    .await;

    let scrape = scraped(&address).await;
    let calls = stub.calls().len() as f64;
    assert_eq!(calls, 201.0);
    for (name, labels, value) in [
        ("duewheel_verdicts_total", &[("verdict", "closed"), ("cause", "due")][..], 198.0),
        ("duewheel_verdicts_total", &[("verdict", "skipped")], 1.0),
        ("duewheel_verdicts_total", &[("verdict", "rejected")], 1.0),
        ("duewheel_verdicts_total", &[("verdict", "failed")], 1.0),
        ("duewheel_settled_total", &[("outcome", "closed")], 198.0),
        ("duewheel_settled_total", &[("outcome", "skipped")], 1.0),
        ("duewheel_settled_total", &[("outcome", "buried")], 1.0),
        ("duewheel_settled_total", &[("outcome", "retried")], 1.0),
        ("duewheel_claimed_total", &[], calls),
        ("duewheel_lateness_seconds_count", &[], 200.0),
        ("duewheel_claim_to_commit_seconds_count", &[], 199.0),
        ("duewheel_hook_duration_seconds_count", &[("action", "close")], calls),
        ("duewheel_changes_total", &[("change", "enqueued")], 200.0),
        ("duewheel_changes_total", &[("change", "closed")], 198.0),
        ("duewheel_backlog", &[], 0.0),
        ("duewheel_scheduled", &[], 0.0),
        ("duewheel_oldest_due_age_seconds", &[], 0.0),
        ("duewheel_shards", &[], 16.0),
        ("duewheel_paused_shards", &[], 0.0),
        ("duewheel_workers", &[("state", "serving")], 1.0),
        ("duewheel_in_flight", &[], 0.0),
        ("duewheel_stale_settles_total", &[], 0.0),
        ("duewheel_claiming_stopped", &[], 0.0),
        ("duewheel_circuit_open", &[], 0.0),
        ("duewheel_redis_up", &[], 1.0),
        ("duewheel_redis_errors_total", &[], 0.0),
        ("duewheel_redis_primary", &[], 1.0),
        ("duewheel_redis_noeviction", &[], 1.0),
        ("duewheel_build_info", &[], 1.0),
    ] {
        assert_eq!(scrape.sum(name, labels), value, "{name} {labels:?}");
    }
    assert!(scrape.sum("duewheel_redis_call_duration_seconds_count", &[("verb", "settle")]) >= 1.0);
    assert!(scrape.sum("duewheel_redis_used_memory_bytes", &[]) > 100_000.0);
    assert!(scrape.sum("process_resident_memory_bytes", &[]) > 1e6);
    assert!(scrape.sum("duewheel_clock_offset_seconds", &[("clock", "worker")]).abs() < 1.0);

    // More orders make no more series, and none of their names stands in one.
    let before = scrape.len();
    fleet.enqueue(77_201..=77_700, |_| soon(0)).await;
    fleet.idle(PATIENCE).await;
    let after = scraped(&address).await;
    assert_eq!(after.len(), before);
    let (_, text) = get(&address, "/metrics", "application/openmetrics-text").await;
    assert!(text.ends_with("# EOF\n") && !text.contains("77001") && !text.contains("secret-path"), "{text}");
    assert!(text.len() < 200_000, "{} bytes", text.len());

    let tally = worker.drain().await;
    assert_eq!(
        after.sum("duewheel_settled_total", &[("outcome", "closed")]),
        tally["closed"].as_f64().unwrap()
    );
    assert_eq!(after.sum("duewheel_claimed_total", &[]), tally["claimed"].as_f64().unwrap());
}

/// Enqueues these due now, waits until all have ended, asks the API for each address, and answers how many series worker and server
/// then have.
async fn series(
    fleet: &Fleet,
    worker: &str,
    (api, server): (&str, &str),
    ids: std::ops::Range<u64>,
    asked: u64,
) -> usize {
    let batch: Vec<_> =
        ids.clone().map(|n| deadline(&format!("zebra-{n}"), DueAt::After(Duration::ZERO))).collect();
    for answer in fleet.wheel.enqueue_batch(&batch, OnConflict::Keep, false).await {
        answer.unwrap().unwrap();
    }
    fleet.idle(PATIENCE * 5).await;
    let mut requests = String::new();
    for n in 0..asked {
        let path = format!("/v1/wheels/{}/deadlines/okapi-{n}-{}", fleet.wheel.name(), ids.start);
        requests += &format!("GET {path} HTTP/1.1\r\nhost: {api}\r\n\r\n");
    }
    let stream = tokio::net::TcpStream::connect(api).await.unwrap();
    let (mut answers, mut asks) = stream.into_split();
    let asking = async { asks.write_all(requests.as_bytes()).await.unwrap() };
    let answered = async {
        let (mut seen, mut bytes) = (String::new(), vec![0; 65_536]);
        while (seen.matches("HTTP/1.1 404").count() as u64) < asked {
            let read = answers.read(&mut bytes).await.unwrap();
            assert!(read > 0, "{seen}");
            seen += &String::from_utf8_lossy(&bytes[..read]);
        }
    };
    tokio::join!(asking, answered);
    scraped(worker).await.len() + scraped(server).await.len()
}

/// DW-139; fewer of each without `DUEWHEEL_TEST_LONG`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_addresses_and_errors_make_no_series_whatever_their_number() {
    let (all, each) = if is_long() { (100_000, 1000) } else { (4000, 300) };
    let (server, stub) = (RedisServer::start(RedisOptions::default()), Stub::start().await);
    // The same failure for a few of the first thousand, and for others one of their own.
    for n in (0..40).chain(all - each..all) {
        let reason = format!("giraffe {n} is no column");
        stub.script(&format!("zebra-{n}"), vec![Answer::status(500).body(reason), Answer::status(200)]);
    }
    let plan = unhurried(&server).calling(&stub.url("/close/gazelle")).hook("timeout", "\"20s\"");
    let fleet = Fleet::new(&server, &plan).await;
    let (worker, address) = watched(&fleet).await;
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (api, serves) = (free(), free());
    let mut serving = fleet.spawn_silent(&["serve", "--listen", &api, "--metrics", &serves]);
    eventually(PATIENCE, async || (get(&serves, "/readyz", "*/*").await.0 == 200).then_some(())).await;

    let first = series(&fleet, &address, (&api, &serves), 0..1000, 10).await;
    let last = series(&fleet, &address, (&api, &serves), 1000..all, each).await;
    println!("{first} series after 1000 ids, {last} after {all}");
    assert!(first > 100 && first.abs_diff(last) <= 5, "{first} series, then {last}");
    assert_eq!(stub.calls().len() as u64, all + 40 + each, "the errors were to be met");

    for at in [&address, &serves] {
        let strain = Strain::start();
        let mut quickest = Duration::MAX;
        for accept in ["text/plain", "application/openmetrics-text", "text/plain", "text/plain"] {
            let began = Instant::now();
            let (status, text) = get(at, "/metrics", accept).await;
            quickest = quickest.min(began.elapsed());
            assert!(status == 200 && text.len() <= 1_000_000, "{} bytes", text.len());
            for name in ["zebra", "giraffe", "okapi", "gazelle"] {
                assert!(!text.contains(name), "{name}: {text}");
            }
        }
        println!("a scrape takes {quickest:?}");
        let most = Duration::from_millis(100);
        assert!(quickest <= if is_long() { most } else { strain.allows(most) }, "{quickest:?}");
    }
    serving.kill().unwrap();
    serving.wait().unwrap();
    worker.drain().await;
}

#[cfg(feature = "sql")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_sweep_mends_and_a_reconciliation_finds_is_in_the_numbers_of_its_runner() {
    use crate::rig::shop::{Kind, Shop};
    let net = "[wheel.WHEEL.sweep]\nevery = \"1s\"\nrebuild = false\n[wheel.WHEEL.feed]\ntime = \"created_at\"\n\
               [wheel.WHEEL.reconcile]\nevery = \"1s\"\ngrace = \"200ms\"\n\
               [wheel.WHEEL.reconcile.rules.seven]\nlevel = \"medium\"\nsql = \"SELECT id FROM orders WHERE id = 7\"\n";
    let (server, shop) = (RedisServer::start(RedisOptions::default()), Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=5, -60_000, &[(0, 1)]).await;
    shop.orders(7..=7, 3_600_000, &[(0, 1)]).await;
    let fleet = Fleet::new(&server, &unhurried(&server).closing(&shop).net(net)).await;
    let (worker, address) = watched(&fleet).await;
    let scrape = eventually(PATIENCE, async || {
        let scrape = scraped(&address).await;
        let found = scrape.has("duewheel_reconcile_findings", &[("level", "medium")])
            && scrape.sum("duewheel_reconcile_findings", &[("level", "medium")]) == 1.0
            && scrape.sum("duewheel_reconcile_findings", &[("level", "high")]) == 0.0
            && scrape.has("duewheel_feed_watermark_timestamp_seconds", &[("database", "0")])
            && scrape.sum("duewheel_job_last_run_timestamp_seconds", &[("task", "sweep")]) > 1.7e9;
        found.then_some(scrape)
    })
    .await;
    // Feed and sweep race for the rows that are overdue at the start; one of them put each on the wheel.
    let enqueued = |task| scrape.sum("duewheel_sweep_found_total", &[("task", task), ("kind", "enqueued")]);
    assert_eq!(enqueued("feed") + enqueued("sweep"), 6.0);
    for (name, labels, least) in [
        ("duewheel_job_runs_total", &[("task", "sweep"), ("result", "done")][..], 1.0),
        ("duewheel_job_runs_total", &[("task", "feed"), ("result", "done")], 1.0),
        ("duewheel_job_runs_total", &[("task", "reconcile"), ("result", "done")], 1.0),
        ("duewheel_job_enabled", &[("task", "sweep")], 1.0),
        ("duewheel_database_sessions", &[("state", "max")], 1.0),
    ] {
        assert!(scrape.sum(name, labels) >= least, "{name} {labels:?}");
    }
    assert_eq!(scrape.sum("duewheel_job_enabled", &[("task", "rebuild")]), 0.0);
    assert_eq!(scrape.sum("duewheel_reconcile_unanswered", &[]), 0.0);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_holds_a_worker_back_is_in_its_numbers_and_makes_it_unready() {
    let (server, stub) = (RedisServer::start(RedisOptions::default()), Stub::start().await);
    stub.otherwise(Answer::status(503));
    let plan = unhurried(&server).calling(&stub.url("/close")).hook("timeout", "\"20s\"");
    let fleet = Fleet::new(&server, &plan).await;
    let (worker, address) = watched(&fleet).await;
    fleet.enqueue(1..=20, |_| soon(0)).await;
    let stopped = async |reason: &str, value: f64| {
        eventually(PATIENCE, async || {
            let scrape = scraped(&address).await;
            let seen = scrape.has("duewheel_claiming_stopped", &[("reason", reason)])
                && scrape.sum("duewheel_claiming_stopped", &[("reason", reason)]) == value;
            seen.then_some(scrape)
        })
        .await
    };
    let scrape = stopped("circuit", 1.0).await;
    assert_eq!(scrape.sum("duewheel_circuit_open", &[]), 1.0);
    assert!(scrape.sum("duewheel_verdicts_total", &[("verdict", "unavailable")]) >= 4.0);
    stub.otherwise(Answer::status(200));
    fleet.idle(PATIENCE).await;
    stopped("circuit", 0.0).await;

    fleet.run(&["--wheel", fleet.wheel.name().as_str(), "pause", "--reason", "a test"]).ends(0);
    eventually(PATIENCE, async || {
        (scraped(&address).await.sum("duewheel_paused_shards", &[]) == 16.0).then_some(())
    })
    .await;
    // A wheel that a person paused is looked at all the same.
    assert_eq!(get(&address, "/readyz", "*/*").await.0, 200);
    let redis = scraped(&address).await;
    server.command::<String>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    assert_eq!(redis.sum("duewheel_redis_noeviction", &[]), 1.0);
    eventually(PATIENCE, async || {
        (scraped(&address).await.sum("duewheel_redis_noeviction", &[]) == 0.0).then_some(())
    })
    .await;
    worker.drain().await;
}
