//! Feed, sweep and rebuild by hand: what they say, how they end, and what `check` says of a table that they cannot read well.

use serde_json::json;

use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::shop::{Kind, Shop};
use crate::rig::worker::{Fleet, Plan};

const NET: &str = "[wheel.WHEEL.sweep]\npage = 10\n[wheel.WHEEL.feed]\ntime = \"created_at\"\n";

async fn fleet(server: &RedisServer, shop: &Shop, net: &str) -> Fleet {
    Fleet::new(server, &Plan::new(server.url()).closing(shop).net(net)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_by_hand_says_what_it_did_and_what_was_done_lately() {
    let (server, shop) = (RedisServer::shared(), Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=25, -60_000, &[]).await;
    let fleet = fleet(server, &shop, NET).await;
    let dry = fleet.run(&["sweep", "--dry-run", "--json"]).ends(0).object();
    assert_eq!((&dry["enqueued"], &dry["pages"]), (&json!(25), &json!(3)));
    assert!(fleet.run(&["sweep", "--dry-run"]).ends(0).stdout.contains("25 would be enqueued"));
    assert!(fleet.run(&["sweep", "--runs"]).ends(0).stdout.is_empty(), "a dry run is no run");
    let swept = fleet.run(&["sweep", "--json"]).ends(0).object();
    assert_eq!(
        (&swept["enqueued"], &swept["seen"], &swept["job"]),
        (&json!(25), &json!(25), &json!("sweep"))
    );
    let text = fleet.run(&["sweep"]).ends(0).stdout;
    assert!(text.contains("25 rows in 3 pages, 0 enqueued, 0 resurrected, 25 held"), "{text}");
    let runs = fleet.run(&["sweep", "--runs", "--json"]).ends(0).objects();
    assert_eq!(runs.iter().map(|run| run["enqueued"].clone()).collect::<Vec<_>>(), [json!(0), json!(25)]);
    let table = fleet.run(&["sweep", "--runs"]).ends(0).stdout;
    assert!(table.lines().count() == 3 && table.contains("RESURRECTED"), "{table}");

    // Somebody else is at it.
    let other =
        fleet.wheel.take_job("sweep", "other:1:x", std::time::Duration::from_secs(30), None).await.unwrap();
    let refused = fleet.run(&["sweep"]).ends(6);
    assert!(refused.stderr.contains("other:1:x runs it"), "{refused:?}");
    drop(other);
    fleet.run(&["sweep", "--dry-run", "--runs"]).ends(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn feed_and_rebuild_by_hand_say_what_they_did() {
    let (server, shop) = (RedisServer::shared(), Shop::open(Kind::Sqlite, 1).await);
    shop.orders(1..=25, 3_600_000, &[]).await;
    let fleet = fleet(server, &shop, NET).await;
    let fed = fleet
        .run(&["feed", "--once", "--json", "--by", "anna", "--reason", "no worker yet"])
        .ends(0)
        .object();
    assert_eq!((&fed["enqueued"], &fed["job"]), (&json!(25), &json!("feed")));
    let again = fleet.run(&["feed", "--once", "--anew", "--json"]).ends(0).object();
    assert_eq!((&again["enqueued"], &again["held"]), (&json!(0), &json!(25)));
    fleet.run(&["feed", "--anew"]).ends(2);
    shop.orders(26..=30, 3_600_000, &[]).await;
    let rebuilt = fleet.run(&["rebuild", "--json"]).ends(0).object();
    assert_eq!((&rebuilt["enqueued"], &rebuilt["held"]), (&json!(5), &json!(25)));
    let text = fleet.run(&["rebuild", "--anew"]).ends(0).stdout;
    assert!(text.contains("30 rows in 3 pages, 0 enqueued"), "{text}");
    assert_eq!(fleet.run(&["rebuild", "--runs", "--json"]).ends(0).objects().len(), 2);

    // Each was an act of a person.
    let audit = fleet.run(&["audit", "--json"]).ends(0).objects();
    let told: Vec<_> = audit
        .iter()
        .rev()
        .map(|one| json!([one["act"], one["about"], one["done"], one["outcome"]]))
        .collect();
    let run = |about: &str, done: u64| json!(["run", about, done, "done"]);
    assert_eq!(told, [run("feed", 25), run("feed, anew", 0), run("rebuild", 5), run("rebuild", 0)]);
    let first = audit.last().unwrap();
    assert_eq!(
        (&first["by"], &first["door"], &first["reason"]),
        (&json!("anna"), &json!("cli"), &json!("no worker yet"))
    );

    // The feed goes on until it is told to stop, and lets the job go then.
    let mut running = fleet.spawn(&["feed"]);
    shop.orders(31..=33, 3_600_000, &[]).await;
    crate::rig::eventually(crate::rig::PATIENCE, async || {
        (fleet.wheel.stats().await.ok()?.scheduled == 33).then_some(())
    })
    .await;
    crate::rig::signal(running.id(), "INT");
    assert_eq!(running.wait().unwrap().code(), Some(130));
    assert!(fleet.wheel.job_record("feed").await.unwrap().held_until.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_swept_is_refused_with_what_is_missing() {
    let (server, shop) = (RedisServer::shared(), Shop::open(Kind::Sqlite, 1).await);
    let fleet = fleet(server, &shop, "[wheel.WHEEL.sweep]\nevery = \"off\"\n").await;
    let refused = fleet.run(&["feed", "--once"]).ends(78);
    assert!(refused.stderr.contains("feed.time: is missing"), "{refused:?}");
    fleet.run(&["sweep"]).ends(0);
    let log = Fleet::new(server, &Plan::new(server.url()).hook("kind", "\"log\"").net("")).await;
    for command in [&["sweep"][..], &["feed", "--once"], &["rebuild"]] {
        let refused = log.run(command).ends(78);
        assert!(refused.stderr.contains("declares no table"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_says_which_jobs_the_table_serves_and_which_index_is_missing() {
    let server = RedisServer::start(RedisOptions::default());
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 1).await;
        shop.orders(1..=50, -60_000, &[]).await;
        let findings = async |net: &str| {
            let fleet = fleet(&server, &shop, net).await;
            let said = fleet.run(&["check", "--json"]).object();
            let all = said["findings"].as_array().unwrap().clone();
            let of = |level: &str| -> String {
                let found = all
                    .iter()
                    .filter(|f| f["level"] == level)
                    .map(|f| f["found"].as_str().unwrap().to_owned());
                found.collect::<Vec<_>>().join("\n")
            };
            (of("ok"), of("warning"))
        };
        let (ok, warned) = findings(NET).await;
        assert!(
            ok.contains("sweep every 5m") && ok.contains("feed every 1s") && ok.contains("rebuild when"),
            "{kind:?}: {ok}"
        );
        assert!(!warned.contains("sweep: "), "{kind:?}: {warned}");
        // Nothing orders the rows by when they were made.
        assert!(warned.contains("feed: ") && warned.contains("no index serves it"), "{kind:?}: {warned}");
        let index = match kind {
            Kind::Mariadb => "CREATE INDEX made ON orders (status, created_at, id)",
            _ => "CREATE INDEX made ON orders (created_at, id) WHERE status = 'unpaid'",
        };
        shop.db.run(index).await;
        let (_, warned) = findings(NET).await;
        assert!(!warned.contains("feed: "), "{kind:?}: {warned}");
        let (_, warned) = findings("[wheel.WHEEL.sweep]\nevery = \"off\"\nrebuild = false\n").await;
        assert!(
            warned.contains("the sweep is off") && warned.contains("not filled by itself"),
            "{kind:?}: {warned}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_asks_the_shops_own_questions_and_tries_who_reminds() {
    let (server, shop) = (RedisServer::start(RedisOptions::default()), Shop::open(Kind::Sqlite, 1).await);
    let rule = |name: &str, column: &str| {
        format!(
            "[wheel.WHEEL.reconcile.rules.{name}]\nlevel = \"low\"\nsql = \"SELECT id FROM orders WHERE {column} < 0\"\n"
        )
    };
    // Nobody listens on the first port; the second one takes calls.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let open = listener.local_addr().unwrap().port();
    let check = async |rules: String, port: u16| {
        let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
        let net = format!(
            "{NET}{rules}[wheel.WHEEL.reminder]\nkind = \"webhook\"\nurl = \"http://127.0.0.1:{port}/\"\n\
             secret = \"{secret}\"\nallow_private = true\ntimeout = \"2s\"\nconnect_timeout = \"500ms\"\n"
        );
        let said = fleet(&server, &shop, &net).await.run(&["check", "--json"]).object();
        let all = said["findings"].as_array().unwrap().clone();
        let of = |level: &str| {
            let found = all.iter().filter(|f| f["level"] == level);
            found.map(|f| format!("{} {}\n", f["check"], f["found"])).collect::<String>()
        };
        (of("ok"), of("problem"))
    };
    let (ok, problems) = check(rule("good", "user_id") + &rule("bad", "amount"), 1).await;
    assert!(ok.contains("reconcile: 1 of 2 questions answer"), "{ok}");
    assert!(
        problems.contains("reconcile: bad could not be answered") && problems.contains("amount"),
        "{problems}"
    );
    assert!(problems.contains("reminder") && problems.contains("127.0.0.1:1"), "{problems}");
    let (ok, problems) = check(rule("good", "user_id"), open).await;
    assert!(ok.contains("reminder") && ok.contains("reconcile: 1 of 1 questions answer"), "{ok}");
    assert!(!problems.contains("reminder") && !problems.contains("reconcile"), "{problems}");
}
