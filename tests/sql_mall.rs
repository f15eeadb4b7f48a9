//! A real shop's tables, closed with configuration alone. The shop's own SQL file is not part of this repository; without it these
//! tests say so and pass.

use std::path::{Path, PathBuf};
use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::config::{Config, Draft, Environment, HookSettings, WheelConfig};
use duewheel::hook::sql::{Dialect, SqlSettings, audit_ddl};
use duewheel::hook::{Hook, Verdict};
use duewheel::sweep::reconcile::Reconciliation;
use duewheel::sweep::{Feed, Rebuild, Reconcile, ReconcileSettings, Sweep};

use crate::rig::mariadb;
use crate::rig::redis::RedisServer;
use crate::rig::shop::{Db, hook, judge, judge_one, lease, leases};
use crate::rig::wheel::{after, wheel};
use crate::sql_fleet::{Running, all_ended, enqueue_all};

/// The shop's SQL file: beside the repository, or where `DUEWHEEL_TEST_MALL` says.
fn mall_sql() -> Option<String> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/shops/mall.sql");
    let path = std::env::var_os("DUEWHEEL_TEST_MALL").map_or(beside, PathBuf::from);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(_) => {
            println!("skipped: no {}; set DUEWHEEL_TEST_MALL to the shop's SQL file", path.display());
            None
        }
    }
}

/// The wheel of examples/mall.toml, for this database.
fn mall_wheel(url: &str) -> WheelConfig {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/mall.toml");
    let draft = Draft::gather(Some(&file), &Environment::of(&[("DATABASE_URL", url)]), &[], None);
    let config = Config::resolve(draft).unwrap_or_else(|e| panic!("{e}"));
    config.wheels[0].clone()
}

/// The settings of its hook.
fn settings(url: &str) -> SqlSettings {
    match &mall_wheel(url).hook {
        HookSettings::Sql(settings) => (**settings).clone(),
        other => panic!("a {} hook", other.kind()),
    }
}

async fn mall() -> Option<(String, Db)> {
    let sql = mall_sql()?;
    let url = mariadb::database().await;
    let db = Db::open(&url).await;
    db.run(&sql).await;
    db.run(&audit_ddl(Dialect::Mysql, "duewheel_audit").unwrap()).await;
    Some((url, db))
}

async fn ids(db: &Db, rest: &str) -> Vec<i64> {
    let rows = db.rows(&format!("SELECT CAST(id AS CHAR) FROM oms_order WHERE {rest} ORDER BY id")).await;
    rows.into_iter().flatten().flatten().map(|id| id.parse().unwrap()).collect()
}

/// Every table that a close may touch, as one text.
async fn picture(db: &Db) -> String {
    let mut all = String::new();
    for table in
        ["oms_order", "pms_sku_stock", "sms_coupon_history", "oms_order_operate_history", "duewheel_audit"]
    {
        let columns = db
            .rows(&format!(
                "SELECT GROUP_CONCAT('`', column_name, '`' ORDER BY ordinal_position SEPARATOR ', ') \
                 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = '{table}'"
            ))
            .await;
        let columns = columns[0][0].clone().unwrap();
        let rows = db.rows(&format!("SELECT CONCAT_WS('|', {columns}) FROM {table} ORDER BY 1")).await;
        all += &format!("{table}: {rows:?}\n");
    }
    all
}

#[tokio::test]
async fn the_real_shop_is_closed_by_configuration_alone_and_a_second_run_changes_nothing() {
    let Some((url, db)) = mall().await else { return };
    db.run("UPDATE oms_order SET status = 0 WHERE status = 4").await;
    // Order 31 was paid for with a coupon, and the same member used another one of the kind earlier.
    db.run("UPDATE sms_coupon_history SET use_status = 0, use_time = NULL WHERE member_id = 1 AND coupon_id IN (2, 26)").await;
    db.run(
        "INSERT INTO sms_coupon_history (coupon_id, member_id, use_status, use_time) VALUES \
            (26, 1, 1, '2020-05-16 15:16:54'), (26, 1, 1, '2019-01-01 00:00:00')",
    )
    .await;
    let hook = hook(settings(&url));
    let warnings = hook.check().await.unwrap_or_else(|e| panic!("{e}"));
    assert!(warnings.iter().all(|w| w.contains("overdue: no index")), "{warnings:?}");

    let all = ids(&db, "true").await;
    let open = ids(&db, "status = 0 AND delete_status = 0").await;
    let deleted = ids(&db, "status = 0 AND delete_status = 1").await;
    assert_eq!((open.len(), deleted.len()), (14, 10), "the shop's 24 candidates");
    let stock_before = db.number("sum(lock_stock)", "FROM pms_sku_stock").await;
    let pieces = db
        .number(
            "sum(product_quantity)",
            "FROM oms_order_item JOIN oms_order ON oms_order.id = order_id JOIN pms_sku_stock s ON s.id = product_sku_id \
             WHERE status = 0 AND oms_order.delete_status = 0",
        )
        .await;
    let history_before = db.number("count(*)", "FROM oms_order_operate_history").await;

    let first = leases(all.iter().copied());
    let verdicts = judge(&hook, &first).await;
    for (id, verdict) in all.iter().zip(&verdicts) {
        if open.contains(id) {
            assert_eq!(*verdict, Verdict::Closed, "order {id}");
        } else {
            assert!(matches!(verdict, Verdict::Skipped { .. }), "order {id}: {verdict:?}");
        }
    }
    assert_eq!(ids(&db, "status = 4 AND modify_time IS NOT NULL AND delete_status = 0").await.len(), 14);
    assert_eq!(ids(&db, "status = 0").await, deleted, "deleted orders are left alone");
    assert_eq!(db.number("sum(lock_stock)", "FROM pms_sku_stock").await, stock_before - pieces);
    assert_eq!(db.number("count(*)", "FROM oms_order_operate_history").await, history_before + 14);
    assert_eq!(db.number("count(*)", "FROM duewheel_audit").await, 14);
    let coupons = db
        .rows("SELECT CAST(use_time AS CHAR) FROM sms_coupon_history WHERE coupon_id = 26 AND use_status = 1")
        .await;
    assert_eq!(
        coupons,
        [vec![Some("2019-01-01 00:00:00".to_owned())]],
        "one coupon came back, the one used last"
    );

    let before = picture(&db).await;
    let again = judge(&hook, &first).await;
    assert!(all.iter().zip(&again).all(|(id, v)| !open.contains(id) || *v == Verdict::Closed), "{again:?}");
    let anew = judge(&hook, &leases(all)).await;
    assert!(anew.iter().all(|v| matches!(v, Verdict::Skipped { .. })), "{anew:?}");
    assert_eq!(picture(&db).await, before, "the second run changed something");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_closes_the_real_shop_and_once_more_changes_nothing() {
    let Some((url, db)) = mall().await else { return };
    db.run("UPDATE oms_order SET status = 0 WHERE status = 4").await;
    let all = ids(&db, "true").await;
    let mut before = String::new();
    for life in 0..2 {
        // A wheel each time: the second knows nothing of the first, as after a loss of Redis.
        let wheel = wheel(RedisServer::shared(), 4).await;
        enqueue_all(&wheel, all.iter().copied(), |_| after(0)).await;
        let workers = [Running::start(&wheel, settings(&url)), Running::start(&wheel, settings(&url))];
        assert_eq!(all_ended(&wheel, all.len() as u64).await, 0, "dead");
        for worker in workers {
            assert!(worker.drain().await.clean);
        }
        if life == 0 {
            assert_eq!(
                ids(&db, "status = 4 AND modify_time IS NOT NULL AND delete_status = 0").await.len(),
                14
            );
            assert_eq!(db.number("count(*)", "FROM duewheel_audit").await, 14);
            before = picture(&db).await;
        }
    }
    assert_eq!(picture(&db).await, before, "the second life changed something");
}

#[tokio::test]
async fn the_real_shops_windows_are_kept_in_its_own_zone() {
    for (zone, hours) in [("+08:00", 8), ("-05:00", -5)] {
        let Some((url, db)) = mall().await else { return };
        // 120 minutes for ordinary orders, 60 for flash ones, by the shop's own setting.
        for (id, kind, minutes, seconds) in
            [(12, 0, 120, 2), (29, 0, 120, -30), (31, 1, 60, 2), (36, 1, 60, -30)]
        {
            let age = minutes * 60 + seconds;
            db.run(&format!(
                "UPDATE oms_order SET status = 0, delete_status = 0, order_type = {kind}, \
                 create_time = UTC_TIMESTAMP() + INTERVAL {hours} HOUR - INTERVAL {age} SECOND WHERE id = {id}"
            ))
            .await;
        }
        let hook = hook(SqlSettings { time_zone: Some(zone.to_owned()), ..settings(&url) });
        let began = Moment::host_now();
        let verdicts = judge(&hook, &leases([12, 29, 31, 36])).await;
        for n in [0, 2] {
            assert_eq!(verdicts[n], Verdict::Closed, "{zone}: {verdicts:?}");
        }
        for n in [1, 3] {
            let Verdict::NotDue { until: Some(until) } = verdicts[n] else { panic!("{zone}: {verdicts:?}") };
            assert!((15..=31).contains(&until.since(began).as_secs()), "{zone}: {until}");
        }
        let written = db
            .number(
                &format!("TIMESTAMPDIFF(SECOND, create_time, UTC_TIMESTAMP() + INTERVAL {hours} HOUR)"),
                "FROM oms_order_operate_history WHERE order_id = 12 AND operate_man = 'duewheel'",
            )
            .await;
        assert!((0..30).contains(&written), "{zone}: the history is off by {written} s");
    }
}

#[tokio::test]
async fn no_order_of_the_real_shop_is_closed_early_when_the_clocks_change() {
    let Some((url, db)) = mall().await else { return };
    // What the shop wrote, in Berlin; when two hours have passed, in UTC.
    let cases = [
        // The night of spring: 02:00 becomes 03:00. Local arithmetic would close an hour early.
        ("2026-03-29 01:30:00", "2026-03-29T02:30:00Z"),
        ("2026-03-29 03:30:00", "2026-03-29T03:30:00Z"),
        // The night of autumn: 03:00 becomes 02:00 again. 02:30 happens twice; the later one counts.
        ("2026-10-25 01:30:00", "2026-10-25T01:30:00Z"),
        ("2026-10-25 02:30:00", "2026-10-25T03:30:00Z"),
        ("2026-10-25 03:30:00", "2026-10-25T04:30:00Z"),
        ("2026-07-01 12:00:00", "2026-07-01T12:00:00Z"),
    ];
    for (written, due) in cases {
        let due = due.parse::<jiff::Timestamp>().unwrap().as_second();
        db.run(&format!(
            "UPDATE oms_order SET status = 0, delete_status = 0, order_type = 0, create_time = '{written}' WHERE id = 12; \
             DELETE FROM duewheel_audit"
        ))
        .await;
        for (at, expected) in [
            (due - 1, Verdict::NotDue { until: Some(Moment::from_millis(due as u64 * 1000).unwrap()) }),
            (due, Verdict::Closed),
        ] {
            // The session's clock stands still at the moment of the trial.
            let settings = SqlSettings {
                time_zone: Some("Europe/Berlin".to_owned()),
                session: vec![format!("SET timestamp = {at}")],
                ..settings(&url)
            };
            assert_eq!(judge_one(&hook(settings), &lease(12)).await, expected, "created {written}, at {at}");
        }
    }
}

#[tokio::test]
async fn a_payment_that_races_the_close_of_the_real_shop_wins_or_loses_cleanly() {
    let Some((url, db)) = mall().await else { return };
    db.run("UPDATE oms_order SET status = 0, delete_status = 0 WHERE status IN (0, 4)").await;
    let open = ids(&db, "status = 0").await;
    let hook = hook(settings(&url));
    let (mut paid, mut closed) = (0, 0);
    for _ in 0..15 {
        db.run("UPDATE oms_order SET status = 0, payment_time = NULL WHERE status IN (1, 4) AND delete_status = 0; \
                DELETE FROM duewheel_audit; DELETE FROM oms_order_operate_history; UPDATE pms_sku_stock SET lock_stock = 0").await;
        let open = ids(&db, "status = 0 AND delete_status = 0").await;
        let payer = {
            let (db, open) = (db.clone(), open.clone());
            tokio::spawn(async move {
                let mut won = Vec::new();
                for id in open {
                    let pay = format!(
                        "UPDATE oms_order SET status = 1, payment_time = NOW() WHERE id = {id} AND status = 0"
                    );
                    if db.run(&pay).await == 1 {
                        won.push(id);
                    }
                    tokio::time::sleep(std::time::Duration::from_micros(fastrand::u64(0..400))).await;
                }
                won
            })
        };
        tokio::time::sleep(std::time::Duration::from_micros(fastrand::u64(0..8000))).await;
        let mut leases = leases(open.iter().copied());
        fastrand::shuffle(&mut leases);
        let mut lost = Vec::new();
        for part in leases.chunks(4) {
            for (lease, verdict) in part.iter().zip(judge(&hook, part).await) {
                let id: i64 = lease.id.as_str().parse().unwrap();
                match verdict {
                    Verdict::Closed => lost.push(id),
                    Verdict::Skipped { state } => assert_eq!(state, "paid"),
                    other => panic!("order {id}: {other:?}"),
                }
            }
        }
        let won = payer.await.unwrap();
        lost.sort_unstable();
        assert_eq!(ids(&db, "status = 1 AND delete_status = 0 AND payment_time IS NOT NULL").await, won);
        assert_eq!(ids(&db, "status = 4").await, lost);
        assert_eq!(won.len() + lost.len(), open.len(), "each order is paid or closed");
        let released = db
            .number(
                "coalesce(sum(product_quantity), 0)",
                "FROM oms_order_item JOIN oms_order ON oms_order.id = order_id JOIN pms_sku_stock s ON s.id = product_sku_id \
                 WHERE status = 4",
            )
            .await;
        assert_eq!(db.number("-sum(lock_stock)", "FROM pms_sku_stock").await, released);
        assert_eq!(db.number("count(*)", "FROM oms_order_operate_history").await, lost.len() as i64);
        paid += won.len();
        closed += lost.len();
    }
    assert!(open.len() >= 14 && paid > 0 && closed > 0, "no race: {paid} paid, {closed} closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_shop_needs_no_code_where_it_is_fed_and_swept() {
    let Some((url, db)) = mall().await else { return };
    db.run("UPDATE oms_order SET status = 0 WHERE status = 4").await;
    let config = mall_wheel(&url);
    let hook = settings(&url);
    let wheel = wheel(RedisServer::shared(), 4).await;
    let feed = Feed::new(wheel.clone(), &hook, &config.sweep, config.feed.clone()).unwrap();
    let report = feed.run(false, |_| {}).await.unwrap();
    assert_eq!((report.enqueued, report.refused), (14, 0), "the open orders: {report:?}");
    let worker = Running::start(&wheel, hook.clone());
    assert_eq!(all_ended(&wheel, 14).await, 0, "dead");
    assert_eq!(ids(&db, "status = 4 AND delete_status = 0").await.len(), 14);

    // New orders, ordinary and flash, with two and a half seconds left; and one that has been paid.
    let new = |id: i64, kind: i64, minutes: i64, status: i64| {
        format!(
            "UPDATE again SET id = {id}, order_type = {kind}, status = {status}, \
             create_time = UTC_TIMESTAMP(3) + INTERVAL 8 HOUR + INTERVAL 2500000 MICROSECOND - INTERVAL {minutes} MINUTE; \
             INSERT INTO oms_order SELECT * FROM again; "
        )
    };
    let mut statements = "CREATE TEMPORARY TABLE again AS SELECT * FROM oms_order WHERE id = 12; ".to_owned();
    for n in 0..20 {
        statements += &new(1000 + n, n % 2, if n % 2 == 1 { 60 } else { 120 }, i64::from(n == 7));
    }
    db.run(&(statements + "DROP TEMPORARY TABLE again")).await;
    let report = feed.run(false, |_| {}).await.unwrap();
    // Flash orders were made an hour after ordinary ones, which the mark has passed.
    let report_deep = feed.run(true, |_| {}).await.unwrap();
    assert_eq!(report.enqueued + report_deep.enqueued, 19, "{report:?} {report_deep:?}");
    assert_eq!(all_ended(&wheel, 14 + 19).await, 0, "dead");
    assert_eq!(ids(&db, "id >= 1000 AND status = 4").await.len(), 19);
    assert_eq!(ids(&db, "id = 1007 AND status = 1").await, [1007]);
    assert!(worker.drain().await.clean);

    // What the shop's own hand brings back is found by the sweep; a rebuild then has nothing to add.
    db.run("UPDATE oms_order SET status = 0 WHERE id IN (12, 1001)").await;
    let sweep = Sweep::new(wheel.clone(), &hook, config.sweep.clone()).unwrap();
    let report = sweep.run(|_| {}).await.unwrap();
    assert_eq!((report.seen, report.resurrected), (2, 2), "{report:?}");
    let report = Rebuild::new(wheel, &hook, config.sweep).unwrap().run(false, |_| {}).await.unwrap();
    assert_eq!((report.seen, report.held), (2, 2), "{report:?}");
}

#[tokio::test]
async fn the_rules_of_the_example_find_what_no_order_of_the_real_shop_may_be() {
    let Some((url, db)) = mall().await else { return };
    let wheel = wheel(RedisServer::shared(), 4).await;
    let config = mall_wheel(&url);
    let reconcile = ReconcileSettings { grace: Duration::from_millis(50), ..config.reconcile.clone() };
    let job = Reconcile::new(wheel, &settings(&url), &config.sweep, reconcile).unwrap();
    let before = job.run(None, |_| {}).await.unwrap();
    // 23: a negative amount; 24: paid and closed; 25: closed with its coupon still used, which no other order has.
    db.run(
        "UPDATE oms_order SET pay_amount = -1 WHERE id = 23;
         UPDATE oms_order SET status = 4, payment_time = now() WHERE id = 24;
         UPDATE oms_order SET status = 4, coupon_id = 777, member_id = 778, modify_time = now() WHERE id = 25;
         INSERT INTO sms_coupon_history (coupon_id, member_id, use_status) VALUES (777, 778, 1)",
    )
    .await;
    let after = job.run(None, |_| {}).await.unwrap();
    let grown = |name: &str| {
        let section = |report: &Reconciliation| {
            let section = report.sections().find(|section| section.name == name).unwrap();
            assert_eq!(section.error, None, "{name}");
            section.first.iter().map(|finding| finding.id.clone()).collect::<Vec<_>>()
        };
        let before = section(&before);
        section(&after).into_iter().filter(|id| !before.contains(id)).collect::<Vec<_>>()
    };
    assert_eq!(grown("negative_amount"), ["23"]);
    assert_eq!(grown("illegal_status_jump"), ["24"]);
    assert_eq!(grown("closed_without_release"), ["25"]);
    let open = ids(&db, "status = 0 AND delete_status = 0").await;
    let overdue = after.rules.iter().find(|rule| rule.name == "unpaid_past_its_window").unwrap();
    assert_eq!(overdue.count, open.len() as u64, "all orders of the file are years old");
    assert_eq!(overdue.level.as_str(), "medium");
}
