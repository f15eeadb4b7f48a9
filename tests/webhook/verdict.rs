//! Each answer of an endpoint, and what it means for the order (the verdict table).

use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::hook::Verdict;
use duewheel::hook::webhook::WebhookHook;

use super::{SECRET, hook, judge, lease, reason, secret, settings, verdict_on};
use crate::rig::free_port;
use crate::rig::stub::{Answer, Body, Stub};

#[tokio::test]
async fn every_success_closes() {
    for status in [200, 201, 202, 204, 205, 206, 299] {
        assert_eq!(verdict_on(Answer::status(status)).await, Verdict::Closed, "{status}");
    }
}

#[tokio::test]
async fn a_success_in_any_other_words_closes() {
    for body in [
        "OK",
        "<html>",
        "null",
        "[]",
        "{}",
        r#"{"verdict":7}"#,
        r#"{"verdict":null}"#,
        r#"{"result":"paid"}"#,
        "\u{0}",
    ] {
        assert_eq!(verdict_on(Answer::status(200).body(body)).await, Verdict::Closed, "{body}");
    }
}

#[tokio::test]
async fn our_answer_is_honoured_under_any_status_but_a_redirect() {
    let skipped = |state: &str| Verdict::Skipped { state: state.to_owned() };
    for status in [200, 202, 400, 404, 409, 410, 422, 500, 503] {
        for (body, expected) in [
            (r#"{"verdict":"closed"}"#, Verdict::Closed),
            (r#"{"verdict":"paid"}"#, skipped("paid")),
            (r#"{"verdict":"already_closed"}"#, skipped("closed")),
            (r#"{"verdict":"skipped"}"#, skipped("skipped")),
            (r#"{"verdict":"skipped","state":"shipped","more":[1]}"#, skipped("shipped")),
            (r#"{"verdict":"not_due"}"#, Verdict::NotDue { until: None }),
        ] {
            assert_eq!(verdict_on(Answer::verdict(status, body)).await, expected, "{status} {body}");
        }
        let rejected =
            verdict_on(Answer::verdict(status, r#"{"verdict":"rejected","reason":"a test order"}"#)).await;
        assert!(
            matches!(&rejected, Verdict::Rejected { reason } if reason.contains("a test order")),
            "{rejected:?}"
        );
        let gone = verdict_on(Answer::verdict(status, r#"{"verdict":"gone"}"#)).await;
        assert!(matches!(&gone, Verdict::Gone { .. }), "{gone:?}");
        let failed = verdict_on(Answer::verdict(status, r#"{"verdict":"failed"}"#)).await;
        assert!(matches!(&failed, Verdict::Failed { .. }), "{failed:?}");
        let unavailable = verdict_on(Answer::verdict(status, r#"{"verdict":"unavailable"}"#)).await;
        assert!(matches!(&unavailable, Verdict::Unavailable { .. }), "{unavailable:?}");
    }
}

#[tokio::test]
async fn not_due_carries_the_tables_own_close_time() {
    let until = Some(Moment::from_millis(1_800_000_000_123).unwrap());
    for body in [
        r#"{"verdict":"not_due","until":"2027-01-15T08:00:00.123Z"}"#,
        r#"{"verdict":"not_due","close_at":"2027-01-15T16:00:00.123+08:00"}"#,
        r#"{"verdict":"not_due","until":1800000000123}"#,
    ] {
        assert_eq!(verdict_on(Answer::verdict(409, body)).await, Verdict::NotDue { until }, "{body}");
    }
    // A local time without an offset, seconds, and a date are guesses: the worker's own wait is used.
    for body in [
        r#"{"verdict":"not_due","until":"2027-01-15 08:00:00"}"#,
        r#"{"verdict":"not_due","until":1800000000}"#,
        r#"{"verdict":"not_due","until":true}"#,
        r#"{"verdict":"not_due","close_at":null}"#,
    ] {
        assert_eq!(verdict_on(Answer::verdict(200, body)).await, Verdict::NotDue { until: None }, "{body}");
    }
}

#[tokio::test]
async fn a_success_with_a_word_that_is_not_ours_does_not_end_the_order() {
    let verdict = verdict_on(Answer::verdict(200, r#"{"verdict":"retry_tomorrow"}"#)).await;
    assert!(
        matches!(&verdict, Verdict::Failed { reason } if reason.contains("retry_tomorrow")),
        "{verdict:?}"
    );
}

#[tokio::test]
async fn a_bare_refusal_is_a_failed_attempt_and_never_an_answer() {
    for status in [400, 401, 403, 404, 405, 409, 410, 413, 422, 451, 499, 500, 501, 505, 507, 599] {
        let verdict = verdict_on(Answer::status(status).body("<h1>no such page</h1>")).await;
        assert!(matches!(verdict, Verdict::Failed { .. }), "{status}: {verdict:?}");
        assert!(reason(&verdict).contains(&format!("status {status}")), "{verdict:?}");
        assert!(reason(&verdict).contains("no such page"), "{verdict:?}");
    }
}

#[tokio::test]
async fn an_overloaded_endpoint_is_unavailable_and_costs_no_attempt() {
    for status in [408, 425, 429, 502, 503, 504] {
        let verdict = verdict_on(Answer::status(status)).await;
        assert!(matches!(verdict, Verdict::Unavailable { retry_after: None, .. }), "{status}: {verdict:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_never_followed_and_never_a_success() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    for status in [300, 301, 302, 303, 304, 305, 307, 308] {
        for location in ["/login", "http://169.254.169.254/latest/meta-data?token=hush", "", "/close"] {
            let answer = Answer::verdict(status, r#"{"verdict":"closed"}"#).header("location", location);
            stub.otherwise(answer);
            let verdict = judge(&hook, &lease("o1")).await;
            assert!(matches!(verdict, Verdict::Failed { .. }), "{status}: {verdict:?}");
            assert!(reason(&verdict).contains(location.split('?').next().unwrap()), "{verdict:?}");
            assert!(!reason(&verdict).contains("hush"), "{verdict:?}");
        }
        stub.otherwise(Answer::status(status));
        assert!(
            matches!(judge(&hook, &lease("o1")).await, Verdict::Failed { .. }),
            "{status} without Location"
        );
    }
    assert_eq!(stub.calls().len(), 8 * 5);
    assert!(stub.calls().iter().all(|call| call.path == "/close" && call.method == "POST"));
}

#[tokio::test]
async fn retry_after_is_obeyed_in_all_its_forms() {
    let cap = Duration::from_secs(3600);
    let at = |seconds: u64, form: &str| {
        let date = jiff::Timestamp::now() + Duration::from_secs(seconds);
        date.strftime(form).to_string()
    };
    let imf = |seconds| at(seconds, "%a, %d %b %Y %H:%M:%S GMT");
    for status in [408, 425, 429, 502, 503, 504] {
        for (value, least, most) in [
            ("3".to_owned(), 3, 3),
            ("0".to_owned(), 0, 0),
            (" 7 ".to_owned(), 7, 7),
            // A date is written before the calls in front of it are made, which takes its time on a loaded machine.
            (imf(30), 5, 30),
            (at(30, "%A, %d-%b-%y %H:%M:%S GMT"), 5, 30),
            (at(30, "%a %b %e %H:%M:%S %Y"), 5, 30),
            ("99999999999".to_owned(), 3600, 3600),
            ("9".repeat(40), 3600, 3600),
            (imf(864_000), 3600, 3600),
        ] {
            let verdict = verdict_on(Answer::status(status).header("retry-after", &value)).await;
            let Verdict::Unavailable { retry_after: Some(wait), .. } = verdict else {
                panic!("{status}, {value}: {verdict:?}");
            };
            let fits = wait >= Duration::from_secs(least) && wait <= Duration::from_secs(most);
            assert!(fits && wait <= cap, "{status}, {value}: {wait:?}");
        }
    }
}

#[tokio::test]
async fn a_bad_retry_after_is_ignored() {
    let past = "Sun, 06 Nov 1994 08:49:37 GMT";
    for value in [
        "-1",
        "1.5",
        "abc",
        "",
        past,
        "3s",
        "0x10",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ] {
        let verdict = verdict_on(Answer::status(429).header("retry-after", value)).await;
        assert!(matches!(verdict, Verdict::Unavailable { retry_after: None, .. }), "{value}: {verdict:?}");
    }
}

#[tokio::test]
async fn retry_after_says_nothing_beside_a_success_or_a_failure() {
    assert_eq!(verdict_on(Answer::status(200).header("retry-after", "30")).await, Verdict::Closed);
    let failed = verdict_on(Answer::status(500).header("retry-after", "30")).await;
    assert!(matches!(failed, Verdict::Failed { .. }), "{failed:?}");
}

#[tokio::test]
async fn a_closed_port_is_unavailable_and_named() {
    let hook = WebhookHook::new(&settings(&format!("http://127.0.0.1:{}/", free_port()))).unwrap();
    let verdict = judge(&hook, &lease("o1")).await;
    assert!(matches!(verdict, Verdict::Unavailable { retry_after: None, .. }), "{verdict:?}");
    assert!(reason(&verdict).to_lowercase().contains("refused"), "{verdict:?}");
}

#[tokio::test]
async fn an_endpoint_that_never_answers_is_unavailable_after_the_timeout() {
    let stub = Stub::start().await;
    stub.otherwise(Answer::status(200).of(Body::Hang));
    let mut settings = settings(&stub.url("/close"));
    settings.timeout = Duration::from_millis(300);
    settings.connect_timeout = Duration::from_millis(300);
    let hook = WebhookHook::new(&settings).unwrap();
    let began = std::time::Instant::now();
    let verdict = judge(&hook, &lease("o1")).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");
    assert!(reason(&verdict).contains("no answer within"), "{verdict:?}");
}

#[tokio::test]
async fn a_slow_answer_within_the_timeout_is_one_call_and_closes() {
    assert_eq!(verdict_on(Answer::status(200).after(Duration::from_millis(1500))).await, Verdict::Closed);
}

#[tokio::test]
async fn a_call_does_not_outlive_its_lease() {
    let stub = Stub::start().await;
    stub.otherwise(Answer::status(200).of(Body::Hang));
    let hook = hook(&stub);
    let mut lease = lease("o1");
    lease.trusted_until = std::time::Instant::now() + Duration::from_millis(200);
    let began = std::time::Instant::now();
    assert!(matches!(judge(&hook, &lease).await, Verdict::Unavailable { .. }));
    assert!(began.elapsed() < Duration::from_secs(2));
    // The lease is over now: nothing is sent any more.
    assert!(matches!(judge(&hook, &lease).await, Verdict::Unavailable { .. }));
    assert_eq!(stub.calls().len(), 1);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_again_and_not_believed() {
    for body in [
        Body::CutShort(br#"{"verdict":"cl"#.to_vec()),
        Body::Broken(b"HTTP/1.1 200 OK\r\ncontent-le".to_vec()),
        Body::Broken(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"ve".to_vec()),
    ] {
        let verdict = verdict_on(Answer::status(200).of(body.clone())).await;
        assert!(matches!(verdict, Verdict::Unavailable { .. }), "{body:?}: {verdict:?}");
    }
    let dropped = verdict_on(Answer::status(200).of(Body::Drop)).await;
    assert!(matches!(dropped, Verdict::Unavailable { .. }), "{dropped:?}");
}

#[tokio::test]
async fn bytes_that_are_no_http_are_unavailable() {
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.2\r\n\r\n"[..],
        b"\x15\x03\x01\x00\x02\x02\x46\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
    ] {
        let verdict = verdict_on(Answer::status(200).of(Body::Raw(bytes.to_vec()))).await;
        assert!(matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");
    }
}

#[tokio::test]
async fn what_an_endpoint_writes_cannot_forge_a_line_or_move_a_cursor() {
    let nasty = format!("x\n2026-01-01 ERROR fake\r\u{1b}[2J\u{202e}{}", "A".repeat(5000));
    for answer in [
        Answer::status(500).body(nasty.clone()),
        Answer::status(503).body(nasty.clone()),
        Answer::verdict(409, &serde_json::json!({"verdict": "rejected", "reason": nasty}).to_string()),
        Answer::verdict(200, &serde_json::json!({"verdict": nasty}).to_string()),
    ] {
        let verdict = verdict_on(answer).await;
        let reason = reason(&verdict);
        assert!(reason.len() <= 4096, "{} bytes", reason.len());
        assert!(reason.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{reason}");
        assert!(reason.contains("\\u{a}2026-01-01 ERROR fake"), "{reason}");
    }
    let skipped = verdict_on(Answer::verdict(200, r#"{"verdict":"skipped","state":"a\nb\u001b[2J"}"#)).await;
    assert!(
        matches!(&skipped, Verdict::Skipped { state } if !state.contains(['\n', '\u{1b}'])),
        "{skipped:?}"
    );
}

#[tokio::test]
async fn a_reason_is_utf8_of_at_most_4_kib_whatever_came() {
    for body in [vec![0xff; 60_000], "订".repeat(20_000).into_bytes(), vec![0; 60_000], vec![b'x'; 4096]] {
        let verdict = verdict_on(Answer::status(500).body(body)).await;
        assert!(reason(&verdict).len() <= 4096);
        assert!(reason(&verdict).len() > 1000);
    }
}

#[tokio::test]
async fn secrets_that_an_endpoint_echoes_are_not_kept() {
    let stub = Stub::start().await;
    let token = "canary-token-0123456789";
    let mut settings = settings(&stub.url("/close?key=canary-query"));
    settings.headers = vec![("Authorization".to_owned(), format!("Bearer {token}").into())];
    let echo = format!("headers were: authorization: Bearer {token}; only the token: {token}; key {SECRET}");
    stub.otherwise(Answer::status(500).body(echo));
    let hook = WebhookHook::new(&settings).unwrap();
    let verdict = judge(&hook, &lease("o1")).await;
    for canary in [token, SECRET, "canary-query"] {
        assert!(!reason(&verdict).contains(canary), "{verdict:?}");
        assert!(!format!("{settings:?}").contains(canary), "{settings:?}");
    }
    assert!(reason(&verdict).contains("[redacted]"), "{verdict:?}");
    assert_eq!(stub.calls()[0].header("authorization"), Some("Bearer canary-token-0123456789"));
    assert_eq!(stub.calls()[0].path, "/close?key=canary-query");

    let other = "whsec_bm90IHRoZSBmaXJzdCBzZWNyZXQsIGJ1dCBpdHMgaGVpcg==";
    hook.set_secrets(&[secret(other)]).unwrap();
    stub.otherwise(Answer::status(500).body(format!("{token} {other}")));
    let verdict = judge(&hook, &lease("o1")).await;
    assert!(!reason(&verdict).contains(token) && !reason(&verdict).contains(other), "{verdict:?}");
}

#[tokio::test]
async fn every_legal_way_to_send_an_answer_is_read() {
    let paid = r#"{"verdict":"paid"}"#;
    let skipped = Verdict::Skipped { state: "paid".to_owned() };
    for (answer, expected) in [
        // The body ends with the connection.
        (Body::Broken(format!("HTTP/1.1 200 OK\r\n\r\n{paid}").into()), &skipped),
        (Body::Broken(format!("HTTP/1.0 200 OK\r\nserver: old\r\n\r\n{paid}").into()), &skipped),
        (Body::Raw(format!("HTTP/1.1 409\r\ncontent-length: 18\r\n\r\n{paid}").into()), &skipped),
        // Chunks, an extension and a trailer.
        (
            Body::Raw(
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9;x=y\r\n{\"verdict\r\n9\r\n\":\"paid\"}\r\n0\r\nt: 1\r\n\r\n"
                    .to_vec(),
            ),
            &skipped,
        ),
        // Hints before the answer are not the answer.
        (
            Body::Raw(b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n".to_vec()),
            &Verdict::Closed,
        ),
        (
            Body::Raw(
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\n{\"verdict\":\"paid\"}".to_vec(),
            ),
            &skipped,
        ),
    ] {
        assert_eq!(verdict_on(Answer::status(200).of(answer.clone())).await, *expected, "{answer:?}");
    }
}

#[tokio::test]
async fn a_switch_of_protocols_is_no_answer() {
    let bytes = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
    let verdict = verdict_on(Answer::status(101).of(Body::Raw(bytes.to_vec()))).await;
    assert_ne!(verdict, Verdict::Closed);
    assert!(!reason(&verdict).is_empty());
}

#[tokio::test]
async fn smuggled_lengths_never_become_another_answer() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 18\r\n\r\n{\"verdict\":\"gone\"}"[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nx",
    ] {
        let verdict = verdict_on(Answer::status(200).of(Body::Raw(bytes.to_vec()))).await;
        assert!(matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");
    }
}
