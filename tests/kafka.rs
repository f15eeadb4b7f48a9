//! The relay: a Kafka topic is told what the events tell, each order's in order, at least once, whatever dies or is away meanwhile.
//! Kafka is the mock cluster of the client's own library, on sockets of this machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use duewheel::deadline::OnConflict;
use duewheel::relay::{KafkaSettings, Relay};
use duewheel::wheel::Wheel;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::{Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use crate::rig::eventually;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{after, deadline, id, wheel};

const TOPIC: &str = "order-events";
const PARTITIONS: i32 = 4;

/// A record as a consumer sees it.
#[derive(Debug, Clone)]
struct Told {
    key: String,
    headers: BTreeMap<String, String>,
    body: serde_json::Value,
}

struct Kafka {
    // Dropped before its brokers: it says good-bye to them.
    consumer: BaseConsumer,
    cluster: MockCluster<'static, DefaultProducerContext>,
}

impl Kafka {
    fn start() -> Self {
        let cluster = MockCluster::new(3).expect("a mock cluster");
        cluster.create_topic(TOPIC, PARTITIONS, 3).expect("a topic");
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", cluster.bootstrap_servers())
            .set("group.id", "test")
            .set("reconnect.backoff.max.ms", "500")
            .create()
            .expect("a consumer");
        // By hand: a group would take the mock cluster a session's time to form and to leave.
        let mut partitions = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            partitions.add_partition_offset(TOPIC, partition, Offset::Beginning).expect("an offset");
        }
        consumer.assign(&partitions).expect("an assignment");
        Self { consumer, cluster }
    }

    fn settings(&self) -> KafkaSettings {
        KafkaSettings {
            brokers: vec![self.cluster.bootstrap_servers()],
            topic: TOPIC.to_owned(),
            timeout: Duration::from_secs(2),
            properties: vec![("reconnect.backoff.max.ms".to_owned(), "500".into())],
        }
    }

    /// Reads until `enough` says so.
    fn read(&self, enough: impl Fn(&[Told]) -> bool) -> Vec<Told> {
        let (began, mut told) = (Instant::now(), Vec::new());
        while !enough(&told) {
            assert!(began.elapsed() < Duration::from_secs(40), "only {} records", told.len());
            let Some(Ok(record)) = self.consumer.poll(Duration::from_millis(100)) else { continue };
            let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap_or_default().to_vec()).unwrap();
            let headers = record.headers().expect("headers");
            told.push(Told {
                key: text(record.key()),
                headers: headers.iter().map(|h| (h.key.to_owned(), text(h.value))).collect(),
                body: serde_json::from_slice(record.payload().unwrap()).unwrap(),
            });
        }
        told
    }
}

fn distinct(told: &[Told]) -> usize {
    told.iter().map(|one| &one.headers["ce_id"]).collect::<BTreeSet<_>>().len()
}

async fn end(wheel: &Wheel, ids: std::ops::Range<u32>) {
    let batch: Vec<_> = ids.clone().map(|n| deadline(&n.to_string(), after(3_600_000))).collect();
    for answer in wheel.enqueue_batch(&batch, OnConflict::Keep, true).await {
        answer.unwrap().unwrap();
    }
    let ids: Vec<_> = ids.map(|n| id(&n.to_string())).collect();
    for answer in wheel.cancel(&ids).await {
        answer.unwrap().unwrap();
    }
}

struct Running {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn start(wheel: &Wheel, settings: &KafkaSettings) -> Running {
    let relay = Relay::new(wheel.clone(), settings).unwrap().with_lease(Duration::from_millis(900));
    let stop = CancellationToken::new();
    let given = stop.clone();
    Running { stop, task: tokio::spawn(async move { relay.run(&given).await }) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_event_is_told_once_keyed_by_its_order_and_in_its_order() {
    let (wheel, kafka) = (wheel(RedisServer::shared(), 4).await, Kafka::start());
    end(&wheel, 0..300).await;
    let (one, other) = (start(&wheel, &kafka.settings()), start(&wheel, &kafka.settings()));
    // A second life of the first hundred: their events come behind those of the first.
    end(&wheel, 0..100).await;
    // Each life ends by a cancellation; the second one began over a remembered end.
    let told = kafka.read(|told| told.len() >= 500);
    for one in [one, other] {
        one.stop.cancel();
        one.task.await.unwrap();
    }
    assert_eq!((told.len(), distinct(&told)), (500, 500), "two relays share the work of one");
    let mut of: HashMap<&str, Vec<&str>> = HashMap::new();
    for one in &told {
        assert_eq!(one.headers["ce_subject"], one.key);
        assert_eq!(
            one.headers["ce_type"],
            format!("io.duewheel.order.{}.v1", one.body["what"].as_str().unwrap())
        );
        assert_eq!(one.headers["ce_specversion"], "1.0");
        assert_eq!(one.body["id"], one.key.as_str());
        of.entry(&one.key).or_default().push(one.body["what"].as_str().unwrap());
    }
    for n in 0..300 {
        let expected: &[&str] =
            if n < 100 { &["cancelled", "resurrected", "cancelled"] } else { &["cancelled"] };
        assert_eq!(of[n.to_string().as_str()], expected, "order {n}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_relay_had_in_hand_when_it_died_is_told_by_the_next_one() {
    let (wheel, kafka) = (wheel(RedisServer::shared(), 4).await, Kafka::start());
    for round in 0..5 {
        end(&wheel, 100 * round..100 * (round + 1)).await;
        let relay = start(&wheel, &kafka.settings());
        tokio::time::sleep(Duration::from_millis(fastrand::u64(5..120))).await;
        relay.task.abort();
    }
    let last = start(&wheel, &kafka.settings());
    let told = kafka.read(|told| distinct(told) >= 500);
    println!("{} records for 500 events", told.len());
    last.stop.cancel();
    last.task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_that_are_away_are_waited_for_and_nothing_is_left_out() {
    let (wheel, kafka) = (wheel(RedisServer::shared(), 2).await, Kafka::start());
    let relay = start(&wheel, &kafka.settings());
    end(&wheel, 0..50).await;
    kafka.read(|told| told.len() >= 50);
    for broker in 1..=3 {
        kafka.cluster.broker_down(broker).unwrap();
    }
    end(&wheel, 50..100).await;
    // Longer than a record may take, so that the relay gives up on one and tells it again.
    tokio::time::sleep(Duration::from_secs(4)).await;
    for broker in 1..=3 {
        kafka.cluster.broker_up(broker).unwrap();
    }
    kafka.read(|told| distinct(told) >= 50);
    relay.stop.cancel();
    relay.task.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_goes_on_when_redis_was_emptied() {
    let server = RedisServer::start(RedisOptions::default());
    let (wheel, kafka) = (wheel(&server, 2).await, Kafka::start());
    let relay = start(&wheel, &kafka.settings());
    end(&wheel, 0..20).await;
    kafka.read(|told| told.len() >= 20);
    server.command::<()>(&["FLUSHALL"]);
    eventually(crate::rig::PATIENCE, async || wheel.format().await.ok()).await;
    end(&wheel, 20..40).await;
    let told = kafka.read(|told| distinct(told) >= 20);
    assert!(told.iter().all(|one| one.key.parse::<u32>().unwrap() >= 20), "{told:?}");
    relay.stop.cancel();
    relay.task.await.unwrap();
}

#[test]
fn a_property_that_the_client_does_not_know_is_refused_at_start() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let wheel = runtime.block_on(wheel(RedisServer::shared(), 1));
    let settings = KafkaSettings {
        brokers: vec!["127.0.0.1:1".to_owned()],
        topic: TOPIC.to_owned(),
        timeout: Duration::from_secs(5),
        properties: vec![("no.such.property".to_owned(), "1".into())],
    };
    let refused = runtime.block_on(async { Relay::new(wheel, &settings).err().unwrap() });
    assert!(refused.to_string().contains("no.such.property"), "{refused}");
}
