//! `[metrics]`: where probes and scrapes are answered.

use std::net::SocketAddr;

use super::section::Section;
use crate::error::shown;

/// Where probes and scrapes are answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricsSettings {
    /// Address and port; `None`: nowhere.
    pub listen: Option<SocketAddr>,
}

pub(super) fn resolve(section: &mut Section<'_>) -> MetricsSettings {
    section.is_table();
    let listen = section.text("listen").and_then(|text| {
        let parsed = text.parse().ok();
        if parsed.is_none() {
            let reason =
                format!("\"{}\": expected an IP address and a port, like 127.0.0.1:9464", shown(&text));
            section.problem("listen", &reason);
        }
        parsed
    });
    MetricsSettings { listen }
}
