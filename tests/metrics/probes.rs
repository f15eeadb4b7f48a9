//! The probes of a living worker.

use std::time::{Duration, Instant};

use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::strain::Strain;
use crate::rig::stub::{Answer, Stub};
use crate::rig::worker::{Fleet, Plan, soon};
use crate::rig::{PATIENCE, eventually, signal};

use super::{get, unhurried, watched};

async fn turns(address: &str, path: &str, status: u16, within: Duration) -> (Duration, String) {
    let began = Instant::now();
    let body = eventually(within, async || {
        let (found, body) = get(address, path, "*/*").await;
        (found == status).then_some(body)
    });
    let body = body.await;
    (began.elapsed(), body)
}

/// What is done to Redis makes a worker unready within ten seconds, and what mends it makes it ready within five.
async fn unready(server: &RedisServer, fleet: &Fleet, breaks: impl FnOnce(), on: &str, mends: impl FnOnce()) {
    let strain = Strain::start();
    let (mut worker, address) = watched(fleet).await;
    turns(&address, "/readyz", 200, PATIENCE).await;
    assert_eq!(get(&address, "/livez", "*/*").await, (200, "ok\n".to_owned()));
    let probe = |words: &[&str]| fleet.run(&[&["probe", "--at", &address], words].concat());
    eventually(PATIENCE, async || (probe(&[]).code == 0).then_some(())).await;

    breaks();
    assert_eq!(server.command::<String>(&["PING"]), "PONG");
    let (after, body) = turns(&address, "/readyz", 503, PATIENCE).await;
    println!("not ready {after:?} after it was broken: {body}");
    assert!(after <= strain.allows(Duration::from_secs(10)), "{after:?}");
    assert!(body.contains(on) && body.ends_with("readyz failed\n"), "{body}");
    let said = probe(&[]).ends(3);
    assert!(said.stdout.contains(on) && said.stdout.ends_with("readyz failed\n"), "{said:?}");
    let said = probe(&["--json"]).ends(3).object();
    assert!(said["passed"] == false && said["checks"].to_string().contains(on), "{said}");
    assert_eq!(probe(&["--live"]).ends(0).stdout, "livez passed\n");
    let (status, verbose) = get(&address, "/livez?verbose", "*/*").await;
    assert!(
        status == 200 && verbose.contains("poller 3: ok") && verbose.contains("janitor: ok"),
        "{verbose}"
    );

    let strain = Strain::start();
    mends();
    let (after, _) = turns(&address, "/readyz", 200, PATIENCE).await;
    println!("ready {after:?} after it was mended");
    assert!(after <= strain.allows(Duration::from_secs(5)), "{after:?}");
    worker.still_runs();
    fleet.enqueue(1..=8, |_| soon(0)).await;
    fleet.idle(PATIENCE).await;
    assert_eq!(worker.drain().await["closed"], 8);
}

/// DW-141.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_answers_ping_and_refuses_scripts_makes_no_worker_ready_nor_does_a_key_of_a_wrong_type()
{
    let plan = |server: &RedisServer| Plan::new(server.url()).hook("kind", "\"log\"").shards(4);
    // Both at once, for each takes its time; what blocks is done before.
    let servers = [(); 2].map(|()| RedisServer::start(RedisOptions::default()));
    let fleets = [
        Fleet::new(&servers[0], &plan(&servers[0])).await,
        Fleet::new(&servers[1], &plan(&servers[1])).await,
    ];
    let refusing = async {
        let (server, fleet) = (&servers[0], &fleets[0]);
        let set = |rights: [&str; 2]| {
            server.command::<String>(&[&["ACL", "SETUSER", "default"][..], &rights].concat());
        };
        let (breaks, mends) = (|| set(["-eval", "-evalsha"]), || set(["+eval", "+evalsha"]));
        unready(server, fleet, breaks, "no claim within 6 s", mends).await;
    };
    let mistyped = async {
        let (server, fleet) = (&servers[1], &fleets[1]);
        let slots = format!("dw1:{{{}.3}}:slots", fleet.wheel.name());
        let breaks = || server.command::<()>(&["SET", &slots, "no sorted set"]);
        let mends = || assert_eq!(server.command::<u64>(&["DEL", &slots]), 1);
        unready(server, fleet, breaks, "no claim within 6 s on 1 shards: 3", mends).await;
    };
    tokio::join!(refusing, mistyped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_is_unready_from_the_moment_it_is_told_to_stop_and_alive_until_its_work_is_done() {
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    stub.otherwise(Answer::status(200).after(Duration::from_secs(2)));
    let fleet =
        Fleet::new(server, &unhurried(server).calling(&stub.url("/close")).hook("timeout", "\"20s\"")).await;
    let (mut worker, address) = watched(&fleet).await;
    turns(&address, "/readyz", 200, PATIENCE).await;
    fleet.enqueue(1..=3, |_| soon(0)).await;
    eventually(PATIENCE, async || (stub.calls().len() == 3).then_some(())).await;
    worker.signal("TERM");
    let (after, body) = turns(&address, "/readyz", 503, Duration::from_secs(1)).await;
    assert!(body.contains("draining"), "{body}");
    assert_eq!(get(&address, "/livez", "*/*").await.0, 200, "it still works");
    let ended = worker.ended(PATIENCE).await;
    assert!(ended.success() && after < Duration::from_millis(500), "{after:?} {ended:?}");
    assert_eq!(worker.tally()["closed"], 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_connections_that_say_nothing_keep_no_probe_waiting_for_long() {
    let server = RedisServer::shared();
    let fleet = Fleet::new(server, &unhurried(server).hook("kind", "\"log\"").shards(2)).await;
    let (worker, address) = watched(&fleet).await;
    turns(&address, "/readyz", 200, PATIENCE).await;
    let mut silent = Vec::new();
    for _ in 0..2000 {
        silent.extend(tokio::net::TcpStream::connect(&address).await.ok());
    }
    // Those that say nothing give their seats to whoever comes.
    let (after, _) = turns(&address, "/livez", 200, Duration::from_secs(10)).await;
    println!("answered {after:?} after {} silent connections", silent.len());
    assert_eq!(get(&address, "/livez", "*/*").await.0, 200);
    drop(silent);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_says_how_the_wheel_stands_where_there_is_no_worker_to_say_it() {
    let server = RedisServer::shared();
    let fleet = Fleet::new(server, &unhurried(server).hook("kind", "\"log\"").shards(2)).await;
    fleet.enqueue(1..=3, |_| soon(0)).await;
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut serving = fleet.spawn(&["serve", "--listen", "127.0.0.1:0", "--metrics", &address]);
    let scrape = eventually(PATIENCE, async || {
        let (status, text) = get(&address, "/metrics", "text/plain").await;
        let scrape = super::scrape::Scrape::of(if status == 200 { &text } else { "" });
        scrape.has("duewheel_workers", &[]).then_some(scrape)
    })
    .await;
    assert_eq!((scrape.sum("duewheel_backlog", &[]), scrape.sum("duewheel_workers", &[])), (3.0, 0.0));
    assert_eq!(get(&address, "/readyz", "*/*").await.0, 200);
    serving.kill().unwrap();
    serving.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_is_not_ready_while_it_answers_what_is_in_work_and_counts_what_it_answered() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let server = RedisServer::shared();
    let fleet = Fleet::new(server, &unhurried(server).hook("kind", "\"log\"").shards(2)).await;
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (api, address) = (free(), free());
    let mut serving = fleet.spawn_silent(&["serve", "--listen", &api, "--metrics", &address]);
    turns(&address, "/readyz", 200, PATIENCE).await;
    assert_eq!(get(&api, "/openapi.json", "*/*").await.0, 200);
    assert_eq!(get(&api, "/v1/nowhere", "*/*").await.0, 404);
    let scrape = super::scraped(&address).await;
    let requests = |operation, status| {
        scrape.sum("duewheel_http_requests_total", &[("operation", operation), ("status", status)])
    };
    assert_eq!((requests("openapi", "200"), requests("none", "404")), (1.0, 1.0));
    assert_eq!(scrape.sum("duewheel_http_request_duration_seconds_count", &[("operation", "openapi")]), 1.0);

    let mut request = tokio::net::TcpStream::connect(&api).await.unwrap();
    let head = format!(
        "PUT /v1/wheels/{}/deadlines/a HTTP/1.1\r\nhost: {api}\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{{",
        fleet.wheel.name()
    );
    request.write_all(head.as_bytes()).await.unwrap();
    // The server reads in the order of arrival: once this one is answered, it has the head of the other.
    assert_eq!(get(&api, "/openapi.json", "*/*").await.0, 200);
    signal(serving.id(), "TERM");
    let (_, body) = turns(&address, "/readyz", 503, PATIENCE).await;
    assert!(body.contains("[-] serving: draining"), "{body}");
    request.write_all(b"\"in\":\"9m\"}").await.unwrap();
    let mut answer = vec![0; 512];
    let count = request.read(&mut answer).await.unwrap();
    let answer = String::from_utf8_lossy(&answer[..count]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert!(serving.wait().unwrap().success());
}
