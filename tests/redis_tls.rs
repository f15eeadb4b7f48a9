//! Redis over TLS: whose certificate is accepted, and what a refusal says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use duewheel::error::StoreKind;
use duewheel::wheel::{RedisSettings, Store};

use crate::rig::PATIENCE;
use crate::rig::authority::{Authority, Relic, front, self_signed};
use crate::rig::cli::Cli;
use crate::rig::redis::RedisServer;

fn settings(url: String) -> RedisSettings {
    RedisSettings { connect_timeout: PATIENCE, response_timeout: PATIENCE, ..RedisSettings::new(url.into()) }
}

/// The shared Redis behind this TLS, by the name of localhost.
async fn behind(tls: Arc<rustls::ServerConfig>) -> String {
    let redis = SocketAddr::from(([127, 0, 0, 1], RedisServer::shared().port()));
    format!("rediss://localhost:{}", front(tls, redis).await.port())
}

#[tokio::test]
async fn an_expired_a_foreign_and_a_self_signed_certificate_of_redis_are_refused_with_the_reason() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for (tls, ca, why) in [
        (authority.serve("localhost", true), true, "expired"),
        (authority.serve("other.example", false), true, "not valid for name"),
        (stranger.serve("localhost", false), true, "UnknownIssuer"),
        (self_signed("localhost"), true, "UnknownIssuer"),
        // Only public authorities vouch without a file.
        (authority.serve("localhost", false), false, "UnknownIssuer"),
    ] {
        let mut settings = settings(behind(tls).await);
        settings.ca_file = ca.then(|| authority.path());
        let refused = Store::new(&settings).unwrap().time_us().await.unwrap_err();
        assert_eq!(refused.store_kind(), Some(StoreKind::Unreachable), "{refused}");
        assert!(refused.to_string().contains(why), "{why}: {refused}");
    }
    let mut settings = settings(behind(authority.serve("localhost", false)).await);
    settings.ca_file = Some(authority.path());
    assert!(Store::new(&settings).unwrap().time_us().await.unwrap() > 0);
}

#[tokio::test]
async fn a_redis_that_speaks_no_tls_since_2008_is_refused() {
    for relic in [Relic::Tls10, Relic::Tls11] {
        let (address, said) = relic.start();
        let refused =
            Store::new(&settings(format!("rediss://{address}"))).unwrap().time_us().await.unwrap_err();
        assert_eq!(refused.store_kind(), Some(StoreKind::Unreachable), "{relic:?}: {refused}");
        assert!(said.recv_timeout(Duration::from_secs(5)).unwrap().refuses(), "{relic:?} was talked to");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_of_authorities_is_checked_at_the_start_and_nothing_switches_the_check_off() {
    let authority = Authority::new();
    let url = behind(authority.serve("localhost", false)).await;
    let cli = Cli::new(RedisServer::shared());
    let run = |toml: String| {
        cli.write("duewheel.toml", toml);
        let mut command = cli.command(&["wheel", "list"]);
        command.env_remove("REDIS_URL");
        tokio::task::block_in_place(|| crate::rig::cli::Ran::of(&mut command))
    };
    run(format!("[redis]\nurl = '{url}'\nca_file = '{}'\n", authority.path().display())).ends(0);
    let unknown = run(format!("[redis]\nurl = '{url}'\n")).ends(69);
    assert!(unknown.stderr.contains("UnknownIssuer"), "{unknown:?}");
    cli.write("empty.pem", "");
    for file in ["empty.pem", "absent.pem"] {
        let refused = run(format!("[redis]\nurl = '{url}'\nca_file = '{file}'\n"));
        assert!(
            refused.code != 0 && refused.stderr.contains("redis.ca_file") && refused.stderr.contains(file),
            "{refused:?}"
        );
    }
    let plain = run("[redis]\nurl = 'redis://localhost'\nca_file = 'empty.pem'\n".to_owned()).ends(78);
    assert!(plain.stderr.contains("redis.ca_file: says nothing without rediss://"), "{plain:?}");
    let insecure = run(format!("[redis]\nurl = '{url}/#insecure'\n"));
    assert!(insecure.code != 0, "{insecure:?}");
}
