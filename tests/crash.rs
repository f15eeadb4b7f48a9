//! Workers that die, freeze and leave, as processes: whatever ends one, and wherever, every order is closed once and the stock is exact.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use duewheel::clock::Moment;
use duewheel::deadline::State;

use crate::rig::clock_shim::ClockShim;
use crate::rig::proxy::{Proxy, Way};
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::shop::{Db, Kind, Shop};
use crate::rig::strain::Strain;
use crate::rig::stub::{Answer, Body, Stub};
use crate::rig::wheel::id;
use crate::rig::worker::{Fleet, LEASE, Plan, soon};
use crate::rig::{PATIENCE, eventually};

/// What a crash may add to the lease before its orders are at work again.
const SLACK: Duration = Duration::from_millis(1250);
/// How late the orders may be that a killed worker was preferred for.
const TAKEN_OVER: Duration = Duration::from_secs(1);

/// A shop whose orders are overdue by its own table, so that only the wheel decides when.
async fn shop(orders: i64) -> Shop {
    let shop = Shop::open(Kind::Sqlite, 2).await;
    shop.orders(1..=orders, -1000, &[(0, 1), (1, 2)]).await;
    shop
}

/// Every order is closed, by one audit row each, and the stock is exact.
async fn all_closed_once(shop: &Shop, orders: i64) {
    assert_eq!(shop.count("FROM orders WHERE status = 'closed'").await, orders);
    assert_eq!(shop.count("FROM closes").await, orders);
    shop.balance().await;
}

/// Keeps the shop's database locked for writing until dropped.
async fn lock(shop: &Shop) -> sqlx::Transaction<'static, sqlx::Sqlite> {
    let Db::Sqlite(pool) = &shop.db else { panic!("a SQLite shop") };
    pool.begin_with("BEGIN IMMEDIATE").await.unwrap()
}

async fn closed(shop: &Shop, orders: i64) {
    eventually(PATIENCE, async || {
        (shop.count("FROM orders WHERE status = 'closed'").await >= orders).then_some(())
    })
    .await;
}

/// Two workers share 300 orders due at once; the doomed one dies at the failpoint with its first claim in hand.
async fn dies_at(failpoint: &str) -> i64 {
    let strain = Strain::start();
    let (server, shop) = (RedisServer::shared(), shop(300).await);
    let fleet = Fleet::new(server, &Plan::new(server.url()).closing(&shop)).await;
    let survivor = fleet.start();
    let mut victim = fleet.start_doomed(failpoint);
    fleet.known(&[&survivor, &victim]).await;
    let due = soon(300);
    fleet.enqueue(1..=300, |_| due).await;
    let ended = victim.ended(PATIENCE).await;
    assert!(!ended.success(), "{ended:?}");
    let died = Moment::host_now();
    let before = shop.count("FROM orders WHERE status = 'closed'").await;
    let stats = fleet.idle(PATIENCE).await;
    let mut last = Moment::EPOCH;
    for n in 1..=300 {
        let ended = fleet.wheel.inspect(&id(&n.to_string())).await.unwrap().ended.unwrap();
        last = last.max(ended.ended_at);
    }
    println!("{failpoint}: the last ended {} ms after the death", last.as_millis() - died.as_millis());
    assert!(last <= died.plus(strain.allows(LEASE + SLACK)), "{last:?}, died {died:?}");
    all_closed_once(&shop, 300).await;
    assert_eq!((stats.dead, stats.totals["retried"]), (0, 0), "{stats:?}");
    let tally = survivor.drain().await;
    assert!(tally["reaped"].as_u64().unwrap() > 0, "nothing was lost: {tally}");
    assert!(fleet.wheel.verify(false).await.unwrap().findings.is_empty());
    // What the dead one had closed is read from its audit rows, and is ours.
    assert_eq!((&tally["closed"], &tally["skipped"]), (&300.into(), &0.into()), "{tally}");
    before
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_after_its_claim_costs_one_lease_and_no_order() {
    dies_at("after_claim").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_before_its_hook_costs_one_lease_and_no_order() {
    dies_at("in_hook").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_dies_between_commit_and_settle_leaves_closed_orders_that_the_next_one_only_reads() {
    assert!(dies_at("before_settle").await > 0, "nothing had been closed at the death");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_kills_its_worker_ends_dead_alone_and_its_neighbours_are_closed() {
    poison(1, "0s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_kills_its_worker_takes_none_along_that_waits_for_company() {
    poison(4, "50ms").await;
}

async fn poison(shards: u32, gather: &str) {
    let (server, shop) = (RedisServer::shared(), shop(100).await);
    let plan = Plan::new(server.url()).closing(&shop).shards(shards).worker("gather", &format!("{gather:?}"));
    let plan = plan.worker("lease", "\"600ms\"").worker("lease_margin", "\"50ms\"");
    let plan = plan.hook("lock_timeout", "\"200ms\"").hook("statement_timeout", "\"300ms\"");
    let fleet = Fleet::new(server, &plan.hook("timeout", "\"400ms\"")).await;
    fleet.enqueue(1..=100, |_| soon(0)).await;
    let mut deaths = 0;
    let mut worker = fleet.start_doomed("in_hook:37");
    let done = async |fleet: &Fleet| {
        let stats = fleet.wheel.stats().await.unwrap();
        stats.scheduled == 0 && stats.leased == 0
    };
    let began = Instant::now();
    // The supervisor: starts it again, each time.
    while !done(&fleet).await {
        assert!(began.elapsed() < Duration::from_secs(60), "{deaths} deaths and no end\n{}", worker.log());
        let ended = eventually(PATIENCE, async || if done(&fleet).await { Some(()) } else { None });
        tokio::select! {
            () = ended => break,
            _ = worker.ended(PATIENCE) => {}
        }
        deaths += 1;
        worker = fleet.start_doomed("in_hook:37");
    }
    worker.still_runs();
    // Twice with all of its batch, and then five times alone.
    assert_eq!(deaths, 7);
    let poison = fleet.wheel.inspect(&id("37")).await.unwrap();
    assert_eq!(poison.state, State::Dead);
    println!("poison: {deaths} deaths in {:?}, reason {:?}", began.elapsed(), poison.death);
    assert_eq!(fleet.wheel.stats().await.unwrap().dead, 1);
    assert_eq!((shop.status(37).await, shop.count("FROM closes").await), ("unpaid".to_owned(), 99));
    shop.balance().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_frozen_past_its_lease_changes_nothing_when_it_wakes_and_works_on() {
    let (server, shop) = (RedisServer::shared(), shop(40).await);
    let fleet = Fleet::new(server, &Plan::new(server.url()).closing(&shop)).await;
    let frozen = fleet.start_known(1).await.remove(0);
    // The hook is at work for as long as somebody else writes in the shop.
    let busy = lock(&shop).await;
    fleet.enqueue(1..=20, |_| soon(0)).await;
    fleet.leased(20).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    frozen.signal("STOP");
    drop(busy);
    let other = fleet.start();
    fleet.idle(PATIENCE).await;
    assert_eq!(shop.count("FROM closes").await, 20);
    assert_eq!(other.drain().await["closed"], 20);
    frozen.signal("CONT");
    // It goes on, drops what it holds, and serves what comes.
    fleet.enqueue(21..=40, |_| soon(0)).await;
    fleet.idle(PATIENCE).await;
    all_closed_once(&shop, 40).await;
    let tally = frozen.drain().await;
    let late = tally["distrusted"].as_u64().unwrap() + tally["stale"].as_u64().unwrap();
    assert!(late >= 20, "{tally}");
    assert_eq!(tally["closed"], 20, "{tally}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settle_that_arrives_after_the_lease_is_stale() {
    let (server, shop) = (RedisServer::shared(), shop(20).await);
    let proxy = Proxy::start(server.port());
    let plan = Plan::new(proxy.redis_url()).closing(&shop).response_timeout("30s");
    let fleet = Fleet::new(server, &plan).await;
    let slow = fleet.start_known(1).await.remove(0);
    let busy = lock(&shop).await;
    fleet.enqueue(1..=20, |_| soon(0)).await;
    fleet.leased(20).await;
    // From here on nothing that it says arrives: it closes in the shop and its settle is on the way.
    proxy.hold(Way::Up);
    drop(busy);
    closed(&shop, 20).await;
    let direct = Fleet::unformatted(&Plan::new(server.url()).closing(&shop), fleet.wheel.clone());
    let other = direct.start();
    fleet.idle(PATIENCE).await;
    // The audit row says that this very life of the order was closed by us.
    assert_eq!(other.drain().await["closed"], 20);
    proxy.heal();
    let tally = slow.drain().await;
    assert_eq!((tally["stale"].as_u64(), tally["closed"].as_u64()), (Some(20), Some(0)), "{tally}");
    all_closed_once(&shop, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_worker_was_preferred_for_is_taken_within_a_second() {
    let strain = Strain::start();
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    let fleet = Fleet::new(server, &Plan::new(server.url()).calling(&stub.url("/close"))).await;
    let mut two = fleet.start_known(2).await;
    two[0].kill9();
    let due = soon(200);
    fleet.enqueue(1..=64, |_| due).await;
    fleet.idle(PATIENCE).await;
    let mut late: Vec<u64> = stub.calls().iter().map(|call| call.arrived_ms - due.as_millis()).collect();
    late.sort_unstable();
    println!("preferred worker killed: {} ms late at the median, {} ms at most", late[32], late[63]);
    assert!(late.len() == 64 && Duration::from_millis(late[63]) <= strain.allows(TAKEN_OVER), "{late:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_calls_of_a_killed_worker_are_made_again_by_its_namesake_within_the_lease() {
    let strain = Strain::start();
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    let fleet = Fleet::new(server, &Plan::new(server.url()).calling(&stub.url("/close"))).await;
    for n in 1..=50 {
        stub.script(&n.to_string(), vec![Answer::status(200).of(Body::Hang), Answer::status(200)]);
    }
    let mut victim = fleet.start();
    fleet.enqueue(1..=50, |_| soon(0)).await;
    eventually(PATIENCE, async || (stub.calls().len() >= 50).then_some(())).await;
    // The same host and configuration, and a name of its own all the same: its heartbeat keeps nobody else's leases alive.
    let mut heir = fleet.start();
    victim.kill9();
    let died = Moment::host_now().as_millis();
    fleet.idle(PATIENCE).await;
    heir.still_runs();
    let calls = stub.calls();
    let after = calls.iter().map(|call| call.arrived_ms).max().unwrap() - died;
    println!("50 in flight: called again {after} ms after the death");
    assert!(Duration::from_millis(after) <= strain.allows(LEASE + SLACK), "{after} ms");
    assert_eq!(calls.len(), 100);
    for n in 1..=50 {
        let of: Vec<_> = calls.iter().filter(|call| call.id() == n.to_string()).collect();
        let ids: HashSet<_> = of.iter().map(|call| call.header("webhook-id")).collect();
        let attempts: Vec<_> = of.iter().map(|call| call.data()["attempt"].as_u64()).collect();
        assert_eq!((of.len(), ids.len(), attempts), (2, 1, vec![Some(1), Some(1)]), "order {n}");
    }
    let tokens: HashSet<_> =
        fleet.wheel.presence().await.unwrap().workers.into_iter().map(|worker| worker.token).collect();
    assert!(!tokens.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_outlives_one_worker_after_the_other() {
    let orders = 2000;
    let (server, shop) = (RedisServer::shared(), shop(orders).await);
    let plan = Plan::new(server.url()).closing(&shop).worker("concurrency", "64");
    let fleet = Fleet::new(server, &plan.worker("claim_batch", "32")).await;
    let past = Moment::host_now();
    fleet.enqueue(1..=orders, |n| past.plus(Duration::from_millis(n as u64 % 50))).await;
    for _ in 0..6 {
        let mut worker = fleet.start();
        let before = shop.count("FROM orders WHERE status = 'closed'").await;
        let done = eventually(PATIENCE, async || {
            let now = shop.count("FROM orders WHERE status = 'closed'").await;
            (now > before || now == orders).then_some(now == orders)
        })
        .await;
        worker.kill9();
        if done {
            break;
        }
    }
    let last = fleet.start();
    let stats = fleet.idle(Duration::from_secs(30)).await;
    all_closed_once(&shop, orders).await;
    assert_eq!(stats.dead, 0);
    assert!(fleet.wheel.verify(false).await.unwrap().findings.is_empty());
    last.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_told_to_end_under_load_finishes_its_calls_and_nothing_is_done_twice() {
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    stub.otherwise(Answer::status(200).after(Duration::from_millis(100)));
    let plan = Plan::new(server.url()).calling(&stub.url("/close")).worker("concurrency", "40");
    // No call may overrun on a busy machine: it would rightly be made again.
    let plan = plan.worker("lease", "\"20s\"").worker("grace", "\"15s\"").hook("timeout", "\"10s\"");
    let fleet = Fleet::new(server, &plan).await;
    fleet.enqueue(1..=600, |_| soon(0)).await;
    let mut first = fleet.start();
    eventually(PATIENCE, async || (stub.calls().len() >= 100).then_some(())).await;
    let asked = Instant::now();
    first.signal("TERM");
    let ended = first.ended(Duration::from_secs(15)).await;
    println!("SIGTERM under load: ended after {:?}", asked.elapsed());
    assert!(ended.success(), "{ended:?}");
    let stats = fleet.wheel.stats().await.unwrap();
    assert_eq!((stats.leased, stats.totals["retried"]), (0, 0));
    assert!(stats.scheduled > 0, "it should have left something: {stats:?}");
    assert_eq!(first.tally()["closed"].as_u64(), Some(stub.calls().len() as u64), "every call was settled");
    let next = fleet.start();
    fleet.idle(PATIENCE).await;
    next.drain().await;
    let calls = stub.calls();
    let distinct: HashSet<_> = calls.iter().map(|call| call.id()).collect();
    assert_eq!((calls.len(), distinct.len()), (600, 600));
    assert!(calls.iter().all(|call| call.data()["attempt"] == 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_told_to_end_while_redis_is_away_ends_within_the_grace() {
    let mut server = RedisServer::start(RedisOptions::default());
    let stub = Stub::start().await;
    let fleet = Fleet::new(&server, &Plan::new(server.url()).calling(&stub.url("/close"))).await;
    let mut worker = fleet.start_known(1).await.remove(0);
    server.kill9();
    eventually(PATIENCE, async || worker.log().contains("failed").then_some(())).await;
    let asked = Instant::now();
    worker.signal("TERM");
    let ended = worker.ended(Duration::from_secs(5)).await;
    println!("SIGTERM without Redis: ended after {:?}", asked.elapsed());
    assert!(ended.success(), "nothing was in hand: {ended:?}\n{}", worker.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_never_ends_delays_the_end_of_a_worker_by_the_grace_and_no_longer() {
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    stub.otherwise(Answer::status(200).of(Body::Hang));
    let plan = Plan::new(server.url()).calling(&stub.url("/close")).worker("grace", "\"500ms\"");
    let fleet = Fleet::new(server, &plan).await;
    let mut worker = fleet.start();
    fleet.enqueue(1..=5, |_| soon(0)).await;
    eventually(PATIENCE, async || (stub.calls().len() >= 5).then_some(())).await;
    worker.signal("TERM");
    let ended = worker.ended(Duration::from_secs(3)).await;
    assert_eq!(ended.code(), Some(1), "what was left is said: {ended:?}");
    assert!(worker.log().contains("5 leases in work"), "{}", worker.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_is_the_first_process_of_its_container_obeys_its_signals() {
    let strain = Strain::start();
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    stub.otherwise(Answer::status(200).after(Duration::from_secs(2)));
    let fleet = Fleet::new(server, &Plan::new(server.url()).calling(&stub.url("/close"))).await;
    let ready = async |worker: &crate::rig::worker::Process| {
        eventually(PATIENCE, async || worker.log().contains("serving").then_some(())).await;
    };

    let mut idle = fleet.start_as_first_process();
    ready(&idle).await;
    let asked = Instant::now();
    idle.signal("TERM");
    let ended = idle.ended(PATIENCE).await;
    assert!(ended.success() && asked.elapsed() <= strain.allows(Duration::from_secs(1)), "{ended:?}");

    let mut busy = fleet.start_as_first_process();
    ready(&busy).await;
    fleet.enqueue(1..=5, |_| soon(0)).await;
    eventually(PATIENCE, async || (stub.calls().len() >= 5).then_some(())).await;
    let asked = Instant::now();
    busy.signal("TERM");
    fleet.enqueue(6..=10, |_| soon(0)).await;
    let ended = busy.ended(PATIENCE).await;
    assert!(ended.success() && asked.elapsed() <= strain.allows(Duration::from_secs(3)), "{ended:?}");
    assert_eq!(
        (stub.calls().len(), busy.tally()["closed"].as_u64()),
        (5, Some(5)),
        "nothing was claimed after the signal"
    );

    let mut hurried = fleet.start_as_first_process();
    eventually(PATIENCE, async || (stub.calls().len() >= 10).then_some(())).await;
    let asked = Instant::now();
    hurried.signal("TERM");
    eventually(PATIENCE, async || hurried.log().contains("draining").then_some(())).await;
    hurried.signal("TERM");
    let ended = hurried.ended(PATIENCE).await;
    assert!(!ended.success() && asked.elapsed() <= strain.allows(Duration::from_secs(1)), "{ended:?}");
    assert_eq!(fleet.wheel.stats().await.unwrap().leased, 5, "its leases end by themselves");
}

/// DW-035: the worker's own wall clock steps back an hour, then to before 1970. It is held back while its clock is wrong, and goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_whose_own_clock_steps_back_neither_panics_nor_closes_twice() {
    let (server, clock) = (RedisServer::shared(), ClockShim::new());
    let shop = shop(100).await;
    let fleet = Fleet::new(server, &Plan::new(server.url()).closing(&shop)).await;
    let environment = clock.environment();
    let environment: Vec<_> =
        environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mut worker = fleet.start_with(&environment);
    fleet.enqueue(1..=50, |_| soon(0)).await;
    closed(&shop, 50).await;
    let since_1970 = i64::try_from(Moment::host_now().as_millis()).unwrap();
    for ahead_ms in [-3_600_000, -since_1970 - 1000] {
        clock.set(ahead_ms);
        // The sentinel looks at the clocks once a second.
        eventually(PATIENCE, async || {
            let workers = fleet.wheel.presence().await.ok()?.workers;
            workers
                .iter()
                .any(|worker| worker.held_back.iter().any(|why| why.contains("clock")))
                .then_some(())
        })
        .await;
        worker.still_runs();
    }
    fleet.enqueue(51..=100, |_| soon(0)).await;
    clock.set(0);
    closed(&shop, 100).await;
    fleet.idle(PATIENCE).await;
    all_closed_once(&shop, 100).await;
    assert!(!worker.log().contains("panicked"), "{}", worker.log());
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_worker_that_is_killed_is_missed_and_what_it_had_is_told() {
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    stub.otherwise(Answer::status(204).after(PATIENCE));
    let plan = Plan::new(server.url()).shards(2).calling(&stub.url("/close")).worker("lease", "\"20s\"");
    let fleet = Fleet::new(server, &plan.hook("timeout", "\"18s\"")).await;
    let mut worker = fleet.start();
    fleet.known(&[&worker]).await;
    fleet.enqueue([7], |_| soon(100)).await;
    fleet.leased(1).await;
    let order = id("7");
    let survey = async || fleet.wheel.survey(&order).await.unwrap();
    let named = format!("pid {} (", worker.pid());
    let first = eventually(PATIENCE, async || {
        let seen = survey().await;
        seen.why().contains(&named).then_some(seen)
    })
    .await;
    assert!(first.why().contains("has it, claimed "), "{}", first.why());
    assert_eq!(first.holder().unwrap().claim.fence, first.seen.fence.unwrap().0);
    // It is known by its claim when the lease was renewed, too.
    let renewed = eventually(PATIENCE, async || {
        let seen = survey().await;
        (seen.seen.fence != first.seen.fence).then_some(seen)
    })
    .await;
    assert_eq!(renewed.holder().unwrap().claim.fence, first.seen.fence.unwrap().0, "{}", renewed.why());

    worker.kill9();
    let presence = eventually(PATIENCE, async || {
        Some(fleet.wheel.presence().await.ok()?).filter(|presence| presence.workers.is_empty())
    })
    .await;
    assert_eq!(presence.lost.iter().map(|lost| lost.pid).collect::<Vec<_>>(), [worker.pid()]);
    let why = survey().await.why();
    assert!(why.contains(&named) && why.contains("had it, and was heard of last "), "{why}");
    let stats = fleet.run(&["stats"]).ends(0).stdout;
    assert!(stats.contains("nobody closes orders on this wheel; lost lately: "), "{stats}");
    assert!(stats.contains(&named), "{stats}");
}
