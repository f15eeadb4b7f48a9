//! The relay's run: takes the job, tells what was left in hand, then what is new, until it is told to stop.

use std::time::Duration;

use futures_util::future::try_join_all;
use tokio_util::sync::CancellationToken;

use super::KafkaSettings;
use super::topic::Topic;
use crate::error::{Error, Result};
use crate::shard::Shard;
use crate::wheel::{EventGroup, Job, Taken, Wheel};

/// The job's name.
const JOB: &str = "relay";
/// How long a dead relay is waited for.
const LEASE: Duration = Duration::from_secs(10);
/// Between two looks at streams that had nothing new.
const LOOK: Duration = Duration::from_millis(200);
/// The longest pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Relays the events of one wheel.
pub struct Relay {
    wheel: Wheel,
    topic: Topic,
    /// One group for each topic, so that a second topic is told everything, too.
    group: String,
    runner: String,
    lease: Duration,
}

impl Relay {
    /// A relay to this topic. Refuses properties that the client does not know.
    pub fn new(wheel: Wheel, settings: &KafkaSettings) -> Result<Self> {
        let topic = Topic::new(wheel.name(), settings)?;
        let group = format!("kafka:{}", settings.topic);
        let runner = format!("{}:{}", std::process::id(), uuid::Uuid::new_v4().simple());
        Ok(Self { wheel, topic, group, runner, lease: LEASE })
    }

    /// The same with another lease of the job.
    pub fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// Relays until `stop`. No failure ends it: what was not told is told when Redis or Kafka is back.
    pub async fn run(&self, stop: &CancellationToken) {
        let (mut topic, mut pause) = (self.topic.clone(), LOOK);
        while !stop.is_cancelled() {
            let wait = match self.turn(&topic, stop).await {
                Ok(wait) => {
                    pause = LOOK;
                    wait
                }
                Err(e) => {
                    tracing::warn!(wheel = %self.wheel.name(), error = %e, retry_in = ?pause, "relay failed; what was not told is told again");
                    let wait = pause;
                    pause = (pause * 2).min(MAX_PAUSE);
                    if let Ok(renewed) = topic.renewed() {
                        topic = renewed;
                    }
                    wait
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Relays while the job is this runner's; answers when to ask for it again.
    async fn turn(&self, topic: &Topic, stop: &CancellationToken) -> Result<Duration> {
        let job = match self.wheel.take_job(JOB, &self.runner, self.lease, None).await? {
            Taken::Mine(job) => job,
            Taken::Held { left, .. } => return Ok(left.min(Duration::from_secs(1))),
            Taken::Fresh { .. } => return Ok(LOOK),
        };
        let outcome = job.hold(self.relay(topic, stop)).await;
        self.let_go(&job, &outcome).await;
        match outcome {
            Err(Error::Overtaken(_)) => Ok(LOOK),
            other => other.map(|()| LOOK),
        }
    }

    async fn let_go(&self, job: &Job, outcome: &Result<()>) {
        if !matches!(outcome, Err(Error::Overtaken(_))) {
            // The lease ends by itself where Redis is away.
            drop(job.release(&[]).await);
        }
    }

    async fn relay(&self, topic: &Topic, stop: &CancellationToken) -> Result<()> {
        // One name for every relay of the group: what a dead one had in hand is the next one's.
        let group = self.wheel.join_group(&self.group, JOB).await?;
        let shards: Vec<Shard> = self.wheel.shards().all().collect();
        try_join_all(shards.iter().map(|&shard| finish(topic, &group, shard))).await?;
        while !stop.is_cancelled() {
            let told = try_join_all(shards.iter().map(|&shard| pass_on(topic, &group, shard))).await?;
            if told.iter().all(|told| *told == 0) {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(LOOK) => {}
                }
            }
        }
        Ok(())
    }
}

/// What a relay before this one was handed and may not have told.
async fn finish(topic: &Topic, group: &EventGroup, shard: Shard) -> Result<()> {
    loop {
        let left = group.unfinished(shard).await?;
        if left.is_empty() {
            return Ok(());
        }
        tell(topic, group, shard, left).await?;
    }
}

/// What is new on a shard; answers how many entries that were.
async fn pass_on(topic: &Topic, group: &EventGroup, shard: Shard) -> Result<usize> {
    let fresh = group.next(shard).await?;
    let count = fresh.len();
    tell(topic, group, shard, fresh).await?;
    Ok(count)
}

async fn tell(
    topic: &Topic,
    group: &EventGroup,
    shard: Shard,
    handed_out: Vec<crate::wheel::HandedOut>,
) -> Result<()> {
    let events: Vec<_> = handed_out.iter().flat_map(|one| &one.events).collect();
    topic.tell(&events).await?;
    group.acknowledge(shard, &handed_out).await
}
