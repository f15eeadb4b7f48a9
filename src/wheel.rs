//! The wheel: deadlines in Redis, and the verbs that move them. The only part that names redis and deadpool-redis.
//!
//! A wheel is cut into shards; all keys of a shard share one hash tag, and every verb is one Lua script on one shard. Redis's own
//! clock decides what is due. Lua moves, Rust decides: retry policy, verdicts and payloads are none of Lua's business.

mod address;
pub mod answer;
mod audit;
mod body;
mod breaker;
mod bulk;
mod carry;
mod claim;
mod connection;
mod dead;
mod events;
mod fault;
mod find;
mod floor;
mod group;
mod held;
mod history;
mod hour;
mod incident;
mod inspect;
mod inspection;
mod job;
mod keys;
mod measures;
mod movement;
mod narrow;
mod place;
mod presence;
mod rate;
mod reasons;
mod reply;
mod request;
mod reshard;
pub mod script;
mod selftest;
mod server;
mod settings;
pub mod shape;
mod shard_page;
mod store;
mod verify;
mod why;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio_util::task::TaskTracker;

pub use audit::{AuditEntry, AuditFilter, AuditOutcome, AuditPage};
pub use body::encode_new;
pub use breaker::{Band, Held, Reported, Trip, Verdicts};
pub use bulk::{BULK, Bulk, BulkAct, BulkAt, BulkFilter, BulkState, TakenBulk, Task};
pub use carry::Carried;
pub use claim::{Ask, Claimed, Reminded, Renewed, Settlement, ShardState, What};
pub use dead::{Dead, DeadSurvey};
pub use events::{EVENT_KINDS, EventPage, EventReader, ShardEvent};
pub use find::Found;
pub use floor::Floor;
pub use group::{EventGroup, HandedOut};
pub use history::{Event, Survey};
pub use hour::{Hour, MINUTES as HOUR_MINUTES, Minute};
pub use incident::{Acknowledged, Acknowledgement, Incident, IncidentKind, Paid, Payment};
pub use job::{Job, JobRecord, Taken};
pub use narrow::{Look, Narrow, Narrowed};
pub use presence::{ClaimInHand, Holder, LOST, Presence, WorkerRecord, held_back, pauses};
pub use rate::{Bucket, Grant, Rate, Wish};
pub use reasons::Failure;
pub use request::Begun;
pub use server::ServerFacts;
pub use settings::{RedisSettings, WheelSettings};
pub use shard_page::Place;
pub use store::Store;

use crate::clock::Moment;
use crate::error::{Error, Result, StoreKind};
use crate::shard::{LAYOUT, Shard, ShardCount, WheelName};
use script::Script;

/// The most ids one script call takes; Lua's `unpack` ends near 8,000 arguments, and a call should stay near a millisecond.
pub const MAX_BATCH: usize = 500;

/// From so many bytes of payloads on, another call takes the rest of a batch.
const MAX_BYTES: usize = 1 << 20;

/// The job that fills a wheel from the orders table; formatting a shard asks for it.
pub const REBUILD: &str = "rebuild";

/// Every job that a wheel may have.
pub const JOBS: [&str; 4] = ["feed", "sweep", REBUILD, "reconcile"];

/// The structural scan, which mends what it finds.
pub const SCAN: &str = "scan";

/// The dry run of a sweep, which only runs where somebody asks for it.
pub const PREVIEW: &str = "sweep_preview";

/// One wheel in Redis. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Wheel {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<Store>,
    settings: WheelSettings,
    /// The fixed keys of every shard, made once.
    keys: Vec<[String; 9]>,
    /// The seven arguments in front of every script's own.
    front: [String; 7],
    /// Jobs that are being taken, and those dropped on the way that are being let go.
    releases: TaskTracker,
}

impl Wheel {
    /// The wheel of these settings; nothing is sent yet.
    pub fn new(store: Arc<Store>, settings: WheelSettings) -> Self {
        let keys = settings.shards.all().map(|shard| keys::of_shard(settings.name.as_str(), shard)).collect();
        let front = front(&settings, "");
        Self::of_parts(store, settings, keys, front)
    }

    /// The same wheel with a fixed clock, in microseconds: honoured only by shards whose meta says `clock=test`.
    #[doc(hidden)]
    pub fn at_fixed_time(&self, now_us: u64) -> Self {
        let inner = &self.inner;
        let front = front(&inner.settings, &now_us.to_string());
        Self::of_parts(inner.store.clone(), inner.settings.clone(), inner.keys.clone(), front)
    }

    fn of_parts(
        store: Arc<Store>,
        settings: WheelSettings,
        keys: Vec<[String; 9]>,
        front: [String; 7],
    ) -> Self {
        Self { inner: Arc::new(Inner { store, settings, keys, front, releases: TaskTracker::new() }) }
    }

    /// Its name.
    pub fn name(&self) -> &WheelName {
        &self.inner.settings.name
    }

    /// Its settings.
    pub fn settings(&self) -> &WheelSettings {
        &self.inner.settings
    }

    /// How many shards it has.
    pub fn shards(&self) -> ShardCount {
        self.inner.settings.shards
    }

    /// The connections it uses.
    pub fn store(&self) -> &Arc<Store> {
        &self.inner.store
    }

    /// The shard of an id.
    pub fn shard_of(&self, id: &crate::deadline::Id) -> Shard {
        self.shards().shard_of(id.as_bytes())
    }

    /// Gives every shard its meta record, where it has none. Refuses another layout, shard count or slot width. A shard that is new is
    /// held from its first moment by whatever holds the wheel.
    ///
    /// Returns how many shards were new.
    pub async fn format(&self) -> Result<u64> {
        let held = self.held_for_new_shards().await?;
        let mut new = Vec::new();
        for shard in self.shards().all() {
            if self.format_shard(shard, &held).await? {
                new.push(shard);
            }
        }
        let fresh = new.len() as u64;
        if held != Held::default() && fresh > 0 && self.held_by().await? == Held::default() {
            // A person resumed it meanwhile. Who paused it meanwhile has told the new shards as well.
            for shard in new {
                self.run(&script::PAUSE, shard, |cmd| {
                    cmd.arg("resume").arg("");
                })
                .await?;
            }
        }
        if fresh > 0 {
            let mut cmd = redis::cmd("HSET");
            cmd.arg(keys::wheels()).arg(self.name().as_str()).arg(format!(
                "{LAYOUT} {} {}",
                self.shards().get(),
                self.settings().slot_width.as_millis()
            ));
            self.inner.store.command(&cmd, &format!("format on wheel {}", self.name())).await?;
            // A wheel that is new, or was emptied: what the table holds is put in by whoever can.
            self.ask_for_job(REBUILD).await?;
        }
        Ok(fresh)
    }

    /// Redis's clock.
    pub async fn now(&self) -> Result<Moment> {
        let value = self.inner.store.command(&redis::cmd("TIME"), "read Redis's clock").await?;
        let mut reply = reply::Reply::array("TIME", value)?;
        let (seconds, micros) = (reply.u64()?, reply.u64()?);
        Ok(Moment::EPOCH.plus(Duration::from_secs(seconds) + Duration::from_micros(micros)))
    }

    /// Whether it was new.
    async fn format_shard(&self, shard: Shard, held: &Held) -> Result<bool> {
        let args = |cmd: &mut Cmd| {
            for (_, text) in held.fields() {
                cmd.arg(text);
            }
        };
        let value = self.run(&script::FORMAT, shard, args).await?;
        Ok(reply::number(&value) == Some(1))
    }

    /// Runs a verb on a shard. What Redis only asks to repeat is repeated for about a second; a shard without meta is formatted first
    /// where the verb puts something in or takes something out.
    async fn call(&self, script: &Script, shard: Shard, args: impl Fn(&mut Cmd)) -> Result<Value> {
        let mut pause = Duration::from_millis(20);
        let mut formatted = false;
        for _ in 0..6 {
            match self.run(script, shard, &args).await {
                Err(Error::Store { kind: StoreKind::Moving, .. }) => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(Error::Store { kind: StoreKind::Unformatted, .. }) if script.writes && !formatted => {
                    formatted = true;
                    // A new wheel, or Redis was emptied: the second is a loss that the sweep must repair, so it is said aloud.
                    tracing::warn!(wheel = %self.name(), %shard, "shard has no meta record; formatting it");
                    self.format().await?;
                }
                other => return other,
            }
        }
        self.run(script, shard, &args).await
    }

    /// Runs a verb on a shard, once.
    async fn run(&self, script: &Script, shard: Shard, args: impl FnOnce(&mut Cmd)) -> Result<Value> {
        let inner = &self.inner;
        let attempted = format!("{} on wheel {}, shard {shard}", script.verb, self.name());
        let keys = &inner.keys[usize::from(shard.0) % inner.keys.len()];
        inner
            .store
            .run(
                script,
                keys,
                |cmd| {
                    cmd.arg(&inner.front);
                    args(cmd);
                },
                &attempted,
            )
            .await
    }
}

fn front(settings: &WheelSettings, fixed_now: &str) -> [String; 7] {
    // Redis takes at most 9e15; that is "for ever".
    let millis = |duration: Duration| duration.as_millis().min(9_000_000_000_000_000).to_string();
    [
        LAYOUT.to_string(),
        settings.shards.get().to_string(),
        settings.slot_width.as_millis().to_string(),
        fixed_now.to_owned(),
        millis(settings.ended_keep),
        millis(settings.cancelled_keep),
        millis(settings.events_keep),
    ]
}
