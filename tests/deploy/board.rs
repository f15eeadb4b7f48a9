//! The Grafana board: every query asks for what there is, and is PromQL.

use std::collections::BTreeSet;

use serde_json::Value;

use super::metric_list::MetricList;
use super::{content, read, tool};

fn board() -> Value {
    serde_json::from_str(&read("deploy/grafana/duewheel.json")).expect("JSON")
}

/// Every query of a panel, with the panel's title.
fn queries(board: &Value) -> Vec<(String, String)> {
    let panels = board["panels"].as_array().expect("panels").iter();
    panels
        .flat_map(|panel| {
            let title = panel["title"].as_str().expect("a title").to_owned();
            let targets = panel["targets"].as_array().cloned().unwrap_or_default();
            targets
                .into_iter()
                .map(move |target| (title.clone(), target["expr"].as_str().expect("a query").to_owned()))
        })
        .collect()
}

#[test]
fn every_query_asks_for_listed_metrics() {
    let board = board();
    let list = MetricList::of_the_page();
    let mut asked = queries(&board);
    assert!(asked.len() > 50, "{}", asked.len());
    for variable in board["templating"]["list"].as_array().unwrap() {
        if let Some(query) = variable["query"]["query"].as_str() {
            let (series, label) = query
                .strip_prefix("label_values(")
                .and_then(|rest| rest.strip_suffix(')')?.split_once(", "))
                .expect("label_values(series, label)");
            asked.push((query.to_owned(), format!("count by ({label}) ({series})")));
        }
    }
    let problems: Vec<_> = asked
        .iter()
        .flat_map(|(title, query)| {
            list.problems(query, &BTreeSet::new()).into_iter().map(move |p| format!("{title}: {p}"))
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn nothing_that_is_measured_of_orders_is_left_out() {
    let text = read("deploy/grafana/duewheel.json");
    let left_out: Vec<String> = MetricList::of_the_page()
        .names()
        .filter(|name| name.starts_with("duewheel_") && !text.contains(name))
        .map(str::to_owned)
        .collect();
    // How many shards there are, whether a job is on, what was pruned, and when a number was read: facts, not curves.
    let known = [
        "duewheel_job_enabled",
        "duewheel_pruned_total",
        "duewheel_shards",
        "duewheel_wheel_read_timestamp_seconds",
    ];
    assert_eq!(left_out, known.map(str::to_owned));
}

#[test]
fn the_panels_stand_side_by_side_and_name_their_source() {
    let board = board();
    let panels = board["panels"].as_array().unwrap();
    let mut taken = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels {
        let title = &panel["title"];
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is taken");
        let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{title}: beyond the edge");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "{title}: covers another panel");
            }
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${DS_PROMETHEUS}", "{title}");
            assert!(!panel["targets"].as_array().unwrap().is_empty(), "{title}: asks nothing");
        }
    }
}

/// promtool reads PromQL as part of rules: each query becomes one.
#[test]
fn every_query_is_promql() {
    let Some(promtool) = tool("promtool") else { return };
    let mut rules = "groups:\n- name: board\n  rules:\n".to_owned();
    for (n, (_, query)) in queries(&board()).iter().enumerate() {
        let query =
            query.replace("$__rate_interval", "1m").replace("$wheel", ".+").replace("$instance", ".+");
        assert!(!query.contains('$'), "{query}");
        rules += &format!("  - record: board:{n}\n    expr: {}\n", Value::from(query));
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("board.yml"), rules).unwrap();
    content(&promtool, folder.path(), &["check", "rules", "board.yml"]);
}
