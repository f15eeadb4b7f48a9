//! Connections: kept, closed in time, and robust against what comes over them.

use std::time::{Duration, Instant};

use duewheel::hook::Verdict;
use duewheel::hook::webhook::WebhookHook;

use super::{hook, judge, lease, reason, settings};
use crate::rig::stub::{Answer, Body, Stub, StubSettings};
use crate::rig::{PATIENCE, eventually, own_process, resident_bytes};

#[tokio::test]
async fn calls_share_one_connection() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    for n in 0..50 {
        let answer = if n % 3 == 0 { Answer::status(500).body("no") } else { Answer::status(204) };
        stub.otherwise(answer);
        judge(&hook, &lease("o1")).await;
    }
    assert_eq!((stub.connections(), stub.calls().len()), (1, 50));
}

#[tokio::test]
async fn a_server_that_wants_no_second_call_on_a_connection_gets_none() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    stub.otherwise(Answer::status(200).header("connection", "close"));
    for _ in 0..3 {
        assert_eq!(judge(&hook, &lease("o1")).await, Verdict::Closed);
    }
    assert_eq!((stub.connections(), stub.calls().len()), (3, 3));
}

#[tokio::test]
async fn the_servers_own_idle_time_is_obeyed_when_it_is_shorter() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    stub.otherwise(Answer::status(200).header("keep-alive", "timeout=1, max=100"));
    for _ in 0..3 {
        assert_eq!(judge(&hook, &lease("o1")).await, Verdict::Closed);
    }
    assert_eq!(stub.connections(), 3, "a second less than 1 s is no time to keep it");
    stub.otherwise(Answer::status(200).header("keep-alive", "timeout=60"));
    for _ in 0..3 {
        assert_eq!(judge(&hook, &lease("o1")).await, Verdict::Closed);
    }
    assert_eq!(stub.connections(), 4);
}

#[tokio::test]
async fn an_idle_connection_is_closed_without_another_call() {
    let stub = Stub::start().await;
    let mut settings = settings(&stub.url("/close"));
    settings.idle_timeout = Duration::from_millis(150);
    let hook = WebhookHook::new(&settings).unwrap();
    for _ in 0..2 {
        judge(&hook, &lease("o1")).await;
        assert_eq!(stub.open(), 1);
        eventually(PATIENCE, || async { (stub.open() == 0).then_some(()) }).await;
    }
    assert_eq!(stub.connections(), 2);
}

#[tokio::test]
async fn dropping_the_hook_closes_its_connections() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    judge(&hook, &lease("o1")).await;
    assert_eq!(stub.open(), 1);
    drop(hook);
    // Well before the idle time of 4 s.
    eventually(Duration::from_secs(2), || async { (stub.open() == 0).then_some(()) }).await;
}

#[tokio::test]
async fn a_call_that_dies_on_a_kept_connection_is_sent_again_at_once_and_only_once() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    stub.script("first", vec![Answer::status(200)]);
    judge(&hook, &lease("first")).await;

    // Closed as the call arrives: sent again over a new connection, under the same webhook-id.
    stub.script("o1", vec![Answer::status(200).of(Body::Drop), Answer::status(200)]);
    assert_eq!(judge(&hook, &lease("o1")).await, Verdict::Closed);
    let calls = stub.calls_for("o1");
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].header("webhook-id"), calls[1].header("webhook-id"));
    assert_eq!(calls[0].data()["attempt"], calls[1].data()["attempt"]);
    assert_ne!(calls[0].connection, calls[1].connection);
    assert!(calls[1].arrived_ms - calls[0].arrived_ms < 1000);

    // A server that drops every call is not asked a third time.
    stub.script("o2", vec![Answer::status(200).of(Body::Drop)]);
    assert!(matches!(judge(&hook, &lease("o2")).await, Verdict::Unavailable { .. }));
    assert_eq!(stub.calls_for("o2").len(), 2);
    // Over a new connection it is not the race.
    assert!(matches!(judge(&hook, &lease("o2")).await, Verdict::Unavailable { .. }));
    assert_eq!(stub.calls_for("o2").len(), 3);
}

#[tokio::test]
async fn a_call_whose_answer_had_begun_is_not_sent_again() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    for (n, bytes) in [&b"H"[..], b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{"]
        .iter()
        .enumerate()
    {
        judge(&hook, &lease("first")).await;
        let id = format!("o{n}");
        stub.script(&id, vec![Answer::status(200).of(Body::Broken(bytes.to_vec())), Answer::status(200)]);
        let verdict = judge(&hook, &lease(&id)).await;
        assert!(matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");
        assert_eq!(stub.calls_for(&id).len(), 1, "{bytes:?}");
    }
}

#[tokio::test]
async fn a_server_that_closes_idle_connections_just_then_costs_no_order_and_no_attempt() {
    // Each caller comes back just as the server gives up waiting, a little before or after.
    const IDLE: Duration = Duration::from_millis(50);
    const CALLERS: usize = 6;
    const CALLS: usize = 50;
    let stub = Stub::start_as(StubSettings { idle_close: Some(IDLE), ..StubSettings::default() }).await;
    let callers = (0..CALLERS).map(|caller| {
        let stub = &stub;
        async move {
            let hook = hook(stub);
            for n in 0..CALLS {
                let verdict = judge(&hook, &lease(&format!("o{caller}-{n}"))).await;
                assert_eq!(verdict, Verdict::Closed, "call {n}");
                let offset = Duration::from_micros(fastrand::u64(0..4000));
                tokio::time::sleep(IDLE - Duration::from_millis(2) + offset).await;
            }
        }
    });
    futures_util::future::join_all(callers).await;
    let connections = stub.connections();
    assert!(connections > CALLERS as u64, "no connection was closed: the test shows nothing");
    for caller in 0..CALLERS {
        for n in 0..CALLS {
            let calls = stub.calls_for(&format!("o{caller}-{n}"));
            assert!((1..=2).contains(&calls.len()));
            assert!(calls.iter().all(|call| call.header("webhook-id") == calls[0].header("webhook-id")));
        }
    }
}

#[tokio::test]
async fn bytes_behind_an_answer_are_not_the_answer_to_the_next_call() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    let lying = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nOKHTTP/1.1 409 No\r\ncontent-length: 20\r\n\r\n{\"verdict\":\"rejected\"}";
    for n in 0..200 {
        stub.script("lies", vec![Answer::status(200).of(Body::Raw(lying.to_vec()))]);
        assert_eq!(judge(&hook, &lease("lies")).await, Verdict::Closed, "round {n}");
        stub.script("o1", vec![Answer::status(200).body(r#"{"verdict":"paid"}"#)]);
        assert_eq!(
            judge(&hook, &lease("o1")).await,
            Verdict::Skipped { state: "paid".to_owned() },
            "round {n}"
        );
    }
}

#[tokio::test]
async fn an_endpoint_that_restarts_is_found_again() {
    let stub = Stub::start().await;
    let address = stub.address();
    let hook = hook(&stub);
    assert_eq!(judge(&hook, &lease("o1")).await, Verdict::Closed);
    drop(stub);
    let verdict = eventually(PATIENCE, || async {
        let verdict = judge(&hook, &lease("o1")).await;
        (verdict != Verdict::Closed).then_some(verdict)
    })
    .await;
    assert!(matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");
    let _again = Stub::start_as(StubSettings { listen: address, ..StubSettings::default() }).await;
    assert_eq!(judge(&hook, &lease("o1")).await, Verdict::Closed);
}

#[tokio::test]
async fn a_body_that_drips_ends_with_the_timeout() {
    let stub = Stub::start().await;
    let mut settings = settings(&stub.url("/close"));
    settings.timeout = Duration::from_millis(400);
    settings.connect_timeout = Duration::from_millis(400);
    let hook = WebhookHook::new(&settings).unwrap();
    stub.otherwise(Answer::status(200).of(Body::Drip(Duration::from_millis(20))));
    let began = Instant::now();
    let verdict = judge(&hook, &lease("o1")).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");
    eventually(PATIENCE, || async { (stub.open() == 0).then_some(()) }).await;
}

#[tokio::test]
async fn giant_answers_are_decided_by_their_status_and_cost_little_memory() {
    if !own_process(
        "webhook::connection::giant_answers_are_decided_by_their_status_and_cost_little_memory",
        Vec::new,
    ) {
        return;
    }
    let stub = Stub::start().await;
    let hook = hook(&stub);
    judge(&hook, &lease("warm")).await;
    let before = resident_bytes();
    let gib = 1 << 30;
    let big_header = "x".repeat(64 * 1024);
    let mut many_lines = b"HTTP/1.1 200 OK\r\n".to_vec();
    (0..10_000).for_each(|n| many_lines.extend_from_slice(format!("h{n}: x\r\n").as_bytes()));
    many_lines.extend_from_slice(b"content-length: 0\r\n\r\n");
    let mut endless_head = b"HTTP/1.1 200 OK\r\nx: ".to_vec();
    endless_head.resize(4 << 20, b'x');
    for (n, answer) in [
        Answer::status(200).of(Body::Giant(4 * gib)),
        Answer::status(500).of(Body::Giant(gib)),
        Answer::status(200).of(Body::Giant(gib)).header("content-encoding", "gzip"),
        Answer::status(503).of(Body::Giant(gib)).header("content-encoding", "br"),
        Answer::status(200).header("x-big", &big_header),
        Answer::status(200).of(Body::Raw(many_lines)),
        Answer::status(200).of(Body::Raw(endless_head)),
        Answer::status(500).body(vec![0xfe; 1 << 20]),
    ]
    .into_iter()
    .enumerate()
    {
        let status = answer.status;
        stub.script("o1", vec![answer]);
        let began = Instant::now();
        let verdict = judge(&hook, &lease("o1")).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{n}: {:?}", began.elapsed());
        match (n, status) {
            // No valid head, so no status.
            (5 | 6, _) | (_, 503) => {
                assert!(matches!(verdict, Verdict::Unavailable { .. }), "{n}: {verdict:?}")
            }
            (_, 200) => assert_eq!(verdict, Verdict::Closed, "{n}"),
            _ => assert!(matches!(verdict, Verdict::Failed { .. }), "{n}: {verdict:?}"),
        }
        if verdict != Verdict::Closed {
            assert!(reason(&verdict).len() <= 4096, "{n}");
        }
        // Whatever was not read went with its connection.
        assert_eq!(judge(&hook, &lease("next")).await, Verdict::Closed, "{n}");
    }
    // The stub's own buffers for what it sends are in this figure, too.
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown <= 20 << 20, "{} MiB more", grown >> 20);
}
