//! A wheel for one test: its own name on a private Redis.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duewheel::clock::Moment;
use duewheel::deadline::{Cause, Deadline, DueAt, Id, OnConflict, Payload};
use duewheel::lease::Lease;
use duewheel::shard::{Shard, ShardCount, WheelName};
use duewheel::wheel::answer::{Answer, Enqueued};
use duewheel::wheel::{
    Ask, Claimed, RedisSettings, Settlement, Store, What, Wheel, WheelSettings, WorkerRecord,
};

use super::redis::RedisServer;

/// Settings of a wheel of its own name.
pub fn settings(shards: u32) -> WheelSettings {
    let name = WheelName::new(&super::unique("w").to_lowercase().replace('.', "-")).unwrap();
    WheelSettings { shards: ShardCount::new(shards).unwrap(), ..WheelSettings::new(name) }
}

/// A wheel with these settings on that server, formatted.
pub async fn wheel_of(server: &RedisServer, settings: WheelSettings) -> Wheel {
    wheel_at(server.url(), settings).await
}

/// The same at that address.
pub async fn wheel_at(url: String, settings: WheelSettings) -> Wheel {
    // A test that says nothing about time must not fail because the machine is loaded.
    let redis = RedisSettings { response_timeout: super::PATIENCE, ..RedisSettings::new(url.into()) };
    let store = Store::new(&redis).unwrap();
    let wheel = Wheel::new(Arc::new(store), settings);
    wheel.format().await.unwrap();
    wheel
}

/// A wheel of its own name with that many shards, formatted.
pub async fn wheel(server: &RedisServer, shards: u32) -> Wheel {
    wheel_of(server, settings(shards)).await
}

/// Says that a worker lives, and will be heard of for a day.
pub async fn stays(wheel: &Wheel, record: &WorkerRecord) {
    wheel.announce(record).await.unwrap();
    let tomorrow = wheel.now().await.unwrap().as_millis() + 86_400_000;
    heard(wheel, &record.token, tomorrow).await;
}

/// Has a worker heard of at that moment for the last time.
pub async fn heard(wheel: &Wheel, token: &str, at_ms: u64) {
    let mut cmd = redis::cmd("ZADD");
    cmd.arg(format!("dw1:{{{}}}:seen", wheel.name())).arg(at_ms).arg(token);
    wheel.store().command(&cmd, "set when a worker was heard of").await.unwrap();
}

pub fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

pub fn deadline(text: &str, due_at: DueAt) -> Deadline {
    Deadline {
        id: id(text),
        due_at,
        payload: Payload::default(),
        traceparent: None,
        cause: Cause::Due,
        reminders: None,
    }
}

pub fn after(millis: u64) -> DueAt {
    DueAt::After(Duration::from_millis(millis))
}

pub fn moment(millis: u64) -> Moment {
    Moment::from_millis(millis).unwrap()
}

/// Enqueues one that must be taken.
pub async fn enqueue(wheel: &Wheel, text: &str, due_at: DueAt) -> Answer<Enqueued> {
    wheel.enqueue(&deadline(text, due_at), OnConflict::Keep, false).await.unwrap()
}

pub fn ask(nonce: u64) -> Ask<'static> {
    Ask {
        limit: 100,
        lease: Duration::from_secs(30),
        margin: Duration::from_secs(1),
        worker: "w1",
        nonce,
        suspect: true,
        poison_limit: 5,
        late: Duration::ZERO,
        good_until_us: 0,
        sent: Instant::now(),
    }
}

/// Claims with a nonce of its own.
pub async fn claim(wheel: &Wheel, shard: Shard, nonce: u64) -> Claimed {
    wheel.claim(shard, &ask(nonce)).await.unwrap()
}

pub fn ids(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.id.as_str()).collect()
}

/// Puts an id aside as dead, for that reason.
pub async fn bury(wheel: &Wheel, text: &str, reason: &str) {
    static NONCE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1 << 40);
    let order = id(text);
    enqueue(wheel, text, after(0)).await.unwrap();
    let shard = wheel.shard_of(&order);
    let nonce = NONCE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let leases = claim(wheel, shard, nonce).await.leases;
    let lease = leases.iter().find(|lease| lease.id == order).expect("it was due");
    let bury = Settlement { id: order, fence: lease.fence, what: What::Bury(reason.to_owned()) };
    wheel.settle(shard, &[bury]).await.unwrap();
}

/// Lets the wheel's clock be set by [`Wheel::at_fixed_time`].
pub fn with_test_clock(server: &RedisServer, wheel: &Wheel) {
    for shard in wheel.shards().all() {
        server.command::<u64>(&["HSET", &key(wheel, shard, "meta"), "clock", "test"]);
    }
}

/// A key of a shard.
pub fn key(wheel: &Wheel, shard: Shard, name: &str) -> String {
    format!("dw1:{{{}.{shard}}}:{name}", wheel.name())
}
