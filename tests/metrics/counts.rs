//! The numbers of a scrape are those of what happened.

use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::stub::{Answer, Stub};
use crate::rig::worker::{Fleet, soon};
use crate::rig::{PATIENCE, eventually};

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
        (scrape.has("duewheel_dead", &[]) && scrape.sum("duewheel_dead", &[]) == 1.0).then_some(())
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
