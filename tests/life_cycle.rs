//! Every verb from every state does what the one table of the life cycle says, and nothing where the table refuses.

use std::sync::Arc;
use std::time::Duration;

use duewheel::deadline::life::Verb;
use duewheel::deadline::{DueAt, Note, OnConflict, Outcome, State};
use duewheel::lease::{Fence, Lease};
use duewheel::shard::Shard;
use duewheel::wheel::answer::{Inspection, Settled};
use duewheel::wheel::{Ask, Renewed, Settlement, What, Wheel};

use crate::rig::redis::RedisServer;
use crate::rig::wheel::{ask, deadline, id, moment, wheel, with_test_clock};

const S: Shard = Shard(0);
const NOW: u64 = 1_800_000_000_000;
const HOUR: u64 = 3_600_000;

/// One id in one state, and what a worker would know of it.
struct Scene {
    wheel: Wheel,
    lease: Option<Lease>,
}

impl Scene {
    /// `due` in milliseconds from now, for the scheduled one.
    async fn set(state: State, due: i64) -> Self {
        let wheel = wheel(RedisServer::shared(), 1).await;
        with_test_clock(RedisServer::shared(), &wheel);
        let mut scene = Self { wheel: wheel.at_fixed_time(NOW * 1000), lease: None };
        if state == State::Absent {
            return scene;
        }
        let due = DueAt::Moment(moment(NOW.saturating_add_signed(due)));
        scene.wheel.enqueue(&deadline("x", due), OnConflict::Keep, false).await.unwrap().unwrap();
        if state == State::Scheduled {
            return scene;
        }
        scene.lease = Some(scene.wheel.claim(S, &ask(1)).await.unwrap().leases.remove(0));
        match state {
            State::Dead => scene.settle(What::Bury("no such order".to_owned())).await,
            State::Ended => scene.settle(scene.closed()).await,
            _ => true,
        };
        scene
    }

    /// The lease of whoever holds the id; of somebody who never did, where nobody does.
    fn fence(&self) -> Fence {
        self.lease.as_ref().map_or(Fence(4_000), |lease| lease.fence)
    }

    fn closed(&self) -> What {
        let lease = self.lease.clone().unwrap();
        What::End { outcome: Outcome::Closed, lease: Arc::new(lease) }
    }

    async fn settle(&self, what: What) -> bool {
        let settlement = Settlement { id: id("x"), fence: self.fence(), what };
        self.wheel.settle(S, &[settlement]).await.unwrap() != [Settled::Stale]
    }

    async fn look(&self, at: &Wheel) -> Inspection {
        let mut seen = at.inspect(&id("x")).await.unwrap();
        seen.now = moment(NOW);
        seen.paused = false;
        seen
    }

    /// Does it; returns the wheel at the time at which its effect is to be looked at.
    async fn act(&self, verb: Verb) -> Wheel {
        let wheel = &self.wheel;
        let later = |ms: u64| wheel.at_fixed_time((NOW + ms) * 1000);
        let other = deadline("x", DueAt::Moment(moment(NOW + HOUR)));
        let note = Note::new("anna", "by hand").unwrap();
        match verb {
            Verb::Enqueue => drop(wheel.enqueue(&other, OnConflict::Keep, false).await.unwrap()),
            Verb::Replace => drop(wheel.enqueue(&other, OnConflict::Replace, false).await.unwrap()),
            Verb::Force => drop(wheel.enqueue(&other, OnConflict::Keep, true).await.unwrap()),
            Verb::Cancel => drop(wheel.cancel(&[id("x")]).await),
            Verb::Drop => drop(wheel.drop_dead(&[id("x")]).await),
            Verb::Reschedule => drop(wheel.reschedule(&id("x"), other.due_at, None).await.unwrap()),
            Verb::Hold => drop(wheel.hold(&id("x"), Duration::from_secs(60)).await.unwrap()),
            Verb::Release => {
                // There must be something to release.
                drop(wheel.hold(&id("x"), Duration::from_secs(60)).await.unwrap());
                drop(wheel.release(&id("x")).await.unwrap());
            }
            Verb::Close => drop(wheel.close(&id("x"), &note).await.unwrap()),
            Verb::Revive => drop(wheel.revive(&id("x")).await.unwrap()),
            Verb::Claim => drop(wheel.claim(S, &ask(2)).await.unwrap()),
            Verb::Renew => {
                let asked = [(id("x"), self.fence())];
                let renewed = wheel.renew(S, &asked, Duration::from_secs(9)).await.unwrap();
                let is_held = wheel.inspect(&id("x")).await.unwrap().state == State::Leased;
                assert_eq!(renewed[0] != Renewed::Stale, is_held);
            }
            Verb::End if self.lease.is_none() => {
                // Nobody could build the verdict without a lease; a zombie of another id's is as good.
                let zombie = Scene::lease_of_another().await;
                let what = What::End { outcome: Outcome::Closed, lease: Arc::new(zombie) };
                assert!(!self.settle(what).await);
            }
            Verb::End => {
                self.settle(self.closed()).await;
            }
            Verb::Again => {
                self.settle(What::Retry(Duration::from_secs(2), String::new())).await;
            }
            Verb::Bury => {
                self.settle(What::Bury("no such order".to_owned())).await;
            }
            Verb::Reap => {
                // A paused shard leases nothing, so what is reaped stays where it was put.
                wheel.pause(&note).await.unwrap();
                let then = later(31_000);
                then.claim(S, &ask(3)).await.unwrap();
                return then;
            }
            Verb::Prune => {
                let then = later(73 * HOUR);
                then.prune(S, 0).await.unwrap();
                return then;
            }
        }
        wheel.clone()
    }

    async fn lease_of_another() -> Lease {
        let wheel = wheel(RedisServer::shared(), 1).await;
        crate::rig::wheel::enqueue(&wheel, "other", crate::rig::wheel::after(0)).await.unwrap();
        wheel.claim(S, &Ask { limit: 1, ..ask(1) }).await.unwrap().leases.remove(0)
    }
}

#[tokio::test]
async fn every_verb_from_every_state_moves_as_the_table_says() {
    let mut moves = 0;
    for state in State::ALL {
        for verb in Verb::ALL {
            let scene = Scene::set(state, 0).await;
            let before = scene.look(&scene.wheel).await;
            assert_eq!(before.state, state, "the scene of {state:?}");
            let then = scene.act(verb).await;
            let after = scene.look(&then).await;
            match state.after(verb) {
                Some(next) => {
                    moves += 1;
                    assert_eq!(after.state, next, "{verb:?} from {state:?}");
                    assert!(after != before || verb == Verb::Reap, "{verb:?} from {state:?} changed nothing");
                }
                // Time alone may have passed: what was remembered an hour, is not after three days.
                None if verb == Verb::Prune => {
                    assert_eq!(after.state, before.state, "{verb:?} from {state:?}")
                }
                None => assert_eq!(after, before, "{verb:?} from {state:?}"),
            }
            let found = then.verify(false).await.unwrap().findings;
            assert!(found.is_empty(), "{verb:?} from {state:?}: {found:?}");
        }
    }
    assert_eq!(moves, 23, "arrows of the drawing");
}

#[tokio::test]
async fn what_is_not_due_is_claimed_by_nobody() {
    let scene = Scene::set(State::Scheduled, 1).await;
    let before = scene.look(&scene.wheel).await;
    scene.act(Verb::Claim).await;
    assert_eq!(scene.look(&scene.wheel).await, before);
}

#[tokio::test]
async fn a_cancel_while_leased_ends_it_however_the_attempt_ends() {
    for (verb, outcome) in [
        (Verb::End, Outcome::Closed),
        (Verb::Again, Outcome::Cancelled),
        (Verb::Bury, Outcome::Cancelled),
        (Verb::Reap, Outcome::Cancelled),
    ] {
        let scene = Scene::set(State::Leased, 0).await;
        scene.act(Verb::Cancel).await;
        let then = scene.act(verb).await;
        let seen = scene.look(&then).await;
        assert_eq!((seen.state, seen.ended.unwrap().outcome), (State::Ended, outcome), "{verb:?}");
    }
}

#[tokio::test]
async fn a_lease_lost_alone_too_often_is_dead() {
    let scene = Scene::set(State::Scheduled, 0).await;
    let mut now = NOW;
    // Two losses may have been a neighbour's fault; the third was its own.
    for (nonce, state) in (10..).zip([State::Leased, State::Leased, State::Leased, State::Dead]) {
        let then = scene.wheel.at_fixed_time(now * 1000);
        then.claim(S, &Ask { poison_limit: 1, ..ask(nonce) }).await.unwrap();
        assert_eq!(then.inspect(&id("x")).await.unwrap().state, state);
        now += 31_000;
    }
}
