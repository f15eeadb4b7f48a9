//! The drills of docs/operations.md: each names the test that does the same, and those that no other area has are here.

use duewheel::deadline::State;

use crate::rig::PATIENCE;
use crate::rig::eventually;
use crate::rig::redis::RedisServer;
use crate::rig::stub::{Answer, Stub};
use crate::rig::worker::{Fleet, Plan, soon};

fn read(path: &str) -> String {
    std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

#[test]
fn every_drill_names_its_test() {
    let page = read("docs/operations.md");
    let drills = page.split("\n## Drills\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut count = 0;
    for drill in drills.split("\n").fold(Vec::<String>::new(), |mut drills, line| {
        if line.starts_with(|c: char| c.is_ascii_digit()) {
            drills.push(line.to_owned());
        } else if let Some(last) = drills.last_mut() {
            last.push_str(line);
        }
        drills
    }) {
        count += 1;
        let named = drill.split("*Test:* ").nth(1).unwrap_or_else(|| panic!("names no test: {drill}"));
        let mut words = named.split('`').skip(1).step_by(2);
        let (file, test) = (words.next().unwrap(), words.next().unwrap());
        assert!(read(file).contains(&format!("fn {test}()")), "{file} has no {test}");
    }
    assert!(count >= 9, "{count} drills");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_died_of_the_hook_is_revived_and_closed_once_the_hook_is_mended() {
    let server = RedisServer::shared();
    let shop = Stub::start().await;
    let broken = Answer::verdict(500, r#"{"verdict":"failed","reason":"column \"payd\" does not exist"}"#);
    shop.script("1", vec![broken]);
    let plan = Plan::new(server.url()).calling(&shop.url("/close")).worker("max_attempts", "3");
    let fleet = Fleet::new(server, &plan).await;
    let worker = fleet.start();
    fleet.enqueue([1, 2], |_| soon(0)).await;
    let stats = fleet.idle(PATIENCE).await;
    assert_eq!((stats.dead, stats.ended), (1, 1), "the neighbour is closed all the same");
    assert_eq!(shop.calls_for("1").len(), 3);
    let listed = fleet.run(&["dead", "list"]).ends(0).stdout;
    assert!(listed.contains("payd"), "the reason is told: {listed}");

    shop.script("1", vec![Answer::verdict(200, r#"{"verdict":"closed"}"#)]);
    fleet.run(&["dead", "revive", "1"]).ends(0);
    let ended = async || (fleet.wheel.stats().await.ok()?.ended == 2).then_some(());
    eventually(PATIENCE, ended).await;
    assert_eq!(shop.calls_for("1").len(), 4);
    let id = duewheel::deadline::Id::new("1").unwrap();
    assert_eq!(fleet.wheel.inspect(&id).await.unwrap().state, State::Ended);
    worker.drain().await;
}
