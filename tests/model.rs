//! The wheel equals a model of it in plain Rust: random histories of 50 steps over three ids and two workers, with jumps of the clock,
//! lost replies, repeated nonces and stale settles, on a real Redis. A history that differs is shrunk before it is shown.

mod shard;
mod step;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use duewheel::clock::Moment;
use duewheel::deadline::{
    Cause, Deadline, DueAt, Generation, Id, Note, OnConflict, Outcome, Payload, Reminders, Stage, State,
};
use duewheel::lease::{Fence, Lease};
use duewheel::shard::Shard;
use duewheel::wheel::answer::{Answer, Row};
use duewheel::wheel::{
    Ask, RedisSettings, Reminded, Renewed, Settlement, ShardState, Store, What, Wheel, WheelSettings,
};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};

use crate::rig::redis::{RedisOptions, RedisServer};
use shard::{Asked, Check, Given, IDS, Model, Place, ensure, same};
use step::{Due, Expected, REMIND, Step, Verb, Verdict, history, millis};

/// 2,000 here, 5,000 with `DUEWHEEL_TEST_LONG`.
fn histories() -> u32 {
    if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() { 5000 } else { 2000 }
}
/// More than cores: while one waits for Redis the others compute.
const THREADS: u32 = 4;
const S: Shard = Shard(0);
/// 2027: ahead of every host that runs this, so that no moment of a history is refused for lying too far ahead.
const BASE_MS: u64 = 1_800_000_000_000;

/// How often each verb met each state.
type Coverage = Mutex<BTreeMap<(&'static str, &'static str), u64>>;

#[test]
fn random_histories_end_as_the_model_says() {
    let server = RedisServer::start(RedisOptions::default());
    let coverage = Coverage::default();
    let ran = AtomicU64::new(0);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|db| {
                let (server, coverage, ran) = (&server, &coverage, &ran);
                scope.spawn(move || run(server, db, coverage, ran))
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap().err()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert_eq!(ran.load(Ordering::Relaxed), u64::from(histories()));
    every_pair_was_met(&coverage.lock().unwrap());
}

fn every_pair_was_met(met: &BTreeMap<(&'static str, &'static str), u64>) {
    for word in ["reminded", "reminder_failed"] {
        let times = met.get(&("total", word)).copied().unwrap_or(0);
        assert!(times >= 40, "{word} only {times} times");
    }
    let states = [State::Absent, State::Scheduled, State::Leased, State::Dead, State::Ended];
    let verbs = [
        "enqueue",
        "cancel",
        "drop_dead",
        "reschedule",
        "hold",
        "release",
        "close",
        "revive",
        "claim",
        "settle",
        "renew",
        "prune",
        "pause",
        "resume",
        "inspect",
    ];
    for verb in verbs {
        for state in states {
            let times = met.get(&(state.as_str(), verb)).copied().unwrap_or(0);
            assert!(times >= 8, "{verb} met {} only {times} times", state.as_str());
        }
    }
}

fn run(server: &RedisServer, db: u32, coverage: &Coverage, ran: &AtomicU64) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = format!("{}?db={db}", server.unix_url());
    // The histories say nothing about time; on a loaded machine an answer may take its own.
    let redis =
        RedisSettings { response_timeout: crate::rig::PATIENCE, ..RedisSettings::new(url.as_str().into()) };
    let store = Arc::new(Store::new(&redis).unwrap());
    let settings = WheelSettings {
        shards: duewheel::shard::ShardCount::new(1).unwrap(),
        ..WheelSettings::new(duewheel::shard::WheelName::new("model").unwrap())
    };
    let wheel = Wheel::new(store, settings);
    let config = Config { cases: histories() / THREADS, failure_persistence: None, ..Config::default() };
    let failed = TestRunner::new(config).run(&history(), |steps| {
        let outcome = runtime.block_on(History::play(&wheel, steps, coverage));
        ran.fetch_add(1, Ordering::Relaxed);
        outcome.map_err(TestCaseError::fail)
    });
    failed.map_err(|e| match e {
        TestError::Fail(reason, steps) => format!("{reason}\nhistory:{}", shown(&steps)),
        TestError::Abort(reason) => reason.to_string(),
    })
}

/// The steps, one a line; those that shrank to a tick of the clock together.
fn shown(steps: &[Step]) -> String {
    let (mut text, mut ticks) = (String::new(), 0);
    for step in steps {
        if let Step::Clock(1) = step {
            ticks += 1;
            continue;
        }
        if ticks > 0 {
            text += &format!("\n  {ticks} x Clock(1)");
            ticks = 0;
        }
        text += &format!("\n  {step:?}");
    }
    text
}

/// One history as it goes.
struct History<'a> {
    wheel: &'a Wheel,
    model: Model,
    /// What each worker was ever given, with the lease's current end as the worker knows it; the latest last.
    known: [Vec<(Lease, Fence)>; 2],
    nonces: [u64; 2],
    coverage: &'a Coverage,
}

impl<'a> History<'a> {
    async fn play(wheel: &'a Wheel, steps: Vec<Step>, coverage: &'a Coverage) -> Check {
        let prepare = |words: &[&str]| {
            let mut cmd = redis::cmd(words[0]);
            cmd.arg(&words[1..]);
            cmd
        };
        let store = wheel.store();
        store.command(&prepare(&["FLUSHDB"]), "prepare").await.unwrap();
        let meta =
            ["HSET", "dw1:{model.0}:meta", "layout", "1", "shards", "1", "width", "1000", "clock", "test"];
        store.command(&prepare(&meta), "prepare").await.unwrap();
        let model = Model::new(BASE_MS * 1000);
        let mut history = Self { wheel, model, known: Default::default(), nonces: [1, 1], coverage };
        for (at, step) in steps.into_iter().enumerate() {
            history.step(&step).await.map_err(|e| format!("step {at}, {step:?}: {e}"))?;
        }
        for word in ["reminded", "reminder_failed"] {
            let times = history.model.totals.get(word).copied().unwrap_or(0);
            *coverage.lock().unwrap().entry(("total", word)).or_default() += times;
        }
        history.compare().await
    }

    async fn step(&mut self, step: &Step) -> Check {
        match step {
            Step::Clock(us) => {
                // Not before the history began: a generation of 0 would be a moment of 1970.
                self.model.now_us = self.model.now_us.saturating_add_signed(*us).max(BASE_MS * 1000);
                Ok(())
            }
            Step::Call(verb) => self.call(verb, true).await,
            Step::Lost(verb, us) => {
                let nonces = self.nonces;
                self.call(verb, false).await?;
                self.nonces = nonces;
                self.model.now_us += us;
                self.call(verb, true).await
            }
        }
    }

    fn met(&self, verb: &'static str, ids: impl IntoIterator<Item = usize>) {
        let mut coverage = self.coverage.lock().unwrap();
        for id in ids {
            *coverage.entry((self.model.state(id).as_str(), verb)).or_default() += 1;
        }
    }

    fn due(&self, due: Due) -> DueAt {
        match due {
            Due::Fixed(ms) => DueAt::Moment(at(BASE_MS + 10_000 + ms)),
            Due::FromNow(ms) => DueAt::Moment(at((self.model.now_us / 1000).saturating_add_signed(ms))),
            Due::After(us) => DueAt::After(Duration::from_micros(us)),
        }
    }

    /// Makes a call and lets the model judge the answer; `heard` is whether the client hears it too.
    async fn call(&mut self, verb: &Verb, heard: bool) -> Check {
        let wheel = self.wheel.at_fixed_time(self.model.now_us);
        match verb {
            Verb::Enqueue { ids, due, on_conflict, force, cause, payload, remind } => {
                self.met("enqueue", ids.iter().copied());
                let due = self.due(*due);
                let on_conflict =
                    [OnConflict::Keep, OnConflict::Replace, OnConflict::Later, OnConflict::Earlier]
                        [usize::from(*on_conflict)];
                let cause = Cause::from_stored(*cause).unwrap();
                let payload =
                    Payload::from_json(["", "{\"n\":1e400}", "[2]"][usize::from(*payload)]).unwrap();
                let before: Vec<Duration> = REMIND[*remind].iter().map(|ms| millis(*ms)).collect();
                let reminders = Reminders::new(&before).unwrap();
                let one = |id: &usize| Deadline {
                    id: order(*id),
                    due_at: due,
                    payload: payload.clone(),
                    traceparent: None,
                    cause,
                    reminders: Some(reminders.clone()),
                };
                let batch: Vec<_> = ids.iter().map(one).collect();
                let answers = all(wheel.enqueue_batch(&batch, on_conflict, *force).await);
                self.model.enqueue(ids, due, on_conflict, *force, cause, &payload, &reminders, &answers)
            }
            Verb::Cancel { ids, only_dead } => {
                self.met(if *only_dead { "drop_dead" } else { "cancel" }, ids.iter().copied());
                let orders: Vec<_> = ids.iter().map(|id| order(*id)).collect();
                let answers =
                    if *only_dead { wheel.drop_dead(&orders).await } else { wheel.cancel(&orders).await };
                self.model.cancel(ids, *only_dead, &all(answers))
            }
            Verb::Reschedule { id, due, expected } => {
                self.met("reschedule", [*id]);
                let due = self.due(*due);
                let stored = self.model.lives[*id].as_ref().map_or(Generation(7), |life| life.generation);
                let expected = match expected {
                    Expected::Any => None,
                    Expected::Stored => Some(stored),
                    Expected::Another => Some(Generation(stored.0 - 1)),
                };
                let answer = wheel.reschedule(&order(*id), due, expected).await.unwrap();
                self.model.reschedule(*id, due, expected, &answer)
            }
            Verb::Hold { id, ms } => {
                self.met("hold", [*id]);
                let answer = wheel.hold(&order(*id), millis(*ms)).await.unwrap();
                self.model.hold(*id, *ms, &answer)
            }
            Verb::Release { id } => {
                self.met("release", [*id]);
                let answer = wheel.release(&order(*id)).await.unwrap();
                self.model.release(*id, &answer)
            }
            Verb::Close { id } => {
                self.met("close", [*id]);
                let note = Note::new("anna", "by hand").unwrap();
                let answer = wheel.close(&order(*id), &note).await.unwrap();
                self.model.close(*id, &note, &answer)
            }
            Verb::Revive { id } => {
                self.met("revive", [*id]);
                let answer = wheel.revive(&order(*id)).await.unwrap();
                self.model.revive(*id, &answer)
            }
            Verb::Claim { worker, again, limit, lease_us, suspect, poison, late_ms } => {
                self.met("claim", 0..3);
                if !again {
                    self.nonces[*worker] += 1;
                }
                let asked = Asked {
                    worker: *worker,
                    nonce: self.nonces[*worker],
                    limit: *limit,
                    lease_us: *lease_us,
                    suspect: *suspect,
                    poison: *poison,
                    late_ms: *late_ms,
                };
                self.claim(&wheel, &asked, heard).await
            }
            Verb::Settle { worker, items } => self.settle(&wheel, *worker, items).await,
            Verb::Renew { worker, items, extension_us } => {
                self.renew(&wheel, *worker, items, *extension_us, heard).await
            }
            Verb::Prune => {
                self.met("prune", 0..3);
                let (next, removed) = wheel.prune(S, 0).await.unwrap();
                same("prune: next", &next, &None)?;
                self.model.prune(removed)
            }
            Verb::Pause => {
                self.met("pause", 0..3);
                self.model.paused = true;
                same("pause", &wheel.pause(&Note::new("anna", "incident").unwrap()).await.unwrap(), &(1, 1))
            }
            Verb::Resume => {
                self.met("resume", 0..3);
                self.model.paused = false;
                same("resume", &wheel.resume().await.unwrap().1, &(1, 1))
            }
            Verb::Inspect { id } => {
                self.met("inspect", [*id]);
                same("inspect", &wheel.inspect(&order(*id)).await.unwrap(), &self.model.inspection(*id))
            }
        }
    }

    async fn claim(&mut self, wheel: &Wheel, asked: &Asked, heard: bool) -> Check {
        let ask = Ask {
            limit: asked.limit,
            lease: Duration::from_micros(asked.lease_us),
            margin: Duration::ZERO,
            worker: ["w0", "w1"][asked.worker],
            nonce: asked.nonce,
            suspect: asked.suspect,
            poison_limit: asked.poison,
            late: millis(asked.late_ms),
            good_until_us: 0,
            sent: Instant::now(),
        };
        let claimed = wheel.claim(S, &ask).await.unwrap();
        let given = Given {
            paused: claimed.state == ShardState::Paused,
            reaped: claimed.reaped,
            alone: claimed.alone,
            next_look: claimed.next_look,
            leases: &claimed.leases,
        };
        self.model.claim(asked, &given)?;
        if heard {
            let new = claimed.leases.into_iter().map(|lease| (lease.fence, lease));
            self.known[asked.worker].extend(new.map(|(fence, lease)| (lease, fence)));
        }
        Ok(())
    }

    /// The `back`th lease of a worker, counted from the latest.
    fn lease(&mut self, worker: usize, back: usize) -> Option<&mut (Lease, Fence)> {
        let known = &mut self.known[worker];
        let at = known.len().checked_sub(back + 1)?;
        known.get_mut(at)
    }

    async fn settle(&mut self, wheel: &Wheel, worker: usize, items: &[(usize, Verdict)]) -> Check {
        let now = self.model.now_us / 1000;
        let mut settlements = Vec::new();
        for (back, verdict) in items {
            let Some((lease, fence)) = self.lease(worker, *back) else { continue };
            let end = |outcome| What::End { outcome, lease: Arc::new(lease.clone()) };
            let what = match *verdict {
                Verdict::Closed => end(Outcome::Closed),
                Verdict::Skipped => end(Outcome::Skipped),
                Verdict::Retry(ms) => What::Retry(millis(ms), format!("failed, {ms}")),
                Verdict::Wait(ms) => What::Wait(millis(ms)),
                Verdict::Until(ms) => What::Until(at(now.saturating_add_signed(ms))),
                Verdict::Back => What::Back,
                Verdict::Bury => What::Bury("no such order".to_owned()),
                Verdict::Stage(stage, ms) => What::Stage(Stage(stage), at(now + ms), Reminded::Needless),
                Verdict::Reminded(told) => {
                    let (stage, moment) = lease.reminders.after(lease.stage, lease.due_at, at(now));
                    let told = [Reminded::Done, Reminded::Failed, Reminded::Needless][usize::from(told)];
                    What::Stage(stage, moment, told)
                }
            };
            settlements.push(Settlement { id: lease.id.clone(), fence: *fence, what });
        }
        if settlements.is_empty() {
            return Ok(());
        }
        let items: Vec<_> = settlements.iter().map(|s| (number(&s.id), s.fence.0, s.what.clone())).collect();
        self.met("settle", items.iter().map(|item| item.0));
        let answers = wheel.settle(S, &settlements).await.unwrap();
        self.model.settle(&items, &answers)
    }

    async fn renew(
        &mut self,
        wheel: &Wheel,
        worker: usize,
        items: &[usize],
        extension: u64,
        heard: bool,
    ) -> Check {
        let mut asked = Vec::new();
        for back in items {
            if let Some((lease, fence)) = self.lease(worker, *back) {
                asked.push((lease.id.clone(), *fence));
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let renewals: Vec<_> = asked.iter().map(|(id, fence)| (number(id), fence.0)).collect();
        self.met("renew", renewals.iter().map(|item| item.0));
        let answers = wheel.renew(S, &asked, Duration::from_micros(extension)).await.unwrap();
        self.model.renew(&renewals, extension, &answers)?;
        for ((id, old), answer) in asked.iter().zip(&answers) {
            if let Renewed::Until(new) = answer
                && heard
            {
                let same =
                    self.known[worker].iter_mut().filter(|(lease, fence)| lease.id == *id && fence == old);
                same.for_each(|(_, fence)| *fence = *new);
            }
        }
        Ok(())
    }

    /// At the end everything that can be read equals the model, and the structural scan finds nothing.
    async fn compare(&self) -> Check {
        let wheel = self.wheel.at_fixed_time(self.model.now_us);
        for (id, text) in IDS.iter().enumerate() {
            let seen = wheel.inspect(&order(id)).await.unwrap();
            same(&format!("inspect {text}"), &seen, &self.model.inspection(id))?;
        }
        for state in [State::Scheduled, State::Leased, State::Dead] {
            let page = wheel.list(state, Moment::EPOCH, Moment::MAX, None, 10).await.unwrap();
            let mut listed: Vec<_> = page.rows.iter().map(row_id).collect();
            listed.sort();
            let in_it: Vec<_> =
                (0..3).filter(|id| self.model.state(*id) == state).map(|id| IDS[id].to_owned()).collect();
            same(&format!("list of {}", state.as_str()), &listed, &in_it)?;
        }
        let stats = wheel.stats().await.unwrap();
        let count = |of: fn(&Place) -> bool| {
            self.model.lives.iter().flatten().filter(|life| of(&life.place)).count() as u64
        };
        let model = (
            count(|place| *place == Place::Scheduled),
            count(|place| matches!(place, Place::Leased(_))),
            count(|place| matches!(place, Place::Dead { .. })),
        );
        same("stats", &(stats.scheduled, stats.leased, stats.dead), &model)?;
        for (what, times) in &stats.totals {
            let model = self.model.totals.get(what.as_str()).copied().unwrap_or(0);
            same(&format!("total of {what}"), times, &model)?;
        }
        let reasons = redis::cmd("HLEN").arg(format!("dw1:{{{}.0}}:reasons", wheel.name())).to_owned();
        let kept = wheel.store().command(&reasons, "count reasons").await.unwrap();
        same("reasons", &kept, &redis::Value::Int(self.model.reasons()))?;
        let found = wheel.verify(false).await.unwrap().findings;
        ensure(found.is_empty(), || format!("the scan finds {found:?}"))
    }
}

fn row_id(row: &Row) -> String {
    match row {
        Row::Live { entry, .. } => entry.id.as_str().to_owned(),
        Row::Ended { id, .. } => id.as_str().to_owned(),
        Row::Foreign { id, .. } => format!("foreign {id}"),
    }
}

fn all<T>(answers: Vec<duewheel::error::Result<Answer<T>>>) -> Vec<Answer<T>> {
    answers.into_iter().map(Result::unwrap).collect()
}

fn order(id: usize) -> Id {
    Id::new(IDS[id]).unwrap()
}

fn number(id: &Id) -> usize {
    IDS.iter().position(|known| *known == id.as_str()).unwrap()
}

fn at(millis: u64) -> Moment {
    Moment::from_millis(millis).unwrap()
}
