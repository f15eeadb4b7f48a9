//! The sample receiver keeps the contract of docs/hook-webhook.md, and the hook keeps it with the receiver.

use std::net::{SocketAddr, TcpListener};

use duewheel::deadline::{Generation, Stage};
use duewheel::hook::Verdict;
use duewheel::hook::webhook::WebhookHook;
use duewheel::lease::Fence;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{SECRET, hook, judge, lease, reason, secret, settings};
use crate::rig::stub::Stub;

#[path = "../../examples/receiver.rs"]
#[allow(dead_code, reason = "its main is the example's")]
pub(super) mod sample;

fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || sample::run(&listener, SECRET).unwrap());
    address
}

/// One request of the shop's own, and the answer's last line.
async fn shop(address: SocketAddr, method: &str, path: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{method} {path} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().last().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_sample_receiver_closes_only_what_is_unpaid_and_only_once() {
    let address = start();
    let hook = WebhookHook::new(&settings(&format!("http://{address}/hooks/close"))).unwrap();
    for id in ["unpaid", "paid"] {
        shop(address, "PUT", &format!("/orders/{id}")).await;
    }
    shop(address, "PATCH", "/orders/paid").await;

    let mut reminder = lease("unpaid");
    reminder.stage = Stage(1);
    judge(&hook, &reminder).await;
    assert!(shop(address, "GET", "/orders").await.contains(r#""unpaid":"unpaid""#), "a reminder closed it");

    assert_eq!(judge(&hook, &lease("unpaid")).await, Verdict::Closed);
    assert!(shop(address, "GET", "/orders").await.contains(r#""unpaid":"closed""#));
    // The answer was lost: asked again with a higher fence, and it is the same answer.
    let mut again = lease("unpaid");
    again.fence = Fence(again.fence.0 + 2);
    assert_eq!(judge(&hook, &again).await, Verdict::Closed);
    // A worker that was frozen meanwhile is told so.
    let late = judge(&hook, &lease("unpaid")).await;
    assert!(reason(&late).contains("a later claim was seen"), "{late:?}");
    // Another life of the id did not close it.
    again.generation = Generation(again.generation.0 + 1);
    again.fence = Fence(again.fence.0 + 2);
    assert_eq!(judge(&hook, &again).await, Verdict::Skipped { state: "closed".to_owned() });

    assert_eq!(judge(&hook, &lease("paid")).await, Verdict::Skipped { state: "paid".to_owned() });
    assert!(shop(address, "GET", "/orders").await.contains(r#""paid":"paid""#));
    assert!(matches!(judge(&hook, &lease("unknown")).await, Verdict::Gone { .. }));
}

#[tokio::test]
async fn the_sample_receiver_closes_nothing_for_a_stranger() {
    let address = start();
    shop(address, "PUT", "/orders/o1").await;
    let mut settings = settings(&format!("http://{address}/hooks/close"));
    settings.secrets = vec![secret("whsec_bm90IHRoZSBmaXJzdCBzZWNyZXQsIGJ1dCBpdHMgaGVpcg==")];
    let verdict = judge(&WebhookHook::new(&settings).unwrap(), &lease("o1")).await;
    assert!(reason(&verdict).contains("status 401"), "{verdict:?}");
    assert!(shop(address, "GET", "/orders").await.contains(r#""o1":"unpaid""#));
}

/// Sends these bytes again, with the headers changed so; answers the status.
async fn resend(address: SocketAddr, headers: &[(String, String)], body: &[u8]) -> u16 {
    let mut request = b"POST /hooks/close HTTP/1.1\r\n".to_vec();
    for (name, value) in headers.iter().filter(|(name, _)| name != "content-length") {
        request.extend(format!("{name}: {value}\r\n").into_bytes());
    }
    request.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
    request.extend(body);
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(&request).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_sample_receiver_refuses_what_is_replayed_after_six_minutes_and_what_is_forged() {
    let address = start();
    shop(address, "PUT", "/orders/o1").await;
    // A call as it went over the wire.
    let stub = Stub::start().await;
    judge(&hook(&stub), &lease("o1")).await;
    let call = stub.calls().remove(0);
    let with = |name: &str, value: &str| {
        let mut headers = call.headers.clone();
        headers.retain(|(known, _)| known != name);
        headers.push((name.to_owned(), value.to_owned()));
        headers
    };
    let (id, body) = (call.header("webhook-id").unwrap(), std::str::from_utf8(&call.body).unwrap());
    let sent_at: i64 = call.header("webhook-timestamp").unwrap().parse().unwrap();
    // What was sent so long ago bears a right signature of its time.
    let sent_before = |seconds: i64| {
        let webhook = standardwebhooks::Webhook::new(SECRET).unwrap();
        let signature = webhook.sign(id, sent_at - seconds, call.body.as_slice()).unwrap();
        let mut headers = with("webhook-timestamp", &(sent_at - seconds).to_string());
        headers.retain(|(name, _)| name != "webhook-signature");
        headers.push(("webhook-signature".to_owned(), signature));
        headers
    };
    let foreign = standardwebhooks::Webhook::new("whsec_bm90IHRoZSBmaXJzdCBzZWNyZXQsIGJ1dCBpdHMgaGVpcg==");
    let foreign = foreign.unwrap().sign(id, sent_at, call.body.as_slice()).unwrap();
    let other = body.replace("o1", "o2");
    for (what, headers, body) in [
        ("six minutes old", sent_before(360), body),
        ("from the future", sent_before(-360), body),
        ("an old one with a new time", with("webhook-timestamp", &(sent_at + 1).to_string()), body),
        ("another secret's signature", with("webhook-signature", &foreign), body),
        ("another call's id", with("webhook-id", "orders_o2_1_0"), body),
        ("another order", call.headers.clone(), other.as_str()),
    ] {
        assert_eq!(resend(address, &headers, body.as_bytes()).await, 401, "{what}");
    }
    assert!(shop(address, "GET", "/orders").await.contains(r#""o1":"unpaid""#));
    assert_eq!(
        resend(address, &sent_before(240), body.as_bytes()).await,
        200,
        "four minutes are none too many"
    );
    assert_eq!(resend(address, &call.headers, body.as_bytes()).await, 200, "the call itself");
    assert!(shop(address, "GET", "/orders").await.contains(r#""o1":"closed""#));
}
