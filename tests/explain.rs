//! One order's story: what `explain` tells of an order in each state, over wheel, orders table, audit table and events.

use std::sync::Arc;
use std::time::Duration;

use duewheel::deadline::{Cause, Deadline, OnConflict, Outcome};
use duewheel::hook::sql::SqlSettings;
use duewheel::operator::{Door, Operator, Person};
use duewheel::shard::Shard;
use duewheel::sweep::{Explanation, Inquiry, Table};
use duewheel::wheel::{BulkAct, BulkFilter, ClaimInHand, Settlement, What, WorkerRecord};
use serde_json::{Value, json};

use crate::rig::api::Client;
use crate::rig::cli::Ran;
use crate::rig::page::Page;
use crate::rig::redis::RedisServer;
use crate::rig::shop::{Kind, Shop};
use crate::rig::wheel::{after, claim, deadline, heard, id, stays};
use crate::rig::worker::{Fleet, Plan};
use crate::rig::{PATIENCE, eventually};

const NET: &str = "[wheel.WHEEL.sweep]\nevery = \"off\"\nrebuild = false\n";

fn story(fleet: &Fleet, id: &str) -> Value {
    fleet.run(&["explain", id, "--json"]).ends(0).object()
}

fn why(story: &Value) -> &str {
    story["why"].as_str().unwrap()
}

fn told(story: &Value) -> Vec<String> {
    let all = story["timeline"].as_array().unwrap().iter();
    all.map(|one| format!("{} {}", one["source"].as_str().unwrap(), one["what"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_explained_by_wheel_table_and_audit_on_every_database() {
    let server = RedisServer::shared();
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 1).await;
        let fleet = Fleet::new(server, &Plan::new(server.url()).closing(&shop).net(NET)).await;
        // 1 and 6 are closed; 2 is paid before its deadline; 3 nobody enqueued; 4 is to come; 5 was paid and not enqueued.
        shop.orders([1, 2, 3, 5, 6], -60_000, &[]).await;
        shop.orders([4], 3_600_000, &[]).await;
        shop.db.run("UPDATE orders SET status = 'paid' WHERE id IN (2, 5)").await;
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        fleet.run(&["enqueue", "1", "--in", "1ms", "--traceparent", trace]).ends(0);
        fleet.run(&["enqueue", "2", "--in", "1h"]).ends(0);
        fleet.run(&["enqueue", "4", "--in", "30m"]).ends(0);
        fleet.run(&["enqueue", "6", "--in", "1h"]).ends(0);
        fleet.run(&["close", "6", "--reason", "fraud", "--actor", "alice"]).ends(0);
        fleet.run(&["worker", "--until-idle"]).ends(0);

        let closed = story(&fleet, "1");
        assert!(
            why(&closed).starts_with("it ended as closed") && why(&closed).contains("the table agrees"),
            "{closed}"
        );
        let lines = told(&closed);
        let audit =
            lines.iter().find(|line| line.starts_with("audit AUTO_CLOSE by attempt 1, fence ")).unwrap();
        assert!(audit.contains("trace 4bf92f3577b34da6a3ce929d0e0e4736, worker "), "{kind:?}: {audit}");
        let wheel = lines.iter().find(|line| line.starts_with("wheel closed by attempt 1, fence ")).unwrap();
        let fence = |line: &str| line.split("fence ").nth(1).unwrap().split(',').next().unwrap().to_owned();
        assert_eq!(fence(audit), fence(wheel), "one close, one fence");
        assert!(
            lines.contains(&"events closed".to_owned()) && lines[0].starts_with("table to be closed"),
            "{lines:?}"
        );
        assert_eq!((&closed["row"]["open"], &closed["row"]["overdue"]), (&json!(false), &json!(true)));
        // The database and Redis stand on one machine here, and so do their clocks.
        let at = |source: &str| {
            closed["timeline"].as_array().unwrap().iter().find(|one| one["source"] == source).unwrap()["at_ms"].as_i64().unwrap()
        };
        assert!((at("audit") - at("events")).abs() < 60_000, "{kind:?}: {closed}");

        assert!(
            why(&story(&fleet, "2"))
                .contains("it will be skipped, because the table says that it is not open any more")
        );
        assert!(
            why(&story(&fleet, "3"))
                .contains("overdue, and the wheel does not know it: the next sweep brings it back")
        );
        let later = story(&fleet, "4");
        assert!(
            why(&later).contains("it is not due yet") && why(&later).contains("the table says later"),
            "{later}"
        );
        assert!(why(&story(&fleet, "5")).starts_with("it will never be closed"));
        let manual = told(&story(&fleet, "6"));
        assert!(
            manual
                .iter()
                .any(|line| line.starts_with("audit MANUAL_CLOSE")
                    && line.contains("asked for by alice (fraud)")),
            "{manual:?}"
        );

        let nobody: Ran = fleet.run(&["explain", "7"]).ends(5);
        assert!(nobody.stdout.contains("neither the wheel nor the orders table knows it"), "{nobody:?}");

        // Closed on the wheel, open in the table: a row that was opened again by hand.
        shop.db.run("UPDATE orders SET status = 'unpaid' WHERE id = 1").await;
        assert!(
            why(&story(&fleet, "1"))
                .contains("the wheel has it as closed, and yet the table says that it is open")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_story_is_told_without_a_table_and_while_the_database_is_away() {
    let server = RedisServer::shared();
    let log = Fleet::new(server, &Plan::new(server.url()).hook("kind", "\"log\"").net("")).await;
    log.run(&["enqueue", "o-1", "--in", "1h"]).ends(0);
    let text = log.run(&["explain", "o-1"]).ends(0).stdout;
    assert!(
        text.contains("wheel   due\n") && text.contains("why: it is not due yet; it fires in 59m"),
        "{text}"
    );
    log.run(&["explain", "o-2"]).ends(5);

    let shop = Shop::open(Kind::Sqlite, 1).await;
    let away = Fleet::new(server, &Plan::new(server.url()).closing(&shop).net(NET)).await;
    away.run(&["enqueue", "1", "--in", "1h"]).ends(0);
    shop.db.run("ALTER TABLE orders RENAME TO elsewhere").await;
    let story = story(&away, "1");
    assert!(
        why(&story).contains("it is not due yet")
            && why(&story).contains("the orders table could not be asked"),
        "{story}"
    );
    assert!(story["table_away"].as_str().unwrap().contains("orders"), "{story}");
}

/// Command line, API and page of one wheel.
struct Doors {
    fleet: Fleet,
    page: Page,
    client: Client,
}

impl Doors {
    async fn open(fleet: Fleet) -> Self {
        let page = Page::serve(fleet.command());
        let mut client = Client::connect(page.base.trim_start_matches("http://").parse().unwrap()).await;
        client.token = Some(page.operator.clone());
        Self { fleet, page, client }
    }

    /// The reason that all three give; they must not differ but in how many seconds have passed.
    async fn why(&mut self, id: &str) -> String {
        let by_command = why(&self.fleet.run(&["explain", id, "--json"]).object()).to_owned();
        let wheel = self.fleet.wheel.name().as_str();
        let api = self.client.bare("GET", &format!("/v1/wheels/{wheel}/deadlines/{id}/explain")).await;
        if api.status == 404 {
            assert_eq!(api.value()["code"], "absent");
        } else {
            let value = api.is(200).value();
            assert_eq!(without_numbers(why(&value)), without_numbers(&by_command), "{}", self.page.log());
        }
        let page = format!("/wheels/{wheel}/deadline?id={id}");
        let page = self.client.send("GET", &page, &[("accept", "text/html")], "").await.is(200).body;
        let page = String::from_utf8(page).unwrap();
        let shown = page.split("<p class=\"why\">").nth(1).unwrap().split(".</p>").next().unwrap();
        let shown = shown.replace("&#39;", "'").replace("&#38;", "&").replace("&#60;", "<");
        assert_eq!(without_numbers(&shown), without_numbers(&by_command));
        by_command
    }
}

/// Text with every number, and the unit behind it, left out.
fn without_numbers(text: &str) -> String {
    let words = text.split(' ').filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_every_state_command_line_api_and_page_give_the_same_plain_reason() {
    let server = RedisServer::shared();
    let shop = Shop::open(Kind::Sqlite, 1).await;
    let fleet = Fleet::new(server, &Plan::new(server.url()).shards(1).closing(&shop).net(NET)).await;
    let wheel = fleet.wheel.clone();
    // Every one has a row; the table has 20, 21 and 42 as paid, and 22 as closed by the shop itself.
    shop.orders(1..=39, -60_000, &[]).await;
    shop.orders([40, 41, 42], 3_600_000, &[]).await;
    shop.db.run("UPDATE orders SET status = 'paid' WHERE id IN (20, 21, 42)").await;
    shop.db.run("UPDATE orders SET status = 'closed' WHERE id IN (4, 5, 22)").await;
    let due = async |name: &str, cause| {
        let one = Deadline { cause, ..deadline(name, after(0)) };
        wheel.enqueue(&one, OnConflict::Keep, false).await.unwrap().unwrap();
    };
    for name in ["1", "2", "3", "4", "6", "7", "8", "20"] {
        due(name, Cause::Due).await;
    }
    due("5", Cause::Sweep).await;
    let leases = claim(&wheel, Shard(0), 1).await.leases;
    assert_eq!(leases.len(), 9);
    let of_1 = leases.iter().find(|lease| lease.id.as_str() == "1").unwrap();
    let (fence_of_1, claimed_at) = (of_1.fence, wheel.now().await.unwrap());
    let settle = leases.iter().filter_map(|lease| {
        let end = |outcome| What::End { outcome, lease: Arc::new(lease.clone()) };
        let what = match lease.id.as_str() {
            "2" => What::Retry(Duration::from_secs(600), "status 503: <busy\n".to_owned()),
            "3" => What::Wait(Duration::from_secs(600)),
            "4" | "5" => end(Outcome::Closed),
            "6" | "7" => What::Bury("status 500: out of stock".to_owned()),
            "20" => end(Outcome::Skipped),
            _ => return None,
        };
        Some(Settlement { id: lease.id.clone(), fence: lease.fence, what })
    });
    wheel.settle(Shard(0), &settle.collect::<Vec<_>>()).await.unwrap();
    fleet.run(&["cancel", "8", "--reason", "paid by bank", "--by", "bert"]).ends(6);
    fleet.run(&["dead", "drop", "7", "--reason", "refunded", "--by", "bert", "--yes"]).ends(0);
    due("9", Cause::Due).await;
    for (name, long) in [("21", "1h"), ("40", "1h"), ("41", "10m"), ("42", "1h")] {
        fleet.run(&["enqueue", name, "--in", long]).ends(0);
    }
    fleet.run(&["hold", "41", "--for", "30m", "--reason", "a payment is under way", "--by", "bert"]).ends(0);
    fleet.run(&["cancel", "42", "--reason", "paid by bank", "--by", "bert"]).ends(0);

    let mut doors = Doors::open(fleet).await;
    for (id, says) in [
        ("90", "neither the wheel nor the orders table knows it"),
        ("30", "overdue, and the wheel does not know it: the next sweep brings it back"),
        ("22", "it will never be closed: the table says that it is not open any more (closed)"),
        ("40", "it is not due yet; it fires in"),
        ("41", "it is held while a payment is in progress; it fires in"),
        ("9", "it has been due for"),
        ("1", "a worker has it; its lease ends in"),
        ("8", "it was cancelled meanwhile and is not tried again"),
        ("2", "attempt 1 failed: status 503: <busy\\u{a}; it is tried again in"),
        ("3", "the hook was not available, or answered that it is too early; it is tried again in"),
        ("6", "it was put aside and waits for a person: status 500: out of stock"),
        ("7", "the wheel has it as cancelled, and yet the table says that it is open (unpaid)"),
        ("42", "it ended as cancelled"),
        ("21", "it will be skipped, because the table says that it is not open any more (paid)"),
        ("20", "the hook found it paid, or closed elsewhere; the table agrees that it is not open (paid)"),
        ("4", "the table agrees that it is not open (closed)"),
        ("5", "brought to the wheel by a sweep; the table agrees that it is not open (closed)"),
    ] {
        let told = doors.why(id).await;
        assert!(told.contains(says), "{id}: {told}");
    }
    assert!(doors.why("9").await.contains("no worker serves this wheel"));
    // Who did what to it by hand stands in its story.
    for (id, what) in [
        ("41", "people hold by bert, cli"),
        ("42", "people cancel by bert, cli: paid by bank"),
        ("7", "people drop by bert, cli: refunded"),
    ] {
        let lines = told(&story(&doors.fleet, id));
        assert!(lines.iter().any(|line| line.starts_with(what)), "{id}: {lines:?}");
    }
    assert!(told(&story(&doors.fleet, "7")).contains(&"events dead".to_owned()));
    let failed = "wheel attempt 1 failed: status 503: <busy\\u{a}".to_owned();
    let of_2 = story(&doors.fleet, "2");
    assert!(told(&of_2).contains(&failed), "{of_2}");
    assert_eq!(of_2["failures"][0]["reason"], "status 503: <busy\n");

    // A worker says why the hook is not asked.
    let record = WorkerRecord {
        token: "w-1".to_owned(),
        host: "shop-7".to_owned(),
        pid: 4711,
        version: "0.1.0".to_owned(),
        started_ms: wheel.now().await.unwrap().as_millis(),
        in_flight: 0,
        draining: false,
        clocks: std::collections::BTreeMap::new(),
        pauses: std::collections::BTreeMap::new(),
        held_back: vec!["db.example:5432 is not asked: connection refused".to_owned()],
        drained: None,
        claims: Vec::new(),
    };
    stays(&wheel, &record).await;
    let away = "db.example:5432 is not asked: connection refused";
    assert!(doors.why("3").await.contains(&format!("could not be closed: {away}; it is tried again in")));
    assert!(doors.why("9").await.contains(&format!("every worker is held back: {away}")));
    doors.fleet.run(&["pause", "--reason", "stock is counted", "--by", "bert"]).ends(0);
    assert!(doors.why("9").await.contains("and the wheel is paused by bert: stock is counted"));
    assert!(
        doors
            .why("40")
            .await
            .contains("if somebody resumes the wheel by then: the wheel is paused by bert: stock is counted")
    );
    assert_eq!(wheel.inspect(&id("9")).await.unwrap().state.as_str(), "scheduled");

    // The worker that has an order says so, by the claim; and is named when it is lost, until it is forgotten.
    let claim_of_1 = |ends_us: u64| ClaimInHand {
        shard: 0,
        claimed_ms: claimed_at.as_millis(),
        fence: fence_of_1.0,
        ends_us: [ends_us, ends_us + 10_000_001],
    };
    let has_it = |ends_us| WorkerRecord { claims: vec![claim_of_1(ends_us)], ..record.clone() };
    stays(&wheel, &has_it(fence_of_1.0)).await;
    let named = "worker shop-7, pid 4711 (w-1) ha";
    let told_of = doors.why("1").await;
    assert!(told_of.starts_with(&format!("{named}s it, claimed ")), "{told_of}");
    let line = format!("wheel claimed by worker shop-7, pid 4711 (w-1), fence {fence_of_1}");
    let of_1 = story(&doors.fleet, "1");
    assert!(told(&of_1).contains(&line), "{of_1}");
    assert_eq!(of_1["claimed_by"]["worker"], "w-1");
    assert_eq!(of_1["claimed_by"]["lost"], false);
    // A renewal may have come since it last said so.
    stays(&wheel, &has_it(fence_of_1.0 - 10_000_001)).await;
    assert!(doors.why("1").await.starts_with(named));
    stays(&wheel, &has_it(fence_of_1.0 - 7)).await;
    assert!(doors.why("1").await.starts_with("a worker has it"), "another claim is another's");
    stays(&wheel, &has_it(fence_of_1.0)).await;
    heard(&wheel, "w-1", wheel.now().await.unwrap().as_millis() - 60_000).await;
    let told_of = doors.why("1").await;
    assert!(told_of.starts_with(&format!("{named}d it, and was heard of last 1m")), "{told_of}");
    assert!(told_of.contains("; another takes it when its lease ends in"), "{told_of}");
    assert_eq!(story(&doors.fleet, "1")["claimed_by"]["lost"], true);

    // An act on all that fit a filter names no order; it stands in the story of one that something happened to meanwhile.
    let anna = Operator::new(wheel.clone(), Person::new("anna", Door::Cli).unwrap());
    let filter = BulkFilter { reason: Some("out of stock".to_owned()), ..BulkFilter::default() };
    anna.begin_bulk(BulkAct::Revive, filter, None, "stock came").await.unwrap();
    eventually(PATIENCE, async || {
        let lines = told(&story(&doors.fleet, "6"));
        let of_anna = |line: &&String| line.starts_with("people revive by anna, cli, ");
        lines.iter().find(of_anna).filter(|line| line.ends_with(": stock came, was under way")).map(drop)
    })
    .await;
    assert!(
        !told(&story(&doors.fleet, "41")).iter().any(|line| line.contains("anna")),
        "nothing was done to it"
    );
}

/// Readers of a server are not to be felt in the shop's database, however many there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_number_of_explanations_at_once_share_two_sessions_which_are_closed_when_nobody_asks() {
    let shop = Shop::open(Kind::Postgres, 1).await;
    shop.orders(1..=60, -60_000, &[]).await;
    let wheel = crate::rig::wheel::wheel(RedisServer::shared(), 1).await;
    // Who waits for a session waits as long as a loaded machine needs.
    let hook = SqlSettings { connect_timeout: PATIENCE, ..shop.settings() };
    let table = Arc::new(Inquiry::closing_after(&hook, Duration::from_secs(1)));
    let sessions =
        "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'duewheel'";
    let (mut readers, mut most) = (tokio::task::JoinSet::new(), 0);
    for n in 1..=60 {
        let (wheel, table) = (wheel.clone(), table.clone());
        readers.spawn(async move {
            for _ in 0..5 {
                let story = Explanation::of(&wheel, Some(&table), &id(&n.to_string())).await.unwrap();
                assert!(matches!(&story.table, Table::Asked(Some(_), _)), "{:?}", story.table);
            }
        });
    }
    while !readers.is_empty() {
        most = most.max(shop.count(sessions).await);
        while let Some(done) = readers.try_join_next() {
            done.unwrap();
        }
    }
    println!("{most} sessions");
    assert!((1..=2).contains(&most), "{most} sessions");
    eventually(PATIENCE, async || (shop.count(sessions).await == 0).then_some(())).await;
    // Whoever asks later finds it as before.
    let story = Explanation::of(&wheel, Some(&table), &id("1")).await.unwrap();
    assert!(matches!(&story.table, Table::Asked(Some(_), _)), "{:?}", story.table);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_password_of_the_database_is_taken_over_by_explanations_without_a_restart() {
    let server = RedisServer::shared();
    let shop = Shop::open(Kind::Postgres, 1).await;
    shop.orders([1], -60_000, &[]).await;
    let role = crate::rig::shop::database_name();
    shop.db.run(&format!("CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'one'")).await;
    let (_, place) = shop.url.rsplit_once('@').unwrap();
    let fleet = Fleet::new(server, &Plan::new(server.url()).closing(&shop).net(NET)).await;
    let dir = fleet.command().get_current_dir().unwrap().to_owned();
    let login = |password: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(dir.join("url"), format!("postgres://{role}:{password}@{place}\n")).unwrap();
        std::fs::set_permissions(dir.join("url"), std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    login("one");
    let config = std::fs::read_to_string(dir.join("duewheel.toml")).unwrap();
    let config = config.replace(&format!("url = {:?}", shop.url), "url_file = \"url\"");
    assert!(config.contains("url_file"), "{config}");
    std::fs::write(dir.join("duewheel.toml"), config).unwrap();

    let Doors { fleet, page, client } = Doors::open(fleet).await;
    let client = tokio::sync::Mutex::new(client);
    let path = format!("/v1/wheels/{}/deadlines/1/explain", fleet.wheel.name());
    let asked = async || client.lock().await.bare("GET", &path).await.value();
    let story = asked().await;
    assert_eq!(story["row"]["open"], json!(true), "{story}");
    shop.db.run(&format!("ALTER ROLE {role} PASSWORD 'two'")).await;
    shop.db
        .rows(&format!(
            "SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity WHERE usename = '{role}'"
        ))
        .await;
    let story =
        eventually(PATIENCE, async || Some(asked().await).filter(|story| story["row"].is_null())).await;
    assert!(!story.to_string().contains("one@"), "{story}");
    login("two");
    page.signal("HUP");
    let story =
        eventually(PATIENCE, async || Some(asked().await).filter(|story| !story["row"].is_null())).await;
    assert_eq!(story["row"]["open"], json!(true), "{story}");
}
