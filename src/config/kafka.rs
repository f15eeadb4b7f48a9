//! `[wheel.NAME.kafka]`: the topic that is told what the wheel's events tell.

use std::time::Duration;

use super::draft::Draft;
use super::section::{Findings, Section};
use crate::relay::{KafkaSettings, RESERVED};

/// Reads the section of a wheel; `None` where it names no topic.
pub(super) fn resolve(draft: &Draft, findings: &mut Findings, wheel: &str) -> Option<KafkaSettings> {
    let path = ["wheel", wheel, "kafka"];
    let mut section = Section::new(draft, findings, &path, Some(&["defaults", "kafka"]));
    section.is_table();
    let settings = read(&mut section);
    let is_there = section.is_given("topic") || !settings.brokers.is_empty();
    if !is_there {
        return None;
    }
    if cfg!(not(feature = "kafka")) {
        section.problem("topic", "this build knows no Kafka: build it with --features kafka");
    }
    if settings.topic.is_empty() {
        section.problem("topic", "is missing");
    }
    if settings.brokers.is_empty() {
        section.problem("brokers", "is missing: expected host:port, one or several");
    }
    for (name, _) in &settings.properties {
        if RESERVED.contains(&name.as_str()) {
            section
                .problem("properties", &format!("{}: is set by duewheel itself", crate::error::shown(name)));
        }
    }
    Some(settings)
}

/// What stands under `[defaults]` is known also where no wheel needs it.
pub(super) fn know_the_defaults(draft: &Draft, scratch: &mut Findings) {
    read(&mut Section::new(draft, scratch, &["defaults", "kafka"], None));
}

fn read(section: &mut Section<'_>) -> KafkaSettings {
    KafkaSettings {
        brokers: section.texts("brokers"),
        topic: section.text("topic").unwrap_or_default(),
        timeout: section.duration("timeout", Duration::from_secs(1)..=Duration::from_secs(600)),
        properties: section.named_secrets("properties"),
    }
}
