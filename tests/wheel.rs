//! The verbs of the wheel, one after the other, on a real Redis.

use std::collections::BTreeSet;
use std::time::Duration;

use duewheel::deadline::{Cause, Deadline, DueAt, Id, Note, Outcome, State};
use duewheel::shard::Shard;
use duewheel::wheel::answer::{Cancelled, EnqueuedHow, Refusal, Row, Settled};
use duewheel::wheel::{Look, Narrow, Renewed, Settlement, ShardState, What};

use crate::rig::redis::RedisServer;
use crate::rig::wheel::{after, ask, claim, deadline, enqueue, id, ids, moment, wheel};

const S: Shard = Shard(0);

fn end(lease: &duewheel::lease::Lease, outcome: Outcome) -> Settlement {
    Settlement {
        id: lease.id.clone(),
        fence: lease.fence,
        what: What::End { outcome, lease: std::sync::Arc::new(lease.clone()) },
    }
}

#[tokio::test]
async fn a_deadline_is_enqueued_claimed_and_closed_and_then_remembered() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let enqueued = enqueue(&wheel, "o-1", after(0)).await.unwrap();
    assert_eq!(enqueued.how, EnqueuedHow::New);
    let claimed = claim(&wheel, S, 1).await;
    assert_eq!(ids(&claimed.leases), ["o-1"]);
    let lease = &claimed.leases[0];
    assert_eq!((lease.attempt, lease.cause, lease.due_at), (1, Cause::Due, enqueued.due_at));
    assert_eq!(lease.fence.0 % 2, 0, "the fence of a claim is even");
    assert_eq!(wheel.settle(S, &[end(lease, Outcome::Closed)]).await.unwrap(), [Settled::Done]);
    let seen = wheel.inspect(&id("o-1")).await.unwrap();
    assert_eq!(seen.state, State::Ended);
    let ended = seen.ended.unwrap();
    assert_eq!((ended.outcome, ended.attempt, ended.fence), (Outcome::Closed, 1, lease.fence));
    // A repeat whose answer was lost, and a zombie.
    assert_eq!(wheel.settle(S, &[end(lease, Outcome::Closed)]).await.unwrap(), [Settled::Done]);
    assert_eq!(wheel.settle(S, &[end(lease, Outcome::Skipped)]).await.unwrap(), [Settled::Stale]);
    assert!(matches!(enqueue(&wheel, "o-1", after(0)).await, Err(Refusal::Ended(_))));
    assert!(wheel.verify(false).await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn nothing_is_claimed_before_its_time_and_the_next_look_is_its_time() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let due_at = enqueue(&wheel, "later", after(60_000)).await.unwrap().due_at;
    let claimed = claim(&wheel, S, 1).await;
    assert!(claimed.leases.is_empty());
    let next = claimed.next_look.unwrap();
    assert!(next <= due_at && due_at.since(next) < Duration::from_secs(1), "the start of its slot");
}

#[tokio::test]
async fn the_oldest_are_claimed_first_across_levels_and_the_batch_is_cut() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let now = wheel.now().await.unwrap().as_millis();
    for n in (0..40).rev() {
        enqueue(
            &wheel,
            &format!("o-{n:02}"),
            duewheel::deadline::DueAt::Moment(moment(now - 40_000 + n * 900)),
        )
        .await
        .unwrap();
    }
    let first = wheel.claim(S, &duewheel::wheel::Ask { limit: 25, ..ask(1) }).await.unwrap();
    let expected: Vec<String> = (0..25).map(|n| format!("o-{n:02}")).collect();
    assert_eq!(ids(&first.leases), expected);
    assert!(first.next_look.unwrap().as_millis() <= wheel.now().await.unwrap().as_millis());
    let rest = claim(&wheel, S, 2).await;
    assert_eq!(rest.leases.len(), 15);
    assert!(wheel.verify(false).await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn a_repeated_nonce_returns_the_same_leases_and_takes_no_more() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    enqueue(&wheel, "a", after(0)).await.unwrap();
    let first = claim(&wheel, S, 7).await;
    enqueue(&wheel, "b", after(0)).await.unwrap();
    let again = claim(&wheel, S, 7).await;
    assert_eq!(ids(&again.leases), ["a"]);
    assert_eq!(again.leases[0].fence, first.leases[0].fence);
    assert_eq!(ids(&claim(&wheel, S, 8).await.leases), ["b"]);
}

#[tokio::test]
async fn why_an_attempt_failed_is_kept_while_the_deadline_lives() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    enqueue(&wheel, "x", after(0)).await.unwrap();
    let failed = async |nonce, reason: &str| {
        let lease = claim(&wheel, S, nonce).await.leases.remove(0);
        let what = What::Retry(Duration::ZERO, reason.to_owned());
        wheel.settle(S, &[Settlement { id: id("x"), fence: lease.fence, what }]).await.unwrap();
        wheel.inspect(&id("x")).await.unwrap().failure().map(str::to_owned)
    };
    assert_eq!(failed(1, "status 500: a b").await.as_deref(), Some("status 500: a b"));
    // The latest counts, and no more of it than fits; a character is whole or left out.
    assert_eq!(failed(2, &"订".repeat(100)).await, Some("订".repeat(85)));
    assert_eq!(failed(3, "").await, None, "what is not known is not said");
    assert_eq!(failed(4, "status 502").await.as_deref(), Some("status 502"));
    // While it is leased, too; and it goes where the deadline goes.
    let lease = claim(&wheel, S, 5).await.leases.remove(0);
    assert_eq!(wheel.inspect(&id("x")).await.unwrap().failure(), Some("status 502"));
    let back = Settlement { id: id("x"), fence: lease.fence, what: What::Back };
    wheel.settle(S, &[back]).await.unwrap();
    wheel.reschedule(&id("x"), after(0), None).await.unwrap().unwrap();
    assert_eq!(wheel.inspect(&id("x")).await.unwrap().failures, [], "a new moment, a new life");
    assert_eq!(failed(6, "status 503").await.as_deref(), Some("status 503"));
    // The five latest, the latest first, each with its moment; also of one that died of the next.
    for nonce in 7..12 {
        failed(nonce, &format!("status {nonce}\u{1e}")).await;
    }
    let lease = claim(&wheel, S, 12).await.leases.remove(0);
    let bury = Settlement { id: id("x"), fence: lease.fence, what: What::Bury("gone\u{1e}1 1 x".to_owned()) };
    wheel.settle(S, &[bury]).await.unwrap();
    let seen = wheel.inspect(&id("x")).await.unwrap();
    assert_eq!(seen.death.unwrap().1, "gone 1 1 x");
    let kept: Vec<_> = seen.failures.iter().map(|one| (one.attempt, one.reason.as_str())).collect();
    let all = [(6, "status 11 "), (5, "status 10 "), (4, "status 9 "), (3, "status 8 "), (2, "status 7 ")];
    assert_eq!(kept, all);
    assert!(seen.failures.iter().all(|one| seen.now.since(one.at.unwrap()) < crate::rig::PATIENCE));
    assert_eq!(wheel.survey_dead(10).await.unwrap().dead[0].reason, "gone 1 1 x");
    wheel.cancel(&[id("x")]).await;
    let reasons = redis::cmd("EXISTS").arg(format!("dw1:{{{}.0}}:reasons", wheel.name())).to_owned();
    assert_eq!(wheel.store().command(&reasons, "look").await.unwrap(), redis::Value::Int(0));
}

#[tokio::test]
async fn a_retry_comes_back_with_its_attempt_counted_and_a_bury_waits_for_a_person() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    enqueue(&wheel, "x", after(0)).await.unwrap();
    let lease = claim(&wheel, S, 1).await.leases.remove(0);
    let retry =
        Settlement { id: id("x"), fence: lease.fence, what: What::Retry(Duration::ZERO, String::new()) };
    assert_eq!(wheel.settle(S, std::slice::from_ref(&retry)).await.unwrap(), [Settled::Done]);
    assert_eq!(
        wheel.settle(S, &[retry]).await.unwrap(),
        [Settled::Stale],
        "a repeated retry changes nothing"
    );
    let lease = claim(&wheel, S, 2).await.leases.remove(0);
    assert_eq!(lease.attempt, 2);
    let bury = Settlement { id: id("x"), fence: lease.fence, what: What::Bury("no such order".into()) };
    wheel.settle(S, &[bury]).await.unwrap();
    let seen = wheel.inspect(&id("x")).await.unwrap();
    assert_eq!((seen.state, seen.death.unwrap().1.as_str()), (State::Dead, "no such order"));
    assert_eq!(enqueue(&wheel, "x", after(0)).await, Err(Refusal::Dead));
    let revived = wheel.revive(&id("x")).await.unwrap().unwrap();
    assert!(revived.generation > lease.generation);
    assert_eq!(claim(&wheel, S, 3).await.leases[0].attempt, 1);
}

#[tokio::test]
async fn a_renewal_moves_the_fence_and_may_be_repeated() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    enqueue(&wheel, "x", after(0)).await.unwrap();
    let lease = claim(&wheel, S, 1).await.leases.remove(0);
    let ask = [(id("x"), lease.fence)];
    let first = wheel.renew(S, &ask, Duration::from_secs(10)).await.unwrap();
    assert_eq!(wheel.renew(S, &ask, Duration::from_secs(10)).await.unwrap(), first);
    let Renewed::Until(fence) = first[0] else { panic!("{first:?}") };
    assert_eq!(fence.0, (lease.fence.0 + 10_000_000) | 1);
    assert!(claim(&wheel, S, 1).await.leases.is_empty(), "a repeated claim never finds a renewed lease");
    assert_eq!(wheel.settle(S, &[end(&lease, Outcome::Closed)]).await.unwrap(), [Settled::Stale]);
    let current = Settlement { fence, ..end(&lease, Outcome::Closed) };
    assert_eq!(wheel.settle(S, &[current]).await.unwrap(), [Settled::Done]);
}

#[tokio::test]
async fn a_cancel_before_the_claim_means_that_it_never_fires() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    enqueue(&wheel, "x", after(0)).await.unwrap();
    let answers = wheel.cancel(&[id("x"), id("never-seen"), id("x")]).await;
    let words: Vec<_> = answers.into_iter().map(|a| a.unwrap().unwrap()).collect();
    assert_eq!(words, [Cancelled::Cancelled, Cancelled::Absent, Cancelled::Already]);
    for shard in wheel.shards().all() {
        assert!(claim(&wheel, shard, 1).await.leases.is_empty());
    }
    // The create event that comes after the payment does not bring the order back.
    assert!(matches!(enqueue(&wheel, "never-seen", after(0)).await, Err(Refusal::Ended(_))));
}

#[tokio::test]
async fn a_cancel_while_leased_lets_the_attempt_finish_and_forbids_another() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    for x in ["closes", "fails"] {
        enqueue(&wheel, x, after(0)).await.unwrap();
    }
    let leases = claim(&wheel, S, 1).await.leases;
    for answer in wheel.cancel(&[id("closes"), id("fails")]).await {
        assert_eq!(answer.unwrap(), Ok(Cancelled::Leased));
    }
    let of = |x: &str| leases.iter().find(|l| l.id.as_str() == x).unwrap();
    let retry = Settlement {
        id: id("fails"),
        fence: of("fails").fence,
        what: What::Retry(Duration::ZERO, String::new()),
    };
    let settled = wheel.settle(S, &[end(of("closes"), Outcome::Closed), retry]).await.unwrap();
    assert_eq!(settled, [Settled::Done, Settled::Cancelled]);
    assert_eq!(wheel.inspect(&id("fails")).await.unwrap().ended.unwrap().outcome, Outcome::Cancelled);
    assert_eq!(wheel.inspect(&id("closes")).await.unwrap().ended.unwrap().outcome, Outcome::Closed);
}

#[tokio::test]
async fn reschedule_hold_release_and_close_move_one_deadline() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let first = enqueue(&wheel, "x", after(3_600_000)).await.unwrap();
    let moved = wheel.reschedule(&id("x"), after(1000), Some(first.generation)).await.unwrap().unwrap();
    assert!(moved.generation > first.generation);
    assert!(matches!(
        wheel.reschedule(&id("x"), after(1000), Some(first.generation)).await.unwrap(),
        Err(Refusal::Generation { .. })
    ));
    assert_eq!(wheel.release(&id("x")).await.unwrap(), Err(Refusal::NotHeld));
    let held = wheel.hold(&id("x"), Duration::from_secs(600)).await.unwrap().unwrap();
    assert_eq!(held.due_at, moved.due_at);
    assert!(held.next_at > moved.due_at);
    assert!(matches!(
        wheel.hold(&id("x"), Duration::from_secs(7200)).await.unwrap(),
        Err(Refusal::HoldCap { count: 1, .. })
    ));
    assert_eq!(wheel.release(&id("x")).await.unwrap().unwrap().next_at, moved.due_at);
    let note = Note::new("anna", "fraud").unwrap();
    wheel.close(&id("x"), &note).await.unwrap().unwrap();
    let lease = claim(&wheel, S, 1).await.leases.remove(0);
    assert_eq!((lease.cause, lease.note), (Cause::Manual, Some(note)));
    assert_eq!(wheel.hold(&id("x"), Duration::from_secs(1)).await.unwrap(), Err(Refusal::Leased));
    assert!(wheel.verify(false).await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn a_paused_wheel_gives_no_lease_until_it_is_resumed() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    enqueue(&wheel, "x", after(0)).await.unwrap();
    let shard = wheel.shard_of(&id("x"));
    assert_eq!(wheel.pause(&Note::new("anna", "incident").unwrap()).await.unwrap(), (2, 2));
    assert_eq!(claim(&wheel, shard, 1).await.state, ShardState::Paused);
    assert_eq!(wheel.resume().await.unwrap().1, (2, 2));
    assert_eq!(claim(&wheel, shard, 2).await.leases.len(), 1);
}

#[tokio::test]
async fn a_lease_lost_twice_comes_back_alone_and_five_losses_alone_are_poison() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    for x in ["poison", "neighbour"] {
        enqueue(&wheel, x, after(0)).await.unwrap();
    }
    let short = |nonce| duewheel::wheel::Ask { lease: Duration::from_millis(1), ..ask(nonce) };
    // Both lose their lease in company, twice; from then on each is taken alone.
    for nonce in 1..=2 {
        crate::rig::eventually(Duration::from_secs(5), || async {
            (wheel.claim(S, &short(nonce)).await.unwrap().leases.len() == 2).then_some(())
        })
        .await;
    }
    let mut nonce = 3;
    let mut poison_alone = 0;
    while wheel.inspect(&id("poison")).await.unwrap().state != State::Dead {
        let claimed = wheel.claim(S, &short(nonce)).await.unwrap();
        nonce += 1;
        assert!(nonce < 2000, "poison never died");
        if claimed.leases.is_empty() {
            continue;
        }
        assert_eq!(claimed.leases.len(), 1);
        assert!(claimed.alone);
        if claimed.leases[0].id.as_str() == "neighbour" {
            wheel.settle(S, &[end(&claimed.leases[0], Outcome::Closed)]).await.unwrap();
        } else {
            poison_alone += 1;
        }
    }
    assert_eq!(poison_alone, 5);
    assert_eq!(wheel.inspect(&id("poison")).await.unwrap().death.unwrap().1, "lost its lease 5 times, alone");
}

#[tokio::test]
async fn the_selftest_passes_every_script_and_leaves_no_listed_wheel() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    wheel.selftest("w-selftest").await.unwrap();
    assert_eq!(wheel.stats().await.unwrap().scheduled, 0);
    let known = duewheel::wheel::Wheel::known(wheel.store()).await.unwrap();
    assert!(known.iter().all(|(name, _, _)| !name.contains('~')));
}

#[tokio::test]
async fn a_batch_may_name_an_id_twice_and_cross_shards() {
    let wheel = wheel(RedisServer::shared(), 8).await;
    let mut batch: Vec<_> = (0..1500).map(|n| deadline(&format!("o-{n}"), after(3_600_000))).collect();
    batch.push(deadline("o-3", after(7_200_000)));
    let answers = wheel.enqueue_batch(&batch, duewheel::deadline::OnConflict::Keep, false).await;
    assert!(answers[..1500].iter().all(|a| a.as_ref().unwrap().as_ref().unwrap().how == EnqueuedHow::New));
    assert!(matches!(answers[1500], Ok(Err(Refusal::Conflict { .. }))));
    let stats = wheel.stats().await.unwrap();
    assert_eq!((stats.scheduled, stats.totals["enqueued"]), (1500, 1500));
    let forecast = wheel.forecast(wheel.now().await.unwrap(), Duration::from_secs(60), 120).await.unwrap();
    assert_eq!(forecast.iter().map(|b| b.count).sum::<u64>(), 1500);
}

#[tokio::test]
async fn a_forecast_counts_each_deadline_once_over_several_pages_of_slots() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let from = wheel.now().await.unwrap();
    // A slot each, three pages of them; and in the same seconds wider slots, whose starts tie with theirs.
    let at = |n: u64| DueAt::Moment(from.plus(Duration::from_secs(n)));
    let near = (1..=2500).map(|n| deadline(&format!("near-{n}"), at(n)));
    let far = (1..=500).map(|n| deadline(&format!("far-{n}"), at(4_096 + n * 64)));
    let batch: Vec<_> = near.chain(far).collect();
    wheel.enqueue_batch(&batch, duewheel::deadline::OnConflict::Keep, false).await;
    // From the beginning; and from where the first slots are overdue, with ends of stretches in the middle of slots.
    for (from, stretch, count) in
        [(from, 100_000, 400), (from.plus(Duration::from_millis(1_500_500)), 77_777, 30)]
    {
        let forecast = wheel.forecast(from, Duration::from_millis(stretch), count).await.unwrap();
        let counts: Vec<u64> = forecast.iter().map(|bucket| bucket.count).collect();
        let mut expected = vec![0; count as usize];
        for deadline in &batch {
            let DueAt::Moment(moment) = deadline.due_at else { panic!("{deadline:?}") };
            let after = moment.as_millis().saturating_sub(from.as_millis());
            if let Some(stretch) = expected.get_mut((after / stretch) as usize) {
                *stretch += 1;
            }
        }
        assert_eq!(counts, expected);
    }
}

#[tokio::test]
async fn a_listing_pages_through_all_shards_in_time_order() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let batch: Vec<_> =
        (0..257).map(|n| deadline(&format!("o-{n:03}"), after(60_000 + (n * 37) % 300 * 60_000))).collect();
    wheel.enqueue_batch(&batch, duewheel::deadline::OnConflict::Keep, false).await;
    let (mut cursor, mut seen) = (None, Vec::new());
    loop {
        let page = wheel
            .list(State::Scheduled, moment(0), duewheel::clock::Moment::MAX, cursor.as_ref(), 50)
            .await
            .unwrap();
        for row in page.rows {
            let duewheel::wheel::answer::Row::Live { at, entry, .. } = row else { panic!("{row:?}") };
            seen.push((at, entry.id));
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 257);
    assert!(seen.windows(2).all(|w| w[0] < w[1]), "in order, none twice");
}

#[tokio::test]
async fn a_listing_narrowed_by_attempts_reason_or_payload_is_all_of_it_filtered_with_bounded_looks() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let one = |n: u32| duewheel::deadline::Deadline {
        payload: duewheel::deadline::Payload::from_json(format!(r#"{{"user":{}}}"#, n % 5)).unwrap(),
        ..deadline(&format!("o-{n:03}"), after(0))
    };
    let batch: Vec<_> = (0..120).map(one).collect();
    wheel.enqueue_batch(&batch, duewheel::deadline::OnConflict::Keep, false).await;
    // The first fails once and waits; the second twice; the third three times; the fourth is dead then.
    for round in 0..4_u64 {
        for shard in wheel.shards().all() {
            let leases = claim(&wheel, shard, 10 * round + u64::from(shard.0) + 1).await.leases;
            let judged = leases.iter().map(|lease| {
                let kind = lease.id.as_str()[2..].parse::<u64>().unwrap() % 4;
                let what = match (kind == round, kind) {
                    (true, 3) => {
                        What::Bury(format!("status {}", if lease.id.as_str() < "o-060" { 500 } else { 409 }))
                    }
                    (true, kind) => What::Retry(Duration::from_secs(3600), format!("status 50{kind}")),
                    (false, _) => What::Retry(Duration::ZERO, String::new()),
                };
                Settlement { id: lease.id.clone(), fence: lease.fence, what }
            });
            wheel.settle(shard, &judged.collect::<Vec<_>>()).await.unwrap();
        }
    }
    let between = || moment(0)..=duewheel::clock::Moment::MAX;
    let narrow = |attempts, reason: Option<&str>| Narrow {
        attempts,
        reason: reason.map(str::to_owned),
        ..Narrow::default()
    };
    let holding = |text: &str| Narrow { payload: Some(text.to_owned()), ..narrow(2, None) };
    let look = Look { limit: 7, most: 25, longest: Duration::from_secs(60) };
    for (state, narrow, expected) in [
        (State::Scheduled, narrow(0, None), 90),
        (State::Scheduled, narrow(1, None), 90),
        (State::Scheduled, narrow(2, None), 60),
        (State::Scheduled, narrow(3, None), 30),
        (State::Scheduled, narrow(4, None), 0),
        (State::Dead, narrow(4, None), 30),
        (State::Dead, narrow(0, Some("500")), 15),
        (State::Dead, narrow(4, Some("status 409")), 15),
        (State::Dead, narrow(5, Some("500")), 0),
        (State::Scheduled, narrow(0, Some("status 501")), 30),
        (State::Scheduled, narrow(3, Some("status 501")), 0),
        // Those of two attempts and of three are 2 and 3 by 4; of their users 0 to 4 the number 3 has one in five.
        (State::Scheduled, holding("user=3"), 12),
        (State::Scheduled, holding("\"user\":3"), 12),
        (State::Scheduled, holding("user=33"), 0),
    ] {
        let all = wheel.list(state, moment(0), duewheel::clock::Moment::MAX, None, 500).await.unwrap().rows;
        let filtered: Vec<_> = all.into_iter().filter(|row| narrow.fits(row)).collect();
        assert_eq!(filtered.len(), expected, "{state:?} {narrow:?}");
        let (mut rows, mut cursor) = (Vec::new(), None);
        loop {
            let found =
                wheel.list_narrow(None, state, between(), &narrow, cursor.as_ref(), look).await.unwrap();
            assert!(found.page.rows.len() <= 7 && found.looked_at <= 25, "{found:?}");
            rows.extend(found.page.rows);
            cursor = found.page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(rows, filtered, "{state:?} {narrow:?}");
    }
    // One look that takes all of it sees no end but the end.
    let wide = Look { limit: 500, most: 100_000, ..look };
    let found =
        wheel.list_narrow(None, State::Scheduled, between(), &narrow(2, None), None, wide).await.unwrap();
    assert_eq!((found.page.rows.len(), found.page.next, found.looked_at), (60, None, 90));
    let one = Some(Shard(2));
    let found =
        wheel.list_narrow(one, State::Scheduled, between(), &narrow(2, None), None, wide).await.unwrap();
    assert!(found.page.rows.len() < 60 && !found.page.rows.is_empty(), "of one shard alone");
}

/// Payloads of 60 kB: a page of 500 would be 30 MB.
#[tokio::test]
async fn a_page_of_large_payloads_is_short_and_no_row_is_left_out_or_doubled() {
    let wheel = wheel(RedisServer::shared(), 3).await;
    let payload = |n: u64| {
        let text = format!("{{\"n\":{},\"fill\":\"{}\"}}", n % 2, "x".repeat(60_000));
        duewheel::deadline::Payload::from_json(text).unwrap()
    };
    // Some moments are shared by several ids.
    let batch: Vec<_> = (0..90)
        .map(|n| Deadline {
            payload: payload(n),
            ..deadline(&format!("o-{n:02}"), after(3_600_000 + n / 4 * 1000))
        })
        .collect();
    for answer in wheel.enqueue_batch(&batch, duewheel::deadline::OnConflict::Keep, false).await {
        answer.unwrap().unwrap();
    }
    let name_of = |row: &Row| match row {
        Row::Live { entry, .. } => {
            assert!(entry.payload.as_bytes().len() > 60_000);
            entry.id.as_str().to_owned()
        }
        other => panic!("{other:?}"),
    };
    let at_of = |row: &Row| match row {
        Row::Live { at, entry, .. } => (*at, entry.id.as_str().to_owned()),
        other => panic!("{other:?}"),
    };
    let names: BTreeSet<String> = batch.iter().map(|one| one.id.as_str().to_owned()).collect();
    // By time over all shards, as listing, export and the screen read it.
    let (mut rows, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = wheel
            .list(State::Scheduled, moment(0), duewheel::clock::Moment::MAX, cursor.as_ref(), 500)
            .await
            .unwrap();
        assert!(!page.rows.is_empty() && page.rows.len() <= 40, "{} rows", page.rows.len());
        rows.extend(page.rows);
        (cursor, pages) = (page.next, pages + 1);
        if cursor.is_none() {
            break;
        }
    }
    assert!(pages > 2 && rows.is_sorted_by_key(at_of), "{pages} pages");
    assert_eq!((rows.len(), rows.iter().map(name_of).collect::<BTreeSet<_>>()), (90, names.clone()));
    // Shard by shard, as bulk acts and reconcile read it.
    let mut seen = Vec::new();
    for shard in wheel.shards().all() {
        let mut place = None;
        loop {
            let (rows, next) = wheel.shard_page(shard, State::Scheduled, place.as_ref()).await.unwrap();
            assert!(!rows.is_empty() && rows.len() <= 10, "{} rows", rows.len());
            seen.extend(rows.iter().map(name_of));
            place = next;
            if place.is_none() {
                break;
            }
        }
    }
    assert_eq!((seen.len(), seen.into_iter().collect::<BTreeSet<_>>()), (90, names.clone()));
    // Narrowed, and by the beginning of the id.
    let narrow = Narrow { payload: Some("n=1".to_owned()), ..Narrow::default() };
    let look = Look { limit: 500, most: 100_000, longest: Duration::from_secs(60) };
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let between = moment(0)..=duewheel::clock::Moment::MAX;
        let page =
            wheel.list_narrow(None, State::Scheduled, between, &narrow, cursor.as_ref(), look).await.unwrap();
        found.extend(page.page.rows.iter().map(name_of));
        cursor = page.page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((found.len(), found.iter().collect::<BTreeSet<_>>().len()), (45, 45));
    let found = wheel.find("o-", None, 500, 100_000, Duration::from_secs(60)).await.unwrap();
    assert_eq!(found.ids.len(), 90);
    let ids: Vec<&Id> = batch.iter().map(|one| &one.id).collect();
    let seen = wheel.inspect_all(&ids).await.unwrap();
    assert!(seen.iter().zip(&batch).all(|(seen, one)| seen.entry.as_ref().unwrap().id == one.id));
    // Carried to other shards, page by page.
    let wider = wheel.reshard(duewheel::shard::ShardCount::new(5).unwrap(), false, |_| {}).await.unwrap();
    assert_eq!(wider.stats().await.unwrap().scheduled, 90);
    let found = wider.verify(false).await.unwrap().findings;
    assert!(found.is_empty(), "{found:?}");
}

#[tokio::test]
async fn resharding_keeps_every_deadline() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    let batch: Vec<_> = (0..500).map(|n| deadline(&format!("o-{n:03}"), after(n * 50_000))).collect();
    wheel.enqueue_batch(&batch, duewheel::deadline::OnConflict::Keep, false).await;
    wheel.cancel(&[id("o-007")]).await;
    let lease = claim(&wheel, wheel.shard_of(&id("o-000")), 1).await.leases.remove(0);
    let what = What::Retry(Duration::from_secs(60), "status 500".to_owned());
    let failed = Settlement { id: id("o-000"), fence: lease.fence, what };
    wheel.settle(wheel.shard_of(&id("o-000")), &[failed]).await.unwrap();
    let wider = wheel.reshard(duewheel::shard::ShardCount::new(7).unwrap(), false, |_| {}).await.unwrap();
    assert_eq!(wider.stats().await.unwrap().scheduled, 499);
    assert_eq!(wider.inspect(&id("o-007")).await.unwrap().state, State::Ended);
    assert_eq!(wider.inspect(&id("o-000")).await.unwrap().failure(), Some("status 500"));
    let found = wider.verify(false).await.unwrap().findings;
    assert!(found.is_empty(), "{found:?}");
    assert!(
        wheel.enqueue(&deadline("new", after(0)), duewheel::deadline::OnConflict::Keep, false).await.is_err()
    );
    let narrower = wider.reshard(duewheel::shard::ShardCount::new(2).unwrap(), true, |_| {}).await.unwrap();
    assert_eq!(narrower.stats().await.unwrap().scheduled, 499);
    let found = narrower.verify(false).await.unwrap().findings;
    assert!(found.is_empty(), "{found:?}");
    assert!(narrower.drop_wheel().await.unwrap() > 0);
    assert_eq!(narrower.inspect(&id("o-001")).await.unwrap().state, State::Absent);
}
