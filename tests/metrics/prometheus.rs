//! Prometheus itself reads a living worker, and its own checker finds nothing to say against the text.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use crate::rig::redis::RedisServer;
use crate::rig::worker::{Fleet, Plan, soon};
use crate::rig::{PATIENCE, eventually};

use super::{get, watched};

/// Whether a program can be run here; said aloud where it cannot.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        assert!(std::env::var_os("DUEWHEEL_TEST_TOOLS").is_none(), "{program} is not installed");
        println!("SKIPPED: no {program} here; scripts/test installs it");
    }
    found
}

/// Ended with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prometheus_reads_a_living_worker_and_finds_nothing_to_say_against_the_text() {
    if !has("prometheus") || !has("promtool") {
        return;
    }
    let server = RedisServer::shared();
    let fleet = Fleet::new(server, &Plan::new(server.url()).hook("kind", "\"log\"").shards(2)).await;
    let (worker, address) = watched(&fleet).await;
    fleet.enqueue(1..=20, |_| soon(0)).await;
    fleet.idle(PATIENCE).await;

    let (_, text) = get(&address, "/metrics", "text/plain").await;
    let mut checker = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    checker.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let checked = checker.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && said.trim().is_empty(), "{said}");

    let dir = tempfile::Builder::new().prefix("duewheel-prometheus-").tempdir().unwrap();
    let config = dir.path().join("prometheus.yml");
    let jobs = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n  - job_name: duewheel\n    static_configs: [{{targets: ['{address}']}}]\n"
    );
    std::fs::write(&config, jobs).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let log = std::fs::File::create(dir.path().join("log")).unwrap();
    let started = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
        .arg(format!("--web.listen-address={free}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let prometheus = Server(started);
    let ask = async |query: &str| {
        let path = format!("/api/v1/query?query={query}");
        let (_, body) = get(&free.to_string(), &path, "application/json").await;
        let start = body.find('{')?;
        let end = body.rfind('}')?;
        let answer: serde_json::Value = serde_json::from_str(body.get(start..=end)?).ok()?;
        Some(answer["data"]["result"][0]["value"][1].as_str()?.to_owned())
    };
    let closed = "duewheel_settled_total%7Boutcome%3D%22closed%22%7D";
    eventually(PATIENCE, async || (ask(closed).await? == "20").then_some(())).await;
    assert_eq!(ask("up").await.as_deref(), Some("1"));
    let within = "sum(duewheel_lateness_seconds_bucket%7Ble%3D%22300.0%22%7D)";
    assert_eq!(ask(within).await.as_deref(), Some("20"));
    drop(prometheus);
    worker.drain().await;
}
