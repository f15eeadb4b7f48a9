//! deploy/prometheus and deploy/alertmanager: rules ask only for what there is, and fire and stay silent as their tests say.

use std::collections::BTreeSet;

use super::metric_list::MetricList;
use super::{content, read, root, tool};

const RULES: &str = "deploy/prometheus/duewheel.rules.yml";
const TESTS: [&str; 2] = ["duewheel.test.yml", "duewheel.hours.test.yml"];

/// The rules as (name, whether it is an alert, query), read line by line: the file is ours and plain.
fn rules() -> Vec<(String, bool, String)> {
    let text = read(RULES);
    let mut found: Vec<(String, bool, String)> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let line = line.trim_start();
        if let Some(name) = line.strip_prefix("- alert: ") {
            found.push((name.to_owned(), true, String::new()));
        } else if let Some(name) = line.strip_prefix("- record: ") {
            found.push((name.to_owned(), false, String::new()));
        } else if let Some(query) = line.strip_prefix("expr: ") {
            let query = if query == "|" {
                let mut block = String::new();
                // The block ends where the indentation does.
                while let Some(next) = lines.next_if(|next| next.starts_with("          ")) {
                    block = format!("{block} {}", next.trim());
                }
                block
            } else {
                query.to_owned()
            };
            found.last_mut().expect("a query belongs to a rule").2 = query;
        }
    }
    found
}

#[test]
fn every_rule_asks_for_listed_metrics() {
    let rules = rules();
    assert!(rules.iter().filter(|(_, alert, _)| *alert).count() > 25, "{rules:?}");
    let recorded: BTreeSet<_> =
        rules.iter().filter(|(_, alert, _)| !alert).map(|(name, ..)| name.clone()).collect();
    let list = MetricList::of_the_page();
    let problems: Vec<_> = rules
        .iter()
        .flat_map(|(name, _, query)| {
            list.problems(query, &recorded).into_iter().map(move |p| format!("{name}: {p}"))
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_alert_is_named_once_and_has_a_case_in_which_it_fires() {
    let rules = rules();
    let tests = TESTS.map(|name| read(&format!("deploy/prometheus/{name}"))).concat();
    let names: Vec<_> = rules.iter().filter(|(_, alert, _)| *alert).map(|(name, ..)| name).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    for name in names {
        // In a list of what fires, or as the subject of a test of the alert itself.
        let fires = tests.contains(&format!("alertname=\"{name}\"")) && tests.contains("exp_samples")
            || tests.contains(&format!("alertname: {name}\n"));
        assert!(fires, "{name} never fires in a test");
    }
}

#[test]
fn every_runbook_of_an_alert_is_a_section_of_the_operations_page() {
    let page = read("docs/operations.md");
    let sections: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("## ").or(line.strip_prefix("### ")))
        .map(|title| title.to_lowercase().replace(' ', "-"))
        .collect();
    let rules = read(RULES);
    for line in rules.lines().filter_map(|line| line.trim().strip_prefix("runbook: ")) {
        let section = line.strip_prefix("docs/operations.md#").expect("a section of the operations page");
        assert!(sections.contains(section), "{section} is none of {sections:?}");
    }
    let alerts = rules.matches("- alert: ").count();
    for member in ["summary: ", "description: ", "runbook: ", "labels: {severity: "] {
        assert_eq!(rules.matches(member).count(), alerts, "{member}");
    }
}

#[test]
fn the_rules_fire_and_stay_silent_as_their_tests_say() {
    let Some(promtool) = tool("promtool") else { return };
    let folder = root().join("deploy/prometheus");
    content(&promtool, &folder, &["check", "rules", "duewheel.rules.yml"]);
    content(&promtool, &folder, &["check", "config", "prometheus.yml"]);
    let said = content(&promtool, &folder, &["test", "rules", TESTS[0], TESTS[1]]);
    assert!(said.contains("SUCCESS"), "{said}");
}

#[test]
fn the_messages_reach_every_channel() {
    let file = "deploy/alertmanager/alertmanager.yml";
    let text = read(file);
    for channel in ["wechat_configs", "slack_configs", "email_configs", "dingtalk-bridge", "type=fs"] {
        assert!(text.contains(channel), "{channel}");
    }
    // What is inhibited or routed by name is an alert that there is.
    let names: BTreeSet<_> = rules().into_iter().map(|(name, ..)| name).collect();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.starts_with("Duewheel")) {
        assert!(names.iter().any(|name| name.starts_with(word)), "{word} is no alert");
    }
    let Some(amtool) = tool("amtool") else { return };
    let said = content(&amtool, &root(), &["check-config", file]);
    assert!(said.contains("SUCCESS"), "{said}");
    for (labels, receivers) in [
        (&["alertname=DuewheelNoWorker", "severity=critical"][..], "wecom,dingtalk,feishu,slack"),
        (&["alertname=DuewheelLatePayments", "severity=warning"], "payments"),
        (&["alertname=DuewheelDead", "severity=warning"], "mail"),
    ] {
        let config = format!("--config.file={file}");
        let mut args = vec!["config", "routes", "test", &config];
        args.extend(labels);
        let said = content(&amtool, &root(), &args);
        assert_eq!(said.lines().next(), Some(receivers), "{labels:?}");
    }
}
