//! docs/metrics.md as data, and the reading of PromQL that is needed to hold queries against it.

use std::collections::{BTreeMap, BTreeSet};

/// What the page says of one metric.
#[derive(Debug)]
pub struct Metric {
    kind: String,
    labels: BTreeSet<String>,
}

/// Every metric of the page, and every word that may be a label's value.
pub struct MetricList {
    metrics: BTreeMap<String, Metric>,
    words: BTreeSet<String>,
}

/// What Prometheus adds to each series.
const OF_THE_SCRAPE: [&str; 2] = ["instance", "job"];

fn ticked(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

impl MetricList {
    pub fn of_the_page() -> Self {
        let page = super::read("docs/metrics.md");
        let mut metrics = BTreeMap::new();
        for line in page.lines().filter(|line| line.starts_with("| `")) {
            // Name, type, unit, labels; before the first border there is nothing.
            let row: Vec<_> = line.split('|').map(str::trim).collect();
            let labels = ticked(row[4]).map(str::to_owned).collect();
            let metric = Metric { kind: row[2].to_owned(), labels };
            assert!(metrics.insert(row[1].trim_matches('`').to_owned(), metric).is_none(), "{line}");
        }
        assert!(metrics.len() > 50, "the page was not understood");
        Self { metrics, words: ticked(&page).map(str::to_owned).collect() }
    }

    /// The metric behind a series: `x_bucket` is of the histogram `x`.
    fn of_series(&self, series: &str) -> Option<(&Metric, bool)> {
        if let Some(metric) = self.metrics.get(series) {
            return (metric.kind != "histogram").then_some((metric, false));
        }
        ["_bucket", "_sum", "_count"].iter().find_map(|end| {
            let metric = self.metrics.get(series.strip_suffix(end)?)?;
            (metric.kind == "histogram").then_some((metric, *end == "_bucket"))
        })
    }

    /// What is wrong with a query: series that are not listed, labels and values that they do not have, rates of what is no counter.
    /// `more` are names that stand for something else: recording rules.
    pub fn problems(&self, query: &str, more: &BTreeSet<String>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut labels: BTreeSet<&str> = OF_THE_SCRAPE.into();
        let found = series(query);
        for series in &found {
            if more.contains(series.name) {
                labels.insert("wheel");
                continue;
            }
            let Some((metric, is_bucket)) = self.of_series(series.name) else {
                problems.push(format!("{} is not in docs/metrics.md", series.name));
                continue;
            };
            labels.extend(metric.labels.iter().map(String::as_str));
            if is_bucket {
                labels.insert("le");
            }
            for (label, value) in &series.matchers {
                let known = metric.labels.contains(*label)
                    || OF_THE_SCRAPE.contains(label)
                    || (is_bucket && *label == "le");
                if !known {
                    problems.push(format!("{} has no label {label}", series.name));
                }
                let is_word = |word: &str| self.words.contains(word);
                if !value.contains('$') && *label != "le" && !value.split('|').all(is_word) {
                    problems.push(format!(
                        "{}: {label}={value:?} is no value that docs/metrics.md names",
                        series.name
                    ));
                }
            }
            let counts = metric.kind == "counter" || metric.kind == "histogram";
            match series.within {
                Some("rate" | "increase") if !counts => {
                    problems.push(format!("{} is no counter: no {query}", series.name));
                }
                Some("delta" | "deriv") if counts => {
                    problems.push(format!("{} is a counter: no {query}", series.name));
                }
                _ => {}
            }
        }
        if found.is_empty() {
            problems.push(format!("asks for nothing: {query}"));
        }
        for label in groupings(query) {
            if !labels.contains(label) {
                problems.push(format!("groups by {label}, which nothing in it has: {query}"));
            }
        }
        problems
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.metrics.keys().map(String::as_str)
    }
}

/// One selector of a query.
struct Series<'a> {
    name: &'a str,
    matchers: Vec<(&'a str, &'a str)>,
    /// The function whose argument it is.
    within: Option<&'a str>,
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// The selectors of ours: what begins with duewheel or process, outside of texts.
fn series(query: &str) -> Vec<Series<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(c) = query[at..].chars().next() {
        if c == '"' {
            at += 2 + query[at + 1..].find('"').expect("a text that ends");
        } else if is_name(c) {
            let end = at + query[at..].find(|c| !is_name(c)).unwrap_or(query.len() - at);
            let name = &query[at..end];
            let mut matchers = Vec::new();
            let ours = name.starts_with("duewheel") || name.starts_with("process_");
            if ours && query[end..].starts_with('{') {
                let inner = &query[end + 1..end + query[end..].find('}').expect("a selector that ends")];
                matchers = inner
                    .split(',')
                    .filter_map(|one| {
                        let (label, value) = one.split_once('=')?;
                        Some((label.trim(), value.trim_start_matches('~').trim_matches('"')))
                    })
                    .collect();
            }
            if ours {
                let before = query[..at].trim_end_matches('(');
                let called = before.len() < at;
                let function = before.rsplit(|c| !is_name(c)).next().filter(|name| !name.is_empty());
                found.push(Series { name, matchers, within: function.filter(|_| called) });
            }
            at = end;
            if ours && query[at..].starts_with('{') {
                at += query[at..].find('}').expect("a selector that ends") + 1;
            }
        } else {
            at += c.len_utf8();
        }
    }
    found
}

/// The labels behind `by` and `on`.
fn groupings(query: &str) -> Vec<&str> {
    let lists = [" by (", " on ("].into_iter().flat_map(|word| query.split(word).skip(1));
    lists.flat_map(|rest| rest.split(')').next().unwrap_or_default().split(',').map(str::trim)).collect()
}

#[test]
fn a_query_is_held_against_the_list() {
    let list = MetricList::of_the_page();
    let problems = |query: &str| list.problems(query, &BTreeSet::from(["duewheel:late".to_owned()])).len();
    for good in [
        "max by (wheel) (duewheel_dead) > 0",
        r#"sum by (le, wheel) (rate(duewheel_lateness_seconds_bucket{wheel=~"$wheel",le="1.0"}[5m]))"#,
        r#"increase(duewheel_redis_errors_total{kind=~"denied|layout"}[5m])"#,
        "duewheel:late > 1",
    ] {
        assert_eq!(list.problems(good, &BTreeSet::from(["duewheel:late".to_owned()])), Vec::<String>::new());
    }
    for (bad, count) in [
        ("duewheel_deads", 1),
        ("duewheel_lateness_seconds", 1),
        ("duewheel_dead_bucket", 1),
        (r#"duewheel_dead{shard="1"}"#, 2),
        (r#"duewheel_workers{state="servng"}"#, 1),
        ("max by (endpoint) (duewheel_dead)", 1),
        ("rate(duewheel_dead[5m])", 1),
        ("delta(duewheel_claimed_total[5m])", 1),
        ("up == 0", 1),
    ] {
        assert_eq!(problems(bad), count, "{bad}: {:?}", list.problems(bad, &BTreeSet::new()));
    }
}
