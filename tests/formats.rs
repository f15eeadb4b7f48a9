//! What is stored, byte for byte. These bytes are in running systems: a change here is a new format with a number of its own.

use std::time::Duration;

use duewheel::deadline::{Cause, Deadline, DueAt, Note, OnConflict, Outcome, Payload};
use duewheel::shard::Shard;
use duewheel::slot::SlotWidth;
use duewheel::wheel::{Ask, Settlement, What, Wheel};

use crate::rig::redis::RedisServer;
use crate::rig::wheel::{ask, deadline, id, key, moment, settings, wheel, wheel_of, with_test_clock};

const S: Shard = Shard(0);
const NOW: u64 = 1_800_000_000_000;

async fn at_now() -> Wheel {
    let wheel = wheel(RedisServer::shared(), 1).await;
    with_test_clock(RedisServer::shared(), &wheel);
    wheel.at_fixed_time(NOW * 1000)
}

fn stored(wheel: &Wheel, name: &str, id: &str) -> Vec<u8> {
    RedisServer::shared().command(&["HGET", &key(wheel, S, name), id])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_body_is_a_header_of_33_bytes_and_named_messagepack() {
    let wheel = at_now().await;
    let one = Deadline {
        payload: Payload::from_json("{\"n\":1}").unwrap(),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        cause: Cause::Feed,
        ..deadline("x", DueAt::Moment(moment(NOW + 5_000_000)))
    };
    wheel.enqueue(&one, OnConflict::Keep, false).await.unwrap().unwrap();
    wheel.hold(&id("x"), Duration::from_secs(6000)).await.unwrap().unwrap();
    let bytes = stored(&wheel, "bodies", "x");
    let header = concat!(
        "01",               // format
        "04",               // cause: feed
        "01",               // level: 6000 s ahead
        "00",               // stage
        "0006651728988000", // generation: 1,800,000,000,000,000 us
        "000001a318a89b40", // due_at
        "000001a318b7dd80", // next_at, held
        "01",               // holds
        "000f4240",         // held ms: 1,000,000
    );
    assert_eq!(hex(&bytes[..33]), header);
    // {"p": bin 7, "t": str 55}
    let body =
        [b"\x82\xa1p\xc4\x07{\"n\":1}\xa1t\xd97".as_slice(), one.traceparent.as_ref().unwrap().as_bytes()];
    assert_eq!(bytes[33..], body.concat());
}

#[tokio::test]
async fn an_end_leaves_37_bytes() {
    let wheel = at_now().await;
    wheel
        .enqueue(&deadline("x", DueAt::Moment(moment(NOW - 1))), OnConflict::Keep, false)
        .await
        .unwrap()
        .unwrap();
    let lease = wheel.claim(S, &ask(1)).await.unwrap().leases.remove(0);
    let end = What::End { outcome: Outcome::Skipped, lease: std::sync::Arc::new(lease.clone()) };
    wheel.settle(S, &[Settlement { id: id("x"), fence: lease.fence, what: end }]).await.unwrap();
    let record = concat!(
        "01",               // format
        "000001a3185c5000", // ended_at
        "02",               // outcome: skipped
        "00",               // cause: due
        "0001",             // attempt
        "0006651728988000", // generation
        "000001a3185c4fff", // due_at
        "000665172a624380", // fence: now + 30 s
    );
    assert_eq!(hex(&stored(&wheel, "ended", "x")), record);
}

#[tokio::test]
async fn a_live_record_is_text_with_a_note_behind_a_line_break() {
    let wheel = at_now().await;
    for x in ["x", "y"] {
        wheel
            .enqueue(&deadline(x, DueAt::Moment(moment(NOW))), OnConflict::Keep, false)
            .await
            .unwrap()
            .unwrap();
    }
    wheel.close(&id("x"), &Note::new("anna", "fraud, \"sure\"").unwrap()).await.unwrap().unwrap();
    let leases = wheel.claim(S, &Ask { lease: Duration::from_millis(1), ..ask(1) }).await.unwrap().leases;
    let y = leases.iter().find(|lease| lease.id.as_str() == "y").unwrap();
    let retry = Settlement { id: id("y"), fence: y.fence, what: What::Retry(Duration::ZERO, String::new()) };
    wheel.settle(S, &[retry]).await.unwrap();
    assert_eq!(stored(&wheel, "live", "y"), b"1 0 ");
    wheel.cancel(&[id("x")]).await;
    assert_eq!(
        stored(&wheel, "live", "x"),
        b"0 0 c\n{\"actor\":\"anna\",\"reason\":\"fraud, \\\"sure\\\"\"}"
    );
}

#[tokio::test]
async fn keys_are_readable_and_carry_the_layout() {
    let server = RedisServer::shared();
    let wheel = at_now().await;
    let due = DueAt::Moment(moment(NOW + 5_000));
    wheel.enqueue(&deadline("x", due), OnConflict::Keep, false).await.unwrap().unwrap();
    let mut keys: Vec<String> = server.command(&["KEYS", &key(&wheel, S, "*")]);
    keys.sort();
    let expected = ["bodies", "meta", "slot:0:1800000005", "slots"].map(|name| key(&wheel, S, name));
    assert_eq!(keys, expected);
    assert!(keys[0].starts_with(&format!("dw1:{{{}.0}}:", wheel.name())));
    let meta: Vec<String> = server.command(&[
        "HMGET",
        &key(&wheel, S, "meta"),
        "layout",
        "shards",
        "width",
        "generation",
        "enqueued",
    ]);
    assert_eq!(meta, ["1", "1", "1000", "1800000000000000", "1"]);
    let score: String = server.command(&["ZSCORE", &key(&wheel, S, "slot:0:1800000005"), "x"]);
    assert_eq!(score, (NOW + 5_000).to_string());
}

#[tokio::test]
async fn rust_and_lua_name_the_same_slot_for_every_moment() {
    let server = RedisServer::shared();
    for width_ms in [100, 250, 1000, 7_000, 60_000] {
        let width = SlotWidth::new(Duration::from_millis(width_ms)).unwrap();
        let settings = duewheel::wheel::WheelSettings { slot_width: width, ..settings(1) };
        let wheel = wheel_of(server, settings).await;
        with_test_clock(server, &wheel);
        let random = fastrand::Rng::with_seed(width_ms);
        moments_agree(server, &wheel, width, random).await;
    }
}

async fn moments_agree(server: &RedisServer, wheel: &Wheel, width: SlotWidth, mut random: fastrand::Rng) {
    let mut dues = Vec::new();
    for level in 0..4 {
        let edge = 4096 * width.level_width(level);
        // Around the reach of each level, and anywhere below it; a hundred years is the end of what a wheel takes.
        dues.extend([edge - 1, edge, edge + 1].map(|ahead| NOW + ahead));
        dues.extend((0..80).map(|_| NOW + random.u64(0..edge)));
    }
    dues.extend((0..40).map(|_| NOW - random.u64(0..NOW / 2)));
    dues.retain(|due| *due < NOW + 98 * 365 * 86_400_000);
    let name = |n: usize| format!("o-{n}");
    let batch: Vec<_> =
        dues.iter().enumerate().map(|(n, due)| deadline(&name(n), DueAt::Moment(moment(*due)))).collect();
    let now = wheel.at_fixed_time(NOW * 1000);
    for answer in now.enqueue_batch(&batch, OnConflict::Keep, false).await {
        answer.unwrap().unwrap();
    }
    for (n, due) in dues.iter().enumerate() {
        let slot = width.slot_of(moment(*due), moment(NOW));
        let slot_key = key(wheel, S, &format!("slot:{}:{}", slot.level, slot.number));
        let score: Option<String> = server.command(&["ZSCORE", &slot_key, &name(n)]);
        assert_eq!(score, Some(due.to_string()), "{slot:?} of {due}, width {width:?}");
        assert_eq!(now.inspect(&id(&name(n))).await.unwrap().entry.unwrap().slot, slot);
        let start: String =
            server.command(&["ZSCORE", &key(wheel, S, "slots"), &format!("{}:{}", slot.level, slot.number)]);
        assert_eq!(start, (slot.number * width.level_width(slot.level)).to_string());
    }
    let found = now.verify(false).await.unwrap().findings;
    assert!(found.is_empty(), "{found:?}");
}
