//! How many orders the SQL hook closes a second: set form, batches of 500, each order with two items whose stock goes back and one
//! audit row, on the project's own shop.
//!
//! `scripts/services start DIR && . DIR/env && cargo bench --bench close`. Each figure is the median of five fresh databases, with the
//! range. PostgreSQL and MariaDB commit durably (synchronous_commit on, innodb_flush_log_at_trx_commit 1), SQLite in WAL mode with
//! synchronous FULL: its file lies in TMPDIR, and a figure from a folder in memory says nothing about a disk.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement stops at the first surprise and prints; the rig offers more than it needs"
)]

#[path = "../tests/rig/mariadb.rs"]
mod mariadb;
#[path = "../tests/rig/postgres.rs"]
mod postgres;
#[path = "../tests/rig/shop.rs"]
mod shop;

use std::sync::Arc;
use std::time::Instant;

use duewheel::hook::Verdict;
use duewheel::hook::sql::SqlSettings;
use shop::{Kind, Shop, hook, judge, leases};

const BATCH: usize = 500;
const RUNS: usize = 5;
/// Different goods; with few of them the batches wait for each other's stock rows.
const SKUS: usize = 1000;

#[tokio::main]
async fn main() {
    let number =
        |name: &str, default: i64| std::env::var(name).map_or(default, |n| n.parse().expect("a number"));
    let orders = number("ORDERS", 30_000);
    // Batches at once: enough that one commits while another computes.
    let sessions = number("SESSIONS", 3);
    let batch = usize::try_from(number("BATCH", BATCH as i64)).expect("a size");
    // One database alone, if one is asked for (`ONLY=mariadb`).
    let only = std::env::var("ONLY").ok();
    for kind in Kind::ALL {
        let name = format!("{kind:?}").to_lowercase();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let mut rates = Vec::new();
        for _ in 0..RUNS {
            rates.push(run(kind, orders, sessions, batch).await);
        }
        rates.sort_by(f64::total_cmp);
        println!(
            "{name:9} {:7.0} orders/s (median of {RUNS}, {:.0} to {:.0}; {orders} orders, batches of {batch}, {sessions} at once)",
            rates[RUNS / 2],
            rates[0],
            rates[RUNS - 1],
        );
    }
}

/// Closes `orders` overdue orders of a fresh shop; answers orders a second.
async fn run(kind: Kind, orders: i64, sessions: i64, batch: usize) -> f64 {
    let shop = Shop::open_on_disk(kind, SKUS).await;
    for part in 0..50 {
        let ids = (0..orders).filter(|id| id % 50 == part);
        let sku = part as usize * 20;
        shop.orders(ids, -1000, &[(sku, 1), (sku + 7, 2)]).await;
    }
    let settings = SqlSettings {
        pool_size: u32::try_from(sessions).expect("a small number"),
        timeout: std::time::Duration::from_secs(60),
        connect_timeout: std::time::Duration::from_secs(30),
        ..shop.settings()
    };
    let hook = Arc::new(hook(settings));
    // The session and its statements are there before the clock starts, as in a worker that has run for a while.
    judge(&hook, &leases([-1])).await;
    let ids: Vec<i64> = (0..orders).collect();
    let batches: Vec<Vec<i64>> = ids.chunks(batch).map(<[i64]>::to_vec).collect();
    let batches = Arc::new(std::sync::Mutex::new(batches));
    let began = Instant::now();
    let closers: Vec<_> = (0..sessions)
        .map(|_| {
            let (hook, batches) = (Arc::clone(&hook), Arc::clone(&batches));
            tokio::spawn(async move {
                loop {
                    let Some(ids) = batches.lock().unwrap().pop() else { return };
                    let mut leases = leases(ids);
                    leases
                        .iter_mut()
                        .for_each(|l| l.trusted_until = Instant::now() + std::time::Duration::from_secs(60));
                    let verdicts = judge(&hook, &leases).await;
                    assert!(verdicts.iter().all(|v| *v == Verdict::Closed), "{kind:?}: {:?}", verdicts[0]);
                }
            })
        })
        .collect();
    for closer in closers {
        closer.await.unwrap();
    }
    let rate = orders as f64 / began.elapsed().as_secs_f64();
    shop.balance().await;
    rate
}
