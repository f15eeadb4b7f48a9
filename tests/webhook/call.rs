//! What is sent: the body, the headers, the signatures, and how they stay the same or change from call to call.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use duewheel::clock::Moment;
use duewheel::deadline::{Cause, Generation, Note, Payload, Stage};
use duewheel::error::Error;
use duewheel::hook::webhook::{WebhookHook, WebhookSecret, WebhookSettings};
use duewheel::hook::{Hook, Verdict};
use duewheel::lease::Fence;
use duewheel::shard::WheelName;

use super::{SECRET, hook, judge, lease, reason, secret, settings, wheel};
use crate::rig::eventually;
use crate::rig::stub::{Answer, Body, Call, Stub};

const OTHER_SECRET: &str = "whsec_bm90IHRoZSBmaXJzdCBzZWNyZXQsIGJ1dCBpdHMgaGVpcg==";

/// Whether a receiver with the library of Standard Webhooks accepts the call.
fn verifies(call: &Call, secret: &str) -> bool {
    let mut headers = hyper::HeaderMap::new();
    for (name, value) in &call.headers {
        headers.append(hyper::header::HeaderName::try_from(name).unwrap(), value.parse().unwrap());
    }
    standardwebhooks::Webhook::new(secret).unwrap().verify(&call.body, &headers).is_ok()
}

/// Whether the second signature covers the headers, checked as docs/hook-webhook.md tells a receiver to.
fn headers_verify(call: &Call, secret: &str) -> bool {
    let key = STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
    let mut signed = "duewheel-headers-v1\n".to_owned();
    for name in [
        "webhook-id",
        "webhook-timestamp",
        "duewheel-wheel",
        "duewheel-id",
        "duewheel-generation",
        "duewheel-stage",
        "duewheel-due-at",
        "duewheel-cause",
        "duewheel-attempt",
        "duewheel-fence",
    ] {
        signed += &format!("{name}:{}\n", call.header(name).unwrap_or_default());
    }
    let given = call.header("duewheel-signature").unwrap_or_default();
    given.split(' ').any(|one| {
        let tag = STANDARD.decode(one.trim_start_matches("v1,")).unwrap();
        ring::hmac::verify(&key, signed.as_bytes(), &tag).is_ok()
    })
}

#[tokio::test]
async fn a_call_is_a_signed_post_of_the_lease() {
    let stub = Stub::start().await;
    let mut lease = lease("订单-7");
    lease.attempt = 3;
    lease.cause = Cause::Manual;
    lease.note = Some(Note::new("li", "buyer \"asked\"").unwrap());
    assert_eq!(judge(&hook(&stub), &lease).await, Verdict::Closed);

    let call = &stub.calls()[0];
    assert_eq!((call.method.as_str(), call.path.as_str()), ("POST", "/close"));
    assert_eq!(call.header("content-type"), Some("application/json"));
    assert_eq!(call.header("accept-encoding"), Some("identity"));
    assert_eq!(call.header("host"), Some(stub.address().to_string().as_str()));
    assert!(call.header("user-agent").unwrap().starts_with("duewheel/"));
    assert_eq!(call.header("content-length"), Some(call.body.len().to_string().as_str()));

    let body: serde_json::Value = serde_json::from_slice(&call.body).unwrap();
    assert_eq!(body["type"], "order.close_due");
    Moment::parse("timestamp", body["timestamp"].as_str().unwrap()).unwrap();
    let data = &body["data"];
    assert_eq!(data["wheel"], "orders");
    assert_eq!(data["id"], "订单-7");
    assert_eq!(data["generation"], 1_780_000_000_000_001_u64);
    assert_eq!(data["stage"], 0);
    assert_eq!(data["due_at"], lease.due_at.to_string());
    assert_eq!(data["cause"], "manual");
    assert_eq!(data["attempt"], 3);
    assert_eq!(data["fence"], 1_790_000_030_000_000_u64);
    assert_eq!(data["actor"], "li");
    assert_eq!(data["reason"], "buyer \"asked\"");

    for (name, value) in [
        ("duewheel-wheel", "orders"),
        ("duewheel-id", "~E8~AE~A2~E5~8D~95-7"),
        ("duewheel-generation", "1780000000000001"),
        ("duewheel-stage", "0"),
        ("duewheel-due-at", data["due_at"].as_str().unwrap()),
        ("duewheel-cause", "manual"),
        ("duewheel-attempt", "3"),
        ("duewheel-fence", "1790000030000000"),
        ("webhook-id", "orders_~E8~AE~A2~E5~8D~95-7_1780000000000001_0"),
        ("idempotency-key", "\"orders_~E8~AE~A2~E5~8D~95-7_1780000000000001_0\""),
    ] {
        assert_eq!(call.header(name), Some(value), "{name}");
    }
    assert!(verifies(call, SECRET) && headers_verify(call, SECRET));
    assert!(!verifies(call, OTHER_SECRET) && !headers_verify(call, OTHER_SECRET));
}

#[tokio::test]
async fn a_reminder_says_so() {
    let stub = Stub::start().await;
    let mut lease = lease("o1");
    lease.stage = Stage(2);
    judge(&hook(&stub), &lease).await;
    let body: serde_json::Value = serde_json::from_slice(&stub.calls()[0].body).unwrap();
    assert_eq!(
        (body["type"].as_str(), body["data"]["stage"].as_u64()),
        (Some("order.reminder_due"), Some(2))
    );
}

#[tokio::test]
async fn changing_any_signed_part_is_noticed() {
    let stub = Stub::start().await;
    judge(&hook(&stub), &lease("o1")).await;
    let call = stub.calls().remove(0);
    assert!(verifies(&call, SECRET) && headers_verify(&call, SECRET));

    let mut forged = call.clone();
    let at = forged.body.len() - 3;
    forged.body[at] ^= 1;
    assert!(!verifies(&forged, SECRET));
    for (n, (name, _)) in call.headers.iter().enumerate() {
        let covered = name == "webhook-id" || name == "webhook-timestamp" || name.starts_with("duewheel-");
        if covered && name != "duewheel-signature" {
            let mut forged = call.clone();
            forged.headers[n].1 += "1";
            assert!(!headers_verify(&forged, SECRET), "{name} may be changed");
        }
    }
    // The one signature is not the other.
    let mut swapped = call.clone();
    for (name, value) in &mut swapped.headers {
        if name == "webhook-signature" {
            *value = call.header("duewheel-signature").unwrap().to_owned();
        }
    }
    assert!(!verifies(&swapped, SECRET));
}

#[tokio::test]
async fn a_call_replayed_after_six_minutes_is_refused_by_a_receiver() {
    let stub = Stub::start().await;
    judge(&hook(&stub), &lease("o1")).await;
    let call = stub.calls().remove(0);
    let sent_at: u64 = call.header("webhook-timestamp").unwrap().parse().unwrap();
    let now = Moment::host_now().as_millis() / 1000;
    assert!(now - sent_at <= 5, "the timestamp is the moment of sending");
    let mut replayed = call;
    for (name, value) in &mut replayed.headers {
        if name == "webhook-timestamp" {
            *value = (sent_at - 360).to_string();
        }
    }
    assert!(!verifies(&replayed, SECRET));
}

#[tokio::test]
async fn the_webhook_id_stays_over_retries_and_the_signature_is_new() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    stub.script("o1", vec![Answer::status(500), Answer::status(503), Answer::status(200)]);
    let mut lease = lease("o1");
    for attempt in 1..=3 {
        lease.attempt = attempt;
        lease.fence = Fence(lease.fence.0 + 2);
        judge(&hook, &lease).await;
    }
    let calls = stub.calls();
    let ids: HashSet<_> = calls.iter().map(|call| call.header("webhook-id").unwrap()).collect();
    let keys: HashSet<_> = calls.iter().map(|call| call.header("idempotency-key").unwrap()).collect();
    let signatures: HashSet<_> = calls.iter().map(|call| call.header("webhook-signature").unwrap()).collect();
    assert_eq!((ids.len(), keys.len(), signatures.len()), (1, 1, 3));
    let fences: Vec<_> = calls.iter().map(|call| call.data()["fence"].as_u64().unwrap()).collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
    assert!(calls.iter().all(|call| verifies(call, SECRET) && headers_verify(call, SECRET)));
}

#[tokio::test]
async fn a_new_life_a_stage_and_a_neighbour_have_a_webhook_id_of_their_own() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    let mut expected = 0;
    for id in [
        "1", "1_2", "1-2", "1~2", "1~5F2", "1.2", "01", "A", "a", "a b", "a+b", "é", "e\u{301}", "订单",
        "🧾", ":", "{x}", "%41", "\"", "~",
    ] {
        for (generation, stage) in [(1, 0), (1, 1), (2, 0), (11, 0)] {
            let mut lease = lease(id);
            lease.generation = Generation(generation);
            lease.stage = Stage(stage);
            judge(&hook, &lease).await;
            expected += 1;
        }
    }
    // Wheel and id share the separator: `a_b` + `c` is not `a` + `b_c`.
    for (wheel, id) in [("a_b", "c"), ("a", "b_c"), ("a_b_c", "1"), ("a", "b")] {
        hook.judge(&WheelName::new(wheel).unwrap(), &[lease(id)]).await;
        expected += 1;
    }
    let calls = stub.calls();
    let ids: HashSet<_> = calls.iter().map(|call| call.header("webhook-id").unwrap()).collect();
    assert_eq!(ids.len(), expected);
    for id in ids {
        assert!(id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-~".contains(&b)), "{id}");
    }
    assert!(calls.iter().all(|call| verifies(call, SECRET) && headers_verify(call, SECRET)));
}

#[tokio::test]
async fn the_longest_id_in_any_script_goes_through() {
    let stub = Stub::start().await;
    for id in ["x".repeat(200), "订".repeat(66), "_".repeat(200)] {
        assert_eq!(judge(&hook(&stub), &lease(&id)).await, Verdict::Closed);
        assert_eq!(stub.calls_for(&id).len(), 1);
    }
}

#[tokio::test]
async fn the_payload_is_sent_byte_for_byte() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    for payload in [
        r#"{"order_id":9007199254740993,"n":1e400,"z":-0,"items":[],"a":1,"a":2,"s":"\u0000\ud83d\ude00 \/"}"#,
        " [ 1 ,\t2.50 ] ",
        "null",
        "\"订单\"",
        "0.1000",
    ] {
        let mut lease = lease("o1");
        lease.payload = Payload::from_json(payload).unwrap();
        judge(&hook, &lease).await;
        let body = stub.calls().pop().unwrap().body;
        let body = String::from_utf8(body).unwrap();
        assert!(body.ends_with(&format!(r#","payload":{payload}}}}}"#)), "{body}");
    }
    let mut lease = lease("o1");
    lease.payload = Payload::default();
    judge(&hook, &lease).await;
    assert!(stub.calls().pop().unwrap().body.ends_with(br#","payload":null}}"#));
    lease.payload = Payload::from_json(format!("\"{}\"", "x".repeat(Payload::MAX_BYTES - 2))).unwrap();
    assert_eq!(judge(&hook, &lease).await, Verdict::Closed);
    assert!(stub.calls().pop().unwrap().body.len() > Payload::MAX_BYTES);
}

#[tokio::test]
async fn a_payload_planted_in_redis_cannot_become_another_order() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    for planted in [
        &br#"null,"id":"other""#[..],
        br#"null}},{"data":{"id":"other""#,
        br#"{"a":1}},"x":{"id":"other"}"#,
        b"\xff\xfe",
        b"\"\xff\"",
        b"{",
        b"NaN",
    ] {
        let mut lease = lease("o1");
        lease.payload = Payload::from_stored(planted.to_vec());
        assert_eq!(judge(&hook, &lease).await, Verdict::Closed);
        let call = stub.calls().pop().unwrap();
        let data = call.data();
        assert_eq!((data["id"].as_str(), &data["payload"]), (Some("o1"), &serde_json::Value::Null));
        assert_eq!(STANDARD.decode(data["payload_base64"].as_str().unwrap()).unwrap(), planted);
    }
}

#[tokio::test]
async fn a_traceparent_goes_on_with_a_parent_of_its_own() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let mut parents = HashSet::from(["00f067aa0ba902b7".to_owned()]);
    for _ in 0..10 {
        let mut lease = lease("o1");
        lease.traceparent = Some(given.to_owned());
        judge(&hook, &lease).await;
        let sent = stub.calls().pop().unwrap().header("traceparent").unwrap().to_owned();
        let parts: Vec<_> = sent.split('-').collect();
        assert_eq!((parts[0], parts[1], parts[3]), ("00", "4bf92f3577b34da6a3ce929d0e0e4736", "01"));
        assert!(parts[2].len() == 16 && parents.insert(parts[2].to_owned()), "{sent}");
    }
}

#[tokio::test]
async fn a_traceparent_that_is_none_is_left_out() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    for given in [
        None,
        Some(""),
        Some("00-00000000000000000000000000000000-00f067aa0ba902b7-01"),
        Some("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"),
        Some("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"),
        Some("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra"),
        Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nx: y"),
        Some("hello"),
    ] {
        let mut lease = lease("o1");
        lease.traceparent = given.map(str::to_owned);
        assert_eq!(judge(&hook, &lease).await, Verdict::Closed);
        assert_eq!(stub.calls().pop().unwrap().header("traceparent"), None, "{given:?}");
    }
}

#[tokio::test]
async fn headers_and_query_are_secrets_that_change_without_a_restart_and_the_endpoint_is_not() {
    let stub = Stub::start().await;
    let with = |path: &str, token: &str| WebhookSettings {
        headers: vec![("authorization".to_owned(), format!("Bearer {token}").into())],
        ..settings(&stub.url(path))
    };
    let hook = WebhookHook::new(&with("/close?key=old-key-1", "old-token")).unwrap();
    judge(&hook, &lease("o1")).await;
    hook.take_over(&with("/close?key=new-key-2", "new-token")).unwrap();
    judge(&hook, &lease("o2")).await;
    let elsewhere = hook.take_over(&with("/other?key=new-key-3", "third-token")).unwrap_err().to_string();
    assert!(elsewhere.contains("restart") && !elsewhere.contains("new-key"), "{elsewhere}");
    judge(&hook, &lease("o3")).await;
    let sent = |call: &Call| (call.path.clone(), call.header("authorization").unwrap().to_owned());
    let old = ("/close?key=old-key-1".to_owned(), "Bearer old-token".to_owned());
    let new = ("/close?key=new-key-2".to_owned(), "Bearer new-token".to_owned());
    assert_eq!(stub.calls().iter().map(sent).collect::<Vec<_>>(), [old, new.clone(), new]);
    // What is new is hidden as well as what was: the endpoint may echo it.
    stub.otherwise(Answer::status(500).body("new-token new-key-2"));
    let verdict = judge(&hook, &lease("o4")).await;
    let Verdict::Failed { reason } = &verdict else { panic!("{verdict:?}") };
    assert!(!reason.contains("new-token") && !reason.contains("new-key-2"), "{reason}");
}

#[tokio::test]
async fn while_a_secret_rotates_old_and_new_receivers_both_accept() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    let in_a_minute = Moment::host_now().plus(Duration::from_secs(60));
    let ended = Moment::from_millis(1).unwrap();
    let ends = |text: &str, at| WebhookSecret { not_after: Some(at), ..secret(text) };

    hook.set_secrets(&[secret(OTHER_SECRET), ends(SECRET, in_a_minute)]).unwrap();
    judge(&hook, &lease("o1")).await;
    hook.set_secrets(&[secret(OTHER_SECRET), ends(SECRET, ended)]).unwrap();
    judge(&hook, &lease("o1")).await;
    // A broken secret changes nothing.
    assert!(matches!(hook.set_secrets(&[secret("whsec_oops")]), Err(Error::Config(_))));
    judge(&hook, &lease("o1")).await;

    let calls = stub.calls();
    let accepted = |call: &Call| [SECRET, OTHER_SECRET].map(|s| (verifies(call, s), headers_verify(call, s)));
    assert_eq!(accepted(&calls[0]), [(true, true), (true, true)]);
    assert_eq!(accepted(&calls[1]), [(false, false), (true, true)]);
    assert_eq!(accepted(&calls[2]), [(false, false), (true, true)]);
    assert_eq!(calls[0].header("webhook-signature").unwrap().split(' ').count(), 2);
}

#[tokio::test]
async fn a_rotation_under_load_fails_no_call() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    let calls = async {
        for n in 0..300 {
            assert_eq!(judge(&hook, &lease(&format!("o{n}"))).await, Verdict::Closed);
        }
    };
    let rotate = async {
        // Each state is reached by the calls themselves, not by the clock.
        for (seen, secrets) in [
            (50, vec![secret(SECRET), secret(OTHER_SECRET)]),
            (150, vec![secret(OTHER_SECRET), secret(SECRET)]),
            (250, vec![secret(OTHER_SECRET)]),
        ] {
            eventually(Duration::from_secs(20), || async { (stub.answered() >= seen).then_some(()) }).await;
            hook.set_secrets(&secrets).unwrap();
        }
    };
    tokio::join!(calls, rotate);
    let calls = stub.calls();
    assert!(calls.iter().all(|call| verifies(call, SECRET) || verifies(call, OTHER_SECRET)));
    assert!(calls.iter().any(|call| verifies(call, SECRET) && verifies(call, OTHER_SECRET)));
    assert!(verifies(&calls[0], SECRET) && verifies(&calls[299], OTHER_SECRET));
    assert!(!verifies(&calls[299], SECRET));
}

#[tokio::test]
async fn nothing_is_sent_unsigned() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    let ended = WebhookSecret { not_after: Some(Moment::from_millis(1).unwrap()), ..secret(SECRET) };
    hook.set_secrets(&[ended]).unwrap();
    let verdict = judge(&hook, &lease("o1")).await;
    assert!(matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");
    assert!(reason(&verdict).contains("no signing secret is valid"), "{verdict:?}");
    assert_eq!(stub.calls().len(), 0);
    let warnings = hook.check().await.unwrap();
    assert!(warnings.iter().any(|warning| warning.contains("no secret is valid after")), "{warnings:?}");
}

#[test]
fn a_secret_of_the_wrong_form_is_refused_without_being_shown() {
    for (bad, why) in [
        ("", "whsec_"),
        ("C2FVsBQIhrscChlQIMV+b5sSYspob7oDHCWhkn+hgSA=", "whsec_"),
        ("WHSEC_C2FVsBQIhrscChlQIMV+b5sSYspob7oDHCWhkn+hgSA=", "whsec_"),
        ("whsec_", "0 bytes"),
        ("whsec_c2hvcnQ=", "5 bytes"),
        ("whsec_MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM=", "23 bytes"),
        ("whsec_not base64 at all!", "base64"),
        ("whsec_C2FVsBQIhrscChlQIMV-b5sSYspob7oDHCWhkn-hgSA=", "base64"),
        (" whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDHCWhkn+hgSA=", "whsec_"),
    ] {
        let mut settings = settings("http://127.0.0.1:1/");
        settings.secrets = vec![secret(bad)];
        let problem = WebhookHook::new(&settings).err().expect("refused").to_string();
        assert!(problem.contains(why), "{bad}: {problem}");
        let body = bad.trim_start_matches("whsec_");
        assert!(body.is_empty() || !problem.contains(body), "{problem}");
    }
    let mut long = settings("http://127.0.0.1:1/");
    long.secrets = vec![secret(&format!("whsec_{}", STANDARD.encode([7; 65])))];
    assert!(WebhookHook::new(&long).is_err());
    for bytes in [24, 64] {
        long.secrets = vec![secret(&format!("whsec_{}", STANDARD.encode(vec![7; bytes])))];
        assert!(WebhookHook::new(&long).is_ok(), "{bytes}");
    }
    long.secrets.clear();
    assert!(WebhookHook::new(&long).is_err(), "no secret at all");
}

#[tokio::test]
async fn own_headers_are_sent_and_reserved_ones_refused() {
    let stub = Stub::start().await;
    let mut settings = settings(&stub.url("/close"));
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned().into());
    settings.headers = vec![own("Authorization", "Bearer abc"), own("x-tenant", "7"), own("X-Tenant", "8")];
    settings.user_agent = "shop-closer/2".to_owned();
    judge(&WebhookHook::new(&settings).unwrap(), &lease("o1")).await;
    let call = &stub.calls()[0];
    assert_eq!(call.header("authorization"), Some("Bearer abc"));
    assert_eq!(call.header("user-agent"), Some("shop-closer/2"));
    assert_eq!(call.headers.iter().filter(|(name, _)| name == "x-tenant").count(), 2);

    for (name, value) in [
        ("Host", "internal"),
        ("Content-Length", "0"),
        ("content-type", "text/plain"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "upgrade"),
        ("webhook-signature", "v1,x"),
        ("Webhook-Id", "x"),
        ("duewheel-fence", "1"),
        ("Idempotency-Key", "x"),
        ("traceparent", "x"),
        ("Proxy-Authorization", "x"),
        ("User-Agent", "x"),
        ("Expect", "100-continue"),
        ("bad name", "x"),
        ("", "x"),
        ("x\r\ny", "x"),
        ("x:", "x"),
        ("x-ok", "a\r\nwebhook-id: forged"),
        ("x-ok", "a\nb"),
        ("x-ok", "\u{0}"),
        ("x-ok", &"v".repeat(5000)),
    ] {
        settings.headers = vec![own(name, value)];
        let problem =
            WebhookHook::new(&settings).err().unwrap_or_else(|| panic!("{name:?} was accepted")).to_string();
        assert!(problem.contains("headers"), "{problem}");
        assert!(!problem.contains("forged") && !problem.contains('\n'), "{problem}");
    }
}

#[test]
fn all_problems_are_reported_together() {
    let mut settings = settings("ftp://shop/");
    settings.secrets = vec![secret("whsec_short"), secret("oops")];
    settings.headers = vec![("host".to_owned(), "x".to_owned().into())];
    settings.timeout = Duration::from_millis(1);
    settings.max_concurrency = 0;
    settings.user_agent = "a\nb".to_owned();
    let Some(Error::Config(problems)) = WebhookHook::new(&settings).err() else { panic!("accepted") };
    for word in ["url", "number 1", "number 2", "headers", "timeout", "max_concurrency", "user_agent"] {
        assert!(problems.iter().any(|problem| problem.contains(word)), "{word} is missing in {problems:#?}");
    }
}

#[tokio::test]
async fn several_leases_are_asked_about_at_once_and_answered_in_order() {
    let stub = Stub::start().await;
    let hook = hook(&stub);
    let leases: Vec<_> = (0..40).map(|n| lease(&format!("o{n}"))).collect();
    for n in 0..40 {
        let answer = if n % 2 == 0 { Answer::status(200) } else { Answer::status(500) };
        stub.script(&format!("o{n}"), vec![answer.after(Duration::from_millis(200))]);
    }
    let began = Instant::now();
    let verdicts = hook.judge(&wheel(), &leases).await;
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "one after the other would take 8 s: {:?}",
        began.elapsed()
    );
    for (n, verdict) in verdicts.iter().enumerate() {
        assert_eq!(*verdict == Verdict::Closed, n % 2 == 0, "{n}: {verdict:?}");
    }
    assert_eq!(hook.judge(&wheel(), &[]).await, []);
}

#[tokio::test]
async fn no_more_calls_run_at_once_than_allowed() {
    let stub = Stub::start().await;
    let mut settings = settings(&stub.url("/close"));
    settings.max_concurrency = 3;
    let hook = WebhookHook::new(&settings).unwrap();
    stub.otherwise(Answer::status(200).after(Duration::from_millis(20)));
    let leases: Vec<_> = (0..30).map(|n| lease(&format!("o{n}"))).collect();
    let verdicts = hook.judge(&wheel(), &leases).await;
    assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Closed));
    assert!(stub.connections() <= 3, "{} connections", stub.connections());
}

#[tokio::test]
async fn a_place_in_the_queue_counts_as_time_and_a_hung_call_gives_its_place_back() {
    let stub = Stub::start().await;
    let mut settings = settings(&stub.url("/close"));
    settings.max_concurrency = 1;
    settings.timeout = Duration::from_millis(400);
    settings.connect_timeout = Duration::from_millis(400);
    let hook = WebhookHook::new(&settings).unwrap();
    stub.script("hangs", vec![Answer::status(200).of(Body::Hang)]);
    let began = Instant::now();
    let mut waits = lease("waits");
    waits.trusted_until = Instant::now() + Duration::from_millis(200);
    let verdicts = hook.judge(&wheel(), &[lease("hangs"), waits]).await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(verdicts.iter().all(|verdict| matches!(verdict, Verdict::Unavailable { .. })), "{verdicts:?}");
    assert!(reason(&verdicts[1]).contains("max_concurrency"), "{verdicts:?}");
    assert_eq!(judge(&hook, &lease("next")).await, Verdict::Closed);
    // A caller that gives up gives the place back, too.
    for _ in 0..5 {
        let lease = lease("hangs");
        let abandoned = judge(&hook, &lease);
        assert!(tokio::time::timeout(Duration::from_millis(30), abandoned).await.is_err());
    }
    assert_eq!(judge(&hook, &lease("next")).await, Verdict::Closed);
}
