//! Reconciliation: every seeded disagreement of table, wheel and close log is found, nothing else is, and what may be mended is mended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::deadline::{DueAt, OnConflict, Outcome, State};
use duewheel::error::Error;
use duewheel::hook::sql::pages::rules::Question;
use duewheel::lease::Lease;
use duewheel::sweep::reconcile::{Class, Level, Reconciliation, Rule};
use duewheel::sweep::{Looked, Reconcile, ReconcileSettings, Schedule, SweepSettings};
use duewheel::wheel::{Ask, Settlement, What, Wheel};

use crate::rig::redis::RedisServer;
use crate::rig::shop::{Kind, Shop};
use crate::rig::wheel::{after, ask, claim, deadline, id, moment, wheel};
use crate::rig::worker::{Fleet, Plan};
use crate::rig::{PATIENCE, eventually};

const HOUR: u64 = 3_600_000;
const GRACE: Duration = Duration::from_millis(100);

fn as_text(kind: Kind, column: &str) -> String {
    format!("CAST({column} AS {})", if kind == Kind::Mariadb { "CHAR" } else { "text" })
}

/// Closed in the table by nobody that gives stock back: duewheel writes an audit row in the same transaction.
fn unreleased(kind: Kind) -> String {
    let id = as_text(kind, "orders.id");
    format!(
        "SELECT id, user_id FROM orders WHERE status = 'closed' AND NOT EXISTS (SELECT 1 FROM closes WHERE order_id = {id})"
    )
}

fn settings(kind: Kind) -> ReconcileSettings {
    let rule = |name: &str, level, sql: &str| Rule { name: name.to_owned(), level, sql: sql.to_owned() };
    ReconcileSettings {
        every: Schedule::Off,
        grace: GRACE,
        stuck_after: Duration::from_secs(1),
        closed_without_release: Some(unreleased(kind)),
        rules: vec![
            rule("no_such_user", Level::High, "SELECT id, user_id AS who FROM orders WHERE user_id < 0"),
            rule("nothing_like_it", Level::High, "SELECT id FROM orders WHERE user_id < -100 -- never"),
        ],
        ..ReconcileSettings::default()
    }
}

fn reconcile(wheel: &Wheel, shop: &Shop, settings: ReconcileSettings) -> Reconcile {
    let sweep = SweepSettings { page: 7, ..SweepSettings::default() };
    Reconcile::new(wheel.clone(), &shop.settings(), &sweep, settings).unwrap_or_else(|e| panic!("{e}"))
}

async fn run(wheel: &Wheel, shop: &Shop, heal: Option<u64>) -> Reconciliation {
    reconcile(wheel, shop, settings(shop.kind)).run(heal, |_| {}).await.unwrap_or_else(|e| panic!("{e}"))
}

/// What was found: the ids by class and rule.
fn found(report: &Reconciliation) -> BTreeMap<String, Vec<u64>> {
    let ids = |section: &duewheel::sweep::reconcile::Section| {
        assert_eq!(section.count, section.first.len() as u64, "{section:?}");
        section.first.iter().map(|finding| finding.id.parse().unwrap()).collect::<Vec<u64>>()
    };
    let sections = report.sections().filter(|section| section.count > 0);
    sections.map(|section| (section.name.clone(), ids(section))).collect()
}

fn expected(of: &[(&str, &[u64])]) -> BTreeMap<String, Vec<u64>> {
    of.iter().map(|(name, ids)| ((*name).to_owned(), ids.to_vec())).collect()
}

async fn put(wheel: &Wheel, order: u64, due_at: DueAt) {
    let one = deadline(&order.to_string(), due_at);
    wheel.enqueue(&one, OnConflict::Keep, false).await.unwrap().unwrap();
}

async fn settle(wheel: &Wheel, lease: &Lease, what: What) {
    let one = Settlement { id: lease.id.clone(), fence: lease.fence, what };
    wheel.settle(wheel.shard_of(&lease.id), &[one]).await.unwrap();
}

fn closes(lease: &Lease) -> What {
    What::End { outcome: Outcome::Closed, lease: Arc::new(lease.clone()) }
}

/// A row whose close time is this many milliseconds after 1970.
async fn row(shop: &Shop, order: u64, close_at: u64, status: &str) {
    let at = moment(close_at).to_string().replace('T', " ").replace('Z', "");
    let at = if shop.kind == Kind::Postgres { format!("'{at}+00'") } else { format!("'{at}'") };
    shop.db
        .run(&format!(
            "INSERT INTO orders (id, user_id, status, created_at, close_at) VALUES ({order}, 7, '{status}', {at}, {at})"
        ))
        .await;
}

async fn audit(shop: &Shop, order: u64) {
    let now = match shop.kind {
        Kind::Postgres => "now()",
        Kind::Mariadb => "UTC_TIMESTAMP(6)",
        Kind::Sqlite => "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    };
    shop.db
        .run(&format!(
            "INSERT INTO closes (order_id, action, generation, due_at, closed_at, attempt, fence, cause, worker) \
             VALUES ('{order}', 'AUTO_CLOSE', 1, {now}, {now}, 1, 1, 'due', 'w')"
        ))
        .await;
}

/// One shop with some orders of each class, and many that agree.
async fn seeded(kind: Kind, soon: u64) -> (Wheel, Shop) {
    let (wheel, shop) = (wheel(RedisServer::shared(), 16).await, Shop::open(kind, 1).await);
    let past = moment(1_600_000_000_000);
    // A lease never ends before an earlier one of its shard.
    let apart = wheel.shard_of(&id("71"));
    // Closed on the wheel: 21 and 22 as it should be, 81 is paid all the same. 91 and 92 died; 92 is closed in the table.
    for order in [21, 22, 81, 91, 92] {
        let status = if [21, 22, 92].contains(&order) { "closed" } else { "paid" };
        row(&shop, order, past.as_millis(), if order == 91 { "unpaid" } else { status }).await;
        put(&wheel, order, DueAt::Moment(past)).await;
    }
    let mut leases = Vec::new();
    for shard in wheel.shards().all().filter(|shard| *shard != apart) {
        leases.extend(claim(&wheel, shard, 2).await.leases);
    }
    assert_eq!(leases.len(), 5);
    for lease in leases {
        let order: u64 = lease.id.as_str().parse().unwrap();
        match order {
            21 | 22 | 81 => settle(&wheel, &lease, closes(&lease)).await,
            91 | 92 => settle(&wheel, &lease, What::Bury("no stock row".to_owned())).await,
            other => panic!("{other} was claimed"),
        }
    }
    for order in [21, 22, 92] {
        audit(&shop, order).await;
    }
    // Leased and never heard of again: 71. Nothing else is claimed of its shard.
    row(&shop, 71, past.as_millis(), "unpaid").await;
    put(&wheel, 71, DueAt::Moment(past)).await;
    let short = Ask { lease: Duration::from_millis(200), margin: Duration::from_millis(1), ..ask(3) };
    wheel.claim(apart, &short).await.unwrap();
    // Only the audit table knows of this close.
    row(&shop, 82, past.as_millis(), "paid").await;
    audit(&shop, 82).await;
    // Agree: 1 to 20, 63 within the tolerance; paid and forgotten: 24.
    for order in 1..=20 {
        row(&shop, order, soon + order, "unpaid").await;
        put(&wheel, order, DueAt::Moment(moment(soon + order))).await;
    }
    row(&shop, 63, soon, "unpaid").await;
    put(&wheel, 63, DueAt::Moment(moment(soon + 2000))).await;
    row(&shop, 24, past.as_millis(), "paid").await;
    // Missing: 34 although the wheel remembers that it was cancelled.
    for order in [31, 32, 33, 34] {
        row(&shop, order, past.as_millis() + order, "unpaid").await;
    }
    wheel.cancel(&[id("34")]).await.pop().unwrap().unwrap().unwrap();
    for order in [41, 42] {
        row(&shop, order, soon, "unpaid").await;
    }
    // Orphans: paid, closed, no row at all.
    row(&shop, 51, soon, "paid").await;
    row(&shop, 52, soon, "closed").await;
    audit(&shop, 52).await;
    for order in [51, 52, 53] {
        put(&wheel, order, DueAt::Moment(moment(soon))).await;
    }
    // Other close times: later and earlier than the table's.
    for (order, apart) in [(61, 10 * HOUR), (62, HOUR)] {
        row(&shop, order, soon + 5 * HOUR, "unpaid").await;
        put(&wheel, order, DueAt::Moment(moment(soon + apart))).await;
    }
    // Closed behind duewheel's back; and what a rule is about.
    row(&shop, 25, past.as_millis(), "closed").await;
    shop.db.run("UPDATE orders SET user_id = -5 WHERE id = 24").await;
    eventually(PATIENCE, async || {
        let seen = wheel.inspect(&id("71")).await.unwrap();
        (seen.lease_ends_at().unwrap().plus(Duration::from_secs(1)) < seen.now).then_some(())
    })
    .await;
    (wheel, shop)
}

fn soon() -> u64 {
    (Moment::host_now().as_millis() / 1000) * 1000 + 48 * HOUR
}

#[tokio::test]
async fn every_seeded_disagreement_is_found_and_nothing_else_and_healed_where_it_may_be() {
    for kind in Kind::ALL {
        let soon = soon();
        let (wheel, shop) = seeded(kind, soon).await;
        let all: &[(&str, &[u64])] = &[
            ("missing_overdue", &[31, 32, 33, 34]),
            ("missing_pending", &[41, 42]),
            ("orphan", &[51, 52, 53]),
            ("deadline_mismatch", &[61, 62]),
            ("stuck_lease", &[71]),
            ("paid_after_close", &[81, 82]),
            ("dead_open", &[91]),
            ("closed_without_release", &[25]),
            ("no_such_user", &[24]),
        ];
        let report = run(&wheel, &shop, None).await;
        assert_eq!(found(&report), expected(all), "{kind:?}");
        assert_eq!((report.level, report.healed(), report.moved), (Some(Level::High), 0, 0), "{kind:?}");
        assert_eq!((report.ended, report.audited), (4, 5), "{kind:?}: {report:?}");
        // What came too late is an incident, as `paid` would have made it; the audit table's alone is none, for the wheel knows no life of it.
        let late: Vec<String> =
            wheel.incidents(false).await.unwrap().into_iter().map(|incident| incident.id).collect();
        assert_eq!(late, ["81"], "{kind:?}");
        // 3 orders only, then the rest.
        let report = run(&wheel, &shop, Some(3)).await;
        assert_eq!((report.healed(), report.heal_left), (3, 8), "{kind:?}: {report:?}");
        let report = run(&wheel, &shop, Some(100)).await;
        assert_eq!((report.healed(), report.heal_left), (8, 0), "{kind:?}: {report:?}");
        let left = &all[4..];
        let report = run(&wheel, &shop, Some(100)).await;
        assert_eq!((found(&report), report.healed()), (expected(left), 0), "{kind:?}");
        assert_eq!(wheel.incidents(true).await.unwrap().len(), 1, "{kind:?}: one for each life");
        // The table won.
        for order in [31, 34, 41, 61, 62] {
            let seen = wheel.inspect(&id(&order.to_string())).await.unwrap();
            let due = match order {
                31 | 34 => 1_600_000_000_000 + order,
                41 => soon / HOUR,
                _ => soon / HOUR + 5,
            };
            let at = seen.entry.unwrap().due_at.as_millis();
            assert_eq!(if order < 40 { at } else { at / HOUR }, due, "{kind:?} {order}");
        }
        for order in ["51", "52", "53"] {
            let ended = wheel.inspect(&id(order)).await.unwrap().ended.unwrap();
            assert_eq!(ended.outcome, Outcome::Cancelled);
        }
        assert_eq!(wheel.inspect(&id("91")).await.unwrap().state, State::Dead);
        assert!(wheel.verify(false).await.unwrap().findings.is_empty());
    }
}

#[tokio::test]
async fn orders_that_are_made_paid_and_closed_meanwhile_are_no_findings() {
    for kind in Kind::ALL {
        let (wheel, shop) = (wheel(RedisServer::shared(), 4).await, Shop::open(kind, 1).await);
        let stop = tokio_util::sync::CancellationToken::new();
        // The shop: a row, a moment later its deadline; or the payment, a moment later the cancellation; or another close time. And the
        // worker: the close of what is due, a moment later the settle.
        let traffic = async {
            let mut order = 1_000;
            while !stop.is_cancelled() {
                order += 10;
                shop.orders(order..order + 10, HOUR as i64, &[]).await;
                shop.orders([order + 500_000], -1000, &[]).await;
                tokio::time::sleep(GRACE / 10).await;
                for one in order..order + 10 {
                    let due = moment(Moment::host_now().as_millis() + HOUR);
                    put(&wheel, one as u64, DueAt::Moment(due)).await;
                }
                put(&wheel, order as u64 + 500_000, after(0)).await;
                shop.db
                    .run(&format!(
                        "UPDATE orders SET status = 'paid' WHERE id BETWEEN {order} AND {}",
                        order + 4
                    ))
                    .await;
                tokio::time::sleep(GRACE / 10).await;
                let paid: Vec<_> = (order..order + 5).map(|one| id(&one.to_string())).collect();
                drop(wheel.cancel(&paid).await);
                for shard in wheel.shards().all() {
                    for lease in claim(&wheel, shard, order as u64).await.leases {
                        let close =
                            format!("UPDATE orders SET status = 'closed' WHERE id = {}", lease.id.as_str());
                        shop.db.run(&close).await;
                        audit(&shop, lease.id.as_str().parse().unwrap()).await;
                        settle(&wheel, &lease, closes(&lease)).await;
                    }
                }
            }
            order
        };
        let settings = ReconcileSettings {
            grace: Duration::from_secs(2),
            tolerance: Duration::from_secs(60),
            closed_without_release: None,
            ..settings(kind)
        };
        let compare = async {
            let mut moved = 0;
            // Until it has met an order on its way.
            for _ in 0..50 {
                tokio::time::sleep(Duration::from_millis(20)).await;
                let report = reconcile(&wheel, &shop, settings.clone()).run(None, |_| {}).await.unwrap();
                assert_eq!(found(&report), expected(&[]), "{kind:?}: {report:?}");
                moved += report.moved;
                if moved > 0 {
                    break;
                }
            }
            stop.cancel();
            assert!(moved > 0, "{kind:?}: nothing moved");
            moved
        };
        let (orders, moved) = tokio::join!(traffic, compare);
        println!("{kind:?}: {} orders made meanwhile, {moved} looked at twice", orders - 1_000);
    }
}

#[tokio::test]
async fn an_order_that_does_not_agree_for_a_moment_is_looked_at_again() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 2).await, Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=5, HOUR as i64, &[]).await;
    let slow = ReconcileSettings { grace: Duration::from_secs(2), ..settings(Kind::Sqlite) };
    let job = reconcile(&wheel, &shop, slow);
    let late = async {
        // Found missing by now; the shop's enqueue comes within the grace.
        tokio::time::sleep(Duration::from_millis(500)).await;
        for order in 1..=4 {
            put(&wheel, order, after(HOUR)).await;
        }
    };
    let (report, ()) = tokio::join!(job.run(None, |_| {}), late);
    let report = report.unwrap();
    assert_eq!((found(&report), report.moved), (expected(&[("missing_pending", &[5])]), 4));
}

#[tokio::test]
async fn a_rule_reads_only_and_stops_at_its_limits() {
    for kind in Kind::ALL {
        let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(kind, 1).await);
        shop.orders(1..=30, -60_000, &[]).await;
        let rule =
            |name: &str, sql: &str| Rule { name: name.to_owned(), level: Level::Medium, sql: sql.to_owned() };
        let slow = match kind {
            Kind::Postgres => "SELECT id, pg_sleep(20)::text AS s FROM orders",
            Kind::Mariadb => "SELECT id, sleep(20) AS s FROM orders",
            Kind::Sqlite => {
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000000000) SELECT max(i) AS id FROM n"
            }
        };
        let settings = ReconcileSettings {
            rows_max: 10,
            examples: 3,
            closed_without_release: None,
            rules: vec![
                rule("many", "SELECT id, user_id, status FROM orders"),
                rule("ten", "SELECT id FROM orders WHERE id <= 10"),
                rule("broken", "SELECT id FROM no_such_table"),
                rule("double", "SELECT id, id FROM orders"),
                rule("slow", slow),
            ],
            ..settings(kind)
        };
        let sweep = SweepSettings { statement_timeout: Duration::from_secs(1), ..SweepSettings::default() };
        let hook =
            duewheel::hook::sql::SqlSettings { connect_timeout: Duration::from_secs(10), ..shop.settings() };
        let job = Reconcile::new(wheel.clone(), &hook, &sweep, settings).unwrap();
        let report = job.run(None, |_| {}).await.unwrap();
        let rules: BTreeMap<&str, _> = report.rules.iter().map(|rule| (rule.name.as_str(), rule)).collect();
        assert_eq!((rules["many"].count, rules["many"].capped, rules["many"].first.len()), (10, true, 3));
        assert!(rules["many"].first[0].table.starts_with("user_id "), "{:?}", rules["many"].first);
        assert_eq!((rules["ten"].count, rules["ten"].capped), (10, false), "{kind:?}");
        for (name, why) in [("broken", "no_such_table"), ("double", "id"), ("slow", "")] {
            if (kind, name) == (Kind::Sqlite, "double") {
                // SQLite gives the second another name.
                continue;
            }
            let error = rules[name].error.as_deref().unwrap_or_else(|| panic!("{kind:?} {name}: {report:?}"));
            assert!(error.contains(why), "{kind:?} {name}: {error}");
            assert!(rules[name].is_open(), "what cannot be answered is open");
        }
        assert_eq!(report.level, Some(Level::High), "30 overdue orders are missing");
        // A text that gets past the first lock meets the next ones.
        let sneaky = match kind {
            Kind::Postgres => "SELECT setval(pg_get_serial_sequence('seen', 'n'), 77) AS id",
            Kind::Mariadb => "SELECT nextval(seen) AS id",
            Kind::Sqlite => continue,
        };
        let make = match kind {
            Kind::Postgres => "CREATE TABLE seen (n serial)",
            _ => "CREATE SEQUENCE seen",
        };
        shop.db.run(make).await;
        let question = Question::parse(job.table().dialect(), "sql", sneaky).unwrap();
        let refused = job.table().ask(&question, 10).await.unwrap_err().to_string();
        assert!(refused.to_lowercase().contains("read"), "{kind:?}: {refused}");
    }
}

#[tokio::test]
async fn a_rule_that_is_no_query_is_refused_before_anything_runs() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(Kind::Sqlite, 1).await);
    for sql in
        ["DELETE FROM orders", "SELECT 1; DELETE FROM orders", "WITH x AS (SELECT 1) DELETE FROM orders"]
    {
        let rule = Rule { name: "bad".to_owned(), level: Level::Low, sql: sql.to_owned() };
        let settings = ReconcileSettings { rules: vec![rule], ..settings(Kind::Sqlite) };
        let refused =
            Reconcile::new(wheel.clone(), &shop.settings(), &SweepSettings::default(), settings).unwrap_err();
        assert!(
            matches!(&refused, Error::Config(problems) if problems[0].starts_with("rules.bad.sql: ")),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn a_run_by_schedule_waits_for_its_time_is_one_at_a_time_and_is_remembered() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=3, HOUR as i64, &[]).await;
    let often =
        ReconcileSettings { every: Schedule::parse("400ms").unwrap(), heal: true, ..settings(Kind::Sqlite) };
    let (one, two) = (reconcile(&wheel, &shop, often.clone()), reconcile(&wheel, &shop, often.clone()));
    // It never ran: not before the first moment that this process sees come.
    assert!(matches!(one.look().await.unwrap(), Looked::Not(_)));
    let first = eventually(PATIENCE, async || match one.look().await.unwrap() {
        Looked::Ran(report) => Some(report),
        Looked::Not(_) => None,
    })
    .await;
    assert_eq!((first.count(), first.healed()), (3, 3), "{first:?}");
    assert!(matches!(two.look().await.unwrap(), Looked::Not(_)), "it ran just now");
    let running =
        reconcile(&wheel, &shop, ReconcileSettings { grace: Duration::from_secs(2), ..often.clone() });
    shop.orders([9], HOUR as i64, &[]).await;
    let other = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        reconcile(&wheel, &shop, often).run(None, |_| {}).await
    };
    let (ran, refused) = tokio::join!(running.run(None, |_| {}), other);
    assert_eq!(ran.unwrap().count(), 1);
    assert!(matches!(refused, Err(Error::Overtaken(_))), "{refused:?}");
    assert_eq!(wheel.job_runs("reconcile", 10).await.unwrap().len(), 2);
}

/// The report without what differs from run to run.
fn golden(text: &str, fleet: &Fleet) -> String {
    let text = text.replace(fleet.wheel.name().as_str(), "WHEEL");
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = match line.split_once("- runner: ") {
            Some(_) => "- runner: RUNNER".to_owned(),
            None => line.to_owned(),
        };
        lines.push(match line.split_once("; took ") {
            Some((before, _)) => format!("{before}; took TIME"),
            None => line,
        });
    }
    without_moments(&lines.join("\n"))
}

/// `2026-01-31T12:00:00.123Z` becomes MOMENT, wherever it stands.
fn without_moments(text: &str) -> String {
    let shape = b"0000-00-00T00:00:00.000Z";
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let head = rest.as_bytes().get(..shape.len()).unwrap_or_default();
        let like = |(a, b): (&u8, &u8)| if *b == b'0' { a.is_ascii_digit() } else { a == b };
        if !head.is_empty() && head.iter().zip(shape).all(like) {
            out.push_str("MOMENT");
            rest = &rest[shape.len()..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

/// What stands in columns, without their width.
fn narrow(text: &str) -> String {
    text.lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect::<Vec<_>>()
        .join("\n")
}

#[tokio::test]
async fn the_report_is_a_table_json_or_markdown_and_the_exit_code_its_level() {
    let server = RedisServer::shared();
    let shop = Shop::open(Kind::Sqlite, 1).await;
    let rule = "[wheel.WHEEL.reconcile]\nevery = \"off\"\ngrace = \"50ms\"\nexamples = 2\n\
                [wheel.WHEEL.reconcile.rules.no_such_user]\nlevel = \"low\"\nsql = \"SELECT id, user_id FROM orders WHERE user_id < 0\"\n\
                [wheel.WHEEL.sweep]\nevery = \"off\"\nrebuild = false\n";
    let fleet = Fleet::new(server, &Plan::new(server.url()).shards(1).closing(&shop).net(rule)).await;
    let clean = fleet.run(&["reconcile"]).ends(0);
    assert!(clean.stderr.contains("0 found"), "{clean:?}");
    // Low: a rule. Medium: a later close time. High: overdue and missing.
    row(&shop, 1, 1_600_000_000_000, "paid").await;
    shop.db.run("UPDATE orders SET user_id = -5").await;
    fleet.run(&["reconcile"]).ends(10);
    row(&shop, 2, soon(), "unpaid").await;
    put(&fleet.wheel, 2, DueAt::Moment(moment(soon() + HOUR))).await;
    fleet.run(&["reconcile"]).ends(11);
    for order in 3..=5 {
        row(&shop, order, 1_600_000_000_000, "unpaid").await;
    }
    let table = fleet.run(&["reconcile"]).ends(12);
    insta::assert_snapshot!("table", narrow(&golden(&table.stdout, &fleet)));
    let markdown = fleet.run(&["reconcile", "--markdown"]).ends(12);
    insta::assert_snapshot!("markdown", golden(&markdown.stdout, &fleet));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let json = fleet.run(&["reconcile", "--json", "--out", file.to_str().unwrap()]).ends(12);
    assert_eq!(std::fs::read_to_string(file).unwrap(), json.stdout);
    let mut report: serde_json::Value = json.object();
    report["runner"] = "RUNNER".into();
    report["took_ms"] = 0.into();
    report["began_at_ms"] = 0.into();
    report["moved"] = 0.into();
    insta::assert_snapshot!("json", golden(&serde_json::to_string_pretty(&report).unwrap(), &fleet));
    // Healed, what is left is the rule's.
    let healed = fleet.run(&["reconcile", "--heal", "--max", "3", "--json"]).ends(11).object();
    assert_eq!(healed["heal_left"], 1);
    fleet.run(&["reconcile", "--heal"]).ends(10);
    let again = fleet.run(&["reconcile", "--heal", "--json"]).ends(10).object();
    assert_eq!(
        again["classes"].as_array().unwrap().iter().map(|c| c["count"].as_u64().unwrap()).sum::<u64>(),
        0
    );
    let runs = fleet.run(&["reconcile", "--runs", "--json"]).ends(0).objects();
    assert_eq!(runs.len(), 9);
    assert_eq!(runs[0]["level"], "low");
    fleet.run(&["reconcile", "--markdown", "--json"]).ends(2);
    fleet.run(&["reconcile", "--max", "3"]).ends(2);
    let config = fleet.run(&[
        "reconcile",
        "--set",
        &format!("wheel.{}.reconcile.rules.x.sql=DROP TABLE orders", fleet.wheel.name()),
    ]);
    assert!(config.code == 78 && config.stderr.contains("expected one SELECT or WITH"), "{config:?}");
}

#[tokio::test]
async fn a_class_that_is_larger_than_its_examples_is_counted_whole() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 4).await, Shop::open(Kind::Sqlite, 1).await);
    let orders = if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() { 30_000 } else { 3_000 };
    shop.orders(1..=orders, HOUR as i64, &[]).await;
    let settings = ReconcileSettings { heal_max: 1_000_000, ..settings(Kind::Sqlite) };
    let sweep = SweepSettings { rows_per_second: 10_000_000, ..SweepSettings::default() };
    let job = Reconcile::new(wheel.clone(), &shop.settings(), &sweep, settings).unwrap();
    let began = std::time::Instant::now();
    let report = job.run(Some(u64::MAX), |_| {}).await.unwrap();
    println!("{orders} missing orders found, looked at again and enqueued in {:?}", began.elapsed());
    let missing = report.class(Class::MissingPending).unwrap();
    assert_eq!((missing.count, missing.healed, missing.first.len()), (orders as u64, orders as u64, 20));
    let began = std::time::Instant::now();
    let report = job.run(None, |_| {}).await.unwrap();
    println!("{orders} orders that agree compared in {:?}", began.elapsed());
    assert_eq!((report.count(), report.rows, report.deadlines), (0, orders as u64, orders as u64));
}
