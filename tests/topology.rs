//! Redis behind sentinels, and as a Cluster: the same program, told by its URL alone.

#[cfg(feature = "webhook")]
#[path = "topology/tls.rs"]
mod tls;

use std::sync::Arc;
use std::time::Instant;

use duewheel::wheel::{RedisSettings, Store, Wheel};

use crate::rig::cluster::RedisCluster;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::sentinels::Sentinels;
use crate::rig::shop::{Kind, Shop};
use crate::rig::wheel::{key, settings};
use crate::rig::worker::{Fleet, Plan, soon};
use crate::rig::{PATIENCE, eventually};
use crate::rights::{PASSWORD, documented_user};

async fn fleet(url: &str, shop: &Shop) -> Fleet {
    let redis = RedisSettings { response_timeout: PATIENCE, ..RedisSettings::new(url.into()) };
    fleet_on(&redis, url, shop).await
}

async fn fleet_on(redis: &RedisSettings, url: &str, shop: &Shop) -> Fleet {
    let wheel = Wheel::new(Arc::new(Store::new(redis).unwrap()), settings(16));
    let fleet = Fleet::unformatted(&Plan::new(url).closing(shop), wheel);
    fleet.wheel.format().await.unwrap();
    fleet
}

async fn shop(orders: i64) -> Shop {
    let shop = Shop::open(Kind::Sqlite, 10).await;
    shop.orders(1..=orders, -60_000, &[(1, 1)]).await;
    shop
}

async fn all_closed_once(shop: &Shop, orders: i64) {
    eventually(PATIENCE, async || {
        (shop.count("FROM orders WHERE status = 'closed'").await == orders).then_some(())
    })
    .await;
    assert_eq!(shop.count("FROM closes").await, orders);
    shop.balance().await;
}

/// Makes the documented user, with one more right; answers its login.
fn allow(server: &RedisServer, besides: &str) -> String {
    let mut words = documented_user();
    words.push(besides.to_owned());
    server.command::<String>(&words.iter().map(String::as_str).collect::<Vec<_>>());
    format!("duewheel:{PASSWORD}")
}

/// What people ask from the command line, on a wheel that has something in it.
fn ask_all(fleet: &Fleet, id: &str) {
    for command in [
        "enqueue ID --in 1h",
        "inspect ID",
        "reschedule ID --in 2h",
        "list",
        "list --state ended",
        "stats",
        "forecast",
        "verify",
        "dead list",
        "events",
        "wheel list",
        "pause --reason tried",
        "resume",
        "cancel ID",
        "check",
    ] {
        let words = command.split(' ').map(|word| if word == "ID" { id } else { word });
        let words: Vec<&str> = words.chain(["--json"]).collect();
        let ran = fleet.run(&words);
        // The check has its own opinion of a test's Redis; that it could ask is what counts here.
        let refused = ran.code != 0 && command != "check";
        assert!(!refused && !ran.stdout.contains("MOVED"), "{command}: {ran:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_of_the_master_that_sentinels_name_loses_no_deadline() {
    let mut master = RedisServer::start(RedisOptions::default());
    let port = master.port().to_string();
    let replica = RedisServer::start(RedisOptions::args(&["--replicaof", "127.0.0.1", &port]));
    allow(&master, "+role");
    let login = allow(&replica, "+role");
    eventually(PATIENCE, async || (replica.info("master_link_status") == "up").then_some(())).await;
    let sentinels = Sentinels::watch(&master, "shop");
    let shop = shop(200).await;
    let fleet = fleet(&format!("redis+sentinel://{login}@{}/shop", sentinels.hosts()), &shop).await;
    let worker = fleet.start();
    fleet.enqueue(1..=100, |_| soon(0)).await;
    all_closed_once(&shop, 100).await;
    ask_all(&fleet, "900001");
    fleet.enqueue(101..=200, |_| soon(2000)).await;
    let copied: i64 = master.command(&["WAIT", "1", "60000"]);
    assert_eq!(copied, 1);
    master.kill9();
    let killed = Instant::now();
    all_closed_once(&shop, 200).await;
    println!("all closed {:?} after the master was killed", killed.elapsed());
    assert_eq!(replica.info("role"), "master");
    ask_all(&fleet, "900002");
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wheel_lies_over_the_nodes_of_a_cluster_and_goes_on_while_a_shard_moves() {
    let cluster = RedisCluster::start();
    let shop = shop(400).await;
    allow(&cluster.nodes[0], "+cluster|slots");
    let login = allow(&cluster.nodes[1], "+cluster|slots");
    let [one, other] = [cluster.nodes[0].port(), cluster.nodes[1].port()];
    let fleet = fleet(&format!("redis+cluster://{login}@127.0.0.1:{one},127.0.0.1:{other}"), &shop).await;
    let on = |shard: u16| {
        let key = key(&fleet.wheel, duewheel::shard::Shard(shard), "meta");
        (cluster.hash_slot(&key), cluster.first_owner(cluster.hash_slot(&key)))
    };
    let homes: std::collections::BTreeSet<usize> = (0..16).map(|shard| on(shard).1).collect();
    assert_eq!(homes.len(), 2, "the shards are on both nodes");
    let worker = fleet.start();
    fleet.enqueue(1..=200, |_| soon(0)).await;
    all_closed_once(&shop, 200).await;
    ask_all(&fleet, "900003");
    fleet.enqueue(201..=400, |_| soon(1500)).await;
    let (slot, from) = on(3);
    cluster.open_migration(slot, from, 1 - from);
    let keys = cluster.keys_in(from, slot);
    for key in keys.iter().take(3) {
        cluster.move_keys(from, 1 - from, &[key]);
    }
    tokio::time::sleep(std::time::Duration::from_millis(2500)).await;
    cluster.close_migration(slot, from, 1 - from);
    all_closed_once(&shop, 400).await;
    ask_all(&fleet, "900004");
    let drained = worker.drain().await;
    assert_eq!(drained["closed"], 400, "{drained}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_know_no_master_are_an_error_that_says_so() {
    let server = RedisServer::start(RedisOptions::default());
    let url = format!("redis+sentinel://127.0.0.1:{}/shop", server.port());
    let settings = RedisSettings::new(url.as_str().into());
    let store = Store::new(&settings).unwrap();
    let error = store.time_us().await.unwrap_err();
    assert_eq!(error.store_kind(), Some(duewheel::error::StoreKind::Unreachable), "{error}");
}
