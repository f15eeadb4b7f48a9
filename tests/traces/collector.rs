//! A collector of spans: takes OTLP over HTTP and reads the protobuf as far as the tests ask.

use crate::rig::stub::{Call, Stub};

/// A span as it was exported.
#[derive(Debug, Clone, Default)]
pub struct Span {
    pub service: String,
    pub name: String,
    pub trace_id: String,
    pub parent_id: String,
    pub links: Vec<String>,
    /// What was answered to a request; 0 for other spans.
    pub status: u64,
}

pub struct Collector(Stub);

impl Collector {
    pub async fn start() -> Self {
        Self(Stub::start().await)
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` is to be.
    pub fn url(&self) -> String {
        self.0.url("")
    }

    pub fn requests(&self) -> Vec<Call> {
        self.0.calls()
    }

    /// The span that is linked to a trace.
    pub fn linked_to(&self, trace_id: &str) -> Option<Span> {
        self.spans().into_iter().find(|span| span.links.iter().any(|link| link == trace_id))
    }

    /// The span of this name in a trace.
    pub fn named(&self, name: &str, trace_id: &str) -> Option<Span> {
        self.spans().into_iter().find(|span| span.name == name && span.trace_id == trace_id)
    }

    /// Every span so far.
    pub fn spans(&self) -> Vec<Span> {
        self.requests().iter().flat_map(|request| spans(&request.body)).collect()
    }
}

/// ExportTraceServiceRequest { 1: ResourceSpans { 1: Resource { 1: attributes }, 2: ScopeSpans { 2: Span } } }
fn spans(request: &[u8]) -> Vec<Span> {
    let mut found = Vec::new();
    for resource_spans in all(request, 1) {
        let attributes = all(resource_spans, 1).flat_map(|resource| all(resource, 1).collect::<Vec<_>>());
        let service = attributes
            .filter(|attribute| all(attribute, 1).next() == Some(b"service.name".as_slice()))
            .filter_map(|attribute| all(all(attribute, 2).next()?, 1).next())
            .map(text)
            .next()
            .unwrap_or_default();
        for span in all(resource_spans, 2).flat_map(|scope| all(scope, 2).collect::<Vec<_>>()) {
            found.push(Span {
                service: service.clone(),
                trace_id: all(span, 1).next().map(hex).unwrap_or_default(),
                parent_id: all(span, 4).next().map(hex).unwrap_or_default(),
                name: all(span, 5).next().map(text).unwrap_or_default(),
                status: all(span, 9).find_map(status).unwrap_or_default(),
                links: all(span, 13).filter_map(|link| all(link, 1).next()).map(hex).collect(),
            });
        }
    }
    found
}

/// KeyValue { 1: key, 2: AnyValue { 3: int } } of the status.
fn status(attribute: &[u8]) -> Option<u64> {
    (all(attribute, 1).next() == Some(b"http.response.status_code".as_slice())).then_some(())?;
    let mut value = all(attribute, 2).next()?;
    (varint(&mut value) == 3 << 3).then(|| varint(&mut value))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The length-delimited fields of a protobuf message with this number.
fn all(message: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    let mut rest = message;
    let fields = std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let tag = varint(&mut rest);
        let skipped = match tag & 7 {
            0 => {
                varint(&mut rest);
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut rest)).expect("a length"),
            5 => 4,
            other => panic!("wire type {other}"),
        };
        let (field, after) = rest.split_at(skipped);
        rest = after;
        Some((tag, field))
    });
    fields.filter(move |(tag, _)| *tag == (number << 3 | 2)).map(|(_, field)| field)
}

fn varint(from: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = from.split_first().expect("a byte");
        *from = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}
