//! The project's own shop (examples/shop) on each of the three databases: its schema, its close, its books.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duewheel::clock::Moment;
use duewheel::deadline::{Cause, Generation, Id, Payload, Reminders, Stage};
use duewheel::hook::sql::{Dialect, SqlHook, SqlSettings, audit_ddl};
use duewheel::hook::{Hook, Verdict};
use duewheel::lease::{Fence, Lease, RedisClock};
use duewheel::shard::WheelName;
use sqlx::{AssertSqlSafe, Row};

/// The databases that the shop runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    Mariadb,
    Sqlite,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Postgres, Self::Mariadb, Self::Sqlite];
    /// Those with a server and row locks.
    pub const SERVERS: [Self; 2] = [Self::Postgres, Self::Mariadb];

    fn schema(self) -> &'static str {
        match self {
            Self::Postgres => include_str!("../../examples/shop/postgres.sql"),
            Self::Mariadb => include_str!("../../examples/shop/mariadb.sql"),
            Self::Sqlite => include_str!("../../examples/shop/sqlite.sql"),
        }
    }

    fn dialect(self) -> Dialect {
        match self {
            Self::Postgres => Dialect::Postgres,
            Self::Mariadb => Dialect::Mysql,
            Self::Sqlite => Dialect::Sqlite,
        }
    }

    /// The database's clock, `millis` from now, as its own expression.
    pub fn now_plus(self, millis: i64) -> String {
        match self {
            Self::Postgres => format!("clock_timestamp() + interval '{millis} milliseconds'"),
            Self::Mariadb => format!("SYSDATE(3) + INTERVAL {} MICROSECOND", millis * 1000),
            Self::Sqlite => {
                format!("strftime('%Y-%m-%d %H:%M:%f', 'now', '{:+.3} seconds')", millis as f64 / 1000.0)
            }
        }
    }

    /// The time a transaction calls now.
    pub fn now(self) -> &'static str {
        match self {
            Self::Postgres => "now()",
            Self::Mariadb => "NOW(6)",
            Self::Sqlite => "strftime('%Y-%m-%d %H:%M:%f', 'now')",
        }
    }
}

/// A connection of the test's own, beside the hook's: the payer, the shop's other code, the auditor.
#[derive(Clone)]
pub enum Db {
    Postgres(sqlx::PgPool),
    Mariadb(sqlx::MySqlPool),
    Sqlite(sqlx::SqlitePool),
}

impl Db {
    pub async fn open(url: &str) -> Self {
        let many = 12;
        if url.starts_with("postgres") {
            let pool = sqlx::postgres::PgPoolOptions::new().max_connections(many).connect(url).await;
            Self::Postgres(pool.expect("PostgreSQL answers"))
        } else if url.starts_with("mysql") {
            let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(many).connect(url).await;
            Self::Mariadb(pool.expect("MariaDB answers"))
        } else {
            let options: sqlx::sqlite::SqliteConnectOptions = url.parse().expect("a sqlite url");
            let options = options
                .create_if_missing(true)
                .journal_mode(sqlx::sqlite::SqliteJournalMode::Wal)
                .busy_timeout(Duration::from_secs(10));
            let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(4).connect_with(options).await;
            Self::Sqlite(pool.expect("the file opens"))
        }
    }

    /// Runs one or more statements; answers the rows affected by the last, or the database's error.
    pub async fn try_run(&self, sql: &str) -> Result<u64, sqlx::Error> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        Ok(match self {
            Self::Postgres(pool) => sql.execute(pool).await?.rows_affected(),
            Self::Mariadb(pool) => sql.execute(pool).await?.rows_affected(),
            Self::Sqlite(pool) => sql.execute(pool).await?.rows_affected(),
        })
    }

    pub async fn run(&self, sql: &str) -> u64 {
        self.try_run(sql).await.unwrap_or_else(|e| panic!("{e}: {sql}"))
    }

    /// The rows of a query whose columns are all text.
    pub async fn rows(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        macro_rules! texts {
            ($pool:expr) => {{
                let query = sqlx::query(AssertSqlSafe(sql.to_owned()));
                let rows = query.fetch_all($pool).await.unwrap_or_else(|e| panic!("{e}: {sql}"));
                rows.iter().map(|r| (0..r.len()).map(|n| r.get::<Option<String>, _>(n)).collect()).collect()
            }};
        }
        match self {
            Self::Postgres(pool) => texts!(pool),
            Self::Mariadb(pool) => texts!(pool),
            Self::Sqlite(pool) => texts!(pool),
        }
    }

    /// The number that `expression` is, over `rest` (`FROM …`).
    pub async fn number(&self, expression: &str, rest: &str) -> i64 {
        let text = match self {
            Self::Mariadb(_) => format!("SELECT CAST({expression} AS CHAR) {rest}"),
            _ => format!("SELECT CAST({expression} AS text) {rest}"),
        };
        let rows = self.rows(&text).await;
        let cell = rows[0][0].clone().unwrap_or_else(|| "0".to_owned());
        cell.parse::<f64>().unwrap_or_else(|_| panic!("{cell} is no number: {text}")) as i64
    }
}

/// A shop with a database of its own.
pub struct Shop {
    pub kind: Kind,
    pub url: String,
    pub db: Db,
    _folder: Option<tempfile::TempDir>,
}

/// All pieces of one item that there ever are.
pub const STOCK: i64 = 1_000_000;

impl Shop {
    /// A fresh shop without orders, with `skus` items (`sku-0`, …).
    pub async fn open(kind: Kind, skus: usize) -> Self {
        Self::open_altered(kind, skus, |schema| schema).await
    }

    /// The same, with a change to its schema.
    pub async fn open_altered(kind: Kind, skus: usize, alter: impl Fn(String) -> String) -> Self {
        let (url, folder) = match kind {
            Kind::Postgres => (super::postgres::database().await, None),
            Kind::Mariadb => (super::mariadb::database().await, None),
            Kind::Sqlite => {
                // In memory where the system has such a place: how fast a disk is does not matter to any promise.
                let memory = std::path::Path::new("/dev/shm");
                let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
                let folder = folder.expect("a folder");
                (format!("sqlite://{}/shop.db", folder.path().display()), Some(folder))
            }
        };
        Self::fill(kind, url, folder, skus, alter).await
    }

    /// The same on that server instead of the shared one.
    pub async fn open_on(kind: Kind, server: &str, skus: usize) -> Self {
        let url = match kind {
            Kind::Postgres => super::postgres::database_on(server).await,
            Kind::Mariadb => super::mariadb::database_on(server).await,
            Kind::Sqlite => panic!("SQLite has no server"),
        };
        Self::fill(kind, url, None, skus, |schema| schema).await
    }

    /// The same as [`Self::open`], with SQLite's file on a disk: for measurements.
    pub async fn open_on_disk(kind: Kind, skus: usize) -> Self {
        if kind != Kind::Sqlite {
            return Self::open(kind, skus).await;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite://{}/shop.db", folder.path().display());
        Self::fill(kind, url, Some(folder), skus, |schema| schema).await
    }

    async fn fill(
        kind: Kind,
        url: String,
        folder: Option<tempfile::TempDir>,
        skus: usize,
        alter: impl Fn(String) -> String,
    ) -> Self {
        let db = Db::open(&url).await;
        db.run(&alter(kind.schema().to_owned())).await;
        db.run(&audit_ddl(kind.dialect(), "closes").expect("a good name")).await;
        let items: Vec<String> = (0..skus).map(|n| format!("('sku-{n:04}', {STOCK})")).collect();
        if !items.is_empty() {
            db.run(&format!("INSERT INTO item (sku, available) VALUES {}", items.join(","))).await;
        }
        Self { kind, url, db, _folder: folder }
    }

    /// The declared close of this shop.
    pub fn settings(&self) -> SqlSettings {
        let release = match self.kind {
            Kind::Postgres | Kind::Sqlite => {
                "UPDATE item SET available = available + back.quantity, reserved = reserved - back.quantity \
                 FROM (SELECT sku, sum(quantity) AS quantity FROM order_item WHERE order_id IN (:ids) GROUP BY sku) \
                 AS back WHERE item.sku = back.sku"
            }
            Kind::Mariadb => {
                // Straight, sorted and by this index: left to itself, MariaDB may walk through the whole of a small table, and wait
                // for rows that it does not need.
                "UPDATE (SELECT sku, SUM(quantity) AS quantity FROM order_item FORCE INDEX (PRIMARY) \
                 WHERE order_id IN (:ids) GROUP BY sku ORDER BY sku LIMIT 1000000) AS back \
                 STRAIGHT_JOIN item FORCE INDEX (PRIMARY) ON item.sku = back.sku \
                 SET available = available + back.quantity, reserved = reserved - back.quantity"
            }
        };
        let lock = "SELECT sku FROM item WHERE sku IN (SELECT sku FROM order_item WHERE order_id IN (:ids)) \
                    ORDER BY sku FOR UPDATE";
        let mut then = vec![release.to_owned()];
        if self.kind == Kind::Postgres {
            then.insert(0, lock.to_owned());
        }
        SqlSettings {
            urls: vec![self.url.clone().into()],
            table: "orders".to_owned(),
            guard: "status = 'unpaid'".to_owned(),
            close_at: Some("close_at".to_owned()),
            set: "status = 'closed', closed_at = :now".to_owned(),
            state: Some("status".to_owned()),
            time_zone: (self.kind == Kind::Mariadb).then(|| "+00:00".to_owned()),
            then,
            audit: Some("closes".to_owned()),
            ..SqlSettings::default()
        }
    }

    pub fn hook(&self) -> SqlHook {
        hook(self.settings())
    }

    /// Orders `ids`, closing `millis` from now (negative: overdue), each holding `items` of (sku number, quantity).
    pub async fn orders(&self, ids: impl IntoIterator<Item = i64>, millis: i64, items: &[(usize, i64)]) {
        let at = self.kind.now_plus(millis);
        let ids: Vec<i64> = ids.into_iter().collect();
        for chunk in ids.chunks(1000) {
            // The stock first: a row of order_item would share a lock on it, which two buyers could not both make their own.
            let mut order: Vec<String> = items
                .iter()
                .map(|(sku, n)| {
                    let pieces = n * chunk.len() as i64;
                    format!(
                        "UPDATE item SET available = available - {pieces}, reserved = reserved + {pieces} \
                         WHERE sku = 'sku-{sku:04}'"
                    )
                })
                .collect();
            let rows: Vec<String> =
                chunk.iter().map(|id| format!("({id}, {}, {at}, {at})", id % 100)).collect();
            let rows = rows.join(",");
            order.push(format!("INSERT INTO orders (id, user_id, created_at, close_at) VALUES {rows}"));
            let rows: Vec<String> = chunk
                .iter()
                .flat_map(|id| items.iter().map(move |(sku, n)| format!("({id}, 'sku-{sku:04}', {n})")))
                .collect();
            if !rows.is_empty() {
                let rows = rows.join(",");
                order.push(format!("INSERT INTO order_item (order_id, sku, quantity) VALUES {rows}"));
            }
            // One transaction, as a shop does it: a feed that reads meanwhile never sees an order whose items are still to come.
            let begin = if self.kind == Kind::Sqlite { "BEGIN IMMEDIATE" } else { "BEGIN" };
            self.db.run(&format!("{begin}; {}; COMMIT", order.join("; "))).await;
        }
    }

    pub async fn status(&self, id: i64) -> String {
        let rows = self.db.rows(&format!("SELECT status FROM orders WHERE id = {id}")).await;
        rows[0][0].clone().unwrap_or_else(|| "NULL".to_owned())
    }

    pub async fn count(&self, rest: &str) -> i64 {
        self.db.number("count(*)", rest).await
    }

    /// The invariants: an order is closed exactly if one audit row says so, a paid one has none, and every piece of stock is either on
    /// the shelf or held by an order that is not closed.
    pub async fn balance(&self) {
        let id = match self.kind {
            Kind::Mariadb => "CAST(orders.id AS CHAR)",
            _ => "CAST(orders.id AS text)",
        };
        let unlike = "status = 'closed' AND n <> 1 OR status <> 'closed' AND n <> 0";
        let wrong = self
            .count(&format!(
                "FROM (SELECT status, (SELECT count(*) FROM closes WHERE closes.order_id = {id}) AS n FROM orders) AS x \
                 WHERE {unlike}"
            ))
            .await;
        assert_eq!(wrong, 0, "{:?}: orders whose audit rows do not match their status", self.kind);
        let wrong = self
            .count(&format!(
                "FROM item WHERE available + reserved <> {STOCK} OR reserved <> (SELECT coalesce(sum(quantity), 0) \
                 FROM order_item JOIN orders ON orders.id = order_item.order_id \
                 WHERE order_item.sku = item.sku AND status <> 'closed')"
            ))
            .await;
        assert_eq!(wrong, 0, "{:?}: items whose stock does not match the open orders", self.kind);
    }
}

/// A hook from settings that are known to be good.
pub fn hook(settings: SqlSettings) -> SqlHook {
    SqlHook::new(settings).unwrap_or_else(|e| panic!("{e}"))
}

/// A lease as a worker would hold it, due just now.
pub fn lease(id: impl ToString) -> Lease {
    static NEXT: AtomicU64 = AtomicU64::new(1_760_000_000_000_000);
    let number = NEXT.fetch_add(2, Ordering::Relaxed);
    Lease {
        id: Id::new(&id.to_string()).expect("a good id"),
        due_at: Moment::host_now(),
        generation: Generation(number),
        stage: Stage::CLOSE,
        cause: Cause::Due,
        attempt: 1,
        fence: Fence(number),
        payload: Payload::default(),
        traceparent: None,
        was_held: false,
        was_put_off: false,
        note: None,
        reminders: Reminders::default(),
        trusted_until: Instant::now() + Duration::from_secs(25),
        redis_clock: RedisClock { us: Moment::host_now().as_millis() * 1000, at: Instant::now() },
    }
}

pub fn leases(ids: impl IntoIterator<Item = i64>) -> Vec<Lease> {
    ids.into_iter().map(lease).collect()
}

pub async fn judge(hook: &SqlHook, leases: &[Lease]) -> Vec<Verdict> {
    let wheel = WheelName::new("orders").expect("a good name");
    let verdicts = hook.judge(&wheel, leases).await;
    assert_eq!(verdicts.len(), leases.len(), "one verdict for each lease");
    verdicts
}

pub async fn judge_one(hook: &SqlHook, lease: &Lease) -> Verdict {
    judge(hook, std::slice::from_ref(lease)).await.remove(0)
}

/// The worker's part for orders that were not ended: asks again until all are, as long as they may be asked.
pub async fn drain(hook: &SqlHook, leases: Vec<Lease>, patience: Duration) -> Vec<(Lease, Verdict)> {
    let began = Instant::now();
    let (mut open, mut ended) = (leases, Vec::new());
    while !open.is_empty() {
        assert!(began.elapsed() < patience, "{} orders are still open after {patience:?}", open.len());
        for lease in &mut open {
            lease.trusted_until = Instant::now() + Duration::from_secs(25);
        }
        let verdicts = judge(hook, &open).await;
        let mut again = Vec::new();
        for (lease, verdict) in open.into_iter().zip(verdicts) {
            match verdict {
                Verdict::Unavailable { .. } | Verdict::Held { .. } | Verdict::NotDue { .. } => {
                    again.push(lease)
                }
                verdict => ended.push((lease, verdict)),
            }
        }
        open = again;
        if !open.is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    ended
}

/// A name no other database of this server has, also across runs on the same server.
pub fn database_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let run = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_nanos();
    format!("shop_{}_{run:x}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The URL with another database's name at its end.
pub fn with_database(url: &str, name: &str) -> String {
    let (server, _) = url.rsplit_once('/').expect("a url with a database");
    format!("{server}/{name}")
}
