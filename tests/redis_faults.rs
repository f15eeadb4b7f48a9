//! Redis as it can be, under working processes: restarted, killed, emptied, busy, full, read-only, loading, cut off, with fewer rights.
//! The workers are the same processes at the end, every order is closed once, and no failure of Redis counts as an attempt of the shop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use duewheel::clock::Moment;
use duewheel::deadline::Note;
use duewheel::error::StoreKind;
use duewheel::shard::Shard;
use duewheel::wheel::{RedisSettings, Store, Wheel, script};

use crate::rig::proxy::{Proxy, Way};
use crate::rig::redis::{Aof, RedisOptions, RedisServer};
use crate::rig::shop::{Kind, Shop};
use crate::rig::stub::{Answer, Stub};
use crate::rig::wheel::{id, key, settings};
use crate::rig::worker::{Fleet, LEASE, Plan, Process, soon};
use crate::rig::{PATIENCE, eventually};

/// How long after Redis works again everything that is due must be closed, on a machine that does other things too.
const RECOVERY: Duration = Duration::from_secs(10);

/// A shop, its Redis, its fleet.
struct Scene {
    server: RedisServer,
    shop: Shop,
    fleet: Fleet,
    orders: i64,
}

impl Scene {
    async fn set(options: RedisOptions, orders: i64) -> Self {
        Self::set_with(RedisServer::start(options), orders, |plan| plan).await
    }

    async fn set_with(server: RedisServer, orders: i64, alter: impl FnOnce(Plan) -> Plan) -> Self {
        let shop = Shop::open(Kind::Sqlite, 2).await;
        shop.orders(1..=orders, -1000, &[(0, 1), (1, 2)]).await;
        let fleet = Fleet::new(&server, &alter(Plan::new(server.url()).closing(&shop))).await;
        Self { server, shop, fleet, orders }
    }

    /// Enqueues all, spread evenly over so long from 300 ms on.
    async fn enqueue_over(&self, millis: u64) {
        let begin = soon(300);
        let orders = self.orders as u64;
        self.fleet
            .enqueue(1..=self.orders, |n| begin.plus(Duration::from_millis(n as u64 * millis / orders)))
            .await;
    }

    async fn closed(&self) -> i64 {
        self.shop.count("FROM orders WHERE status = 'closed'").await
    }

    async fn closed_at_least(&self, orders: i64) {
        eventually(PATIENCE, async || {
            tokio::time::sleep(Duration::from_millis(25)).await;
            (self.closed().await >= orders).then_some(())
        })
        .await;
    }

    /// All are closed within this time, once, by workers that still run, and no attempt was counted.
    async fn all_closed_within(&self, timeout: Duration, workers: Vec<Process>) -> Vec<serde_json::Value> {
        let (began, from) = (Instant::now(), self.closed().await);
        let stats = self.fleet.idle(timeout).await;
        println!("closed {} -> {} of {} in {:?}", from, self.closed().await, self.orders, began.elapsed());
        self.books(stats.dead).await;
        let mut tallies = Vec::new();
        for mut worker in workers {
            worker.still_runs();
            tallies.push(worker.drain().await);
        }
        let of = |what: &str| tallies.iter().map(|tally| tally[what].as_u64().unwrap()).sum::<u64>();
        assert_eq!((of("retried"), of("buried")), (0, 0), "{tallies:?}");
        tallies
    }

    async fn books(&self, dead: u64) {
        assert_eq!(dead, 0);
        assert_eq!(self.closed().await, self.orders);
        assert_eq!(self.shop.count("FROM closes").await, self.orders);
        self.shop.balance().await;
        let found = self.fleet.wheel.verify(false).await.unwrap().findings;
        assert!(found.is_empty(), "{found:?}");
    }
}

/// Does something to the server every `pause` until dropped.
struct Nuisance {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u32>>,
}

impl Nuisance {
    fn start(server: &RedisServer, pause: Duration, command: &'static [&'static str]) -> Self {
        let client = redis::Client::open(server.unix_url()).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut connection = client.get_connection().unwrap();
            let mut done = 0;
            while !seen.load(Ordering::SeqCst) {
                redis::cmd(command[0]).arg(&command[1..]).exec(&mut connection).unwrap();
                done += 1;
                std::thread::sleep(pause);
            }
            done
        });
        Self { stop, thread: Some(thread) }
    }

    fn end(mut self) -> u32 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Nuisance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_killed_and_restarted_with_its_log_loses_no_order_and_no_worker() {
    let mut scene = Scene::set(RedisOptions::aof(Aof::Always), 300).await;
    let workers = scene.fleet.start_known(2).await;
    scene.enqueue_over(4000).await;
    for pause in [700, 300, 900] {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        scene.server.kill9();
        tokio::time::sleep(Duration::from_millis(1000 - pause)).await;
        scene.server.restart();
    }
    // The last restart may have cost a settle whose lease is still to end.
    scene.all_closed_within(LEASE + RECOVERY, workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_under_way_when_redis_and_their_worker_die_come_back_after_one_lease() {
    let (mut server, stub) = (RedisServer::start(RedisOptions::aof(Aof::Always)), Stub::start().await);
    stub.otherwise(Answer::status(200).after(Duration::from_millis(1500)));
    let fleet = Fleet::new(&server, &Plan::new(server.url()).calling(&stub.url("/close"))).await;
    let mut victim = fleet.start();
    fleet.enqueue(1..=10, |_| soon(0)).await;
    eventually(PATIENCE, async || (stub.calls().len() == 10).then_some(())).await;
    server.restart();
    victim.kill9();
    let died = Instant::now();
    let next = fleet.start();
    eventually(LEASE + RECOVERY, async || (stub.calls().len() == 20).then_some(())).await;
    println!("called again {:?} after both died", died.elapsed());
    let stats = fleet.idle(PATIENCE).await;
    assert_eq!((stats.dead, stub.calls().len()), (0, 20));
    next.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_that_comes_back_empty_is_filled_again_and_nothing_is_closed_twice() {
    let mut scene = Scene::set(RedisOptions::default(), 400).await;
    let workers = scene.fleet.start_known(2).await;
    scene.enqueue_over(1500).await;
    scene.closed_at_least(100).await;
    scene.server.kill9();
    scene.server.restart();
    // What a sweep would do: all orders, the closed ones too.
    let past = Moment::host_now();
    scene.fleet.enqueue(1..=400, |_| past).await;
    scene.closed_at_least(300).await;
    scene.server.command::<()>(&["FLUSHALL"]);
    let again = Moment::host_now();
    scene.fleet.enqueue(1..=400, |_| again).await;
    scene.closed_at_least(400).await;
    scene.all_closed_within(LEASE + RECOVERY, workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_redis_was_emptied_is_on_time_for_the_next_order() {
    let scene = Scene::set(RedisOptions::default(), 1).await;
    let workers = scene.fleet.start_known(1).await;
    scene.server.command::<()>(&["FLUSHALL"]);
    let due = soon(2000);
    scene.fleet.enqueue([1], |_| due).await;
    scene.closed_at_least(1).await;
    let late = Moment::host_now().as_millis() - due.as_millis();
    assert!(late < 1000, "{late} ms late");
    let lines =
        workers[0].log().lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).count();
    assert!(lines < 40, "{}", workers[0].log());
    eventually(PATIENCE, async || {
        (scene.fleet.wheel.presence().await.ok()?.workers.len() == 1).then_some(())
    })
    .await;
    scene.all_closed_within(RECOVERY, workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_are_forgotten_all_the_time_cost_nobody_an_error() {
    let scene = Scene::set(RedisOptions::default(), 600).await;
    let workers = scene.fleet.start_known(2).await;
    let nuisance = Nuisance::start(&scene.server, Duration::from_millis(100), &["SCRIPT", "FLUSH"]);
    let begin = soon(100);
    for first in (1..=600).step_by(50) {
        let batch: Vec<_> = (first..first + 50)
            .map(|n: i64| {
                let due = begin.plus(Duration::from_millis(n as u64));
                crate::rig::wheel::deadline(&n.to_string(), duewheel::deadline::DueAt::Moment(due))
            })
            .collect();
        for answer in
            scene.fleet.wheel.enqueue_batch(&batch, duewheel::deadline::OnConflict::Keep, false).await
        {
            answer.unwrap().unwrap();
        }
    }
    let tallies = scene.all_closed_within(PATIENCE, workers).await;
    println!("{} flushes", nuisance.end());
    for tally in tallies {
        assert_eq!((&tally["claim_failures"], &tally["settle_failures"]), (&0.into(), &0.into()), "{tally}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_killed_all_the_time_are_made_anew() {
    let scene = Scene::set(RedisOptions::default(), 600).await;
    let workers = scene.fleet.start_known(2).await;
    scene.enqueue_over(3000).await;
    let nuisance = Nuisance::start(
        &scene.server,
        Duration::from_millis(500),
        &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"],
    );
    scene.closed_at_least(600).await;
    println!("connections killed {} times", nuisance.end());
    scene.all_closed_within(LEASE + RECOVERY, workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_of_somebody_else_that_blocks_redis_delays_and_loses_nothing() {
    let scene = Scene::set(RedisOptions::args(&["--busy-reply-threshold", "100"]), 200).await;
    let workers = scene.fleet.start_known(2).await;
    scene.enqueue_over(2500).await;
    let client = redis::Client::open(scene.server.unix_url()).unwrap();
    let endless = std::thread::spawn(move || {
        let mut connection = client.get_connection().unwrap();
        redis::cmd("EVAL").arg("while true do end").arg(0).exec(&mut connection).unwrap_err();
    });
    tokio::time::sleep(Duration::from_secs(4)).await;
    scene.server.command::<()>(&["SCRIPT", "KILL"]);
    endless.join().unwrap();
    scene.all_closed_within(LEASE + RECOVERY, workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_refuses_new_orders_and_goes_on_closing_the_old_ones() {
    let scene = Scene::set(RedisOptions::default(), 500).await;
    scene.enqueue_over(1500).await;
    scene.server.command::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
    // Also a worker that starts just then.
    let worker = scene.fleet.start();
    let refused = scene.fleet.run(&["enqueue", "9001", "--in", "1h", "--json"]);
    assert!(refused.code != 0 && refused.stderr.contains("out_of_memory"), "{refused:?}");
    scene.closed_at_least(500).await;
    scene.all_closed_within(LEASE + RECOVERY, vec![worker]).await;
    scene.server.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    scene.fleet.run(&["enqueue", "9001", "--in", "1h"]).ends(0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_a_replica_for_a_while_serves_again_as_soon_as_it_is_none() {
    let scene = Scene::set(RedisOptions::default(), 500).await;
    let workers = scene.fleet.start_known(2).await;
    scene.enqueue_over(2000).await;
    scene.closed_at_least(20).await;
    scene.server.command::<()>(&["REPLICAOF", "127.0.0.1", "1"]);
    let refused = scene.fleet.run(&["enqueue", "9001", "--in", "1h", "--json"]);
    assert!(refused.code != 0 && refused.stderr.contains("read_only"), "{refused:?}");
    tokio::time::sleep(Duration::from_secs(4)).await;
    scene.server.command::<()>(&["REPLICAOF", "NO", "ONE"]);
    scene.all_closed_within(RECOVERY, workers).await;
}

/// Writes are refused because a replica is missing, and because the last snapshot failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_refuses_writes_for_a_while_costs_no_attempt() {
    for word in ["no_replicas", "cannot_persist"] {
        let scene = Scene::set(RedisOptions::default(), 200).await;
        let workers = scene.fleet.start_known(1).await;
        scene.enqueue_over(2000).await;
        scene.closed_at_least(20).await;
        let set = |name: &str, value: &str| scene.server.command::<()>(&["CONFIG", "SET", name, value]);
        if word == "no_replicas" {
            set("min-replicas-to-write", "1");
        } else {
            // A folder stands where the snapshot is to be.
            let folder = scene.server.command::<Vec<String>>(&["CONFIG", "GET", "dir"]).remove(1);
            std::fs::create_dir(std::path::Path::new(&folder).join("dump.rdb")).unwrap();
            set("save", "3600 1");
            scene.server.command::<String>(&["BGSAVE"]);
            let failed = async || (scene.server.info("rdb_last_bgsave_status") == "err").then_some(());
            eventually(PATIENCE, failed).await;
        }
        let refused = scene.fleet.run(&["enqueue", "9001", "--in", "1h", "--json"]);
        assert!(refused.code == 69 && refused.stderr.contains(word), "{refused:?}");
        // The worker has met it, too.
        eventually(PATIENCE, async || workers[0].log().contains("claim failed").then_some(())).await;
        assert!(scene.closed().await < 200, "closed while Redis remembers nothing");
        if word == "no_replicas" {
            set("min-replicas-to-write", "0");
        } else {
            set("stop-writes-on-bgsave-error", "no");
        }
        scene.all_closed_within(RECOVERY, workers).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_moves_to_the_promoted_node_is_followed_although_the_old_one_stays_up_read_only() {
    let (scene, proxy) = behind_proxy(500).await;
    let promoted = RedisServer::start(RedisOptions::default());
    let (old, new) = (scene.server.port().to_string(), promoted.port().to_string());
    promoted.command::<()>(&["REPLICAOF", "127.0.0.1", &old]);
    eventually(PATIENCE, async || (promoted.info("master_link_status") == "up").then_some(())).await;
    let workers = scene.fleet.start_known(1).await;
    scene.enqueue_over(2000).await;
    scene.closed_at_least(20).await;
    promoted.command::<()>(&["REPLICAOF", "NO", "ONE"]);
    proxy.lead_to(promoted.port());
    scene.server.command::<()>(&["REPLICAOF", "127.0.0.1", &new]);
    let asked = Instant::now();
    eventually(RECOVERY, async || (scene.closed().await == 500).then_some(())).await;
    println!("all closed {:?} after the promotion", asked.elapsed());
    assert_eq!(scene.shop.count("FROM closes").await, 500);
    for mut worker in workers {
        worker.still_runs();
        let tally = worker.drain().await;
        assert_eq!((&tally["retried"], &tally["buried"]), (&0.into(), &0.into()), "{tally}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_waits_for_a_redis_that_is_still_loading() {
    let mut server = RedisServer::start(RedisOptions::aof(Aof::EverySec));
    let shop = Shop::open(Kind::Sqlite, 1).await;
    shop.orders([1], -1000, &[(0, 1)]).await;
    let fleet = Fleet::new(&server, &Plan::new(server.url()).closing(&shop)).await;
    fleet.enqueue([1], |_| soon(0)).await;
    let fill = "for i = 1, 20000 do redis.call('SET', 'filler:' .. i, string.rep('x', 100)) end";
    server.command::<()>(&["EVAL", fill, "0"]);
    server.command::<String>(&["BGREWRITEAOF"]);
    eventually(PATIENCE, async || {
        (server.info("aof_rewrite_in_progress") == "0" && server.info("aof_rewrite_scheduled") == "0")
            .then_some(())
    })
    .await;
    server.restart_slowly(&["--key-load-delay", "200", "--loading-process-events-interval-bytes", "1024"]);
    let mut worker = fleet.start();
    let refused = fleet.run(&["--timeout", "1s", "enqueue", "2", "--in", "1h", "--json"]);
    assert!(refused.code == 69 && refused.stderr.contains("loading"), "{refused:?}");
    eventually(PATIENCE, async || server.try_command::<String>(&["PING"]).ok()).await;
    let answered = Instant::now();
    eventually(Duration::from_secs(3), async || (shop.status(1).await == "closed").then_some(())).await;
    println!("closed {:?} after the first PONG", answered.elapsed());
    worker.still_runs();
    worker.drain().await;
}

/// A fleet behind a proxy, with one worker and one shard.
async fn behind_proxy(orders: i64) -> (Scene, Proxy) {
    let server = RedisServer::start(RedisOptions::default());
    let proxy = Proxy::start(server.port());
    let url = proxy.redis_url();
    let shop = Shop::open(Kind::Sqlite, 2).await;
    shop.orders(1..=orders, -1000, &[(0, 1), (1, 2)]).await;
    let fleet = Fleet::new(&server, &Plan::new(url).closing(&shop).shards(1).response_timeout("1s")).await;
    (Scene { server, shop, fleet, orders }, proxy)
}

/// The beginning of a script's call on the wheel's only shard, as it goes over the wire.
fn call_of(script: &script::Script, wheel: &Wheel) -> Vec<u8> {
    let first = key(wheel, Shard(0), "meta");
    format!("{}\r\n$1\r\n9\r\n${}\r\n{first}\r\n", script.sha(), first.len()).into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_answer_is_lost_is_asked_again_and_its_orders_do_not_wait_for_a_lease() {
    let (scene, proxy) = behind_proxy(150).await;
    let workers = scene.fleet.start_known(1).await;
    scene.fleet.wheel.pause(&Note::new("tester", "to lose an answer").unwrap()).await.unwrap();
    scene.fleet.enqueue(1..=150, |_| soon(0)).await;
    // The worker looks at least four times a second: the claim that is kept back is the first to bring something.
    proxy.hold(Way::Up);
    tokio::time::sleep(Duration::from_millis(400)).await;
    scene.fleet.wheel.resume().await.unwrap();
    proxy.lose_reply(1, &call_of(&script::CLAIM, &scene.fleet.wheel));
    proxy.heal();
    let began = Instant::now();
    let tally = scene.all_closed_within(RECOVERY, workers).await.remove(0);
    println!("lost claim: all closed after {:?}, {tally}", began.elapsed());
    assert!(proxy.lost_a_reply());
    assert_eq!((&tally["reaped"], &tally["closed"]), (&0.into(), &150.into()), "{tally}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settle_whose_answer_is_lost_is_repeated_and_counts_once() {
    let (scene, proxy) = behind_proxy(150).await;
    let workers = scene.fleet.start_known(1).await;
    proxy.lose_reply(1, &call_of(&script::SETTLE, &scene.fleet.wheel));
    scene.fleet.enqueue(1..=150, |_| soon(0)).await;
    let tally = scene.all_closed_within(LEASE + RECOVERY, workers).await.remove(0);
    assert!(proxy.lost_a_reply());
    let of = |what: &str| tally[what].as_u64().unwrap();
    // A heartbeat between the two tells it that the leases are over: then it need not repeat.
    assert_eq!((of("closed") + of("distrusted"), of("stale"), of("reaped")), (150, 0, 0), "{tally}");
    assert!(tally["settle_failures"].as_u64() >= Some(1), "{tally}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueue_and_a_cancel_whose_answer_is_lost_say_so_and_may_be_repeated() {
    let server = RedisServer::start(RedisOptions::default());
    let proxy = Proxy::start(server.port());
    let plan = Plan::new(proxy.redis_url()).shards(1).hook("kind", "\"none\"");
    let fleet = Fleet::new(&server, &plan).await;
    let at = "2030-01-01T00:00:00Z";
    // Once, so that Redis knows the scripts.
    fleet.run(&["enqueue", "warm", "--at", at]).ends(0);
    fleet.run(&["cancel", "warm"]).ends(0);
    proxy.lose_reply(1, &call_of(&script::ENQUEUE, &fleet.wheel));
    let ran = fleet.run(&["enqueue", "o-1", "--at", at, "--json"]);
    assert!(proxy.lost_a_reply());
    // Either the command has repeated it itself, or it says that the outcome is unknown.
    assert!([0, 75].contains(&ran.code), "{ran:?}");
    let again = fleet.run(&["enqueue", "o-1", "--at", at, "--json"]).ends(0);
    assert_eq!(again.object()["outcome"], "exists", "{again:?}");
    assert_eq!(fleet.wheel.stats().await.unwrap().scheduled, 1);
    proxy.lose_reply(1, &call_of(&script::CANCEL, &fleet.wheel));
    let ran = fleet.run(&["cancel", "o-1", "--json"]);
    assert!(proxy.lost_a_reply());
    assert!([0, 75].contains(&ran.code), "{ran:?}");
    let again = fleet.run(&["cancel", "o-1", "--json"]).ends(0);
    assert_eq!(again.object()["outcome"], "already_cancelled", "{again:?}");
    assert_eq!(fleet.wheel.stats().await.unwrap().scheduled, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_on_which_nothing_arrives_any_more_are_given_up_within_the_answers_time() {
    let (scene, proxy) = behind_proxy(300).await;
    let workers = scene.fleet.start_known(1).await;
    scene.enqueue_over(2000).await;
    scene.closed_at_least(10).await;
    proxy.swallow(Way::Up);
    proxy.swallow(Way::Down);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    proxy.heal();
    scene.all_closed_within(LEASE + RECOVERY, workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_and_workers_frozen_together_go_on_together() {
    let scene = Scene::set(RedisOptions::default(), 400).await;
    let workers = scene.fleet.start_known(2).await;
    scene.enqueue_over(1500).await;
    scene.closed_at_least(20).await;
    scene.server.pause();
    workers.iter().for_each(|worker| worker.signal("STOP"));
    tokio::time::sleep(LEASE + Duration::from_millis(500)).await;
    scene.server.resume();
    workers.iter().for_each(|worker| worker.signal("CONT"));
    scene.all_closed_within(LEASE + RECOVERY, workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_frozen_for_longer_than_an_answers_time_loses_nothing() {
    let scene = Scene::set(RedisOptions::default(), 400).await;
    let workers = scene.fleet.start_known(2).await;
    scene.enqueue_over(1500).await;
    scene.closed_at_least(20).await;
    scene.server.pause();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    scene.server.resume();
    scene.all_closed_within(LEASE + RECOVERY, workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_taken_away_stops_the_work_a_policy_that_evicts_is_said_and_nothing_is_lost() {
    let server = RedisServer::start(RedisOptions::default());
    server.command::<()>(&["ACL", "SETUSER", "closer", "on", ">hush", "~*", "&*", "+@all"]);
    let url = server.url().replace("redis://", "redis://closer:hush@");
    let shop = Shop::open(Kind::Sqlite, 2).await;
    shop.orders(1..=100, -1000, &[(0, 1), (1, 2)]).await;
    let fleet = Fleet::new(&server, &Plan::new(url).closing(&shop)).await;
    let scene = Scene { server, shop, fleet, orders: 100 };
    let workers = scene.fleet.start_known(1).await;
    scene.server.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    scene.server.command::<()>(&["ACL", "SETUSER", "closer", "-hset"]);
    let taken = Instant::now();
    scene.fleet.enqueue(1..=100, |_| soon(0)).await;
    eventually(Duration::from_secs(25), async || {
        let log = workers[0].log();
        (log.contains("claiming stops until it passes") && log.contains("may throw orders away"))
            .then_some(())
    })
    .await;
    println!("both noticed {:?} after they were changed", taken.elapsed());
    scene.server.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    let stats = scene.fleet.wheel.stats().await.unwrap();
    assert_eq!((stats.scheduled + stats.leased, scene.closed().await), (100, 0), "{stats:?}");
    scene.server.command::<()>(&["ACL", "SETUSER", "closer", "+hset"]);
    scene.all_closed_within(LEASE + RECOVERY * 2, workers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hides_its_configuration_is_worked_with() {
    let server = RedisServer::start(RedisOptions::args(&["--rename-command", "CONFIG", ""]));
    let fleet = Fleet::new(&server, &Plan::new(server.url()).hook("kind", "\"log\"")).await;
    fleet.enqueue(1..=20, |_| soon(0)).await;
    let worker = fleet.start();
    fleet.idle(PATIENCE).await;
    assert_eq!(worker.drain().await["closed"], 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_starts_before_its_redis_does() {
    let mut server = RedisServer::start(RedisOptions::default());
    server.kill9();
    let store = Store::new(&RedisSettings::new(server.url().into())).unwrap();
    let own = duewheel::wheel::WheelSettings {
        shards: duewheel::shard::ShardCount::new(16).unwrap(),
        ..settings(16)
    };
    let plan = Plan::new(server.url()).hook("kind", "\"log\"");
    let fleet = Fleet::unformatted(&plan, Wheel::new(Arc::new(store), own));
    let mut worker = fleet.start();
    eventually(PATIENCE, async || worker.log().contains("redis is away").then_some(())).await;
    worker.still_runs();
    let kind = fleet.wheel.inspect(&id("1")).await.unwrap_err().store_kind();
    assert_eq!(kind, Some(StoreKind::Unreachable));
    server.restart();
    fleet.enqueue([1], |_| soon(0)).await;
    fleet.idle(RECOVERY * 2).await;
    assert_eq!(worker.drain().await["closed"], 1);
}
