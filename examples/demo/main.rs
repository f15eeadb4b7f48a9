//! The demo that `scripts/demo` runs: a small shop, 1,000 orders, two workers of which one is killed, and then the books.
//!
//! Orders are enqueued and cancelled through the library, as a shop written in Rust would do it, and closed by worker processes of the
//! real binary. The verdict comes from the shop's tables alone; nothing that duewheel says about itself is believed.

#![allow(clippy::print_stdout, reason = "the table is the purpose of the demo")]

mod books;
mod fleet;
mod progress;
mod shop;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser as _;
use comfy_table::{CellAlignment, Table};
use duewheel::clock::Moment;
use duewheel::deadline::{Cause, Deadline, DueAt, Id, OnConflict, Payload};
use duewheel::shard::WheelName;
use duewheel::wheel::{RedisSettings, Store, Wheel, WheelSettings};

use books::Books;
use fleet::Fleet;
use progress::Progress;
use shop::{Order, Shop};

/// What every step of the demo answers.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Orders placed in one go, as in a busy second of a shop.
const BATCH: usize = 100;
/// How long a buyer has to pay.
const WINDOW_MS: std::ops::RangeInclusive<u64> = 1_000..=10_000;
/// One order in five is paid as close to its deadline as a clock allows: this much before or after.
const PHOTO_FINISH_MS: i64 = 5;
/// How long after the last window everything must be closed: a lease of the killed worker, and what a loaded machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(clap::Parser)]
struct Args {
    /// The duewheel binary.
    #[arg(long)]
    duewheel: PathBuf,
    /// Where the shop's database and the logs go.
    #[arg(long)]
    folder: PathBuf,
    /// The Redis to use.
    #[arg(long, env = "DEMO_REDIS_URL", hide_env_values = true)]
    redis_url: String,
    /// How many orders.
    #[arg(long, default_value_t = 1000)]
    orders: u64,
}

/// What the buyers did.
#[derive(Default)]
struct Payments {
    /// Payments tried.
    tried: AtomicU64,
    /// Payments that came too late: the order had been closed.
    too_late: AtomicU64,
    /// Of the photo finishes: paid, closed.
    finish_paid: AtomicU64,
    finish_closed: AtomicU64,
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match run(Args::parse()).await {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(e) => {
            println!("demo: {e}");
            std::process::ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Outcome<bool> {
    let name = WheelName::new(&format!("demo-{}", std::process::id()))?;
    let store = Store::new(&RedisSettings::new(args.redis_url.as_str().into()))?;
    let wheel = Wheel::new(Arc::new(store), WheelSettings::new(name.clone()));
    wheel.format().await?;
    let balanced = close_and_check(&args, &wheel, name.as_str()).await;
    // A Redis that was given keeps nothing of ours, whatever happened.
    wheel.drop_wheel().await?;
    balanced
}

async fn close_and_check(args: &Args, wheel: &Wheel, name: &str) -> Outcome<bool> {
    let shop = Shop::open(&args.folder.join("shop.db")).await?;
    let fleet = Fleet::new(&args.duewheel, &args.folder, &args.redis_url, name)?;
    let (mut first, mut second) = (fleet.start("worker-1")?, fleet.start("worker-2")?);
    let progress = Progress::start(args.orders);

    let payments = Arc::new(Payments::default());
    let mut buyers = tokio::task::JoinSet::new();
    let mut last_due_ms = 0;
    let began = tokio::time::Instant::now();
    for first_id in (1..=args.orders).step_by(BATCH) {
        let count = BATCH.min(usize::try_from(args.orders - first_id + 1)?);
        let windows: Vec<u64> = (0..count).map(|_| fastrand::u64(WINDOW_MS)).collect();
        let orders = shop.place(i64::try_from(first_id)?, &windows).await?;
        enqueue(wheel, &orders).await?;
        for order in orders {
            last_due_ms = last_due_ms.max(order.due_ms);
            if fastrand::u32(..100) < 60 {
                buyers.spawn(buy(shop.clone(), wheel.clone(), order, Arc::clone(&payments)));
            }
        }
    }
    progress.say(&format!(
        "{} orders placed and enqueued in {:.1} s",
        args.orders,
        began.elapsed().as_secs_f64()
    ));

    let half_way_ms = host_ms() + last_due_ms.saturating_sub(host_ms()) / 2;
    let mut killed = false;
    let mut in_time = true;
    loop {
        let tally = shop.tally().await?;
        let stats = wheel.stats().await?;
        progress.show(tally, stats.leased);
        if !killed && host_ms() >= half_way_ms {
            first.kill()?;
            killed = true;
            progress.say(&format!("SIGKILL to {}, with {} orders still open", first.name, tally.unpaid));
        }
        if tally.unpaid == 0 && stats.scheduled == 0 && stats.leased == 0 && buyers.is_empty() {
            break;
        }
        if host_ms() > last_due_ms + u64::try_from(PATIENCE.as_millis())? {
            progress.say(&format!("giving up {PATIENCE:?} after the last window: {stats:?}"));
            in_time = false;
            break;
        }
        while let Some(bought) = buyers.try_join_next() {
            bought??;
        }
        if !killed {
            first.check()?;
        }
        second.check()?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    progress.finish();

    let drained = tokio::task::spawn_blocking(move || second.drain()).await??;
    let dead = wheel.stats().await?.dead;
    let books = Books::read(&shop).await?;
    println!("{}", table(args.orders, &books, &payments));
    if !drained.success() {
        println!("demo: the second worker ended with {drained}");
    }
    let balanced = books.balance(args.orders) && in_time && killed && drained.success() && dead == 0;
    println!(
        "demo: {} orders, {} paid, {} closed, {} early, {} lost, {} twice, stock {}",
        args.orders,
        books.tally.paid,
        books.tally.closed,
        books.early,
        books.lost,
        books.twice,
        if books.unbalanced_items == 0 { "balanced" } else { "NOT balanced" },
    );
    Ok(balanced)
}

async fn enqueue(wheel: &Wheel, orders: &[Order]) -> Outcome<()> {
    let mut deadlines = Vec::with_capacity(orders.len());
    for order in orders {
        deadlines.push(Deadline {
            id: Id::new(&order.id.to_string())?,
            due_at: DueAt::Moment(Moment::from_millis(order.due_ms)?),
            payload: Payload::default(),
            traceparent: None,
            cause: Cause::Due,
            reminders: None,
        });
    }
    for answer in wheel.enqueue_batch(&deadlines, OnConflict::Keep, false).await {
        answer?.map_err(|refusal| format!("enqueue was refused: {refusal:?}"))?;
    }
    Ok(())
}

/// One buyer: waits for the chosen moment, pays, and lets the wheel know. One in ten of these messages is lost, as messages are: the
/// close must then find the order paid.
async fn buy(shop: Shop, wheel: Wheel, order: Order, payments: Arc<Payments>) -> Outcome<()> {
    let photo_finish = fastrand::u32(..5) == 0;
    let now = host_ms();
    let at = if photo_finish {
        order.due_ms.saturating_add_signed(fastrand::i64(-PHOTO_FINISH_MS..=PHOTO_FINISH_MS))
    } else {
        now + fastrand::u64(..order.due_ms.saturating_sub(now).max(1))
    };
    tokio::time::sleep(Duration::from_millis(at.saturating_sub(now))).await;
    let paid = shop.pay(order.id).await?;
    payments.tried.fetch_add(1, Ordering::Relaxed);
    if !paid {
        payments.too_late.fetch_add(1, Ordering::Relaxed);
    }
    if photo_finish {
        let side = if paid { &payments.finish_paid } else { &payments.finish_closed };
        side.fetch_add(1, Ordering::Relaxed);
    }
    if paid && fastrand::u32(..10) > 0 {
        for answer in wheel.cancel(&[Id::new(&order.id.to_string())?]).await {
            // A refusal says that the wheel is past it already, which is as good.
            answer?.ok();
        }
    }
    Ok(())
}

fn table(orders: u64, books: &Books, payments: &Payments) -> Table {
    let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let [p50, p99, max] = books.late_ms;
    let rows = [
        ("orders placed", orders.to_string()),
        ("paid in time", books.tally.paid.to_string()),
        ("payments refused, the order was closed", count(&payments.too_late).to_string()),
        ("closed", books.tally.closed.to_string()),
        (
            "paid within 5 ms of the deadline: paid / closed",
            format!("{} / {}", count(&payments.finish_paid), count(&payments.finish_closed)),
        ),
        ("close after the deadline, ms: p50 / p99 / max", format!("{p50} / {p99} / {max}")),
        ("closed early", books.early.to_string()),
        ("lost (unpaid and not closed)", books.lost.to_string()),
        ("closed twice", books.twice.to_string()),
        ("paid and closed", books.paid_and_closed.to_string()),
        ("closes without a log row, or the reverse", books.unlogged.to_string()),
        ("items whose stock does not add up", books.unbalanced_items.to_string()),
    ];
    let mut table = Table::new();
    table.load_style(comfy_table::presets::UTF8_FULL_CONDENSED);
    for (what, value) in rows {
        table.add_row([what.to_owned(), value]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The host's clock, to the millisecond, as the shop's database reads it.
fn host_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
