//! The same over TLS: sentinels, the servers that they name, and the nodes of a Cluster each show a certificate.

use duewheel::error::StoreKind;
use duewheel::wheel::{RedisSettings, Store};

use super::{all_closed_once, fleet_on, shop};
use crate::rig::authority::Authority;
use crate::rig::cluster::RedisCluster;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::sentinels::Sentinels;
use crate::rig::shop::Shop;
use crate::rig::worker::{Fleet, Process, soon};
use crate::rig::{PATIENCE, eventually};

/// How this authority's servers are reached.
fn trusting(url: &str, authority: &Authority) -> RedisSettings {
    RedisSettings {
        ca_file: Some(authority.path()),
        connect_timeout: PATIENCE,
        response_timeout: PATIENCE,
        ..RedisSettings::new(url.into())
    }
}

/// A wheel there, and a worker of it.
async fn working(url: &str, authority: &Authority, shop: &Shop) -> (Fleet, Process) {
    let fleet = fleet_on(&trusting(url, authority), url, shop).await;
    let worker = fleet.start_with(&[("DUEWHEEL_REDIS__CA_FILE", authority.path().to_str().unwrap())]);
    (fleet, worker)
}

/// Neither the library nor the program takes up with whom another authority vouches for, and each says why, and what to look at.
async fn a_stranger_is_refused(url: &str, fleet: &Fleet) {
    let stranger = Authority::new();
    let refused = Store::new(&trusting(url, &stranger)).unwrap().time_us().await.unwrap_err();
    assert_eq!(refused.store_kind(), Some(StoreKind::Unreachable), "{refused}");
    let path = stranger.path();
    let mut command = fleet.command();
    command.args(["wheel", "list"]).env("DUEWHEEL_REDIS__CA_FILE", &path);
    let ran = crate::rig::cli::Ran::of(&mut command).ends(69);
    for said in [refused.to_string(), ran.stderr] {
        assert!(said.contains("UnknownIssuer") && said.contains("redis.ca_file"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_the_masters_that_they_name_are_reached_over_tls_before_and_after_a_failover() {
    let authority = Authority::new();
    let files = authority.files(&["127.0.0.1"]);
    let tls = files.redis_arguments();
    let server =
        |args: &[&str]| RedisServer::start(RedisOptions { tls: tls.clone(), ..RedisOptions::args(args) });
    let master = server(&[]);
    let replica = server(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    eventually(PATIENCE, async || (replica.info("master_link_status") == "up").then_some(())).await;
    let sentinels = Sentinels::watch_with(&master, "shop", &tls);
    let url = format!("rediss+sentinel://{}/shop", sentinels.hosts());
    let shop = shop(40).await;
    let (fleet, worker) = working(&url, &authority, &shop).await;
    fleet.enqueue(1..=20, |_| soon(0)).await;
    all_closed_once(&shop, 20).await;
    sentinels.fail_over("shop");
    // Sentinels cut the connections of whom they promote, also those of a test.
    let role = || replica.try_command::<String>(&["INFO", "replication"]);
    eventually(PATIENCE, async || role().ok()?.contains("role:master").then_some(())).await;
    fleet.enqueue(21..=40, |_| soon(0)).await;
    all_closed_once(&shop, 40).await;
    a_stranger_is_refused(&url, &fleet).await;
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_of_a_cluster_are_reached_over_tls_by_the_names_that_they_announce() {
    let authority = Authority::new();
    // Not valid for the address that a node would announce by itself.
    let files = authority.files(&["localhost"]);
    let names = ["--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"];
    let cluster =
        RedisCluster::of(&RedisOptions { tls: files.redis_arguments(), ..RedisOptions::args(&names) });
    for node in &cluster.nodes {
        let names = async || {
            let slots: redis::Value = node.command(&["CLUSTER", "SLOTS"]);
            (format!("{slots:?}").matches("localhost").count() >= 2).then_some(())
        };
        eventually(PATIENCE, names).await;
    }
    // Both are there: of several that cannot be had, the client tells what was wrong with the last one only.
    let [one, other] = [cluster.nodes[0].port(), cluster.nodes[1].port()];
    let url = format!("rediss+cluster://localhost:{one},localhost:{other}");
    let shop = shop(40).await;
    let (fleet, worker) = working(&url, &authority, &shop).await;
    fleet.enqueue(1..=40, |_| soon(0)).await;
    all_closed_once(&shop, 40).await;
    for node in &cluster.nodes {
        let keys: u64 = node.command(&["DBSIZE"]);
        assert!(keys > 0, "the wheel lies on both");
    }
    a_stranger_is_refused(&url, &fleet).await;
    worker.drain().await;
}
