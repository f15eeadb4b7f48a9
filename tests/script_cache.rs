//! Scripts are constant: however long the program works, and whatever it is asked, Redis keeps the same few.

use std::time::Duration;

use duewheel::deadline::OnConflict;
use duewheel::operator::{Door, Operator, Person};
use duewheel::shard::ShardCount;
use duewheel::slot::SlotWidth;
use duewheel::wheel::{BULK, Band, Minute, Rate, Verdicts, Wheel, Wish};

use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{after, bury, deadline, enqueue, id, settings, wheel_of};

/// Everything once, each time with other names, numbers and texts.
async fn everything(wheel: &Wheel, round: u32) {
    let second = Duration::from_secs(1);
    // Most verbs in most of their ways.
    wheel.selftest(&format!("{}-{round}", wheel.name())).await.unwrap();
    let name = format!("'..order..'-{round}");
    enqueue(wheel, &name, after(600_000 + u64::from(round))).await.unwrap();
    let batch = [deadline(&format!("{name}-2"), after(0)), deadline(&format!("{name}-3"), after(5))];
    assert!(wheel.enqueue_batch(&batch, OnConflict::Replace, true).await.iter().all(Result::is_ok));
    wheel.hold(&id(&name), second * (round + 1)).await.unwrap().unwrap();
    wheel.held(&[&id(&name)]).await.unwrap();
    bury(wheel, &format!("{name}-dead"), &format!("status {round}")).await;
    assert!(wheel.drop_dead(&[id(&format!("{name}-dead"))]).await[0].is_ok());
    let operator = Operator::new(wheel.clone(), Person::new("anna", Door::Cli).unwrap());
    operator.cancel(&[id(&name)], &format!("reason {round}")).await.unwrap();
    operator.pause(&format!("round {round}")).await.unwrap();
    operator.resume("again").await.unwrap();
    // What stands on the wheel's own tag.
    let wish = Wish { want: round as usize, ..Wish::default() };
    wheel.grant(Rate::new(f64::from(round + 1), round + 1).unwrap(), "w-1", wish, second).await.unwrap();
    let band = Band { closes_per_minute: 0, closed_ratio: 0.0, ratio_least: 1, rejected_run: 0 };
    wheel.report(&Verdicts { closed: u64::from(round), ..Verdicts::default() }, &band, "w-1").await.unwrap();
    let now = wheel.now().await.unwrap();
    wheel.record_hour("w-1", &[Minute::at(now)]).await.unwrap();
    wheel.hour().await.unwrap();
    let key = format!("{round:064x}");
    wheel.begin_request(&key, &key).await.unwrap();
    wheel.answer_request(&key, &key, name.as_bytes(), Duration::from_secs(60)).await.unwrap();
    wheel.forget_request(&key, &key).await.unwrap();
    drop(wheel.take_job(BULK, &format!("w-{round}"), second, None).await.unwrap());
    assert!(wheel.verify(false).await.unwrap().findings.is_empty());
}

#[tokio::test]
async fn redis_keeps_the_same_few_scripts_however_much_is_done() {
    let server = RedisServer::start(RedisOptions::default());
    // Wheels that differ in all that a script is told.
    let mut other = settings(3);
    other.slot_width = SlotWidth::new(Duration::from_secs(7)).unwrap();
    other.ended_keep = Duration::from_secs(4711);
    let wheels = [wheel_of(&server, settings(1)).await, wheel_of(&server, other).await];
    let kept = || server.info("number_of_cached_scripts").parse::<u32>().unwrap();
    for wheel in &wheels {
        everything(wheel, 0).await;
    }
    let first = kept();
    assert!((20..=26).contains(&first), "{first} scripts");
    let rounds = if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() { 2000 } else { 60 };
    for round in 1..=rounds {
        everything(&wheels[round as usize % 2], round).await;
    }
    assert_eq!(kept(), first);
    // A move to another number of shards has a few of its own.
    let small = wheel_of(&server, settings(1)).await;
    enqueue(&small, "o-1", after(600_000)).await.unwrap();
    small.reshard(ShardCount::new(2).unwrap(), false, |_| {}).await.unwrap();
    assert!((first..=26).contains(&kept()), "{} scripts", kept());
}
