//! Each id is in exactly one place, whatever a batch holds: found by thinking against the scripts, kept so that they stay mended.

use std::sync::Arc;
use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::deadline::{Cause, DueAt, Note, OnConflict, Outcome, State};
use duewheel::shard::Shard;
use duewheel::wheel::answer::{EnqueuedHow, Refusal, Row, Settled};
use duewheel::wheel::{Ask, Carried, Settlement, What, Wheel};

use crate::rig::redis::RedisServer;
use crate::rig::wheel::{
    after, ask, claim, deadline, enqueue, id, ids, key, moment, settings, wheel, wheel_of, with_test_clock,
};

const S: Shard = Shard(0);
const T0: u64 = 1_800_000_000_000;

async fn sound(wheel: &Wheel) {
    let found = wheel.verify(false).await.unwrap().findings;
    assert!(found.is_empty(), "{found:?}");
}

#[tokio::test]
async fn a_batch_that_is_cut_among_equal_moments_of_two_levels_leases_what_it_removes() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    with_test_clock(RedisServer::shared(), &wheel);
    let due = T0 + 5_000_000;
    let far: Vec<_> = (0..40).map(|n| deadline(&format!("far-{n:02}"), DueAt::Moment(moment(due)))).collect();
    wheel.at_fixed_time(T0 * 1000).enqueue_batch(&far, OnConflict::Keep, false).await;
    let near: Vec<_> =
        (0..5).map(|n| deadline(&format!("near-{n}"), DueAt::Moment(moment(due - 1)))).collect();
    wheel.at_fixed_time((due - 100_000) * 1000).enqueue_batch(&near, OnConflict::Keep, false).await;
    let then = wheel.at_fixed_time((due + 1) * 1000);
    let mut seen = Vec::new();
    for nonce in 1..=5 {
        let claimed = then.claim(S, &Ask { limit: 10, ..ask(nonce) }).await.unwrap();
        seen.extend(claimed.leases.into_iter().map(|l| l.id.as_str().to_owned()));
        sound(&then).await;
    }
    assert!(seen[..5].iter().all(|id| id.starts_with("near")), "{seen:?}");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 45);
}

#[tokio::test]
async fn a_replacement_within_its_slot_starts_a_new_life() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    enqueue(&wheel, "x", after(0)).await.unwrap();
    wheel.close(&id("x"), &Note::new("anna", "by hand").unwrap()).await.unwrap().unwrap();
    let lease = claim(&wheel, S, 1).await.leases.remove(0);
    let retry =
        Settlement { id: id("x"), fence: lease.fence, what: What::Retry(Duration::ZERO, String::new()) };
    wheel.settle(S, &[retry]).await.unwrap();
    let next_at = wheel.inspect(&id("x")).await.unwrap().entry.unwrap().next_at;
    let again = deadline("x", DueAt::Moment(next_at));
    let answer = wheel.enqueue(&again, OnConflict::Replace, false).await.unwrap().unwrap();
    assert_eq!(answer.how, EnqueuedHow::Replaced);
    let entry = wheel.inspect(&id("x")).await.unwrap().entry.unwrap();
    assert_eq!((entry.attempts, entry.note, entry.cause), (0, None, Cause::Due));
}

#[tokio::test]
async fn a_settle_that_names_an_id_twice_takes_the_first_word() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    enqueue(&wheel, "x", after(0)).await.unwrap();
    let lease = claim(&wheel, S, 1).await.leases.remove(0);
    let end = What::End { outcome: Outcome::Closed, lease: Arc::new(lease.clone()) };
    let of = |what| Settlement { id: id("x"), fence: lease.fence, what };
    let settled = wheel.settle(S, &[of(end), of(What::Retry(Duration::ZERO, String::new()))]).await.unwrap();
    assert_eq!(settled, [Settled::Done, Settled::Stale]);
    assert_eq!(wheel.inspect(&id("x")).await.unwrap().state, State::Ended);
    sound(&wheel).await;
}

#[tokio::test]
async fn an_import_that_names_an_id_twice_places_it_once() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    enqueue(&wheel, "x", after(3_600_000)).await.unwrap();
    let entry = wheel.inspect(&id("x")).await.unwrap().entry.unwrap();
    let other = crate::rig::wheel::wheel(RedisServer::shared(), 1).await;
    let carried = |at: Moment| Carried::Live {
        state: State::Scheduled,
        at,
        entry: Box::new(entry.clone()),
        reason: String::new(),
    };
    let later = entry.next_at.plus(Duration::from_secs(3600));
    assert_eq!(other.adopt(&[carried(entry.next_at), carried(later)]).await.unwrap(), [true, false]);
    assert_eq!(other.inspect(&id("x")).await.unwrap().entry.unwrap().next_at, entry.next_at);
    sound(&other).await;
}

#[tokio::test]
async fn a_hold_counts_only_the_time_it_adds() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    // Overdue for two hours (an outage), twice the time a deadline may be held in all.
    let due = DueAt::Moment(moment(wheel.now().await.unwrap().as_millis() - 7_200_000));
    enqueue(&wheel, "x", due).await.unwrap();
    wheel.hold(&id("x"), Duration::from_secs(600)).await.unwrap().unwrap();
    let entry = wheel.inspect(&id("x")).await.unwrap().entry.unwrap();
    assert_eq!((entry.hold_count, entry.hold_total), (1, Duration::from_secs(600)));
}

#[tokio::test]
async fn a_release_releases_once() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    enqueue(&wheel, "x", after(0)).await.unwrap();
    wheel.hold(&id("x"), Duration::from_secs(600)).await.unwrap().unwrap();
    wheel.release(&id("x")).await.unwrap().unwrap();
    assert_eq!(wheel.release(&id("x")).await.unwrap(), Err(Refusal::NotHeld));
}

#[tokio::test]
async fn a_cancellation_is_told_also_where_it_waited_for_an_attempt() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    enqueue(&wheel, "x", after(0)).await.unwrap();
    let lease = claim(&wheel, S, 1).await.leases.remove(0);
    wheel.cancel(&[id("x")]).await.remove(0).unwrap().unwrap();
    wheel.settle(S, &[Settlement { id: id("x"), fence: lease.fence, what: What::Back }]).await.unwrap();
    let events: redis::Value = server.command(&["XRANGE", &key(&wheel, S, "events"), "-", "+"]);
    let text = format!("{events:?}");
    assert!(text.contains("cancelled"), "{text}");
}

#[tokio::test]
async fn a_dead_id_with_an_unreadable_header_hurts_no_other_of_its_batch() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    enqueue(&wheel, "bad", after(0)).await.unwrap();
    server.command::<u64>(&["HSET", &key(&wheel, S, "bodies"), "bad", "not a header"]);
    assert!(claim(&wheel, S, 1).await.leases.is_empty());
    assert_eq!(RedisServer::shared().command::<u64>(&["ZCARD", &key(&wheel, S, "dead")]), 1);
    let batch = [deadline("bad", after(0)), deadline("good", after(0))];
    let answers = wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    assert_eq!(*answers[0].as_ref().unwrap(), Err(Refusal::Dead));
    assert_eq!(answers[1].as_ref().unwrap().as_ref().unwrap().how, EnqueuedHow::New);
    wheel.drop_dead(&[id("bad")]).await.remove(0).unwrap().unwrap();
}

#[tokio::test]
async fn a_scheduled_id_with_an_unreadable_header_hurts_no_other_of_its_batch() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    for x in ["bad", "bad-2"] {
        enqueue(&wheel, x, after(3_600_000)).await.unwrap();
        server.command::<u64>(&["HSET", &key(&wheel, S, "bodies"), x, "not a header"]);
    }
    let batch = [deadline("bad", after(0)), deadline("good", after(0))];
    let answers = wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    assert_eq!(*answers[0].as_ref().unwrap(), Err(Refusal::Dead), "set aside for a person");
    assert_eq!(answers[1].as_ref().unwrap().as_ref().unwrap().how, EnqueuedHow::New);
    let answers = wheel.cancel(&[id("bad-2"), id("good")]).await;
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().is_ok()), "{answers:?}");
    assert_eq!(wheel.inspect(&id("bad-2")).await.unwrap().state, State::Ended);
}

#[tokio::test]
async fn a_claim_is_bounded_by_bytes_too() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let payload = format!("\"{}\"", "x".repeat(64 * 1024 - 2));
    let batch: Vec<_> = (0..200)
        .map(|n| duewheel::deadline::Deadline {
            payload: duewheel::deadline::Payload::from_json(payload.clone()).unwrap(),
            ..deadline(&format!("o-{n:03}"), after(0))
        })
        .collect();
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    let (mut seen, mut nonce) = (0, 0);
    while seen < 200 {
        nonce += 1;
        let claimed = wheel.claim(S, &Ask { limit: 500, ..ask(nonce) }).await.unwrap();
        let bytes: usize = claimed.leases.iter().map(|lease| lease.payload.as_bytes().len()).sum();
        assert!(!claimed.leases.is_empty() && bytes <= 5 << 20, "{bytes} bytes in one reply");
        let now = wheel.now().await.unwrap();
        assert!(
            seen + claimed.leases.len() == 200 || claimed.next_look.unwrap() <= now,
            "the rest is due now"
        );
        seen += claimed.leases.len();
    }
    sound(&wheel).await;
}

#[tokio::test]
async fn a_missing_index_of_many_slots_does_not_hide_the_next() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    let now = wheel.now().await.unwrap().as_millis();
    for n in 0..30 {
        let start = (now / 1000 - 100 + n) * 1000;
        server.command::<u64>(&[
            "ZADD",
            &key(&wheel, S, "slots"),
            &start.to_string(),
            &format!("0:{}", start / 1000),
        ]);
    }
    enqueue(&wheel, "x", after(0)).await.unwrap();
    let claimed = wheel.claim(S, &Ask { limit: 1, ..ask(1) }).await.unwrap();
    assert_eq!(ids(&claimed.leases), ["x"]);
}

#[tokio::test]
async fn many_suspects_at_the_head_do_not_starve_what_is_behind_them() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let batch: Vec<_> = (0..50).map(|n| deadline(&format!("suspect-{n:02}"), after(0))).collect();
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    // Lost twice: from then on each is a suspect.
    for nonce in 1..=2 {
        let crashed = Ask { limit: 50, lease: Duration::from_millis(1), ..ask(nonce) };
        assert_eq!(wheel.claim(S, &crashed).await.unwrap().leases.len(), 50);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    enqueue(&wheel, "innocent", after(0)).await.unwrap();
    let alone = wheel.claim(S, &Ask { limit: 10, ..ask(2_000) }).await.unwrap();
    assert!(alone.alone && alone.leases.len() == 1);
    // The worker holds a suspect; what else is due must not wait for forty-nine more of them.
    let rest = wheel.claim(S, &Ask { limit: 10, suspect: false, ..ask(3_000) }).await.unwrap();
    assert_eq!(ids(&rest.leases), ["innocent"]);
    sound(&wheel).await;
}

#[tokio::test]
async fn a_scan_sees_the_whole_of_a_large_slot_and_a_listing_pages_through_it() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    let due = moment(wheel.now().await.unwrap().as_millis() + 3_600_000);
    let batch: Vec<_> = (0..12_000).map(|n| deadline(&format!("o-{n:05}"), DueAt::Moment(due))).collect();
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    server.command::<u64>(&["HDEL", &key(&wheel, S, "bodies"), "o-11999"]);
    let found = wheel.verify(false).await.unwrap().findings;
    assert!(
        found.iter().any(|f| f.kind == "place_without_body" && f.subject.starts_with("o-11999")),
        "{found:?}"
    );
    let (mut cursor, mut seen) = (None, 0);
    loop {
        let page = wheel.list(State::Scheduled, due, due, cursor.as_ref(), 400).await.unwrap();
        seen += page.rows.iter().filter(|row| matches!(row, Row::Live { .. } | Row::Foreign { .. })).count();
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, 12_000);
}

#[tokio::test]
async fn healing_leaves_nothing_to_find() {
    let server = RedisServer::shared();
    let wheel = wheel_of(server, settings(1)).await;
    for x in ["body-lost", "kept", "slot-lost"] {
        enqueue(&wheel, x, after(3_600_000)).await.unwrap();
    }
    enqueue(&wheel, "far", after(90_000_000)).await.unwrap();
    let bodies = key(&wheel, S, "bodies");
    server.command::<u64>(&["HDEL", &bodies, "body-lost"]);
    server.command::<u64>(&["HDEL", &bodies, "kept"]);
    server.command::<u64>(&["DEL", &key(&wheel, S, "meta")]);
    wheel.format().await.unwrap();
    wheel.verify(true).await.unwrap();
    wheel.verify(true).await.unwrap();
    sound(&wheel).await;
}

#[tokio::test]
async fn a_lease_whose_slot_is_missing_does_not_keep_the_others_from_being_reaped() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    with_test_clock(server, &wheel);
    let now = wheel.at_fixed_time(T0 * 1000);
    for (name, due) in [("waits", T0 - 9_000), ("others", T0 - 5_000)] {
        now.enqueue(&deadline(name, DueAt::Moment(moment(due))), OnConflict::Keep, false)
            .await
            .unwrap()
            .unwrap();
        // In turn, so that the one that must wait stands in front.
        assert_eq!(now.claim(S, &ask(due)).await.unwrap().leases.len(), 1);
    }
    let (start, slot) = ((T0 - 9_000).to_string(), format!("0:{}", (T0 - 9_000) / 1000));
    server.command::<u64>(&["ZADD", &key(&wheel, S, "slots"), &start, &slot]);
    let then = wheel.at_fixed_time((T0 + 31_000) * 1000);
    let claimed = then.claim(S, &Ask { limit: 1, ..ask(1) }).await.unwrap();
    assert_eq!((claimed.reaped, ids(&claimed.leases)), (1, vec!["others"]));
    // Where no slot can be moving the scan sees that this one is gone for good.
    then.verify(true).await.unwrap();
    let claimed = then.claim(S, &Ask { limit: 1, ..ask(2) }).await.unwrap();
    assert_eq!((claimed.reaped, ids(&claimed.leases)), (1, vec!["waits"]));
    sound(&then).await;
}

#[tokio::test]
async fn a_cancelled_lease_that_is_carried_elsewhere_does_not_fire_there() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    enqueue(&wheel, "x", after(0)).await.unwrap();
    claim(&wheel, S, 1).await;
    wheel.cancel(&[id("x")]).await.remove(0).unwrap().unwrap();
    let entry = wheel.inspect(&id("x")).await.unwrap().entry.unwrap();
    assert!(entry.cancelled);
    let other = crate::rig::wheel::wheel(RedisServer::shared(), 1).await;
    let carried = Carried::Live {
        state: State::Scheduled,
        at: entry.next_at,
        entry: Box::new(entry.clone()),
        reason: String::new(),
    };
    assert_eq!(other.adopt(&[carried]).await.unwrap(), [true]);
    let seen = other.inspect(&id("x")).await.unwrap();
    assert_eq!((seen.state, seen.ended.unwrap().outcome), (State::Ended, Outcome::Cancelled));
    assert!(claim(&other, S, 1).await.leases.is_empty());
    sound(&other).await;
}

#[tokio::test]
async fn a_reshard_beside_a_worker_that_was_forgotten_loses_nothing() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 7).await;
    let batch: Vec<_> = (0..200).map(|n| deadline(&format!("o-{n}"), after(0))).collect();
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    // The worker claims until it is told that the layout is not its own.
    let worker = wheel.clone();
    let forgotten = tokio::spawn(async move {
        for nonce in 1.. {
            for shard in worker.shards().all() {
                let short =
                    Ask { limit: 1, lease: Duration::from_millis(3), poison_limit: 1_000_000, ..ask(nonce) };
                if let Err(e) = worker.claim(shard, &short).await
                    && wheel_is_closed(&e)
                {
                    return;
                }
                tokio::time::sleep(Duration::from_micros(300)).await;
            }
        }
    });
    let to = duewheel::shard::ShardCount::new(2).unwrap();
    let mut refused = 0;
    let narrower = loop {
        match wheel.reshard(to, false, |_| {}).await {
            Ok(narrower) => break narrower,
            Err(e) => {
                assert!(e.to_string().contains("leased"), "{e}");
                refused += 1;
                if refused == 40 {
                    // As a person would: stop it.
                    forgotten.abort();
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    let note = Note::new("anna", "reshard").unwrap();
                    wheel.pause(&note).await.unwrap();
                    for shard in wheel.shards().all() {
                        let patient = Ask { poison_limit: 1_000_000, ..ask(1_000_000 + refused) };
                        wheel.claim(shard, &patient).await.unwrap();
                    }
                }
                assert!(refused < 100);
            }
        }
    };
    for one in &batch {
        assert_eq!(narrower.inspect(&one.id).await.unwrap().state, State::Scheduled, "{}", one.id);
    }
    sound(&narrower).await;
}

fn wheel_is_closed(error: &duewheel::error::Error) -> bool {
    error.store_kind() == Some(duewheel::error::StoreKind::Layout)
}

#[tokio::test]
async fn fences_grow_through_a_reshard() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let batch: Vec<_> = (0..40).map(|n| deadline(&format!("o-{n}"), after(0))).collect();
    wheel.enqueue_batch(&batch, OnConflict::Keep, false).await;
    let mut before = std::collections::BTreeMap::new();
    for shard in wheel.shards().all() {
        let long = Ask { lease: Duration::from_secs(3600), ..ask(1) };
        let leases = wheel.claim(shard, &long).await.unwrap().leases;
        let back: Vec<_> = leases
            .iter()
            .map(|lease| Settlement { id: lease.id.clone(), fence: lease.fence, what: What::Back })
            .collect();
        wheel.settle(shard, &back).await.unwrap();
        before.extend(leases.into_iter().map(|lease| (lease.id, lease.fence)));
    }
    let wider = wheel.reshard(duewheel::shard::ShardCount::new(9).unwrap(), false, |_| {}).await.unwrap();
    let mut seen = 0;
    for shard in wider.shards().all() {
        for lease in claim(&wider, shard, 2).await.leases {
            assert!(
                lease.fence > before[&lease.id],
                "{}: {} after {}",
                lease.id,
                lease.fence,
                before[&lease.id]
            );
            seen += 1;
        }
    }
    assert_eq!(seen, 40);
}
