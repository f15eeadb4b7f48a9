//! A large table: the sweep finds the few that are lost among the many that are held, in bounded time and memory, while rows change.

use std::time::{Duration, Instant};

use duewheel::deadline::State;
use duewheel::sweep::Report;

use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::shop::{Kind, Shop};
use crate::rig::wheel::id;
use crate::rig::worker::{Fleet, Plan, soon};

/// Rows, all overdue and unpaid; each thousandth (in the short form each twentieth) is not on the wheel.
fn size() -> (i64, i64) {
    if std::env::var_os("DUEWHEEL_TEST_LONG").is_some() { (1_000_000, 1000) } else { (20_000, 20) }
}

/// Fills the table in one statement.
async fn fill(shop: &Shop, rows: i64) {
    let (numbers, at) = match shop.kind {
        Kind::Postgres => (
            format!("generate_series(1, {rows}) AS s(n)"),
            "now() - interval '1 hour' - (n % 3600) * interval '1 second'",
        ),
        Kind::Mariadb => (
            format!("(SELECT seq AS n FROM seq_1_to_{rows}) AS s"),
            "NOW() - INTERVAL 1 HOUR - INTERVAL (n % 3600) SECOND",
        ),
        Kind::Sqlite => (
            format!(
                "(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n FROM s) AS s"
            ),
            "strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 hour', '-' || (n % 3600) || ' seconds')",
        ),
    };
    shop.db
        .run(&format!("INSERT INTO orders (id, user_id, created_at, close_at) SELECT n, n % 100, {at}, {at} FROM {numbers}"))
        .await;
}

/// The most memory that the process had in RAM so far, in bytes; `None` once it is gone.
fn peak_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

/// The processor time of the process so far.
fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // User and system, in hundredths of a second.
    Some((fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?) / 100.0)
}

/// Answers how long the sweep took.
async fn large(kind: Kind) -> Duration {
    let (rows, each) = size();
    let (server, shop) = (RedisServer::start(RedisOptions::default()), Shop::open(kind, 0).await);
    fill(&shop, rows).await;
    let plan = Plan::new(server.url())
        .response_timeout("20s")
        .closing(&shop)
        .net("[wheel.WHEEL.sweep]\nrows_per_second = 1000000\n");
    let fleet = Fleet::new(&server, &plan).await;
    let due = soon(0);
    let held: Vec<i64> = (1..=rows).filter(|n| n % each != 0).collect();
    for part in held.chunks(4000) {
        fleet.enqueue(part.iter().copied(), |_| due).await;
    }
    // Meanwhile buyers pay: rows fall out of the set that is walked through, in front of the walk and behind it.
    let db = shop.db.clone();
    let payers = tokio::spawn(async move {
        for n in 0..10 {
            let set =
                format!("UPDATE orders SET status = 'paid' WHERE id % 10 = 3 AND id % 100 = {}", n * 10 + 3);
            db.run(&set).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let began = Instant::now();
    let mut child = fleet.spawn(&["sweep", "--json"]);
    let (mut peak, mut cpu) = (0, 0.0);
    while child.try_wait().unwrap().is_none() {
        peak = peak.max(peak_bytes(child.id()).unwrap_or(0));
        cpu = cpu_seconds(child.id()).unwrap_or(cpu);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let took = began.elapsed();
    let output = child.wait_with_output().unwrap();
    payers.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: Report =
        serde_json::from_str(said.trim()).unwrap_or_else(|e| panic!("{e}: {said} {output:?}"));
    println!(
        "{kind:?}: {rows} rows, {} lost: {took:?}, {cpu} s of its own cpu, {} KiB at most, {} pages",
        rows / each,
        peak / 1024,
        report.pages
    );
    // Nothing was skipped: each row that stayed unpaid is on the wheel; nothing was taken twice.
    assert_eq!(report.seen, report.held + report.enqueued, "{report:?}");
    let stayed = shop.count("FROM orders WHERE status = 'unpaid'").await as u64;
    assert!((stayed..=rows as u64).contains(&report.seen), "{stayed} stayed: {report:?}");
    let lost: Vec<i64> = (1..=rows).filter(|n| n % each == 0).collect();
    assert_eq!(report.enqueued, lost.len() as u64, "none of the lost was paid: {report:?}");
    let ids: Vec<_> = lost.iter().map(|n| id(&n.to_string())).collect();
    let states = fleet.wheel.held(&ids.iter().collect::<Vec<_>>()).await.unwrap();
    let missing: Vec<_> = lost.iter().zip(&states).filter(|(_, state)| **state != State::Scheduled).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(fleet.wheel.stats().await.unwrap().scheduled, rows as u64);
    assert!(peak <= 100 * 1024 * 1024, "{peak} bytes");
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_few_lost_of_a_large_table_are_found_in_bounded_time_and_memory() {
    let mut took = Vec::new();
    for kind in Kind::ALL {
        took.push((kind, large(kind).await));
    }
    // Judged at the end, so that each database is measured.
    assert!(took.iter().all(|(_, took)| *took <= Duration::from_secs(30)), "{took:?}");
}
