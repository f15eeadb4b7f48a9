//! The span of a hook's call: the root of a trace of its own, linked to the enqueue of each of its orders.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry::trace::{Link, Span as _, SpanBuilder, SpanKind, Status};
use opentelemetry::{Context, KeyValue, global};

use super::Traceparent;
use super::request::remote;

/// Links of one span, as the standard bounds them by default.
const MOST_LINKS: usize = 128;

/// Whether anybody takes spans.
static EXPORTING: AtomicBool = AtomicBool::new(false);

tokio::task_local! {
    /// The traceparent of the call that a task is part of.
    static CURRENT: String;
}

/// Calls and requests are recorded from now on: the process has an exporter.
pub fn export() {
    EXPORTING.store(true, Ordering::Release);
}

/// Whether anybody takes spans.
pub(super) fn is_exporting() -> bool {
    EXPORTING.load(Ordering::Acquire)
}

/// A call of a hook; recorded where spans are exported.
pub struct Call {
    span: Option<(global::BoxedSpan, String)>,
}

impl Call {
    /// Begins a call for orders that were enqueued under these traceparents.
    pub fn begin<'a>(
        action: &'static str,
        wheel: &str,
        orders: impl ExactSizeIterator<Item = Option<&'a str>>,
    ) -> Self {
        if !is_exporting() {
            return Self { span: None };
        }
        let count = i64::try_from(orders.len()).unwrap_or(i64::MAX);
        let links = orders.flatten().filter_map(Traceparent::parse).filter_map(|t| link(&t)).take(MOST_LINKS);
        let builder = SpanBuilder::from_name(action)
            .with_kind(SpanKind::Consumer)
            .with_links(links.collect())
            .with_attributes([
                KeyValue::new("messaging.system", "duewheel"),
                KeyValue::new("messaging.operation.type", "process"),
                KeyValue::new("messaging.destination.name", wheel.to_owned()),
                KeyValue::new("messaging.batch.message_count", count),
            ]);
        let span = builder.start_with_context(&global::tracer("duewheel"), &Context::new());
        let context = span.span_context();
        let sampled = u8::from(context.is_sampled());
        let traceparent = format!("00-{:032x}-{:016x}-{sampled:02x}", context.trace_id(), context.span_id());
        let is_valid = context.is_valid();
        Self { span: is_valid.then_some((span, traceparent)) }
    }

    /// Ends it: how many orders each verdict was given.
    pub fn end(self, verdicts: impl Iterator<Item = &'static str>) {
        let Some((mut span, _)) = self.span else { return };
        let mut counts: BTreeMap<&'static str, i64> = BTreeMap::new();
        verdicts.for_each(|verdict| *counts.entry(verdict).or_default() += 1);
        let done = ["closed", "skipped", "not_due"];
        let others: Vec<&str> = counts.keys().filter(|verdict| !done.contains(verdict)).copied().collect();
        if !others.is_empty() {
            span.set_status(Status::error(others.join(", ")));
        }
        for (verdict, count) in counts {
            span.set_attribute(KeyValue::new(format!("duewheel.verdicts.{verdict}"), count));
        }
        span.end();
    }

    /// The traceparent of the call that this task is part of.
    pub(super) fn current() -> Option<String> {
        CURRENT.try_with(Clone::clone).ok()
    }
}

/// Runs `work` as part of the call.
pub async fn within<T>(call: &Call, work: impl Future<Output = T>) -> T {
    match &call.span {
        Some((_, traceparent)) => CURRENT.scope(traceparent.clone(), work).await,
        None => work.await,
    }
}

fn link(enqueued: &Traceparent<'_>) -> Option<Link> {
    Some(Link::new(remote(enqueued)?, Vec::new(), 0))
}
