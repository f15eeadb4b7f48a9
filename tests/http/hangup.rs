//! A client that hangs up leaves nothing half done: what it asked for is carried out, counted as in work, and waited for by a server that
//! stops.

use std::time::Duration;

use duewheel::http::{HttpSettings, Limits};
use duewheel::wheel::AuditFilter;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::rig::api::{ApiServer, settings};
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::id;
use crate::rig::{PATIENCE, eventually};

/// Room for so many requests in work.
fn room(max_requests: usize) -> HttpSettings {
    HttpSettings { limits: Limits { max_requests, ..Limits::default() }, ..settings() }
}

/// Sends a request whose answer it does not wait for.
async fn ask(api: &ApiServer, path: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(api.address).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n", body.len());
    stream.write_all(format!("{head}{headers}\r\n{body}").as_bytes()).await.unwrap();
    stream
}

/// Waits until there is no more room for requests: all of them are in work.
async fn until_full(api: &ApiServer) {
    eventually(PATIENCE, async || is_full(api).await.then_some(())).await;
}

/// A look takes room, too, and its answer never comes while Redis is stopped: it is given up by hanging up, which gives back its room.
async fn is_full(api: &ApiServer) -> bool {
    let mut client = api.client().await;
    let path = api.path("/deadlines/nobody");
    let look = client.bare("GET", &path);
    tokio::time::timeout(Duration::from_millis(100), look).await.is_ok_and(|answer| answer.status == 429)
}

const JSON: &str = "Content-Type: application/json\r\n";
const KEYED: &str = "Content-Type: application/json\r\nIdempotency-Key: k-1\r\n";

#[tokio::test]
async fn what_a_client_asked_for_is_done_once_though_it_hangs_up_and_asks_again() {
    let redis = RedisServer::start(RedisOptions::default());
    let api = ApiServer::start_with(&redis, room(2)).await;
    let mut client = api.client().await;
    client.json("PUT", &api.path("/deadlines/o-1"), r#"{"in":"1m"}"#).await.is(201);
    let hold = api.path("/deadlines/o-1/hold");
    redis.pause();
    let held = ask(&api, &hold, KEYED, r#"{"for":"10m"}"#).await;
    let paused = ask(&api, &api.path("/pause"), JSON, r#"{"reason":"provider is down"}"#).await;
    until_full(&api).await;
    drop((held, paused));
    // Neither client is there any more, and both requests are still in work.
    for _ in 0..3 {
        assert!(is_full(&api).await);
    }
    redis.resume();
    let with = [("content-type", "application/json"), ("idempotency-key", "k-1")];
    let mut again = client.send("POST", &hold, &with, r#"{"for":"10m"}"#).await;
    let began = std::time::Instant::now();
    // Refused as busy, or as in work, as long as the first one is.
    while [429, 409].contains(&again.status) && began.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
        again = client.send("POST", &hold, &with, r#"{"for":"10m"}"#).await;
    }
    assert_eq!(again.is(200).header("idempotency-replayed"), "true");
    assert_eq!(api.wheel.inspect(&id("o-1")).await.unwrap().entry.unwrap().hold_count, 1);
    let acts = eventually(PATIENCE, async || {
        let page = api.wheel.audit(&AuditFilter::default(), None, 10).await.unwrap();
        let done = page.entries.first()?.outcome == duewheel::wheel::AuditOutcome::Done;
        done.then_some(page.entries)
    })
    .await;
    assert_eq!(acts.len(), 1, "{acts:?}");
    assert_eq!(api.wheel.stats().await.unwrap().paused_shards, 4);
    api.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_waits_for_what_was_asked_by_clients_that_hung_up() {
    let redis = RedisServer::start(RedisOptions::default());
    let api = ApiServer::start_with(&redis, room(1)).await;
    let wheel = api.wheel.clone();
    redis.pause();
    let body = r#"{"reason":"provider is down"}"#;
    let paused = ask(&api, &api.path("/pause"), JSON, body).await;
    until_full(&api).await;
    drop(paused);
    let mut stopping = tokio::spawn(api.stop());
    let early = tokio::time::timeout(Duration::from_millis(300), &mut stopping).await;
    assert!(early.is_err(), "it stopped with an act in work");
    redis.resume();
    stopping.await.unwrap();
    assert_eq!(wheel.stats().await.unwrap().paused_shards, 4);
}

#[cfg(feature = "page")]
#[tokio::test]
async fn an_act_of_the_page_is_done_whole_though_its_browser_is_closed() {
    let redis = RedisServer::start(RedisOptions::default());
    let api = ApiServer::start_with(&redis, room(1)).await;
    let path = format!("/wheels/{}/pause", api.wheel.name());
    let headers = "Content-Type: application/x-www-form-urlencoded\r\nSec-Fetch-Site: same-origin\r\n";
    redis.pause();
    let browser = ask(&api, &path, headers, "reason=provider+is+down").await;
    until_full(&api).await;
    drop(browser);
    assert!(is_full(&api).await);
    redis.resume();
    eventually(PATIENCE, async || (api.wheel.stats().await.unwrap().paused_shards == 4).then_some(())).await;
    api.stop().await;
}
