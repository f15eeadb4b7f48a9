//! One order's story: what `explain` tells of an order in each state, over wheel, orders table, audit table and events.

use serde_json::{Value, json};

use crate::rig::cli::Ran;
use crate::rig::redis::RedisServer;
use crate::rig::shop::{Kind, Shop};
use crate::rig::worker::{Fleet, Plan};

const NET: &str = "[wheel.WHEEL.sweep]\nevery = \"off\"\nrebuild = false\n";

fn story(fleet: &Fleet, id: &str) -> Value {
    fleet.run(&["explain", id, "--json"]).ends(0).object()
}

fn why(story: &Value) -> &str {
    story["why"].as_str().unwrap()
}

fn told(story: &Value) -> Vec<String> {
    let all = story["timeline"].as_array().unwrap().iter();
    all.map(|one| format!("{} {}", one["source"].as_str().unwrap(), one["what"].as_str().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_explained_by_wheel_table_and_audit_on_every_database() {
    let server = RedisServer::shared();
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 1).await;
        let fleet = Fleet::new(server, &Plan::new(server.url()).closing(&shop).net(NET)).await;
        // 1 and 6 are closed; 2 is paid before its deadline; 3 nobody enqueued; 4 is to come; 5 was paid and not enqueued.
        shop.orders([1, 2, 3, 5, 6], -60_000, &[]).await;
        shop.orders([4], 3_600_000, &[]).await;
        shop.db.run("UPDATE orders SET status = 'paid' WHERE id IN (2, 5)").await;
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        fleet.run(&["enqueue", "1", "--in", "1ms", "--traceparent", trace]).ends(0);
        fleet.run(&["enqueue", "2", "--in", "1h"]).ends(0);
        fleet.run(&["enqueue", "4", "--in", "30m"]).ends(0);
        fleet.run(&["enqueue", "6", "--in", "1h"]).ends(0);
        fleet.run(&["close", "6", "--reason", "fraud", "--actor", "alice"]).ends(0);
        fleet.run(&["worker", "--until-idle"]).ends(0);

        let closed = story(&fleet, "1");
        assert!(
            why(&closed).starts_with("it ended as closed") && why(&closed).contains("the table agrees"),
            "{closed}"
        );
        let lines = told(&closed);
        let audit =
            lines.iter().find(|line| line.starts_with("audit AUTO_CLOSE by attempt 1, fence ")).unwrap();
        assert!(audit.contains("trace 4bf92f3577b34da6a3ce929d0e0e4736, worker "), "{kind:?}: {audit}");
        let wheel = lines.iter().find(|line| line.starts_with("wheel closed by attempt 1, fence ")).unwrap();
        let fence = |line: &str| line.split("fence ").nth(1).unwrap().split(',').next().unwrap().to_owned();
        assert_eq!(fence(audit), fence(wheel), "one close, one fence");
        assert!(
            lines.contains(&"events closed".to_owned()) && lines[0].starts_with("table to be closed"),
            "{lines:?}"
        );
        assert_eq!((&closed["row"]["open"], &closed["row"]["overdue"]), (&json!(false), &json!(true)));
        // The database and Redis stand on one machine here, and so do their clocks.
        let at = |source: &str| {
            closed["timeline"].as_array().unwrap().iter().find(|one| one["source"] == source).unwrap()["at_ms"].as_i64().unwrap()
        };
        assert!((at("audit") - at("events")).abs() < 60_000, "{kind:?}: {closed}");

        assert!(
            why(&story(&fleet, "2"))
                .contains("it will be skipped, because the table says that it is not open any more")
        );
        assert!(
            why(&story(&fleet, "3"))
                .contains("overdue, and the wheel does not know it: the next sweep brings it back")
        );
        let later = story(&fleet, "4");
        assert!(
            why(&later).contains("it is not due yet") && why(&later).contains("the table says later"),
            "{later}"
        );
        assert!(why(&story(&fleet, "5")).starts_with("it will never be closed"));
        let manual = told(&story(&fleet, "6"));
        assert!(
            manual
                .iter()
                .any(|line| line.starts_with("audit MANUAL_CLOSE")
                    && line.contains("asked for by alice (fraud)")),
            "{manual:?}"
        );

        let nobody: Ran = fleet.run(&["explain", "7"]).ends(5);
        assert!(nobody.stdout.contains("neither the wheel nor the orders table knows it"), "{nobody:?}");

        // Closed on the wheel, open in the table: a row that was opened again by hand.
        shop.db.run("UPDATE orders SET status = 'unpaid' WHERE id = 1").await;
        assert!(
            why(&story(&fleet, "1"))
                .contains("the wheel has it as closed, and yet the table says that it is open")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_story_is_told_without_a_table_and_while_the_database_is_away() {
    let server = RedisServer::shared();
    let log = Fleet::new(server, &Plan::new(server.url()).hook("kind", "\"log\"").net("")).await;
    log.run(&["enqueue", "o-1", "--in", "1h"]).ends(0);
    let text = log.run(&["explain", "o-1"]).ends(0).stdout;
    assert!(
        text.contains("wheel   due, cause due") && text.contains("why: it is not due yet; it fires in 59m"),
        "{text}"
    );
    log.run(&["explain", "o-2"]).ends(5);

    let shop = Shop::open(Kind::Sqlite, 1).await;
    let away = Fleet::new(server, &Plan::new(server.url()).closing(&shop).net(NET)).await;
    away.run(&["enqueue", "1", "--in", "1h"]).ends(0);
    shop.db.run("ALTER TABLE orders RENAME TO elsewhere").await;
    let story = story(&away, "1");
    assert!(
        why(&story).contains("it is not due yet")
            && why(&story).contains("the orders table could not be asked"),
        "{story}"
    );
    assert!(story["table_away"].as_str().unwrap().contains("orders"), "{story}");
}
