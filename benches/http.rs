//! Enqueues over the HTTP API, beside the floor of the same run: the same requests answered by a handler that reads the body and does
//! nothing else, in the same frame. Load maker, server and Redis share this machine.
//!
//! `cargo bench --bench http`; `-- --quick` for a first look. For each case: how many a second with all connections busy, then how long
//! each takes at half of that, from the moment it was to be sent (a request that waited for its turn has waited).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark stops at the first surprise"
)]

#[path = "wheel/engine.rs"]
#[allow(dead_code, reason = "this benchmark needs less of the engine")]
mod engine;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duewheel::http::{Api, HttpSettings, Limits, Server};
use duewheel::shard::WheelName;
use duewheel::wheel::{RedisSettings, Store, Wheel, WheelSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Connections that are kept: a few order services with a pool each.
const CONNECTIONS: u64 = 64;
/// Deadlines of a batch.
const BATCH: u64 = 100;

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    One,
    Batch,
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let length = Duration::from_secs(if quick { 2 } else { 10 });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let engine = engine::Engine::start();
    runtime.block_on(async {
        let redis = RedisSettings::new(engine.url().into());
        let store = Arc::new(Store::new(&redis).unwrap());
        let wheel = Wheel::new(store, WheelSettings::new(WheelName::new("orders").unwrap()));
        wheel.format().await.unwrap();
        let settings = HttpSettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            tokens: Vec::new(),
            tls: None,
            base_path: String::new(),
            limits: Limits::default(),
        };
        let stop = CancellationToken::new();
        let api = Api::new([wheel.clone()], &settings, &duewheel::metrics::Metrics::new(), stop.clone());
        let server = Server::bind("listen", settings.listen, settings.limits.clone()).await.unwrap();
        let address = server.address();
        tokio::spawn(server.run(api.router(), stop.clone()));
        let floor = Server::bind("listen", settings.listen, settings.limits.clone()).await.unwrap();
        let floor_address = floor.address();
        let path = "/v1/wheels/{wheel}/deadlines/{id}";
        let noop = axum::Router::new().route(path, axum::routing::put(|_: axum::body::Bytes| async { "{}" }));
        tokio::spawn(floor.run(noop, stop.clone()));

        // Redis and the code warm, and no first run that pays for all.
        full(address, What::One, Duration::from_secs(1), 0).await;
        println!("{CONNECTIONS} connections, {} s each\n", length.as_secs());
        let noop = full(floor_address, What::One, length, 0).await;
        println!("floor, requests       {noop:>8.0}/s");
        let ones = full(address, What::One, length, 1).await;
        println!("enqueue, requests     {ones:>8.0}/s   {:.2} of the floor; goal 10000/s", ones / noop);
        for rate in [ones / 2.0, 5000.0] {
            let of_floor = paced(floor_address, rate, length, 0).await;
            let of_api = paced(address, rate, length, 2 + rate as u64).await;
            println!("  at {rate:>6.0}/s         {}   (floor {})", shown(&of_api), shown(&of_floor));
        }
        println!("  goal                p99 <= 20 ms at half load");
        let before = engine.cost();
        let batches = full(address, What::Batch, length, 3).await;
        let placed = batches * BATCH as f64;
        let cost = (engine.cost() - before).per((placed * length.as_secs_f64()) as usize);
        println!(
            "batches of {BATCH}        {placed:>8.0} deadlines/s; goal 60000/s; Redis {cost} us each (scripts / all)"
        );
        stop.cancel();
    });
}

/// Requests a second with every connection busy.
async fn full(address: SocketAddr, what: What, length: Duration, run: u64) -> f64 {
    let (count, began) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let makers: Vec<_> = (0..CONNECTIONS)
        .map(|maker| {
            let count = count.clone();
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await;
                let mut n = 0;
                while began.elapsed() < length {
                    connection.ask(&request(what, run, maker, n)).await;
                    n += 1;
                }
                count.fetch_add(n, Ordering::Relaxed);
            })
        })
        .collect();
    for maker in makers {
        maker.await.unwrap();
    }
    count.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// How long requests take that are sent at that rate, in order.
async fn paced(address: SocketAddr, rate: f64, length: Duration, run: u64) -> Vec<Duration> {
    let gap = Duration::from_secs_f64(CONNECTIONS as f64 / rate);
    let began = Instant::now() + Duration::from_millis(50);
    let makers: Vec<_> = (0..CONNECTIONS)
        .map(|maker| {
            tokio::spawn(async move {
                let mut connection = Connection::open(address).await;
                // Spread over the gap, so that they do not come in bursts of their own making.
                let first = began + gap.mul_f64(maker as f64 / CONNECTIONS as f64);
                let mut times = Vec::new();
                for n in 0.. {
                    let at = first + gap * n;
                    if at.duration_since(began) > length {
                        break;
                    }
                    tokio::time::sleep_until(at.into()).await;
                    connection.ask(&request(What::One, run, maker, n.into())).await;
                    times.push(at.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for maker in makers {
        times.extend(maker.await.unwrap());
    }
    times.sort();
    times
}

fn shown(times: &[Duration]) -> String {
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1000.0;
    format!("p50 {:.1} ms, p99 {:.1} ms, worst {:.0} ms", at(0.5), at(0.99), at(1.0))
}

fn request(what: What, run: u64, maker: u64, n: u64) -> String {
    let deadline = |id: String| {
        format!(r#"{{{id}"in":"30m","payload":{{"user_id":{maker},"sku":"s-{n}","amount":"99.00"}}}}"#)
    };
    let (head, kind, body) = match what {
        What::One => (
            format!("PUT /v1/wheels/orders/deadlines/o-{run}-{maker}-{n:08}"),
            "json",
            deadline(String::new()),
        ),
        What::Batch => {
            let items = (0..BATCH).map(|i| deadline(format!(r#""id":"b-{run}-{maker}-{n:06}-{i:02}","#)));
            ("POST /v1/wheels/orders/deadlines".to_owned(), "x-ndjson", items.collect::<Vec<_>>().join("\n"))
        }
    };
    let length = body.len();
    format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/{kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// A kept connection that reads no more of an answer than it must.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::with_capacity(64 * 1024) }
    }

    async fn ask(&mut self, request: &str) {
        self.stream.write_all(request.as_bytes()).await.unwrap();
        self.buffer.clear();
        let mut whole = None;
        loop {
            assert!(
                self.stream.read_buf(&mut self.buffer).await.unwrap() > 0,
                "the server closed the connection"
            );
            if whole.is_none()
                && let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n")
            {
                let head = std::str::from_utf8(&self.buffer[..end]).unwrap();
                assert!(head.starts_with("HTTP/1.1 20"), "{head}");
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                whole = Some(end + 4 + length.parse::<usize>().unwrap());
            }
            if whole.is_some_and(|whole| self.buffer.len() >= whole) {
                return;
            }
        }
    }
}
