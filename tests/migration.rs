//! A hash slot moves between two nodes of a real Cluster, one key at a time, while every script is tried on both nodes: the right answer
//! or a refusal to be repeated, and no deadline lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use duewheel::error::StoreKind;
use duewheel::shard::{Shard, WheelName};
use duewheel::wheel::{RedisSettings, Store, Wheel, WheelSettings};
use redis::{Connection, RedisResult, Value};

use crate::rig::cluster::RedisCluster;
use crate::rig::redis::RedisServer;
use crate::rig::scene::{Call, Dump, FIXED, Scene, arguments};
use crate::rig::wheel::{id, key, settings};

const S: Shard = Shard(0);

struct Move {
    cluster: RedisCluster,
    connections: [Connection; 2],
    scene: Scene,
    hash_slot: u16,
    /// Which node the shard is on; it changes with every migration that is closed.
    from: usize,
    /// How many calls were tried, and how many of them went on although keys had moved.
    tried: usize,
    served: usize,
    refused: BTreeSet<String>,
}

impl Move {
    async fn set() -> Self {
        let cluster = RedisCluster::start();
        // The list of wheels and the wheel have tags of their own; a wheel all on one node can be formatted through one plain connection.
        let home = cluster.first_owner(cluster.hash_slot("dw1:{wheels}:index"));
        let name = (0..).map(|n| format!("orders-{n}")).find(|name| {
            [format!("{{{name}}}"), format!("{{{name}.0}}")]
                .iter()
                .all(|tag| cluster.first_owner(cluster.hash_slot(tag)) == home)
        });
        let settings = WheelSettings { name: WheelName::new(&name.unwrap()).unwrap(), ..settings(1) };
        let wheel = wheel_at(&cluster.nodes[home], &settings);
        wheel.format().await.unwrap();
        let hash_slot = cluster.hash_slot(&key(&wheel, S, "meta"));
        let scene = Scene::set(&cluster.nodes[home], wheel).await;
        let connect =
            |node: &RedisServer| redis::Client::open(node.unix_url()).unwrap().get_connection().unwrap();
        let connections = [connect(&cluster.nodes[0]), connect(&cluster.nodes[1])];
        Self {
            cluster,
            connections,
            scene,
            hash_slot,
            from: home,
            tried: 0,
            served: 0,
            refused: BTreeSet::new(),
        }
    }

    fn to(&self) -> usize {
        1 - self.from
    }

    /// Opens the migration and moves these keys.
    fn open(&self, moved: &[String]) {
        self.cluster.open_migration(self.hash_slot, self.from, self.to());
        for key in moved {
            self.cluster.move_keys(self.from, self.to(), &[key]);
        }
    }

    fn close(&mut self) {
        self.cluster.close_migration(self.hash_slot, self.from, self.to());
        self.from = self.to();
    }

    /// What both nodes hold together.
    fn dump(&mut self) -> Dump {
        let mut all = Dump::new();
        for (node, connection) in self.connections.iter_mut().enumerate() {
            for name in self.cluster.keys_in(node, self.hash_slot) {
                let bytes = asking(connection, redis::cmd("DUMP").arg(&name)).unwrap();
                let Value::BulkString(bytes) = bytes else { panic!("{name} on node {node}: {bytes:?}") };
                assert!(all.insert(name.clone(), bytes).is_none(), "{name} is on both nodes");
            }
        }
        all
    }

    /// Tries a call on one node; what it changed must be whole once the migration is over.
    async fn attempt(&mut self, call: &Call, node: usize, moved: &[String], at: &str) {
        let before = self.dump();
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(call.script.source()).arg(9).arg(&self.scene.keys()).arg(arguments(call));
        let outcome = asking(&mut self.connections[node], &cmd);
        let after = self.dump();
        self.tried += 1;
        match outcome {
            Err(e) => {
                let code = e.code().unwrap_or_default();
                let elsewhere = e.to_string().contains("non local key");
                assert!(elsewhere || ["TRYAGAIN", "ASK", "MOVED"].contains(&code), "{at}: {e}");
                assert_eq!(after, before, "{at}: refused ({code}) after a write");
                self.refused.insert(if elsewhere { "non local key".to_owned() } else { code.to_owned() });
            }
            Ok(_) if after == before => {}
            Ok(_) => {
                self.served += 1;
                self.close();
                let wheel = wheel_at(&self.cluster.nodes[self.from], self.scene.wheel.settings());
                self.scene.wheel = wheel;
                let found = self.scene.wheel.verify(false).await.unwrap().findings;
                assert!(found.is_empty(), "{at}: {found:?}");
                assert_eq!(self.scene.lost(call).await, BTreeSet::new(), "{at}");
                self.scene.restore(&mut self.connections[self.from]);
                self.open(moved);
            }
        }
    }

    /// Moves the keys one by one in this order, and tries every script on both nodes after each.
    async fn run(&mut self, order: &[String]) {
        for count in 0..=order.len() {
            let moved = &order[..count];
            self.open(moved);
            for call in self.scene.calls.clone() {
                for place in ["source", "target"] {
                    let node = if place == "source" { self.from } else { self.to() };
                    let last = moved.last().map_or("nothing", String::as_str);
                    let at = format!("{} on the {place}, {count} keys moved, {last} last", call.name);
                    self.attempt(&call, node, moved, &at).await;
                }
            }
            self.close();
            self.scene.wheel = wheel_at(&self.cluster.nodes[self.from], self.scene.wheel.settings());
            let found = self.scene.wheel.verify(false).await.unwrap().findings;
            assert!(found.is_empty(), "{count} keys moved: {found:?}");
        }
    }
}

fn wheel_at(node: &RedisServer, settings: &WheelSettings) -> Wheel {
    let store = Store::new(&RedisSettings::new(node.unix_url().as_str().into())).unwrap();
    Wheel::new(Arc::new(store), settings.clone())
}

/// As a client that follows ASK would send it.
fn asking(connection: &mut Connection, cmd: &redis::Cmd) -> RedisResult<Value> {
    redis::cmd("ASKING").query::<()>(connection).unwrap();
    cmd.query(connection)
}

fn keys_of(scene: &Scene) -> (Vec<String>, Vec<String>) {
    let fixed: Vec<String> = FIXED.iter().map(|name| key(&scene.wheel, S, name)).collect();
    let slots = scene.dump.keys().filter(|name| !fixed.contains(name)).cloned().collect();
    (fixed, slots)
}

#[tokio::test]
async fn nothing_is_lost_while_the_fixed_keys_move_first() {
    let mut migration = Move::set().await;
    let (fixed, slots) = keys_of(&migration.scene);
    migration.run(&[fixed, slots].concat()).await;
    assert!(migration.served > 20, "{} of {}", migration.served, migration.tried);
    let expected = ["ASK", "TRYAGAIN"].map(str::to_owned);
    assert!(expected.iter().all(|code| migration.refused.contains(code)), "{:?}", migration.refused);
}

#[tokio::test]
async fn nothing_is_lost_while_the_slots_of_the_wheel_move_first() {
    let mut migration = Move::set().await;
    let (fixed, slots) = keys_of(&migration.scene);
    migration.run(&[slots, fixed].concat()).await;
    assert!(migration.served > 20, "{} of {}", migration.served, migration.tried);
    assert!(migration.refused.contains("non local key"), "{:?}", migration.refused);
}

#[tokio::test]
async fn a_shard_that_moves_answers_moving_and_goes_on_afterwards() {
    let mut migration = Move::set().await;
    let (fixed, _) = keys_of(&migration.scene);
    migration.open(&fixed[..4]);
    let refused = migration.scene.wheel.inspect(&id("near")).await.unwrap_err();
    assert_eq!(refused.store_kind(), Some(StoreKind::Moving), "{refused}");
    let cancelled = migration.scene.wheel.cancel(&[id("near")]).await.remove(0).unwrap_err();
    assert_eq!(cancelled.store_kind(), Some(StoreKind::Moving), "{cancelled}");
    migration.close();
    let elsewhere = migration.scene.wheel.inspect(&id("near")).await.unwrap_err();
    assert_eq!(elsewhere.store_kind(), Some(StoreKind::Moving), "{elsewhere}");
    let there = wheel_at(&migration.cluster.nodes[migration.from], migration.scene.wheel.settings());
    there.cancel(&[id("near")]).await.remove(0).unwrap().unwrap();
}
