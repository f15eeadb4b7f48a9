//! The export of spans, in builds that have it.

use super::failure::Failure;
#[cfg(feature = "otlp")]
use crate::telemetry::Exporter;

/// The exporter of this process, where the environment asks for one.
pub struct Spans {
    #[cfg(feature = "otlp")]
    exporter: Option<Exporter>,
}

impl Spans {
    /// Starts it.
    #[cfg(feature = "otlp")]
    pub fn start() -> Result<Self, Failure> {
        Ok(Self { exporter: Exporter::start().map_err(Failure::Usage)? })
    }

    /// Says that there is none, where one is asked for.
    #[cfg(not(feature = "otlp"))]
    pub fn start() -> Result<Self, Failure> {
        if std::env::var_os("OTEL_EXPORTER_OTLP_ENDPOINT").is_some() {
            tracing::warn!(
                "OTEL_EXPORTER_OTLP_ENDPOINT is set, but this build exports no spans: it lacks the feature otlp"
            );
        }
        Ok(Self {})
    }

    /// Sends what is left.
    pub async fn end(self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.exporter {
            exporter.end().await;
        }
    }
}
