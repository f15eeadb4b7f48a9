//! The relay: tells a Kafka topic what the wheel's events tell, in the order of each order's own, at least once.
//!
//! The events stand on the shards' streams because the scripts that move deadlines write them there; the relay only reads on. It is a
//! consumer group of its own, and acknowledges an entry when Kafka has all of it: a crash in between tells it again, under the same
//! `ce_id`. One worker of the fleet relays at a time, because two would mix up an order's events; another takes over within a lease.

#[cfg(feature = "kafka")]
mod runner;
#[cfg(feature = "kafka")]
mod topic;

use std::time::Duration;

use secrecy::SecretString;

#[cfg(feature = "kafka")]
pub use runner::Relay;

/// Where the events go.
#[derive(Debug, Clone)]
pub struct KafkaSettings {
    /// `host:port` of some brokers; the others are learned from them.
    pub brokers: Vec<String>,
    /// The topic. Records are keyed by the order's id.
    pub topic: String,
    /// How long one record may take to be stored by all replicas in sync, retries included.
    pub timeout: Duration,
    /// Further settings of the client, by librdkafka's names; passwords among them.
    pub properties: Vec<(String, SecretString)>,
}

/// What this program decides by itself: with anything else events would be lost, or an order's told out of order.
pub const RESERVED: [&str; 5] =
    ["bootstrap.servers", "acks", "request.required.acks", "enable.idempotence", "message.timeout.ms"];
