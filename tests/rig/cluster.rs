//! A Redis Cluster of two nodes, and a hash slot that moves between them one key at a time.

use super::redis::{RedisOptions, RedisServer};
use super::{PATIENCE, eventually_blocking};

/// Two primaries: `nodes[0]` holds hash slots 0 to 8191, `nodes[1]` the rest.
pub struct RedisCluster {
    pub nodes: [RedisServer; 2],
    ids: [String; 2],
}

impl RedisCluster {
    /// Starts the nodes and waits until both say that the cluster is whole.
    pub fn start() -> Self {
        Self::of(&RedisOptions::default())
    }

    /// The same of nodes that are started so.
    pub fn of(options: &RedisOptions) -> Self {
        let node = || RedisServer::start(RedisOptions { cluster: true, ..options.clone() });
        let nodes = [node(), node()];
        for (node, (first, last, epoch)) in nodes.iter().zip([("0", "8191", "1"), ("8192", "16383", "2")]) {
            node.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", first, last]);
            // Two nodes of one epoch settle it between them at some later moment, and a hash slot that moves just then may fall back.
            node.command::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", epoch]);
        }
        let (port, bus_port) = (nodes[1].port().to_string(), nodes[1].bus_port().to_string());
        nodes[0].command::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]);
        for node in &nodes {
            eventually_blocking(PATIENCE, || {
                let info: String = node.command(&["CLUSTER", "INFO"]);
                (info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2")).then_some(())
            });
        }
        let ids = [nodes[0].command(&["CLUSTER", "MYID"]), nodes[1].command(&["CLUSTER", "MYID"])];
        Self { nodes, ids }
    }

    /// The hash slot of a key.
    pub fn hash_slot(&self, key: &str) -> u16 {
        self.nodes[0].command(&["CLUSTER", "KEYSLOT", key])
    }

    /// Which of the two nodes owned a hash slot at the start.
    pub fn first_owner(&self, hash_slot: u16) -> usize {
        usize::from(hash_slot > 8191)
    }

    /// Opens the migration of a hash slot: from now on its keys may be on either node.
    pub fn open_migration(&self, hash_slot: u16, from: usize, to: usize) {
        let slot = hash_slot.to_string();
        self.nodes[to].command::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &self.ids[from]]);
        self.nodes[from].command::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &self.ids[to]]);
    }

    /// Moves chosen keys of an open migration. A key that does not exist is no error, as with Redis's own tool.
    pub fn move_keys(&self, from: usize, to: usize, keys: &[&str]) {
        let port = self.nodes[to].port().to_string();
        let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        migrate.extend(keys);
        self.nodes[from].command::<String>(&migrate);
    }

    /// The keys of a hash slot that are on one node.
    pub fn keys_in(&self, node: usize, hash_slot: u16) -> Vec<String> {
        self.nodes[node].command(&["CLUSTER", "GETKEYSINSLOT", &hash_slot.to_string(), "100000"])
    }

    /// Moves what is left and gives the hash slot to its new owner.
    pub fn close_migration(&self, hash_slot: u16, from: usize, to: usize) {
        let left = self.keys_in(from, hash_slot);
        for keys in left.chunks(100) {
            self.move_keys(from, to, &keys.iter().map(String::as_str).collect::<Vec<_>>());
        }
        let slot = hash_slot.to_string();
        // A message of before the move may still be under way, and a node that has not heard of the other's new epoch would believe it
        // and take the slot back. So the word is repeated until both nodes agree on owner and epochs.
        eventually_blocking(PATIENCE, || {
            for node in [to, from] {
                self.nodes[node]
                    .try_command::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &self.ids[to]])
                    .ok();
            }
            let (one, other) = (self.view(0, hash_slot), self.view(1, hash_slot));
            (one == other && one.0.as_ref() == Some(&self.ids[to])).then_some(())
        });
    }

    /// Who owns a hash slot, and the epochs of both nodes, as one of them sees it.
    fn view(&self, node: usize, hash_slot: u16) -> (Option<String>, [Option<String>; 2]) {
        let nodes: String = self.nodes[node].command(&["CLUSTER", "NODES"]);
        let holds = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse().is_ok_and(|first: u16| first <= hash_slot)
                && last.parse().is_ok_and(|last: u16| hash_slot <= last)
        };
        let word = |line: &str, at: usize| line.split(' ').nth(at).map(str::to_owned);
        let owner = nodes.lines().find(|line| line.split(' ').skip(8).any(holds)).and_then(|l| word(l, 0));
        let epoch = |id: &String| nodes.lines().find(|l| l.starts_with(id.as_str())).and_then(|l| word(l, 6));
        (owner, [epoch(&self.ids[0]), epoch(&self.ids[1])])
    }
}
