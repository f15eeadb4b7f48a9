//! Whose certificate is accepted, and what a refusal says.

use std::io::Write;
use std::sync::Arc;

use duewheel::hook::webhook::{WebhookHook, WebhookSettings};
use duewheel::hook::{Hook, Verdict};

use super::{judge, lease, reason, settings};
use crate::rig::authority::{Authority, Relic, self_signed};
use crate::rig::stub::{Stub, StubSettings};

async fn tls_stub(tls: Arc<rustls::ServerConfig>) -> Stub {
    Stub::start_as(StubSettings { tls: Some(tls), ..StubSettings::default() }).await
}

fn by_name(stub: &Stub) -> WebhookSettings {
    settings(&format!("https://localhost:{}/close", stub.address().port()))
}

#[tokio::test]
async fn a_certificate_of_the_named_authority_is_accepted_and_calls_share_the_connection() {
    let authority = Authority::new();
    let stub = tls_stub(authority.serve("localhost", false)).await;
    let mut settings = by_name(&stub);
    settings.ca_file = Some(authority.path());
    let hook = WebhookHook::new(&settings).unwrap();
    for _ in 0..5 {
        assert_eq!(judge(&hook, &lease("o1")).await, Verdict::Closed);
    }
    assert_eq!((stub.calls().len(), stub.connections()), (5, 1));
    assert_eq!(
        hook.check().await.unwrap(),
        ["allow_private is on: the name may lead to any machine of the worker's own network"]
    );
}

#[tokio::test]
async fn an_address_needs_a_certificate_for_that_address() {
    let authority = Authority::new();
    for (name, accepted) in [("127.0.0.1", true), ("127.0.0.2", false), ("localhost", false)] {
        let stub = tls_stub(authority.serve(name, false)).await;
        let mut settings = settings(&stub.url("/close"));
        settings.ca_file = Some(authority.path());
        let verdict = judge(&WebhookHook::new(&settings).unwrap(), &lease("o1")).await;
        assert_eq!(verdict == Verdict::Closed, accepted, "{name}: {verdict:?}");
    }
}

#[tokio::test]
async fn an_expired_a_foreign_and_a_self_signed_certificate_are_refused_with_the_reason() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for (tls, why) in [
        (authority.serve("localhost", true), "expired"),
        (authority.serve("other.example", false), "not valid for name"),
        (stranger.serve("localhost", false), "UnknownIssuer"),
        (self_signed("localhost"), "UnknownIssuer"),
    ] {
        let stub = tls_stub(tls).await;
        let mut settings = by_name(&stub);
        settings.ca_file = Some(authority.path());
        let hook = WebhookHook::new(&settings).unwrap();
        let verdict = judge(&hook, &lease("o1")).await;
        assert!(matches!(verdict, Verdict::Unavailable { .. }), "{why}: {verdict:?}");
        assert!(reason(&verdict).contains("TLS refused") && reason(&verdict).contains(why), "{verdict:?}");
        let check = hook.check().await.unwrap_err().to_string();
        assert!(check.contains(why), "{check}");
        assert_eq!(stub.calls().len(), 0, "{why}: something was sent");
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_since_2008_is_refused() {
    for relic in [Relic::Tls10, Relic::Tls11] {
        let (address, said) = relic.start();
        let mut settings = settings(&format!("https://{address}/close"));
        settings.dangerous_accept_invalid_certs = true;
        let verdict = judge(&WebhookHook::new(&settings).unwrap(), &lease("o1")).await;
        assert!(matches!(verdict, Verdict::Unavailable { .. }), "{relic:?}: {verdict:?}");
        assert!(reason(&verdict).contains("TLS refused"), "{verdict:?}");
        assert!(said.recv().unwrap().refuses(), "{relic:?} was talked to");
    }
}

#[tokio::test]
async fn without_an_authority_of_ones_own_only_public_ones_are_trusted() {
    let authority = Authority::new();
    let stub = tls_stub(authority.serve("localhost", false)).await;
    let verdict = judge(&WebhookHook::new(&by_name(&stub)).unwrap(), &lease("o1")).await;
    assert!(reason(&verdict).contains("TLS refused"), "{verdict:?}");
    assert_eq!(stub.calls().len(), 0);
}

#[tokio::test]
async fn only_the_dangerous_key_takes_any_certificate_and_says_so() {
    for tls in [self_signed("other.example"), Authority::new().serve("localhost", true)] {
        let stub = tls_stub(tls).await;
        let mut settings = by_name(&stub);
        settings.dangerous_accept_invalid_certs = true;
        let hook = WebhookHook::new(&settings).unwrap();
        assert_eq!(judge(&hook, &lease("o1")).await, Verdict::Closed);
        let warnings = hook.check().await.unwrap();
        assert!(warnings.iter().any(|w| w.contains("dangerous_accept_invalid_certs")), "{warnings:?}");
    }
}

#[tokio::test]
async fn a_plain_server_behind_https_and_a_tls_server_behind_http_are_unavailable() {
    let plain = Stub::start().await;
    let mut settings_tls = settings(&plain.url("/").replace("http://", "https://"));
    settings_tls.timeout = std::time::Duration::from_secs(2);
    settings_tls.connect_timeout = std::time::Duration::from_millis(500);
    let verdict = judge(&WebhookHook::new(&settings_tls).unwrap(), &lease("o1")).await;
    assert!(matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");

    let tls = tls_stub(self_signed("localhost")).await;
    let settings = settings(&tls.url("/").replace("https://", "http://"));
    let verdict = judge(&WebhookHook::new(&settings).unwrap(), &lease("o1")).await;
    assert!(matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");
    assert_eq!(plain.calls().len() + tls.calls().len(), 0);
}

#[test]
fn an_authority_file_that_holds_none_is_refused_at_start() {
    let mut settings = settings("https://shop.example/");
    let empty = tempfile::NamedTempFile::new().unwrap();
    let mut garbage = tempfile::NamedTempFile::new().unwrap();
    garbage.write_all(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    for path in [empty.path(), garbage.path(), std::path::Path::new("/nonexistent/ca.pem")] {
        settings.ca_file = Some(path.to_owned());
        let problem = WebhookHook::new(&settings).err().expect("refused").to_string();
        assert!(problem.contains("ca_file") && problem.contains(path.to_str().unwrap()), "{problem}");
    }
}

#[tokio::test]
async fn check_warns_about_what_works_and_should_not_stay_so() {
    let stub = Stub::start().await;
    let warnings = super::hook(&stub).check().await.unwrap();
    assert!(warnings.iter().any(|w| w.contains("not encrypted")), "{warnings:?}");
    assert!(warnings.iter().any(|w| w.contains("allow_private")), "{warnings:?}");
    assert_eq!(stub.calls().len(), 0, "check sends no order");
}
