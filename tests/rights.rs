//! The Redis user of docs/operations.md: enough for everything, and no more. Redis does not undo what a script wrote before a refused
//! command, so a right that is missing must be met on the scratch shard.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duewheel::deadline::{DueAt, Note, OnConflict};
use duewheel::error::StoreKind;
use duewheel::shard::Shard;
use duewheel::wheel::{RedisSettings, Store, Wheel};

use crate::rig::commands::{named_in, script_writes};
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::wheel::{after, claim, deadline, id, ids, settings};

pub const PASSWORD: &str = "not-a-secret";

/// The words of the `ACL SETUSER` line that the documentation gives.
pub fn documented_user() -> Vec<String> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md")).unwrap();
    let from = text.find("ACL SETUSER duewheel").expect("docs/operations.md gives the user");
    let line = text[from..].split("```").next().unwrap().replace(">PASSWORD", &format!(">{PASSWORD}"));
    line.split_whitespace().filter(|word| *word != "\\").map(str::to_owned).collect()
}

fn allow(server: &RedisServer, words: &[String]) {
    server.command::<String>(&words.iter().map(String::as_str).collect::<Vec<_>>());
}

fn wheel_as_user(server: &RedisServer) -> Wheel {
    let url = format!("redis://duewheel:{PASSWORD}@127.0.0.1:{}", server.port());
    Wheel::new(Arc::new(Store::new(&RedisSettings::new(url.as_str().into())).unwrap()), settings(2))
}

#[test]
fn the_documented_rights_are_those_that_the_program_uses() {
    let mut used = named_in("lua", "call('");
    used.extend(named_in("src/wheel", "redis::cmd(\""));
    // Read by `check` alone, which says what it could not see; the connection's own commands stand in the documentation besides.
    let of_check = ["info", "config", "acl"].map(str::to_owned);
    let of_connection = ["auth", "hello", "ping", "select"].map(str::to_owned);
    let used: BTreeSet<_> =
        used.into_iter().filter(|name| !of_check.contains(name)).chain(of_connection).collect();
    let granted: BTreeSet<_> =
        documented_user().iter().filter_map(|w| w.strip_prefix('+')).map(str::to_owned).collect();
    assert_eq!(granted, used);
}

#[test]
fn the_shipped_user_file_is_the_documented_user_and_redis_loads_it() {
    let shipped =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/redis/duewheel.acl")).unwrap();
    let shipped = shipped.replace(">PASSWORD", &format!(">{PASSWORD}"));
    let words: Vec<_> = shipped.split_whitespace().map(str::to_owned).collect();
    let documented = documented_user();
    assert_eq!((words[0].as_str(), &words[1..]), ("user", &documented[2..]));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.acl");
    std::fs::write(&file, format!("user default on nopass ~* &* +@all\n{shipped}")).unwrap();
    let server = RedisServer::start(RedisOptions::args(&["--aclfile", file.to_str().unwrap()]));
    let users: Vec<String> = server.command(&["ACL", "USERS"]);
    assert!(users.contains(&"duewheel".to_owned()), "{users:?}");
}

#[tokio::test]
async fn the_documented_user_can_do_everything_a_worker_does() {
    let server = RedisServer::start(RedisOptions::default());
    allow(&server, &documented_user());
    let wheel = wheel_as_user(&server);
    wheel.format().await.unwrap();
    wheel.selftest("w1").await.unwrap();
    wheel
        .enqueue(&deadline("a", DueAt::After(Duration::ZERO)), OnConflict::Keep, false)
        .await
        .unwrap()
        .unwrap();
    let shard = wheel.shard_of(&id("a"));
    assert_eq!(ids(&claim(&wheel, shard, 1).await.leases), ["a"]);
    wheel.stats().await.unwrap();
    wheel.record_hour("w1", &[duewheel::wheel::Minute::at(wheel.now().await.unwrap())]).await.unwrap();
    wheel.hour().await.unwrap();
    wheel.drop_wheel().await.unwrap();
}

#[tokio::test]
async fn the_documented_user_can_do_nothing_else() {
    let server = RedisServer::start(RedisOptions::default());
    allow(&server, &documented_user());
    let url = format!("redis://duewheel:{PASSWORD}@127.0.0.1:{}", server.port());
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    for refused in [
        &["FLUSHALL"][..],
        &["KEYS", "*"],
        &["CONFIG", "GET", "*"],
        &["SHUTDOWN"],
        &["SCRIPT", "FLUSH"],
        &["GET", "dw1:{orders.0}:meta"],
        &["HGET", "somebody-else", "x"],
        &["EVAL", "return redis.call('HGET', KEYS[1], 'x')", "1", "somebody-else"],
        &["SUBSCRIBE", "anything"],
    ] {
        let answer = redis::cmd(refused[0]).arg(&refused[1..]).query::<redis::Value>(&mut connection);
        assert_eq!(answer.unwrap_err().code(), Some("NOPERM"), "{refused:?}");
    }
}

#[tokio::test]
async fn a_missing_right_is_met_on_the_scratch_shard_and_costs_no_deadline() {
    let server = RedisServer::start(RedisOptions::default());
    allow(&server, &documented_user());
    let wheel = wheel_as_user(&server);
    wheel.format().await.unwrap();
    wheel.enqueue(&deadline("kept", after(3_600_000)), OnConflict::Keep, false).await.unwrap().unwrap();
    let writes = script_writes(&server);
    for right in writes.iter().map(String::as_str).chain(["evalsha"]) {
        server.command::<String>(&["ACL", "SETUSER", "duewheel", &format!("-{right}")]);
        let refused = wheel.selftest("w1").await.expect_err(right);
        // Inside a script the refusal may leave a half; outside it is a plain denial.
        let kind = refused.store_kind();
        assert!(matches!(kind, Some(StoreKind::Denied | StoreKind::Corrupt)), "{right}: {kind:?}: {refused}");
        server.command::<String>(&["ACL", "SETUSER", "duewheel", &format!("+{right}")]);
        // What a refused script left half done is on the scratch shard of this worker, under a name of its own.
        server.command::<String>(&[
            "EVAL",
            "for _, k in ipairs(redis.call('KEYS', 'dw1:{~*')) do redis.call('DEL', k) end return 'OK'",
            "0",
        ]);
        wheel.selftest("w1").await.unwrap();
    }
    assert_eq!(wheel.stats().await.unwrap().scheduled, 1);
}

#[tokio::test]
async fn a_self_test_leaves_a_pause_as_it_is() {
    let server = RedisServer::shared();
    let store = Arc::new(Store::new(&RedisSettings::new(server.url().as_str().into())).unwrap());
    let wheel = Wheel::new(store, settings(1));
    wheel.format().await.unwrap();
    wheel.pause(&Note::new("test", "a person stopped it").unwrap()).await.unwrap();
    wheel.selftest("w1").await.unwrap();
    assert!(wheel.reassert(None).await.unwrap().paused.is_some());
    assert_eq!(claim(&wheel, Shard(0), 1).await.state, duewheel::wheel::ShardState::Paused);
}
