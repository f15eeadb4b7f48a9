//! The shop: orders, their items and the stock they hold, in one SQLite file.

use std::path::Path;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Row as _, SqlitePool};

use crate::Outcome;

/// Different things to buy.
const ITEMS: u32 = 20;
/// Pieces of each on the shelf at the start: more than all orders together can want of one.
pub const SHELF: i64 = 1_000;

/// One order as it was placed.
#[derive(Debug, Clone)]
pub struct Order {
    pub id: i64,
    pub due_ms: u64,
}

/// Where the orders are, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    pub paid: u64,
    pub closed: u64,
    pub unpaid: u64,
}

/// The shop's own side: it places orders and takes payments, and knows nothing of wheels.
#[derive(Clone)]
pub struct Shop {
    pool: SqlitePool,
}

impl Shop {
    /// Creates the shop's database with full shelves.
    pub async fn open(file: &Path) -> Outcome<Self> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .foreign_keys(true)
            // The usual companion of WAL: no fsync at each commit, so that the buyers do not keep the disk from the workers.
            .synchronous(SqliteSynchronous::Normal)
            // Workers and shop write to one file, one after the other; a disk that stalls must not end the show.
            .busy_timeout(Duration::from_secs(60));
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
        sqlx::raw_sql(include_str!("../shop/sqlite.sql")).execute(&pool).await?;
        for n in 0..ITEMS {
            let insert = sqlx::query("INSERT INTO item (sku, available) VALUES (?, ?)");
            insert.bind(format!("sku-{n:02}")).bind(SHELF).execute(&pool).await?;
        }
        Ok(Self { pool })
    }

    /// Places an order for each window (milliseconds) in one transaction; its items are reserved with it.
    pub async fn place(&self, first_id: i64, windows_ms: &[u64]) -> Outcome<Vec<Order>> {
        let mut orders = Vec::with_capacity(windows_ms.len());
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        for (id, window_ms) in (first_id..).zip(windows_ms) {
            let insert = "INSERT INTO orders (id, user_id, created_at, close_at)
                VALUES (?1, ?2, strftime('%Y-%m-%d %H:%M:%f', 'now'), strftime('%Y-%m-%d %H:%M:%f', 'now', ?3))
                RETURNING CAST(round(unixepoch(close_at, 'subsec') * 1000) AS INTEGER)";
            let window = format!("+{}.{:03} seconds", window_ms / 1000, window_ms % 1000);
            let row = sqlx::query(insert)
                .bind(id)
                .bind(fastrand::i64(1..500))
                .bind(window)
                .fetch_one(&mut *tx)
                .await?;
            let first = fastrand::u32(..ITEMS);
            for sku in [first, (first + 7) % ITEMS].into_iter().take(fastrand::usize(1..=2)) {
                let (sku, quantity) = (format!("sku-{sku:02}"), fastrand::i64(1..=3));
                let insert = sqlx::query("INSERT INTO order_item (order_id, sku, quantity) VALUES (?, ?, ?)");
                insert.bind(id).bind(&sku).bind(quantity).execute(&mut *tx).await?;
                let reserve =
                    "UPDATE item SET available = available - ?1, reserved = reserved + ?1 WHERE sku = ?2";
                sqlx::query(reserve).bind(quantity).bind(&sku).execute(&mut *tx).await?;
            }
            orders.push(Order { id, due_ms: u64::try_from(row.get::<i64, _>(0))? });
        }
        tx.commit().await?;
        Ok(orders)
    }

    /// Takes a payment: true if the order was still unpaid. The guard is in the UPDATE itself, as it must be in every shop.
    pub async fn pay(&self, id: i64) -> Outcome<bool> {
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await?;
        let pay = "UPDATE orders SET status = 'paid', paid_at = strftime('%Y-%m-%d %H:%M:%f', 'now')
            WHERE id = ? AND status = 'unpaid'";
        let paid = sqlx::query(pay).bind(id).execute(&mut *tx).await?.rows_affected() == 1;
        if paid {
            let sell = "UPDATE item SET reserved = reserved - i.quantity, sold = sold + i.quantity
                FROM order_item i WHERE i.sku = item.sku AND i.order_id = ?";
            sqlx::query(sell).bind(id).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(paid)
    }

    /// Counts the orders by status.
    pub async fn tally(&self) -> Outcome<Tally> {
        let sql = "SELECT count(*) FILTER (WHERE status = 'paid'), count(*) FILTER (WHERE status = 'closed'),
            count(*) FILTER (WHERE status = 'unpaid') FROM orders";
        let row = sqlx::query(sql).fetch_one(&self.pool).await?;
        let count = |n| u64::try_from(row.get::<i64, _>(n)).unwrap_or(0);
        Ok(Tally { paid: count(0), closed: count(1), unpaid: count(2) })
    }

    /// One number that a query answers.
    pub async fn number(&self, sql: &'static str) -> Outcome<i64> {
        Ok(sqlx::query_scalar(sql).fetch_one(&self.pool).await?)
    }

    /// A list of numbers that a query answers.
    pub async fn numbers(&self, sql: &'static str) -> Outcome<Vec<i64>> {
        Ok(sqlx::query_scalar(sql).fetch_all(&self.pool).await?)
    }
}
