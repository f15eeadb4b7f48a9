//! What a person does to a whole wheel on the command line stands in the audit: who, what, why, to how many.

use serde_json::Value;

use crate::rig::cli::Cli;
use crate::rig::redis::RedisServer;
use crate::rig::wheel::bury;

/// The newest act, as the audit has it.
fn last(cli: &Cli, set: &str) -> Value {
    let ran = cli.run(&["audit", "--json", "--limit", "1", "--set", set]).ends(0);
    ran.objects().remove(0)
}

fn who(entry: &Value) -> (&str, &str, &str, u64, u64, &str) {
    let text = |name: &str| entry[name].as_str().unwrap_or_default();
    let number = |name: &str| entry[name].as_u64().unwrap();
    assert_eq!((text("by"), text("door")), ("anna", "cli"), "{entry}");
    (text("act"), text("about"), text("outcome"), number("done"), number("asked"), text("reason"))
}

#[test]
fn healing_importing_resharding_and_dropping_a_wheel_are_acts_of_a_person() {
    let server = RedisServer::shared();
    let cli = Cli::new(server);
    let set = format!("wheel.{}.shards=1", cli.wheel);
    let why = ["--by", "anna", "--reason", "INC-7", "--set", &set];
    let run = |args: &[&str]| cli.run(&[args, &why].concat());
    let enqueue = |id: &str| cli.run(&["enqueue", id, "--in", "1h", "--set", &set]).ends(0);
    enqueue("o-0");
    // Looking is none.
    cli.run(&["verify", "--set", &set]).ends(0);
    assert!(cli.run(&["audit", "--json", "--set", &set]).ends(0).objects().is_empty());
    let slots = format!("dw1:{{{}.0}}:slots", cli.wheel);
    server.command::<u64>(&["DEL", &slots]);
    run(&["verify", "--heal"]).ends(0);
    let healed = last(&cli, &set);
    assert_eq!(who(&healed), ("heal", "", "done", 1, 1, "INC-7"));

    enqueue("o-1");
    enqueue("o-2");
    let exported = cli.run(&["export", "--set", &set]).ends(0).stdout;
    let first = exported.lines().find(|line| line.contains("\"o-0\"")).unwrap();
    cli.write("orders.ndjson", format!("{exported}{}\nnonsense\n", first.replace("\"o-0\"", "\"o-9\"")));
    run(&["import", "orders.ndjson"]).ends(4);
    // Three were there, one is nonsense.
    assert_eq!(who(&last(&cli, &set)), ("import", "from orders.ndjson", "partial", 1, 5, "INC-7"));

    run(&["wheel", "reshard", "--shards", "4", "--yes"]).ends(0);
    let moved = last(&cli, &set);
    let (act, about, outcome, ..) = who(&moved);
    assert_eq!((act, about, outcome), ("reshard", "from 1 to 4 shards", "done"));

    let set = format!("wheel.{}.shards=4", cli.wheel);
    cli.run(&["wheel", "drop", "--yes", "--by", "anna", "--reason", "a trial", "--set", &set]).ends(0);
    // The wheel is gone; what was done to it is still told.
    assert!(!cli.run(&["wheel", "list"]).ends(0).stdout.contains(&cli.wheel));
    assert_eq!(who(&last(&cli, &set)), ("remove", "", "done", 4, 4, "a trial"));
    assert_eq!(cli.run(&["audit", "--json", "--set", &set]).ends(0).objects().len(), 4);
}

#[tokio::test]
async fn all_the_dead_are_revived_or_dropped_by_one_resumable_act() {
    let fleet = crate::rig::worker::Fleet::new(
        RedisServer::shared(),
        &crate::rig::worker::Plan::new(RedisServer::shared().url()).shards(4),
    )
    .await;
    let wheel = &fleet.wheel;
    for n in 0..30 {
        bury(wheel, &format!("d-{n}"), "status 500").await;
    }
    let revived =
        fleet.run(&["dead", "revive", "--all", "--by", "anna", "--reason", "mended", "--json"]).ends(0);
    let bulk = revived.object();
    assert_eq!(
        (&bulk["act"], bulk["done"].as_u64(), &bulk["state"]),
        (&"revive".into(), Some(30), &"done".into()),
        "{bulk}"
    );
    assert_eq!(wheel.stats().await.unwrap().dead, 0);
    let audit = fleet.run(&["audit", "--json"]).ends(0).objects();
    assert_eq!(audit.len(), 1, "{audit:?}");
    assert_eq!(who(&audit[0]), ("revive", "all matching: all", "done", 30, 30, "mended"));
    fleet.run(&["dead", "revive", "--all"]).ends(0);
    fleet.run(&["dead", "drop", "--all"]).ends(0);
    bury(wheel, "last", "gone").await;
    let refused = fleet.run(&["dead", "drop", "--all"]).ends(2);
    assert!(refused.stderr.contains("needs --yes"), "{refused:?}");
    fleet.run(&["dead", "drop", "--all", "--yes", "--by", "anna"]).ends(0);
    assert_eq!(
        who(&fleet.run(&["audit", "--json"]).ends(0).objects()[0]),
        ("drop", "all matching: all", "done", 1, 1, "")
    );
    assert_eq!(fleet.run(&["bulk", "list", "--json"]).ends(0).objects().len(), 2);
}
