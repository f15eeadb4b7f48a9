//! Redis as it can be: restarted, emptied, full, busy, read-only, cut off. Each failure is named for what it is, what may have happened is
//! never called nothing, and the next call that can succeed does, without a restart of ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duewheel::deadline::{OnConflict, Outcome, State};
use duewheel::error::{Error, Result, StoreKind};
use duewheel::lease::Lease;
use duewheel::shard::Shard;
use duewheel::wheel::answer::{Cancelled, EnqueuedHow, Settled};
use duewheel::wheel::{Ask, RedisSettings, Settlement, Store, What, Wheel};

use crate::rig::proxy::{Proxy, Way};
use crate::rig::redis::{Aof, RedisOptions, RedisServer};
use crate::rig::strain::Strain;
use crate::rig::wheel::{after, ask, deadline, enqueue, id, ids, settings, wheel};
use crate::rig::{PATIENCE, eventually};

const S: Shard = Shard(0);

/// A wheel on `url` that waits this long for an answer.
fn wheel_on(url: &str, response_timeout: Duration) -> Wheel {
    let redis = RedisSettings { response_timeout, ..RedisSettings::new(url.into()) };
    Wheel::new(Arc::new(Store::new(&redis).unwrap()), settings(1))
}

async fn try_enqueue(wheel: &Wheel, name: &str) -> Result<EnqueuedHow> {
    let answer = wheel.enqueue(&deadline(name, after(3_600_000)), OnConflict::Keep, false).await?;
    // The same window later is another moment: the first call has arrived.
    Ok(answer.map_or(EnqueuedHow::Exists, |enqueued| enqueued.how))
}

async fn kind_of_enqueue(wheel: &Wheel, name: &str) -> Option<StoreKind> {
    match try_enqueue(wheel, name).await {
        Ok(_) => None,
        Err(Error::Store { kind, .. }) => Some(kind),
        Err(other) => panic!("{other}"),
    }
}

/// Waits until an enqueue is taken again.
async fn recovers(wheel: &Wheel, name: &str) {
    eventually(PATIENCE, || async { try_enqueue(wheel, name).await.ok() }).await;
}

fn end(lease: &Lease) -> Settlement {
    let what = What::End { outcome: Outcome::Closed, lease: Arc::new(lease.clone()) };
    Settlement { id: lease.id.clone(), fence: lease.fence, what }
}

#[tokio::test]
async fn a_restart_with_aof_keeps_every_deadline_and_the_connections_come_back() {
    let mut server = RedisServer::start(RedisOptions::aof(Aof::Always));
    let wheel = wheel(&server, 4).await;
    let batch: Vec<_> = (0..300).map(|n| deadline(&format!("o-{n}"), after(0))).collect();
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    let lease = wheel.claim(S, &Ask { limit: 1, ..ask(1) }).await.unwrap().leases.remove(0);
    server.kill9();
    let kind = kind_of_enqueue(&wheel, "while-down").await;
    assert!(matches!(kind, Some(StoreKind::Unreachable | StoreKind::Unknown)), "{kind:?}");
    // Each of the two connections may have been lost with something under way; then there is none to be had.
    eventually(PATIENCE, || async {
        (kind_of_enqueue(&wheel, "while-down").await == Some(StoreKind::Unreachable)).then_some(())
    })
    .await;
    server.restart();
    recovers(&wheel, "after").await;
    let stats = wheel.stats().await.unwrap();
    assert_eq!((stats.due, stats.leased), (299, 1));
    assert_eq!(wheel.settle(S, &[end(&lease)]).await.unwrap(), [Settled::Done]);
    let found = wheel.verify(false).await.unwrap().findings;
    assert!(found.is_empty(), "{found:?}");
}

/// Does this to the server every `pause` until dropped.
struct Nuisance {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u32>>,
}

impl Nuisance {
    fn start(server: &RedisServer, pause: Duration, args: &'static [&'static str]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, url) = (Arc::clone(&stop), server.unix_url());
        let thread = std::thread::spawn(move || {
            let client = redis::Client::open(url).unwrap();
            let mut times = 0;
            while !stopped.load(Ordering::Relaxed) {
                if let Ok(mut connection) = client.get_connection() {
                    redis::cmd(args[0]).arg(&args[1..]).query::<redis::Value>(&mut connection).ok();
                    times += 1;
                }
                std::thread::sleep(pause);
            }
            times
        });
        Self { stop, thread: Some(thread) }
    }

    /// How often it was done.
    fn end(mut self) -> u32 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[tokio::test]
async fn scripts_that_are_flushed_ten_times_a_second_are_no_error() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    let nuisance = Nuisance::start(&server, Duration::from_millis(20), &["SCRIPT", "FLUSH"]);
    let (began, mut closed) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(2) {
        enqueue(&wheel, &format!("o-{closed}"), after(0)).await.unwrap();
        let lease = wheel.claim(S, &ask(closed + 1)).await.unwrap().leases.remove(0);
        assert_eq!(wheel.settle(S, &[end(&lease)]).await.unwrap(), [Settled::Done]);
        closed += 1;
    }
    let flushed = nuisance.end();
    assert!(flushed > 20 && closed > 20, "{flushed} flushes, {closed} closed");
}

#[tokio::test]
async fn killed_connections_leave_every_outcome_known_in_the_end() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    let nuisance = Nuisance::start(
        &server,
        Duration::from_millis(10),
        &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
    );
    let (began, mut next, mut errors) = (Instant::now(), 0, 0);
    while began.elapsed() < Duration::from_secs(2) {
        match try_enqueue(&wheel, &format!("o-{next}")).await {
            Ok(_) => next += 1,
            Err(e) => {
                errors += 1;
                let kind = e.store_kind();
                assert!(matches!(kind, Some(StoreKind::Unknown | StoreKind::Unreachable)), "{kind:?}: {e}");
            }
        }
    }
    assert!(nuisance.end() > 20 && errors > 0, "{errors} errors");
    recovers(&wheel, &format!("o-{next}")).await;
    let stats = wheel.stats().await.unwrap();
    assert_eq!((stats.scheduled, stats.totals["enqueued"]), (next + 1, next + 1), "none lost, none twice");
}

#[tokio::test]
async fn a_busy_redis_is_named_and_nothing_happened() {
    let server = RedisServer::start(RedisOptions::args(&["--busy-reply-threshold", "50"]));
    let wheel = wheel(&server, 1).await;
    let url = server.unix_url();
    let endless = std::thread::spawn(move || {
        let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
        redis::cmd("EVAL").arg("while true do end").arg(0).query::<redis::Value>(&mut connection).unwrap_err()
    });
    eventually(PATIENCE, || async {
        (kind_of_enqueue(&wheel, "x").await == Some(StoreKind::Busy)).then_some(())
    })
    .await;
    server.command::<String>(&["SCRIPT", "KILL"]);
    endless.join().unwrap();
    recovers(&wheel, "x").await;
}

#[tokio::test]
async fn a_demoted_redis_is_read_only_until_it_is_promoted_again() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    server.command::<String>(&["REPLICAOF", "127.0.0.1", "1"]);
    assert_eq!(kind_of_enqueue(&wheel, "x").await, Some(StoreKind::ReadOnly));
    assert_eq!(wheel.claim(S, &ask(1)).await.unwrap_err().store_kind(), Some(StoreKind::ReadOnly));
    server.command::<String>(&["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    assert_eq!(
        kind_of_enqueue(&wheel, "x").await,
        Some(StoreKind::ReadOnly),
        "a replica without its primary"
    );
    server.command::<String>(&["REPLICAOF", "NO", "ONE"]);
    recovers(&wheel, "x").await;
}

#[tokio::test]
async fn too_few_replicas_are_named_and_nothing_happened() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    server.command::<String>(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    assert_eq!(kind_of_enqueue(&wheel, "x").await, Some(StoreKind::NoReplicas));
    server.command::<String>(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert_eq!(try_enqueue(&wheel, "x").await.unwrap(), EnqueuedHow::New);
}

#[tokio::test]
async fn with_memory_full_enqueue_is_refused_and_everything_that_drains_goes_on() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    for name in ["closes", "retries", "buried", "cancelled", "moved"] {
        enqueue(&wheel, name, after(0)).await.unwrap();
    }
    server.command::<String>(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(kind_of_enqueue(&wheel, "new").await, Some(StoreKind::OutOfMemory));
    assert_eq!(wheel.cancel(&[id("cancelled")]).await.remove(0).unwrap(), Ok(Cancelled::Cancelled));
    wheel.reschedule(&id("moved"), after(60_000), None).await.unwrap().unwrap();
    let leases = wheel.claim(S, &ask(1)).await.unwrap().leases;
    assert_eq!(leases.len(), 3);
    let settlements: Vec<_> = leases
        .iter()
        .map(|lease| match lease.id.as_str() {
            "retries" => Settlement { what: What::Retry(Duration::ZERO, String::new()), ..end(lease) },
            "buried" => Settlement { what: What::Bury("no such order".to_owned()), ..end(lease) },
            _ => end(lease),
        })
        .collect();
    assert_eq!(wheel.settle(S, &settlements).await.unwrap(), [Settled::Done; 3]);
    let again = wheel.claim(S, &ask(2)).await.unwrap().leases;
    wheel.renew(S, &[(again[0].id.clone(), again[0].fence)], Duration::from_secs(5)).await.unwrap();
    wheel.prune(S, 0).await.unwrap();
    assert_eq!(wheel.inspect(&id("closes")).await.unwrap().state, State::Ended);
    assert!(wheel.verify(true).await.unwrap().findings.is_empty());
    server.command::<String>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(try_enqueue(&wheel, "new").await.unwrap(), EnqueuedHow::New);
}

#[tokio::test]
async fn a_redis_that_loads_its_data_is_waited_for() {
    let slow = ["--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024"];
    let mut server = RedisServer::start(RedisOptions { aof: Aof::Always, ..RedisOptions::args(&slow) });
    let wheel = wheel(&server, 1).await;
    enqueue(&wheel, "kept", after(3_600_000)).await.unwrap();
    server.command::<String>(&["DEBUG", "POPULATE", "8000"]);
    server.command::<String>(&["BGREWRITEAOF"]);
    eventually(PATIENCE, || async { (server.info("aof_rewrite_in_progress") == "0").then_some(()) }).await;
    server.kill9();
    let restarted = std::thread::spawn(move || {
        server.restart();
        server
    });
    eventually(PATIENCE, || async {
        (kind_of_enqueue(&wheel, "kept").await == Some(StoreKind::Loading)).then_some(())
    })
    .await;
    recovers(&wheel, "new").await;
    assert_eq!(wheel.stats().await.unwrap().scheduled, 2);
    drop(restarted.join().unwrap());
}

#[tokio::test]
async fn an_emptied_redis_is_formatted_anew_and_says_that_it_was_empty() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 2).await;
    enqueue(&wheel, "gone", after(0)).await.unwrap();
    let shard = wheel.shard_of(&id("gone"));
    let before = wheel.claim(shard, &ask(1)).await.unwrap().leases.remove(0);
    server.command::<String>(&["FLUSHALL"]);
    assert_eq!(wheel.inspect(&id("gone")).await.unwrap().state, State::Absent);
    // A zombie of the time before writes nothing, and what comes next has a higher fence and generation.
    assert_eq!(wheel.settle(shard, &[end(&before)]).await.unwrap(), [Settled::Stale]);
    enqueue(&wheel, "gone", after(0)).await.unwrap();
    let again = wheel.claim(shard, &ask(2)).await.unwrap().leases.remove(0);
    assert!(again.fence > before.fence && again.generation > before.generation);
    assert_eq!(wheel.settle(shard, &[end(&before)]).await.unwrap(), [Settled::Stale]);
    assert_eq!(wheel.settle(shard, &[end(&again)]).await.unwrap(), [Settled::Done]);
}

async fn behind_proxy(server: &RedisServer, timeout: Duration) -> (Proxy, Wheel) {
    let proxy = Proxy::start(server.port());
    let wheel = wheel_on(&proxy.redis_url(), timeout);
    wheel.format().await.unwrap();
    // Every script is known to Redis from here on, and both connections are made: the next command is the one that is meant.
    wheel.selftest("warm").await.unwrap();
    (proxy, wheel)
}

#[tokio::test]
async fn a_lost_reply_is_an_unknown_outcome_and_the_repeat_tells_the_truth() {
    let server = RedisServer::start(RedisOptions::default());
    let (proxy, wheel) = behind_proxy(&server, Duration::from_secs(3)).await;
    let unknown = |e: Error| assert_eq!(e.store_kind(), Some(StoreKind::Unknown), "{e}");

    // enqueue: a moment, as the caller of a repeat would give it.
    let order = deadline("order-1", duewheel::deadline::DueAt::Moment(wheel.now().await.unwrap()));
    proxy.lose_reply(1, b"order-1");
    unknown(wheel.enqueue(&order, OnConflict::Keep, false).await.unwrap_err());
    assert!(proxy.lost_a_reply());
    let again = wheel.enqueue(&order, OnConflict::Keep, false).await.unwrap().unwrap();
    assert_eq!(again.how, EnqueuedHow::Exists);

    // claim: the repeat with the same nonce holds the same lease.
    proxy.lose_reply(1, b"worker-of-lost-claims");
    let asked = Ask { worker: "worker-of-lost-claims", ..ask(1) };
    unknown(wheel.claim(S, &asked).await.unwrap_err());
    assert_eq!(wheel.stats().await.unwrap().leased, 1);
    let claimed = wheel.claim(S, &asked).await.unwrap();
    assert_eq!(ids(&claimed.leases), ["order-1"]);

    // settle: done the first time, and done says the repeat.
    proxy.lose_reply(1, b"order-1");
    unknown(wheel.settle(S, &[end(&claimed.leases[0])]).await.unwrap_err());
    assert_eq!(wheel.inspect(&id("order-1")).await.unwrap().state, State::Ended);
    assert_eq!(wheel.settle(S, &[end(&claimed.leases[0])]).await.unwrap(), [Settled::Done]);
    assert_eq!(wheel.stats().await.unwrap().totals["closed"], 1);

    // cancel: cancelled already, says the repeat, and it never fires.
    enqueue(&wheel, "order-2", after(0)).await.unwrap();
    proxy.lose_reply(1, b"order-2");
    unknown(wheel.cancel(&[id("order-2")]).await.remove(0).unwrap_err());
    assert_eq!(wheel.cancel(&[id("order-2")]).await.remove(0).unwrap(), Ok(Cancelled::Already));
    assert!(wheel.claim(S, &ask(9)).await.unwrap().leases.is_empty());
}

#[tokio::test]
async fn a_half_open_connection_is_noticed_by_the_time_limit_and_replaced() {
    let server = RedisServer::start(RedisOptions::default());
    let timeout = Duration::from_secs(1);
    let (proxy, wheel) = behind_proxy(&server, timeout).await;
    proxy.swallow(Way::Down);
    let began = Instant::now();
    assert_eq!(kind_of_enqueue(&wheel, "x").await, Some(StoreKind::Unknown));
    let noticed = began.elapsed();
    assert!(noticed >= timeout && noticed < timeout * 10, "noticed after {noticed:?}");
    proxy.heal();
    // What was asked last arrived, as the repeat finds out on a new connection.
    recovers(&wheel, "x").await;
    assert_eq!(wheel.stats().await.unwrap().scheduled, 1);
}

/// None of them waits for the others' tries: a hundred would wait for minutes, each for its turn to find out.
#[tokio::test]
async fn many_callers_of_a_redis_that_does_not_answer_wait_no_longer_than_one() {
    const CALLERS: usize = 40;
    let strain = Strain::start();
    let server = RedisServer::start(RedisOptions::default());
    let (proxy, wheel) = behind_proxy(&server, PATIENCE).await;
    proxy.swallow(Way::Down);
    proxy.cut();
    for _ in 0..2 {
        let began = Instant::now();
        let calls: Vec<_> = (0..CALLERS)
            .map(|_| {
                let wheel = wheel.clone();
                tokio::spawn(async move { wheel.now().await.is_err() })
            })
            .collect();
        for call in calls {
            assert!(call.await.unwrap(), "nobody answers");
        }
        // A connection is waited for three seconds.
        let took = began.elapsed();
        println!("{CALLERS} callers knew after {took:?}");
        assert!(took <= strain.allows(Duration::from_secs(4)), "{took:?}");
    }
    proxy.heal();
    recovers(&wheel, "x").await;
}

#[tokio::test]
async fn a_wrong_password_is_denied_and_never_shown() {
    let server = RedisServer::start(RedisOptions::args(&["--requirepass", ""]));
    server.command::<()>(&["ACL", "SETUSER", "worker", "on", ">right-one", "~*", "+@all"]);
    let url = format!("redis://worker:wrong-one@127.0.0.1:{}", server.port());
    let error = wheel_on(&url, Duration::from_secs(3)).format().await.unwrap_err();
    assert_eq!(error.store_kind(), Some(StoreKind::Denied), "{error}");
    assert!(!error.to_string().contains("wrong-one"), "{error}");
}
