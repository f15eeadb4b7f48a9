//! The raw floor for `duewheel bench`: the least that Redis must do to keep a deadline and to hand it out, in bare Lua, one sorted set
//! a shard, without fences, generations, conflicts, slots and memory of ends. On keys of its own, which are removed afterwards.

use std::time::Duration;

use futures_util::future::try_join_all;

use super::{Store, reply};
use crate::error::Result;
use crate::shard::{Shard, ShardCount};

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

/// The same movement of data as a wheel's, and nothing else.
pub struct Floor<'a> {
    store: &'a Store,
    shards: ShardCount,
    tag: String,
}

impl<'a> Floor<'a> {
    /// A floor on keys that bear `token`, which must be nobody else's.
    pub fn new(store: &'a Store, shards: ShardCount, token: &str) -> Self {
        Self { store, shards, tag: format!("~floor-{token}") }
    }

    fn key(&self, shard: Shard, name: &str) -> String {
        format!("dw{}:{{{}.{shard}}}:{name}", crate::shard::LAYOUT, self.tag)
    }

    async fn run(&self, source: &'static str, keys: &[String], args: &[Vec<u8>]) -> Result<redis::Value> {
        // EVAL, because the text is short beside a batch and the program's user may not load scripts.
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(source).arg(keys.len()).arg(keys).arg(args);
        self.store.command(&cmd, "run the floor").await
    }

    /// Places deadlines of (score, id, body), cut by shard as a wheel cuts them.
    pub async fn place(&self, batch: &[(u64, String, Vec<u8>)]) -> Result<()> {
        let mut shards = vec![Vec::new(); usize::from(self.shards.get())];
        for (score, id, body) in batch {
            let args = &mut shards[usize::from(self.shards.shard_of(id.as_bytes()).0)];
            args.extend([score.to_string().into_bytes(), id.clone().into_bytes(), body.clone()]);
        }
        let calls = (0..).map(Shard).zip(&shards).filter(|(_, args)| !args.is_empty());
        let place = |(shard, args): (Shard, &Vec<Vec<u8>>)| {
            let keys = [self.key(shard, "due"), self.key(shard, "bodies")];
            let args = args.clone();
            async move { self.run(PLACE, &keys, &args).await }
        };
        try_join_all(calls.map(place)).await.map(|_| ())
    }

    /// Claims and settles all that is due; answers how many that were.
    pub async fn drain(&self, limit: usize) -> Result<u64> {
        let shard = |shard| async move {
            let mut closed = 0;
            loop {
                let ids = self.claim(shard, limit).await?;
                if ids.is_empty() {
                    return Ok::<u64, crate::error::Error>(closed);
                }
                self.settle(shard, &ids).await?;
                closed += ids.len() as u64;
            }
        };
        Ok(try_join_all(self.shards.all().map(shard)).await?.into_iter().sum())
    }

    /// Claims what is due in a shard, `limit` at most; answers the ids.
    pub async fn claim(&self, shard: Shard, limit: usize) -> Result<Vec<Vec<u8>>> {
        let keys = ["due", "leases", "bodies"].map(|name| self.key(shard, name));
        let claimed = self.run(CLAIM, &keys, &[limit.to_string().into_bytes()]).await?;
        let mut claimed = reply::Reply::array("floor", claimed)?;
        if claimed.len() == 0 {
            return Ok(Vec::new());
        }
        let mut ids = reply::Reply::array("floor", claimed.value()?)?;
        (0..ids.len()).map(|_| ids.bytes()).collect()
    }

    /// Settles what was claimed.
    pub async fn settle(&self, shard: Shard, ids: &[Vec<u8>]) -> Result<()> {
        let keys = ["leases", "bodies"].map(|name| self.key(shard, name));
        self.run(SETTLE, &keys, ids).await.map(|_| ())
    }

    /// Removes what is left.
    pub async fn remove(&self) -> Result<()> {
        for shard in self.shards.all() {
            let mut cmd = redis::cmd("UNLINK");
            cmd.arg(&["due", "leases", "bodies"].map(|name| self.key(shard, name))[..]);
            self.store.command(&cmd, "remove the floor's keys").await?;
        }
        Ok(())
    }
}

impl Store {
    /// What Redis has spent and holds: processor time of its main thread so far, and bytes of memory used.
    pub async fn spent(&self) -> Result<(Duration, u64)> {
        let facts = self.facts().await?;
        let number = |name: &str| facts.field(name).and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
        // Older servers and some forks only know the whole process.
        let of = |main: &str, all: &str| if facts.field(main).is_some() { number(main) } else { number(all) };
        let seconds =
            of("used_cpu_user_main_thread", "used_cpu_user") + of("used_cpu_sys_main_thread", "used_cpu_sys");
        let bytes = facts.field("used_memory").and_then(|n| n.parse().ok()).unwrap_or(0);
        Ok((Duration::from_secs_f64(seconds.max(0.0)), bytes))
    }
}
