//! What this server was told, and what it is: the configuration in force with its sources, the build, the scripts.

use askama::Template;

use super::fault::Outcome;
use super::frame::Frame;
use super::visit::Visit;
use crate::http::Setting;
use crate::wheel::script;

#[derive(Template)]
#[template(path = "settings.html")]
struct Page {
    frame: Frame,
    sections: Vec<Section>,
    facts: Vec<(&'static str, String)>,
    /// Where this server answers /metrics.
    metrics: Option<String>,
    scripts: Vec<(&'static str, String)>,
}

/// The keys of one part of the configuration.
struct Section {
    name: String,
    /// This wheel's own, or what all share; the others are folded.
    open: bool,
    keys: Vec<Setting>,
    given: usize,
}

/// `GET /settings`.
pub(super) async fn show(visit: Visit) -> Outcome {
    let own = format!("wheel.{}", visit.wheel().name());
    let mut sections: Vec<Section> = Vec::new();
    for setting in visit.door.served.settings.iter() {
        let mut parts = setting.key.split('.');
        let first = parts.next().unwrap_or_default();
        let name = match (first, parts.next()) {
            ("wheel", Some(wheel)) => format!("wheel.{wheel}"),
            _ => first.to_owned(),
        };
        if sections.last().is_none_or(|section| section.name != name) {
            let open = name == own || first != "wheel";
            sections.push(Section { name: name.clone(), open, keys: Vec::new(), given: 0 });
        }
        if let Some(section) = sections.last_mut() {
            section.given += usize::from(setting.source != "default");
            // The section's name stands above it.
            let key = setting.key.strip_prefix(&name).and_then(|rest| rest.strip_prefix('.'));
            let key = key.unwrap_or(&setting.key).to_owned();
            section.keys.push(Setting { key, ..setting.clone() });
        }
    }
    let on = |feature: bool, name: &'static str| feature.then_some(name);
    let features = [
        on(cfg!(feature = "sql"), "sql"),
        on(cfg!(feature = "webhook"), "webhook"),
        on(cfg!(feature = "kafka"), "kafka"),
        on(cfg!(feature = "otlp"), "otlp"),
        on(cfg!(feature = "http"), "http"),
        on(cfg!(feature = "page"), "page"),
        on(cfg!(feature = "top"), "top"),
    ];
    let facts = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("features", features.into_iter().flatten().collect::<Vec<_>>().join(", ")),
        ("build", if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned()),
        ("machine", format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
        ("process", std::process::id().to_string()),
    ];
    let scripts = script::ALL.iter().map(|script| (script.verb, script.sha().to_owned())).collect();
    let metrics = visit.door.served.settings.iter().find(|setting| setting.key == "metrics.listen");
    let metrics = metrics.map(|setting| setting.value.trim_matches('"').to_owned());
    let page = Page { frame: visit.frame("Settings"), sections, facts, metrics, scripts };
    visit.page(&page)
}
