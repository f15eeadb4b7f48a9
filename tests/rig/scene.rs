//! A shard with an id in every state and every fixed key filled, each script with arguments that fit it, and the means to put the shard
//! back as it was: for the tests that break something and run every script.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use duewheel::deadline::{Deadline, Id, Note, OnConflict, Outcome, Reminders, State};
use duewheel::shard::Shard;
use duewheel::wheel::script::{self, Script};
use duewheel::wheel::{Ask, Settlement, What, Wheel};
use redis::{ConnectionLike, RedisResult, Value};

use super::redis::RedisServer;
use super::wheel::{after, ask, deadline, id, key};

const S: Shard = Shard(0);
pub const FIXED: [&str; 9] =
    ["meta", "slots", "bodies", "leases", "live", "dead", "reasons", "ended", "events"];
/// The arguments in front of every script's own: layout, shards, slot width, clock, how long ends and events are kept.
pub const FRONT: [&str; 7] = ["1", "1", "1000", "", "259200000", "3600000", "259200000"];

/// One argument of a script.
#[derive(Debug, Clone)]
pub enum Arg {
    /// A number in decimal digits, and nothing else is one.
    Number(String),
    /// A cursor of Redis: digits, as many as it likes.
    Cursor(String),
    /// One of a few words; any other is refused.
    Word(String),
    /// Bytes of the caller: every value is allowed.
    Text(Vec<u8>),
}

impl Arg {
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Number(text) | Self::Cursor(text) | Self::Word(text) => text.clone().into_bytes(),
            Self::Text(bytes) => bytes.clone(),
        }
    }
}

/// A script with its own arguments.
#[derive(Debug, Clone)]
pub struct Call {
    pub name: String,
    pub script: &'static Script,
    pub args: Vec<Arg>,
}

impl Call {
    fn new(name: &str, script: &'static Script, args: Vec<Arg>) -> Self {
        Self { name: name.to_owned(), script, args }
    }
}

/// The shard's keys as Redis dumps them.
pub type Dump = BTreeMap<String, Vec<u8>>;

pub struct Scene {
    pub wheel: Wheel,
    pub ids: Vec<Id>,
    pub calls: Vec<Call>,
    pub dump: Dump,
}

/// A deadline with one reminder, whose moment has come.
async fn place_with_reminder(wheel: &Wheel, name: &str, due_ms: u64, before_ms: u64) {
    let reminders = Reminders::new(&[Duration::from_millis(before_ms)]).unwrap();
    let one = Deadline { reminders: Some(reminders), ..deadline(name, after(due_ms)) };
    wheel.enqueue(&one, OnConflict::Keep, false).await.unwrap().unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
}

impl Scene {
    /// Sets the scene on a wheel of one shard that was just formatted.
    pub async fn set(server: &RedisServer, wheel: Wheel) -> Self {
        let hour = 3_600_000;
        let scheduled = [
            ("near", hour),
            ("far", 720 * hour),
            ("held", 2 * hour),
            ("alone", 50 * hour),
            ("moved", 3 * hour),
        ];
        for (name, ms) in scheduled {
            wheel.enqueue(&deadline(name, after(ms)), OnConflict::Keep, false).await.unwrap().unwrap();
        }
        // Reminders: one that a worker has, one whose worker died, and one that waits, though its close is due.
        let reminding = ["reminding", "lost-reminder", "passed"];
        let long = Ask { lease: Duration::from_secs(3600), limit: 8, ..ask(1) };
        place_with_reminder(&wheel, reminding[0], hour, hour - 1).await;
        let taken = wheel.claim(S, &Ask { nonce: 3, ..long.clone() }).await.unwrap().leases;
        assert_eq!((taken.len(), taken[0].stage.0), (1, 1));
        let due = [
            "leased-a", "leased-b", "leased-c", "flagged", "retried", "dead", "dead-2", "closed", "vanished",
        ];
        for name in due {
            wheel.enqueue(&deadline(name, after(0)), OnConflict::Keep, false).await.unwrap().unwrap();
        }
        wheel.hold(&id("held"), Duration::from_secs(60)).await.unwrap().unwrap();
        let leases = wheel.claim(S, &long).await.unwrap().leases;
        assert_eq!(leases.len(), 8);
        let short = Ask { lease: Duration::from_millis(1), ..ask(2) };
        place_with_reminder(&wheel, reminding[1], hour, hour - 1).await;
        assert_eq!(wheel.claim(S, &short).await.unwrap().leases.len(), 2);
        place_with_reminder(&wheel, reminding[2], 2, 1).await;
        let settle = async |name: &str, what: What| {
            let fence = leases.iter().find(|lease| lease.id.as_str() == name).unwrap().fence;
            wheel.settle(S, &[Settlement { id: id(name), fence, what }]).await.unwrap();
        };
        settle("retried", What::Retry(Duration::from_secs(7200), String::new())).await;
        settle("dead", What::Bury("no such order".to_owned())).await;
        settle("dead-2", What::Bury("no such order".to_owned())).await;
        let closed = leases.iter().find(|lease| lease.id.as_str() == "closed").unwrap();
        settle("closed", What::End { outcome: Outcome::Closed, lease: Arc::new(closed.clone()) }).await;
        wheel.cancel(&[id("flagged")]).await;
        for name in ["due", "due-2"] {
            wheel.enqueue(&deadline(name, after(0)), OnConflict::Keep, false).await.unwrap().unwrap();
        }
        wheel.close(&id("moved"), &Note::new("anna", "by hand").unwrap()).await.unwrap().unwrap();
        let names =
            scheduled.iter().map(|(name, _)| *name).chain(due).chain(["due", "due-2"]).chain(reminding);
        let ids: Vec<Id> = names.map(id).collect();
        let mut connection = redis::Client::open(server.unix_url()).unwrap().get_connection().unwrap();
        let dump = dump(&mut connection, &wheel);
        for name in FIXED {
            assert!(dump.contains_key(&key(&wheel, S, name)), "the scene leaves {name} empty");
        }
        let calls = calls(&mut connection, &wheel);
        Self { wheel, ids, calls, dump }
    }

    pub fn keys(&self) -> [String; 9] {
        FIXED.map(|name| key(&self.wheel, S, name))
    }

    /// Puts every key back as it was.
    pub fn restore(&self, connection: &mut impl ConnectionLike) {
        let mut pipe = redis::pipe();
        for name in names(connection, &self.wheel) {
            pipe.del(name).ignore();
        }
        for (name, bytes) in &self.dump {
            pipe.cmd("RESTORE").arg(name).arg(0).arg(bytes).ignore();
        }
        pipe.query::<()>(connection).unwrap();
    }

    /// Ids that are nowhere: not scheduled, leased, dead or remembered. What evict was told to forget is not lost.
    pub async fn lost(&self, after: &Call) -> BTreeSet<String> {
        let mut lost = BTreeSet::new();
        let forgotten = |id: &Id| after.name == "evict" && ["far", "dead"].contains(&id.as_str());
        for id in self.ids.iter().filter(|id| !forgotten(id)) {
            match self.wheel.inspect(id).await {
                Ok(seen) if seen.state != State::Absent => {}
                other => drop(lost.insert(format!("{id}: {other:?}"))),
            }
        }
        lost
    }
}

/// Runs a script with these arguments behind the front.
pub fn run(
    connection: &mut impl ConnectionLike,
    script: &Script,
    keys: &[String],
    args: &[Vec<u8>],
) -> RedisResult<Value> {
    let mut cmd = redis::cmd("EVAL");
    cmd.arg(script.source()).arg(keys.len()).arg(keys).arg(args);
    cmd.query(connection)
}

/// The front and a call's own arguments.
pub fn arguments(call: &Call) -> Vec<Vec<u8>> {
    let front = FRONT.iter().map(|text| text.as_bytes().to_vec());
    front.chain(call.args.iter().map(Arg::bytes)).collect()
}

fn names(connection: &mut impl ConnectionLike, wheel: &Wheel) -> Vec<String> {
    redis::cmd("KEYS").arg(key(wheel, S, "*")).query(connection).unwrap()
}

pub fn dump(connection: &mut impl ConnectionLike, wheel: &Wheel) -> Dump {
    let mut dump = Dump::new();
    for name in names(connection, wheel) {
        if let Some(bytes) = redis::cmd("DUMP").arg(&name).query::<Option<Vec<u8>>>(connection).unwrap() {
            dump.insert(name, bytes);
        }
    }
    dump
}

fn calls(connection: &mut impl ConnectionLike, wheel: &Wheel) -> Vec<Call> {
    let number = |n: &dyn ToString| Arg::Number(n.to_string());
    let word = |text: &str| Arg::Word(text.to_owned());
    let text = |text: &str| Arg::Text(text.as_bytes().to_vec());
    let mut fence = |name: &str| -> Arg {
        let score: String =
            redis::cmd("ZSCORE").arg(key(wheel, S, "leases")).arg(name).query(connection).unwrap();
        Arg::Number(score)
    };
    let (a, b, c, flagged) = (fence("leased-a"), fence("leased-b"), fence("leased-c"), fence("flagged"));
    let reminding = fence("reminding");
    let mut stored = |name: &str| -> Arg {
        Arg::Text(redis::cmd("HGET").arg(key(wheel, S, "bodies")).arg(name).query(connection).unwrap())
    };
    let (far, dead) = (stored("far"), stored("dead"));
    let tail = [&[1, 0, 0, 1][..], &[0; 24]].concat();
    let place = |name: &str, due: &str| {
        let moment: u64 = due.parse().unwrap(); // of a window the script fills it in
        let body = [&moment.to_be_bytes()[..], &moment.to_be_bytes()[..], &[0; 5], b"\x80"].concat();
        [text(name), Arg::Number(due.to_owned()), Arg::Text(body)]
    };
    let enqueue = |words: [Arg; 3], places: Vec<[Arg; 3]>| {
        let count = places.len();
        let mut args = words.to_vec();
        args.push(number(&count));
        args.extend(places.into_iter().flatten());
        args
    };
    let move_one = |verb: &str, name: &str, rest: Vec<Arg>| {
        let args = [vec![word(verb), text(name)], rest].concat();
        Call::new(verb, &script::MOVE, args)
    };
    let new = enqueue(
        [word("keep"), word("0"), number(&0)],
        vec![place("new", "1900000000000"), place("near", "+5000"), place("due", "+0")],
    );
    let replace = enqueue(
        [word("replace"), word("1"), number(&2)],
        vec![place("closed", "+1000"), place("alone", "+1000"), place("held", "+1")],
    );
    let settled = |items: &[(&str, &Arg, Arg)]| {
        let count = number(&items.len());
        let group = |(name, fence, verdict): &(&str, &Arg, Arg)| {
            [(*fence).clone(), number(&1), text(name), verdict.clone()]
        };
        let groups: Vec<_> = items.iter().map(group).collect();
        [vec![count], groups.concat()].concat()
    };
    let settle = settled(&[
        ("leased-a", &a, Arg::Text(tail)),
        ("leased-b", &b, word("r5000")),
        ("leased-c", &c, word("dno such order")),
        ("flagged", &flagged, word("b")),
    ]);
    let settle_more = settled(&[
        ("leased-a", &a, word("w1")),
        ("leased-b", &b, word("u1900000000000")),
        ("leased-c", &c, word("s1 1900000000000")),
        ("reminding", &reminding, word("s0 1900000000000 reminded")),
        ("flagged", &flagged, word("b")),
    ]);
    let counted = |items: Vec<Vec<Arg>>| [vec![number(&items.len())], items.concat()].concat();
    let claim = |limit: u32, suspect: &str| {
        let args = [number(&limit), number(&30_000_000), text("w2"), text("1"), word(suspect)];
        [args.to_vec(), vec![number(&5), number(&0), number(&0)]].concat()
    };
    let adopted = |state: &str, name: &str, body: &Arg| {
        [word(state), text(name), number(&1_900_000_000_000_u64), body.clone(), text(""), text("")].to_vec()
    };
    vec![
        Call::new("format", &script::FORMAT, vec![text(""), text("")]),
        Call::new("enqueue", &script::ENQUEUE, new),
        Call::new("enqueue that replaces", &script::ENQUEUE, replace),
        Call::new(
            "adopt",
            &script::ADOPT,
            counted(vec![adopted("scheduled", "new", &far), adopted("dead", "new-dead", &far)]),
        ),
        Call::new("claim", &script::CLAIM, claim(10, "0")),
        Call::new("claim of a suspect", &script::CLAIM, claim(1, "1")),
        Call::new("settle", &script::SETTLE, settle),
        Call::new("cancel of a reminder", &script::CANCEL, vec![word("0"), number(&1), text("reminding")]),
        Call::new("settle otherwise", &script::SETTLE, settle_more),
        Call::new("renew", &script::RENEW, vec![number(&1_000_000), number(&1), text("leased-a"), a]),
        Call::new(
            "cancel",
            &script::CANCEL,
            [vec![word("0"), number(&5)], ["due", "alone", "dead", "leased-b", "unknown"].map(text).to_vec()]
                .concat(),
        ),
        Call::new("drop", &script::CANCEL, vec![word("1"), number(&1), text("dead")]),
        move_one("reschedule", "alone", vec![number(&1_900_000_000_000_u64), text("")]),
        move_one("hold", "near", vec![number(&60_000), number(&3), number(&3_600_000)]),
        move_one("release", "held", vec![]),
        move_one("close", "far", vec![text("{}")]),
        move_one("revive", "dead", vec![]),
        Call::new("pause", &script::PAUSE, vec![word("pause"), text("{}")]),
        Call::new("prune", &script::PRUNE, vec![Arg::Cursor("0".to_owned())]),
        Call::new("evict", &script::EVICT, vec![number(&2), text("far"), far, text("dead"), dead]),
        Call::new("heal", &script::HEAL, vec![word("body_without_place"), text("near"), text(""), word("1")]),
        Call::new("inspect", &script::INSPECT, vec![number(&2), text("near"), text("unknown")]),
        Call::new("held", &script::HELD, vec![number(&3), text("near"), text("dead"), text("unknown")]),
        Call::new(
            "list",
            &script::LIST,
            vec![
                word("scheduled"),
                number(&0),
                number(&1_900_000_000_000_u64),
                text(""),
                number(&10),
                number(&524_288),
            ],
        ),
        Call::new("ended_page", &script::ENDED_PAGE, vec![Arg::Cursor("0".to_owned()), number(&10)]),
        Call::new("stats", &script::STATS, vec![]),
        Call::new(
            "forecast",
            &script::FORECAST,
            vec![number(&0), number(&3_600_000), number(&5), number(&0)],
        ),
        Call::new("verify", &script::VERIFY, vec![word("bodies"), Arg::Cursor("0".to_owned())]),
    ]
}
