//! Faults that users of other systems have reported in public, each as a promise of the wheel. The numbers are those of the project's case
//! log.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duewheel::clock::Moment;
use duewheel::deadline::{Deadline, DueAt, Id, Note, OnConflict, Outcome, Payload, State};
use duewheel::lease::Lease;
use duewheel::shard::Shard;
use duewheel::wheel::answer::{Cancelled, EnqueuedHow, Refusal, Row, Settled};
use duewheel::wheel::{Ask, Settlement, What, Wheel, WheelSettings};

use crate::rig::is_long;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{
    after, ask, claim, deadline, enqueue, id, ids, key, moment, settings, wheel, wheel_of, with_test_clock,
};

const S: Shard = Shard(0);
const NOW: u64 = 1_800_000_000_000;
const DAY: u64 = 86_400_000;

fn settle_as(lease: &Lease, what: What) -> Settlement {
    Settlement { id: lease.id.clone(), fence: lease.fence, what }
}

fn end(lease: &Lease) -> Settlement {
    settle_as(lease, What::End { outcome: Outcome::Closed, lease: Arc::new(lease.clone()) })
}

fn at(ms: u64) -> DueAt {
    DueAt::Moment(moment(ms))
}

async fn with_clock() -> Wheel {
    let wheel = wheel(RedisServer::shared(), 1).await;
    with_test_clock(RedisServer::shared(), &wheel);
    wheel
}

async fn sound(wheel: &Wheel) {
    let found = wheel.verify(false).await.unwrap().findings;
    assert!(found.is_empty(), "{found:?}");
}

/// DW-007, DW-009.
#[tokio::test]
async fn deadlines_beyond_32_bits_of_milliseconds_keep_their_time() {
    let wheel = with_clock().await;
    let now = wheel.at_fixed_time(NOW * 1000);
    // 2^31 and 2^32 ms are 24.9 and 49.7 days; the moments are 2^31 and 2^32 seconds, in 2038 and 2106.
    let dues = [NOW + 25 * DAY, NOW + 50 * DAY, 2_147_483_648_000, 4_294_967_296_000, NOW + 36_500 * DAY];
    for (n, due) in dues.iter().enumerate() {
        now.enqueue(&deadline(&format!("o-{n}"), at(*due)), OnConflict::Keep, false).await.unwrap().unwrap();
    }
    for (n, due) in dues.iter().enumerate() {
        let entry = now.inspect(&id(&format!("o-{n}"))).await.unwrap().entry.unwrap();
        assert_eq!((entry.due_at, entry.next_at), (moment(*due), moment(*due)));
        let early = wheel.at_fixed_time((due - 1) * 1000 + 999);
        let early = early.claim(S, &ask(2 * n as u64 + 1)).await.unwrap();
        assert!(!ids(&early.leases).contains(&format!("o-{n}").as_str()), "a millisecond early");
        let claimed = wheel.at_fixed_time(due * 1000).claim(S, &ask(2 * n as u64 + 2)).await.unwrap();
        assert_eq!(ids(&claimed.leases), [format!("o-{n}")]);
        wheel.at_fixed_time(due * 1000).settle(S, &[end(&claimed.leases[0])]).await.unwrap();
    }
    sound(&now).await;
}

/// DW-016.
#[tokio::test]
async fn nothing_is_leased_before_it_is_due() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let due = wheel.now().await.unwrap().as_millis() + 600;
    let batch: Vec<_> = (0..200).map(|n| deadline(&format!("o-{n}"), at(due))).collect();
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    let (mut nonce, mut seen) = (0, BTreeSet::new());
    while seen.len() < 200 {
        nonce += 1;
        let claimed =
            wheel.claim(S, &Ask { limit: 30, lease: Duration::from_secs(2), ..ask(nonce) }).await.unwrap();
        assert!(claimed.leases.is_empty() || claimed.now_us >= due * 1000, "leased at {}", claimed.now_us);
        let leased = wheel.shard_stats(S).await.unwrap().leased;
        assert_eq!(leased, seen.len() as u64 + claimed.leases.len() as u64);
        seen.extend(claimed.leases.into_iter().map(|lease| lease.id.as_str().to_owned()));
    }
}

/// DW-029.
#[tokio::test]
async fn no_part_of_a_millisecond_makes_a_claim_early() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let mut random = fastrand::Rng::with_seed(29);
    let windows = (0..2000).map(|_| Duration::from_micros(random.u64(0..1_500_000)));
    let batch: Vec<_> =
        windows.enumerate().map(|(n, window)| deadline(&format!("o-{n}"), DueAt::After(window))).collect();
    let asked_at = wheel.now().await.unwrap().as_millis() * 1000;
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    let (mut nonce, mut seen) = (0, 0);
    let began = Instant::now();
    while seen < 2000 {
        assert!(began.elapsed() < Duration::from_secs(20), "{seen} of 2000 claimed");
        nonce += 1;
        let claimed = wheel.claim(S, &ask(nonce)).await.unwrap();
        for lease in &claimed.leases {
            assert!(claimed.now_us >= lease.due_at.as_millis() * 1000, "{} is early", lease.id);
            let DueAt::After(window) = batch[lease.id.as_str()[2..].parse::<usize>().unwrap()].due_at else {
                unreachable!()
            };
            let window = u64::try_from(window.as_micros()).unwrap();
            assert!(claimed.now_us >= asked_at + window, "the window of {} was cut short", lease.id);
        }
        seen += claimed.leases.len();
    }
}

/// DW-033.
#[tokio::test]
async fn a_rescheduled_deadline_has_one_time_and_the_old_one_no_effect() {
    let wheel = with_clock().await;
    let now = wheel.at_fixed_time(NOW * 1000);
    for (name, due) in [("later", 5_000), ("earlier", 3_600_000), ("often", 5_000)] {
        now.enqueue(&deadline(name, at(NOW + due)), OnConflict::Keep, false).await.unwrap().unwrap();
    }
    now.reschedule(&id("later"), at(NOW + 3_600_000), None).await.unwrap().unwrap();
    now.reschedule(&id("earlier"), at(NOW + 3_000), None).await.unwrap().unwrap();
    for n in 0..1000_u64 {
        now.reschedule(&id("often"), at(NOW + 10_000 + n * 977), None).await.unwrap().unwrap();
    }
    let claimed_at = async |ms: u64, nonce: u64| {
        let then = wheel.at_fixed_time((NOW + ms) * 1000);
        let leases =
            then.claim(S, &Ask { lease: Duration::from_secs(86_000), ..ask(nonce) }).await.unwrap().leases;
        ids(&leases).join(" ")
    };
    assert_eq!(claimed_at(2_999, 1).await, "");
    assert_eq!(claimed_at(3_000, 2).await, "earlier");
    assert_eq!(claimed_at(10_000 + 999 * 977 - 1, 3).await, "");
    assert_eq!(claimed_at(10_000 + 999 * 977, 4).await, "often");
    assert_eq!(claimed_at(3_599_999, 5).await, "");
    assert_eq!(claimed_at(3_600_000, 6).await, "later");
    sound(&now).await;
}

/// DW-043.
#[tokio::test]
async fn an_enqueue_of_an_id_that_is_being_closed_is_refused_and_never_lost_in_silence() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    enqueue(&wheel, "x", after(0)).await.unwrap();
    let lease = claim(&wheel, S, 1).await.leases.remove(0);
    for on_conflict in [OnConflict::Keep, OnConflict::Replace, OnConflict::Later, OnConflict::Earlier] {
        let again = wheel.enqueue(&deadline("x", after(20_000)), on_conflict, true).await.unwrap();
        assert_eq!(again, Err(Refusal::Leased));
    }
    assert_eq!(wheel.settle(S, &[end(&lease)]).await.unwrap(), [Settled::Done]);
    let forced = wheel.enqueue(&deadline("x", after(0)), OnConflict::Keep, true).await.unwrap().unwrap();
    assert_eq!(forced.how, EnqueuedHow::Resurrected);
    // The first run's answer, repeated, does not touch the new life.
    assert_eq!(wheel.settle(S, &[end(&lease)]).await.unwrap(), [Settled::Done]);
    let second = claim(&wheel, S, 2).await.leases.remove(0);
    assert!(second.generation > lease.generation && second.fence > lease.fence);
    sound(&wheel).await;
}

/// DW-041.
#[tokio::test]
async fn records_lost_by_hand_are_set_aside_and_hurt_no_other() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    let batch: Vec<_> = (0..100).map(|n| deadline(&format!("o-{n:02}"), after(0))).collect();
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    server.command::<u64>(&["HDEL", &key(&wheel, S, "bodies"), "o-03", "o-50", "o-99"]);
    server.command::<u64>(&["HSET", &key(&wheel, S, "bodies"), "o-04", "\u{1}short"]);
    server.command::<u64>(&["HSET", &key(&wheel, S, "live"), "o-05", "many none ?"]);
    let leases = claim(&wheel, S, 1).await.leases;
    assert_eq!(leases.len(), 96);
    assert!(leases.iter().all(|lease| lease.attempt == 1));
    let settlements: Vec<_> = leases.iter().map(end).collect();
    assert_eq!(wheel.settle(S, &settlements).await.unwrap(), [Settled::Done; 96]);
    let dead = wheel.list(State::Dead, Moment::EPOCH, Moment::MAX, None, 100).await.unwrap().rows;
    let mut reasons: Vec<_> = dead
        .iter()
        .map(|row| match row {
            Row::Live { entry, reason, .. } => {
                format!("{}: {}", entry.id, reason.as_deref().unwrap_or_default())
            }
            Row::Foreign { id, reason, .. } => format!("{id}: {reason}"),
            Row::Ended { .. } => unreachable!(),
        })
        .collect();
    reasons.sort();
    let expected =
        ["o-03: body missing", "o-04: unreadable header", "o-50: body missing", "o-99: body missing"];
    assert_eq!(reasons, expected);
    sound(&wheel).await;
}

/// DW-045: the set of leases deleted by hand, with ten hooks under way and their workers gone.
#[tokio::test]
async fn a_lost_set_of_leases_is_found_and_mended() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    let batch: Vec<_> = (0..10).map(|n| deadline(&format!("o-{n}"), after(0))).collect();
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    assert_eq!(claim(&wheel, S, 1).await.leases.len(), 10);
    server.command::<u64>(&["DEL", &key(&wheel, S, "leases")]);
    let found = wheel.verify(true).await.unwrap().findings;
    assert!(
        found.len() == 10 && found.iter().all(|f| f.kind == "body_without_place" && f.healed),
        "{found:?}"
    );
    let again = claim(&wheel, S, 2).await.leases;
    assert_eq!(again.len(), 10);
    sound(&wheel).await;
}

/// DW-011.
#[tokio::test]
async fn a_moment_of_the_past_is_due_now_however_long_ago_it_was() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let now = wheel.now().await.unwrap().as_millis();
    let dues = [0, 1, now - 3650 * DAY, now - 3_600_000, now - 1];
    for due in dues {
        enqueue(&wheel, &format!("o-{due}"), at(due)).await.unwrap();
    }
    let leases = claim(&wheel, S, 1).await.leases;
    let in_order: Vec<_> = dues.iter().map(|due| format!("o-{due}")).collect();
    assert_eq!(ids(&leases), in_order, "oldest first");
    sound(&wheel).await;
}

/// `unpack` fails from 8,000 on; 30,000 with `DUEWHEEL_TEST_LONG`.
fn too_many_to_unpack() -> usize {
    if is_long() { 30_000 } else { 8_200 }
}

/// No script of this server's has ended with an error, but that Redis did not know it yet.
fn no_script_failed(server: &RedisServer) {
    let stats: String = server.command(&["INFO", "everything"]);
    let number = |line: &str, field: &str| -> u64 {
        let line = stats.lines().find_map(|text| text.strip_prefix(line)).unwrap_or_default();
        line.split(field).nth(1).map_or(0, |rest| rest.split(',').next().unwrap().trim().parse().unwrap())
    };
    let failed = ["cmdstat_evalsha:", "cmdstat_eval:"].map(|command| number(command, "failed_calls="));
    assert_eq!(failed, [number("errorstat_NOSCRIPT:", "count="), 0], "{stats}");
}

/// DW-066.
#[tokio::test]
async fn more_than_a_script_can_unpack_of_one_millisecond_are_claimed_lost_reaped_and_cancelled() {
    let all = too_many_to_unpack();
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    with_test_clock(&server, &wheel);
    let now = wheel.at_fixed_time(NOW * 1000);
    let batch: Vec<_> = (0..all).map(|n| deadline(&format!("o-{n:05}"), at(NOW))).collect();
    let answers = now.enqueue_batch(&batch, OnConflict::Keep, false).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().is_ok()));
    let (mut seen, mut nonce) = (BTreeSet::new(), 0);
    while seen.len() < all {
        // More than a script takes; the batch is cut.
        let limit = [7_998, 8_000, 20_000, 30_000][nonce as usize % 4];
        nonce += 1;
        let claimed = now.claim(S, &Ask { limit, ..ask(nonce) }).await.unwrap();
        assert_eq!(claimed.leases.len(), 500.min(all - seen.len()));
        seen.extend(claimed.leases.into_iter().map(|lease| lease.id.as_str().to_owned()));
    }
    let stopped = Note::new("test", "only reaping").unwrap();
    let then = wheel.at_fixed_time((NOW + 31_000) * 1000);
    then.pause(&stopped).await.unwrap();
    let mut reaped = 0;
    while reaped < all as u64 {
        nonce += 1;
        let claimed = then.claim(S, &Ask { limit: 30_000, ..ask(nonce) }).await.unwrap();
        assert!(claimed.reaped > 0);
        reaped += claimed.reaped;
    }
    sound(&then).await;
    let orders: Vec<Id> = batch.into_iter().map(|one| one.id).collect();
    let answers = then.cancel(&orders).await;
    assert!(answers.iter().all(|answer| *answer.as_ref().unwrap() == Ok(Cancelled::Cancelled)));
    let stats = then.stats().await.unwrap();
    assert_eq!((stats.scheduled, stats.leased, stats.ended), (0, 0, all as u64));
    // And forgotten, in pages.
    let later = wheel.at_fixed_time((NOW + 2 * 3_600_000) * 1000);
    let (mut cursor, mut removed) = (Some(0), 0);
    while let Some(page) = cursor {
        let (next, gone) = later.prune(S, page).await.unwrap();
        assert!(gone <= 1500, "{gone} in one call");
        (cursor, removed) = (next, removed + gone);
    }
    assert_eq!(removed, all as u64);
    no_script_failed(&server);
}

/// DW-066: the dead.
#[tokio::test]
async fn more_dead_than_a_script_can_unpack_are_listed_revived_and_dropped() {
    let all = too_many_to_unpack();
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    let batch: Vec<_> = (0..all).map(|n| deadline(&format!("o-{n:05}"), after(0))).collect();
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    for nonce in 1..=all.div_ceil(500) as u64 {
        let leases = wheel.claim(S, &Ask { limit: 500, ..ask(nonce) }).await.unwrap().leases;
        let buried: Vec<_> =
            leases.iter().map(|lease| settle_as(lease, What::Bury("no such order".to_owned()))).collect();
        assert_eq!(wheel.settle(S, &buried).await.unwrap(), vec![Settled::Done; buried.len()]);
    }
    assert_eq!(wheel.stats().await.unwrap().dead, all as u64);
    let (mut cursor, mut listed) = (None, 0);
    loop {
        let page = wheel.list(State::Dead, Moment::EPOCH, Moment::MAX, cursor.as_ref(), 500).await.unwrap();
        listed += page.rows.len();
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(listed, all);
    let orders: Vec<Id> = batch.into_iter().map(|one| one.id).collect();
    for answer in wheel.revive_many(&orders[..all / 2]).await {
        answer.unwrap().unwrap();
    }
    let dropped = wheel.drop_dead(&orders[all / 2..]).await;
    assert!(dropped.iter().all(|answer| *answer.as_ref().unwrap() == Ok(Cancelled::Cancelled)));
    let stats = wheel.stats().await.unwrap();
    assert_eq!((stats.due, stats.dead), (all as u64 / 2, 0));
    sound(&wheel).await;
    no_script_failed(&server);
}

/// DW-068.
#[tokio::test]
async fn a_payload_is_the_same_bytes_after_failures_and_a_revival() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let nasty = r#"{"order_id":9007199254740993,"n":1e400,"z":-0,"items":[],"a":1,"a":2}"#;
    let largest = format!("\"{}\"", "x".repeat(Payload::MAX_BYTES - 2));
    let payloads = [nasty, largest.as_str(), "", "{}", "[]", r#"{"items":[]}"#, "\"\"", "null", " {} "];
    for (n, text) in payloads.iter().enumerate() {
        let payload = Payload::from_json((*text).to_owned()).unwrap();
        let one = Deadline { payload, ..deadline(&n.to_string(), after(0)) };
        wheel.enqueue(&one, OnConflict::Keep, false).await.unwrap().unwrap();
    }
    for nonce in 1..=3 {
        let leases = claim(&wheel, S, nonce).await.leases;
        let again = |lease: &Lease| match nonce {
            3 => settle_as(lease, What::Bury("failed".to_owned())),
            _ => settle_as(lease, What::Retry(Duration::ZERO, String::new())),
        };
        let settlements: Vec<_> = leases.iter().map(again).collect();
        assert_eq!(wheel.settle(S, &settlements).await.unwrap(), [Settled::Done; 9]);
    }
    for n in 0..payloads.len() {
        wheel.revive(&id(&n.to_string())).await.unwrap().unwrap();
    }
    let leases = claim(&wheel, S, 4).await.leases;
    assert_eq!(leases.len(), payloads.len());
    for lease in leases {
        let expected = payloads[lease.id.as_str().parse::<usize>().unwrap()];
        assert_eq!(lease.payload.as_bytes(), expected.as_bytes());
        assert_eq!(lease.attempt, 1);
    }
}

/// DW-070.
#[tokio::test]
async fn every_score_is_a_whole_number_below_2_to_the_53_and_neighbours_keep_their_order() {
    let server = RedisServer::start(RedisOptions::default());
    let no_limit = WheelSettings { max_ahead: Duration::from_secs(300_000_000_000), ..settings(1) };
    let wheel = wheel_of(&server, no_limit).await;
    let dues = [1_772_337_600_000, 1_772_337_600_001, 253_402_300_799_998, 253_402_300_799_999];
    for due in dues {
        enqueue(&wheel, &format!("o-{due}"), at(due)).await.unwrap();
    }
    let listed = wheel.list(State::Scheduled, Moment::EPOCH, Moment::MAX, None, 10).await.unwrap().rows;
    let times: Vec<u64> = listed
        .iter()
        .map(|row| match row {
            Row::Live { at, .. } => at.as_millis(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(times, dues);
    let leases = claim(&wheel, S, 1).await.leases;
    wheel.settle(S, &[settle_as(&leases[0], What::Bury("x".to_owned()))]).await.unwrap();
    let renewed = [(leases[1].id.clone(), leases[1].fence)];
    wheel.renew(S, &renewed, Duration::from_micros(1_234_567)).await.unwrap();
    for key in server.command::<Vec<String>>(&["KEYS", "*"]) {
        if server.command::<String>(&["TYPE", &key]) == "zset" {
            let pairs: Vec<String> = server.command(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]);
            for pair in pairs.chunks(2) {
                let score: u64 =
                    pair[1].parse().unwrap_or_else(|_| panic!("{key}: {} of {}", pair[1], pair[0]));
                assert!(score < 1 << 53, "{key}: {score}");
            }
        }
    }
}

/// DW-073.
#[tokio::test]
async fn ids_with_colons_digits_braces_and_quotes_stay_distinct_through_their_whole_life() {
    let names = [
        "a:b",
        "a:b:c",
        "a:b:c:d",
        ":",
        "::",
        "123",
        "00123",
        "0",
        "-1",
        "1e3",
        "http://x/y?z#w",
        "{order}",
        "a{b}c",
        "{}",
        "}{",
        "{",
        "x' OR '1'='1",
        "'; DROP TABLE orders;--",
        "a b",
        " a",
        "a ",
        "订单-2026-001",
        "commande-é",
        "🧾1",
        "nil",
        "false",
        "c",
        "meta",
    ];
    let wheel = wheel(RedisServer::shared(), 4).await;
    let mut seen = BTreeSet::new();
    for name in names {
        assert_eq!(enqueue(&wheel, name, after(0)).await.unwrap().how, EnqueuedHow::New, "{name:?}");
        assert_eq!(wheel.inspect(&id(name)).await.unwrap().entry.unwrap().id.as_str(), name);
    }
    for shard in wheel.shards().all() {
        let leases = claim(&wheel, shard, 1).await.leases;
        seen.extend(leases.iter().map(|lease| lease.id.as_str().to_owned()));
        let settlements: Vec<_> = leases.iter().map(end).collect();
        wheel.settle(shard, &settlements).await.unwrap();
    }
    assert_eq!(seen, names.iter().map(|name| (*name).to_owned()).collect());
    for name in names {
        assert_eq!(wheel.inspect(&id(name)).await.unwrap().state, State::Ended, "{name:?}");
        let forced = wheel.enqueue(&deadline(name, after(60_000)), OnConflict::Keep, true).await.unwrap();
        assert_eq!(forced.unwrap().how, EnqueuedHow::Resurrected, "{name:?}");
    }
    let answers = wheel.cancel(&names.map(id)).await;
    assert!(answers.iter().all(|answer| *answer.as_ref().unwrap() == Ok(Cancelled::Cancelled)));
    sound(&wheel).await;
}

/// DW-075: here the cancellation is remembered on purpose, so that a late create event does not bring the order back; who means it, forces
/// it, and nothing else is left behind.
#[tokio::test]
async fn a_cancelled_id_can_be_forced_and_leaves_no_lock() {
    let server = RedisServer::start(RedisOptions::default());
    let forgets =
        WheelSettings { cancelled_keep: Duration::ZERO, events_keep: Duration::ZERO, ..settings(1) };
    for (settings, remembered) in [(settings(1), true), (forgets, false)] {
        let wheel = wheel_of(&server, settings).await;
        enqueue(&wheel, "x", after(3_600_000)).await.unwrap();
        let before = server.command::<u64>(&["DBSIZE"]);
        wheel.cancel(&[id("x")]).await.remove(0).unwrap().unwrap();
        let again = wheel.enqueue(&deadline("x", after(0)), OnConflict::Keep, false).await.unwrap();
        if remembered {
            assert!(matches!(again, Err(Refusal::Ended(ended)) if ended.outcome == Outcome::Cancelled));
            wheel.enqueue(&deadline("x", after(0)), OnConflict::Keep, true).await.unwrap().unwrap();
        } else {
            again.unwrap();
        }
        let leases = claim(&wheel, S, 1).await.leases;
        assert_eq!(ids(&leases), ["x"]);
        wheel.settle(S, &[end(&leases[0])]).await.unwrap();
        assert!(claim(&wheel, S, 2).await.leases.is_empty(), "once");
        // Its slot and body are gone; what is remembered of it is one field of `ended`, and the event.
        assert!(server.command::<u64>(&["DBSIZE"]) <= before);
    }
}

/// DW-077.
#[tokio::test]
async fn members_that_are_no_ids_are_buried_and_listed_and_the_others_go_on() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    let batch: Vec<_> = (0..100).map(|n| deadline(&format!("o-{n}"), after(0))).collect();
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    let slots: Vec<String> = server.command(&["ZRANGE", &key(&wheel, S, "slots"), "0", "-1"]);
    let mut connection = redis::Client::open(server.unix_url()).unwrap().get_connection().unwrap();
    for (member, with_body) in [(&b"\xff\xfe"[..], false), (b"a\0b", false), (b"\xff\xff", true)] {
        let slot = key(&wheel, S, &format!("slot:{}", slots[0]));
        redis::cmd("ZADD").arg(slot).arg(0).arg(member).query::<u64>(&mut connection).unwrap();
        if with_body {
            let body = server.command::<String>(&["TYPE", &key(&wheel, S, "bodies")]);
            assert_eq!(body, "hash");
            let good: Vec<u8> =
                redis::cmd("HGET").arg(key(&wheel, S, "bodies")).arg("o-1").query(&mut connection).unwrap();
            let bodies = key(&wheel, S, "bodies");
            redis::cmd("HSET").arg(bodies).arg(member).arg(good).query::<u64>(&mut connection).unwrap();
        }
    }
    let mut seen = 0;
    for nonce in 1..=3 {
        let leases = wheel.claim(S, &Ask { limit: 60, ..ask(nonce) }).await.unwrap().leases;
        seen += leases.len();
        let settlements: Vec<_> = leases.iter().map(end).collect();
        wheel.settle(S, &settlements).await.unwrap();
    }
    assert_eq!(seen, 100);
    let dead = wheel.list(State::Dead, Moment::EPOCH, Moment::MAX, None, 10).await.unwrap().rows;
    let mut shown: Vec<_> = dead
        .into_iter()
        .map(|row| match row {
            Row::Foreign { id, .. } => id,
            other => panic!("{other:?}"),
        })
        .collect();
    shown.sort();
    assert_eq!(shown, ["\\xff\\xfe", "\\xff\\xff", "a\\x00b"]);
    wheel.verify(true).await.unwrap();
    sound(&wheel).await;
}

/// DW-079.
#[tokio::test]
async fn what_has_ended_and_is_forgotten_leaves_no_memory_behind() {
    let server = RedisServer::start(RedisOptions::default());
    let forgets = WheelSettings {
        ended_keep: Duration::ZERO,
        cancelled_keep: Duration::ZERO,
        events_keep: Duration::ZERO,
        ..settings(1)
    };
    let wheel = wheel_of(&server, forgets).await;
    let payload = Payload::from_json(format!("\"{}\"", "x".repeat(1000))).unwrap();
    let round = async |nonce: u64| {
        let one = |n: usize| Deadline { payload: payload.clone(), ..deadline(&format!("o-{n}"), after(0)) };
        let batch: Vec<_> = (0..5000).map(one).collect();
        wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
        for part in 0..10 {
            let asked = Ask { limit: 500, ..ask(nonce * 100 + part) };
            let leases = wheel.claim(S, &asked).await.unwrap().leases;
            let settlements: Vec<_> = leases.iter().map(end).collect();
            assert_eq!(wheel.settle(S, &settlements).await.unwrap().len(), 500);
        }
        let memory: u64 = server.info("used_memory").parse().unwrap();
        (server.command::<u64>(&["DBSIZE"]), memory)
    };
    let (keys, memory) = round(1).await;
    assert_eq!(keys, 3, "the wheel's meta, the rebuild that an empty wheel asks for, and the list of wheels");
    for nonce in 2..5 {
        let (keys_now, memory_now) = round(nonce).await;
        assert_eq!(keys_now, keys);
        assert!(memory_now < memory + 5_000_000, "{memory_now} bytes, {memory} before");
    }
}

/// DW-146: followed as a worker would, from one next look to the next.
#[tokio::test]
async fn around_every_edge_of_a_slot_and_of_a_level_the_claim_is_neither_early_nor_late() {
    let wheel = with_clock().await;
    let (tick, turn) = (1000, 4096 * 1000);
    // The start is in the middle of a slot, and for the second time on the edge of one.
    for (run, start) in [(1, NOW + 437), (2, NOW + 40_960_000_000)] {
        let mut aheads: BTreeSet<u64> =
            (1..=120).flat_map(|k| [k * tick - 1, k * tick, k * tick + 1]).collect();
        aheads.extend([1, 2, 10].iter().flat_map(|n| [n * turn - 1, n * turn, n * turn + 1]));
        aheads.extend([64, 65, 128].iter().flat_map(|n| [n * turn - 1, n * turn, n * turn + 1]));
        let dues: BTreeSet<u64> = aheads.iter().map(|ahead| start + ahead).collect();
        let batch: Vec<_> = dues.iter().map(|due| deadline(&format!("{run}-{due}"), at(*due))).collect();
        wheel.at_fixed_time(start * 1000).enqueue_batch(&batch, OnConflict::Keep, false).await;
        let (mut now, mut looks, mut seen) = (start, 0, 0);
        while seen < dues.len() {
            looks += 1;
            assert!(looks < 3 * dues.len() as u64, "{seen} of {} after {looks} looks", dues.len());
            let then = wheel.at_fixed_time(now * 1000);
            let claimed = then.claim(S, &ask(run * 10_000 + looks)).await.unwrap();
            for lease in &claimed.leases {
                assert_eq!(lease.due_at.as_millis(), now, "claimed at its own millisecond");
            }
            seen += claimed.leases.len();
            let settlements: Vec<_> = claimed.leases.iter().map(end).collect();
            if !settlements.is_empty() {
                then.settle(S, &settlements).await.unwrap();
            }
            now = claimed.next_look.map_or(now, Moment::as_millis).max(now);
        }
        sound(&wheel.at_fixed_time(now * 1000)).await;
    }
}

/// DW-148.
#[tokio::test]
async fn a_cancel_in_the_slot_that_is_being_drained_wins_or_says_that_it_lost() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let due = wheel.now().await.unwrap();
    let batch: Vec<_> = (0..1000).map(|n| deadline(&format!("o-{n:03}"), DueAt::Moment(due))).collect();
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    let mut called = BTreeSet::new();
    let worker = async |limit: usize, nonce: u64, called: &mut BTreeSet<String>| {
        let leases = wheel.claim(S, &Ask { limit, ..ask(nonce) }).await.unwrap().leases;
        called.extend(leases.iter().map(|lease| lease.id.as_str().to_owned()));
        leases
    };
    let first = worker(100, 1, &mut called).await;
    let (mut cancelled, mut lost_race) = (BTreeSet::new(), 0);
    for (n, one) in batch.iter().enumerate().rev() {
        if n % 3 == 0 {
            worker(1, 10 + n as u64, &mut called).await;
        }
        match wheel.cancel(std::slice::from_ref(&one.id)).await.remove(0).unwrap().unwrap() {
            Cancelled::Cancelled => drop(cancelled.insert(one.id.as_str().to_owned())),
            Cancelled::Leased => lost_race += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(worker(500, 5000, &mut called).await.is_empty());
    assert!(called.is_disjoint(&cancelled), "a cancelled order was called");
    assert_eq!(called.len() + cancelled.len(), 1000);
    assert_eq!(lost_race, called.len());
    assert_eq!(wheel.settle(S, &[end(&first[0])]).await.unwrap(), [Settled::Done]);
    sound(&wheel).await;
}
