//! Secrets stay where they were put. A whole shop runs with secrets that can be recognised, loud logs and everything going wrong that can;
//! then whatever the program wrote, said, showed or stored is looked through for them.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::rig::api::Client;
use crate::rig::cli::{Cli, Ran};
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::shop::{Kind, Shop};
use crate::rig::stub::{Answer, Body, Stub};
use crate::rig::worker::Process;
use crate::rig::{PATIENCE, eventually, free_port, signal, unique};

/// In every secret, and in nothing else.
const MARK: &str = "canary";
const REDIS: &str = "canary-redis-5e1f";
const DATABASE: &str = "canary-database-5e1f";
const SIGNED: &[u8; 32] = b"canary-signing-key-5e1f-01234567";
const HEADER: &str = "canary-header-5e1f";
const QUERY: &str = "canary-query-5e1f";
const COLLECTOR: &str = "canary-collector-5e1f";
/// An order, which may be seen: were the looking blind, it would not find this either.
const ORDER: &str = "order-4711";

/// Everything that was written, said, shown or stored, by where.
#[derive(Default)]
struct Seen(Vec<(String, Vec<u8>)>);

impl Seen {
    fn add(&mut self, place: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.push((place.into(), bytes.into()));
    }

    fn ran(&mut self, args: &[&str], ran: &Ran) {
        self.add(format!("stdout of {args:?}"), ran.stdout.as_str());
        self.add(format!("stderr of {args:?}"), ran.stderr.as_str());
    }

    /// The places that hold this, in whatever case.
    fn places(&self, needle: &str) -> Vec<String> {
        let needle = needle.to_lowercase();
        let holds = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_lowercase().contains(&needle);
        self.0.iter().filter(|(_, bytes)| holds(bytes)).map(|(place, _)| place.clone()).collect()
    }
}

/// The shop's database as a user of its own, with a password that can be recognised.
async fn database_of_its_own(shop: &Shop) -> String {
    // The server is that of other runs, too.
    let user = format!("guard_{}_{}", std::process::id(), unique("r").replace('-', "_"));
    shop.db.run(&format!("CREATE ROLE {user} LOGIN SUPERUSER PASSWORD '{DATABASE}'")).await;
    let mut url = url::Url::parse(&shop.url).unwrap();
    url.set_username(&user).unwrap();
    url.set_password(Some(DATABASE)).unwrap();
    url.into()
}

/// One wheel that calls, one that closes by SQL, one whose database is away.
fn configuration(cli: &Cli, shop: &Shop, database: &str, stub: &Stub, redis: &RedisServer) -> String {
    let close = shop.settings();
    cli.write("redis-password", format!("{REDIS}\n"));
    cli.write("secret", format!("whsec_{}\n", STANDARD.encode(SIGNED)));
    cli.write("database", format!("{database}\n"));
    let sql = format!(
        "kind = 'sql'\ntable = {:?}\nguard = {:?}\nclose_at = {:?}\nset = {:?}\nstate = {:?}\nstatement_timeout = '3s'\nlock_timeout = '1s'\ntimeout = '4s'\n",
        close.table,
        close.guard,
        close.close_at.unwrap(),
        close.set,
        close.state.unwrap()
    );
    let worker = "shards = 2\nworker = {lease = '5s', lease_margin = '200ms', backoff_base = '50ms', backoff_cap = '200ms', max_attempts = 2, gone_grace = '0s', grace = '2s'}\n";
    format!(
        "[redis]\nurl = 'redis://shop@127.0.0.1:{port}'\npassword_file = 'redis-password'\n\
         [http]\nlisten = '127.0.0.1:0'\ntokens_file = 'tokens'\n[log]\nlevel = 'debug'\n\
         [wheel.calls]\n{worker}[wheel.calls.hook]\nkind = 'webhook'\nurl = '{url}?token={QUERY}'\nsecret_file = 'secret'\n\
         allow_private = true\ntimeout = '2s'\nconnect_timeout = '500ms'\n[wheel.calls.hook.headers]\nAuthorization = 'Bearer {HEADER}'\n\
         [wheel.closes]\n{worker}[wheel.closes.hook]\nurl_file = 'database'\n{sql}[wheel.closes.sweep]\nevery = 'off'\nrebuild = false\n\
         [wheel.away]\n{worker}[wheel.away.hook]\nurl = 'postgres://shop:{DATABASE}@127.0.0.1:1/away'\n{sql}[wheel.away.sweep]\nevery = 'off'\nrebuild = false\n",
        port = redis.port(),
        url = stub.url("/close"),
    )
}

/// What people do with the program, and do wrong.
fn at_the_command_line(cli: &Cli, seen: &mut Seen) {
    let right: [&[&str]; 16] = [
        &["check"],
        &["check", "--json"],
        &["config"],
        &["config", "--json"],
        &["stats", "--wheel", "calls", "--json"],
        &["list", "--wheel", "calls"],
        &["inspect", ORDER, "--wheel", "calls"],
        &["explain", ORDER, "--wheel", "calls"],
        &["explain", ORDER, "--wheel", "closes"],
        &["dead", "list", "--wheel", "calls"],
        &["dead", "list", "--wheel", "closes", "--json"],
        &["audit", "--wheel", "calls", "--json"],
        &["export", "--wheel", "calls"],
        &["verify", "--wheel", "calls"],
        &["wheel", "list"],
        &["top", "--once", "--json", "--wheel", "calls"],
    ];
    for args in right {
        let mut command = cli.command(args);
        command
            .env_remove("REDIS_URL")
            .env_remove("DUEWHEEL_WHEEL")
            .env("DUEWHEEL_REDIS__RESPONSE_TIMEOUT", "5s");
        seen.ran(args, &Ran::of(&mut command));
    }
    let good = std::fs::read_to_string(cli.dir.path().join("duewheel.toml")).unwrap();
    for (n, (toml, environment)) in [
        // Secrets that are wrong, of things that are away, and in places where they do not belong.
        (good.clone(), ("DUEWHEEL_REDIS__PASSWORD", "canary-wrong")),
        (good.clone(), ("REDIS_URL", "redis://shop:canary-wrong@127.0.0.1:1")),
        (good.clone(), ("REDIS_URL", "redis://shop:canary wrong@ho st")),
        (good.clone(), ("REDIS_URL", "canary-bare")),
        (good.clone(), ("DUEWHEEL_WHEEL__CALLS__HOOK__SECRET", "canary-no-secret")),
        (good.clone(), ("DUEWHEEL_HTTP__TOKENS", "canary-no-token")),
        (good.clone(), ("DATABASE_URL", "mysql://canary@")),
        (good.replace("password_file", "pasword"), ("X", "")),
        (format!("{good}\n[redis2]\npassword = 'canary-unknown'\n"), ("X", "")),
        (format!("{good}\n[wheel.more.hook]\nsecret = 'canary-unclosed\n"), ("X", "")),
        (
            format!("{good}\n[wheel.more.hook]\nkind = 'webhook'\nurl = 'https://u:canary@h/'\nsecret = 5\n"),
            ("X", ""),
        ),
        (good.replace("password_file = 'redis-password'", "password = ['canary-a', 'canary-b']"), ("X", "")),
        (good.replace(&format!("'Bearer {HEADER}'"), "\"Bearer\\r\\ncanary-split\""), ("X", "")),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("wrong-{n}.toml");
        cli.write(&name, toml);
        for args in [&["--config", &name, "config"][..], &["--config", &name, "check"]] {
            let mut command = cli.command(args);
            command
                .env_remove("REDIS_URL")
                .env_remove("DUEWHEEL_WHEEL")
                .env("DUEWHEEL_REDIS__CONNECT_TIMEOUT", "1s");
            command.env(environment.0, environment.1).env("DUEWHEEL_LOG__LEVEL", "debug");
            seen.ran(args, &Ran::of(&mut command));
        }
    }
}

/// What clients ask of the API, right and wrong.
async fn over_http(client: &mut Client, token: &str, seen: &mut Seen) {
    let json = ("content-type", "application/json");
    let broken = format!("{}x", &token[..token.len() - 1]);
    for (method, path, bearer, body) in [
        ("PUT", format!("/v1/wheels/calls/deadlines/{ORDER}"), token, r#"{"in":"0s"}"#),
        ("PUT", format!("/v1/wheels/closes/deadlines/{ORDER}"), token, r#"{"in":"0s"}"#),
        ("PUT", "/v1/wheels/away/deadlines/o-1".to_owned(), token, r#"{"in":"0s"}"#),
        ("PUT", "/v1/wheels/calls/deadlines/o-1".to_owned(), broken.as_str(), "{"),
        ("PUT", "/v1/wheels/calls/deadlines/o-1".to_owned(), "canary", r#"{"in":"0s"}"#),
        ("PUT", "/v1/wheels/calls/deadlines/o-1".to_owned(), token, r#"{"in":"soon"}"#),
        ("GET", format!("/v1/wheels/calls/deadlines?token={token}&access_token=canary"), token, ""),
        ("GET", format!("/v1/nowhere?token={token}"), token, ""),
        ("GET", "/v1/wheels/calls/stats".to_owned(), "", ""),
    ] {
        let authorization = format!("Bearer {bearer}");
        let headers = [json, ("authorization", authorization.as_str()), ("idempotency-key", "once")];
        let headers = if method == "PUT" { &headers[..] } else { &headers[1..2] };
        let answer = client.send(method, &path, headers, body).await;
        // Where the client itself has put it into the path, it may be told of that path, but of no secret.
        seen.add(format!("{method} {}", path.split('?').next().unwrap()), answer.body);
    }
}

/// Logs in, wrong and right, and looks at every screen; answers the session.
async fn on_the_page(client: &mut Client, token: &str, seen: &mut Seen) -> String {
    let mut headers = vec![
        ("content-type", "application/x-www-form-urlencoded"),
        ("accept", "text/html"),
        ("sec-fetch-site", "same-origin"),
    ];
    let refused = client.send("POST", "/login", &headers, "token=dwt_canary-nobody").await.is(401);
    seen.add("a login that was refused", refused.body);
    let entered = client.send("POST", "/login", &headers, &format!("token={token}")).await.is(303);
    let cookie = entered.header("set-cookie").split(';').next().unwrap().to_owned();
    headers.push(("cookie", &cookie));
    let screens =
        ["", "/wheel", "/deadlines", "/dead", "/hooks", "/workers", "/runs", "/audit", "/settings", "/bulks"];
    let one = format!("/deadline?id={ORDER}");
    for wheel in ["calls", "closes", "away"] {
        for screen in
            screens.into_iter().chain([one.as_str(), "/deadlines?state=dead", "/dead?reason=status"])
        {
            let path = format!("/wheels/{wheel}{screen}");
            let answer = client.send("GET", &path, &headers[1..], "").await.is(200);
            seen.add(format!("the screen {path}"), answer.body);
        }
    }
    cookie.split_once('=').unwrap().1.to_owned()
}

/// Every key as Redis would write it into a dump, and what Redis tells of those who talk to it.
fn in_redis(redis: &RedisServer, seen: &mut Seen) {
    let keys: Vec<Vec<u8>> = redis.command(&["KEYS", "*"]);
    assert!(keys.len() > 20, "{} keys", keys.len());
    for key in keys {
        let name = String::from_utf8(key).unwrap();
        let dump: Option<Vec<u8>> = redis.command(&["DUMP", &name]);
        seen.add(format!("the value of {name}"), dump.unwrap_or_default());
        seen.add("a key's name", name);
    }
    for ask in [&["CLIENT", "LIST"][..], &["SLOWLOG", "GET", "-1"], &["ACL", "LOG"]] {
        let told: redis::Value = redis.command(ask);
        seen.add(ask.join(" "), format!("{told:?}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_found_in_anything_that_the_program_writes_says_shows_or_stores() {
    let redis =
        RedisServer::start(RedisOptions::args(&["--rdbcompression", "no", "--slowlog-log-slower-than", "0"]));
    redis.command::<String>(&["ACL", "SETUSER", "shop", "on", &format!(">{REDIS}"), "~*", "&*", "+@all"]);
    let (shop, stub) = (Shop::open(Kind::Postgres, 1).await, Stub::start().await);
    shop.orders([1], -1000, &[(0, 1)]).await;
    // A shop whose page for developers shows all that it was sent.
    let echo = format!(
        "{{\"token\":\"{QUERY}\",\"authorization\":\"Bearer {HEADER}\",\"bare\":\"{HEADER}\",\"query\":\"?token={QUERY}\"}}"
    );
    stub.otherwise(Answer::status(500).body(echo.clone()));
    stub.script(
        "dropped",
        vec![
            Answer::status(200).of(Body::Drop),
            Answer::status(302).header("location", &format!("/x?token={QUERY}")),
        ],
    );
    stub.script(
        "told",
        vec![Answer::status(200).body(format!("{{\"verdict\":\"rejected\",\"reason\":{echo:?}}}"))],
    );
    let cli = Cli::new(&redis);
    let token = cli
        .run(&[
            "token", "new", "anna", "--scope", "read", "--scope", "enqueue", "--scope", "operate", "--json",
        ])
        .object();
    let (token, line) =
        (token["token"].as_str().unwrap().to_owned(), token["line"].as_str().unwrap().to_owned());
    cli.write("tokens", line);
    cli.write("duewheel.toml", configuration(&cli, &shop, &database_of_its_own(&shop).await, &stub, &redis));
    let mut seen = Seen::default();

    let metrics = format!("127.0.0.1:{}", free_port());
    let mut command = cli.command(&["worker", "--listen", "127.0.0.1:0", "--metrics", &metrics]);
    command.env_remove("REDIS_URL").env_remove("DUEWHEEL_WHEEL");
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1").env("OTEL_BSP_SCHEDULE_DELAY", "100");
    command.env("OTEL_EXPORTER_OTLP_HEADERS", format!("authorization=Bearer%20{COLLECTOR}"));
    let mut worker = Process::spawn(command);
    let listening = eventually(PATIENCE, async || {
        worker.log().lines().find(|line| line.contains("listening")).map(str::to_owned)
    })
    .await;
    let address = listening.split("address=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let mut client = Client::connect(address).await;
    over_http(&mut client, &token, &mut seen).await;
    let wheel = |args: &[&str]| {
        let mut command = cli.command(args);
        command.env_remove("REDIS_URL").env_remove("DUEWHEEL_WHEEL");
        Ran::of(&mut command)
    };
    for id in ["dropped", "told"] {
        wheel(&["enqueue", id, "--in", "0s", "--wheel", "calls"]).ends(0);
    }
    // The shop's table goes away under the close, of a worker that has seen it.
    eventually(PATIENCE, async || worker.log().contains("serving wheel=closes").then_some(())).await;
    shop.db.run("ALTER TABLE orders RENAME TO orders_of_old").await;
    wheel(&["enqueue", "1", "--in", "0s", "--wheel", "closes"]).ends(0);
    eventually(PATIENCE, async || {
        let stats = wheel(&["stats", "--wheel", "calls", "--json"]).object();
        (stats["dead"].as_u64() >= Some(2)).then_some(())
    })
    .await;
    // Redis throws everybody out, and takes no password for a moment; the configuration is read again with a mistake in it.
    redis.command::<String>(&["ACL", "SETUSER", "shop", "resetpass"]);
    redis.command::<u64>(&["CLIENT", "KILL", "USER", "shop"]);
    eventually(PATIENCE, async || worker.log().contains("AuthenticationFailed").then_some(())).await;
    let good = std::fs::read_to_string(cli.dir.path().join("duewheel.toml")).unwrap();
    cli.write("duewheel.toml", format!("{good}\n[wheel.more.hook]\nsecret = 'canary-unclosed\n"));
    worker.signal("HUP");
    eventually(PATIENCE, async || worker.log().contains("is not taken over").then_some(())).await;
    cli.write("duewheel.toml", good);
    worker.signal("HUP");
    redis.command::<String>(&["ACL", "SETUSER", "shop", &format!(">{REDIS}")]);
    eventually(PATIENCE, async || (wheel(&["stats", "--wheel", "calls"]).code == 0).then_some(())).await;

    let session = on_the_page(&mut Client::connect(address).await, &token, &mut seen).await;
    let mut scraper = Client::connect(metrics.parse().unwrap()).await;
    seen.add("/metrics", scraper.bare("GET", "/metrics").await.is(200).body);
    tokio::task::block_in_place(|| at_the_command_line(&cli, &mut seen));
    for name in ["cmdline", "comm", "status"] {
        seen.add(
            format!("/proc/PID/{name}"),
            std::fs::read(format!("/proc/{}/{name}", worker.pid())).unwrap(),
        );
    }
    in_redis(&redis, &mut seen);
    signal(worker.pid(), "TERM");
    worker.ended(Duration::from_secs(30)).await;
    let log = worker.log();
    for text in [
        "AuthenticationFailed",
        "not taken over",
        "spans could not be exported",
        "a login to the page was refused",
    ] {
        assert!(log.contains(text), "the log tells of nothing that went wrong: no {text}\n{log}");
    }
    seen.add("the worker's log", log);
    seen.add("the worker's stdout", std::fs::read(worker.dir().join("stdout")).unwrap());

    let known = seen.places(ORDER);
    for place in
        ["the worker's log", "the screen /wheels/calls/dead", "the value of", "stdout of [\"inspect\""]
    {
        assert!(known.iter().any(|known| known.starts_with(place)), "nothing is found in {place}: {known:?}");
    }
    let key = STANDARD.encode(SIGNED);
    for secret in [MARK, &key, &token, &token[token.len() - 20..], &session] {
        let found = seen.places(secret);
        assert!(found.is_empty(), "{secret} stands in {found:#?}\n{}", excerpt(&seen, &found[0], secret));
    }
}

/// What stands around it there.
fn excerpt(seen: &Seen, place: &str, secret: &str) -> String {
    let (_, bytes) = seen.0.iter().find(|(known, _)| known == place).unwrap();
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let line = text.lines().find(|line| line.contains(&secret.to_lowercase()));
    line.unwrap_or(&text).chars().take(2000).collect()
}
