//! The SQL hook when the database, the wire or one order misbehaves: nothing closed twice, nothing half done, nothing stuck.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duewheel::hook::Verdict;
use duewheel::hook::sql::{SqlHook, SqlSettings};

use crate::rig::eventually;
use crate::rig::shop::{Db, Kind, STOCK, Shop, drain, hook, judge, judge_one, lease, leases};
use crate::rig::wire::{Mood, Wire};

/// How long orders may take to end. Far above what an idle machine needs: these promises are about what happens, not how fast.
const PATIENCE: Duration = Duration::from_secs(240);

fn is_unavailable(verdict: &Verdict) -> bool {
    verdict.as_str() == "unavailable"
}

/// Runs whole batches at once, as a worker does, until every order ended.
async fn drain_at_once(hook: SqlHook, ids: Vec<i64>, batch: usize, patience: Duration) -> Vec<Verdict> {
    let hook = Arc::new(hook);
    let tasks: Vec<_> = ids
        .chunks(batch)
        .map(|ids| {
            let (hook, leases) = (Arc::clone(&hook), leases(ids.iter().copied()));
            tokio::spawn(async move { drain(&hook, leases, patience).await })
        })
        .collect();
    let mut verdicts = Vec::new();
    for task in tasks {
        verdicts.extend(task.await.unwrap().into_iter().map(|(_, verdict)| verdict));
    }
    verdicts
}

#[tokio::test]
async fn a_close_is_decided_the_same_whether_matched_or_changed_rows_are_counted() {
    for mood in [Mood::Pass, Mood::ChangedRowsOnly] {
        let shop = Shop::open(Kind::Mariadb, 1).await;
        shop.orders(1..=5, -1000, &[(0, 2)]).await;
        let (wire, url) = Wire::to(&shop.url).await;
        wire.set(mood);
        // That the flag is really gone: an update that changes nothing counts no row.
        let db = Db::open(&url).await;
        let counted = db.run("UPDATE orders SET status = 'unpaid' WHERE id = 1").await;
        assert_eq!(counted, u64::from(mood == Mood::Pass), "{mood:?}");
        let hook = hook(SqlSettings { urls: vec![url.into()], ..shop.settings() });
        let first = leases(1..=5);
        assert_eq!(judge(&hook, &first).await, vec![Verdict::Closed; 5], "{mood:?}");
        assert_eq!(judge(&hook, &first).await, vec![Verdict::Closed; 5], "{mood:?}: our own audit row");
        let again = judge(&hook, &leases(1..=5)).await;
        assert_eq!(again, vec![Verdict::Skipped { state: "closed".to_owned() }; 5], "{mood:?}");
        shop.balance().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_share_goods_in_opposite_order_are_all_closed() {
    for kind in Kind::SERVERS {
        let shop = Shop::open(kind, 2).await;
        shop.orders((0..1000).filter(|n| n % 2 == 0), -1000, &[(0, 1), (1, 1)]).await;
        shop.orders((0..1000).filter(|n| n % 2 == 1), -1000, &[(1, 1), (0, 1)]).await;
        // Item by item, in an order that differs from order to order: the worst that a shop may declare.
        let give_back = |one: &str, two: &str| {
            format!(
                "UPDATE item SET available = available + 1, reserved = reserved - 1 \
                 WHERE sku = CASE WHEN :id % 2 = 0 THEN '{one}' ELSE '{two}' END"
            )
        };
        let settings = SqlSettings {
            then: vec![give_back("sku-0000", "sku-0001"), give_back("sku-0001", "sku-0000")],
            pool_size: 16,
            ..shop.settings()
        };
        let foreign = tokio::spawn(lock_in_turns(shop.db.clone()));
        let ids: Vec<i64> = (0..1000).collect();
        let verdicts = drain_at_once(hook(settings), ids, 32, PATIENCE).await;
        foreign.abort();
        assert_eq!(verdicts, vec![Verdict::Closed; 1000], "{kind:?}");
        shop.balance().await;
        assert_eq!(shop.count(&format!("FROM item WHERE available = {STOCK}")).await, 2, "{kind:?}");
    }
}

/// The shop's own other code: locks the second item, then the first, again and again; it may itself be the victim.
async fn lock_in_turns(db: Db) {
    use sqlx::Executor;
    macro_rules! forever {
        ($pool:expr) => {{
            let mut session = $pool.acquire().await.unwrap();
            loop {
                let both = "BEGIN; UPDATE item SET available = available WHERE sku = 'sku-0001'; \
                            UPDATE item SET available = available WHERE sku = 'sku-0000'";
                session.execute(sqlx::raw_sql(both)).await.ok();
                session.execute(sqlx::raw_sql("ROLLBACK")).await.ok();
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }};
    }
    match &db {
        Db::Postgres(pool) => forever!(pool),
        Db::Mariadb(pool) => forever!(pool),
        Db::Sqlite(_) => panic!("one writer"),
    }
}

/// The sessions of this shop's database that sit in an open transaction.
async fn idle_in_transaction(shop: &Shop) -> i64 {
    shop.count("FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'duewheel' AND state LIKE 'idle in%'")
        .await
}

#[tokio::test]
async fn a_begin_that_is_not_answered_in_time_poisons_no_session() {
    let shop = Shop::open(Kind::Postgres, 1).await;
    shop.orders([1, 2], -1000, &[(0, 1)]).await;
    let (wire, url) = Wire::to(&shop.url).await;
    let hook = hook(SqlSettings {
        urls: vec![url.into()],
        timeout: Duration::from_secs(1),
        lock_timeout: Duration::from_millis(500),
        pool_size: 1,
        ..shop.settings()
    });
    // The session exists, as soon as the machine has made one in time; only the reply to its next BEGIN is late.
    eventually(PATIENCE, async || {
        matches!(judge_one(&hook, &lease(3)).await, Verdict::Gone { .. }).then_some(())
    })
    .await;
    wire.set(Mood::Late(Duration::from_secs(3)));
    let began = Instant::now();
    let verdict = judge_one(&hook, &lease(1)).await;
    assert!(is_unavailable(&verdict), "{verdict:?}");
    assert!(began.elapsed() < Duration::from_millis(2500), "took {:?}", began.elapsed());
    wire.set(Mood::Pass);
    for id in [2, 1] {
        let ended = drain(&hook, leases([id]), PATIENCE).await;
        assert_eq!(ended[0].1, Verdict::Closed);
        assert_eq!(shop.status(id).await, "closed", "seen by another session");
    }
    eventually(Duration::from_secs(3), || async { (idle_in_transaction(&shop).await == 0).then_some(()) })
        .await;
    shop.balance().await;
}

#[tokio::test]
async fn a_silent_database_costs_no_session_for_good() {
    for kind in Kind::SERVERS {
        let shop = Shop::open(kind, 1).await;
        shop.orders(1..=40, -1000, &[(0, 1)]).await;
        let (wire, url) = Wire::to(&shop.url).await;
        let hook = Arc::new(hook(SqlSettings {
            urls: vec![url.into()],
            timeout: Duration::from_secs(2),
            lock_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(1),
            pool_size: 2,
            ..shop.settings()
        }));
        drain(&hook, leases([40]), PATIENCE).await;
        for round in 0..5 {
            wire.set(Mood::Silent);
            let began = Instant::now();
            for verdict in judge(&hook, &leases([round * 2 + 1, round * 2 + 2])).await {
                assert!(is_unavailable(&verdict), "{kind:?}: {verdict:?}");
            }
            assert!(began.elapsed() < Duration::from_millis(2500), "{kind:?}: took {:?}", began.elapsed());
            wire.set(Mood::Pass);
            // Both sessions are there again: a third call would have to wait, two run at once.
            let calls = [round * 2 + 1, round * 2 + 2].map(|id| {
                let hook = Arc::clone(&hook);
                tokio::spawn(async move { drain(&hook, leases([id]), PATIENCE).await })
            });
            for call in calls {
                assert_eq!(call.await.unwrap()[0].1, Verdict::Closed, "{kind:?} round {round}");
            }
        }
        shop.balance().await;
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_half_way_leaves_nothing_behind() {
    let shop = Shop::open(Kind::Postgres, 1).await;
    shop.orders(1..=60, -1000, &[(0, 1)]).await;
    let hook = hook(SqlSettings { pool_size: 1, ..shop.settings() });
    for id in 1..=60 {
        let lease = [lease(id)];
        // The worker drops the call at any point of it.
        tokio::time::timeout(Duration::from_micros(fastrand::u64(50..4000)), judge(&hook, &lease)).await.ok();
    }
    let ended = drain(&hook, leases(1..=60), PATIENCE).await;
    assert!(ended.iter().all(|(_, v)| matches!(v, Verdict::Closed | Verdict::Skipped { .. })), "{ended:?}");
    shop.balance().await;
    eventually(Duration::from_secs(3), || async { (idle_in_transaction(&shop).await == 0).then_some(()) })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_the_server_has_forgotten_are_prepared_again() {
    for prepared in [true, false] {
        let shop = Shop::open(Kind::Postgres, 1).await;
        shop.orders(1..=400, -1000, &[(0, 1)]).await;
        // As behind a pooler: named statements vanish from under the session, here in the middle of transactions.
        shop.db
            .run("CREATE SEQUENCE forgot; \
                  CREATE FUNCTION forget(bigint) RETURNS void AS $$ DECLARE now bigint := extract(epoch FROM clock_timestamp()) * 1000; \
                  BEGIN IF now - (SELECT last_value FROM forgot) > 100 THEN \
                  PERFORM setval('forgot', now); EXECUTE 'DEALLOCATE ALL'; END IF; END $$ LANGUAGE plpgsql")
            .await;
        let mut settings = SqlSettings { prepared, pool_size: 2, ..shop.settings() };
        settings.then.push("SELECT forget(:id)".to_owned());
        let verdicts = drain_at_once(hook(settings), (1..=400).collect(), 20, PATIENCE).await;
        assert_eq!(verdicts, vec![Verdict::Closed; 400], "prepared: {prepared}");
        shop.balance().await;
    }
}

#[tokio::test]
async fn sessions_that_the_server_closed_for_idleness_cost_no_attempt() {
    for kind in Kind::SERVERS {
        let shop = Shop::open(kind, 1).await;
        shop.orders([1, 2], -1000, &[(0, 1)]).await;
        let idle = if kind == Kind::Postgres {
            "SET idle_session_timeout = '300ms'"
        } else {
            "SET wait_timeout = 1"
        };
        let hook = hook(SqlSettings { session: vec![idle.to_owned()], ..shop.settings() });
        assert_eq!(judge_one(&hook, &lease(1)).await, Verdict::Closed);
        tokio::time::sleep(Duration::from_millis(1700)).await;
        let began = Instant::now();
        assert_eq!(judge_one(&hook, &lease(2)).await, Verdict::Closed, "{kind:?}");
        assert!(began.elapsed() < Duration::from_secs(2), "{kind:?}: took {:?}", began.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_killed_again_and_again_close_every_order_once() {
    for kind in Kind::SERVERS {
        let shop = Shop::open(kind, 4).await;
        shop.orders(1..=2000, -1000, &[(0, 1), (1, 2)]).await;
        let killer = {
            let db = shop.db.clone();
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    if kind == Kind::Postgres {
                        db.try_run(
                            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                                    WHERE datname = current_database() AND application_name = 'duewheel'",
                        )
                        .await
                        .ok();
                    } else {
                        let own = "SELECT CAST(id AS CHAR) FROM information_schema.processlist \
                                   WHERE db = DATABASE() AND info NOT LIKE '%processlist%' OR db = DATABASE() AND info IS NULL";
                        for id in db.rows(own).await.into_iter().flatten().flatten() {
                            // It may have ended by itself.
                            db.try_run(&format!("KILL {id}")).await.ok();
                        }
                    }
                }
            })
        };
        let settings = SqlSettings { pool_size: 4, ..shop.settings() };
        let verdicts = drain_at_once(hook(settings), (1..=2000).collect(), 25, PATIENCE).await;
        killer.abort();
        let closed = verdicts.iter().filter(|v| **v == Verdict::Closed).count();
        assert_eq!(closed, 2000, "{kind:?}: {:?}", verdicts.iter().find(|v| **v != Verdict::Closed));
        shop.balance().await;
    }
}

#[tokio::test]
async fn a_poison_order_fails_alone_and_is_rolled_back_whole() {
    for kind in Kind::ALL {
        let shop = Shop::open_altered(kind, 3, |schema| {
            schema
                .replace(",\n  FOREIGN KEY (sku) REFERENCES item (sku)", "")
                .replace(" REFERENCES item (sku)", "")
        })
        .await;
        shop.orders(1..=90, -1000, &[(0, 1)]).await;
        // Ten in between: five whose stock would go below zero, five whose item is not there.
        shop.orders(91..=95, -1000, &[(1, 3)]).await;
        shop.orders(96..=100, -1000, &[(0, 1)]).await;
        shop.db.run("UPDATE item SET reserved = 0, available = 1000000 WHERE sku = 'sku-0001'").await;
        shop.db.run("UPDATE order_item SET sku = 'no-such' WHERE order_id > 95").await;
        let mut settings = shop.settings();
        settings.ensure = vec![
            "SELECT order_item.sku FROM order_item LEFT JOIN item ON item.sku = order_item.sku \
             WHERE order_id IN (:ids) AND item.sku IS NULL"
                .to_owned(),
        ];
        let mut batch = leases(1..=100);
        fastrand::shuffle(&mut batch);
        for (lease, verdict) in batch.iter().zip(judge(&hook(settings), &batch).await) {
            let id: i64 = lease.id.as_str().parse().unwrap();
            match (id, &verdict) {
                (..=90, Verdict::Closed) => {}
                (91..=95, Verdict::Failed { reason }) => {
                    assert!(reason.starts_with("then"), "{kind:?}: {reason}")
                }
                (96.., Verdict::Failed { reason }) => {
                    assert!(reason.contains("ensure 1") && reason.contains("no-such"), "{kind:?}: {reason}");
                }
                _ => panic!("{kind:?}: order {id} is {verdict:?}"),
            }
        }
        assert_eq!(shop.count("FROM orders WHERE status = 'closed'").await, 90, "{kind:?}");
        assert_eq!(shop.count("FROM closes").await, 90, "{kind:?}");
        assert_eq!(shop.db.number("reserved", "FROM item WHERE sku = 'sku-0000'").await, 5, "{kind:?}");
    }
}

#[tokio::test]
async fn stock_that_somebody_holds_delays_only_its_own_orders() {
    for kind in Kind::SERVERS {
        let shop = Shop::open(kind, 2).await;
        shop.orders(1..=90, -1000, &[(0, 1)]).await;
        shop.orders(91..=100, -1000, &[(1, 1)]).await;
        let hook = hook(SqlSettings { lock_timeout: Duration::from_millis(500), ..shop.settings() });
        let holder = Holder::of(&shop, "UPDATE item SET sold = sold WHERE sku = 'sku-0001'").await;
        let mut batch = leases(1..=100);
        fastrand::shuffle(&mut batch);
        let verdicts = judge(&hook, &batch).await;
        let closed = shop.count("FROM orders WHERE status = 'closed' AND id <= 90").await;
        assert_eq!(closed, 90, "{kind:?}: {verdicts:?}");
        assert_eq!(shop.count("FROM orders WHERE status = 'closed'").await, 90, "{kind:?}");
        assert_eq!(verdicts.iter().filter(|v| is_unavailable(v)).count(), 10, "{kind:?}: {verdicts:?}");
        holder.release().await;
        assert_eq!(judge(&hook, &leases(91..=100)).await, vec![Verdict::Closed; 10], "{kind:?}");
        shop.balance().await;
    }
}

/// A session of the shop's that holds its locks until it is released.
struct Holder {
    release: tokio::sync::oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Holder {
    async fn of(shop: &Shop, statement: &str) -> Self {
        use sqlx::{AssertSqlSafe, Executor};
        let (release, released) = tokio::sync::oneshot::channel();
        let (holds, held) = tokio::sync::oneshot::channel();
        let (db, statement) = (shop.db.clone(), statement.to_owned());
        let task = tokio::spawn(async move {
            macro_rules! hold {
                ($pool:expr, $begin:expr) => {{
                    let mut session = $pool.acquire().await.unwrap();
                    session.execute($begin).await.unwrap();
                    session.execute(AssertSqlSafe(statement)).await.unwrap();
                    holds.send(()).unwrap();
                    released.await.ok();
                    session.execute("COMMIT").await.unwrap();
                }};
            }
            match &db {
                Db::Postgres(pool) => hold!(pool, sqlx::raw_sql("BEGIN")),
                Db::Mariadb(pool) => hold!(pool, sqlx::raw_sql("BEGIN")),
                Db::Sqlite(pool) => hold!(pool, sqlx::raw_sql("BEGIN IMMEDIATE")),
            }
        });
        held.await.unwrap();
        Self { release, task }
    }

    async fn release(self) {
        self.release.send(()).unwrap();
        self.task.await.unwrap();
    }
}

#[tokio::test]
async fn a_payment_that_holds_its_row_wins_and_keeps_nobody_else_waiting() {
    for kind in Kind::SERVERS {
        let shop = Shop::open(kind, 1).await;
        shop.orders(1..=50, -1000, &[(0, 1)]).await;
        let hook = hook(SqlSettings { lock_timeout: Duration::from_secs(1), ..shop.settings() });
        let paying = Holder::of(&shop, "UPDATE orders SET status = 'paid' WHERE id = 7").await;
        let verdicts = judge(&hook, &leases(1..=50)).await;
        for (n, verdict) in verdicts.iter().enumerate() {
            // Its database answers: nobody else is held back for it.
            let held = matches!(verdict, Verdict::Held { .. });
            assert_eq!(held, n + 1 == 7, "{kind:?}: order {}: {verdict:?}", n + 1);
        }
        paying.release().await;
        assert_eq!(judge_one(&hook, &lease(7)).await, Verdict::Skipped { state: "paid".to_owned() });
        shop.balance().await;

        // A payment that takes a moment is waited for: it commits while the close waits on its row.
        shop.orders([51], -1000, &[(0, 1)]).await;
        let paying = Holder::of(&shop, "UPDATE orders SET status = 'paid' WHERE id = 51").await;
        let (verdict, ()) = tokio::join!(async { judge_one(&hook, &lease(51)).await }, async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            paying.release().await;
        });
        assert_eq!(verdict, Verdict::Skipped { state: "paid".to_owned() }, "{kind:?}");
        shop.balance().await;
    }
}

#[tokio::test]
async fn a_database_that_is_down_uses_up_nothing_and_closes_everything_when_it_is_back() {
    for kind in Kind::SERVERS {
        let shop = Shop::open(kind, 1).await;
        shop.orders(1..=100, -1000, &[(0, 1)]).await;
        let (wire, url) = Wire::to(&shop.url).await;
        let hook = hook(SqlSettings { urls: vec![url.into()], ..shop.settings() });
        assert_eq!(judge_one(&hook, &lease(100)).await, Verdict::Closed);
        wire.set(Mood::Dead);
        for _ in 0..5 {
            let began = Instant::now();
            let verdicts = judge(&hook, &leases(1..=99)).await;
            assert!(verdicts.iter().all(is_unavailable), "{kind:?}: {verdicts:?}");
            assert!(began.elapsed() < Duration::from_secs(4), "{kind:?}: took {:?}", began.elapsed());
        }
        wire.set(Mood::Pass);
        assert_eq!(judge(&hook, &leases(1..=99)).await, vec![Verdict::Closed; 99], "{kind:?}");
        shop.balance().await;
    }
}

#[tokio::test]
async fn a_session_killed_between_update_and_commit_rolls_back_and_the_repeat_closes() {
    for kind in Kind::SERVERS {
        let shop = Shop::open(kind, 1).await;
        shop.orders(1..=10, -1000, &[(0, 2)]).await;
        let mut settings = shop.settings();
        // The first transaction ends its own session after the close; a sequence does not roll back.
        if kind == Kind::Postgres {
            shop.db
                .run("CREATE SEQUENCE bomb; CREATE FUNCTION boom(bigint) RETURNS void AS $$ BEGIN \
                      IF nextval('bomb') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; END $$ LANGUAGE plpgsql")
                .await;
            settings.then.push("SELECT boom(:id)".to_owned());
        } else {
            shop.db
                .run(
                    "CREATE SEQUENCE bomb; CREATE PROCEDURE boom(one bigint) BEGIN \
                      IF NEXTVAL(bomb) = 1 THEN KILL CONNECTION CONNECTION_ID(); END IF; END",
                )
                .await;
            settings.then.push("CALL boom(:id)".to_owned());
        }
        let verdicts = judge(&hook(settings), &leases(1..=10)).await;
        assert_eq!(verdicts, vec![Verdict::Closed; 10], "{kind:?}");
        shop.balance().await;
    }
}

#[tokio::test]
async fn the_outcome_of_an_unanswered_commit_is_read_and_never_guessed() {
    for kind in Kind::SERVERS {
        // The whole message: READ COMMITTED is no commit.
        let commit: &'static [u8] = if kind == Kind::Postgres { b"COMMIT\0" } else { b"\x03COMMIT" };
        for (mood, audited) in
            [(Mood::CutAfter(commit), true), (Mood::CutAfter(commit), false), (Mood::CutBefore(commit), true)]
        {
            let shop = Shop::open(kind, 1).await;
            shop.orders(1..=20, -1000, &[(0, 2)]).await;
            let (wire, url) = Wire::to(&shop.url).await;
            let mut settings = SqlSettings { urls: vec![url.into()], ..shop.settings() };
            if !audited {
                settings.audit = None;
            }
            let hook = hook(settings);
            wire.set(mood);
            let first = leases(1..=20);
            let verdicts = judge(&hook, &first).await;
            assert!(wire.cuts() >= 1, "{kind:?} {mood:?}: no commit was cut");
            wire.set(Mood::Pass);
            match (mood, audited) {
                (Mood::CutAfter(_), true) => assert_eq!(verdicts, vec![Verdict::Closed; 20], "{kind:?}"),
                // Without an audit row nobody can say who closed them; that they are closed is read.
                (Mood::CutAfter(_), false) => {
                    assert_eq!(
                        verdicts,
                        vec![Verdict::Skipped { state: "closed".to_owned() }; 20],
                        "{kind:?}"
                    );
                }
                _ => {
                    assert!(verdicts.iter().all(is_unavailable), "{kind:?}: {verdicts:?}");
                    assert_eq!(judge(&hook, &first).await, vec![Verdict::Closed; 20], "{kind:?}");
                }
            }
            assert_eq!(shop.count("FROM orders WHERE status = 'closed'").await, 20);
            assert_eq!(shop.db.number("reserved", "FROM item").await, 0, "{kind:?} {mood:?}: released once");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn serialization_failures_are_repeated_until_somebody_wins() {
    for (level, begin) in [
        ("repeatable read", "BEGIN ISOLATION LEVEL REPEATABLE READ"),
        ("serializable", "BEGIN ISOLATION LEVEL SERIALIZABLE"),
    ] {
        let shop = Shop::open(Kind::Postgres, 1).await;
        shop.orders(1..=300, -1000, &[(0, 1)]).await;
        let settings = SqlSettings {
            session: vec![format!("SET default_transaction_isolation = '{level}'")],
            ..shop.settings()
        };
        let payer = pay_all(&shop, 1..=300, begin);
        let verdicts = drain_at_once(hook(settings), (1..=300).collect(), 10, PATIENCE).await;
        let paid = payer.await.unwrap();
        let closed = verdicts.iter().filter(|v| **v == Verdict::Closed).count() as i64;
        let skipped =
            verdicts.iter().filter(|v| **v == Verdict::Skipped { state: "paid".to_owned() }).count() as i64;
        assert_eq!((closed + skipped, skipped), (300, paid), "{level}");
        shop.balance().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payer_in_repeatable_read_wins_or_loses_cleanly() {
    let shop = Shop::open(Kind::Mariadb, 1).await;
    shop.orders(1..=300, -1000, &[(0, 1)]).await;
    let payer = pay_all(
        &shop,
        1..=300,
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN; SELECT COUNT(*) FROM orders",
    );
    let verdicts = drain_at_once(shop.hook(), (1..=300).collect(), 10, PATIENCE).await;
    let paid = payer.await.unwrap();
    let closed = verdicts.iter().filter(|v| **v == Verdict::Closed).count() as i64;
    assert_eq!(closed + paid, 300);
    shop.balance().await;
}

/// Pays the orders one by one in transactions of their own; answers how many payments succeeded.
fn pay_all(
    shop: &Shop,
    ids: std::ops::RangeInclusive<i64>,
    begin: &'static str,
) -> tokio::task::JoinHandle<i64> {
    use sqlx::{AssertSqlSafe, Executor};
    let db = shop.db.clone();
    tokio::spawn(async move {
        let mut paid = 0;
        for id in ids {
            let pay = format!("UPDATE orders SET status = 'paid' WHERE id = {id} AND status = 'unpaid'");
            macro_rules! pay {
                ($pool:expr) => {{
                    let mut session = $pool.acquire().await.unwrap();
                    session.execute(sqlx::raw_sql(begin)).await.unwrap();
                    match session.execute(AssertSqlSafe(pay)).await {
                        Ok(done) if done.rows_affected() == 1 => {
                            let commit = session.execute(sqlx::raw_sql("COMMIT")).await;
                            paid += i64::from(commit.is_ok());
                        }
                        _ => drop(session.execute(sqlx::raw_sql("ROLLBACK")).await),
                    }
                }};
            }
            match &db {
                Db::Postgres(pool) => pay!(pool),
                Db::Mariadb(pool) => pay!(pool),
                Db::Sqlite(pool) => pay!(pool),
            }
        }
        paid
    })
}

#[tokio::test]
async fn a_file_that_another_writer_holds_is_waited_for_and_then_asked_again() {
    let shop = Shop::open(Kind::Sqlite, 1).await;
    shop.orders(1..=10, -1000, &[(0, 1)]).await;
    let hook = hook(SqlSettings {
        lock_timeout: Duration::from_millis(100),
        timeout: Duration::from_secs(2),
        ..shop.settings()
    });
    let writer = Holder::of(&shop, "UPDATE item SET sold = sold").await;
    let began = Instant::now();
    let verdicts = judge(&hook, &leases(1..=10)).await;
    assert!(verdicts.iter().all(is_unavailable), "{verdicts:?}");
    assert!(began.elapsed() < Duration::from_secs(3), "took {:?}", began.elapsed());
    writer.release().await;
    assert_eq!(judge(&hook, &leases(1..=10)).await, vec![Verdict::Closed; 10]);
    shop.balance().await;
}

#[tokio::test]
async fn a_full_disk_or_a_read_only_file_is_no_orders_fault() {
    let shop = Shop::open(Kind::Sqlite, 1).await;
    shop.orders(1..=2000, -1000, &[(0, 1)]).await;
    let full = hook(SqlSettings { session: vec!["PRAGMA max_page_count = 1".to_owned()], ..shop.settings() });
    let verdicts = judge(&full, &leases(1..=2000)).await;
    assert!(
        verdicts.iter().any(|v| matches!(v, Verdict::Unavailable { reason, .. } if reason.contains("full"))),
        "{:?}",
        verdicts.first()
    );
    assert!(verdicts.iter().all(|v| is_unavailable(v) || *v == Verdict::Closed), "{:?}", verdicts.first());
    let url = format!("{}?mode=ro", shop.url);
    let read_only = hook(SqlSettings { urls: vec![url.into()], ..shop.settings() });
    let verdict = judge_one(&read_only, &lease(2000)).await;
    assert!(is_unavailable(&verdict), "{verdict:?}");
    shop.balance().await;
}

#[tokio::test]
async fn a_schema_that_changed_under_the_hook_is_no_orders_fault() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 1).await;
        shop.orders(1..=20, -1000, &[(0, 1)]).await;
        let hook = shop.hook();
        assert_eq!(judge_one(&hook, &lease(20)).await, Verdict::Closed);
        shop.db.run("ALTER TABLE closes RENAME COLUMN cause TO because").await;
        let verdicts = judge(&hook, &leases(1..=19)).await;
        assert!(
            verdicts
                .iter()
                .all(|v| matches!(v, Verdict::Unavailable { reason, .. } if reason.contains("audit"))),
            "{kind:?}: {verdicts:?}"
        );
        assert_eq!(shop.count("FROM orders WHERE status = 'unpaid'").await, 19, "{kind:?}: rolled back");
        // A session of the test's own pool that last saw the old schema reads the new one with its next query.
        crate::rig::eventually(Duration::from_secs(10), || async {
            shop.db.rows("SELECT CAST(count(*) AS CHAR(9)) FROM closes").await;
            shop.db.try_run("ALTER TABLE closes RENAME COLUMN because TO cause").await.ok()
        })
        .await;
        assert_eq!(judge(&hook, &leases(1..=19)).await, vec![Verdict::Closed; 19], "{kind:?}");
        shop.balance().await;
    }
}

#[tokio::test]
async fn a_lease_with_no_time_left_is_not_worked_on() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 1).await;
        shop.orders([1], -1000, &[(0, 1)]).await;
        let mut late = lease(1);
        late.trusted_until = Instant::now();
        assert!(is_unavailable(&judge_one(&shop.hook(), &late).await), "{kind:?}");
        assert_eq!(shop.status(1).await, "unpaid", "{kind:?}");
    }
}
