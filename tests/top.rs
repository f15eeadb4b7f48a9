//! `duewheel top` in a real terminal: what a person sees there, what they do there, and how they leave it.

use std::sync::Arc;
use std::time::Duration;

use duewheel::deadline::{DueAt, State};
use duewheel::wheel::{Minute, RedisSettings, Store, Wheel};

use crate::rig::cli::{Cli, Ran, duewheel};
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::tmux::Terminal;
use crate::rig::wheel::{after, bury, enqueue, settings, wheel};
use crate::rig::worker::{Fleet, Plan};
use crate::rig::{PATIENCE, signal};

/// A shell with a wheel; the program is called `duewheel` there.
fn terminal(server: &RedisServer, wheel: &str, size: (u16, u16)) -> Terminal {
    let program = env!("CARGO_BIN_EXE_duewheel");
    let folder = std::path::Path::new(program).parent().unwrap().display().to_string();
    let env = [
        ("REDIS_URL", server.url()),
        ("DUEWHEEL_WHEEL", wheel.to_owned()),
        ("USER", "tester".to_owned()),
        ("DUEWHEEL_REDIS__RESPONSE_TIMEOUT", "20s".to_owned()),
    ];
    let terminal = Terminal::open(size.0, size.1, &env);
    // tmux gives its shells the PATH of its own client.
    terminal.line(&format!("PATH={folder}:$PATH; clear"));
    terminal
}

fn audit(server: &RedisServer, wheel: &Wheel) -> String {
    let entries: redis::Value =
        server.command(&["XRANGE", &format!("dw1:{{{}}}:audit", wheel.name()), "-", "+"]);
    format!("{entries:?}")
}

async fn state(wheel: &Wheel, text: &str) -> State {
    wheel.inspect(&crate::rig::wheel::id(text)).await.unwrap().state
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn from_the_terminal_a_dead_order_is_found_understood_and_revived() {
    if !Terminal::is_there() {
        return;
    }
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 16).await;
    for n in 0..30 {
        enqueue(&wheel, &format!("later-{n}"), after(600_000 + n * 1000)).await.unwrap();
    }
    for n in 0..12 {
        bury(&wheel, &format!("shop-{n}"), if n == 7 { "table is gone" } else { "timeout after 5s" }).await;
    }
    let top = terminal(&server, wheel.name().as_str(), (100, 30));
    top.line("stty -g > before; duewheel top --interval 500ms --by alice");
    let seen = top.shows("no worker: nobody closes orders on this wheel");
    assert!(seen.contains("1 Overview 2 Wheel 3 Deadlines 4 Dead 5 Hooks 6 Workers"), "{seen}");
    assert!(seen.lines().any(|l| l.contains("dead") && l.contains("12")), "{seen}");

    top.press(&["4"]);
    top.shows("dead: 12");
    top.press(&["/"]);
    top.type_text("gone");
    top.press(&["Enter"]);
    let seen = top.shows("1 of 12 match \"gone\"");
    assert!(seen.contains("shop-7") && !seen.contains("shop-6"), "{seen}");
    top.press(&["Enter"]);
    let seen = top.shows("why: it was put aside and waits for a person: table is gone");
    assert!(seen.contains("put aside as dead"), "{seen}");

    top.press(&["r"]);
    top.shows("Revive shop-7");
    // Left alone: nothing happens.
    top.press(&["Escape"]);
    top.shows("nothing was done");
    assert_eq!(state(&wheel, "shop-7").await, State::Dead);
    top.press(&["r"]);
    top.shows("Revive shop-7");
    top.type_text("table is back");
    top.press(&["Enter"]);
    top.shows("revived 1");
    assert_eq!(state(&wheel, "shop-7").await, State::Scheduled);
    let written = audit(&server, &wheel);
    assert!(written.contains("alice") && written.contains("table is back"), "{written}");

    // All that match the rest: the number must be typed.
    top.press(&["Escape"]);
    top.press(&["Escape"]);
    top.shows("dead: 11");
    top.press(&["R"]);
    top.shows("Revive 11 dead deadlines: 11 of 11 match");
    top.press(&["Enter"]);
    top.shows("type 11 to go on");
    top.type_text("12");
    top.press(&["Enter"]);
    top.shows("that is another number");
    top.press(&["BSpace", "1", "Enter"]);
    top.shows("revived 11");
    assert_eq!(wheel.stats().await.unwrap().dead, 0);

    top.press(&["q"]);
    top.shows_when("the shell again", |screen| screen.contains("ready>") && !screen.contains("Overview"));
    top.line("stty -g | cmp before - && echo the same $?");
    top.shows("the same 0");
    top.line("echo ended with $?");
    top.shows("ended with 0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_only_looks_and_touches_nothing() {
    if !Terminal::is_there() {
        return;
    }
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 16).await;
    bury(&wheel, "odd", "rejected").await;
    let top = terminal(&server, wheel.name().as_str(), (80, 24));
    top.line("duewheel top --read-only");
    top.shows("read-only");
    top.press(&["4"]);
    top.shows("rejected");
    for key in ["r", "R", "c", "C", "f", "p"] {
        top.press(&[key]);
        top.shows("read-only: nothing is changed from here");
        // Enter would confirm what was asked; here it opens the story.
        top.press(&["Enter"]);
        top.shows("why: it was put aside");
        top.press(&["Escape"]);
        top.shows("dead: 1");
        top.press(&["Escape"]);
    }
    assert_eq!(state(&wheel, "odd").await, State::Dead);
    assert_eq!(wheel.stats().await.unwrap().paused_shards, 0);
    assert!(!audit(&server, &wheel).contains("revive"));
    top.press(&["q"]);
    top.shows("ready>");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pause_resume_hold_and_reschedule_ask_first_and_show_at_once() {
    if !Terminal::is_there() {
        return;
    }
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 16).await;
    enqueue(&wheel, "soon", after(600_000)).await.unwrap();
    let top = terminal(&server, wheel.name().as_str(), (80, 24));
    top.line("duewheel top --interval 300ms");
    top.shows("no worker");
    top.press(&["p"]);
    top.shows("Pause the whole wheel");
    top.press(&["Enter"]);
    top.shows("a reason is needed");
    top.type_text("the shop is down");
    top.press(&["Enter"]);
    top.shows("paused: 16 of 16 shards");
    top.shows("paused by tester@");
    assert_eq!(wheel.stats().await.unwrap().paused_shards, 16);
    top.press(&["p"]);
    top.shows("Resume the wheel");
    top.press(&["Enter"]);
    top.shows("resumed: 16 of 16 shards");
    assert_eq!(wheel.stats().await.unwrap().paused_shards, 0);

    // One order: held for longer than was proposed, released, moved.
    top.press(&["3"]);
    top.shows("soon");
    top.press(&["o"]);
    top.shows("for: 15m");
    top.press(&["BSpace", "BSpace", "BSpace"]);
    top.type_text("20m");
    top.press(&["Enter"]);
    top.shows("Hold soon for 20m");
    top.press(&["Enter"]);
    top.shows("held 1");
    let order = crate::rig::wheel::id("soon");
    let seen = async || wheel.inspect(&order).await.unwrap().entry.unwrap();
    assert_eq!(seen().await.hold_count, 1);
    // What is held is seen to be: with the next look.
    top.shows("held, due");
    top.press(&["o"]);
    top.shows("Release soon from its hold");
    top.press(&["Enter"]);
    top.shows("released 1");
    let was = seen().await.due_at;
    top.press(&["t"]);
    top.shows("to: +15m");
    top.press(&["Enter"]);
    top.type_text("the shop opens later");
    top.press(&["Enter"]);
    top.shows("rescheduled 1");
    assert_eq!(seen().await.due_at, was.plus(Duration::from_secs(900)));
    assert!(audit(&server, &wheel).contains("the shop opens later"));
    top.press(&["C-c"]);
    top.shows_when("the shell again", |screen| screen.contains("ready>") && !screen.contains("Overview"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_process_is_drained_by_its_key_and_claims_nothing_more() {
    if !Terminal::is_there() {
        return;
    }
    let server = RedisServer::start(RedisOptions::default());
    let fleet = Fleet::new(&server, &Plan::new(server.url()).shards(4).hook("kind", "\"log\"")).await;
    let mut worker = fleet.start();
    fleet.known(&[&worker]).await;
    let wheel = &fleet.wheel;
    let set = format!("--set wheel.{}.shards=4", wheel.name());
    let top = terminal(&server, wheel.name().as_str(), (110, 24));
    top.line(&format!("duewheel top --interval 300ms --by alice {set}"));
    top.press(&["5"]);
    top.shows("1 of 1 workers claim");
    // What is drained is the worker under the cursor, on its own tab and nowhere else.
    top.press(&["d"]);
    top.shows("only a worker is drained");
    top.press(&["6"]);
    top.shows("serving");
    top.press(&["d"]);
    top.shows(&format!("Drain worker {}", worker_name(wheel).await));
    top.press(&["Enter"]);
    top.shows("a reason is needed");
    top.type_text("a new version");
    top.press(&["Enter"]);
    top.shows(" drains");
    // The worker itself says so, with its next heartbeat.
    top.shows_when("that it drains", |screen| screen.contains("draining") && !screen.contains("serving"));
    top.press(&["5"]);
    top.shows("no worker claims");
    enqueue(wheel, "waits", after(0)).await.unwrap();
    // A worker that claims looks at least four times a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(wheel.stats().await.unwrap().due, 1);
    worker.still_runs();
    let note = wheel.presence().await.unwrap().workers[0].drained.clone().unwrap();
    assert_eq!(note.reason, "a new version");
    let written = audit(&server, wheel);
    assert!(written.contains("drain") && written.contains("alice"), "{written}");
    // Let go on, it closes what has waited.
    assert!(wheel.drain_worker(&wheel.presence().await.unwrap().workers[0].token, None).await.unwrap());
    fleet.idle(PATIENCE).await;
    assert_eq!(state(wheel, "waits").await, State::Ended);
    top.press(&["q"]);
    top.shows_when("the shell again", |screen| screen.contains("ready>") && !screen.contains("Overview"));
}

/// The only worker's name for people.
async fn worker_name(wheel: &Wheel) -> String {
    let workers = wheel.presence().await.unwrap().workers;
    format!("{}:{}", workers[0].host, workers[0].pid)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn however_it_ends_or_rests_the_terminal_is_given_back() {
    if !Terminal::is_there() {
        return;
    }
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 16).await;
    let top = terminal(&server, wheel.name().as_str(), (80, 24));
    // A prompt of its own: what is typed before it stands there may be lost on the way from one program to the other.
    let is_shell = |screen: &str| screen.trim_end().ends_with("ready>") && !screen.contains("Overview");
    top.line("stty -g > before");
    for (name, code) in [("TERM", 143), ("INT", 130)] {
        top.line("duewheel top");
        top.shows("no worker");
        signal(top.child(), name);
        top.shows_when("the shell again", is_shell);
        top.line("echo ended with $?; stty -g | cmp before - && echo the same $?");
        let seen = top.shows("the same 0");
        assert!(seen.contains(&format!("ended with {code}")), "{seen}");
        top.line("clear");
        top.shows_when("a clear screen", |screen| !screen.contains("ended with"));
    }
    // Ctrl-Z gives it back until it is called to the front again.
    for suspend in ["key", "signal"] {
        top.line("duewheel top");
        top.shows("no worker");
        if suspend == "key" {
            top.press(&["C-z"])
        } else {
            signal(top.child(), "TSTP")
        }
        top.shows_when("the shell again", is_shell);
        top.line("stty -g | cmp before - && echo resting $?");
        top.shows("resting 0");
        top.line("fg");
        top.shows("no worker");
        top.press(&["2"]);
        top.shows("shard");
        top.press(&["q"]);
        top.shows_when("the shell again", is_shell);
        top.line("stty -g | cmp before - && echo back $?");
        top.shows("back 0");
        top.line("clear");
        top.shows_when("a clear screen", |screen| !screen.contains("back 0"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_away_is_said_and_looked_for_again() {
    if !Terminal::is_there() {
        return;
    }
    let mut server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 16).await;
    let top = terminal(&server, wheel.name().as_str(), (100, 24));
    top.line("duewheel top --interval 300ms --timeout 2s");
    top.shows("no worker");
    server.kill9();
    top.shows("Redis is away");
    // Keys are answered all the same.
    top.press(&["?"]);
    top.shows("suspend");
    top.press(&["x"]);
    server.restart();
    top.shows_when("no banner any more", |screen| {
        !screen.contains("Redis is away") && screen.contains("Overview")
    });
    top.press(&["q"]);
    top.shows_when("the shell again", |screen| !screen.contains("Overview"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_terminal_and_hostile_ids_break_nothing_and_ids_are_copied_whole() {
    if !Terminal::is_there() {
        return;
    }
    let server = RedisServer::start(RedisOptions::default());
    let wheel = wheel(&server, 16).await;
    let hostile = "a\u{202e}b<script>";
    bury(&wheel, hostile, "\u{1b}[2J\u{1b}[31mred\u{202e}\u{7}").await;
    let top = terminal(&server, wheel.name().as_str(), (100, 24));
    top.line("duewheel top");
    top.press(&["4"]);
    let seen = top.shows("a\\u{202e}b<script>");
    assert!(seen.contains("\\u{1b}[2J\\u{1b}[31mred"), "{seen}");
    top.press(&["y"]);
    top.shows("copied a");
    let copied = crate::rig::eventually_blocking(PATIENCE, || {
        let buffer = top.run(&["list-buffers"]).stdout;
        (!buffer.is_empty()).then(|| top.run(&["show-buffer"]).stdout)
    });
    assert_eq!(String::from_utf8_lossy(&copied).trim_end(), hostile);
    for (columns, rows) in [(40, 12), (21, 6), (12, 3), (2, 1), (60, 20)] {
        top.run(&["resize-window", "-t", "test", "-x", &columns.to_string(), "-y", &rows.to_string()]);
        for key in ["Tab", "Enter", "?", "x", "Escape", "Tab", "Tab", "p", "Escape", "4"] {
            top.press(&[key]);
        }
    }
    top.shows("dead: 1");
    top.press(&["q"]);
    top.shows_when("the shell again", |screen| screen.contains("ready>"));
}

#[tokio::test]
async fn without_a_terminal_it_is_one_plain_table_or_one_object() {
    let server = RedisServer::shared();
    let cli = Cli::new(server);
    let mut own = settings(16);
    own.name = duewheel::shard::WheelName::new(&cli.wheel).unwrap();
    let store = Arc::new(Store::new(&RedisSettings::new(server.url().into())).unwrap());
    let wheel = Wheel::new(store, own);
    wheel.format().await.unwrap();
    enqueue(&wheel, "soon", after(30_000)).await.unwrap();
    enqueue(&wheel, "later", after(1_800_000)).await.unwrap();
    enqueue(&wheel, "over\u{202e}due", DueAt::After(Duration::ZERO)).await.unwrap();
    let mut minute = Minute { closed: 90, skipped: 10, ..Minute::at(wheel.now().await.unwrap()) };
    minute.lateness.put(0, 100);
    wheel.record_hour("w", &[minute]).await.unwrap();

    for args in [&["top"][..], &["top", "--once"]] {
        let ran = cli.run(args).ends(0);
        for line in ["! no worker: nobody closes orders on this wheel", "due now", "lateness", "90"] {
            assert!(ran.stdout.contains(line), "no {line} in {ran:?}");
        }
        assert!(!ran.stdout.contains('\u{1b}') && ran.stderr.is_empty(), "{ran:?}");
    }
    for args in [&["top", "--json"][..], &["top", "--once", "--json"]] {
        let object = cli.run(args).ends(0).object();
        assert_eq!(object["stats"]["scheduled"], 3);
        assert_eq!((object["stats"]["due"].as_u64(), object["upcoming"]["1m"].as_u64()), (Some(1), Some(1)));
        assert_eq!(object["upcoming"]["1h"], 2);
        assert_eq!(object["last_hour"]["closed"], 90);
        assert_eq!(object["lateness"]["measured"], 100);
        assert!(object["lateness"]["p99_ms"].as_f64().unwrap() <= 1.0);
        assert_eq!(object["minutes"].as_array().unwrap().len(), 60);
        assert_eq!(object["alarms"][0], "no worker: nobody closes orders on this wheel");
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_the_terminal_is_taken() {
    let cli = Cli::new(RedisServer::shared());
    for interval in ["199ms", "2h", "0", "soon", "-1s", "2"] {
        let ran = cli.run(&["top", "--interval", interval]);
        assert_eq!(ran.code, 2, "{interval}: {ran:?}");
        assert!(ran.stdout.is_empty(), "{ran:?}");
    }
    let mut nobody = duewheel();
    nobody.env("REDIS_URL", "redis://127.0.0.1:1").args(["top", "--once", "--timeout", "1s"]);
    let ran = Ran::of(&mut nobody).ends(69);
    assert!(ran.stderr.contains("127.0.0.1:1"), "{ran:?}");
    // A reader that went away ends it quietly.
    let mut head = cli.command(&["top", "--once"]);
    let mut child =
        head.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::from(child.wait_with_output().unwrap());
    assert!(ran.code == 0 && ran.stderr.is_empty(), "{ran:?}");
}
