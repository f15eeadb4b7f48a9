//! The trace of an order: what is given at enqueue is found again wherever the order comes by.

#[cfg(feature = "otlp")]
mod collector;

use crate::rig::PATIENCE;
#[cfg(feature = "otlp")]
use crate::rig::eventually;
use crate::rig::redis::RedisServer;
use crate::rig::shop::{Kind, Shop};
use crate::rig::stub::Stub;
use crate::rig::worker::{Fleet, Plan, Process};
#[cfg(feature = "otlp")]
use collector::Collector;

const CALLED: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLOSED: &str = "0af7651916cd43dd8448eb211c80319c";
#[cfg(feature = "otlp")]
const LAST: &str = "1bf7651916cd43dd8448eb211c80319c";

fn traceparent(trace_id: &str) -> String {
    format!("00-{trace_id}-00f067aa0ba902b7-01")
}

#[cfg(feature = "otlp")]
/// Starts a worker that logs every close as JSON and exports its spans there.
fn start(fleet: &Fleet, collector: &str) -> Process {
    fleet.start_with(&[
        ("DUEWHEEL_LOG__FORMAT", "json"),
        ("DUEWHEEL_LOG__LEVEL", "info,duewheel::worker=debug"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", collector),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20canary"),
        ("OTEL_SERVICE_NAME", "closer"),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
    ])
}

/// The log line of an order's verdict.
fn logged(process: &Process, id: &str) -> serde_json::Value {
    let log = process.log();
    let mut lines =
        log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line of JSON"));
    let found = lines.rfind(|line| line["id"] == id && line["verdict"] == "closed");
    found.unwrap_or_else(|| panic!("no line for {id} in\n{log}"))
}

#[cfg(feature = "otlp")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_id_given_at_enqueue_is_found_in_the_webhook_the_audit_row_the_log_line_and_the_exported_span()
 {
    let (server, stub, collector) = (RedisServer::shared(), Stub::start().await, Collector::start().await);
    let shop = Shop::open(Kind::Sqlite, 1).await;
    shop.orders([4711], -1000, &[(0, 1)]).await;
    let calling = Fleet::new(server, &Plan::new(server.url()).calling(&stub.url("/close"))).await;
    let closing = Fleet::new(server, &Plan::new(server.url()).closing(&shop)).await;
    for (fleet, trace_id) in [(&calling, CALLED), (&closing, CLOSED)] {
        let wheel = fleet.wheel.name().as_str();
        fleet
            .run(&[
                "--wheel",
                wheel,
                "enqueue",
                "4711",
                "--in",
                "0s",
                "--traceparent",
                &traceparent(trace_id),
            ])
            .ends(0);
    }
    let workers = [start(&calling, &collector.url()), start(&closing, &collector.url())];
    calling.idle(PATIENCE).await;
    closing.idle(PATIENCE).await;

    // The webhook: a trace of its own, and where it comes from.
    let call = stub.calls_for("4711").remove(0);
    assert_eq!(call.header("duewheel-traceparent"), Some(traceparent(CALLED).as_str()));
    let own = call.header("traceparent").unwrap().split('-').nth(1).unwrap().to_owned();
    assert_ne!(own, CALLED);

    // The audit row.
    let rows = shop.db.rows("SELECT trace_id FROM closes WHERE order_id = '4711'").await;
    assert_eq!(rows, [[Some(CLOSED.to_owned())]]);

    // The log lines.
    for (worker, trace_id) in workers.iter().zip([CALLED, CLOSED]) {
        assert_eq!(logged(worker, "4711")["trace_id"], trace_id);
    }

    // The spans.
    let span = eventually(PATIENCE, async || collector.linked_to(CALLED)).await;
    assert_eq!(
        (span.name.as_str(), span.trace_id.as_str(), span.parent_id.as_str()),
        ("close", own.as_str(), "")
    );
    assert_eq!(span.service, "closer");
    let other = eventually(PATIENCE, async || collector.linked_to(CLOSED)).await;
    assert_ne!(other.trace_id, span.trace_id);
    let export = collector.requests().remove(0);
    assert_eq!(export.header("authorization"), Some("Bearer canary"));
    assert_eq!(
        (export.path.as_str(), export.header("content-type")),
        ("/v1/traces", Some("application/x-protobuf"))
    );
    for worker in workers {
        worker.drain().await;
    }
}

#[cfg(all(feature = "otlp", feature = "page"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_enqueue_over_http_is_a_span_below_its_callers_and_the_close_is_linked_to_the_same_trace() {
    use crate::rig::api::Client;
    use crate::rig::page::Page;
    let (server, stub, collector) = (RedisServer::shared(), Stub::start().await, Collector::start().await);
    let fleet = Fleet::new(server, &Plan::new(server.url()).calling(&stub.url("/close"))).await;
    let mut command = fleet.command();
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    command.env("OTEL_SERVICE_NAME", "door").env("OTEL_BSP_SCHEDULE_DELAY", "100");
    let served = Page::serve(command);
    let mut client = Client::connect(served.base.trim_start_matches("http://").parse().unwrap()).await;
    let json = ("content-type", "application/json");
    let sent = traceparent(CALLED);
    let path = format!("/v1/wheels/{}/deadlines", fleet.wheel.name());
    let one = format!("{path}/4711");
    let refused = client.send("PUT", &one, &[json, ("traceparent", &sent)], r#"{"in":"0s"}"#).await;
    refused.problem(401, "unauthorized");
    client.token = Some(served.operator.clone());
    client.send("PUT", &one, &[json, ("traceparent", &sent)], r#"{"in":"0s"}"#).await.is(201);
    let batch = format!(r#"[{{"id":"4712","in":"1h","traceparent":"{}"}}]"#, traceparent(CLOSED));
    client.send("POST", &path, &[json, ("traceparent", &traceparent(CLOSED))], &batch).await.is(200);
    client.send("GET", &one, &[("traceparent", "00-nonsense")], "").await.is(200);

    let seen = async |name: &str, trace_id: &str| {
        eventually(PATIENCE, async || collector.named(name, trace_id)).await
    };
    for (name, trace_id) in
        [("PUT /v1/wheels/{wheel}/deadlines/{id}", CALLED), ("POST /v1/wheels/{wheel}/deadlines", CLOSED)]
    {
        let span = seen(name, trace_id).await;
        assert_eq!((span.service.as_str(), span.parent_id.as_str()), ("door", "00f067aa0ba902b7"), "{name}");
    }
    // Whoever tells of no trace begins one.
    let look = eventually(PATIENCE, async || {
        collector.spans().into_iter().find(|span| span.name.starts_with("GET "))
    });
    assert_eq!(look.await.parent_id, "");
    let statuses =
        || collector.spans().iter().filter(|s| s.trace_id == CALLED).map(|s| s.status).collect::<Vec<_>>();
    assert_eq!(statuses(), [401, 201]);
    // No id of an order, and no token, is in what was sent.
    for request in collector.requests() {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        assert!(!body.contains("4711") && !body.contains(&served.operator), "{body}");
    }

    // What was enqueued so is closed in a trace of its own, linked to the caller's.
    let worker = start(&fleet, &collector.url());
    let close = eventually(PATIENCE, async || collector.linked_to(CALLED)).await;
    assert_eq!((close.name.as_str(), close.service.as_str()), ("close", "closer"));
    assert_eq!(stub.calls_for("4711").remove(0).header("duewheel-traceparent"), Some(sent.as_str()));
    worker.drain().await;
    // What was not sent yet is sent when it ends.
    client
        .send("PUT", &format!("{path}/4713"), &[json, ("traceparent", &traceparent(LAST))], r#"{"in":"1h"}"#)
        .await
        .is(201);
    served.signal("TERM");
    seen("PUT /v1/wheels/{wheel}/deadlines/{id}", LAST).await;
}

#[cfg(feature = "otlp")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collector_that_is_away_costs_spans_and_no_order() {
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    let fleet = Fleet::new(server, &Plan::new(server.url()).calling(&stub.url("/close"))).await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let worker = start(&fleet, &format!("http://{nobody}"));
    fleet.enqueue(1..=50, |_| crate::rig::worker::soon(0)).await;
    fleet.idle(PATIENCE).await;
    eventually(PATIENCE, async || worker.log().contains("spans could not be exported").then_some(())).await;
    assert_eq!(worker.drain().await["closed"], 50);
}

/// Without an exporter the caller's own trace is carried on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_spans_are_exported_the_trace_of_the_enqueue_is_carried_on() {
    let (server, stub) = (RedisServer::shared(), Stub::start().await);
    let fleet = Fleet::new(server, &Plan::new(server.url()).calling(&stub.url("/close"))).await;
    let wheel = fleet.wheel.name().as_str();
    fleet
        .run(&["--wheel", wheel, "enqueue", "1", "--in", "0s", "--traceparent", &traceparent(CALLED)])
        .ends(0);
    fleet.run(&["--wheel", wheel, "enqueue", "2", "--in", "0s"]).ends(0);
    let worker = fleet.start_with(&[("DUEWHEEL_LOG__FORMAT", "json"), ("DUEWHEEL_LOG__LEVEL", "debug")]);
    fleet.idle(PATIENCE).await;
    let call = stub.calls_for("1").remove(0);
    let sent = call.header("traceparent").unwrap();
    assert!(sent.starts_with(&format!("00-{CALLED}-")) && sent != traceparent(CALLED), "{sent}");
    assert_eq!(call.header("duewheel-traceparent"), Some(traceparent(CALLED).as_str()));
    assert_eq!(logged(&worker, "1")["trace_id"], CALLED);
    let call = stub.calls_for("2").remove(0);
    assert_eq!((call.header("traceparent"), call.header("duewheel-traceparent")), (None, None));
    assert_eq!(logged(&worker, "2")["trace_id"], serde_json::Value::Null);
    worker.drain().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_closing_statement_bears_its_trace_where_that_is_asked_for() {
    use crate::rig::shop::{hook, judge_one, lease};
    let shop = Shop::open(Kind::Postgres, 0).await;
    // The database's own view of the statement that closes.
    shop.db.run("CREATE TABLE seen (statement text)").await;
    shop.db
        .run("CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (current_query()); RETURN NEW; END $$")
        .await;
    shop.db.run("CREATE TRIGGER see BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION see()").await;
    shop.orders(1..=3, -1000, &[]).await;
    let settings = duewheel::hook::sql::SqlSettings { trace_comment: true, ..shop.settings() };
    let broken = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01*/; DROP TABLE orders; --";
    for (id, given) in [(1, Some(traceparent(CLOSED))), (2, Some(broken.to_owned())), (3, None)] {
        let lease = duewheel::lease::Lease { traceparent: given, ..lease(id) };
        assert_eq!(judge_one(&hook(settings.clone()), &lease).await, duewheel::hook::Verdict::Closed);
    }
    let seen: Vec<String> = shop
        .db
        .rows("SELECT statement FROM seen")
        .await
        .into_iter()
        .filter_map(|mut row| row.remove(0))
        .collect();
    assert_eq!(seen.len(), 3);
    let comment = format!("/*traceparent='00-{CLOSED}-");
    assert!(seen[0].contains(&comment) && seen[0].trim_end().ends_with("-01'*/"), "{}", seen[0]);
    assert!(!seen[1].contains("traceparent") && !seen[2].contains("traceparent"), "{seen:?}");
}
