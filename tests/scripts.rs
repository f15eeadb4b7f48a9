//! The scripts at their edges: bad calls are refused before anything is written; a broken key, a missing key or a missing right costs no
//! deadline.

use std::collections::BTreeSet;

use duewheel::error::StoreKind;
use duewheel::shard::Shard;
use duewheel::wheel::{RedisSettings, Store, Wheel, script};
use redis::Connection;

use crate::rig::commands::script_writes;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::scene::{Arg, Call, FIXED, FRONT, Scene, arguments, dump, run};
use crate::rig::wheel::{key, wheel};

const S: Shard = Shard(0);
/// What `tonumber` alone would take, or cut short, or overflow on.
const NO_NUMBERS: [&str; 14] = [
    "nan",
    "-nan",
    "inf",
    "-inf",
    "1e400",
    "1e3",
    "-1",
    "+",
    "0x10",
    " 12 ",
    "12abc",
    "",
    "1.5",
    "12345678901234567",
];

async fn set() -> (RedisServer, Scene, Connection) {
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 1).await;
    let scene = Scene::set(&server, wheel).await;
    let connection = redis::Client::open(server.unix_url()).unwrap().get_connection().unwrap();
    (server, scene, connection)
}

/// Runs what must be refused, and sees that nothing was written.
fn refused(
    connection: &mut Connection,
    scene: &Scene,
    call: &Call,
    keys: &[String],
    args: &[Vec<u8>],
    why: &str,
) {
    let outcome = run(connection, call.script, keys, args);
    let shown: Vec<_> = args[7.min(args.len())..].iter().map(|arg| arg.escape_ascii().to_string()).collect();
    let error = outcome.expect_err(&format!("{} took {why}: {shown:?}", call.name));
    let code = error.code().unwrap_or_default();
    assert!(code == "BADCALL" || code == "LAYOUT", "{} on {why} {shown:?}: {error}", call.name);
    assert_eq!(dump(connection, &scene.wheel), scene.dump, "{} wrote before it refused {why}", call.name);
}

#[tokio::test]
async fn every_script_takes_the_scene_of_these_tests() {
    let (_server, scene, mut connection) = set().await;
    let mut tried = BTreeSet::new();
    for call in &scene.calls {
        scene.restore(&mut connection);
        run(&mut connection, call.script, &scene.keys(), &arguments(call))
            .unwrap_or_else(|e| panic!("{}: {e}", call.name));
        tried.insert(call.script.verb);
        assert_eq!(scene.lost(call).await, BTreeSet::new(), "{}", call.name);
        let found = scene.wheel.verify(false).await.unwrap().findings;
        assert!(found.is_empty(), "{}: {found:?}", call.name);
    }
    let all: BTreeSet<_> = script::ALL.iter().map(|script| script.verb).collect();
    assert_eq!(tried, all, "a script is missing from the scene");
}

#[tokio::test]
async fn an_argument_that_is_no_number_is_refused_before_any_write() {
    let (_server, scene, mut connection) = set().await;
    let keys = scene.keys();
    for call in &scene.calls {
        for (at, arg) in call.args.iter().enumerate() {
            let (bad, skip): (&[&str], &[&str]) = match arg {
                Arg::Number(_) => (&NO_NUMBERS, &[]),
                Arg::Cursor(_) => (&NO_NUMBERS, &["12345678901234567"]),
                Arg::Word(_) => (&["", "2", "xyz", "1 99999999999999999", "999 5", "KEEP"], &[]),
                Arg::Text(_) => continue,
            };
            for text in bad.iter().filter(|text| !skip.contains(text)) {
                let mut args = arguments(call);
                args[FRONT.len() + at] = text.as_bytes().to_vec();
                refused(&mut connection, &scene, call, &keys, &args, &format!("{text:?} for argument {at}"));
            }
        }
    }
}

#[tokio::test]
async fn a_limit_out_of_its_range_is_refused_before_any_write() {
    let (_server, scene, mut connection) = set().await;
    let keys = scene.keys();
    let of = |name: &str| scene.calls.iter().find(|call| call.name == name).unwrap();
    // (call, its argument, value): batches of none or too many, leases of none or for ever, moments after the year 9999.
    for (name, at, value) in [
        ("claim", 0, "0"),
        ("claim", 0, "501"),
        ("claim", 0, "1000000"),
        ("claim", 1, "0"),
        ("claim", 1, "1000000000000"),
        ("claim", 5, "1000001"),
        ("claim", 6, "3600001"),
        ("enqueue", 3, "0"),
        ("enqueue", 3, "501"),
        ("enqueue", 5, "253402300800000"),
        ("enqueue", 5, "+253402300800000"),
        ("enqueue", 2, "256"),
        ("settle", 0, "0"),
        ("settle", 0, "5"),
        ("settle", 2, "0"),
        ("settle", 2, "5"),
        ("settle", 4, "\u{1}an end of another length"),
        ("settle", 8, "r253402300800000"),
        ("settle", 8, "r"),
        ("settle", 8, "rnan"),
        ("settle", 8, "r0x10"),
        ("settle", 8, "r10why"),
        ("settle", 8, "w-1"),
        ("settle", 8, "u1e400"),
        ("settle", 8, "s1"),
        ("settle", 8, "s256 5"),
        ("settle", 8, "b5"),
        ("enqueue", 6, "no room for moments"),
        ("renew", 0, "0"),
        ("renew", 0, "86400000001"),
        ("cancel", 1, "0"),
        ("cancel", 1, "6"),
        ("reschedule", 2, "253402300800000"),
        ("reschedule", 3, "x"),
        ("hold", 3, "256"),
        ("hold", 4, "4294967296"),
        ("list", 4, "0"),
        ("list", 4, "502"),
        ("forecast", 1, "0"),
        ("forecast", 2, "1501"),
        ("adopt", 0, "101"),
        ("evict", 0, "101"),
        ("ended_page", 1, "501"),
    ] {
        let call = of(name);
        let mut args = arguments(call);
        args[FRONT.len() + at] = value.as_bytes().to_vec();
        refused(&mut connection, &scene, call, &keys, &args, &format!("{value} for argument {at}"));
    }
}

#[tokio::test]
async fn an_empty_id_is_refused_before_any_write() {
    let (_server, scene, mut connection) = set().await;
    for (name, at) in [("enqueue", 4), ("cancel", 2), ("reschedule", 1), ("inspect", 0), ("adopt", 2)] {
        let call = scene.calls.iter().find(|call| call.name == name).unwrap();
        let mut args = arguments(call);
        args[FRONT.len() + at] = Vec::new();
        refused(&mut connection, &scene, call, &scene.keys(), &args, "an empty id");
    }
}

#[tokio::test]
async fn another_layout_or_a_wrong_number_of_arguments_is_refused_before_any_write() {
    let (_server, scene, mut connection) = set().await;
    let keys = scene.keys();
    for call in &scene.calls {
        let right = arguments(call);
        for (at, value) in
            [(0, "2"), (1, "2"), (2, "500"), (3, "1800000000000000"), (4, "nan"), (5, ""), (6, "-1")]
        {
            if call.name == "format" && at > 2 {
                continue; // It looks at nothing but layout, shards and width.
            }
            let mut args = right.clone();
            args[at] = value.as_bytes().to_vec();
            refused(&mut connection, &scene, call, &keys, &args, &format!("{value:?} in front, at {at}"));
        }
        for few in [0, 3, right.len() - 1] {
            refused(&mut connection, &scene, call, &keys, &right[..few], &format!("{few} arguments"));
        }
        let many = [right, vec![b"1".to_vec()]].concat();
        refused(&mut connection, &scene, call, &keys, &many, "one argument too many");
    }
}

#[tokio::test]
async fn wrong_keys_are_refused_before_any_write() {
    let (_server, scene, mut connection) = set().await;
    let keys = scene.keys();
    let other_shard = keys.clone().map(|key| key.replace(".0}", ".1}"));
    let mut mixed = keys.clone();
    mixed[2].clone_from(&other_shard[2]);
    let mut swapped = keys.clone();
    swapped.swap(1, 3);
    for call in &scene.calls {
        let args = arguments(call);
        refused(&mut connection, &scene, call, &keys[..8], &args, "eight keys");
        refused(&mut connection, &scene, call, &[&keys[..], &["x".to_owned()]].concat(), &args, "ten keys");
        refused(&mut connection, &scene, call, &mixed, &args, "keys of two shards");
        refused(&mut connection, &scene, call, &swapped, &args, "keys in another order");
        refused(&mut connection, &scene, call, &[], &args, "no keys");
    }
}

#[tokio::test]
async fn a_key_of_a_wrong_type_is_met_before_any_write() {
    let (server, scene, mut connection) = set().await;
    for name in FIXED {
        let broken = key(&scene.wheel, S, name);
        for call in &scene.calls {
            scene.restore(&mut connection);
            server.command::<()>(&["SET", &broken, "not what it was"]);
            let before = dump(&mut connection, &scene.wheel);
            let outcome = run(&mut connection, call.script, &scene.keys(), &arguments(call));
            // A script may do without a key that it needs not; what fails has written nothing.
            if outcome.is_err() {
                assert_eq!(dump(&mut connection, &scene.wheel), before, "{} with a broken {name}", call.name);
            }
            mend(&server, &scene, &broken);
            assert_whole(&scene, call, &format!("{} with a broken {name}", call.name)).await;
        }
    }
}

#[tokio::test]
async fn a_missing_key_loses_no_deadline() {
    let (server, scene, mut connection) = set().await;
    for name in FIXED {
        let missing = key(&scene.wheel, S, name);
        for call in &scene.calls {
            scene.restore(&mut connection);
            server.command::<u64>(&["DEL", &missing]);
            let before = dump(&mut connection, &scene.wheel);
            let outcome = run(&mut connection, call.script, &scene.keys(), &arguments(call));
            if outcome.is_err() {
                assert_eq!(dump(&mut connection, &scene.wheel), before, "{} without {name}", call.name);
            }
            merge_back(&mut connection, &scene, &missing);
            assert_whole(&scene, call, &format!("{} without {name}", call.name)).await;
        }
    }
}

/// Puts one key back as it was.
fn mend(server: &RedisServer, scene: &Scene, key: &str) {
    let client = redis::Client::open(server.unix_url()).unwrap();
    let mut connection = client.get_connection().unwrap();
    redis::cmd("RESTORE")
        .arg(key)
        .arg(0)
        .arg(&scene.dump[key])
        .arg("REPLACE")
        .query::<()>(&mut connection)
        .unwrap();
}

/// Puts one key back as it was and keeps what a script has added to it meanwhile.
fn merge_back(connection: &mut Connection, scene: &Scene, key: &str) {
    let kind: String = redis::cmd("TYPE").arg(key).query(connection).unwrap();
    let added: Vec<Vec<u8>> = match kind.as_str() {
        "hash" => redis::cmd("HGETALL").arg(key).query(connection).unwrap(),
        "zset" => redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES").query(connection).unwrap(),
        _ => Vec::new(),
    };
    redis::cmd("RESTORE")
        .arg(key)
        .arg(0)
        .arg(&scene.dump[key])
        .arg("REPLACE")
        .query::<()>(connection)
        .unwrap();
    for pair in added.chunks(2) {
        if kind == "hash" {
            redis::cmd("HSETNX").arg(key).arg(pair).query::<()>(connection).unwrap();
        } else {
            redis::cmd("ZADD")
                .arg(key)
                .arg("NX")
                .arg(&pair[1])
                .arg(&pair[0])
                .query::<()>(connection)
                .unwrap();
        }
    }
}

/// After a scan that mends, nothing is left to find and no id is lost.
async fn assert_whole(scene: &Scene, call: &Call, after: &str) {
    scene.wheel.verify(true).await.unwrap_or_else(|e| panic!("{after}: {e}"));
    scene.wheel.verify(true).await.unwrap();
    let found = scene.wheel.verify(false).await.unwrap().findings;
    assert!(found.is_empty(), "{after}: {found:?}");
    assert_eq!(scene.lost(call).await, BTreeSet::new(), "{after}");
}

#[tokio::test]
async fn a_missing_right_loses_no_deadline_and_the_selftest_names_it() {
    let (server, scene, mut connection) = set().await;
    server.command::<()>(&["ACL", "SETUSER", "worker", "on", ">secret", "~*", "+@all"]);
    let url = format!("redis://worker:secret@127.0.0.1:{}", server.port());
    let mut user = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
    let store = std::sync::Arc::new(Store::new(&RedisSettings::new(url.as_str().into())).unwrap());
    let as_user = Wheel::new(store, scene.wheel.settings().clone());
    for right in script_writes(&server) {
        server.command::<()>(&["ACL", "SETUSER", "worker", &format!("-{right}")]);
        for call in &scene.calls {
            scene.restore(&mut connection);
            run(&mut user, call.script, &scene.keys(), &arguments(call)).ok();
            assert_whole(&scene, call, &format!("{} without the right to {right}", call.name)).await;
        }
        let kind = as_user.selftest("w").await.expect_err(&right).store_kind();
        assert!(matches!(kind, Some(StoreKind::Denied | StoreKind::Corrupt)), "{right}: {kind:?}");
        server.command::<()>(&["ACL", "SETUSER", "worker", &format!("+{right}")]);
        for name in FIXED {
            server.command::<u64>(&["DEL", &format!("dw1:{{~w.0}}:{name}")]);
        }
    }
    as_user.selftest("w").await.unwrap();
}

#[test]
fn the_header_of_a_script_numbers_the_arguments_that_it_reads() {
    for script in script::ALL {
        let file = format!("{}/lua/{}.lua", env!("CARGO_MANIFEST_DIR"), script.verb);
        let text = std::fs::read_to_string(file).unwrap();
        let header: String = text.lines().take_while(|line| line.starts_with("--")).collect();
        let documented: BTreeSet<usize> = header
            .split(['|', ' '])
            .zip(header.split(['|', ' ']).skip(1))
            .filter(|(before, _)| before.is_empty() || *before == "ARGV")
            .filter_map(|(_, number)| number.trim_end_matches("..").parse().ok())
            .filter(|number| (8..20).contains(number))
            .collect();
        let mut read = BTreeSet::new();
        for (at, found) in text.match_indices("ARGV[FIRST") {
            let rest = &text[at + found.len()..];
            let inside = rest.split(']').next().unwrap().trim_start_matches(" + ");
            if let Ok(offset) = if inside.is_empty() { Ok(0) } else { inside.parse::<usize>() } {
                read.insert(8 + offset);
            }
        }
        if script.verb == "move" {
            read.retain(|number| *number <= 10); // From the tenth on they are the verb's own.
        }
        assert_eq!(documented, read, "lua/{}.lua", script.verb);
    }
}
