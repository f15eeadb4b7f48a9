//! Scheduled jobs: one runner at a time, any other takes over within a lease, and who was overtaken writes nothing.

use std::time::{Duration, Instant};

use duewheel::deadline::{DueAt, OnConflict, State};
use duewheel::error::Error;
use duewheel::wheel::{Job, Taken, Wheel, script};

use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{after, claim, deadline, id, wheel};

const LEASE: Duration = Duration::from_secs(30);

async fn take(wheel: &Wheel, runner: &str, lease: Duration) -> Taken {
    wheel.take_job("sweep", runner, lease, None).await.unwrap()
}

async fn mine(wheel: &Wheel, runner: &str, lease: Duration) -> Job {
    match take(wheel, runner, lease).await {
        Taken::Mine(job) => job,
        other => panic!("{runner} did not get the job: {other:?}"),
    }
}

#[tokio::test]
async fn a_job_has_one_runner_and_the_others_are_told_who_and_for_how_long() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let job = mine(&wheel, "a", LEASE).await;
    let Taken::Held { runner, left } = take(&wheel, "b", LEASE).await else { panic!("two runners") };
    assert_eq!(runner, "a");
    assert!(left > LEASE / 2 && left <= LEASE, "{left:?}");
    // Another job of the same wheel is nobody's business.
    assert!(matches!(wheel.take_job("feed", "b", LEASE, None).await.unwrap(), Taken::Mine(_)));
    job.finish("{\"n\":1}", &[("cursor", "7")]).await.unwrap();
    let next = mine(&wheel, "b", LEASE).await;
    assert_eq!(next.field("cursor"), Some("7"));
    assert_eq!(wheel.job_runs("sweep", 10).await.unwrap(), ["{\"n\":1}"]);
}

#[tokio::test]
async fn a_runner_that_was_overtaken_writes_nothing() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let slow = mine(&wheel, "slow", Duration::from_millis(30)).await;
    slow.save(&[("cursor", "1")]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(40)).await;
    let next = mine(&wheel, "next", LEASE).await;
    assert_eq!(next.field("cursor"), Some("1"), "the next one goes on where the first stopped");
    next.save(&[("cursor", "2")]).await.unwrap();
    for late in [
        slow.save(&[("cursor", "stale")]).await,
        slow.finish("stale", &[("cursor", "stale")]).await,
        slow.release(&[("cursor", "stale")]).await,
    ] {
        assert!(matches!(late, Err(Error::Overtaken(_))), "{late:?}");
    }
    let record = wheel.job_record("sweep").await.unwrap();
    assert_eq!(record.fields["cursor"], "2");
    assert_eq!((record.runner.as_deref(), record.ran_at), (Some("next"), None));
    assert!(record.held_until.is_some(), "the stale release let go of another's lease");
    assert!(wheel.job_runs("sweep", 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn work_that_lasts_longer_than_a_lease_keeps_it() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let job = mine(&wheel, "a", Duration::from_millis(300)).await;
    let other = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(matches!(take(&wheel, "b", LEASE).await, Taken::Held { .. }));
        }
        Ok(())
    };
    job.hold(other).await.unwrap();
    job.finish("", &[]).await.unwrap();
}

#[tokio::test]
async fn work_is_dropped_when_its_lease_is_anothers() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let job = mine(&wheel, "a", Duration::from_millis(200)).await;
    let began = Instant::now();
    let work = async {
        // The process stands still for longer than its lease.
        std::thread::sleep(Duration::from_millis(250));
        let _next = mine(&wheel, "b", LEASE).await;
        std::future::pending::<()>().await;
        Ok(())
    };
    let lost = job.hold(work).await;
    assert!(matches!(lost, Err(Error::Overtaken(_))), "{lost:?}");
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn work_is_dropped_when_redis_does_not_answer_for_a_lease() {
    let mut server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    let job = mine(&wheel, "a", Duration::from_millis(400)).await;
    server.kill9();
    let lost = job.hold(std::future::pending::<Result<(), Error>>()).await;
    assert!(matches!(lost, Err(Error::Overtaken(_))), "{lost:?}");
}

#[tokio::test]
async fn a_job_that_is_dropped_on_the_way_is_let_go_before_its_process_ends() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    drop(mine(&wheel, "a", LEASE).await);
    wheel.let_go(Duration::from_secs(60)).await;
    assert!(wheel.job_record("sweep").await.unwrap().held_until.is_none());

    // Dropped while it asks, at any moment of it.
    for moment in 0..20 {
        let asking = mine(&wheel, "b", LEASE);
        let _ = tokio::time::timeout(Duration::from_micros(moment * 50), asking).await;
        wheel.let_go(Duration::from_secs(60)).await;
        assert!(wheel.job_record("sweep").await.unwrap().held_until.is_none(), "after {moment} steps");
    }
}

#[tokio::test]
async fn a_run_that_began_lately_makes_another_needless_and_the_fence_grows_through_a_loss_of_redis() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    let first = mine(&wheel, "a", LEASE).await;
    let began = first.began_at();
    first.finish("", &[]).await.unwrap();
    let since = |moment| wheel.take_job("sweep", "b", LEASE, Some(moment));
    let Taken::Fresh { began_at } = since(began).await.unwrap() else { panic!("ran twice") };
    assert_eq!(began_at, began);
    let Taken::Mine(second) = since(began.plus(Duration::from_millis(1))).await.unwrap() else {
        panic!("not again")
    };
    let fence = |of: &str| server.command::<u64>(&["HGET", of, "fence"]);
    let key = format!("dw1:{{{}}}:job:sweep", wheel.name());
    let before = fence(&key);
    server.command::<()>(&["FLUSHALL"]);
    assert!(matches!(second.save(&[]).await, Err(Error::Overtaken(_))), "a lost lease was renewed");
    mine(&wheel, "c", LEASE).await;
    assert!(fence(&key) > before);
}

#[tokio::test]
async fn the_last_hundred_runs_are_kept_newest_first() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    for n in 0..105 {
        mine(&wheel, "a", LEASE).await.finish(&n.to_string(), &[]).await.unwrap();
    }
    let runs = wheel.job_runs("sweep", 1000).await.unwrap();
    assert_eq!((runs.len(), runs[0].as_str(), runs[99].as_str()), (100, "104", "5"));
}

#[tokio::test]
async fn a_repeated_finish_is_one_run() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let job = mine(&wheel, "a", LEASE).await;
    job.finish("once", &[]).await.unwrap();
    job.finish("once", &[]).await.unwrap();
    assert_eq!(wheel.job_runs("sweep", 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_bad_call_of_the_script_is_refused_before_any_write() {
    let server = RedisServer::shared();
    let mut connection = redis::Client::open(server.unix_url()).unwrap().get_connection().unwrap();
    let keys = ["dw1:{bad-job}:job:x", "dw1:{bad-job}:runs:x"];
    for args in [
        &["take", "a", "1000"][..],
        &["take", "a", "0", "0"],
        &["take", "a", "nan", "0"],
        &["take", "a", "1e3", "0"],
        &["take", "", "1000", "0"],
        &["take", "a", "1000", "-1"],
        &["take", "a", "1000", "0", "more"],
        &["steal", "a", "1000", "0"],
        &["save", "a", "1000", "0"],
        &["save", "a", "1000", "0", "", ":field"],
        &["save", "a", "1000", "0", "", "fence", "9"],
    ] {
        let refused = redis::cmd("EVAL")
            .arg(script::JOB.source())
            .arg(2)
            .arg(&keys)
            .arg(args)
            .query::<redis::Value>(&mut connection);
        assert_eq!(refused.unwrap_err().code(), Some("BADCALL"), "{args:?}");
    }
    assert_eq!(server.command::<u64>(&["EXISTS", keys[0], keys[1]]), 0);
}

#[tokio::test]
async fn the_wheel_says_of_many_ids_at_once_where_each_is() {
    let wheel = wheel(RedisServer::shared(), 4).await;
    for (name, due) in [("late", after(3_600_000)), ("leased", after(0)), ("dead", after(0))] {
        wheel.enqueue(&deadline(name, due), OnConflict::Keep, false).await.unwrap().unwrap();
    }
    wheel.cancel(&[id("ended")]).await;
    for name in ["leased", "dead"] {
        let leases = claim(&wheel, wheel.shard_of(&id(name)), name.len() as u64).await.leases;
        if let Some(lease) = leases.iter().find(|lease| lease.id.as_str() == "dead") {
            let what = duewheel::wheel::What::Bury("x".to_owned());
            let settlement = duewheel::wheel::Settlement { id: id("dead"), fence: lease.fence, what };
            wheel.settle(wheel.shard_of(&id("dead")), &[settlement]).await.unwrap();
        }
    }
    let many: Vec<_> = (0..3000).map(|n| id(&format!("none-{n}"))).collect();
    let mut asked: Vec<_> = many.iter().collect();
    let named = ["late", "leased", "dead", "ended"].map(id);
    asked.extend(&named);
    let held = wheel.held(&asked).await.unwrap();
    assert!(held[..3000].iter().all(|state| *state == State::Absent));
    assert_eq!(held[3000..], [State::Scheduled, State::Leased, State::Dead, State::Ended]);
}

#[tokio::test]
async fn an_emptied_wheel_asks_for_a_rebuild() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 2).await;
    let asked = wheel.job_record("rebuild").await.unwrap().asked_at.expect("a new wheel asks");
    server.command::<()>(&["FLUSHALL"]);
    let soon = DueAt::After(Duration::from_secs(60));
    wheel.enqueue(&deadline("a", soon), OnConflict::Keep, false).await.unwrap().unwrap();
    let again = wheel.job_record("rebuild").await.unwrap().asked_at.expect("an emptied one asks");
    assert!(again > asked);
}
