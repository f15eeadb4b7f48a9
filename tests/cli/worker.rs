//! The worker as a process: its signals, its log, and what it refuses to start with; and the check that tells beforehand.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::rig::cli::{Cli, Ran};
use crate::rig::redis::{Aof, RedisOptions, RedisServer};
use crate::rig::{PATIENCE, eventually_blocking, free_port, signal};

/// A worker under way; killed when dropped.
struct Working {
    child: Child,
    log: mpsc::Receiver<String>,
    said: Vec<String>,
}

impl Working {
    fn start(cli: &Cli, args: &[&str]) -> Self {
        let mut command = cli.command(&["worker", "--json"]);
        command.args(args);
        Self::of(command)
    }

    fn of(mut command: std::process::Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, log) = mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        Self { child, log, said: Vec::new() }
    }

    /// Waits for a log line with this text and returns it.
    fn says(&mut self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.log.recv_timeout(left) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(_) => panic!("never said {text:?}: {:#?}", self.said),
            }
        }
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits for its end; answers code, stdout and how long that took.
    fn ended(&mut self) -> (i32, String, Duration) {
        use std::os::unix::process::ExitStatusExt as _;
        let began = Instant::now();
        let status = eventually_blocking(PATIENCE, || self.child.try_wait().unwrap());
        let mut stdout = String::new();
        std::io::Read::read_to_string(&mut self.child.stdout.take().unwrap(), &mut stdout).unwrap();
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        (code, stdout, began.elapsed())
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A shop whose orders are closed by a log line.
fn logging(server: &RedisServer) -> Cli {
    let cli = Cli::new(server);
    cli.write("duewheel.toml", format!("[wheel.{}.hook]\nkind = 'log'\n", cli.wheel));
    cli
}

/// A shop whose endpoint answers this, or takes the call and never answers.
fn calling(server: &RedisServer, answer: Option<&'static [u8]>) -> Cli {
    let cli = Cli::new(server);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}/close", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            if let Some(answer) = answer {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                    line.clear();
                }
                let _ = stream.write_all(answer);
            }
            held.push(stream);
        }
    });
    cli.write("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    cli.write(
        "duewheel.toml",
        format!(
            "[wheel.{0}.worker]\nlease = '1m'\n[wheel.{0}.hook]\nkind = 'webhook'\nurl = '{url}'\nsecret_file = 'secret'\n\
             allow_private = true\ntimeout = '30s'\n",
            cli.wheel
        ),
    );
    cli
}

#[test]
fn due_orders_are_closed_and_a_signal_ends_an_idle_worker_within_a_second() {
    for (name, arrow) in [("TERM", "clean"), ("INT", "clean")] {
        let cli = logging(RedisServer::shared());
        let mut worker = Working::start(&cli, &[]);
        worker.says("serving");
        cli.run(&["enqueue", "o-1", "--in", "200ms"]).ends(0);
        worker.says("would close");
        eventually_blocking(PATIENCE, || (cli.stat("ended") == 1).then_some(()));
        assert_eq!(cli.run(&["inspect", "o-1", "--json"]).object()["ended"]["outcome"], "closed");
        worker.signal(name);
        let (code, stdout, took) = worker.ended();
        assert_eq!(code, 0, "{stdout}");
        assert!(took < Duration::from_secs(3), "{took:?}");
        let object: serde_json::Value = serde_json::from_str(stdout.trim()).unwrap();
        assert_eq!((&object[arrow], &object["tally"]["closed"]), (&true.into(), &1.into()), "{object}");
    }
}

#[test]
fn a_worker_that_is_told_to_ends_when_nothing_is_due_any_more() {
    let cli = logging(RedisServer::shared());
    let lines: String = (0..500).map(|n| format!("{{\"id\":\"o-{n}\",\"in\":\"0s\"}}\n")).collect();
    cli.run_with(&["enqueue", "--file", "-"], lines.as_bytes()).ends(0);
    let ran = cli.run(&["worker", "--until-idle", "--json"]).ends(0);
    assert_eq!(ran.object()["tally"]["closed"], 500, "{ran:?}");
    assert_eq!((cli.stat("ended"), cli.stat("scheduled")), (500, 0));
}

#[test]
fn a_second_signal_ends_at_once_and_the_order_is_closed_by_the_next_worker() {
    let cli = calling(RedisServer::shared(), None);
    cli.run(&["enqueue", "o-1", "--in", "0s"]).ends(0);
    let mut worker = Working::start(&cli, &[]);
    eventually_blocking(PATIENCE, || (cli.stat("leased") == 1).then_some(()));
    worker.signal("TERM");
    worker.says("draining");
    worker.signal("TERM");
    let (code, _, took) = worker.ended();
    assert_eq!(code, 143);
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(cli.run(&["inspect", "o-1", "--json"]).object()["state"], "leased");
}

#[test]
fn a_worker_starts_without_redis_waits_and_ends_within_its_grace() {
    let port = free_port();
    let cli = logging(RedisServer::shared());
    let mut command_line = cli.command(&["worker", "--set"]);
    let set = format!("wheel.{}.worker.grace=2s", cli.wheel);
    command_line.arg(&set).env("REDIS_URL", format!("redis://127.0.0.1:{port}"));
    let mut child = command_line.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    while !line.contains("waiting for it") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended");
    }
    signal(child.id(), "TERM");
    let began = Instant::now();
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    let status = eventually_blocking(PATIENCE, || child.try_wait().unwrap());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!(status.code(), Some(0));
}

#[test]
fn sighup_takes_over_what_can_change_and_says_what_cannot() {
    let cli = calling(RedisServer::shared(), None);
    let mut worker = Working::start(&cli, &[]);
    worker.says("serving");
    worker.signal("HUP");
    worker.says("secrets were read again");
    let text = std::fs::read_to_string(cli.dir.path().join("duewheel.toml")).unwrap();
    cli.write("duewheel.toml", format!("{text}\n[log]\nlevel = 'debug'\n[redis]\npool_size = 3\n"));
    worker.signal("HUP");
    let line = worker.says("need a restart");
    assert!(line.contains("redis.pool_size") && !line.contains("log.level"), "{line}");
    cli.write("secret", "short\n");
    worker.signal("HUP");
    worker.says("not taken over");
    cli.write("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx\n");
    worker.signal("HUP");
    worker.says("secrets were read again");
    worker.signal("TERM");
    assert_eq!(worker.ended().0, 0);
}

#[test]
fn a_password_of_redis_is_changed_without_a_restart() {
    let server = RedisServer::start(RedisOptions::default());
    let cli = logging(&server);
    server.command::<String>(&["ACL", "SETUSER", "shop", "on", ">one", "~*", "&*", "+@all"]);
    cli.write("url", format!("redis://shop:one@127.0.0.1:{}\n", server.port()));
    let text = std::fs::read_to_string(cli.dir.path().join("duewheel.toml")).unwrap();
    cli.write("duewheel.toml", format!("{text}[redis]\nurl_file = 'url'\n"));
    let mut command = cli.command(&["worker"]);
    command.env_remove("REDIS_URL");
    let mut worker = Working::of(command);
    worker.says("serving");
    server.command::<String>(&["ACL", "SETUSER", "shop", "<one", ">two"]);
    cli.write("url", format!("redis://shop:two@127.0.0.1:{}\n", server.port()));
    worker.signal("HUP");
    worker.says("configuration was read again");
    // With the old password nobody would come back from this.
    server.command::<i64>(&["CLIENT", "KILL", "USER", "shop"]);
    cli.run(&["enqueue", "o-1", "--in", "0s"]).ends(0);
    worker.says("would close");
    worker.signal("TERM");
    assert_eq!(worker.ended().0, 0);
}

#[test]
fn what_a_shop_answers_cannot_forge_a_log_line() {
    let answer = b"HTTP/1.1 500 Oops\r\nContent-Length: 43\r\nConnection: close\r\n\r\nx\n2026-01-01 ERROR fake\x1b[2J\r\x1b]0;title\x07 text";
    for json in [false, true] {
        let cli = calling(RedisServer::shared(), Some(answer));
        cli.run(&["enqueue", "o-1", "--in", "0s"]).ends(0);
        let format = if json { "log.format=json" } else { "log.format=text" };
        let mut worker = Working::start(&cli, &["--set", format, "--log", "debug"]);
        worker.says("serving");
        eventually_blocking(PATIENCE, || (cli.stat("leased") + cli.stat("due") == 0).then_some(()));
        worker.signal("TERM");
        let _ = worker.ended();
        while let Ok(line) = worker.log.recv_timeout(Duration::from_secs(1)) {
            worker.said.push(line);
        }
        for line in &worker.said {
            assert!(!line.contains(char::is_control), "{line:?}");
            assert!(!line.starts_with("2026-01-01"), "{line:?}");
            if json {
                serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            }
        }
        let shown = cli.run(&["inspect", "o-1"]).ends(0).stdout;
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown:?}");
    }
}

#[test]
fn a_worker_refuses_what_could_lose_orders_and_names_it() {
    let nothing = Cli::new(RedisServer::shared()).run(&["worker"]).ends(78);
    assert!(nothing.stderr.contains("hook.kind"), "{nothing:?}");

    let evicting = RedisServer::start(RedisOptions::args(&["--maxmemory-policy", "allkeys-lru"]));
    let cli = logging(&evicting);
    let refused = cli.run(&["worker"]).ends(78);
    assert!(refused.stderr.contains("allkeys-lru") && refused.stderr.contains("noeviction"), "{refused:?}");

    let cli = logging(RedisServer::shared());
    cli.run(&["enqueue", "o-1", "--in", "1h"]).ends(0);
    let set = format!("wheel.{}.shards=3", cli.wheel);
    let refused = cli.run(&["worker", "--set", &set]).ends(78);
    assert!(refused.stderr.contains("shards"), "{refused:?}");

    let denied = Ran::of(
        cli.command(&["worker"]).env("REDIS_URL", RedisServer::shared().url().replace("//", "//:pw@")),
    );
    assert_eq!(denied.code, 77, "{denied:?}");
}

#[test]
fn check_says_what_is_wrong_and_what_to_do() {
    let server = RedisServer::start(RedisOptions::aof(Aof::EverySec));
    let cli = logging(&server);
    let good = cli.run(&["check", "--json"]).ends(0).object();
    let has = |object: &serde_json::Value, level: &str, text: &str| {
        let findings = object["findings"].as_array().unwrap().clone();
        assert!(
            findings.iter().any(|f| f["level"] == level && f.to_string().contains(text)),
            "no {level} with {text}: {object:#}"
        );
    };
    for (level, text) in [
        ("ok", "noeviction"),
        ("ok", "fsync everysec"),
        ("ok", "every script runs"),
        ("ok", "ahead of Redis"),
        ("warning", "no worker serves it"),
        ("warning", "no sweep"),
        ("warning", "closes nothing"),
    ] {
        has(&good, level, text);
    }
    // The version that the server tells, whatever is to be said of it.
    let told = match server.command::<String>(&["INFO", "server"]) {
        info if info.contains("valkey_version:") => format!("valkey {}", server.info("valkey_version")),
        _ => format!("redis {}", server.info("redis_version")),
    };
    let version = good["findings"].as_array().unwrap().iter().find(|f| f["found"] == told.as_str());
    let version = version.unwrap_or_else(|| panic!("no {told}: {good:#}"));
    if told == "redis 7.0.15" {
        let advice = version["advice"].as_str().unwrap();
        assert_eq!(version["level"], "warning");
        assert!(
            advice.contains("redis 7.2.16") && advice.contains("a distribution may have mended it"),
            "{advice}"
        );
    }
    server.command::<String>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    server.command::<String>(&["CONFIG", "SET", "appendonly", "no"]);
    let bad = cli.run(&["check", "--json"]).ends(3).object();
    has(&bad, "problem", "allkeys-lru");
    has(&bad, "problem", "no append-only file");
    let table = cli.run(&["check"]).ends(3).stdout;
    assert!(table.contains("PROBLEM") && table.contains("set maxmemory-policy noeviction"), "{table}");
    let down = Ran::of(cli.command(&["check"]).env("REDIS_URL", "redis://127.0.0.1:1"));
    assert_eq!(down.code, 69, "{down:?}");
}
