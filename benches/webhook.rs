//! Signed calls through the webhook hook over kept connections, beside the floor of the same run: the same bytes written and answered
//! over as many plain connections, with nobody signing, parsing or judging. The stub serves both from the same cores.
//!
//! `cargo bench --bench webhook`; the unit is one call.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark stops at the first surprise")]

#[path = "../tests/rig/stub.rs"]
#[allow(dead_code, reason = "a benchmark needs less of the stub than the tests do")]
mod stub;

use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use duewheel::clock::Moment;
use duewheel::deadline::{Cause, Generation, Id, Payload, Stage};
use duewheel::hook::webhook::{WebhookHook, WebhookSecret, WebhookSettings};
use duewheel::hook::{Hook, Verdict};
use duewheel::lease::{Fence, Lease, RedisClock};
use duewheel::shard::WheelName;
use stub::{Stub, StubSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Calls in flight: enough to keep two cores busy, as few as one claim of a small shop.
const CALLERS: u64 = 64;

fn lease(n: u64) -> Lease {
    Lease {
        id: Id::new(&format!("order-{n:014}")).unwrap(),
        due_at: Moment::host_now(),
        generation: Generation(1_780_000_000_000_000 + n),
        stage: Stage::CLOSE,
        cause: Cause::Due,
        attempt: 1,
        fence: Fence(1_790_000_030_000_000 + 2 * n),
        payload: Payload::from_json(format!("{{\"note\":\"{}\"}}", "x".repeat(89))).unwrap(),
        traceparent: None,
        was_held: false,
        was_put_off: false,
        note: None,
        reminders: Default::default(),
        trusted_until: Instant::now() + Duration::from_secs(60),
        redis_clock: RedisClock { us: Moment::host_now().as_millis() * 1000, at: Instant::now() },
    }
}

/// Each caller asks about its share of `calls` orders, one after the other.
async fn through_the_hook(hook: &Arc<WebhookHook>, calls: u64) -> Duration {
    let wheel = Arc::new(WheelName::new("orders").unwrap());
    let began = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (hook, wheel) = (hook.clone(), wheel.clone());
            tokio::spawn(async move {
                for n in (caller..calls).step_by(CALLERS as usize) {
                    assert_eq!(hook.judge(&wheel, &[lease(n)]).await, [Verdict::Closed]);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    began.elapsed()
}

/// The same with a request that was made before, over connections of the bench's own.
async fn over_bare_connections(stub: &Stub, request: &Arc<Vec<u8>>, calls: u64) -> Duration {
    let address = stub.address();
    let began = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let request = request.clone();
            tokio::spawn(async move {
                let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let mut answer = [0; 4096];
                for _ in (caller..calls).step_by(CALLERS as usize) {
                    stream.write_all(&request).await.unwrap();
                    assert!(stream.read(&mut answer).await.unwrap() > 0);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    began.elapsed()
}

fn webhook(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (stub, hook, request) = runtime.block_on(async {
        let stub = Stub::start_as(StubSettings { record: false, ..StubSettings::default() }).await;
        let mut settings = WebhookSettings::new(&stub.url("/close"));
        settings.allow_private = true;
        settings.secrets =
            vec![WebhookSecret::new("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDHCWhkn+hgSA=".to_owned().into())];
        let hook = Arc::new(WebhookHook::new(&settings).unwrap());
        (stub, hook, Arc::new(one_request().await))
    });
    let mut group = c.benchmark_group("webhook");
    group.throughput(Throughput::Elements(1));
    group.sample_size(20).measurement_time(Duration::from_secs(5));
    group.bench_function("signed_call", |b| {
        b.to_async(&runtime).iter_custom(|calls| through_the_hook(&hook, calls));
    });
    group.bench_function("floor", |b| {
        b.to_async(&runtime).iter_custom(|calls| over_bare_connections(&stub, &request, calls));
    });
    // The same in time on a core, caller and stub together: says what a call costs also while the machine does other things.
    group.bench_function("signed_call_cpu", |b| {
        b.to_async(&runtime).iter_custom(|calls| on_cpu(through_the_hook(&hook, calls)));
    });
    group.bench_function("floor_cpu", |b| {
        b.to_async(&runtime).iter_custom(|calls| on_cpu(over_bare_connections(&stub, &request, calls)));
    });
    group.finish();
}

/// How long this process's threads were on a core while `work` ran (Linux).
async fn on_cpu(work: impl Future<Output = Duration>) -> Duration {
    let before = cpu_time();
    work.await;
    cpu_time() - before
}

fn cpu_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let nanos = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// The bytes of one call, as the hook sends them: heard by a listener that answers nothing.
async fn one_request() -> Vec<u8> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = WebhookSettings::new(&format!("http://{}/close", listener.local_addr().unwrap()));
    settings.allow_private = true;
    settings.timeout = Duration::from_millis(500);
    settings.connect_timeout = Duration::from_millis(500);
    settings.secrets =
        vec![WebhookSecret::new("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDHCWhkn+hgSA=".to_owned().into())];
    let hook = WebhookHook::new(&settings).unwrap();
    let wheel = WheelName::new("orders").unwrap();
    let leases = [lease(1)];
    let heard = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        heard
    };
    let (_, heard) = tokio::join!(hook.judge(&wheel, &leases), heard);
    heard
}

criterion_group!(benches, webhook);
criterion_main!(benches);
