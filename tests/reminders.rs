//! Reminders before the close: each given once, none after an end, and none that delays the close, whatever their hook does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::deadline::{Deadline, DueAt, OnConflict, Outcome, Reminders, Stage, State};
use duewheel::hook::{Hook, Verdict};
use duewheel::lease::Lease;
use duewheel::shard::Shard;
use duewheel::wheel::answer::{Cancelled, Settled};
use duewheel::wheel::{Ask, Reminded, Settlement, What, Wheel, WheelSettings};
use duewheel::worker::{Worker, WorkerSettings};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::rig::cli::Cli;
use crate::rig::crew::quick;
use crate::rig::hook::Recorder;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{after, ask, deadline, id, key, moment, settings, wheel, wheel_of, with_test_clock};
use crate::rig::{PATIENCE, eventually};

const S: Shard = Shard(0);
const NOW: u64 = 1_800_000_000_000;

fn reminders(before_ms: &[u64]) -> Reminders {
    Reminders::new(&before_ms.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>()).unwrap()
}

fn reminding(text: &str, due_at: DueAt, before_ms: &[u64]) -> Deadline {
    Deadline { reminders: Some(reminders(before_ms)), ..deadline(text, due_at) }
}

/// A wheel whose clock the test sets. Its events are kept for long: their entries carry the real time, far behind the test's.
async fn clocked() -> Wheel {
    let settings = WheelSettings { events_keep: Duration::from_secs(366 * 86_400), ..settings(1) };
    let wheel = wheel_of(RedisServer::shared(), settings).await;
    with_test_clock(RedisServer::shared(), &wheel);
    wheel
}

async fn place(wheel: &Wheel, one: &Deadline) {
    wheel.enqueue(one, OnConflict::Keep, false).await.unwrap().unwrap();
}

/// A worker, and who gives its reminders.
fn work(
    wheel: &Wheel,
    hook: &Arc<Recorder>,
    reminder: Option<&Arc<Recorder>>,
    settings: WorkerSettings,
) -> DropGuard {
    let mut worker = Worker::new(wheel.clone(), hook.clone(), settings).unwrap();
    if let Some(reminder) = reminder {
        let reminder: Arc<dyn Hook> = reminder.clone();
        worker = worker.reminding_by(reminder).unwrap();
    }
    let stop = CancellationToken::new();
    let given = stop.clone();
    tokio::spawn(async move { worker.run(given).await });
    stop.drop_guard()
}

async fn until_closed(wheel: &Wheel, count: u64) {
    eventually(PATIENCE, async || {
        let stats = wheel.stats().await.ok()?;
        (stats.totals["closed"] >= count && stats.leased == 0).then_some(())
    })
    .await;
}

/// What the stream tells of reminders: (what, id, stage).
async fn told(wheel: &Wheel) -> Vec<(String, String, String)> {
    let mut reader = wheel.events(Moment::EPOCH);
    let mut all = Vec::new();
    while reader.read().await.map(|page| (page.more, all.extend(page.events)).0).unwrap() {}
    all.extend(reader.rest());
    all.retain(|event| event.what.starts_with("remind"));
    all.into_iter().map(|event| (event.what, event.id, event.details["stage"].clone())).collect()
}

fn three(what: &str, id: &str, stage: &str) -> (String, String, String) {
    (what.to_owned(), id.to_owned(), stage.to_owned())
}

#[tokio::test]
async fn reminders_fire_at_their_moments_then_the_close_and_what_has_passed_is_left_out() {
    let wheel = clocked().await;
    let at = |ms: u64| wheel.at_fixed_time((NOW + ms) * 1000);
    // 40 minutes before is in the past, 30 minutes before is now: both are left out.
    let minutes = |m: u64| m * 60_000;
    let before = [minutes(40), minutes(30), minutes(5), minutes(1)];
    place(&at(0), &reminding("x", after(minutes(30)), &before)).await;
    let mut seen = Vec::new();
    for (nonce, minute) in [(1, 25), (2, 29), (3, 30)] {
        let early = at(minutes(minute) - 1).claim(S, &ask(10 + nonce)).await.unwrap();
        assert!(early.leases.is_empty());
        assert_eq!(early.next_look, Some(moment(NOW + minutes(minute))));
        let wheel = at(minutes(minute));
        let lease = wheel.claim(S, &ask(nonce)).await.unwrap().leases.remove(0);
        seen.push((minute, lease.stage.0, lease.attempt));
        assert_eq!(lease.due_at, moment(NOW + minutes(30)), "the promise stays");
        let (stage, then) = lease.reminders.after(lease.stage, lease.due_at, moment(NOW + minutes(minute)));
        let what = match lease.stage {
            Stage::CLOSE => What::End { outcome: Outcome::Closed, lease: Arc::new(lease.clone()) },
            _ => What::Stage(stage, then, Reminded::Done),
        };
        let settlement = Settlement { id: id("x"), fence: lease.fence, what };
        assert_eq!(wheel.settle(S, std::slice::from_ref(&settlement)).await.unwrap(), [Settled::Done]);
        if stage != Stage::CLOSE {
            assert_eq!(wheel.settle(S, &[settlement]).await.unwrap(), [Settled::Stale]);
        }
    }
    assert_eq!(seen, [(25, 2, 1), (29, 1, 1), (30, 0, 1)]);
    assert_eq!(told(&wheel).await, [three("reminded", "x", "2"), three("reminded", "x", "1")]);
}

#[tokio::test]
async fn a_reminder_moves_with_its_deadline_and_begins_anew_with_a_new_moment() {
    let wheel = clocked().await;
    let at = |second: u64| wheel.at_fixed_time((NOW + 1000 * second) * 1000);
    let s = Duration::from_secs;
    place(&at(0), &reminding("x", DueAt::After(s(1800)), &[300_000, 60_000])).await;
    let next = async |wheel: &Wheel| {
        let entry = wheel.inspect(&id("x")).await.unwrap().entry.unwrap();
        (entry.stage.0, entry.next_at.as_millis().saturating_sub(NOW) / 1000)
    };
    assert_eq!(next(&wheel).await, (2, 1500));
    // A hold that ends before the reminder changes nothing; one that ends after it puts it off; one over the next stage passes it over.
    at(1400).hold(&id("x"), s(60)).await.unwrap().unwrap();
    assert_eq!(next(&wheel).await, (2, 1500));
    at(1400).hold(&id("x"), s(200)).await.unwrap().unwrap();
    assert_eq!(next(&wheel).await, (2, 1600));
    let released = at(1450).release(&id("x")).await.unwrap().unwrap();
    assert_eq!((released.next_at.as_millis() - NOW, next(&wheel).await), (1_500_000, (2, 1500)));
    at(1450).hold(&id("x"), s(320)).await.unwrap().unwrap();
    assert_eq!(next(&wheel).await, (1, 1770));
    // None of it put the close off, so none of it counts against the time that it may be held.
    assert_eq!(wheel.inspect(&id("x")).await.unwrap().entry.unwrap().hold_total, Duration::ZERO);
    let moved = at(1500).reschedule(&id("x"), DueAt::After(s(900)), None).await.unwrap().unwrap();
    assert_eq!((moved.due_at.as_millis() - NOW, next(&wheel).await), (2_400_000, (2, 2100)));
    at(1500).reschedule(&id("x"), DueAt::After(s(100)), None).await.unwrap().unwrap();
    assert_eq!(next(&wheel).await, (1, 1540));
    at(1500).reschedule(&id("x"), DueAt::After(s(10)), None).await.unwrap().unwrap();
    assert_eq!(next(&wheel).await, (0, 1510));
    let other = reminding("x", DueAt::After(s(600)), &[120_000]);
    wheel
        .at_fixed_time((NOW + 1_500_000) * 1000)
        .enqueue(&other, OnConflict::Replace, false)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(next(&wheel).await, (1, 1980));
    assert_eq!(wheel.verify(false).await.unwrap().findings, []);
}

#[tokio::test]
async fn a_cancel_takes_a_reminder_out_of_the_hands_of_a_worker() {
    let wheel = clocked().await;
    let at = |ms: u64| wheel.at_fixed_time((NOW + ms) * 1000);
    place(&at(0), &reminding("x", after(60_000), &[30_000])).await;
    let lease = at(30_000).claim(S, &ask(1)).await.unwrap().leases.remove(0);
    assert_eq!(at(30_001).cancel(&[id("x")]).await.remove(0).unwrap(), Ok(Cancelled::Cancelled));
    let what = What::Stage(Stage::CLOSE, lease.due_at, Reminded::Done);
    let late = Settlement { id: id("x"), fence: lease.fence, what };
    assert_eq!(at(30_002).settle(S, &[late]).await.unwrap(), [Settled::Stale]);
    assert!(at(60_000).claim(S, &ask(2)).await.unwrap().leases.is_empty());
    for name in ["bodies", "leases", "slots", "live"] {
        assert_eq!(RedisServer::shared().command::<u64>(&["EXISTS", &key(&wheel, S, name)]), 0, "{name}");
    }
    assert_eq!(told(&wheel).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_cancel_there_is_no_further_reminder_and_nothing_is_left() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let (hook, reminder) = (Arc::new(Recorder::closing()), Arc::new(Recorder::closing()));
    let settings = WorkerSettings { lease: Duration::from_secs(2), ..quick() };
    let _working = work(&wheel, &hook, Some(&reminder), settings);
    place(&wheel, &reminding("x", after(4000), &[3000, 2000, 1000])).await;
    eventually(PATIENCE, async || (wheel.stats().await.ok()?.totals["reminded"] == 1).then_some(())).await;
    assert_eq!(wheel.cancel(&[id("x")]).await.remove(0).unwrap(), Ok(Cancelled::Cancelled));
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert_eq!((reminder.count(), hook.count()), (1, 0));
    assert_eq!(wheel.inspect(&id("x")).await.unwrap().state, State::Ended);
    for name in ["bodies", "leases", "slots", "live"] {
        assert_eq!(RedisServer::shared().command::<u64>(&["EXISTS", &key(&wheel, S, name)]), 0, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_at_the_very_millisecond_of_a_reminder_leaves_at_most_that_one_and_no_close() {
    let count = if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() { 1000 } else { 200 };
    let wheel = wheel(RedisServer::shared(), 4).await;
    let (hook, reminder) = (Arc::new(Recorder::closing()), Arc::new(Recorder::closing()));
    let _working = work(&wheel, &hook, Some(&reminder), quick());
    let mut buyers = tokio::task::JoinSet::new();
    for n in 0..count {
        let wheel = wheel.clone();
        buyers.spawn(async move {
            let name = format!("o-{n}");
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..1000))).await;
            place(&wheel, &reminding(&name, after(2500), &[2400])).await;
            // A reminder at 100 ms, a cancel within 30 ms of it.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(70..130))).await;
            wheel.cancel(&[id(&name)]).await.remove(0).unwrap()
        });
    }
    let answers = buyers.join_all().await;
    assert!(answers.iter().all(|answer| *answer == Ok(Cancelled::Cancelled)), "{answers:?}");
    tokio::time::sleep(Duration::from_millis(3000)).await;
    assert_eq!(hook.count(), 0, "closed after a cancel");
    let (calls, told) = (reminder.count(), told(&wheel).await.len());
    println!("{count} cancelled: {calls} reminders called, {told} told of");
    assert!(told <= calls && calls < count, "{told} of {calls}");
    for n in 0..count {
        assert!(reminder.of(&format!("o-{n}")).len() <= 1, "o-{n} was reminded twice");
    }
    assert_eq!(wheel.stats().await.unwrap().scheduled, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reminder_that_fails_is_tried_again_then_given_up_and_never_buried() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    let script = |lease: &Lease| match lease.id.as_str() {
        "twice" if lease.attempt < 3 => Verdict::Failed { reason: "mail server said 500".to_owned() },
        "twice" => Verdict::Closed,
        "paid" => Verdict::Skipped { state: "paid".to_owned() },
        "gone" => Verdict::Gone { reason: "no such order".to_owned() },
        "broken" => panic!("a bug in the reminder"),
        _ => Verdict::Failed { reason: "always".to_owned() },
    };
    let (hook, reminder) = (Arc::new(Recorder::closing()), Arc::new(Recorder::new(script).one_by_one()));
    let _working = work(&wheel, &hook, Some(&reminder), quick());
    let all = ["twice", "always", "paid", "gone", "broken"];
    for one in all {
        place(&wheel, &reminding(one, after(4500), &[4000])).await;
    }
    until_closed(&wheel, 5).await;
    let attempts = |id: &str| reminder.of(id).iter().map(|call| call.attempt).collect::<Vec<_>>();
    assert_eq!(attempts("twice"), [1, 2, 3]);
    assert_eq!(attempts("always"), [1, 2, 3]);
    assert_eq!((attempts("paid"), attempts("gone")), (vec![1], vec![1]));
    let mut told = told(&wheel).await;
    told.sort();
    let failed = ["always", "broken", "gone"].map(|id| three("reminder_failed", id, "1"));
    let mut expected = vec![three("reminded", "twice", "1")];
    expected.extend(failed);
    assert_eq!(told, expected);
    for one in all {
        let close = hook.of(one);
        assert_eq!((close.len(), close[0].attempt), (1, 1), "{one}: the close counts for itself");
        assert!((0..3_000_000).contains(&close[0].lateness_us), "{one}: {close:?}");
    }
    assert_eq!(wheel.stats().await.unwrap().dead, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reminder_hook_that_never_answers_holds_up_no_close() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    let hook = Arc::new(Recorder::closing());
    let hanging = Arc::new(Recorder::closing().taking(Duration::from_secs(25)).one_by_one());
    let settings = WorkerSettings { concurrency: 8, lease: Duration::from_secs(30), ..quick() };
    let _working = work(&wheel, &hook, Some(&hanging), settings);
    for n in 0..60 {
        place(&wheel, &reminding(&format!("o-{n}"), after(2500), &[2000, 1000])).await;
    }
    until_closed(&wheel, 60).await;
    let late = hook.calls.lock().unwrap().iter().map(|call| call.lateness_us).max().unwrap();
    assert!(late < 8_000_000, "a close waited {late} us for a reminder");
    assert_eq!(hook.count(), 60);
    assert_eq!(wheel.stats().await.unwrap().totals["reminded"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_waits_for_the_reminder_that_is_being_given_and_settles_it() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let reminder = Arc::new(Recorder::closing().taking(Duration::from_millis(400)));
    let worker = Worker::new(wheel.clone(), Arc::new(Recorder::closing()), quick()).unwrap();
    let worker = worker.reminding_by(reminder.clone()).unwrap();
    let stop = CancellationToken::new();
    let given = stop.clone();
    let work = tokio::spawn(async move { worker.run(given).await });
    place(&wheel, &reminding("x", after(3_600_000), &[3_599_900])).await;
    eventually(PATIENCE, async || (reminder.count() == 1).then_some(())).await;
    stop.cancel();
    let drained = work.await.unwrap();
    assert!(drained.clean, "{drained:?}");
    assert_eq!(told(&wheel).await, [three("reminded", "x", "1")]);
    assert_eq!(wheel.stats().await.unwrap().leased, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_hook_the_event_is_the_reminder() {
    let settings = WheelSettings { remind: reminders(&[800, 400]), ..settings(1) };
    let wheel = wheel_of(RedisServer::shared(), settings).await;
    let hook = Arc::new(Recorder::closing());
    let _working = work(&wheel, &hook, None, quick());
    // The wheel's own reminders, and one deadline that wants none.
    place(&wheel, &deadline("x", after(1600))).await;
    place(&wheel, &reminding("y", after(1600), &[])).await;
    until_closed(&wheel, 2).await;
    assert_eq!(told(&wheel).await, [three("reminded", "x", "2"), three("reminded", "x", "1")]);
}

#[tokio::test]
async fn a_worker_that_died_with_a_reminder_delays_neither_the_next_one_nor_the_close() {
    let wheel = clocked().await;
    let at = |ms: u64| wheel.at_fixed_time((NOW + ms) * 1000);
    let long = |nonce| Ask { lease: Duration::from_secs(3600), ..ask(nonce) };
    place(&at(0), &reminding("x", after(60_000), &[30_000, 10_000])).await;
    let dead = at(30_000).claim(S, &long(1)).await.unwrap().leases.remove(0);
    assert!(dead.fence.0 < (NOW + 50_000) * 1000, "the lease ends before the next reminder is due");
    let next = at(50_000).claim(S, &long(2)).await.unwrap().leases.remove(0);
    assert_eq!((next.stage, next.attempt), (Stage(1), 1));
    assert!(next.fence > dead.fence && next.fence.0 < (NOW + 60_000) * 1000);
    let close = at(60_000).claim(S, &long(3)).await.unwrap().leases.remove(0);
    assert_eq!((close.stage, close.attempt, close.due_at), (Stage::CLOSE, 1, moment(NOW + 60_000)));
    assert!(close.fence > next.fence);
    for lease in [dead, next] {
        let what = What::Stage(Stage::CLOSE, lease.due_at, Reminded::Done);
        let settlement = Settlement { id: id("x"), fence: lease.fence, what };
        assert_eq!(at(60_001).settle(S, &[settlement]).await.unwrap(), [Settled::Stale]);
    }
    let failed = [three("reminder_failed", "x", "2"), three("reminder_failed", "x", "1")];
    assert_eq!(told(&wheel).await, failed);
    assert_eq!(wheel.inspect(&id("x")).await.unwrap().entry.unwrap().losses, 0, "losses are per stage");
}

#[tokio::test]
async fn a_retry_that_would_reach_the_close_gives_the_reminder_up() {
    let wheel = clocked().await;
    let at = |ms: u64| wheel.at_fixed_time((NOW + ms) * 1000);
    for (nonce, what) in [
        (1, What::Retry(Duration::from_secs(30), String::new())),
        (2, What::Wait(Duration::from_secs(3600))),
        (3, What::Until(moment(NOW + 60_000))),
    ] {
        let name = format!("o-{nonce}");
        place(&at(0), &reminding(&name, after(60_000), &[30_000])).await;
        let lease = at(30_000).claim(S, &ask(nonce)).await.unwrap().leases.remove(0);
        let settlement = Settlement { id: lease.id, fence: lease.fence, what };
        assert_eq!(at(30_000).settle(S, &[settlement]).await.unwrap(), [Settled::Done]);
        let entry = wheel.inspect(&id(&name)).await.unwrap().entry.unwrap();
        assert_eq!((entry.stage, entry.next_at), (Stage::CLOSE, moment(NOW + 60_000)));
    }
    assert_eq!(at(60_000).claim(S, &ask(9)).await.unwrap().leases.len(), 3);
}

// What may happen to three orders with reminders, in any order.
#[derive(Debug, Clone)]
enum Step {
    Clock(u64),
    Claim { limit: usize, lease_ms: u64 },
    Settle { back: usize, verdict: u8 },
    Cancel(usize),
    Hold(usize, u64),
    Release(usize),
    Reschedule(usize, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let id = || 0..3_usize;
    prop_oneof![
        6 => prop::sample::select(vec![1, 40, 400, 1000, 2500]).prop_map(Step::Clock),
        6 => (1..4_usize, prop::sample::select(vec![1, 500, 2000, 60_000]))
            .prop_map(|(limit, lease_ms)| Step::Claim { limit, lease_ms }),
        6 => (0..6_usize, 0..8_u8).prop_map(|(back, verdict)| Step::Settle { back, verdict }),
        1 => id().prop_map(Step::Cancel),
        2 => (id(), prop::sample::select(vec![1, 900, 3000, 6000])).prop_map(|(id, ms)| Step::Hold(id, ms)),
        1 => id().prop_map(Step::Release),
        1 => (id(), prop::sample::select(vec![0, 700, 8000])).prop_map(|(id, ms)| Step::Reschedule(id, ms)),
    ]
}

/// The most that a deadline may be held in all, in these histories.
const HOLD_CAP_MS: u64 = 5000;

/// What must be true of one order.
#[derive(Debug, Clone, Default)]
struct Promise {
    /// When it closes at the latest: its moment, or the end of what it was held for.
    close_ms: u64,
    due_ms: u64,
    held_until_ms: u64,
    closing: bool,
    ended: bool,
}

struct Play {
    wheel: Wheel,
    now_ms: u64,
    orders: [Promise; 3],
    leases: Vec<Lease>,
    reminded: BTreeSet<(String, u64, u8)>,
    nonce: u64,
    seen: BTreeMap<&'static str, u64>,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

impl Play {
    fn at(&self) -> Wheel {
        self.wheel.at_fixed_time(self.now_ms * 1000)
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    async fn claim(&mut self, limit: usize, lease_ms: u64) -> Result<(), TestCaseError> {
        self.nonce += 1;
        let ask =
            Ask { limit, lease: Duration::from_millis(lease_ms), margin: Duration::ZERO, ..ask(self.nonce) };
        for lease in self.at().claim(S, &ask).await.unwrap().leases {
            let at = NAMES.iter().position(|name| *name == lease.id.as_str()).unwrap();
            let order = self.orders[at].clone();
            prop_assert!(!order.ended, "{} was leased at stage {} after its end", lease.id, lease.stage.0);
            if lease.stage == Stage::CLOSE {
                prop_assert!(self.now_ms >= order.due_ms, "{} closes early", lease.id);
                self.orders[at].closing = true;
                self.saw("close");
            } else {
                let own = lease.reminders.moment(lease.stage, lease.due_at).as_millis();
                let next = lease.reminders.moment(Stage(lease.stage.0 - 1), lease.due_at).as_millis();
                prop_assert!(
                    (own..next).contains(&self.now_ms),
                    "{} out of its time: {own} {next}",
                    lease.id
                );
                prop_assert!(
                    lease.fence.0 <= next * 1000,
                    "{}'s lease reaches into the next stage",
                    lease.id
                );
                let known = (lease.id.as_str().to_owned(), lease.generation.0, lease.stage.0);
                prop_assert!(!self.reminded.contains(&known), "{} is reminded of twice", lease.id);
                self.saw("reminder");
            }
            self.leases.push(lease);
        }
        Ok(())
    }

    async fn settle(&mut self, back: usize, verdict: u8) -> Result<(), TestCaseError> {
        let Some(at) = self.leases.len().checked_sub(back + 1) else { return Ok(()) };
        let lease = self.leases[at].clone();
        let (stage, then) = lease.reminders.after(lease.stage, lease.due_at, moment(self.now_ms));
        let what = match (lease.stage, verdict) {
            (Stage::CLOSE, _) => What::End { outcome: Outcome::Closed, lease: Arc::new(lease.clone()) },
            (_, 0..=2) => What::Stage(stage, then, Reminded::Done),
            (_, 3) => What::Stage(stage, then, Reminded::Failed),
            (_, 4) => What::Retry(Duration::from_millis(700), String::new()),
            (_, 5) => What::Wait(Duration::from_secs(60)),
            (_, 6) => What::Until(moment(self.now_ms + 1500)),
            _ => What::Back,
        };
        let reminds = matches!(what, What::Stage(_, _, Reminded::Done));
        let closes = lease.stage == Stage::CLOSE;
        let settlement = Settlement { id: lease.id.clone(), fence: lease.fence, what };
        if self.at().settle(S, &[settlement]).await.unwrap() == [Settled::Done] {
            let order = NAMES.iter().position(|name| *name == lease.id.as_str()).unwrap();
            prop_assert!(closes || !self.orders[order].ended, "{} is settled after its end", lease.id);
            self.orders[order].ended |= closes;
            if reminds {
                let fresh = (lease.id.as_str().to_owned(), lease.generation.0, lease.stage.0);
                prop_assert!(self.reminded.insert(fresh), "{} was reminded of twice", lease.id);
                self.saw("reminded");
            }
        } else {
            self.saw("stale");
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Clock(ms) => self.now_ms += ms,
            Step::Claim { limit, lease_ms } => self.claim(limit, lease_ms).await?,
            Step::Settle { back, verdict } => self.settle(back, verdict).await?,
            Step::Cancel(at) => {
                let answer = self.at().cancel(&[id(NAMES[at])]).await.remove(0).unwrap();
                // Only a close that is under way may still end it otherwise.
                prop_assert!(answer != Ok(Cancelled::Leased) || self.orders[at].closing);
                self.orders[at].ended |= matches!(answer, Ok(Cancelled::Cancelled));
                self.orders[at].closing |= answer == Ok(Cancelled::Leased);
            }
            Step::Hold(at, ms) => {
                if let Ok(held) = self.at().hold(&id(NAMES[at]), Duration::from_millis(ms)).await.unwrap() {
                    let order = &mut self.orders[at];
                    order.held_until_ms = order.held_until_ms.max(self.now_ms + ms);
                    let latest = order.due_ms.max(self.now_ms) + HOLD_CAP_MS;
                    prop_assert!(held.next_at.as_millis() <= latest.max(order.close_ms));
                    order.close_ms = order.close_ms.max(self.now_ms + ms);
                    prop_assert!(order.close_ms <= latest, "held beyond the cap");
                    self.saw("hold");
                }
            }
            Step::Release(at) => {
                if let Ok(freed) = self.at().release(&id(NAMES[at])).await.unwrap() {
                    let order = &mut self.orders[at];
                    order.close_ms =
                        order.due_ms.max(if order.due_ms < self.now_ms { self.now_ms } else { 0 });
                    prop_assert!(freed.next_at.as_millis() <= order.close_ms);
                }
            }
            Step::Reschedule(at, ms) => {
                let due = DueAt::Moment(moment(self.now_ms + ms));
                if self.at().reschedule(&id(NAMES[at]), due, None).await.unwrap().is_ok() {
                    let due_ms = self.now_ms + ms;
                    let order = &mut self.orders[at];
                    (order.due_ms, order.close_ms, order.held_until_ms) = (due_ms, due_ms, 0);
                }
            }
        }
        Ok(())
    }

    /// At its moment every order that has not ended is there to be closed, whatever became of its reminders.
    async fn end(&mut self) -> Result<(), TestCaseError> {
        let mut order: Vec<usize> = (0..3).collect();
        order.sort_by_key(|at| self.orders[*at].close_ms);
        for at in order {
            self.now_ms = self.now_ms.max(self.orders[at].close_ms);
            // A suspect, which lost its close's lease twice, is leased alone: one claim for each may be needed.
            for _ in 0..3 {
                self.claim(10, 60_000).await?;
            }
            let promise = &self.orders[at];
            prop_assert!(
                promise.ended || promise.closing,
                "{} is not there to be closed: {promise:?}",
                NAMES[at]
            );
        }
        prop_assert_eq!(self.wheel.verify(false).await.unwrap().findings, []);
        Ok(())
    }
}

#[test]
fn whatever_happens_to_its_reminders_an_order_is_there_to_be_closed_at_its_moment() {
    let server = RedisServer::start(RedisOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cases = if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() { 4000 } else { 250 };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let seen = std::cell::RefCell::new(BTreeMap::<&str, u64>::new());
    let mut runner = TestRunner::new(config);
    let outcome = runner.run(&prop::collection::vec(step(), 10..60), |steps| {
        runtime.block_on(async {
            let settings = WheelSettings {
                hold_max_count: 3,
                hold_max_total: Duration::from_millis(HOLD_CAP_MS),
                ..settings(1)
            };
            let wheel = wheel_of(&server, settings).await;
            with_test_clock(&server, &wheel);
            let mut play = Play {
                wheel,
                now_ms: NOW,
                orders: Default::default(),
                leases: Vec::new(),
                reminded: BTreeSet::new(),
                nonce: 0,
                seen: BTreeMap::new(),
            };
            for (at, name) in NAMES.iter().enumerate() {
                let due_ms = NOW + 10_000 + 100 * at as u64;
                let before: &[u64] = [&[8000, 3000, 1000][..], &[1], &[9000, 8999, 2]][at];
                place(&play.at(), &reminding(name, DueAt::Moment(moment(due_ms)), before)).await;
                play.orders[at] = Promise { close_ms: due_ms, due_ms, ..Promise::default() };
            }
            for step in &steps {
                play.step(step).await?;
            }
            play.end().await?;
            play.seen.into_iter().for_each(|(what, n)| *seen.borrow_mut().entry(what).or_default() += n);
            Ok(())
        })
    });
    outcome.unwrap();
    let seen = seen.into_inner();
    println!("{cases} histories: {seen:?}");
    for what in ["reminder", "reminded", "stale", "hold", "close"] {
        assert!(
            seen.get(what).copied().unwrap_or(0) >= u64::from(cases) / 10,
            "too little of {what}: {seen:?}"
        );
    }
}

#[test]
fn the_command_line_places_shows_carries_and_leaves_out_reminders() {
    let cli = Cli::new(RedisServer::shared());
    cli.run(&["enqueue", "o-1", "--in", "30m", "--remind", "5m", "--remind", "1m"]).ends(0);
    let shown = cli.run(&["inspect", "o-1", "--json"]).ends(0).object();
    assert_eq!(shown["deadline"]["stage"], 2);
    assert_eq!(shown["deadline"]["remind"], serde_json::json!(["1m", "5m"]));
    let text = cli.run(&["inspect", "o-1"]).ends(0).stdout;
    assert!(text.contains("5m, 1m before the close; the one 5m before is next (stage 2)"), "{text}");
    assert!(cli.run(&["list"]).ends(0).stdout.contains("reminder 5m before, due"));
    // An export carries them, and a bulk file may name them.
    let exported = cli.run(&["export"]).ends(0).stdout;
    let copy = Cli::new(RedisServer::shared());
    copy.run_with(&["import", "-"], exported.as_bytes()).ends(0);
    assert_eq!(copy.run(&["inspect", "o-1", "--json"]).ends(0).object()["deadline"], shown["deadline"]);
    let lines = b"{\"id\":\"o-2\",\"in\":\"30m\",\"remind\":[\"10m\"]}\n{\"id\":\"o-3\",\"in\":\"30m\",\"remind\":[\"0s\"]}\n";
    let bulk = cli.run_with(&["enqueue", "--file", "-"], lines).ends(4);
    assert!(bulk.stderr.contains("remind \"0s\": expected 1ms to 45d before the close"), "{bulk:?}");
    assert_eq!(cli.run(&["inspect", "o-2", "--json"]).ends(0).object()["deadline"]["stage"], 1);
    let twice = cli.run(&["enqueue", "o-4", "--in", "30m", "--remind", "5m", "--remind", "300s"]).ends(2);
    assert!(twice.stderr.contains("is given twice"), "{twice:?}");
    // From the configuration, for deadlines that do not say themselves.
    cli.write("duewheel.toml", format!("[wheel.{}]\nremind = [\"5m\"]\n", cli.wheel));
    cli.run(&["enqueue", "o-5", "--in", "30m"]).ends(0);
    cli.run(&["enqueue", "o-6", "--in", "30m", "--no-remind"]).ends(0);
    cli.run(&["enqueue", "o-7", "--in", "4m"]).ends(0);
    for (order, stage) in [("o-5", 1), ("o-6", 0), ("o-7", 0)] {
        let shown = cli.run(&["inspect", order, "--json"]).ends(0).object();
        assert_eq!(shown["deadline"]["stage"], stage, "{order}");
    }
    cli.write("duewheel.toml", format!("[wheel.{}]\nremind = [\"5m\", \"50d\"]\n", cli.wheel));
    assert!(cli.run(&["stats"]).ends(78).stderr.contains("remind"));
}

#[cfg(feature = "webhook")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endpoint_is_called_with_a_key_for_each_reminder_that_stays_over_its_attempts() {
    use crate::rig::stub::{Answer, Stub};
    use crate::rig::worker::{Fleet, Plan, soon};

    let stub = Stub::start().await;
    let plan = Plan::new(RedisServer::shared().url()).calling(&stub.url("/close"));
    let fleet = Fleet::new(RedisServer::shared(), &plan).await;
    stub.script("7", vec![Answer::status(500), Answer::status(500), Answer::status(200)]);
    let one =
        Deadline { reminders: Some(reminders(&[3000, 1000])), ..deadline("7", DueAt::Moment(soon(4000))) };
    let due_ms = match one.due_at {
        DueAt::Moment(moment) => moment.as_millis(),
        DueAt::After(_) => 0,
    };
    place(&fleet.wheel, &one).await;
    let worker = fleet.start();
    fleet.idle(PATIENCE).await;
    let calls: Vec<(String, String, u64)> = stub
        .calls()
        .iter()
        .map(|call| {
            let body: serde_json::Value = serde_json::from_slice(&call.body).unwrap();
            let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            let stage = body["data"]["stage"].as_u64().unwrap();
            (text(&body["type"]), call.header("webhook-id").unwrap().to_owned(), stage)
        })
        .collect();
    let stages: Vec<u64> = calls.iter().map(|call| call.2).collect();
    assert_eq!(stages, [2, 2, 2, 1, 0], "{calls:?}");
    let keys: BTreeSet<&String> = calls.iter().map(|call| &call.1).collect();
    assert_eq!(keys.len(), 3, "one key a stage: {calls:?}");
    for (kind, _, stage) in &calls {
        assert_eq!(kind, if *stage == 0 { "order.close_due" } else { "order.reminder_due" });
    }
    let close = stub.calls().last().unwrap().arrived_ms;
    assert!((due_ms..due_ms + 3000).contains(&close), "the close came at {close}, due {due_ms}");
    let tally = worker.drain().await;
    assert_eq!((&tally["closed"], &tally["reminded"]), (&1.into(), &2.into()), "{tally}");
}
