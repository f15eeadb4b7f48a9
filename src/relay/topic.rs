//! The topic: one CloudEvent (binary mode) for each event, keyed by the order's id, stored by all replicas in sync.

use std::sync::Arc;

use futures_util::future::try_join_all;
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use secrecy::ExposeSecret as _;

use super::KafkaSettings;
use crate::clock::Moment;
use crate::error::{Error, Result};
use crate::shard::WheelName;
use crate::wheel::ShardEvent;

/// A producer for one topic.
#[derive(Clone)]
pub struct Topic {
    producer: Arc<FutureProducer>,
    name: String,
    wheel: WheelName,
    settings: KafkaSettings,
}

impl Topic {
    /// A producer by these settings; no connection is made yet. Refuses what librdkafka does not know, with its words.
    pub fn new(wheel: &WheelName, settings: &KafkaSettings) -> Result<Self> {
        let mut config = ClientConfig::new();
        for (name, value) in &settings.properties {
            config.set(name, value.expose_secret());
        }
        config
            .set("bootstrap.servers", settings.brokers.join(","))
            // Repeats of the client itself neither double a record nor change the order.
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("message.timeout.ms", settings.timeout.as_millis().to_string());
        let producer = config.create::<FutureProducer>().map_err(|e| failed(&settings.topic, &e))?;
        Ok(Self {
            producer: Arc::new(producer),
            name: settings.topic.clone(),
            wheel: wheel.clone(),
            settings: settings.clone(),
        })
    }

    /// A producer anew, after one could not deliver: what it still had in its queue must not come behind what is told again.
    pub fn renewed(&self) -> Result<Self> {
        self.producer.purge(rdkafka::producer::PurgeConfig::default().queue().inflight());
        Self::new(&self.wheel, &self.settings)
    }

    /// Stores these events, in their order; an error where one of them may not have been stored.
    pub async fn tell(&self, events: &[&ShardEvent]) -> Result<()> {
        // Queued one after the other, awaited together: the order of the queue is the order of a partition.
        let mut stored = Vec::with_capacity(events.len());
        for event in events {
            stored.push(self.queue(event).await?);
        }
        let delivered = stored.into_iter().map(|delivery| async {
            match delivery.await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err((e, _))) => Err(failed(&self.name, &e)),
                Err(_) => Err(Error::Hook(format!("kafka topic {}: the producer was dropped", self.name))),
            }
        });
        try_join_all(delivered).await.map(drop)
    }

    async fn queue(&self, event: &ShardEvent) -> Result<rdkafka::producer::future_producer::DeliveryFuture> {
        let body = serde_json::to_vec(event).unwrap_or_default();
        let headers = headers(&self.wheel, event);
        loop {
            let record = FutureRecord::to(&self.name).key(&event.id).payload(&body).headers(headers.clone());
            match self.producer.send_result(record) {
                Ok(delivery) => return Ok(delivery),
                // The client's own queue is full of what Kafka has not taken yet.
                Err((e, _))
                    if e.rdkafka_error_code() == Some(rdkafka::types::RDKafkaErrorCode::QueueFull) =>
                {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
                Err((e, _)) => return Err(failed(&self.name, &e)),
            }
        }
    }
}

/// CloudEvents 1.0.2, Kafka binding, binary mode.
fn headers(wheel: &WheelName, event: &ShardEvent) -> OwnedHeaders {
    let at = Moment::from_millis(event.at_ms).map_or(String::new(), |moment| moment.to_string());
    let pairs = [
        ("ce_specversion", "1.0".to_owned()),
        ("ce_id", format!("{wheel}.{}/{}/{}/{}", event.shard, event.entry, event.what, event.id)),
        ("ce_source", format!("duewheel/{wheel}")),
        ("ce_type", format!("io.duewheel.order.{}.v1", event.what)),
        ("ce_subject", event.id.clone()),
        ("ce_time", at),
        ("content-type", "application/json".to_owned()),
    ];
    pairs.iter().fold(OwnedHeaders::new_with_capacity(pairs.len()), |headers, (key, value)| {
        headers.insert(Header { key, value: Some(value) })
    })
}

fn failed(topic: &str, e: &rdkafka::error::KafkaError) -> Error {
    Error::Hook(format!("kafka topic {topic}: {e}"))
}
