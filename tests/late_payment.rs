//! A payment either ends the deadline or becomes an incident that a person sees: it never vanishes, whenever it comes.

use std::sync::Arc;
use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::deadline::{OnConflict, Outcome, State};
use duewheel::hook::Verdict;
use duewheel::lease::Lease;
use duewheel::operator::{Door, Operator, Person};
use duewheel::shard::Shard;
use duewheel::wheel::answer::Cancelled;
use duewheel::wheel::{
    Acknowledged, AuditFilter, Incident, IncidentKind, Paid, Payment, Settlement, What, Wheel, WheelSettings,
};
use serde_json::json;

use crate::rig::cli::Cli;
use crate::rig::crew::{Mate, quick};
use crate::rig::hook::Recorder;
use crate::rig::redis::RedisServer;
use crate::rig::wheel::{after, claim, deadline, enqueue, id, key, settings, wheel, wheel_of};
use crate::rig::{PATIENCE, eventually};

const S: Shard = Shard(0);

fn payment(text: &str) -> Payment {
    Payment::new(id(text), None, Some("99.00 CNY".to_owned())).unwrap()
}

async fn paid(wheel: &Wheel, text: &str) -> Paid {
    wheel.paid(&payment(text), Duration::ZERO).await.unwrap()
}

fn incident(paid: Paid) -> Incident {
    match paid {
        Paid::Incident(incident) => *incident,
        other => panic!("{other:?}"),
    }
}

async fn lease(wheel: &Wheel, text: &str, nonce: u64) -> Lease {
    enqueue(wheel, text, after(0)).await.unwrap();
    claim(wheel, S, nonce).await.leases.remove(0)
}

async fn settle(wheel: &Wheel, lease: &Lease, what: What) {
    wheel.settle(S, &[Settlement { id: lease.id.clone(), fence: lease.fence, what }]).await.unwrap();
}

fn closed(lease: &Lease) -> What {
    What::End { outcome: Outcome::Closed, lease: Arc::new(lease.clone()) }
}

async fn told(wheel: &Wheel) -> Vec<(String, String, String)> {
    let mut reader = wheel.events(Moment::EPOCH);
    let mut all = Vec::new();
    while reader.read().await.map(|page| (page.more, all.extend(page.events)).0).unwrap() {}
    all.extend(reader.rest());
    all.retain(|event| event.what == "late_payment");
    all.into_iter().map(|e| (e.id, e.details["kind"].clone(), e.details["age_ms"].clone())).collect()
}

#[tokio::test]
async fn a_payment_in_time_ends_the_deadline_and_is_no_incident() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    enqueue(&wheel, "x", after(3_600_000)).await.unwrap();
    assert_eq!(paid(&wheel, "x").await, Paid::InTime(Cancelled::Cancelled));
    assert_eq!(paid(&wheel, "x").await, Paid::InTime(Cancelled::Already));
    // Before its create event: the order is not brought back.
    assert_eq!(paid(&wheel, "early").await, Paid::Absent);
    assert!(enqueue(&wheel, "early", after(0)).await.is_err());
    // The close had seen the payment itself.
    let found = lease(&wheel, "seen", 1).await;
    settle(&wheel, &found, What::End { outcome: Outcome::Skipped, lease: Arc::new(found.clone()) }).await;
    assert!(matches!(paid(&wheel, "seen").await, Paid::Skipped(ended) if ended.outcome == Outcome::Skipped));
    assert_eq!((wheel.incidents(true).await.unwrap(), told(&wheel).await), (vec![], vec![]));
}

#[tokio::test]
async fn a_payment_after_the_close_is_one_incident_however_often_it_is_reported() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let taken = lease(&wheel, "x", 1).await;
    settle(&wheel, &taken, closed(&taken)).await;
    let ended = wheel.inspect(&id("x")).await.unwrap().ended.unwrap().ended_at;
    let late = Payment::new(id("x"), Some(ended.plus(Duration::from_secs(3))), None).unwrap();
    let first = incident(wheel.paid(&late, Duration::ZERO).await.unwrap());
    assert_eq!(
        (first.kind, first.age_ms(), first.generation),
        (IncidentKind::Closed, 3000, taken.generation.0)
    );
    for _ in 0..3 {
        assert_eq!(incident(paid(&wheel, "x").await), first, "what was said first stands");
    }
    // Two at once are one, too.
    let (a, b) = tokio::join!(paid(&wheel, "x"), paid(&wheel, "x"));
    assert_eq!((incident(a), incident(b)), (first.clone(), first.clone()));
    assert_eq!(wheel.incidents(false).await.unwrap(), [first]);
    let three = |id: &str, kind: &str, age: &str| (id.to_owned(), kind.to_owned(), age.to_owned());
    assert_eq!(told(&wheel).await, [three("x", "closed", "3000")]);
    // Another life of the id, closed and paid again, is another incident.
    wheel.enqueue(&deadline("x", after(0)), OnConflict::Keep, true).await.unwrap().unwrap();
    let taken = claim(&wheel, S, 2).await.leases.remove(0);
    settle(&wheel, &taken, closed(&taken)).await;
    let before = Payment::new(id("x"), Some(ended), None).unwrap();
    let second = incident(wheel.paid(&before, Duration::ZERO).await.unwrap());
    assert!(second.age_ms() <= 0, "paid before the close, reported after it");
    assert_eq!(wheel.incidents(false).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_payment_for_a_dead_order_takes_it_out_of_the_dead_and_is_seen_by_a_person() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let taken = lease(&wheel, "x", 1).await;
    settle(&wheel, &taken, What::Bury("no such order".to_owned())).await;
    let first = incident(paid(&wheel, "x").await);
    assert_eq!(first.kind, IncidentKind::Dead);
    assert_eq!(wheel.inspect(&id("x")).await.unwrap().state, State::Ended);
    assert!(wheel.revive(&id("x")).await.unwrap().is_err(), "it can not be closed any more");
    assert_eq!(incident(paid(&wheel, "x").await), first);
    assert_eq!(wheel.incidents(false).await.unwrap(), [first]);
}

#[tokio::test]
async fn a_payment_while_a_worker_closes_is_decided_by_what_that_attempt_does() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    // It closes: late. Nobody asks again, and the listing finds out.
    let taken = lease(&wheel, "closes", 1).await;
    assert_eq!(incident(paid(&wheel, "closes").await).kind, IncidentKind::Closing);
    settle(&wheel, &taken, closed(&taken)).await;
    let listed = wheel.incidents(false).await.unwrap();
    assert_eq!((listed.len(), listed[0].kind, listed[0].id.as_str()), (1, IncidentKind::Closed, "closes"));
    assert_eq!(told(&wheel).await.len(), 1);
    assert_eq!(incident(paid(&wheel, "closes").await), listed[0]);
    // It fails: the payment was in time, and nothing is left for a person.
    let taken = lease(&wheel, "fails", 2).await;
    assert_eq!(incident(paid(&wheel, "fails").await).kind, IncidentKind::Closing);
    settle(&wheel, &taken, What::Retry(Duration::ZERO, String::new())).await;
    assert_eq!(wheel.incidents(false).await.unwrap(), listed);
    assert_eq!(paid(&wheel, "fails").await, Paid::InTime(Cancelled::Already));
    // It is waited for.
    let taken = lease(&wheel, "slow", 3).await;
    let (wait, slow) = (Duration::from_secs(10), payment("slow"));
    let (answer, ()) = tokio::join!(wheel.paid(&slow, wait), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        settle(&wheel, &taken, closed(&taken)).await;
    });
    assert_eq!(incident(answer.unwrap()).kind, IncidentKind::Closed);
}

/// A wheel of one shard that forgets after these times.
async fn forgetful(ended_keep: Duration, cancelled_keep: Duration) -> Wheel {
    wheel_of(RedisServer::shared(), WheelSettings { ended_keep, cancelled_keep, ..settings(1) }).await
}

const LONG: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_payment_in_time_leaves_nothing_open_where_cancellations_are_not_remembered() {
    let wheel = forgetful(LONG, Duration::ZERO).await;
    // Nobody waits for the attempt, which fails; the listing finds out.
    let taken = lease(&wheel, "listed", 1).await;
    assert_eq!(incident(paid(&wheel, "listed").await).kind, IncidentKind::Closing);
    assert_eq!(wheel.incidents(false).await.unwrap().len(), 1, "it is not decided");
    settle(&wheel, &taken, What::Retry(Duration::ZERO, String::new())).await;
    assert_eq!(wheel.inspect(&id("listed")).await.unwrap().state, State::Absent);
    assert_eq!(wheel.incidents(false).await.unwrap(), []);
    // It is waited for.
    let taken = lease(&wheel, "slow", 2).await;
    let slow = payment("slow");
    let (answer, ()) = tokio::join!(wheel.paid(&slow, PATIENCE), async {
        eventually(PATIENCE, async || wheel.incidents(false).await.unwrap().pop()).await;
        settle(&wheel, &taken, What::Retry(Duration::ZERO, String::new())).await;
    });
    assert_eq!(answer.unwrap(), Paid::InTime(Cancelled::Cancelled));
    // The shop repeats its report.
    let taken = lease(&wheel, "repeated", 3).await;
    assert_eq!(incident(paid(&wheel, "repeated").await).kind, IncidentKind::Closing);
    settle(&wheel, &taken, What::Retry(Duration::ZERO, String::new())).await;
    assert_eq!(paid(&wheel, "repeated").await, Paid::InTime(Cancelled::Cancelled));
    assert_eq!(wheel.incidents(true).await.unwrap(), []);
    assert_eq!(paid(&wheel, "repeated").await, Paid::Absent, "as any other that nobody knows");
}

#[tokio::test]
async fn a_cancellation_that_was_remembered_and_forgotten_since_is_in_time_as_well() {
    let wheel = forgetful(LONG, LONG).await;
    let ended = key(&wheel, S, "ended");
    for (name, repeated) in [("x", false), ("y", true)] {
        let taken = lease(&wheel, name, u64::from(repeated) + 1).await;
        assert_eq!(incident(paid(&wheel, name).await).kind, IncidentKind::Closing);
        settle(&wheel, &taken, What::Retry(Duration::ZERO, String::new())).await;
        // Its time is over, and the janitor came by.
        RedisServer::shared().command::<u64>(&["HDEL", &ended, name]);
        if repeated {
            // A cancel that met nothing is remembered, and is no life of it.
            wheel.cancel(&[id(name)]).await.remove(0).unwrap().unwrap();
            assert_eq!(paid(&wheel, name).await, Paid::InTime(Cancelled::Cancelled));
        }
        assert_eq!(wheel.incidents(true).await.unwrap(), [], "{name}");
    }
}

#[tokio::test]
async fn what_nobody_can_know_any_more_stays_open_for_a_person() {
    // A close is not remembered either.
    let wheel = forgetful(Duration::ZERO, Duration::ZERO).await;
    let taken = lease(&wheel, "x", 1).await;
    assert_eq!(incident(paid(&wheel, "x").await).kind, IncidentKind::Closing);
    settle(&wheel, &taken, closed(&taken)).await;
    assert_eq!(wheel.incidents(false).await.unwrap().len(), 1);
    assert_eq!(incident(paid(&wheel, "x").await).kind, IncidentKind::Closing);
    // The shard was lost after the payment: whether the close had come through it does not know.
    let server = RedisServer::shared();
    let wheel = forgetful(LONG, LONG).await;
    lease(&wheel, "y", 1).await;
    assert_eq!(incident(paid(&wheel, "y").await).kind, IncidentKind::Closing);
    for name in ["meta", "slots", "bodies", "leases", "live", "ended"] {
        server.command::<u64>(&["DEL", &key(&wheel, S, name)]);
    }
    assert_eq!(wheel.incidents(false).await.unwrap().len(), 1, "there is no shard");
    tokio::time::sleep(Duration::from_millis(2)).await;
    wheel.format().await.unwrap();
    assert_eq!(wheel.incidents(false).await.unwrap().len(), 1, "it is made anew");
    assert_eq!(incident(paid(&wheel, "y").await).kind, IncidentKind::Closing);
}

#[tokio::test]
async fn the_first_who_acknowledges_stands_and_is_written_down() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let taken = lease(&wheel, "x", 1).await;
    settle(&wheel, &taken, closed(&taken)).await;
    let person = |by: &str| Operator::new(wheel.clone(), Person::new(by, Door::Cli).unwrap());
    let (anna, bert) = (person("anna"), person("bert"));
    assert_eq!(anna.acknowledge(&id("x"), "refunded").await.unwrap(), Acknowledged::Absent);
    paid(&wheel, "x").await;
    assert!(
        matches!(anna.acknowledge(&id("x"), "refunded").await.unwrap(), Acknowledged::Now(now) if now.len() == 1)
    );
    let Acknowledged::Before(before) = bert.acknowledge(&id("x"), "refunded").await.unwrap() else {
        panic!("acknowledged twice");
    };
    assert_eq!(before[0].acknowledged.as_ref().unwrap().by, "anna");
    assert_eq!(wheel.incidents(false).await.unwrap(), []);
    // A repeated report opens nothing again.
    paid(&wheel, "x").await;
    assert_eq!(
        (wheel.incidents(false).await.unwrap().len(), wheel.incidents(true).await.unwrap().len()),
        (0, 1)
    );
    let audit = wheel.audit(&AuditFilter::default(), None, 10).await.unwrap().entries;
    let told: Vec<_> = audit.iter().map(|act| (act.by.as_str(), act.done, act.outcome.as_str())).collect();
    assert_eq!(told, [("bert", 0, "refused"), ("anna", 1, "done"), ("anna", 0, "refused")]);
}

/// Orders are paid at about the moment at which a fleet closes them. Whatever the hook of each did is what its payment is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paid_at_the_very_moment_an_order_is_either_open_or_an_incident_and_never_neither() {
    let count = if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() { 5000 } else { 300 };
    let wheel = wheel(RedisServer::shared(), 4).await;
    // Some closes fail once, so that a payment meets every state of an order.
    let script = |lease: &Lease| match (lease.generation.0 % 3, lease.attempt) {
        (0, 1) => Verdict::Failed { reason: "once".to_owned() },
        _ => Verdict::Closed,
    };
    let hook = Arc::new(Recorder::new(script).taking(Duration::from_millis(15)));
    let mate = Mate::start(&wheel, hook.clone(), quick());
    let mut payers = tokio::task::JoinSet::new();
    for n in 0..count {
        let wheel = wheel.clone();
        payers.spawn(async move {
            let name = format!("o-{n}");
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..5 * count as u64))).await;
            enqueue(&wheel, &name, after(60)).await.unwrap();
            // Some at once, some about the deadline, some when a worker has it or is done: however busy the machine is.
            match n % 3 {
                0 => {}
                1 => tokio::time::sleep(Duration::from_millis(fastrand::u64(0..160))).await,
                _ => {
                    eventually(PATIENCE, async || {
                        let seen = wheel.inspect(&id(&name)).await.ok()?;
                        (seen.state != State::Scheduled || seen.entry?.attempts > 0).then_some(())
                    })
                    .await;
                }
            }
            let answer = wheel.paid(&payment(&name), PATIENCE).await.unwrap();
            (name, answer)
        });
    }
    let answers = payers.join_all().await;
    mate.drain().await;
    let incidents = wheel.incidents(false).await.unwrap();
    let (mut open, mut late) = (0, 0);
    for (name, answer) in answers {
        let ended = wheel.inspect(&id(&name)).await.unwrap().ended.unwrap();
        let listed = incidents.iter().filter(|incident| incident.id == name).count();
        match answer {
            Paid::InTime(_) => {
                open += 1;
                assert_eq!(
                    (ended.outcome, listed),
                    (Outcome::Cancelled, 0),
                    "{name}: paid in time, and closed"
                );
            }
            Paid::Incident(incident) => {
                late += 1;
                assert_eq!(incident.kind, IncidentKind::Closed, "{name}");
                assert_eq!((ended.outcome, listed), (Outcome::Closed, 1), "{name}: late, and not closed");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    println!("{open} in time, {late} late");
    assert!(open > count / 10 && late > count / 10, "{open} in time, {late} late");
    assert_eq!(told(&wheel).await.len(), late);
}

#[test]
fn the_command_line_reports_lists_and_acknowledges() {
    let cli = Cli::new(RedisServer::shared());
    cli.write("duewheel.toml", format!("[wheel.{}.hook]\nkind = \"log\"\n", cli.wheel));
    cli.run(&["enqueue", "o-1", "--in", "1h"]).ends(0);
    assert_eq!(cli.run(&["paid", "o-1", "--json"]).ends(0).object()["outcome"], "cancelled");
    assert_eq!(cli.run(&["paid", "o-1", "--json"]).ends(0).object()["outcome"], "already_cancelled");
    assert_eq!(cli.run(&["paid", "o-9", "--json"]).ends(5).object()["outcome"], "absent");
    cli.run(&["enqueue", "o-2", "--in", "0s"]).ends(0);
    cli.run(&["worker", "--until-idle"]).ends(0);
    let late = cli.run(&["paid", "o-2", "--amount", "99.00 CNY", "--json"]).ends(6).object();
    assert_eq!((&late["outcome"], &late["incident"]["kind"]), (&json!("late"), &json!("closed")));
    assert!(late["incident"]["age_ms"].as_i64().unwrap() >= 0);
    assert!(cli.run(&["paid", "o-2"]).ends(6).stdout.contains("too late: we had closed it, paid"));
    let listed = cli.run(&["incident", "list"]).ends(0).stdout;
    assert!(listed.contains("o-2") && listed.contains("99.00 CNY"), "{listed}");
    assert_eq!(cli.run(&["events", "--type", "late_payment", "--json"]).ends(0).objects().len(), 1);
    cli.run(&["incident", "ack", "o-2"]).ends(2);
    assert_eq!(cli.run(&["incident", "ack", "o-3", "--by", "anna"]).ends(5).code, 5);
    let seen = cli
        .run(&["incident", "ack", "o-2", "--by", "anna", "--reason", "refunded", "--json"])
        .ends(0)
        .object();
    assert_eq!(
        (&seen["outcome"], &seen["incidents"][0]["acknowledged"]["by"]),
        (&json!("acknowledged"), &json!("anna"))
    );
    let again = cli.run(&["incident", "ack", "o-2", "--by", "bert", "--json"]).ends(0).object();
    assert_eq!(again["outcome"], "already_acknowledged");
    assert!(cli.run(&["incident", "list"]).ends(0).stderr.contains("none on wheel"));
    assert!(cli.run(&["incident", "list", "--all"]).ends(0).stdout.contains("anna"));
    let long = "9".repeat(65);
    assert!(cli.run(&["paid", "o-2", "--amount", &long]).ends(2).stderr.contains("amount"));
}
