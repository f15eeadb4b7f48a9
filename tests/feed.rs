//! The feed: every new unpaid order of the table gets onto the wheel by itself, at its own close time; none is missed, however the table
//! tells its times. And the rebuild, which does it for all that are open.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::deadline::{Cause, Channel, Channels, State};
use duewheel::error::Error;
use duewheel::hook::sql::{SqlSettings, TimeType};
use duewheel::sweep::{
    Feed, FeedSettings, Looked, Rebuild, Reconcile, ReconcileSettings, Sweep, SweepSettings,
};
use duewheel::wheel::Wheel;

use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::shop::{Kind, Shop};
use crate::rig::wheel::{id, wheel};
use crate::rig::worker::{Fleet, Plan};
use crate::rig::{PATIENCE, eventually};
use crate::sweep::listed;

fn settings() -> FeedSettings {
    FeedSettings { time: Some("created_at".to_owned()), page: 100, ..FeedSettings::default() }
}

fn feed_of(wheel: &Wheel, hook: &SqlSettings, settings: FeedSettings) -> Feed {
    Feed::new(wheel.clone(), hook, &SweepSettings::default(), settings).unwrap_or_else(|e| panic!("{e}"))
}

/// Orders that were made and are to be closed so many milliseconds from now, by the database's clock.
async fn place(shop: &Shop, ids: impl IntoIterator<Item = i64>, created: i64, close: i64) {
    let (created, close) = (shop.kind.now_plus(created), shop.kind.now_plus(close));
    let rows: Vec<String> = ids.into_iter().map(|id| format!("({id}, 1, {created}, {close})")).collect();
    shop.db
        .run(&format!("INSERT INTO orders (id, user_id, created_at, close_at) VALUES {}", rows.join(",")))
        .await;
}

async fn held(wheel: &Wheel) -> BTreeSet<i64> {
    listed(wheel, State::Scheduled).await.into_iter().map(|(id, _)| id.parse().unwrap()).collect()
}

/// Lets the next read be one of the whole overlap.
fn deep_next(server: &RedisServer, wheel: &Wheel) {
    server.command::<u64>(&["HDEL", &format!("dw1:{{{}}}:job:feed", wheel.name()), ":deep"]);
}

#[tokio::test]
async fn new_orders_are_enqueued_at_their_own_close_time_and_only_once() {
    for kind in Kind::ALL {
        let (wheel, shop) = (wheel(RedisServer::shared(), 4).await, Shop::open(kind, 1).await);
        let feed = feed_of(&wheel, &shop.settings(), settings());
        place(&shop, 1..=250, -60_000, 1_800_000).await;
        shop.db.run("UPDATE orders SET status = 'paid' WHERE id <= 50").await;
        let report = feed.run(false, |_| {}).await.unwrap();
        assert_eq!((report.seen, report.enqueued, report.pages), (200, 200, 2), "{kind:?}: {report:?}");
        assert_eq!(held(&wheel).await, (51..=250).collect(), "{kind:?}");
        let one = wheel.inspect(&id("51")).await.unwrap().entry.unwrap();
        let ahead = one.due_at.since(Moment::host_now()).as_secs();
        assert!((1700..=1801).contains(&ahead), "{kind:?}: due in {ahead} s");
        assert_eq!(one.cause, Cause::Feed);
        // Another worker goes on from the same mark.
        place(&shop, 251..=260, 0, 1_800_000).await;
        let report = feed_of(&wheel, &shop.settings(), settings()).run(false, |_| {}).await.unwrap();
        assert_eq!(report.enqueued, 10, "{kind:?}: {report:?}");
        let report = feed.run(false, |_| {}).await.unwrap();
        assert_eq!((report.seen, report.held), (10, 10), "{kind:?}: old rows were read again: {report:?}");
        // What was cancelled because it was paid a moment ago does not come back though the table does not know yet.
        wheel.cancel(&[id("260")]).await;
        let report = feed.run(true, |_| {}).await.unwrap();
        assert_eq!((report.seen, report.ended, report.enqueued), (210, 1, 0), "{kind:?}: {report:?}");
    }
}

#[tokio::test]
async fn a_thousand_orders_of_one_timestamp_are_all_seen() {
    for kind in Kind::ALL {
        let (wheel, shop) = (wheel(RedisServer::shared(), 4).await, Shop::open(kind, 1).await);
        let feed = feed_of(&wheel, &shop.settings(), settings());
        place(&shop, 1..=500, -1000, 1_800_000).await;
        shop.db.run("UPDATE orders SET created_at = '2026-01-01 00:00:00'").await;
        feed.run(false, |_| {}).await.unwrap();
        // The second half bears the very timestamp that the mark stands at.
        place(&shop, 501..=1000, -1000, 1_800_000).await;
        shop.db.run("UPDATE orders SET created_at = '2026-01-01 00:00:00'").await;
        feed.run(false, |_| {}).await.unwrap();
        assert_eq!(held(&wheel).await, (1..=1000).collect(), "{kind:?}");
    }
}

#[tokio::test]
async fn an_order_that_is_committed_late_is_not_missed() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 4).await, Shop::open(Kind::Postgres, 1).await);
    let crate::rig::shop::Db::Postgres(pool) = &shop.db else { panic!("PostgreSQL") };
    let feed = feed_of(&wheel, &shop.settings(), settings());
    for n in 0..20 {
        // The slow transaction took its time before the quick one, and commits after the feed has seen the quick one.
        let mut slow = pool.begin().await.unwrap();
        let insert = |id: i64| {
            sqlx::AssertSqlSafe(format!(
                "INSERT INTO orders (id, user_id, created_at, close_at) VALUES ({id}, 1, now(), now() + interval '1 hour')"
            ))
        };
        sqlx::query(insert(2 * n)).execute(&mut *slow).await.unwrap();
        sqlx::query(insert(2 * n + 1)).execute(pool).await.unwrap();
        feed.run(false, |_| {}).await.unwrap();
        assert!(held(&wheel).await.contains(&(2 * n + 1)));
        slow.commit().await.unwrap();
    }
    feed.run(false, |_| {}).await.unwrap();
    assert_eq!(held(&wheel).await, (0..40).collect());
}

#[tokio::test]
async fn orders_of_a_clock_a_minute_behind_or_an_hour_ahead_are_not_missed_and_hide_no_others() {
    for kind in Kind::ALL {
        let server = RedisServer::shared();
        let (wheel, shop) = (wheel(server, 4).await, Shop::open(kind, 1).await);
        let feed = feed_of(&wheel, &shop.settings(), settings());
        place(&shop, [1], 0, 1_800_000).await;
        feed.run(false, |_| {}).await.unwrap();
        // One app server's clock is an hour ahead: its order is seen, and the mark does not follow it.
        place(&shop, [2], 3_600_000, 1_800_000).await;
        feed.run(false, |_| {}).await.unwrap();
        place(&shop, [3], 10, 1_800_000).await;
        feed.run(false, |_| {}).await.unwrap();
        assert_eq!(held(&wheel).await, [1, 2, 3].into(), "{kind:?}");
        // Another one's is a minute behind: found when the overlap is read again.
        place(&shop, [4], -60_000, 1_800_000).await;
        feed.run(false, |_| {}).await.unwrap();
        assert!(!held(&wheel).await.contains(&4), "{kind:?}: the quick read goes back two seconds only");
        deep_next(server, &wheel);
        feed.run(false, |_| {}).await.unwrap();
        assert_eq!(held(&wheel).await, [1, 2, 3, 4].into(), "{kind:?}");
    }
}

#[tokio::test]
async fn the_overlap_is_read_again_four_times_within_its_length() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(Kind::Sqlite, 1).await);
    let overlap = Duration::from_secs(4);
    let feed = feed_of(&wheel, &shop.settings(), FeedSettings { overlap, ..settings() });
    place(&shop, [1], 0, 1_800_000).await;
    feed.run(false, |_| {}).await.unwrap();
    place(&shop, [2], -3000, 1_800_000).await;
    let began = std::time::Instant::now();
    while !held(&wheel).await.contains(&2) {
        feed.run(false, |_| {}).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(3), "not seen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn an_order_whose_transaction_took_ten_seconds_does_not_wait_for_the_whole_overlap() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(Kind::Sqlite, 1).await);
    let feed = feed_of(&wheel, &shop.settings(), settings());
    place(&shop, [1], 0, 1_800_000).await;
    feed.run(false, |_| {}).await.unwrap();
    let began = std::time::Instant::now();
    place(&shop, [2], -10_000, 1_800_000).await;
    while !held(&wheel).await.contains(&2) {
        feed.run(false, |_| {}).await.unwrap();
        // It takes four; the whole overlap is read again after thirty.
        assert!(began.elapsed() < Duration::from_secs(20), "not seen");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_window_by_a_value_of_the_row_makes_the_close_time() {
    for kind in Kind::ALL {
        let (wheel, shop) = (wheel(RedisServer::shared(), 2).await, Shop::open(kind, 1).await);
        place(&shop, 1..=3, 0, 9_000_000).await;
        shop.db.run("UPDATE orders SET user_id = id").await;
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let windows = BTreeMap::from([("1".to_owned(), minutes(60)), ("2".to_owned(), minutes(120))]);
        let by = Some("user_id".to_owned());
        let two = FeedSettings { window_by: by, windows, ..settings() };
        let report = feed_of(&wheel, &shop.settings(), two.clone()).run(false, |_| {}).await.unwrap();
        assert_eq!((report.enqueued, report.refused), (2, 1), "{kind:?}: {report:?}");
        let rest = FeedSettings { window: Some(minutes(5)), ..two };
        let report = feed_of(&wheel, &shop.settings(), rest).run(true, |_| {}).await.unwrap();
        assert_eq!((report.held, report.enqueued), (2, 1), "{kind:?}: {report:?}");
        for (name, window) in [("1", 60), ("2", 120), ("3", 5)] {
            let due = wheel.inspect(&id(name)).await.unwrap().entry.unwrap().due_at;
            let ahead = due.since(Moment::host_now()).as_secs();
            assert!((window * 60 - 30..=window * 60).contains(&ahead), "{kind:?} {name}: due in {ahead} s");
        }
    }
}

/// The shop wants to close after three minutes; the provider refuses to close a trade that is younger than five.
#[tokio::test]
async fn an_order_from_the_table_is_not_due_before_its_channel_allows_the_close() {
    for kind in Kind::ALL {
        let server = RedisServer::shared();
        let (fed, swept, rebuilt) = (wheel(server, 2).await, wheel(server, 2).await, wheel(server, 2).await);
        let shop = Shop::open(kind, 1).await;
        shop.db.run("ALTER TABLE orders ADD COLUMN pay_channel text").await;
        // Created four minutes ago, to be closed after three: overdue by the table.
        place(&shop, 1..=4, -240_000, -60_000).await;
        shop.db.run("UPDATE orders SET pay_channel = 'wechat' WHERE id <= 2").await;
        shop.db.run("UPDATE orders SET pay_channel = 'unheard of' WHERE id = 3").await;
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let rules = Channel { hold: None, min_window: minutes(1), min_age: minutes(5) };
        let channels = Channels { by_name: [("wechat".to_owned(), rules)].into(), needed_to_hold: false };
        let channel = Some("pay_channel".to_owned());
        let sweep = SweepSettings {
            channel: channel.clone(),
            created_at: Some("created_at".to_owned()),
            channels: channels.clone(),
            ..SweepSettings::default()
        };
        let feed = FeedSettings { channel, channels, ..settings() };
        let hook = shop.settings();
        feed_of(&fed, &hook, feed.clone()).run(false, |_| {}).await.unwrap();
        Sweep::new(swept.clone(), &hook, sweep.clone()).unwrap().run(|_| {}).await.unwrap();
        Rebuild::new(rebuilt.clone(), &hook, sweep.clone()).unwrap().run(false, |_| {}).await.unwrap();
        for (wheel, by) in [(&fed, "feed"), (&swept, "sweep"), (&rebuilt, "rebuild")] {
            let due = async |n: &str| wheel.inspect(&id(n)).await.unwrap().entry.unwrap().due_at;
            for (n, later) in [("1", 120), ("2", 120), ("3", 0)] {
                // Later than an order without rules, by what is missing; the rows' times are some milliseconds apart.
                let apart = due(n).await.since(due("4").await.plus(Duration::from_secs(later)));
                assert!(apart < Duration::from_secs(1), "{kind:?} {by} {n}: {apart:?}");
                let apart = due("4").await.plus(Duration::from_secs(later)).since(due(n).await);
                assert!(apart < Duration::from_secs(1), "{kind:?} {by} {n}: {apart:?}");
            }
        }
        // What was put off is no disagreement of wheel and table.
        let reconcile =
            ReconcileSettings { grace: Duration::from_millis(10), ..ReconcileSettings::default() };
        let report = Reconcile::new(rebuilt.clone(), &hook, &sweep, reconcile).unwrap();
        let report = report.run(None, |_| {}).await.unwrap();
        assert_eq!(report.level, None, "{kind:?}: {report:?}");
        // A window of the feed's own is counted from the same time, and put off alike.
        let windows = FeedSettings { window: Some(minutes(1)), ..feed };
        let other = self::wheel(server, 2).await;
        feed_of(&other, &hook, windows).run(false, |_| {}).await.unwrap();
        let due = async |n: &str| other.inspect(&id(n)).await.unwrap().entry.unwrap().due_at;
        let apart = due("1").await.since(due("4").await);
        assert!((239..=241).contains(&apart.as_secs()), "{kind:?}: {apart:?}");
    }
}

#[tokio::test]
async fn an_outbox_with_its_own_columns_and_numbers_for_times_is_a_feed_too() {
    for (kind, number) in [(Kind::Postgres, "bigint"), (Kind::Mariadb, "bigint"), (Kind::Sqlite, "INTEGER")] {
        let (wheel, shop) = (wheel(RedisServer::shared(), 2).await, Shop::open(kind, 1).await);
        shop.db
            .run(&format!(
                "CREATE TABLE outbox (n {number} PRIMARY KEY, order_id {number}, made_ms {number}, kind int)"
            ))
            .await;
        let now = Moment::host_now().as_millis();
        for n in 1..=30 {
            let at = now - 1000 + n;
            shop.db.run(&format!("INSERT INTO outbox VALUES ({n}, {}, {at}, {})", 100 + n, n % 2)).await;
        }
        let text = |text: &str| Some(text.to_owned());
        let outbox = FeedSettings {
            table: text("outbox"),
            key: text("order_id"),
            guard: text("kind = 1"),
            time: text("made_ms"),
            time_type: TimeType::UnixMillis,
            window: Some(Duration::from_secs(3600)),
            page: 7,
            ..FeedSettings::default()
        };
        let feed = feed_of(&wheel, &shop.settings(), outbox);
        feed.run(false, |_| {}).await.unwrap();
        let expected: BTreeSet<i64> = (1..=30).filter(|n| n % 2 == 1).map(|n| 100 + n).collect();
        assert_eq!(held(&wheel).await, expected, "{kind:?}");
        let due = wheel.inspect(&id("101")).await.unwrap().entry.unwrap().due_at;
        assert_eq!(due.as_millis(), now - 999 + 3_600_000, "{kind:?}");
        shop.db
            .run(&format!("INSERT INTO outbox VALUES (99, 199, {}, 1)", Moment::host_now().as_millis()))
            .await;
        assert_eq!(feed.run(false, |_| {}).await.unwrap().enqueued, 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_close_time_far_in_the_future_is_kept_to_the_millisecond() {
    for kind in Kind::ALL {
        let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(kind, 1).await);
        // Beyond 31 and 32 bits of seconds, and further than any order waits.
        for (n, at) in [(1, "2038-01-19 03:14:08"), (2, "2106-02-07 06:28:16"), (3, "2999-01-01 00:00:00")] {
            shop.db
                .run(&format!(
                    "INSERT INTO orders (id, user_id, created_at, close_at) VALUES ({n}, 1, '{at}', '{at}')"
                ))
                .await;
        }
        let mut hook = shop.settings();
        if kind == Kind::Mariadb {
            // UNIX_TIMESTAMP ends in 2038 there; counted in microseconds since 1970 it does not.
            hook.close_at = Some("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', close_at) / 1000".to_owned());
            hook.close_at_type = TimeType::UnixMillis;
        }
        let rebuild = Rebuild::new(wheel.clone(), &hook, SweepSettings::default()).unwrap();
        let report = rebuild.run(false, |_| {}).await.unwrap();
        assert_eq!((report.enqueued, report.refused), (2, 1), "{kind:?}: {report:?}");
        let due: Vec<u64> =
            listed(&wheel, State::Scheduled).await.iter().map(|(_, at)| at.as_millis()).collect();
        assert_eq!(due, [2_147_483_648_000, 4_294_967_296_000], "{kind:?}");
    }
}

#[tokio::test]
async fn a_rebuild_that_is_cut_off_goes_on_where_it_stopped() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 4).await, Shop::open(Kind::Postgres, 1).await);
    place(&shop, 1..=500, 0, 1_800_000).await;
    // So slow that it cannot be over, however late its first page is noticed.
    let slow = SweepSettings { page: 50, rows_per_second: 50, ..SweepSettings::default() };
    let rebuild = Rebuild::new(wheel.clone(), &shop.settings(), slow).unwrap();
    let noticed = tokio::sync::Notify::new();
    let tell = |report: &duewheel::sweep::Report| {
        if report.seen >= 50 {
            noticed.notify_one();
        }
    };
    tokio::select! {
        done = rebuild.run(false, tell) => panic!("it was over before it could be cut off: {done:?}"),
        () = noticed.notified() => {}
    }
    let before = held(&wheel).await.len() as u64;
    assert!((50..500).contains(&before), "{before}");
    let other =
        Rebuild::new(wheel.clone(), &shop.settings(), SweepSettings { page: 50, ..SweepSettings::default() })
            .unwrap();
    let first = std::sync::OnceLock::new();
    let report = eventually(PATIENCE, async || {
        match other
            .run(false, |report| {
                first.get_or_init(|| report.seen);
            })
            .await
        {
            Ok(report) => Some(report),
            // The runner that was dropped lets the job go in the background; and a busy database may let a session wait too long.
            Err(Error::Overtaken(_) | Error::HookAway(_)) => None,
            Err(e) => panic!("{e}"),
        }
    })
    .await;
    // What was enqueued in the moment of the cut is held at the next look.
    let both = report.enqueued + report.held;
    assert_eq!((report.seen, both), (500, 500), "both parts together: {report:?}");
    assert!(*first.get().unwrap() > 50, "it began anew: {first:?}");
    assert_eq!(held(&wheel).await, (1..=500).collect());
    assert!(matches!(other.look().await.unwrap(), Looked::Not(_)), "it runs again");
    // Whoever empties the wheel meanwhile asks for another one.
    wheel.ask_for_job("rebuild").await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(matches!(other.look().await.unwrap(), Looked::Ran(_)));
}

#[tokio::test]
async fn a_rebuild_without_a_close_time_in_the_table_is_refused() {
    let (wheel, shop) = (wheel(RedisServer::shared(), 1).await, Shop::open(Kind::Sqlite, 1).await);
    let hook = SqlSettings { close_at: None, overdue: Some("close_at < 1".to_owned()), ..shop.settings() };
    let refused = Rebuild::new(wheel, &hook, SweepSettings::default()).unwrap_err();
    assert!(refused.to_string().contains("close_at"), "{refused}");
}

/// A feed and a worker; nobody calls enqueue. Buyers place orders side by side, some pay.
async fn feed_alone(kind: Kind, buyers: i64, each: i64) {
    let server = RedisServer::start(RedisOptions::default());
    let shop = Shop::open(kind, 3).await;
    let net = "[wheel.WHEEL.sweep]\nevery = \"off\"\nrebuild = false\n[wheel.WHEEL.feed]\ntime = \"created_at\"\nevery = \"200ms\"\n\
               page = 50\n";
    let fleet = Fleet::new(&server, &Plan::new(server.url()).closing(&shop).net(net)).await;
    let workers = fleet.start_known(2).await;
    let placing = (0..buyers).map(|buyer| {
        let shop = &shop;
        async move {
            for n in 0..each {
                let id = buyer * each + n + 1;
                shop.orders([id], 2500, &[(id as usize % 3, 1)]).await;
                let (created, close) = (shop.kind.now_plus(0), shop.kind.now_plus(2500));
                let mut statement =
                    format!("UPDATE orders SET created_at = {created}, close_at = {close} WHERE id = {id} AND status = 'unpaid'");
                if id % 4 == 0 {
                    statement = format!("UPDATE orders SET status = 'paid' WHERE id = {id} AND status = 'unpaid'");
                }
                shop.db.run(&statement).await;
            }
        }
    });
    futures_util::future::join_all(placing).await;
    let orders = buyers * each;
    eventually(PATIENCE * 3, async || {
        (shop.count("FROM orders WHERE status = 'unpaid'").await == 0).then_some(())
    })
    .await;
    let late = match kind {
        Kind::Postgres => {
            shop.db.number("max(extract(epoch FROM closed_at - close_at)) * 1000", "FROM orders").await
        }
        Kind::Mariadb => {
            shop.db.number("MAX(TIMESTAMPDIFF(MICROSECOND, close_at, closed_at)) / 1000", "FROM orders").await
        }
        Kind::Sqlite => {
            shop.db
                .number(
                    "max(unixepoch(closed_at, 'subsec') - unixepoch(close_at, 'subsec')) * 1000",
                    "FROM orders",
                )
                .await
        }
    };
    println!("{kind:?}: {orders} orders fed and closed, the latest {late} ms late");
    assert!(late < 10_000, "{kind:?}: {late} ms late");
    shop.balance().await;
    for worker in workers {
        worker.drain().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_without_any_code_has_every_new_order_closed_on_time() {
    let (buyers, each) = if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() { (8, 500) } else { (4, 50) };
    for kind in Kind::ALL {
        feed_alone(kind, buyers, each).await;
    }
}
