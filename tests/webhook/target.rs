//! Where calls may go: only where the URL plainly says, and never into the worker's own network unless that is allowed. What is
//! refused opens no socket.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use duewheel::hook::webhook::{Resolve, WebhookHook, WebhookSettings};
use duewheel::hook::{BoxFuture, Hook, Verdict};

use super::{judge, lease, reason, settings};
use crate::rig::stub::{Stub, StubSettings};
use crate::rig::{free_port, own_process};

/// A name service that answers as it is told: the answers in turn, then the last one again and again.
struct Names {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Names {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parsed = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self { answers: answers.iter().map(parsed).collect(), asked: AtomicUsize::new(0) })
    }
}

impl Resolve for Names {
    fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let n = self.asked.fetch_add(1, Ordering::Relaxed).min(self.answers.len().saturating_sub(1));
        let answer = self.answers.get(n).cloned();
        Box::pin(async move { answer.ok_or_else(|| io::Error::other("no such host")) })
    }
}

/// Only public addresses, as is the default.
fn public(url: &str) -> WebhookSettings {
    let mut settings = settings(url);
    settings.allow_private = false;
    settings
}

fn refusal(settings: &WebhookSettings) -> Option<String> {
    WebhookHook::new(settings).err().map(|e| e.to_string())
}

/// Addresses that a worker must not be led to.
const NOT_PUBLIC: [&str; 62] = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.0.0.53",
    "127.255.255.255",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.17.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.170",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "254.1.1.1",
    "255.255.255.255",
    "::",
    "::1",
    "::2",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:192.168.1.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "100:0:0:1::1",
    "2001::1",
    "2001:0:53aa:64c::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "3fff:fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fdff:ffff::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "ff02::1",
];

/// Neighbours of the refused blocks, and addresses everybody may call.
const PUBLIC: [&str; 20] = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "126.255.255.255",
    "128.0.0.1",
    "169.253.255.255",
    "169.255.0.1",
    "172.15.255.255",
    "172.32.0.1",
    "192.167.255.255",
    "192.169.0.1",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2606:4700:4700::1111",
    "2a00:1450::1",
];

fn literal(address: &str) -> String {
    if address.contains(':') {
        format!("http://[{address}]:8080/x")
    } else {
        format!("http://{address}:8080/x")
    }
}

#[test]
fn an_address_literal_that_is_not_public_is_refused_at_start() {
    for address in NOT_PUBLIC {
        let refused = refusal(&public(&literal(address))).unwrap_or_else(|| panic!("{address} was accepted"));
        assert!(refused.contains("not public"), "{refused}");
        assert_eq!(refusal(&settings(&literal(address))), None, "{address} with allow_private");
    }
    for address in PUBLIC {
        assert_eq!(refusal(&public(&literal(address))), None, "{address}");
    }
}

#[tokio::test]
async fn a_name_that_leads_to_an_address_that_is_not_public_opens_no_socket() {
    // Everything of this machine that could be reached at all: a listener on all its addresses.
    let stub =
        Stub::start_as(StubSettings { listen: "[::]:0".parse().unwrap(), ..StubSettings::default() }).await;
    let url = format!("http://hook.test:{}/", stub.address().port());
    for address in NOT_PUBLIC {
        let hook = WebhookHook::with_resolver(&public(&url), Names::new(&[&[address]])).unwrap();
        let verdict = judge(&hook, &lease("o1")).await;
        assert!(matches!(verdict, Verdict::Unavailable { .. }), "{address}: {verdict:?}");
        assert!(reason(&verdict).contains("not public"), "{verdict:?}");
        assert!(hook.check().await.is_err(), "{address}");
    }
    assert_eq!(stub.connections(), 0, "a socket was opened");

    // The listener is not deaf.
    let hook = WebhookHook::with_resolver(&settings(&url), Names::new(&[&["127.0.0.1"]])).unwrap();
    assert_eq!(judge(&hook, &lease("o1")).await, Verdict::Closed);
    assert_eq!(stub.connections(), 1);
}

#[tokio::test]
async fn the_systems_own_names_are_checked_too() {
    let stub = Stub::start().await;
    let url = format!("http://localhost:{}/", stub.address().port());
    let verdict = judge(&WebhookHook::new(&public(&url)).unwrap(), &lease("o1")).await;
    assert!(reason(&verdict).contains("not public"), "{verdict:?}");
    assert_eq!(stub.connections(), 0);
    assert_eq!(judge(&WebhookHook::new(&settings(&url)).unwrap(), &lease("o1")).await, Verdict::Closed);
}

#[tokio::test]
async fn a_name_that_rebinds_between_two_calls_is_refused_the_second_time() {
    let stub = Stub::start().await;
    let url = format!("http://hook.test:{}/", stub.address().port());
    // 3ffe::/16 was given back by its last users: it is not refused, and it leads nowhere.
    let mut settings = public(&url);
    settings.timeout = Duration::from_millis(100);
    settings.connect_timeout = Duration::from_millis(10);
    let names = Names::new(&[&["3ffe::dead"], &["127.0.0.1"]]);
    let hook = WebhookHook::with_resolver(&settings, names.clone()).unwrap();
    for n in 0..1000 {
        let verdict = judge(&hook, &lease("o1")).await;
        assert!(matches!(verdict, Verdict::Unavailable { .. }), "{n}: {verdict:?}");
    }
    assert_eq!(names.asked.load(Ordering::Relaxed), 1000, "resolved once for each connection");
    assert_eq!(stub.connections(), 0);
}

#[tokio::test]
async fn of_several_addresses_only_the_public_ones_are_dialled() {
    let stub = Stub::start().await;
    let url = format!("http://hook.test:{}/", stub.address().port());
    let mut settings = public(&url);
    settings.connect_timeout = Duration::from_millis(300);
    let names = Names::new(&[&["127.0.0.1", "3ffe::dead", "::1"]]);
    let hook = WebhookHook::with_resolver(&settings, names).unwrap();
    assert!(matches!(judge(&hook, &lease("o1")).await, Verdict::Unavailable { .. }));
    assert_eq!(stub.connections(), 0);
}

#[test]
fn a_url_that_says_something_else_than_it_does_is_refused_even_where_private_addresses_are_allowed() {
    for url in [
        "",
        "http://",
        "http:///x.com/",
        "http:/x.com",
        "http:x.com",
        "//x/y",
        "x.com/y",
        "ftp://x/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_x",
        "javascript://x/%0aalert(1)",
        "unix:///run/docker.sock",
        "http://user:pw@shop.example/",
        "http://user@shop.example/",
        "http://127.0.0.1:80@shop.example/",
        "http://shop.example#@127.0.0.1/",
        "http://shop.example/#x",
        "http://shop.example\\@127.0.0.1/",
        "http://127.1/",
        "http://127.0.1/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://017700000001/",
        "http://127.0.0.01/",
        "http://127.0.0.1./",
        "http://%31%32%37.0.0.1/",
        "http://１２７.0.0.1/",
        "http://ⓔxample.com/",
        "http://еxample.com/",
        "http://shop.example./",
        "http://shop.example:0/",
        "http://shop.example:99999/",
        "http://shop.example:port/",
        "http://shop example/",
        "http://shop.exa\tmple/",
        "http://shop.example/\n",
        " http://shop.example/",
        "http://shop.example/a b",
        "http://[::1%25lo]/",
        "http://[::1/",
        "http://[v1.x]/",
        "http://[:::1]/",
        "http://a..b<c>/",
    ] {
        let refused = refusal(&settings(url)).unwrap_or_else(|| panic!("{url:?} was accepted"));
        assert!(refused.starts_with("url: "), "{url}: {refused}");
        assert!(!refused.contains("pw"), "{refused}");
        assert!(!refused.chars().any(char::is_control), "{refused:?}");
    }
}

#[test]
fn plain_urls_are_accepted() {
    for url in [
        "http://shop.example",
        "https://shop.example/",
        "HTTPS://Shop.Example/Close",
        "https://shop.example:8443/hooks/close?tenant=7&x=%20",
        "http://8.8.8.8/",
        "http://[2606:4700:4700::1111]:8080/x",
        "http://xn--e1afmkfd.example/",
        "http://shop.example:80/",
        "https://shop/",
        "https://a-b.c_d.example/@user/x",
    ] {
        assert_eq!(refusal(&public(url)), None, "{url}");
    }
}

#[tokio::test]
async fn proxy_variables_of_the_environment_are_not_asked() {
    let stub = Stub::start().await;
    if own_process("webhook::target::proxy_variables_of_the_environment_are_not_asked", || {
        // A proxy that hears nothing: had it been asked, the call would fail.
        let proxy = format!("http://127.0.0.1:{}", free_port());
        ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"]
            .map(|name| (name, proxy.clone()))
            .to_vec()
    }) {
        assert!(std::env::var("HTTP_PROXY").is_ok());
        assert_eq!(judge(&super::hook(&stub), &lease("o1")).await, Verdict::Closed);
        assert_eq!(stub.calls()[0].path, "/close");
    }
}

#[tokio::test]
async fn an_address_in_brackets_and_a_name_with_two_families_are_reached_at_the_first_attempt() {
    let v4 = Stub::start().await;
    let v6 =
        Stub::start_as(StubSettings { listen: "[::1]:0".parse().unwrap(), ..StubSettings::default() }).await;
    let literal = format!("http://[::1]:{}/close", v6.address().port());
    assert_eq!(judge(&WebhookHook::new(&settings(&literal)).unwrap(), &lease("o1")).await, Verdict::Closed);
    assert_eq!(v6.calls()[0].header("host"), Some(format!("[::1]:{}", v6.address().port()).as_str()));

    for (server, addresses) in [
        (&v4, &["::1", "127.0.0.1"][..]),
        (&v4, &["127.0.0.1", "::1"]),
        (&v6, &["::1", "127.0.0.1"]),
        (&v6, &["127.0.0.1", "::1"]),
        (&v4, &["::1", "127.0.0.2", "127.0.0.3", "127.0.0.1"]),
    ] {
        let url = format!("http://hook.test:{}/close", server.address().port());
        let hook = WebhookHook::with_resolver(&settings(&url), Names::new(&[addresses])).unwrap();
        let began = Instant::now();
        assert_eq!(judge(&hook, &lease("o1")).await, Verdict::Closed, "{addresses:?}");
        assert!(began.elapsed() < Duration::from_secs(1), "{addresses:?}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn an_address_that_swallows_packets_does_not_hold_up_the_next_one() {
    let stub = Stub::start().await;
    // A listener that never accepts, with its queue full: later handshakes get no answer, as behind a firewall that drops.
    let hole = tokio::net::TcpSocket::new_v6().unwrap();
    hole.bind(format!("[::1]:{}", stub.address().port()).parse().unwrap()).unwrap();
    let hole = hole.listen(1).unwrap();
    let mut filling = Vec::new();
    for _ in 0..8 {
        let connecting = tokio::net::TcpStream::connect(hole.local_addr().unwrap());
        match tokio::time::timeout(Duration::from_millis(200), connecting).await {
            Ok(stream) => filling.push(stream.unwrap()),
            Err(_) => break,
        }
    }
    let url = format!("http://hook.test:{}/close", stub.address().port());
    let hook = WebhookHook::with_resolver(&settings(&url), Names::new(&[&["::1", "127.0.0.1"]])).unwrap();
    let began = Instant::now();
    assert_eq!(judge(&hook, &lease("o1")).await, Verdict::Closed);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(began.elapsed() > Duration::from_millis(200), "the hole answered: the test shows nothing");
}

#[tokio::test]
async fn a_name_that_cannot_be_resolved_is_unavailable_and_asked_again() {
    let none: &[&[&str]] = &[];
    let hook = WebhookHook::with_resolver(&settings("http://hook.test/"), Names::new(none)).unwrap();
    let verdict = judge(&hook, &lease("o1")).await;
    assert!(matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");
    assert!(reason(&verdict).contains("cannot be resolved"), "{verdict:?}");

    let stub = Stub::start().await;
    let url = format!("http://hook.test:{}/", stub.address().port());
    let hook = WebhookHook::with_resolver(&settings(&url), Names::new(&[&[], &["127.0.0.1"]])).unwrap();
    assert!(matches!(judge(&hook, &lease("o1")).await, Verdict::Unavailable { .. }));
    assert_eq!(judge(&hook, &lease("o1")).await, Verdict::Closed);
}
