//! The audit: every act is in it, once, whatever became of the program that did it.

use std::time::Duration;

use duewheel::deadline::{DueAt, Generation, State};
use duewheel::error::StoreKind;
use duewheel::operator::{Door, Operator, Person};
use duewheel::wheel::answer::Refusal;
use duewheel::wheel::{AuditEntry, AuditFilter, AuditOutcome, Wheel};
use serde_json::json;

use crate::rig::api::ApiServer;
use crate::rig::cli::Cli;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{after, bury, enqueue, id, wheel};

fn anna(wheel: &Wheel) -> Operator {
    Operator::new(wheel.clone(), Person::new("anna", Door::Page).unwrap())
}

async fn audit(wheel: &Wheel) -> Vec<AuditEntry> {
    wheel.audit(&AuditFilter::default(), None, 100).await.unwrap().entries
}

/// act, ids, asked, done, outcome, said
fn told(entry: &AuditEntry) -> String {
    format!(
        "{} [{}] {}/{} {}{}",
        entry.act,
        entry.ids.join(" "),
        entry.done,
        entry.asked,
        entry.outcome.as_str(),
        entry.said.as_ref().map(|said| format!(": {said}")).unwrap_or_default()
    )
}

#[tokio::test]
async fn every_act_says_who_through_which_door_about_what_why_to_how_many_and_what_came_of_it() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    let anna = anna(&wheel);
    for name in ["a", "b", "c"] {
        enqueue(&wheel, name, after(600_000)).await.unwrap();
    }
    for name in ["d1", "d2", "d3"] {
        bury(&wheel, name, "the hook said 500").await;
    }
    let hour = DueAt::After(Duration::from_secs(7200));
    anna.hold(&id("a"), Duration::from_secs(1200), None, "she pays").await.unwrap().unwrap();
    anna.release(&id("a"), "").await.unwrap().unwrap();
    anna.reschedule(&id("a"), hour, None, "she asked").await.unwrap().unwrap();
    let stale = anna.reschedule(&id("a"), hour, Some(Generation(7)), "").await.unwrap();
    assert!(matches!(stale, Err(Refusal::Generation { .. })));
    anna.close(&id("b"), "fraud").await.unwrap().unwrap();
    let answers = anna.cancel(&[id("a"), id("nobody")], "").await.unwrap();
    assert_eq!(answers.len(), 2);
    let answers = anna.revive(&[id("d1"), id("d2"), id("c")], "mended").await.unwrap();
    assert!(matches!(answers[2], Ok(Err(Refusal::Scheduled))), "answers stand in the order of the ids");
    anna.drop(&[id("d3")], "paid in cash").await.unwrap().remove(0).unwrap().unwrap();
    anna.pause("deploy").await.unwrap();
    anna.resume("").await.unwrap();
    anna.ask_for("rebuild", false, "to be sure").await.unwrap();

    let all = audit(&wheel).await;
    let mut lines: Vec<_> = all.iter().map(told).collect();
    lines.reverse();
    assert_eq!(
        lines,
        [
            "hold [a] 1/1 done",
            "release [a] 1/1 done",
            "reschedule [a] 1/1 done",
            "reschedule [a] 0/1 refused: generation",
            "close [b] 1/1 done",
            "cancel [a nobody] 1/2 partial: absent",
            "revive [d1 d2 c] 2/3 partial: scheduled",
            "drop [d3] 1/1 done",
            "pause [] 1/1 done",
            "resume [] 1/1 done",
            "run [] 1/1 done",
        ]
    );
    assert!(all.iter().all(|one| one.by == "anna" && one.door.as_deref() == Some("page")));
    assert!(all.iter().all(|one| one.began_at_ms.is_some_and(|began| began <= one.at_ms)));
    let of = |act: &str| all.iter().find(|one| one.act == act).unwrap();
    assert_eq!((of("close").reason.as_str(), of("hold").about.as_deref()), ("fraud", Some("for 20m")));
    assert_eq!((of("run").about.as_deref(), of("run").reason.as_str()), (Some("rebuild"), "to be sure"));
}

#[tokio::test]
async fn the_audit_is_paged_newest_first_and_narrowed_by_id_and_by_act() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let anna = anna(&wheel);
    for n in 0..25 {
        anna.cancel(&[id(&format!("o-{n}")), id("common")], "").await.unwrap();
        if n % 5 == 0 {
            anna.pause(&format!("round {n}")).await.unwrap();
        }
    }
    // One whose end was never written: the program died.
    let begun = AuditEntry {
        act: "drop".into(),
        by: "bert".into(),
        outcome: AuditOutcome::Begun,
        ..AuditEntry::default()
    };
    wheel.write_audit(&begun).await.unwrap();
    let whole = audit(&wheel).await;
    assert_eq!((whole.len(), whole[0].outcome), (31, AuditOutcome::Begun));
    assert!(whole.is_sorted_by(|a, b| a.at_ms >= b.at_ms));
    for limit in [1, 2, 3, 7] {
        let (mut paged, mut cursor) = (Vec::new(), None);
        loop {
            let page = wheel.audit(&AuditFilter::default(), cursor.as_ref(), limit).await.unwrap();
            paged.extend(page.entries);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(paged, whole, "pages of {limit}: each act once, in the same order");
    }
    let narrowed = |id: Option<&str>, act: Option<&str>| {
        let act = act.map(str::to_owned);
        let filter = AuditFilter { id: id.map(crate::rig::wheel::id), act, or_bulk: false };
        let wheel = wheel.clone();
        async move { wheel.audit(&filter, None, 100).await.unwrap().entries.len() }
    };
    assert_eq!(narrowed(Some("o-7"), None).await, 1);
    assert_eq!(narrowed(Some("common"), None).await, 25);
    assert_eq!(narrowed(Some("common"), Some("pause")).await, 0);
    assert_eq!(narrowed(None, Some("pause")).await, 5);
    for bad in ["", "x", "1-1.", "1-1.x", "-1", "(1-1"] {
        let cursor = duewheel::wheel::answer::Cursor(bad.to_owned());
        assert!(wheel.audit(&AuditFilter::default(), Some(&cursor), 1).await.is_err(), "{bad:?}");
    }
}

#[tokio::test]
async fn two_acts_at_once_are_two_entries_whatever_page_their_ends_stand_on() {
    let wheel = wheel(RedisServer::shared(), 1).await;
    let entry = |act: &str, at: &str| AuditEntry {
        act: act.into(),
        by: "anna".into(),
        entry: at.into(),
        outcome: if at.is_empty() { AuditOutcome::Begun } else { AuditOutcome::Done },
        ..AuditEntry::default()
    };
    let slow = wheel.write_audit(&entry("revive", "")).await.unwrap();
    let quick = wheel.write_audit(&entry("pause", "")).await.unwrap();
    wheel.write_audit(&entry("pause", &quick)).await.unwrap();
    wheel.write_audit(&entry("revive", &slow)).await.unwrap();
    let mut cursor = None;
    for expected in ["revive", "pause"] {
        let page = wheel.audit(&AuditFilter::default(), cursor.as_ref(), 1).await.unwrap();
        assert_eq!(page.entries[0].act, expected);
        assert_eq!(page.entries[0].outcome, AuditOutcome::Done);
        cursor = page.next;
    }
    assert_eq!(cursor, None, "the intents are not shown beside their ends");
}

#[tokio::test]
async fn what_an_older_program_wrote_is_read() {
    let server = RedisServer::shared();
    let wheel = wheel(server, 1).await;
    let key = format!("dw1:{{{}}}:audit", wheel.name());
    for fields in [
        &["action", "incident_ack", "id", "o-1", "by", "anna", "reason", "refunded"][..],
        &["action", "tripped", "by", "host:7", "reason", "too many"],
        &["action", "resumed", "by", "anna", "reason", "mended"],
        &["something", "else"],
    ] {
        server.command::<String>(&[&["XADD", &key, "*"], fields].concat());
    }
    let lines: Vec<_> = audit(&wheel).await.iter().map(told).collect();
    assert_eq!(
        lines,
        [" [] 1/1 done", "resume [] 1/1 done", "trip [] 1/1 done", "acknowledge [o-1] 1/1 done"]
    );
}

#[tokio::test]
async fn an_act_that_cannot_be_written_down_is_not_done_and_one_that_is_refused_beforehand_leaves_no_trace() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    let anna = anna(&wheel);
    enqueue(&wheel, "a", after(3_600_000)).await.unwrap();
    for bad in ["", " ", "two\nlines", &"x".repeat(501)] {
        assert!(anna.close(&id("a"), bad).await.is_err(), "{bad:?}");
    }
    assert!(anna.cancel(&[id("a")], &"x".repeat(501)).await.is_err());
    assert!(anna.ask_for("dance", false, "").await.is_err());
    assert_eq!(audit(&wheel).await, []);
    assert_eq!(wheel.inspect(&id("a")).await.unwrap().state, State::Scheduled);
    server.command::<String>(&["SET", &format!("dw1:{{{}}}:audit", wheel.name()), "in the way"]);
    assert_eq!(anna.cancel(&[id("a")], "").await.unwrap_err().store_kind(), Some(StoreKind::Corrupt));
    assert_eq!(wheel.inspect(&id("a")).await.unwrap().state, State::Scheduled);
}

#[tokio::test]
async fn people_act_and_leave_a_trace_while_memory_is_full() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    enqueue(&wheel, "a", after(3_600_000)).await.unwrap();
    server.command::<String>(&["CONFIG", "SET", "maxmemory", "1"]);
    anna(&wheel).cancel(&[id("a")], "no room").await.unwrap().remove(0).unwrap().unwrap();
    assert_eq!(told(&audit(&wheel).await[0]), "cancel [a] 1/1 done");
}

#[tokio::test]
async fn a_lost_answer_leaves_an_act_whose_outcome_is_open_and_never_none() {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    enqueue(&wheel, "a", after(3_600_000)).await.unwrap();
    // Whoever asked went away in the middle of the act.
    let operator = anna(&wheel);
    let cut = tokio::time::timeout(Duration::from_millis(200), async {
        let forever = std::future::pending::<duewheel::error::Result<(u64, ())>>();
        operator.run("sweep", "by hand", forever).await
    });
    assert!(cut.await.is_err());
    let all = audit(&wheel).await;
    assert_eq!(told(&all[0]), "run [] 0/1 begun");
    assert_eq!(all[0].began_at_ms, None);
}

#[tokio::test]
async fn the_doors_that_need_operate_are_audited_and_what_services_do_is_not() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let path = |rest: &str| api.path(rest);
    client.json("PUT", &path("/deadlines/a"), r#"{"in":"1h"}"#).await.is(201);
    client.json("POST", &path("/deadlines/a/hold"), r#"{"for":"2h"}"#).await;
    client.json("PATCH", &path("/deadlines/a"), r#"{"in":"2h"}"#).await.is(200);
    assert_eq!(audit(&api.wheel).await, [], "what a service does has its events");
    client.json("POST", &path("/deadlines/a/close"), r#"{"reason":"fraud","actor":"alice"}"#).await.is(202);
    bury(&api.wheel, "d1", "no").await;
    bury(&api.wheel, "d2", "no").await;
    client
        .json("POST", &path("/dead/revive"), r#"{"ids":["d1"],"actor":"bob","reason":"mended"}"#)
        .await
        .is(200);
    client.json("POST", &path("/dead/drop"), r#"{"filter":{"all":true}}"#).await.is(200);
    client.json("POST", &path("/pause"), r#"{"reason":"deploy"}"#).await.is(200);
    client.send("POST", &path("/resume"), &[], "").await.is(200);
    client.json("POST", &path("/resume"), r#"{"reason":""}"#).await.problem(422, "invalid");
    let all = audit(&api.wheel).await;
    let lines: Vec<_> = all.iter().rev().map(|one| format!("{} by {}", told(one), one.by)).collect();
    assert_eq!(
        lines,
        [
            "close [a] 1/1 done by alice (token http)",
            "revive [d1] 1/1 done by bob (token http)",
            "drop [d2] 1/1 done by token http",
            "pause [] 1/1 done by token http",
            "resume [] 1/1 done by token http",
        ]
    );
    assert!(all.iter().all(|one| one.door.as_deref() == Some("api")));
    api.stop().await;
}

#[test]
fn the_command_line_leaves_its_user_or_whoever_is_named() {
    let cli = Cli::new(RedisServer::shared());
    cli.run(&["enqueue", "a", "--in", "10m"]).ends(0);
    cli.run(&["reschedule", "a", "--in", "15m"]).ends(0);
    cli.run(&["hold", "a", "--for", "20m", "--by", "anna", "--reason", "she pays"]).ends(0);
    cli.run(&["release", "a"]).ends(0);
    cli.run(&["close", "a", "--reason", "fraud", "--actor", "alice"]).ends(0);
    cli.run(&["cancel", "a", "b"]).ends(4);
    cli.run(&["dead", "revive", "nobody"]).ends(5);
    cli.run(&["dead", "drop", "nobody", "--yes"]).ends(5);
    cli.run(&["pause", "--reason", "deploy"]).ends(0);
    cli.run(&["resume"]).ends(0);
    let acts: Vec<_> = cli.run(&["audit", "--json"]).ends(0).objects();
    let words: Vec<_> = acts.iter().rev().map(|act| act["act"].as_str().unwrap()).collect();
    assert_eq!(
        words,
        ["reschedule", "hold", "release", "close", "cancel", "revive", "drop", "pause", "resume"]
    );
    assert!(acts.iter().all(|act| act["door"] == "cli"));
    let by =
        |act: &str| acts.iter().find(|one| one["act"] == act).unwrap()["by"].as_str().unwrap().to_owned();
    assert_eq!((by("hold"), by("close")), ("anna".to_owned(), "alice".to_owned()));
    assert!(by("pause").starts_with("tester@"), "{}", by("pause"));
    let one = cli.run(&["audit", "--id", "b", "--json"]).ends(0).object();
    assert_eq!((&one["ids"], &one["outcome"]), (&json!(["a", "b"]), &json!("partial")));
    let page = cli.run(&["audit", "--act", "pause", "--limit", "1"]).ends(0);
    assert!(page.stdout.contains("deploy") && page.stdout.contains("1/1"), "{page:?}");
    cli.run(&["audit", "--act", "dance"]).ends(2);
    let more = cli.run(&["audit", "--limit", "2", "--json"]).ends(0).stderr;
    let cursor = more.split("--cursor ").nth(1).unwrap().trim().to_owned();
    let next = cli.run(&["audit", "--limit", "2", "--json", "--cursor", &cursor]).ends(0).objects();
    assert_eq!(next[0]["act"], "drop");
}
