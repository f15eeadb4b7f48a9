//! Shards that are made anew: one that was lost, and those of another number of shards. Whatever holds the wheel holds them from their first
//! moment, and what cannot be carried is not thrown away unasked.

use std::time::Duration;

use duewheel::deadline::Note;
use duewheel::operator::{Door, Foreman, Operator, Person};
use duewheel::shard::{Shard, ShardCount};
use duewheel::wheel::{Ask, BulkAct, BulkFilter, Settlement, ShardState, What, Wheel};

use crate::rig::cli::Cli;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{after, ask, claim, deadline, enqueue, key, wheel};

fn count(shards: u32) -> ShardCount {
    ShardCount::new(shards).unwrap()
}

fn note(reason: &str) -> Note {
    Note::new("anna", reason).unwrap()
}

/// Takes all keys of a shard away, as when the node of a Cluster that had them was emptied.
fn lose(server: &RedisServer, wheel: &Wheel, shard: Shard) {
    for name in ["meta", "slots", "bodies", "leases", "live", "dead", "reasons", "ended", "events"] {
        server.command::<u64>(&["DEL", &key(wheel, shard, name)]);
    }
}

fn lose_record(server: &RedisServer, wheel: &Wheel) {
    server.command::<u64>(&["DEL", &format!("dw1:{{{}}}:state", wheel.name())]);
}

fn trip(server: &RedisServer, wheel: &Wheel) {
    let state = format!("dw1:{{{}}}:state", wheel.name());
    server.command::<u64>(&["HSET", &state, "tripped", "1772337600000000\nw-1\ntoo many closes"]);
}

/// An id of that shard, put in and due.
async fn due_in(wheel: &Wheel, shard: Shard, prefix: &str) {
    let all = (0..).map(|n| format!("{prefix}-{n}"));
    let name = all.into_iter().find(|name| wheel.shard_of(&crate::rig::wheel::id(name)) == shard).unwrap();
    enqueue(wheel, &name, after(0)).await.unwrap();
}

async fn states(wheel: &Wheel, nonce: u64) -> Vec<ShardState> {
    let mut states = Vec::new();
    for shard in wheel.shards().all() {
        let claimed = claim(wheel, shard, nonce).await;
        assert!(claimed.state == ShardState::Running || claimed.leases.is_empty(), "shard {shard}");
        states.push(claimed.state);
    }
    states
}

#[tokio::test]
async fn a_shard_that_was_lost_is_held_from_its_first_moment_by_whatever_holds_the_wheel() {
    let server = RedisServer::shared();
    for (pauses, trips) in [(true, false), (false, true), (true, true)] {
        let wheel = wheel(server, 3).await;
        if pauses {
            wheel.pause(&note("stock is counted")).await.unwrap();
        }
        if trips {
            trip(server, &wheel);
            wheel.reassert(None).await.unwrap();
        }
        let held = wheel.held_by().await.unwrap();
        let expected = if trips { ShardState::Tripped } else { ShardState::Paused };
        // A worker's claim finds it gone; then whoever fills it again does; then the wheel's own record is gone as well.
        for (round, without_record) in [(1, false), (2, false), (3, true)] {
            lose(server, &wheel, Shard(1));
            if without_record {
                lose_record(server, &wheel);
            }
            if round > 1 {
                due_in(&wheel, Shard(1), "o").await;
            }
            assert_eq!(states(&wheel, round).await, [expected; 3], "round {round}");
            assert_eq!(wheel.held_by().await.unwrap(), held, "round {round}");
        }
        // Once it is resumed nothing is held that is made anew, whatever a shard still says.
        wheel.resume().await.unwrap();
        server.command::<u64>(&["HSET", &key(&wheel, Shard(0), "meta"), "paused", "{}"]);
        lose(server, &wheel, Shard(1));
        assert_eq!(claim(&wheel, Shard(1), 9).await.state, ShardState::Running);
        assert_eq!(wheel.held_by().await.unwrap(), duewheel::wheel::Held::default());
    }
}

#[tokio::test]
async fn a_wheel_that_is_held_stays_so_through_a_reshard_at_every_moment() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 2).await;
    let batch: Vec<_> = (0..300).map(|n| deadline(&format!("o-{n}"), after(0))).collect();
    wheel.enqueue_batch(&batch, duewheel::deadline::OnConflict::Keep, false).await;
    wheel.pause(&note("more shards")).await.unwrap();
    // A worker that is started with the new number too early claims what it can.
    let early = Wheel::new(
        wheel.store().clone(),
        duewheel::wheel::WheelSettings { shards: count(7), ..wheel.settings().clone() },
    );
    let claiming = tokio::spawn(async move {
        let mut paused = 0;
        for nonce in 1.. {
            for shard in early.shards().all() {
                let one = Ask { limit: 1, worker: "early", ..ask(nonce) };
                if let Ok(claimed) = early.claim(shard, &one).await {
                    assert!(claimed.leases.is_empty(), "claimed from shard {shard} of a paused wheel");
                    assert_eq!(claimed.state, ShardState::Paused);
                    paused += 1;
                }
                if paused == 50 {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    });
    let wider = wheel.reshard(count(7), false, |_| {}).await.unwrap();
    claiming.await.unwrap();
    assert_eq!(states(&wider, 2).await, [ShardState::Paused; 7]);
    trip(server, &wider);
    let wider = wider.reshard(count(9), false, |_| {}).await.unwrap();
    assert_eq!(states(&wider, 3).await, [ShardState::Tripped; 9]);
    // What was resumed while the shards were closed is not held afterwards.
    let mut state = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let record = format!("dw1:{{{}}}:state", wheel.name());
    let narrower = wider
        .reshard(count(4), false, |_| {
            redis::cmd("HDEL").arg(&record).arg("paused").arg("tripped").exec(&mut state).unwrap();
            redis::cmd("HSET").arg(&record).arg("resumed").arg(1).exec(&mut state).unwrap();
        })
        .await
        .unwrap();
    assert_eq!(states(&narrower, 4).await, [ShardState::Running; 4]);
    assert_eq!(narrower.stats().await.unwrap().leased, 300);
}

#[tokio::test]
async fn a_shard_that_goes_away_takes_no_event_along_that_somebody_waits_for() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 4).await;
    for n in 0..40 {
        enqueue(&wheel, &format!("o-{n}"), after(3_600_000)).await.unwrap();
    }
    let ids: Vec<_> = (0..20).map(|n| crate::rig::wheel::id(&format!("o-{n}"))).collect();
    let group = wheel.join_group("points", "c1").await.unwrap();
    wheel.cancel(&ids).await;
    let refused = async |drop_history: bool| {
        let refused = wheel.reshard(count(2), drop_history, |_| {}).await.unwrap_err().to_string();
        // Nothing has changed: the wheel is as open as before.
        assert_eq!(wheel.stats().await.unwrap().scheduled, 20);
        assert_eq!(states(&wheel, 1).await, [ShardState::Running; 4]);
        refused
    };
    // Not handed out yet; handed out and not acknowledged. Whatever is asked for.
    let not_read = refused(true).await;
    assert!(not_read.contains("consumer group points has not acknowledged"), "{not_read}");
    let mut handed = Vec::new();
    for shard in wheel.shards().all() {
        handed.push((shard, group.next(shard).await.unwrap()));
    }
    assert!(refused(true).await.contains("consumer group points has not acknowledged"));
    for (shard, entries) in &handed {
        group.acknowledge(*shard, entries).await.unwrap();
    }
    // Only what explain tells is left.
    let history = refused(false).await;
    assert!(history.contains("--drop-history") && history.contains("entries of events"), "{history}");
    assert_eq!(wheel.history(&ids[0]).await.unwrap().len(), 1);
    let narrower = wheel.reshard(count(2), true, |_| {}).await.unwrap();
    assert_eq!(narrower.stats().await.unwrap().scheduled, 20);
    for shard in 2..4 {
        assert!(!server.command::<bool>(&["EXISTS", &key(&wheel, Shard(shard), "events")]));
    }
    // To more shards nothing goes away.
    let wider = narrower.reshard(count(5), false, |_| {}).await.unwrap();
    assert_eq!(wider.stats().await.unwrap().scheduled, 20);
}

#[tokio::test]
async fn a_bulk_act_that_is_not_over_keeps_the_number_of_shards() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    for n in 0..20 {
        enqueue(&wheel, &format!("o-{n}"), after(3_600_000)).await.unwrap();
    }
    let anna = Operator::new(wheel.clone(), Person::new("anna", Door::Page).unwrap());
    let bulk = anna.begin_bulk(BulkAct::Cancel, BulkFilter::default(), None, "all paid").await.unwrap();
    for to in [1, 3] {
        let refused = wheel.reshard(count(to), true, |_| {}).await.unwrap_err().to_string();
        assert!(refused.contains(&bulk.id) && refused.contains("is not over"), "{refused}");
    }
    // One that is stopped is not over before somebody has seen that.
    anna.stop_bulk(&bulk.id, "wait").await.unwrap();
    wheel.reshard(count(3), true, |_| {}).await.unwrap_err();
    Foreman::new(wheel.clone()).look().await.unwrap();
    let wider = wheel.reshard(count(3), true, |_| {}).await.unwrap();
    assert_eq!(wider.stats().await.unwrap().scheduled, 20);
}

#[tokio::test]
async fn a_reshard_from_a_number_that_is_not_the_wheels_is_refused() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    enqueue(&wheel, "o-1", after(3_600_000)).await.unwrap();
    let wrong = Wheel::new(
        wheel.store().clone(),
        duewheel::wheel::WheelSettings { shards: count(2), ..wheel.settings().clone() },
    );
    let refused = wrong.reshard(count(3), true, |_| {}).await.unwrap_err().to_string();
    assert!(refused.contains("the wheel has 4 shards"), "{refused}");
    assert_eq!(wheel.stats().await.unwrap().scheduled, 1);
}

#[tokio::test]
async fn a_reshard_that_was_cut_off_at_its_very_end_is_not_undone_while_its_workers_work() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 4).await;
    for n in 0..40 {
        enqueue(&wheel, &format!("o-{n}"), after(0)).await.unwrap();
    }
    let wider = wheel.reshard(count(8), false, |_| {}).await.unwrap();
    // All shards are open, and it was not written down by which number.
    server.command::<u64>(&["HSET", "dw1:{wheels}:index", wheel.name().as_str(), "1 4 1000"]);
    let leases = claim(&wider, Shard(5), 1).await.leases;
    assert!(!leases.is_empty());
    let refused = wheel.reshard(count(8), false, |_| {}).await.unwrap_err().to_string();
    assert!(refused.contains("are leased"), "{refused}");
    assert_eq!(wider.stats().await.unwrap().scheduled, 40 - leases.len() as u64);
    // Once they are idle it is finished.
    let back: Vec<_> = leases
        .iter()
        .map(|lease| Settlement { id: lease.id.clone(), fence: lease.fence, what: What::Back })
        .collect();
    wider.settle(Shard(5), &back).await.unwrap();
    let wider = wheel.reshard(count(8), false, |_| {}).await.unwrap();
    assert_eq!(wider.stats().await.unwrap().scheduled, 40);
    let found = wider.verify(false).await.unwrap().findings;
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn the_command_line_drops_history_only_when_told() {
    let server = RedisServer::start(RedisOptions::default());
    let cli = Cli::new(&server);
    let set = format!("wheel.{}.shards=3", cli.wheel);
    let names = ["o-0", "o-1", "o-2", "o-3", "o-4", "o-5"];
    for name in names {
        cli.run(&["enqueue", name, "--in", "1h", "--set", &set]).ends(0);
    }
    cli.run(&[&["cancel", "--set", &set][..], &names].concat()).ends(0);
    let args = ["wheel", "reshard", "--shards", "1", "--yes", "--set", &set];
    let refused = cli.run(&args).ends(2);
    assert!(refused.stderr.contains("--drop-history"), "{refused:?}");
    cli.run(&[&args[..], &["--drop-history"]].concat()).ends(0);
}
