//! What a process tells of itself: the numbers equal what happened, their names are the documented ones, and the probes say what is.

mod counts;
mod page;
mod probes;
mod prometheus;
mod scrape;

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::rig::redis::RedisServer;
use crate::rig::worker::{Fleet, Plan, Process};
use crate::rig::{PATIENCE, eventually};

/// Workers that no strain of the machine makes repeat anything, so that every number is known beforehand.
fn unhurried(server: &RedisServer) -> Plan {
    let plan = Plan::new(server.url()).response_timeout("20s");
    plan.worker("lease", "\"60s\"").worker("grace", "\"30s\"")
}

/// A worker that answers scrapes and probes; it and where.
async fn watched(fleet: &Fleet) -> (Process, String) {
    let process = fleet.start_with(&[("DUEWHEEL_METRICS__LISTEN", "127.0.0.1:0")]);
    let address = eventually(PATIENCE, async || {
        let log = process.log();
        let line = log.lines().find(|line| line.contains("answering /metrics"))?;
        Some(line.split("address=").nth(1)?.split_whitespace().next()?.to_owned())
    });
    let address = address.await;
    (process, address)
}

/// What is answered there: status and body.
async fn get(address: &str, path: &str, accept: &str) -> (u16, String) {
    let ask = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: test\r\naccept: {accept}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    };
    tokio::time::timeout(Duration::from_secs(5), ask).await.ok().flatten().unwrap_or_default()
}

async fn scraped(address: &str) -> scrape::Scrape {
    let (status, text) = get(address, "/metrics", "text/plain").await;
    assert_eq!(status, 200, "{text}");
    scrape::Scrape::of(&text)
}
