//! duewheel as one peer of the benchmark harness that runs many delay queues on the same work (benches/peer/README.md).
//!
//! `peer bulk N DUE_MS`, `peer single N DUE_MS` and `peer rate R SECS` enqueue and print `{"n":…,"secs":…}`; `peer worker` closes by
//! appending `id due_ms fired_ms` to `$LOG`, one write for each deadline, until it is killed.

#![allow(clippy::print_stdout, reason = "the protocol of the harness is a line on standard output")]

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use duewheel::clock::Moment;
use duewheel::deadline::{Cause, Deadline, DueAt, Id, OnConflict, Payload};
use duewheel::hook::{BoxFuture, Hook, Verdict};
use duewheel::lease::Lease;
use duewheel::shard::WheelName;
use duewheel::wheel::{RedisSettings, Store, Wheel, WheelSettings};
use duewheel::worker::{Worker, WorkerSettings};
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Deadlines of one call of the bulk API.
const BULK: u64 = 4_000;
/// Calls in flight in the one-by-one test.
const IN_FLIGHT: u64 = 50;

#[tokio::main]
async fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let port = number("PORT", 7801)?;
    let store = Store::new(&RedisSettings::new(format!("redis://127.0.0.1:{port}").into()))?;
    let wheel = Wheel::new(Arc::new(store), WheelSettings::new(WheelName::new("bench")?));
    wheel.format().await?;
    let argument = |at: usize| -> Outcome<u64> { Ok(args.get(at).ok_or("too few arguments")?.parse()?) };
    let began = Instant::now();
    let placed = match args.first().map(String::as_str) {
        Some("worker") => return work(wheel).await,
        Some("bulk") => bulk(&wheel, argument(1)?, argument(2)?).await?,
        Some("single") => single(&wheel, argument(1)?, argument(2)?).await?,
        Some("rate") => rate(&wheel, argument(1)?, Duration::from_secs(argument(2)?)).await?,
        _ => return Err("usage: peer bulk N DUE_MS | single N DUE_MS | rate R SECS | worker".into()),
    };
    println!("{{\"n\":{placed},\"secs\":{}}}", began.elapsed().as_secs_f64());
    Ok(())
}

async fn bulk(wheel: &Wheel, count: u64, due_ms: u64) -> Outcome<u64> {
    for first in (0..count).step_by(usize::try_from(BULK)?) {
        let batch: Vec<_> =
            (first..count.min(first + BULK)).map(|n| deadline('b', n, due_ms)).collect::<Outcome<_>>()?;
        place(wheel, &batch).await?;
    }
    Ok(count)
}

async fn single(wheel: &Wheel, count: u64, due_ms: u64) -> Outcome<u64> {
    let lanes = (0..IN_FLIGHT).map(|lane| async move {
        for n in (lane..count).step_by(usize::try_from(IN_FLIGHT)?) {
            wheel
                .enqueue(&deadline('s', n, due_ms)?, OnConflict::Keep, false)
                .await?
                .map_err(|r| format!("{r:?}"))?;
        }
        Ok(())
    });
    join_all(lanes).await.into_iter().collect::<Outcome<Vec<()>>>()?;
    Ok(count)
}

async fn rate(wheel: &Wheel, per_second: u64, time: Duration) -> Outcome<u64> {
    let began = Instant::now();
    let mut placed = 0;
    while began.elapsed() < time {
        let wanted = (began.elapsed().as_secs_f64() * per_second as f64) as u64;
        // Due two to ten seconds later, evenly, as the harness asks of every peer.
        let due_ms = |n: u64| -> Outcome<u64> { Ok(now_ms()? as u64 + 2_000 + (n * 7_919) % 8_000) };
        let batch: Vec<_> = (placed..wanted).map(|n| deadline('r', n, due_ms(n)?)).collect::<Outcome<_>>()?;
        place(wheel, &batch).await?;
        placed = placed.max(wanted);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(placed)
}

async fn place(wheel: &Wheel, batch: &[Deadline]) -> Outcome<()> {
    for answer in wheel.enqueue_batch(batch, OnConflict::Keep, false).await {
        answer?.map_err(|refusal| format!("enqueue was refused: {refusal:?}"))?;
    }
    Ok(())
}

/// The harness may place one kind over another that is pending, so each has ids of its own.
fn deadline(kind: char, n: u64, due_ms: u64) -> Outcome<Deadline> {
    Ok(Deadline {
        id: Id::new(&format!("{kind}{n}"))?,
        due_at: DueAt::Moment(Moment::from_millis(due_ms)?),
        // About 100 bytes, as every peer stores.
        payload: Payload::from_json(format!(r#"{{"id":"{n}","due":{due_ms},"pad":"{}"}}"#, "x".repeat(60)))?,
        traceparent: None,
        cause: Cause::Due,
        reminders: None,
    })
}

async fn work(wheel: Wheel) -> Outcome<()> {
    let log = std::fs::File::options().append(true).open(std::env::var("LOG")?)?;
    let handler = Duration::from_millis(number("HANDLER_MS", 0)?);
    let hook = Log { log, handler };
    let settings = WorkerSettings {
        concurrency: usize::try_from(number("CONCURRENCY", 512)?)?,
        lease: Duration::from_secs(number("LEASE_S", 30)?),
        ..WorkerSettings::default()
    };
    let worker = Worker::new(wheel, Arc::new(hook), settings)?;
    worker.run(CancellationToken::new()).await;
    Ok(())
}

/// The harness's handler: one write for each deadline, after the time that it asks for.
struct Log {
    log: std::fs::File,
    handler: Duration,
}

impl Hook for Log {
    fn judge<'a>(&'a self, _: &'a WheelName, leases: &'a [Lease]) -> BoxFuture<'a, Vec<Verdict>> {
        Box::pin(async move {
            if !self.handler.is_zero() {
                tokio::time::sleep(self.handler).await;
            }
            leases.iter().map(|lease| self.write(lease)).collect()
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(1) + self.handler
    }

    fn batch_size(&self) -> usize {
        // A handler that takes its time takes it for each deadline alone.
        if self.handler.is_zero() { 100 } else { 1 }
    }

    fn check(&self) -> BoxFuture<'_, duewheel::error::Result<Vec<String>>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

impl Log {
    fn write(&self, lease: &Lease) -> Verdict {
        let fired = now_ms().unwrap_or_default();
        let line = format!("{} {} {fired:.3}\n", lease.id, lease.due_at.as_millis());
        match (&self.log).write_all(line.as_bytes()) {
            Ok(()) => Verdict::Closed,
            Err(e) => Verdict::Unavailable { reason: e.to_string(), retry_after: None },
        }
    }
}

fn number(variable: &str, default: u64) -> Outcome<u64> {
    match std::env::var(variable) {
        Ok(text) => Ok(text.parse()?),
        Err(_) => Ok(default),
    }
}

fn now_ms() -> Outcome<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1000.0)
}
