//! deploy/helm: the rendered chart, kept as JSON beside its tests, is what the chart renders and what a cluster should be given.
//! scripts/render-chart renders it anew.

use serde_json::Value;

use super::{read, root};

const CHART: &str = "deploy/helm/duewheel";
const RENDERED: &str = "tests/deploy/chart.json";

/// One set of values, rendered.
struct Release {
    name: String,
    objects: Vec<Value>,
}

impl Release {
    fn all() -> Vec<Self> {
        let rendered: Value = serde_json::from_str(&read(RENDERED)).expect("JSON");
        let releases = rendered["releases"].as_object().expect("releases");
        let objects = |value: &Value| value.as_array().expect("a list").clone();
        releases.iter().map(|(name, value)| Self { name: name.clone(), objects: objects(value) }).collect()
    }

    fn of(name: &str) -> Self {
        Self::all().into_iter().find(|one| one.name == name).unwrap_or_else(|| panic!("no release {name}"))
    }

    fn kind(&self, kind: &str) -> Vec<&Value> {
        self.objects.iter().filter(|object| object["kind"] == kind).collect()
    }

    /// The one object of this kind for that part.
    fn one(&self, kind: &str, part: &str) -> &Value {
        let of_part = |object: &&&Value| {
            object["metadata"]["labels"]["app.kubernetes.io/component"] == part
                || object["metadata"]["labels"]["app.kubernetes.io/component"].is_null()
        };
        let found: Vec<_> = self.kind(kind).into_iter().collect();
        let found: Vec<_> = found.iter().filter(of_part).collect();
        assert_eq!(found.len(), 1, "{}: {kind} of {part}", self.name);
        found[0]
    }
}

fn pod(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]
}

/// FNV-1a over every file that the chart is rendered from, in order; scripts/render-chart computes the same.
fn fingerprint() -> String {
    let mut files = vec![];
    let mut folders = vec![root().join(CHART)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for file in files {
        for byte in std::fs::read(file).unwrap() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{hash:016x}")
}

#[test]
fn the_rendered_chart_is_of_these_files() {
    let rendered: Value = serde_json::from_str(&read(RENDERED)).expect("JSON");
    assert_eq!(rendered["fingerprint"], fingerprint(), "the chart has changed: run scripts/render-chart");
    assert!(rendered["by"].as_str().unwrap().starts_with("helm"), "{}", rendered["by"]);
}

#[test]
fn the_chart_ships_the_rules_as_they_are() {
    assert_eq!(
        read(&format!("{CHART}/files/duewheel.rules.yml")),
        read("deploy/prometheus/duewheel.rules.yml")
    );
    let rule = Release::of("everything").one("PrometheusRule", "").clone();
    let alerts: usize = rule["spec"]["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["rules"].as_array().unwrap().iter().filter(|r| !r["alert"].is_null()).count())
        .sum();
    assert_eq!(alerts, read("deploy/prometheus/duewheel.rules.yml").matches("- alert: ").count());
}

#[test]
fn every_pod_is_without_root_probed_and_given_time() {
    for release in Release::all() {
        for deployment in release.kind("Deployment") {
            let name = format!("{}: {}", release.name, deployment["metadata"]["name"]);
            let pod = pod(deployment);
            let own = &pod["securityContext"];
            assert_eq!(
                (&own["runAsNonRoot"], &own["runAsUser"], &own["seccompProfile"]["type"]),
                (&true.into(), &65532.into(), &"RuntimeDefault".into()),
                "{name}"
            );
            assert_eq!(pod["automountServiceAccountToken"], false, "{name}");
            let container = &pod["containers"][0];
            let limits = &container["securityContext"];
            assert_eq!(
                (
                    &limits["allowPrivilegeEscalation"],
                    &limits["readOnlyRootFilesystem"],
                    &limits["capabilities"]["drop"]
                ),
                (&false.into(), &true.into(), &serde_json::json!(["ALL"])),
                "{name}"
            );
            for (probe, path) in
                [("startupProbe", "/livez"), ("livenessProbe", "/livez"), ("readinessProbe", "/readyz")]
            {
                let asked = &container[probe]["httpGet"];
                assert_eq!(
                    (&asked["path"], &asked["port"]),
                    (&path.into(), &"metrics".into()),
                    "{name} {probe}"
                );
            }
            let strategy = &deployment["spec"]["strategy"]["rollingUpdate"];
            assert_eq!(
                (&strategy["maxUnavailable"], &strategy["maxSurge"]),
                (&0.into(), &1.into()),
                "{name}"
            );
            // What selects must be what is selected.
            let labels = deployment["spec"]["template"]["metadata"]["labels"].as_object().unwrap();
            for (key, value) in deployment["spec"]["selector"]["matchLabels"].as_object().unwrap() {
                assert_eq!(labels.get(key), Some(value), "{name}");
            }
        }
    }
    let everything = Release::of("everything");
    let worker = everything.one("Deployment", "worker");
    let grace: u64 = pod(worker)["containers"][0]["env"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["name"] == "DUEWHEEL_DEFAULTS__WORKER__GRACE")
        .and_then(|one| one["value"].as_str()?.strip_suffix('s')?.parse().ok())
        .unwrap();
    let given = pod(worker)["terminationGracePeriodSeconds"].as_u64().unwrap();
    // The hook's timeout that the values name by default is the longer one of the defaults: 20 s of the SQL hook.
    assert!(given > grace + 20, "{given} s for {grace} s and the hook");
}

#[test]
fn the_defaults_of_the_chart_are_those_of_the_program() {
    let defaults = read("src/config/default.toml");
    let values = read(&format!("{CHART}/values.yaml"));
    for (key, value) in
        [("grace = \"25s\"", "graceSeconds: 25"), ("timeout = \"20s\"", "hookTimeoutSeconds: 20")]
    {
        assert!(defaults.contains(key), "{key}");
        assert!(values.contains(value), "{value}");
    }
}

#[test]
fn services_and_monitors_find_their_pods() {
    let release = Release::of("everything");
    let pods: Vec<_> = release
        .kind("Deployment")
        .iter()
        .map(|one| one["spec"]["template"]["metadata"]["labels"].as_object().unwrap().clone())
        .collect();
    let matches = |selector: &Value| {
        let selector = selector.as_object().unwrap();
        pods.iter()
            .filter(|labels| selector.iter().all(|(key, value)| labels.get(key) == Some(value)))
            .count()
    };
    for service in release.kind("Service") {
        assert_eq!(matches(&service["spec"]["selector"]), 1, "{}", service["metadata"]["name"]);
    }
    for budget in release.kind("PodDisruptionBudget") {
        assert_eq!(matches(&budget["spec"]["selector"]["matchLabels"]), 1, "{}", budget["metadata"]["name"]);
        assert_eq!(budget["spec"]["maxUnavailable"], 1);
    }
    let network = release.one("NetworkPolicy", "");
    assert_eq!(matches(&network["spec"]["podSelector"]["matchLabels"]), 2);
    // Each service with metrics is scraped, and only those: one series a process.
    let monitor = release.one("ServiceMonitor", "");
    let wanted: Vec<_> =
        monitor["spec"]["selector"]["matchExpressions"][0]["values"].as_array().unwrap().clone();
    let scraped = release.kind("Service").into_iter().filter(|one| {
        wanted.contains(&one["metadata"]["labels"]["app.kubernetes.io/component"])
            && one["spec"]["ports"][0]["name"] == monitor["spec"]["endpoints"][0]["port"]
    });
    assert_eq!(scraped.count(), 2);
}

#[test]
fn it_scales_on_how_long_the_oldest_has_waited() {
    let keda = Release::of("everything");
    let scaled = keda.one("ScaledObject", "worker");
    let trigger = &scaled["spec"]["triggers"][0];
    assert_eq!((&trigger["type"], &trigger["metricType"]), (&"prometheus".into(), &"Value".into()));
    let query = trigger["metadata"]["query"].as_str().unwrap();
    let list = super::metric_list::MetricList::of_the_page();
    // Which wheels is a regular expression of the values, and no word of the page.
    let problems = list.problems(&query.replace("wheel=~\".+\"", ""), &std::collections::BTreeSet::new());
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(trigger["metadata"]["threshold"], "2.5");
    let deployment = keda.one("Deployment", "worker");
    assert_eq!(scaled["spec"]["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
    assert!(deployment["spec"]["replicas"].is_null(), "two would decide how many there are");

    let hpa = Release::of("hpa");
    let scaler = hpa.one("HorizontalPodAutoscaler", "worker");
    let metric = &scaler["spec"]["metrics"][0]["external"];
    assert_eq!(metric["metric"]["name"], "duewheel_oldest_due_age_seconds");
    assert_eq!((&metric["target"]["type"], &metric["target"]["value"]), (&"Value".into(), &"2000m".into()));
    assert_eq!(Release::of("least").one("Deployment", "worker")["spec"]["replicas"], 2);
}

#[test]
fn secrets_are_files_and_never_words_of_a_manifest() {
    let release = Release::of("everything");
    let worker = pod(release.one("Deployment", "worker"));
    let sources = worker["volumes"][1]["projected"]["sources"].as_array().unwrap();
    assert_eq!(sources.len(), 3);
    let container = &worker["containers"][0];
    assert_eq!(container["volumeMounts"][1]["mountPath"], "/run/secrets/duewheel");
    let environment = container["env"].as_array().unwrap();
    assert!(environment.contains(
        &serde_json::json!({"name": "REDIS_URL_FILE", "value": "/run/secrets/duewheel/redis-url"})
    ));
    assert!(release.kind("Secret").is_empty());
}
