//! The floor: the least that Redis must do to keep a deadline and to hand it out, in bare Lua, one sorted set a shard.

use duewheel::deadline::{Id, Payload};
use duewheel::shard::ShardCount;
use futures_util::future::join_all;
use redis::Script;
use redis::aio::MultiplexedConnection;

/// KEYS due, bodies. ARGV score, id, body of each.
const PLACE: &str = "
for i = 1, #ARGV, 3 do
  redis.call('HSET', KEYS[2], ARGV[i + 1], ARGV[i + 2])
  redis.call('ZADD', KEYS[1], ARGV[i], ARGV[i + 1])
end
return #ARGV / 3";

/// KEYS due, leases, bodies. ARGV limit. Returns ids, then bodies.
const CLAIM: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
if #ids == 0 then return {} end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, #ids - 1)
local leases = {}
for i, id in ipairs(ids) do leases[2 * i - 1] = now + 30000; leases[2 * i] = id end
redis.call('ZADD', KEYS[2], unpack(leases))
return {ids, redis.call('HMGET', KEYS[3], unpack(ids))}";

/// KEYS leases, bodies. ARGV ids.
const SETTLE: &str = "
redis.call('ZREM', KEYS[1], unpack(ARGV))
return redis.call('HDEL', KEYS[2], unpack(ARGV))";

/// One shard's part of a batch: (score, id, body) each.
pub type Entries = Vec<(u64, String, Vec<u8>)>;

pub struct Floor {
    connection: MultiplexedConnection,
    shards: ShardCount,
    place: Script,
    claim: Script,
    settle: Script,
}

impl Floor {
    pub async fn new(url: &str) -> Self {
        let client = redis::Client::open(url).unwrap();
        Self {
            connection: client.get_multiplexed_async_connection().await.unwrap(),
            shards: ShardCount::default(),
            place: Script::new(PLACE),
            claim: Script::new(CLAIM),
            settle: Script::new(SETTLE),
        }
    }

    /// A batch, cut by shard as a wheel cuts it; due up to `ahead_ms` from now.
    pub fn entries(&self, ids: Vec<Id>, payload: &Payload, ahead_ms: u64) -> Vec<Entries> {
        let now = duewheel::clock::Moment::host_now().as_millis();
        let mut shards = vec![Entries::new(); usize::from(self.shards.get())];
        for id in ids {
            let shard = usize::from(self.shards.shard_of(id.as_bytes()).0);
            let due = now + fastrand::u64(..=ahead_ms);
            shards[shard].push((due, id.as_str().to_owned(), payload.as_bytes().to_owned()));
        }
        shards
    }

    pub async fn place(&self, batch: &[Entries]) {
        join_all(batch.iter().enumerate().map(|(shard, entries)| async move {
            let mut call = self.place.prepare_invoke();
            call.key(key(shard, "due")).key(key(shard, "bodies"));
            for (score, id, body) in entries {
                call.arg(*score).arg(id).arg(&body[..]);
            }
            let placed: usize = call.invoke_async(&mut self.connection.clone()).await.unwrap();
            assert_eq!(placed, entries.len());
        }))
        .await;
    }

    /// Claims and settles all that is due; answers how many that were.
    pub async fn drain(&self, limit: usize) -> usize {
        let shards = 0..usize::from(self.shards.get());
        let shard = |shard: usize| async move {
            let mut closed = 0;
            let mut connection = self.connection.clone();
            loop {
                let mut call = self.claim.prepare_invoke();
                call.key(key(shard, "due")).key(key(shard, "leases")).key(key(shard, "bodies")).arg(limit);
                let claimed: Vec<Vec<Vec<u8>>> = call.invoke_async(&mut connection).await.unwrap();
                let Some(ids) = claimed.first() else { return closed };
                let mut call = self.settle.prepare_invoke();
                call.key(key(shard, "leases")).key(key(shard, "bodies"));
                for id in ids {
                    call.arg(&id[..]);
                }
                let settled: usize = call.invoke_async(&mut connection).await.unwrap();
                closed += settled;
            }
        };
        join_all(shards.map(shard)).await.into_iter().sum()
    }
}

fn key(shard: usize, name: &str) -> String {
    format!("floor:{{{shard}}}:{name}")
}
