//! What closing costs the database, beside the scan each half minute that shops usually run: rows read and statements, by the server's own
//! counters, on the same traffic.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use duewheel::clock::Moment;
use futures_util::future::join_all;

use crate::rig::eventually;
use crate::rig::redis::{Aof, RedisOptions, RedisServer};
use crate::rig::shop::{Db, Kind, Shop};
use crate::rig::wheel::id;
use crate::rig::worker::{Fleet, Plan, Process};

/// Items of the shop: enough that no database walks through all of them for one.
const SKUS: usize = 5000;

/// The item of an order.
fn item(order: i64) -> i64 {
    (order * 7919) % SKUS as i64
}

/// How large and how long.
struct Scale {
    /// Orders of the past, nearly all paid.
    history: i64,
    /// Those of them that are open, and due long after the end.
    open: i64,
    /// New orders a second; one of four is never paid.
    rate: i64,
    /// What a buyer has to pay, in seconds.
    window: u64,
    /// How long orders come in, in seconds.
    traffic: u64,
    /// Between two scans.
    scan: Duration,
    /// Between two sweeps.
    sweep: &'static str,
    /// How long a close may wait for company.
    gather: &'static str,
}

/// A million orders and a million a day for ten minutes, or the same in small; between the two with so many seconds of traffic as
/// `DUEWHEEL_TEST_TRAFFIC` says.
fn scale() -> Scale {
    let seconds = std::env::var("DUEWHEEL_TEST_TRAFFIC").ok().and_then(|text| text.parse().ok());
    if let Some(traffic) = seconds {
        let scan = Duration::from_secs(30);
        return Scale {
            history: 100_000,
            open: 2000,
            rate: 12,
            window: 60,
            traffic,
            scan,
            sweep: "5m",
            gather: "2s",
        };
    }
    if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() {
        let scan = Duration::from_secs(30);
        let (history, open, sweep, gather) = (1_000_000, 20_000, "5m", "2s");
        Scale { history, open, rate: 12, window: 60, traffic: 600, scan, sweep, gather }
    } else {
        let scan = Duration::from_millis(500);
        Scale { history: 20_000, open: 400, rate: 20, window: 4, traffic: 4, scan, sweep: "5s", gather: "1s" }
    }
}

/// Who closes what is overdue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closer {
    /// Nobody: what the shop's own statements read is taken off the others.
    Nobody,
    Duewheel,
    /// The same, where a close may wait for company.
    Gathering,
    /// A scan without an index that serves it; each order in a transaction of its own.
    Scan,
    /// The same with an index on what is overdue.
    IndexedScan,
    /// With the index, and all that is found in one transaction.
    WholeScan,
}

impl Closer {
    const ALL: [Self; 6] =
        [Self::Nobody, Self::Duewheel, Self::Gathering, Self::Scan, Self::IndexedScan, Self::WholeScan];

    fn text(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Duewheel => "duewheel",
            Self::Gathering => "duewheel, gathering",
            Self::Scan => "scan, no index",
            Self::IndexedScan => "scan, index",
            Self::WholeScan => "scan, index, one transaction",
        }
    }
}

/// What a server counted.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    /// Rows read, by whoever.
    rows: i64,
    /// Statements of the closer that read or write rows.
    statements: i64,
    /// Its BEGIN, COMMIT, SET and the like; MariaDB counts them with the others.
    control: i64,
}

/// A shop with its own database, and one closer with a user of its own.
struct Side {
    closer: Closer,
    shop: Shop,
    /// The database by the closer's user.
    url: String,
    user: String,
}

impl Side {
    async fn open(kind: Kind, closer: Closer, scale: &Scale) -> Self {
        let shop = Shop::open(kind, SKUS).await;
        fill(&shop, scale).await;
        if matches!(closer, Closer::Nobody | Closer::Scan) {
            let on = if kind == Kind::Mariadb { " ON orders" } else { "" };
            shop.db.run(&format!("DROP INDEX orders_unpaid{on}")).await;
        }
        let user = shop.url.rsplit_once('/').expect("a database").1.to_owned();
        match kind {
            Kind::Postgres => shop.db.run(&format!("CREATE ROLE {user} LOGIN SUPERUSER PASSWORD 'x'")).await,
            _ => {
                let made = format!("CREATE USER {user} IDENTIFIED BY 'x'; GRANT ALL ON *.* TO {user}");
                shop.db.run(&made).await
            }
        };
        let (scheme, rest) = shop.url.split_once("://").expect("a url");
        let url = format!("{scheme}://{user}:x@{}", rest.split_once('@').expect("a user").1);
        Self { closer, shop, url, user }
    }

    /// What the server has counted so far, asked by another user.
    async fn counted(&self) -> Counted {
        let (db, name) = (Db::open(&self.shop.url).await, &self.user);
        let counted = match self.shop.kind {
            Kind::Postgres => {
                let read = "coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)";
                let calls = async |which: &str| {
                    if !counts_statements(&db).await {
                        return 0;
                    }
                    let of = format!("s JOIN pg_roles r ON r.oid = s.userid WHERE rolname = '{name}'");
                    let is = "s.query ~* '^(begin|commit|rollback|set|start|deallocate)'";
                    db.number(
                        "coalesce(sum(calls), 0)",
                        &format!("FROM pg_stat_statements {of} AND {which} {is}"),
                    )
                    .await
                };
                Counted {
                    rows: db.number(read, "FROM pg_stat_user_tables").await,
                    statements: calls("NOT").await,
                    control: calls("").await,
                }
            }
            _ => {
                let commands = "COALESCE(SUM(SELECT_COMMANDS + UPDATE_COMMANDS + OTHER_COMMANDS), 0)";
                let of = format!("FROM information_schema.USER_STATISTICS WHERE USER = '{name}'");
                let rows = format!("FROM information_schema.TABLE_STATISTICS WHERE TABLE_SCHEMA = '{name}'");
                Counted {
                    rows: db.number("COALESCE(SUM(ROWS_READ), 0)", &rows).await,
                    statements: db.number(commands, &of).await,
                    control: 0,
                }
            }
        };
        close(db).await;
        counted
    }

    /// Closes what is overdue each time, until nothing unpaid is left after the end.
    async fn scan(&self, every: Duration, end: Instant) {
        let db = Db::open(&self.url).await;
        let (status, text) =
            ("status = 'unpaid'", if self.shop.kind == Kind::Postgres { "text" } else { "CHAR" });
        let find = format!(
            "SELECT CAST(id AS {text}), CAST(user_id AS {text}), status, CAST(created_at AS {text}), CAST(close_at AS {text}) \
             FROM orders WHERE {status} AND close_at <= {}",
            self.shop.kind.now()
        );
        let mut tick = tokio::time::interval(every);
        loop {
            tick.tick().await;
            let last = Instant::now() > end;
            let found = db.rows(&find).await;
            let ids: Vec<String> =
                found.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect();
            if self.closer == Closer::WholeScan {
                if !ids.is_empty() {
                    db.run(&self.closing(&ids.join(","))).await;
                }
            } else {
                for one in &ids {
                    db.run(&self.closing(one)).await;
                }
            }
            if last {
                break;
            }
        }
        close(db).await;
    }

    /// The transaction that closes these, as a shop writes it: status, items, stock, log.
    fn closing(&self, ids: &str) -> String {
        let now = self.shop.kind.now();
        let items = format!(
            "SELECT sku, SUM(quantity) AS quantity FROM order_item WHERE order_id IN ({ids}) GROUP BY sku"
        );
        let back = "available = available + back.quantity, reserved = reserved - back.quantity";
        let stock = match self.shop.kind {
            Kind::Mariadb => {
                format!("UPDATE ({items}) AS back STRAIGHT_JOIN item ON item.sku = back.sku SET {back}")
            }
            _ => format!("UPDATE item SET {back} FROM ({items}) AS back WHERE item.sku = back.sku"),
        };
        format!(
            "BEGIN; UPDATE orders SET status = 'closed', closed_at = {now} WHERE id IN ({ids}) AND status = 'unpaid'; {stock}; \
             INSERT INTO order_log SELECT id, 'AUTO_CLOSE', 1, 1, 1, 'scan', close_at, {now} FROM orders WHERE id IN ({ids}); COMMIT"
        )
    }
}

/// Whether the server counts statements: PostgreSQL does where it was started with `pg_stat_statements`.
async fn counts_statements(db: &Db) -> bool {
    let loaded =
        "FROM pg_settings WHERE name = 'shared_preload_libraries' AND setting LIKE '%pg_stat_statements%'";
    if db.number("count(*)", loaded).await == 0 {
        return false;
    }
    db.run("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").await;
    true
}

/// PostgreSQL's sessions tell what they have counted at their end.
async fn close(db: Db) {
    match db {
        Db::Postgres(pool) => pool.close().await,
        Db::Mariadb(pool) => pool.close().await,
        Db::Sqlite(pool) => pool.close().await,
    }
}

/// The orders of the past.
async fn fill(shop: &Shop, scale: &Scale) {
    let db = Db::open(&shop.url).await;
    let Scale { history, open, .. } = scale;
    let (numbers, past, ahead) = match shop.kind {
        Kind::Postgres => (
            format!("generate_series(1, {history}) AS s(n)"),
            "now() - n * interval '5 seconds'",
            "now() + interval '1 day' + n * interval '1 second'",
        ),
        _ => (
            format!("(SELECT seq AS n FROM seq_1_to_{history}) AS s"),
            "NOW() - INTERVAL (n * 5) SECOND",
            "NOW() + INTERVAL 1 DAY + INTERVAL n SECOND",
        ),
    };
    db.run(&format!(
        "INSERT INTO orders (id, user_id, status, created_at, close_at) SELECT n, n % 100, \
         CASE WHEN n <= {open} THEN 'unpaid' ELSE 'paid' END, {past}, CASE WHEN n <= {open} THEN {ahead} ELSE {past} END FROM {numbers}"
    ))
    .await;
    let analyze = if shop.kind == Kind::Postgres {
        "VACUUM ANALYZE orders, item"
    } else {
        "ANALYZE TABLE orders, item"
    };
    db.run(analyze).await;
    close(db).await;
}

/// One second of the shop: new orders, and payments of earlier ones.
async fn second(db: &Db, kind: Kind, new: &[i64], close_at: Moment, paid: &[i64]) {
    let seconds = close_at.as_millis() / 1000;
    let at = if kind == Kind::Postgres {
        format!("to_timestamp({seconds})")
    } else {
        format!("FROM_UNIXTIME({seconds})")
    };
    let rows = |row: &dyn Fn(&i64) -> String| new.iter().map(row).collect::<Vec<_>>().join(",");
    if !new.is_empty() {
        db.run(&format!(
            "INSERT INTO orders (id, user_id, created_at, close_at) VALUES {}",
            rows(&|n| format!("({n}, {}, {}, {at})", n % 100, kind.now()))
        ))
        .await;
        db.run(&format!(
            "INSERT INTO order_item (order_id, sku, quantity) VALUES {}",
            rows(&|n| format!("({n}, 'sku-{:04}', 1)", item(*n)))
        ))
        .await;
        let skus = rows(&|n| format!("'sku-{:04}'", item(*n)));
        db.run(&format!(
            "UPDATE item SET available = available - 1, reserved = reserved + 1 WHERE sku IN ({skus})"
        ))
        .await;
    }
    if !paid.is_empty() {
        let ids = paid.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
        let now = kind.now();
        db.run(&format!(
            "UPDATE orders SET status = 'paid', paid_at = {now} WHERE id IN ({ids}) AND status = 'unpaid'"
        ))
        .await;
    }
}

/// The same seconds for every side; only two of them have a wheel.
async fn traffic(sides: &[Side], fleets: &[Fleet], scale: &Scale, first: i64) -> Instant {
    let mut dbs = Vec::new();
    for side in sides {
        dbs.push(Db::open(&side.shop.url).await);
    }
    let kind = sides[0].shop.kind;
    let (mut next, mut payments) = (first, BTreeMap::<u64, Vec<i64>>::new());
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    let mut due = Instant::now();
    for now in 0..scale.traffic + scale.window {
        tick.tick().await;
        let new: Vec<i64> =
            if now < scale.traffic { (next..next + scale.rate).collect() } else { Vec::new() };
        next += new.len() as i64;
        for &one in new.iter().filter(|n| *n % 4 != 0) {
            // Not in the last moment: who wins there is another test's.
            payments.entry(now + 1 + one.unsigned_abs() % (scale.window / 2).max(1)).or_default().push(one);
        }
        let paid = payments.remove(&now).unwrap_or_default();
        let close_at =
            Moment::from_millis((Moment::host_now().as_millis() / 1000 + scale.window) * 1000).unwrap();
        join_all(dbs.iter().map(|db| second(db, kind, &new, close_at, &paid))).await;
        if !new.is_empty() {
            for fleet in fleets {
                fleet.enqueue(new.iter().copied(), |_| close_at).await;
            }
            due = Instant::now() + Duration::from_secs(scale.window);
        }
        let paid: Vec<_> = paid.iter().map(|n| id(&n.to_string())).collect();
        // Refused where a busy machine was so late that the order is closed.
        for fleet in fleets {
            fleet.wheel.cancel(&paid).await.into_iter().for_each(|answer| drop(answer.unwrap()));
        }
    }
    for db in dbs {
        close(db).await;
    }
    due
}

async fn measure(kind: Kind) {
    let scale = scale();
    let server = RedisServer::start(RedisOptions::aof(Aof::EverySec));
    let mut sides = Vec::new();
    for closer in Closer::ALL {
        sides.push(Side::open(kind, closer, &scale).await);
    }
    if kind == Kind::Mariadb {
        sides[0].shop.db.run("SET GLOBAL userstat = 1").await;
    }
    let net = format!("[wheel.WHEEL.sweep]\nevery = {:?}\nrebuild = false\n", scale.sweep);
    let mut fleets = Vec::new();
    for side in &mut sides[1..3] {
        // The workers come by a user of their own.
        let by_test = std::mem::replace(&mut side.shop.url, side.url.clone());
        let plan = Plan::new(server.url()).closing(&side.shop).net(&net);
        side.shop.url = by_test;
        let gather = if side.closer == Closer::Gathering { scale.gather } else { "0s" };
        let plan = plan.worker("gather", &format!("{gather:?}")).worker("lease", "\"10s\"");
        fleets.push(Fleet::new(&server, &plan).await);
    }
    let mut before = Vec::new();
    for side in &sides {
        before.push(side.counted().await);
    }
    let began = Instant::now();
    let workers: Vec<Process> = fleets.iter().map(Fleet::start).collect();
    let end = began + Duration::from_secs(scale.traffic + scale.window + 1);
    let scanners = join_all(
        sides
            .iter()
            .filter(|s| !matches!(s.closer, Closer::Nobody | Closer::Duewheel | Closer::Gathering))
            .map(|s| s.scan(scale.scan, end)),
    );
    let (_, _) = tokio::join!(scanners, traffic(&sides, &fleets, &scale, scale.history + 1));
    let overdue = format!("FROM orders WHERE status = 'unpaid' AND close_at <= {}", kind.now());
    for side in &sides[1..3] {
        eventually(Duration::from_secs(60), async || (side.shop.count(&overdue).await == 0).then_some(()))
            .await;
    }
    for worker in workers {
        worker.drain().await;
    }
    let took = began.elapsed();
    let mut counted = Vec::new();
    for (side, before) in sides.iter().zip(&before) {
        let now = side.counted().await;
        counted.push(Counted {
            rows: now.rows - before.rows,
            statements: now.statements - before.statements,
            control: now.control - before.control,
        });
    }
    println!(
        "{kind:?}, {} rows, {took:?}: closer | rows read | statements | and BEGIN, SET, … | closed | late, mean | most",
        scale.history
    );
    let late = match kind {
        Kind::Postgres => "extract(epoch FROM closed_at - close_at) * 1000",
        _ => "TIMESTAMPDIFF(MICROSECOND, close_at, closed_at) / 1000",
    };
    let mut closes = Vec::new();
    for (side, counted) in sides.iter().zip(&mut counted).skip(1) {
        let closed = side.shop.count("FROM orders WHERE status = 'closed'").await;
        let mean = side.shop.db.number(&format!("avg({late})"), "FROM orders WHERE status = 'closed'").await;
        let most = side.shop.db.number(&format!("max({late})"), "FROM orders WHERE status = 'closed'").await;
        let Counted { rows, statements, control } = *counted;
        println!(
            "{} | {rows} | {statements} | {control} | {closed} | {mean} ms | {most} ms",
            side.closer.text()
        );
        closes.push(closed);
    }
    println!("nobody | {} | the shop's own, in each of the rows above", counted[0].rows);
    let own = counted[0].rows;
    let percent =
        |n: usize, of: usize| (counted[n].rows - own) as f64 * 100.0 / (counted[of].rows - own) as f64;
    let sent = |n: usize, of: usize| {
        let sent = |at: usize| (counted[at].statements + counted[at].control) as f64;
        sent(n) * 100.0 / sent(of)
    };
    for n in [1, 2] {
        println!(
            "{}: {:.2} % of the rows of the scan without an index, {:.1} % with one, {:.1} % of the statements",
            sides[n].closer.text(),
            percent(n, 3),
            percent(n, 4),
            sent(n, 4)
        );
    }
    let unpaid = scale.rate * scale.traffic as i64 / 4;
    assert!(closes.iter().all(|closed| *closed >= unpaid), "{closes:?}, {unpaid} were never paid");
    for side in sides.iter().skip(1) {
        assert_eq!(side.shop.count(&overdue).await, 0, "{:?} left some open", side.closer);
    }
    assert!(percent(1, 3) <= 40.0 && percent(2, 3) <= 40.0);
    // The short form has three orders to close in a second for a few seconds: too few to tell.
    if scale.traffic > 60 {
        assert!(sent(2, 4) <= 40.0 || counted[4].statements == 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_reads_far_less_of_the_database_than_a_scan() {
    for kind in Kind::SERVERS {
        measure(kind).await;
    }
}
