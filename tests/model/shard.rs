//! One shard of the wheel in plain Rust, as DESIGN draws it: where each id is, how often it was tried, what is remembered of it. No
//! Redis, no slots, no scripts. Fences and generations are compared as order only: the model takes over the number that the wheel gave,
//! once it has seen that it grew.

use std::collections::BTreeMap;
use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::deadline::{
    Cause, DueAt, Generation, Id, Note, OnConflict, Outcome, Payload, Reminders, Stage, State,
};
use duewheel::lease::{Fence, Lease};
use duewheel::shard::Shard;
use duewheel::slot::{Slot, SlotWidth};
use duewheel::wheel::answer::{
    Answer, Cancelled, Ended, Enqueued, EnqueuedHow, Entry, Inspection, Refusal, Scheduled, Settled,
};
use duewheel::wheel::{Failure, Reminded, Renewed, What};

/// The ids of a history; their order is the order of their bytes.
pub const IDS: [&str; 3] = ["a", "b", "c"];
/// The wheel's defaults, which the histories use.
const ENDED_KEEP_MS: u64 = 72 * 3_600_000;
const CANCELLED_KEEP_MS: u64 = 3_600_000;
const HOLD_MAX_COUNT: u32 = 3;
const HOLD_MAX_MS: u64 = 3_600_000;

/// What differs, in words.
pub type Check<T = ()> = Result<T, String>;

/// Compares an answer of the wheel with the model's.
pub fn same<T: PartialEq + std::fmt::Debug>(what: &str, wheel: &T, model: &T) -> Check {
    if wheel == model {
        Ok(())
    } else {
        Err(format!("{what}: the wheel says {wheel:?}, the model {model:?}"))
    }
}

pub fn ensure(holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(what()) }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    Scheduled,
    Leased(u64),
    Dead { at_ms: u64, reason: String },
}

/// An id that has a body.
#[derive(Debug, Clone)]
pub struct Life {
    pub place: Place,
    pub generation: Generation,
    pub due_ms: u64,
    pub next_ms: u64,
    pub level: u8,
    pub stage: u8,
    pub holds: u32,
    pub held_ms: u64,
    pub cause: Cause,
    pub attempts: u32,
    /// The latest attempts that failed, the latest first; says something only while there are any.
    pub failures: Vec<Failure>,
    pub losses: u32,
    pub cancelled: bool,
    pub note: Option<Note>,
    pub payload: Payload,
    pub reminders: Reminders,
}

impl Life {
    /// When a stage fires.
    fn moment(&self, stage: u8) -> u64 {
        self.reminders.moment(Stage(stage), moment(self.due_ms)).as_millis()
    }

    /// Whose turn it is at a moment: a reminder ends where the next stage begins.
    fn turn(&self, at_ms: u64) -> u8 {
        let mut stage = self.stage;
        while stage > 0 && self.moment(stage - 1) <= at_ms {
            stage -= 1;
        }
        stage
    }

    /// Passes over to a stage: attempts and losses are each stage's own.
    fn pass_to(&mut self, stage: u8) {
        (self.stage, self.next_ms) = (stage, self.moment(stage));
        (self.attempts, self.losses, self.note) = (0, 0, None);
    }
}

/// The shard.
#[derive(Debug, Default)]
pub struct Model {
    pub now_us: u64,
    pub lives: [Option<Life>; 3],
    ended: [Option<Ended>; 3],
    last_fence: u64,
    last_generation: u64,
    claims: BTreeMap<usize, (u64, u64)>,
    pub paused: bool,
    pub totals: BTreeMap<&'static str, u64>,
}

/// A claim as it was asked.
#[derive(Debug, Clone)]
pub struct Asked {
    pub worker: usize,
    pub nonce: u64,
    pub limit: usize,
    pub lease_us: u64,
    pub suspect: bool,
    pub poison: u32,
    pub late_ms: u64,
}

/// A claim as it was answered.
#[derive(Debug)]
pub struct Given<'a> {
    pub paused: bool,
    pub reaped: u64,
    pub alone: bool,
    pub next_look: Option<Moment>,
    pub leases: &'a [Lease],
}

impl Model {
    pub fn new(now_us: u64) -> Self {
        Self { now_us, ..Self::default() }
    }

    fn now_ms(&self) -> u64 {
        self.now_us / 1000
    }

    pub fn state(&self, id: usize) -> State {
        match (&self.lives[id], self.remembered(id)) {
            (Some(Life { place: Place::Scheduled, .. }), _) => State::Scheduled,
            (Some(Life { place: Place::Leased(_), .. }), _) => State::Leased,
            (Some(Life { place: Place::Dead { .. }, .. }), _) => State::Dead,
            (None, Some(_)) => State::Ended,
            (None, None) => State::Absent,
        }
    }

    fn remembered(&self, id: usize) -> Option<&Ended> {
        self.ended[id].as_ref().filter(|ended| {
            let keep = if ended.outcome == Outcome::Cancelled { CANCELLED_KEEP_MS } else { ENDED_KEEP_MS };
            ended.ended_at.as_millis() + keep > self.now_ms()
        })
    }

    fn count(&mut self, what: &'static str) {
        *self.totals.entry(what).or_default() += 1;
    }

    fn due_of(&self, due: DueAt) -> u64 {
        match due {
            DueAt::Moment(moment) => moment.as_millis(),
            DueAt::After(window) => {
                self.now_ms() + u64::try_from(window.as_nanos().div_ceil(1_000_000)).unwrap()
            }
        }
    }

    /// A generation that a call made: above all before it, and not below Redis's clock.
    fn grown(&mut self, before: u64, made: Generation) -> Check {
        ensure(made.0 > before && made.0 >= self.now_us, || {
            format!("generation {made} after {before} at {}", self.now_us)
        })?;
        self.last_generation = self.last_generation.max(made.0);
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "the arguments of the verb")]
    pub fn enqueue(
        &mut self,
        ids: &[usize],
        due: DueAt,
        on_conflict: OnConflict,
        force: bool,
        cause: Cause,
        payload: &Payload,
        reminders: &Reminders,
        answers: &[Answer<Enqueued>],
    ) -> Check {
        let before = self.last_generation;
        for (&id, answer) in ids.iter().zip(answers) {
            let due_ms = self.due_of(due);
            let made = answer.as_ref().map_or(Generation(0), |enqueued| enqueued.generation);
            let enqueued = |how| Ok(Enqueued { due_at: moment(due_ms), generation: made, how });
            let expected = match (self.state(id), &self.lives[id]) {
                (State::Scheduled, Some(life)) => {
                    let replace = match on_conflict {
                        OnConflict::Keep => false,
                        OnConflict::Replace => true,
                        OnConflict::Later => due_ms > life.due_ms,
                        OnConflict::Earlier => due_ms < life.due_ms,
                    };
                    if replace {
                        enqueued(EnqueuedHow::Replaced)
                    } else if due_ms == life.due_ms {
                        let generation = life.generation;
                        Ok(Enqueued { due_at: moment(due_ms), generation, how: EnqueuedHow::Exists })
                    } else {
                        Err(Refusal::Conflict { due_at: moment(life.due_ms) })
                    }
                }
                (State::Leased, _) => Err(Refusal::Leased),
                (State::Dead, _) => Err(Refusal::Dead),
                (State::Ended, _) if force => enqueued(EnqueuedHow::Resurrected),
                (State::Ended, _) => Err(Refusal::Ended(self.remembered(id).cloned().unwrap())),
                _ => enqueued(EnqueuedHow::New),
            };
            same("enqueue", answer, &expected)?;
            if let Ok(Enqueued { how, generation, .. }) = expected
                && how != EnqueuedHow::Exists
            {
                self.grown(before, generation)?;
                if how != EnqueuedHow::Replaced {
                    self.count("enqueued");
                }
                let (stage, next) = reminders.after(Stage(255), moment(due_ms), moment(self.now_ms()));
                self.lives[id] = Some(Life {
                    place: Place::Scheduled,
                    generation,
                    due_ms,
                    next_ms: next.as_millis(),
                    level: self.level(next.as_millis()),
                    stage: stage.0,
                    holds: 0,
                    held_ms: 0,
                    cause,
                    attempts: 0,
                    failures: Vec::new(),
                    losses: 0,
                    cancelled: false,
                    note: None,
                    payload: payload.clone(),
                    reminders: reminders.clone(),
                });
            }
        }
        Ok(())
    }

    pub fn cancel(&mut self, ids: &[usize], only_dead: bool, answers: &[Answer<Cancelled>]) -> Check {
        for (&id, answer) in ids.iter().zip(answers) {
            let state = self.state(id);
            let ended = self.remembered(id).cloned();
            // A leased reminder closes nothing, so a cancel does not wait for it.
            let reminding = self.lives[id].as_ref().is_some_and(|life| life.stage > 0);
            let expected = match (state, only_dead) {
                (State::Dead, _) | (State::Scheduled, false) => Ok(Cancelled::Cancelled),
                (State::Leased, false) if reminding => Ok(Cancelled::Cancelled),
                (State::Scheduled | State::Leased, true) => Err(Refusal::Scheduled),
                (State::Leased, false) => Ok(Cancelled::Leased),
                (State::Absent, true) => Err(Refusal::Absent),
                (State::Absent, false) => Ok(Cancelled::Absent),
                (State::Ended, _) => match ended.unwrap() {
                    ended if ended.outcome == Outcome::Cancelled && !only_dead => Ok(Cancelled::Already),
                    ended => Err(Refusal::Ended(ended)),
                },
            };
            same("cancel", answer, &expected)?;
            match expected {
                Ok(Cancelled::Cancelled) => {
                    let life = self.lives[id].take().unwrap();
                    self.ended[id] = Some(self.end(Outcome::Cancelled, &life, life.attempts, 0));
                    self.count("cancelled");
                }
                Ok(Cancelled::Absent) => {
                    self.ended[id] = Some(Ended {
                        outcome: Outcome::Cancelled,
                        cause: Cause::Due,
                        generation: Generation(0),
                        due_at: Moment::EPOCH,
                        ended_at: moment(self.now_ms()),
                        attempt: 0,
                        fence: Fence(0),
                    });
                }
                Ok(Cancelled::Leased) => self.lives[id].as_mut().unwrap().cancelled = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn end(&self, outcome: Outcome, life: &Life, attempt: u32, fence: u64) -> Ended {
        Ended {
            outcome,
            cause: life.cause,
            generation: life.generation,
            due_at: moment(life.due_ms),
            ended_at: moment(self.now_ms()),
            attempt,
            fence: Fence(fence),
        }
    }

    /// The refusal of a verb that moves one deadline, where it is not in a state that the verb takes.
    fn refused(&self, id: usize, takes: &[State]) -> Option<Refusal> {
        let state = self.state(id);
        if takes.contains(&state) {
            return None;
        }
        Some(match state {
            State::Absent => Refusal::Absent,
            State::Scheduled => Refusal::Scheduled,
            State::Leased => Refusal::Leased,
            State::Dead => Refusal::Dead,
            State::Ended => Refusal::Ended(self.remembered(id).cloned().unwrap()),
        })
    }

    /// Takes over what a movement answered: same generation or a grown one, placed at `next_ms`.
    fn moved(
        &mut self,
        verb: &str,
        id: usize,
        fresh: bool,
        next_ms: u64,
        answer: &Answer<Scheduled>,
    ) -> Check {
        let life = self.lives[id].as_ref().unwrap();
        let made = answer.as_ref().map_or(Generation(0), |scheduled| scheduled.generation);
        let generation = if fresh { made } else { life.generation };
        let expected = Ok(Scheduled { due_at: moment(life.due_ms), next_at: moment(next_ms), generation });
        same(verb, answer, &expected)?;
        if fresh {
            self.grown(self.last_generation, generation)?;
        }
        let level = self.level(next_ms);
        let life = self.lives[id].as_mut().unwrap();
        (life.place, life.generation, life.next_ms, life.level) =
            (Place::Scheduled, generation, next_ms, level);
        Ok(())
    }

    pub fn reschedule(
        &mut self,
        id: usize,
        due: DueAt,
        expected: Option<Generation>,
        answer: &Answer<Scheduled>,
    ) -> Check {
        if let Some(refusal) = self.refused(id, &[State::Scheduled]) {
            return same("reschedule", answer, &Err(refusal));
        }
        let due_ms = self.due_of(due);
        let life = self.lives[id].as_mut().unwrap();
        if expected.is_some_and(|generation| generation != life.generation) {
            return same("reschedule", answer, &Err(Refusal::Generation { stored: life.generation }));
        }
        (life.due_ms, life.attempts, life.losses, life.note) = (due_ms, 0, 0, None);
        let (stage, next) = life.reminders.after(Stage(255), moment(due_ms), moment(self.now_us / 1000));
        life.stage = stage.0;
        if life.cause == Cause::Manual {
            life.cause = Cause::Due;
        }
        self.moved("reschedule", id, true, next.as_millis(), answer)
    }

    pub fn hold(&mut self, id: usize, for_ms: u64, answer: &Answer<Scheduled>) -> Check {
        if let Some(refusal) = self.refused(id, &[State::Scheduled]) {
            return same("hold", answer, &Err(refusal));
        }
        let now = self.now_ms();
        let life = self.lives[id].as_mut().unwrap();
        let next_ms = life.next_ms.max(now + for_ms);
        let closes = if life.stage > 0 { life.due_ms } else { life.next_ms };
        let added = closes.max(now + for_ms).saturating_sub(closes.max(now));
        if life.holds + 1 > HOLD_MAX_COUNT || life.held_ms + added > HOLD_MAX_MS {
            let cap = Refusal::HoldCap { count: life.holds, total: Duration::from_millis(life.held_ms) };
            return same("hold", answer, &Err(cap));
        }
        (life.holds, life.held_ms) = (life.holds + 1, life.held_ms + added);
        let turn = life.turn(next_ms);
        if turn < life.stage {
            (life.stage, life.attempts, life.losses) = (turn, 0, 0);
        }
        self.moved("hold", id, false, next_ms, answer)
    }

    pub fn release(&mut self, id: usize, answer: &Answer<Scheduled>) -> Check {
        if let Some(refusal) = self.refused(id, &[State::Scheduled]) {
            return same("release", answer, &Err(refusal));
        }
        let life = self.lives[id].as_ref().unwrap();
        let to = life.moment(life.stage).max(self.now_ms());
        if life.holds == 0 || life.next_ms <= to {
            return same("release", answer, &Err(Refusal::NotHeld));
        }
        self.moved("release", id, false, to, answer)
    }

    pub fn close(&mut self, id: usize, note: &Note, answer: &Answer<Scheduled>) -> Check {
        if let Some(refusal) = self.refused(id, &[State::Scheduled, State::Dead]) {
            return same("close", answer, &Err(refusal));
        }
        let was_dead = self.state(id) == State::Dead;
        let life = self.lives[id].as_mut().unwrap();
        (life.cause, life.note, life.stage) = (Cause::Manual, Some(note.clone()), 0);
        if was_dead {
            (life.attempts, life.losses) = (0, 0);
        }
        self.moved("close", id, was_dead, self.now_ms(), answer)
    }

    pub fn revive(&mut self, id: usize, answer: &Answer<Scheduled>) -> Check {
        if let Some(refusal) = self.refused(id, &[State::Dead]) {
            return same("revive", answer, &Err(refusal));
        }
        let life = self.lives[id].as_mut().unwrap();
        (life.attempts, life.losses, life.cancelled, life.stage) = (0, 0, false, 0);
        self.moved("revive", id, true, self.now_ms(), answer)
    }

    pub fn claim(&mut self, ask: &Asked, given: &Given<'_>) -> Check {
        let reaped = self.reap(ask);
        same("claim: reaped", &given.reaped, &reaped)?;
        same("claim: paused", &given.paused, &self.paused)?;
        let ids: Vec<usize> = given.leases.iter().map(|lease| index(&lease.id)).collect();
        if let Some(&(nonce, fence)) = self.claims.get(&ask.worker)
            && nonce == ask.nonce
        {
            let held: Vec<usize> = (0..3).filter(|&id| self.fence(id) == Some(fence)).collect();
            same("repeated claim", &ids, &held)?;
            let alone = held.len() == 1 && self.lives[held[0]].as_ref().unwrap().losses > 1;
            same("repeated claim: alone", &given.alone, &alone)?;
            same("repeated claim: next look", &given.next_look, &Some(moment(self.now_ms())))?;
            return given.leases.iter().try_for_each(|lease| self.lease_matches(lease, fence));
        }
        if self.paused {
            same("paused claim", &ids, &Vec::new())?;
            return self.next_look_is_right(ask, given);
        }
        let choices = self.choices(ask);
        ensure(choices.contains(&(ids.clone(), given.alone)), || {
            format!("claim: the wheel gave {ids:?} (alone: {}), the model allows {choices:?}", given.alone)
        })?;
        if !given.leases.is_empty() {
            // A lease that ends sooner, because it is a reminder's, has an odd fence of its own.
            let shared = given.leases.iter().map(|lease| lease.fence.0).find(|fence| fence % 2 == 0);
            let least = (self.last_fence + 2).max(self.now_us + ask.lease_us);
            let fence = shared.unwrap_or(least + least % 2);
            ensure(fence > self.last_fence && fence % 2 == 0 && fence >= self.now_us + ask.lease_us, || {
                format!("fence {fence} after {} at {}", self.last_fence, self.now_us)
            })?;
            self.last_fence = fence;
            self.claims.insert(ask.worker, (ask.nonce, fence));
            for lease in given.leases {
                let life = self.lives[index(&lease.id)].as_mut().unwrap();
                ensure(life.next_ms <= self.now_us / 1000, || format!("{} is early", lease.id))?;
                let turn = life.turn(self.now_us / 1000);
                let passed = turn < life.stage;
                if passed {
                    life.pass_to(turn);
                }
                let mut own = fence;
                if turn > 0 {
                    let next_us = life.moment(turn - 1) * 1000;
                    let sooner = next_us - (next_us - self.now_us) / 8;
                    if sooner < fence {
                        own = sooner - 1 + sooner % 2;
                    }
                }
                life.place = Place::Leased(own);
                if passed {
                    self.count("reminder_failed");
                }
                self.lease_matches(lease, own)?;
            }
        }
        self.next_look_is_right(ask, given)
    }

    /// Puts expired leases back, the first that ended first.
    fn reap(&mut self, ask: &Asked) -> u64 {
        let (limit, poison) = (ask.limit, ask.poison);
        let mut expired: Vec<(u64, usize)> = (0..3)
            .filter_map(|id| self.fence(id).filter(|end| *end <= self.now_us).map(|end| (end, id)))
            .collect();
        expired.sort_unstable();
        expired.truncate(limit);
        for &(end, id) in &expired {
            self.count("lost");
            let life = self.lives[id].as_mut().unwrap();
            life.losses += 1;
            let lost_alone = life.losses.saturating_sub(2);
            if life.cancelled {
                let life = self.lives[id].take().unwrap();
                self.ended[id] = Some(self.end(Outcome::Cancelled, &life, life.attempts + 1, end));
                self.count("cancelled");
            } else if life.stage > 0 {
                life.place = Place::Scheduled;
                let turn = life.turn(self.now_us / 1000);
                let left = (life.moment(life.stage - 1) * 1000).saturating_sub(self.now_us);
                if turn < life.stage || life.losses >= 2 || left * 8 < ask.lease_us {
                    life.pass_to(turn.min(life.stage - 1));
                    self.count("reminder_failed");
                }
            } else if life.losses >= 2 + poison {
                let reason = format!("lost its lease {lost_alone} times, alone");
                life.place = Place::Dead { at_ms: self.now_us / 1000, reason };
                self.count("buried");
            } else {
                life.place = Place::Scheduled;
            }
        }
        expired.len() as u64
    }

    /// What a claim may give: the oldest due, in any order among equal moments; a suspect alone.
    fn choices(&self, ask: &Asked) -> Vec<(Vec<usize>, bool)> {
        let horizon = self.now_ms().saturating_sub(ask.late_ms);
        let due = |id: &usize| {
            self.lives[*id].as_ref().is_some_and(|l| l.place == Place::Scheduled && l.next_ms <= horizon)
        };
        let due: Vec<usize> = (0..3).filter(due).collect();
        let next = |id: usize| self.lives[id].as_ref().unwrap().next_ms;
        let suspect = |id: usize| self.lives[id].as_ref().unwrap().losses > 1;
        let orders = permutations(&due);
        let in_time = orders.iter().filter(|order| order.is_sorted_by_key(|id| next(*id)));
        in_time
            .map(|order| {
                if !ask.suspect {
                    let innocent = order.iter().copied().filter(|id| !suspect(*id));
                    return (innocent.take(ask.limit).collect(), false);
                }
                match order.first() {
                    Some(&first) if suspect(first) => (vec![first], true),
                    _ => {
                        let innocent = order.iter().copied().take(ask.limit).take_while(|id| !suspect(*id));
                        (innocent.collect(), false)
                    }
                }
            })
            .collect()
    }

    fn lease_matches(&self, lease: &Lease, fence: u64) -> Check {
        let life = self.lives[index(&lease.id)].as_ref().unwrap();
        let wheel = (lease.due_at, lease.generation, lease.stage, lease.cause, lease.attempt, lease.fence);
        let model = (
            moment(life.due_ms),
            life.generation,
            Stage(life.stage),
            life.cause,
            life.attempts + 1,
            Fence(fence),
        );
        same("lease", &wheel, &model)?;
        same("lease", &(&lease.payload, &lease.note), &(&life.payload, &life.note))?;
        same("lease", &lease.reminders, &life.reminders)
    }

    /// Never after something could be claimed or reaped; never at once where nothing can.
    fn next_look_is_right(&self, ask: &Asked, given: &Given<'_>) -> Check {
        let (now, mut latest, mut ready) = (self.now_ms(), u64::MAX, false);
        for life in self.lives.iter().flatten() {
            match life.place {
                Place::Scheduled if self.paused => {}
                Place::Scheduled => {
                    let claimable = life.next_ms + ask.late_ms;
                    ready |= claimable <= now;
                    latest = latest.min(if claimable <= now { now + 20 } else { claimable });
                }
                Place::Leased(end) => {
                    ready |= end <= self.now_us;
                    latest = latest.min((end / 1000 + 1).max(now));
                }
                Place::Dead { .. } => {}
            }
        }
        if self.paused {
            latest = latest.min(now + 1000);
        }
        let look = given.next_look.map_or(u64::MAX, Moment::as_millis);
        ensure(look <= latest, || format!("next look {look} is after {latest}, now {now}"))?;
        let full = given.alone || given.leases.len() >= ask.limit;
        ensure(ready || full || look > now, || {
            format!("next look {look} at once, now {now}, with nothing to do")
        })
    }

    pub fn settle(&mut self, items: &[(usize, u64, What)], answers: &[Settled]) -> Check {
        let (ended_before, mut done) = (self.ended.clone(), [false; 3]);
        let mut expected = Vec::new();
        for (id, fence, what) in items {
            let (id, fence) = (*id, *fence);
            if self.fence(id) != Some(fence) || done[id] {
                let repeat = match (what, &ended_before[id]) {
                    (What::End { outcome, lease }, Some(ended)) => {
                        let tail = (lease.cause, lease.generation, lease.due_at, lease.attempt, lease.fence);
                        let stored =
                            (ended.cause, ended.generation, ended.due_at, ended.attempt, ended.fence);
                        ended.outcome == *outcome && stored == tail
                    }
                    _ => false,
                };
                expected.push(if repeat { Settled::Done } else { Settled::Stale });
                continue;
            }
            done[id] = true;
            expected.push(self.settle_one(id, fence, what));
        }
        same("settle", &answers, &expected.as_slice())
    }

    fn settle_one(&mut self, id: usize, fence: u64, what: &What) -> Settled {
        let now = self.now_ms();
        if let What::End { outcome, lease } = what {
            let life = self.lives[id].take().unwrap();
            let mut ended = self.end(*outcome, &life, lease.attempt, lease.fence.0);
            (ended.cause, ended.generation, ended.due_at) = (lease.cause, lease.generation, lease.due_at);
            self.ended[id] = Some(ended);
            self.count(if *outcome == Outcome::Closed { "closed" } else { "skipped" });
            return Settled::Done;
        }
        if self.lives[id].as_ref().unwrap().cancelled {
            let life = self.lives[id].take().unwrap();
            self.ended[id] = Some(self.end(Outcome::Cancelled, &life, life.attempts + 1, fence));
            self.count("cancelled");
            return Settled::Cancelled;
        }
        let life = self.lives[id].as_mut().unwrap();
        life.place = Place::Scheduled;
        let mut counted = None;
        let mut to = match what {
            What::End { .. } | What::Back => return Settled::Done,
            What::Bury(reason) => {
                if life.attempts == 0 {
                    life.failures.clear();
                }
                (life.attempts, life.losses) = (life.attempts + 1, 0);
                life.place = Place::Dead { at_ms: now, reason: reason.clone() };
                self.count("buried");
                return Settled::Done;
            }
            What::Retry(wait, reason) => {
                if life.attempts == 0 {
                    life.failures.clear();
                }
                life.attempts += 1;
                let failure =
                    Failure { at: Some(moment(now)), attempt: life.attempts, reason: reason.clone() };
                life.failures.insert(0, failure);
                life.failures.truncate(5);
                counted = Some("retried");
                now + millis(*wait)
            }
            What::Wait(wait) => now + millis(*wait),
            What::Until(until) => until.as_millis().max(now),
            What::Stage(stage, at, told) => {
                (life.stage, life.attempts) = (stage.0, 0);
                let word = [("reminded", Reminded::Done), ("reminder_failed", Reminded::Failed)];
                counted = word.iter().find(|(_, of)| of == told).map(|(word, _)| *word);
                at.as_millis()
            }
        };
        let mut given_up = None;
        if life.stage > 0 && !matches!(what, What::Stage(..)) && to >= life.moment(life.stage - 1) {
            // A reminder's tries end where the next stage begins.
            to = life.moment(life.stage - 1);
            (life.stage, life.attempts) = (life.stage - 1, 0);
            given_up = Some("reminder_failed");
        }
        (life.losses, life.next_ms) = (0, to);
        let level = self.level(to);
        self.lives[id].as_mut().unwrap().level = level;
        counted.into_iter().chain(given_up).for_each(|what| self.count(what));
        Settled::Done
    }

    pub fn renew(&mut self, items: &[(usize, u64)], extension_us: u64, answers: &[Renewed]) -> Check {
        let before: Vec<Option<u64>> = (0..3).map(|id| self.fence(id)).collect();
        let mut expected = Vec::new();
        for &(id, fence) in items {
            let new = (fence + extension_us) | 1;
            let held = before[id];
            let renews = held == Some(fence) && fence > self.now_us;
            expected.push(if held == Some(new) || renews {
                Renewed::Until(Fence(new))
            } else {
                Renewed::Stale
            });
            if renews {
                self.lives[id].as_mut().unwrap().place = Place::Leased(new);
                self.last_fence = self.last_fence.max(new);
            }
        }
        same("renew", &answers, &expected.as_slice())
    }

    pub fn prune(&mut self, removed: u64) -> Check {
        let mut expected = 0;
        for id in 0..3 {
            if self.ended[id].is_some() && self.remembered(id).is_none() {
                self.ended[id] = None;
                expected += 1;
            }
        }
        same("prune", &removed, &expected)
    }

    fn fence(&self, id: usize) -> Option<u64> {
        match self.lives[id].as_ref()?.place {
            Place::Leased(fence) => Some(fence),
            _ => None,
        }
    }

    /// The finest level whose 4096 slots of 1 s x 64^level reach the moment from now.
    fn level(&self, next_ms: u64) -> u8 {
        let ahead = next_ms.saturating_sub(self.now_ms());
        (0..3).find(|level| ahead < 4096 * 1000 * 64_u64.pow((*level).into())).unwrap_or(3)
    }

    /// How many have a reason that is kept: the dead, and those of which an attempt failed.
    pub fn reasons(&self) -> i64 {
        let has = |life: &&Life| life.attempts > 0 || matches!(life.place, Place::Dead { .. });
        self.lives.iter().flatten().filter(has).count() as i64
    }

    /// What inspect must show of an id.
    pub fn inspection(&self, id: usize) -> Inspection {
        let life = self.lives[id].as_ref();
        let width = SlotWidth::default();
        Inspection {
            state: self.state(id),
            shard: Shard(0),
            now: moment(self.now_ms()),
            entry: life.map(|life| Entry {
                id: Id::new(IDS[id]).unwrap(),
                generation: life.generation,
                due_at: moment(life.due_ms),
                next_at: moment(life.next_ms),
                slot: Slot { level: life.level, number: life.next_ms / width.level_width(life.level) },
                stage: Stage(life.stage),
                hold_count: life.holds,
                hold_total: Duration::from_millis(life.held_ms),
                cause: life.cause,
                attempts: life.attempts,
                losses: life.losses,
                cancelled: life.cancelled,
                note: life.note.clone(),
                reminders: life.reminders.clone(),
                payload: life.payload.clone(),
                traceparent: None,
            }),
            fence: self.fence(id).map(Fence),
            death: life.and_then(|life| match &life.place {
                Place::Dead { at_ms, reason } => Some((moment(*at_ms), reason.clone())),
                _ => None,
            }),
            failures: life
                .filter(|life| life.attempts > 0)
                .map_or_else(Vec::new, |life| life.failures.clone()),
            ended: self.remembered(id).cloned(),
            paused: self.paused,
        }
    }
}

fn moment(millis: u64) -> Moment {
    Moment::from_millis(millis).unwrap()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap()
}

fn index(id: &Id) -> usize {
    IDS.iter().position(|known| *known == id.as_str()).unwrap()
}

fn permutations(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, &first) in of.iter().enumerate() {
        let mut rest = of.to_vec();
        rest.remove(at);
        for mut order in permutations(&rest) {
            order.insert(0, first);
            all.push(order);
        }
    }
    all
}
