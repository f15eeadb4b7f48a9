//! The sweep: what the orders table says is overdue and the wheel does not hold is enqueued, once, and nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::deadline::{Cause, Note, OnConflict, Outcome, State};
use duewheel::error::Error;
use duewheel::hook::sql::pages::{OrdersTable, Position, TableSettings, Which};
use duewheel::hook::sql::{KeyType, SqlSettings};
use duewheel::sweep::{Looked, Report, Schedule, Sweep, SweepSettings};
use duewheel::wheel::answer::{Cursor, Row};
use duewheel::wheel::{Settlement, What, Wheel};

use crate::rig::redis::RedisServer;
use crate::rig::shop::{Kind, Shop};
use crate::rig::wheel::{after, claim, deadline, id, wheel};

fn settings() -> SweepSettings {
    SweepSettings { page: 100, ..SweepSettings::default() }
}

fn sweep_of(wheel: &Wheel, shop: &Shop, settings: SweepSettings) -> Sweep {
    Sweep::new(wheel.clone(), &shop.settings(), settings).unwrap_or_else(|e| panic!("{e}"))
}

async fn swept(wheel: &Wheel, shop: &Shop) -> Report {
    sweep_of(wheel, shop, settings()).run(|_| {}).await.unwrap()
}

/// The ids in one state, with when they are due.
pub async fn listed(wheel: &Wheel, state: State) -> Vec<(String, Moment)> {
    let (mut all, mut cursor): (Vec<_>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = wheel.list(state, Moment::EPOCH, Moment::MAX, cursor.as_ref(), 500).await.unwrap();
        all.extend(page.rows.into_iter().map(|row| match row {
            Row::Live { entry, .. } => (entry.id.as_str().to_owned(), entry.due_at),
            other => panic!("{other:?}"),
        }));
        cursor = page.next;
        if cursor.is_none() {
            return all;
        }
    }
}

fn consistent(report: &Report) {
    let parts = [
        report.held,
        report.dead,
        report.ended,
        report.enqueued,
        report.resurrected,
        report.capped,
        report.refused,
    ];
    assert_eq!(parts.iter().sum::<u64>(), report.seen, "{report:?}");
}

#[tokio::test]
async fn every_overdue_unpaid_order_is_enqueued_once_whatever_the_page() {
    for kind in Kind::ALL {
        for (orders, page) in [(250, 100), (100, 100), (101, 100), (200, 100), (0, 100), (30, 1)] {
            let (wheel, shop) = (wheel(RedisServer::shared(), 4).await, Shop::open(kind, 1).await);
            shop.orders(1..=orders, -60_000, &[]).await;
            // Not overdue, paid, closed: none of the sweep's business.
            shop.orders(1001..=1010, 3_600_000, &[]).await;
            shop.orders(2001..=2010, -60_000, &[]).await;
            shop.db.run("UPDATE orders SET status = 'paid' WHERE id BETWEEN 2001 AND 2005").await;
            shop.db.run("UPDATE orders SET status = 'closed' WHERE id BETWEEN 2006 AND 2010").await;
            let sweep = sweep_of(&wheel, &shop, SweepSettings { page, ..SweepSettings::default() });
            let report = sweep.run(|_| {}).await.unwrap();
            consistent(&report);
            assert_eq!(
                (report.seen, report.enqueued),
                (orders as u64, orders as u64),
                "{kind:?} {orders}/{page}"
            );
            let found = listed(&wheel, State::Scheduled).await;
            let ids: BTreeSet<i64> = found.iter().map(|(id, _)| id.parse().unwrap()).collect();
            assert_eq!(ids, (1..=orders).collect(), "{kind:?} {orders}/{page}");
            // Due at the row's own time: it has passed, and how late the order is stays true.
            let now = Moment::host_now();
            assert!(found.iter().all(|(_, due)| (50..120).contains(&now.since(*due).as_secs())), "{found:?}");
            let again = sweep.run(|_| {}).await.unwrap();
            assert_eq!((again.seen, again.held, again.enqueued), (orders as u64, orders as u64, 0));
        }
    }
}

#[tokio::test]
async fn what_the_wheel_holds_stays_as_it_is() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=5, -60_000, &[]).await;
    // 1 has another time on the wheel, 2 is held while it is paid, 3 is with a worker, 4 waits for a person.
    for (name, due) in [("3", after(0)), ("4", after(0))] {
        wheel.enqueue(&deadline(name, due), OnConflict::Keep, false).await.unwrap().unwrap();
    }
    let leases = claim(&wheel, wheel.shard_of(&id("3")), 1).await.leases;
    let fence = leases.iter().find(|lease| lease.id.as_str() == "4").unwrap().fence;
    let bury = Settlement { id: id("4"), fence, what: What::Bury("no stock row".to_owned()) };
    wheel.settle(wheel.shard_of(&id("4")), &[bury]).await.unwrap();
    for (name, due) in [("1", after(3_600_000)), ("2", after(0))] {
        wheel.enqueue(&deadline(name, due), OnConflict::Keep, false).await.unwrap().unwrap();
    }
    wheel.hold(&id("2"), Duration::from_secs(600)).await.unwrap().unwrap();
    let before: Vec<_> = listed(&wheel, State::Scheduled).await;
    let report = swept(&wheel, &shop).await;
    consistent(&report);
    assert_eq!((report.held, report.dead, report.enqueued), (3, 1, 1), "{report:?}");
    let after: Vec<_> = listed(&wheel, State::Scheduled).await;
    assert!(before.iter().all(|one| after.contains(one)), "{before:?} {after:?}");
    assert_eq!(wheel.inspect(&id("4")).await.unwrap().state, State::Dead);
    assert_eq!(wheel.inspect(&id("3")).await.unwrap().state, State::Leased);
    let five = wheel.inspect(&id("5")).await.unwrap().entry.unwrap();
    assert_eq!(five.cause, Cause::Sweep);
}

#[tokio::test]
async fn the_table_wins_over_a_remembered_end_but_not_without_limit() {
    for kind in Kind::ALL {
        let (wheel, shop) = (wheel(RedisServer::shared(), 2).await, Shop::open(kind, 1).await);
        shop.orders(1..=30, -60_000, &[]).await;
        // The wheel remembers that all were cancelled; 1 to 10 are paid, the others are open all the same.
        for answer in wheel.cancel(&(1..=30).map(|n| id(&n.to_string())).collect::<Vec<_>>()).await {
            answer.unwrap().unwrap();
        }
        shop.db.run("UPDATE orders SET status = 'paid' WHERE id <= 10").await;
        let capped = SweepSettings { resurrect_max: 15, page: 7, ..SweepSettings::default() };
        let report = sweep_of(&wheel, &shop, capped.clone()).run(|_| {}).await.unwrap();
        consistent(&report);
        assert_eq!((report.resurrected, report.capped, report.enqueued), (15, 5, 0), "{kind:?}: {report:?}");
        let report = sweep_of(&wheel, &shop, capped).run(|_| {}).await.unwrap();
        assert_eq!((report.resurrected, report.capped, report.held), (5, 0, 15), "{kind:?}: {report:?}");
        assert_eq!(listed(&wheel, State::Scheduled).await.len(), 20);
        for n in 1..=10 {
            let seen = wheel.inspect(&id(&n.to_string())).await.unwrap();
            assert_eq!(seen.ended.map(|ended| ended.outcome), Some(Outcome::Cancelled), "{n} was paid");
        }
        for n in 11..=30 {
            let events = wheel.history(&id(&n.to_string())).await.unwrap();
            assert!(events.iter().any(|event| event.what == "resurrected"), "{n}: {events:?}");
        }
    }
}

#[tokio::test]
async fn a_paid_order_is_never_enqueued_though_a_replica_still_shows_it_as_open() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 2).await, Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=300, -60_000, &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("replica.db");
    shop.db.run(&format!("VACUUM INTO '{}'", copy.display())).await;
    // Since then: some paid, some closed and remembered by the wheel, one prolonged.
    shop.db.run("UPDATE orders SET status = 'paid' WHERE id % 3 = 0").await;
    shop.db.run("UPDATE orders SET status = 'closed' WHERE id % 3 = 1").await;
    shop.db.run("UPDATE orders SET close_at = '2100-01-01 00:00:00' WHERE id = 2").await;
    wheel.cancel(&(1..=300).filter(|n| n % 3 == 1).map(|n| id(&n.to_string())).collect::<Vec<_>>()).await;
    let url = format!("sqlite://{}", copy.display());
    let sweep = sweep_of(&wheel, &shop, SweepSettings { urls: vec![url.into()], ..settings() });
    let report = sweep.run(|_| {}).await.unwrap();
    consistent(&report);
    assert_eq!((report.seen, report.enqueued, report.resurrected), (300, 99, 0), "{report:?}");
    let found = listed(&wheel, State::Scheduled).await;
    assert!(found.iter().all(|(id, _)| id.parse::<i64>().unwrap() % 3 == 2 && id != "2"), "{found:?}");
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_and_does_nothing() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 2).await, Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=20, -60_000, &[]).await;
    wheel.enqueue(&deadline("1", after(0)), OnConflict::Keep, false).await.unwrap().unwrap();
    wheel.cancel(&[id("2")]).await;
    let sweep = sweep_of(&wheel, &shop, settings());
    let report = sweep.dry_run(|_| {}).await.unwrap();
    assert_eq!((report.held, report.resurrected, report.enqueued), (1, 1, 18), "{report:?}");
    assert_eq!(listed(&wheel, State::Scheduled).await.len(), 1);
    assert!(wheel.job_runs("sweep", 10).await.unwrap().is_empty());
    let report = sweep.run(|_| {}).await.unwrap();
    assert_eq!((report.held, report.resurrected, report.enqueued), (1, 1, 18), "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweeps_at_once_equal_one() {
    for kind in Kind::ALL {
        let (wheel, shop) = (wheel(RedisServer::shared(), 4).await, Shop::open(kind, 1).await);
        shop.orders(1..=500, -60_000, &[]).await;
        let page = SweepSettings { page: 20, ..SweepSettings::default() };
        let sweeps: Vec<_> = (0..4).map(|_| sweep_of(&wheel, &shop, page.clone())).collect();
        let ran = futures_util::future::join_all(sweeps.iter().map(|sweep| sweep.run(|_| {}))).await;
        let mut reports = Vec::new();
        for outcome in ran {
            match outcome {
                Ok(report) => reports.push(report),
                Err(Error::Overtaken(reason)) => assert!(reason.contains("runs it"), "{reason}"),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(reports.iter().map(|report| report.enqueued).sum::<u64>(), 500, "{kind:?}: {reports:?}");
        // Without the lease, too: each order is on the wheel once.
        let dry = sweeps[0].dry_run(|_| {}).await.unwrap();
        assert_eq!((dry.seen, dry.held), (500, 500));
        assert_eq!(listed(&wheel, State::Scheduled).await.len(), 500);
        assert!(wheel.verify(false).await.unwrap().findings.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_is_skipped_or_seen_twice_while_others_change() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 1).await;
        let orders: i64 = 2000;
        // Many of one time, so that pages end within it.
        shop.orders(1..=orders, -60_000, &[]).await;
        shop.orders(orders + 1..=2 * orders, -50_000, &[]).await;
        let table = OrdersTable::new(&shop.settings(), &TableSettings::of(&shop.settings())).unwrap();
        let db = shop.db.clone();
        let shrinking = tokio::spawn(async move {
            for part in 0..20 {
                let set = if part % 2 == 0 { "paid" } else { "closed" };
                db.run(&format!(
                    "UPDATE orders SET status = '{set}' WHERE id % 2 = 1 AND id % 40 = {}",
                    2 * part + 1
                ))
                .await;
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        });
        let (mut seen, mut position): (Vec<i64>, Option<Position>) = (Vec::new(), None);
        loop {
            let rows = table.page(0, Which::Overdue, position.as_ref(), 50).await.unwrap();
            let Some(last) = rows.last() else { break };
            position = Some(last.position.clone());
            seen.extend(rows.iter().map(|row| row.position.key.parse::<i64>().unwrap()));
        }
        shrinking.await.unwrap();
        let even: Vec<i64> = seen.iter().copied().filter(|n| n % 2 == 0).collect();
        let once: BTreeSet<i64> = seen.iter().copied().collect();
        assert_eq!(seen.len(), once.len(), "{kind:?}: a row was seen twice");
        assert_eq!(even.len() as i64, orders, "{kind:?}: a row was skipped");
    }
}

#[tokio::test]
async fn keys_that_a_collation_takes_for_equal_are_all_seen() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 2).await, Shop::open(Kind::Mariadb, 0).await);
    shop.db
        .run(
            "CREATE TABLE named (name varchar(40) NOT NULL, status int NOT NULL DEFAULT 0, close_at datetime(3) NOT NULL, \
             KEY by_time (close_at, name)) DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_general_ci",
        )
        .await;
    let names = ["ORD-a", "ORD-A", "ord-a", "ORD-ä", "ORD-b", "ORD-B", "x", "X", "it's \\ \"quoted\""];
    for name in names {
        let quoted = name.replace('\\', "\\\\").replace('\'', "''");
        shop.db
            .run(&format!("INSERT INTO named (name, close_at) VALUES ('{quoted}', '2026-01-01 00:00:00')"))
            .await;
    }
    let settings = SqlSettings {
        table: "named".to_owned(),
        key: "name".to_owned(),
        key_type: KeyType::Text,
        guard: "status = 0".to_owned(),
        set: "status = 4".to_owned(),
        audit: None,
        then: Vec::new(),
        state: None,
        ..shop.settings()
    };
    for page in [1, 2, 3, 100] {
        let own = SweepSettings { page, ..SweepSettings::default() };
        let report = Sweep::new(wheel.clone(), &settings, own).unwrap().dry_run(|_| {}).await.unwrap();
        assert_eq!((report.seen, report.enqueued), (9, 9), "page {page}: {report:?}");
    }
    Sweep::new(wheel.clone(), &settings, self::settings()).unwrap().run(|_| {}).await.unwrap();
    let found: BTreeSet<String> =
        listed(&wheel, State::Scheduled).await.into_iter().map(|(id, _)| id).collect();
    assert_eq!(found, names.iter().map(|name| (*name).to_owned()).collect());
}

#[tokio::test]
async fn the_key_alone_orders_the_pages_where_no_column_holds_the_time() {
    for kind in Kind::ALL {
        let (wheel, shop) = (wheel(RedisServer::shared(), 2).await, Shop::open(kind, 1).await);
        shop.orders(1..=95, -60_000, &[]).await;
        let close_at = match kind {
            Kind::Postgres => "created_at + interval '30 seconds'",
            Kind::Mariadb => "created_at + INTERVAL 30 SECOND",
            Kind::Sqlite => "datetime(created_at, '+30 seconds')",
        };
        let hook = SqlSettings { close_at: Some(close_at.to_owned()), ..shop.settings() };
        let table = OrdersTable::new(&hook, &TableSettings::of(&hook)).unwrap();
        let first = table.page(0, Which::Overdue, None, 10).await.unwrap();
        assert!(first.iter().all(|row| row.position.time.is_none()), "{first:?}");
        let own = SweepSettings { page: 10, ..SweepSettings::default() };
        let report = Sweep::new(wheel.clone(), &hook, own).unwrap().run(|_| {}).await.unwrap();
        assert_eq!((report.seen, report.enqueued, report.pages), (95, 95, 10), "{kind:?}");
    }
}

#[tokio::test]
async fn all_databases_of_a_shop_are_swept() {
    let wheel = wheel(RedisServer::shared(), 2).await;
    let shops = [Shop::open(Kind::Sqlite, 1).await, Shop::open(Kind::Sqlite, 1).await];
    shops[0].orders((2..=200).step_by(2), -60_000, &[]).await;
    shops[1].orders((1..=200).step_by(2), -60_000, &[]).await;
    let mut hook = shops[0].settings();
    hook.urls = shops.iter().map(|shop| shop.url.as_str().into()).collect();
    let report = Sweep::new(wheel.clone(), &hook, settings()).unwrap().run(|_| {}).await.unwrap();
    assert_eq!((report.seen, report.enqueued), (200, 200), "{report:?}");
    let one = SweepSettings { urls: vec![shops[0].url.as_str().into()], ..settings() };
    let refused = Sweep::new(wheel, &hook, one).unwrap_err().to_string();
    assert!(refused.contains("one replica for each"), "{refused}");
}

#[tokio::test]
async fn a_sweep_that_is_due_is_run_by_one_of_many_lookers_once_in_its_interval() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 2).await, Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=20, -60_000, &[]).await;
    let every = |millis| Schedule::Every(Duration::from_millis(millis));
    let often = SweepSettings { every: every(60_000), ..settings() };
    let lookers: Vec<_> = (0..3).map(|_| sweep_of(&wheel, &shop, often.clone())).collect();
    let mut ran = 0;
    for _ in 0..5 {
        for looker in &lookers {
            ran += u32::from(matches!(looker.look().await.unwrap(), Looked::Ran(_)));
        }
    }
    assert_eq!(ran, 1);
    let soon = sweep_of(&wheel, &shop, SweepSettings { every: every(100), ..settings() });
    tokio::time::sleep(Duration::from_millis(120)).await;
    assert!(matches!(soon.look().await.unwrap(), Looked::Ran(_)));
    let off = sweep_of(&wheel, &shop, SweepSettings { every: Schedule::Off, ..settings() });
    assert!(matches!(off.look().await.unwrap(), Looked::Not(_)));
    let runs = wheel.job_runs("sweep", 10).await.unwrap();
    let reports: Vec<Report> = runs.iter().map(|run| serde_json::from_str(run).unwrap()).collect();
    assert_eq!(
        reports.iter().map(|report| (report.seen, report.enqueued)).collect::<Vec<_>>(),
        [(20, 0), (20, 20)]
    );
    assert!(
        reports
            .iter()
            .all(|report| report.job == "sweep" && report.began_at_ms > 0 && !report.runner.is_empty())
    );
}

#[tokio::test]
async fn a_database_that_is_away_fails_the_run_and_leaves_the_job_to_the_next_look() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(Kind::Sqlite, 1).await);
    let mut hook = shop.settings();
    hook.urls = vec!["mysql://nobody@127.0.0.1:1/none".into()];
    hook.time_zone = Some("+00:00".to_owned());
    let away = Sweep::new(wheel.clone(), &hook, settings()).unwrap();
    let failed = away.look().await.unwrap_err();
    assert!(matches!(failed, Error::HookAway(_)), "{failed:?}");
    let record = wheel.job_record("sweep").await.unwrap();
    assert!(record.fields["error"].contains("connecting"), "{record:?}");
    assert_eq!((record.held_until, record.ran_at), (None, None));
    shop.orders(1..=3, -60_000, &[]).await;
    let Looked::Ran(report) = sweep_of(&wheel, &shop, settings()).look().await.unwrap() else {
        panic!("not due")
    };
    assert_eq!(report.enqueued, 3);
    assert!(!wheel.job_record("sweep").await.unwrap().fields.contains_key("error"));
}

#[tokio::test]
async fn a_row_that_cannot_be_a_deadline_is_refused_alone() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(Kind::Sqlite, 0).await);
    shop.db.run("CREATE TABLE named (name TEXT PRIMARY KEY, status INT DEFAULT 0, close_at TEXT)").await;
    let long = "x".repeat(201);
    shop.db
        .run(&format!(
            "INSERT INTO named (name, close_at) VALUES ('good', '2026-01-01 00:00:00'), ('{long}', '2026-01-01 00:00:00'), \
             ('a' || char(10) || 'b', '2026-01-01 00:00:00')"
        ))
        .await;
    let settings = SqlSettings {
        table: "named".to_owned(),
        key: "name".to_owned(),
        key_type: KeyType::Text,
        guard: "status = 0".to_owned(),
        set: "status = 4".to_owned(),
        audit: None,
        then: Vec::new(),
        state: None,
        ..shop.settings()
    };
    let report = Sweep::new(wheel.clone(), &settings, self::settings()).unwrap().run(|_| {}).await.unwrap();
    consistent(&report);
    assert_eq!((report.enqueued, report.refused), (1, 2), "{report:?}");
    assert!(report.refusal.unwrap().contains("no id"));
}

#[tokio::test]
async fn rows_are_read_no_faster_than_they_may() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=300, -60_000, &[]).await;
    let slow = SweepSettings { rows_per_second: 1000, page: 50, ..SweepSettings::default() };
    let report = sweep_of(&wheel, &shop, slow).run(|_| {}).await.unwrap();
    assert!(report.took_ms >= 290, "{report:?}");
}

#[tokio::test]
async fn a_note_of_a_person_and_a_paused_wheel_are_nothing_to_a_sweep() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=3, -60_000, &[]).await;
    wheel.pause(&Note::new("anna", "the shop is mended").unwrap()).await.unwrap();
    assert_eq!(swept(&wheel, &shop).await.enqueued, 3);
    assert_eq!(claim(&wheel, wheel.shard_of(&id("1")), 1).await.leases.len(), 0);
}
