//! The span of a request that this program answers: below the span of its sender, where that is told.

use opentelemetry::trace::{
    Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId,
    TraceState,
};
use opentelemetry::{Context, KeyValue, global};

use super::Traceparent;
use super::call::is_exporting;

/// A request; recorded where spans are exported.
pub struct Request {
    span: Option<global::BoxedSpan>,
}

impl Request {
    /// Begins to answer `method` of `route`, which is a path with names in place of what differs, so that no id is told. `traceparent`
    /// is the sender's header; one that is none is as good as none.
    pub fn begin(name: &'static str, method: &str, route: &'static str, traceparent: Option<&str>) -> Self {
        if !is_exporting() {
            return Self { span: None };
        }
        let sender = traceparent.and_then(Traceparent::parse).and_then(|sender| remote(&sender));
        let parent =
            sender.map_or_else(Context::new, |sender| Context::new().with_remote_span_context(sender));
        let builder = SpanBuilder::from_name(format!("{method} {route}"))
            .with_kind(SpanKind::Server)
            .with_attributes([
                KeyValue::new("http.request.method", method.to_owned()),
                KeyValue::new("http.route", route),
                KeyValue::new("duewheel.operation", name),
            ]);
        Self { span: Some(builder.start_with_context(&global::tracer("duewheel"), &parent)) }
    }

    /// Ends it with the status that was answered; what is the sender's own fault is no error of this program.
    pub fn end(self, status: u16) {
        let Some(mut span) = self.span else { return };
        span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
        if status >= 500 {
            span.set_attribute(KeyValue::new("error.type", status.to_string()));
            span.set_status(Status::error(""));
        }
        span.end();
    }
}

/// The span that another program told of.
pub(super) fn remote(told: &Traceparent<'_>) -> Option<SpanContext> {
    let trace_id = TraceId::from_hex(told.trace_id()).ok()?;
    let span_id = SpanId::from_hex(told.span_id()).ok()?;
    let flags = if told.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::default() };
    Some(SpanContext::new(trace_id, span_id, flags, true, TraceState::default()))
}
