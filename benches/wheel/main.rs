//! What a deadline costs, each step beside the raw floor: the same movement of data in bare Lua, without fences, generations,
//! conflicts, slots and memory of ends. Both run against one private Redis with AOF everysec, in the same run, and at the end
//! what Redis itself spends per deadline is printed, since that is what limits a wheel.
//!
//! `cargo bench --bench wheel`; shorter, on the artefacts of the tests: `cargo bench --profile dev --bench wheel -- --quick`.

#![allow(missing_docs, reason = "criterion's macros make public functions without any")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark stops at the first surprise"
)]
#![allow(clippy::print_stderr, reason = "Redis's share of the cost is printed beside criterion's own lines")]

mod engine;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use duewheel::deadline::{Cause, Deadline, DueAt, Id, OnConflict, Outcome, Payload};
use duewheel::shard::{Shard, WheelName};
use duewheel::wheel::{Ask, Floor, RedisSettings, Settlement, Store, What, Wheel, WheelSettings, encode_new};
use futures_util::future::join_all;

use engine::{Cost, Engine};

/// Deadlines of one iteration: 250 for each of the 16 shards, so that one shard's batch is what a busy worker claims.
const BATCH: usize = 4_000;
/// Deadlines lie this far ahead at most, as those of a shop with windows of half an hour do.
const AHEAD_MS: u64 = 30 * 60 * 1000;
/// Leases of one claim.
const CLAIM: usize = 250;
/// Batches of each step in the comparison of cost.
const ROUNDS: usize = 21;

struct Bench {
    runtime: tokio::runtime::Runtime,
    engine: Engine,
    wheel: Wheel,
}

/// A batch of the floor's: (score, id, body) each.
type Entries = Vec<(u64, String, Vec<u8>)>;

impl Bench {
    fn new() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let engine = Engine::start();
        let store = Store::new(&RedisSettings::new(engine.url().into())).unwrap();
        let wheel = Wheel::new(Arc::new(store), WheelSettings::new(WheelName::new("bench").unwrap()));
        Self { runtime, engine, wheel }
    }

    fn floor(&self) -> Floor<'_> {
        Floor::new(self.wheel.store(), self.wheel.shards(), "bench")
    }

    /// What Redis spends on a step of one batch.
    fn spent(&self, step: impl Future<Output = ()>) -> Cost {
        let before = self.engine.cost();
        self.runtime.block_on(step);
        (self.engine.cost() - before).per(BATCH)
    }

    /// An empty Redis with a formatted wheel.
    fn fresh(&self) {
        self.engine.command(&["FLUSHALL"]);
        self.runtime.block_on(self.wheel.format()).unwrap();
    }
}

/// Ids of 20 bytes, never the same twice in a run.
fn ids(count: usize) -> Vec<Id> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let first = NEXT.fetch_add(count as u64, Ordering::Relaxed);
    (first..first + count as u64).map(|n| Id::new(&format!("order-{n:014}")).unwrap()).collect()
}

fn payload() -> Payload {
    let text = format!(r#"{{"user_id":123456789,"note":"{}"}}"#, "x".repeat(69));
    assert_eq!(text.len(), 100);
    Payload::from_json(text).unwrap()
}

fn deadlines(due_at: impl Fn() -> DueAt) -> Vec<Deadline> {
    let payload = payload();
    let deadline = |id| Deadline {
        id,
        due_at: due_at(),
        payload: payload.clone(),
        traceparent: None,
        cause: Cause::Due,
        reminders: None,
    };
    ids(BATCH).into_iter().map(deadline).collect()
}

/// A batch of the floor's, due up to `ahead_ms` from now.
fn entries(ahead_ms: u64) -> Entries {
    let now = duewheel::clock::Moment::host_now().as_millis();
    let body = payload().as_bytes().to_vec();
    let due = || now + fastrand::u64(..=ahead_ms);
    ids(BATCH).into_iter().map(|id| (due(), id.as_str().to_owned(), body.clone())).collect()
}

fn some_time_ahead() -> DueAt {
    DueAt::After(Duration::from_millis(fastrand::u64(1_000..AHEAD_MS)))
}

fn now() -> DueAt {
    DueAt::After(Duration::ZERO)
}

async fn place(wheel: &Wheel, batch: &[Deadline]) {
    for answer in wheel.enqueue_batch(batch, OnConflict::Keep, false).await {
        answer.unwrap().unwrap();
    }
}

/// Claims and settles all that is due; answers how many deadlines that were.
async fn drain(wheel: &Wheel) -> usize {
    static NONCE: AtomicU64 = AtomicU64::new(1);
    let shard = |shard: Shard| async move {
        let mut closed = 0;
        loop {
            let ask = Ask {
                limit: CLAIM,
                lease: Duration::from_secs(30),
                margin: Duration::from_secs(1),
                worker: "bench",
                nonce: NONCE.fetch_add(1, Ordering::Relaxed),
                suspect: false,
                poison_limit: 5,
                late: std::time::Duration::ZERO,
                good_until_us: 0,
                sent: Instant::now(),
            };
            let leases = wheel.claim(shard, &ask).await.unwrap().leases;
            if leases.is_empty() {
                return closed;
            }
            closed += leases.len();
            let settlements: Vec<_> = leases
                .into_iter()
                .map(|lease| Settlement {
                    id: lease.id.clone(),
                    fence: lease.fence,
                    what: What::End { outcome: Outcome::Closed, lease: std::sync::Arc::new(lease) },
                })
                .collect();
            wheel.settle(shard, &settlements).await.unwrap();
        }
    };
    join_all(wheel.shards().all().map(shard)).await.into_iter().sum()
}

/// Runs `step` on `iterations` batches that `prepare` makes, and counts only the step.
fn time<T>(bench: &Bench, iterations: u64, prepare: impl Fn() -> T, step: impl AsyncFn(T)) -> Duration {
    let mut total = Duration::ZERO;
    for n in 0..iterations {
        // A quarter of a million entries is what a wheel of this kind may hold; more would measure something else.
        if n % 64 == 0 {
            bench.fresh();
        }
        let batch = prepare();
        let began = Instant::now();
        bench.runtime.block_on(step(batch));
        total += began.elapsed();
    }
    total
}

fn speed(criterion: &mut Criterion) {
    let bench = Bench::new();
    let mut group = criterion.benchmark_group("enqueue");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function(BenchmarkId::new("duewheel", BATCH), |b| {
        let step = async |batch: Vec<Deadline>| place(&bench.wheel, &batch).await;
        b.iter_custom(|n| time(&bench, n, || deadlines(some_time_ahead), step));
    });
    group.bench_function(BenchmarkId::new("floor", BATCH), |b| {
        let step = async |batch: Entries| bench.floor().place(&batch).await.unwrap();
        b.iter_custom(|n| time(&bench, n, || entries(AHEAD_MS), step));
    });
    group.finish();

    let mut group = criterion.benchmark_group("claim+settle");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function(BenchmarkId::new("duewheel", BATCH), |b| {
        let prepare = || bench.runtime.block_on(place(&bench.wheel, &deadlines(now)));
        b.iter_custom(|n| time(&bench, n, prepare, async |()| assert_eq!(drain(&bench.wheel).await, BATCH)));
    });
    group.bench_function(BenchmarkId::new("floor", BATCH), |b| {
        let prepare = || bench.runtime.block_on(bench.floor().place(&entries(0))).unwrap();
        b.iter_custom(|n| {
            time(&bench, n, prepare, async |()| {
                assert_eq!(bench.floor().drain(CLAIM).await.unwrap(), BATCH as u64)
            })
        });
    });
    group.finish();
}

/// A deadline as it is stored, beside a bare copy of its payload.
fn encode(criterion: &mut Criterion) {
    let deadline = Deadline {
        id: Id::new("order-00000000000001").unwrap(),
        due_at: DueAt::Moment(duewheel::clock::Moment::host_now()),
        payload: payload(),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        cause: Cause::Due,
        reminders: None,
    };
    let mut group = criterion.benchmark_group("encode");
    group.bench_function("duewheel", |b| {
        b.iter(|| encode_new(std::hint::black_box(&deadline), &Default::default()))
    });
    group.bench_function("floor", |b| {
        b.iter(|| std::hint::black_box(&deadline).payload.as_bytes().to_vec());
    });
    group.finish();
}

/// What Redis itself spends, ours and raw in turns, so that a noisy machine is noisy to both; the median of the rounds counts.
fn cost(_: &mut Criterion) {
    let bench = Bench::new();
    let [mut placed, mut placed_raw, mut drained, mut drained_raw] = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        bench.fresh();
        let batch = deadlines(some_time_ahead);
        placed.push(bench.spent(async { place(&bench.wheel, &batch).await }));
        let batch = entries(AHEAD_MS);
        placed_raw.push(bench.spent(async { bench.floor().place(&batch).await.unwrap() }));
        bench.fresh();
        bench.runtime.block_on(place(&bench.wheel, &deadlines(now)));
        drained.push(bench.spent(async { assert_eq!(drain(&bench.wheel).await, BATCH) }));
        bench.runtime.block_on(bench.floor().place(&entries(0))).unwrap();
        drained_raw
            .push(bench.spent(async { assert_eq!(bench.floor().drain(CLAIM).await.unwrap(), BATCH as u64) }));
    }
    let [placed, placed_raw, drained, drained_raw] =
        [placed, placed_raw, drained, drained_raw].map(Cost::median);
    eprintln!(
        "\nRedis's own time per deadline, in us: in scripts (commandstats) / in all (CPU of its main thread)"
    );
    for (step, ours, raw) in [
        ("enqueue", placed, placed_raw),
        ("claim+settle", drained, drained_raw),
        ("whole life", placed + drained, placed_raw + drained_raw),
    ] {
        eprintln!("  {step:<13} duewheel {ours}   floor {raw}   ratio {}", ours / raw);
    }
}

criterion_group!(benches, speed, encode, cost);
criterion_main!(benches);
