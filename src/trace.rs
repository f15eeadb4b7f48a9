//! The W3C trace context of an order: given at enqueue, kept with the deadline, carried to hook, audit row and log.
//!
//! Half an hour may lie between the two, so the call of the hook does not go on with the trace of the enqueue: where spans are exported
//! (feature `otlp`) it begins a trace of its own, linked to the enqueue of each of its orders. Where they are not, nobody would know
//! that trace, and the caller's is carried on. A request over HTTP is answered at once, so its span is below the caller's.

#[cfg(feature = "otlp")]
mod call;
#[cfg(not(feature = "otlp"))]
mod no_call;
#[cfg(not(feature = "otlp"))]
mod no_request;
#[cfg(feature = "otlp")]
mod request;

use std::fmt;

#[cfg(feature = "otlp")]
pub use call::{Call, export, within};
#[cfg(not(feature = "otlp"))]
pub use no_call::{Call, within};
#[cfg(not(feature = "otlp"))]
pub use no_request::Request;
#[cfg(feature = "otlp")]
pub use request::Request;

use crate::error::Invalid;

/// A `traceparent`: `00-<trace id>-<span id>-<flags>`, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traceparent<'a> {
    trace_id: &'a str,
    span_id: &'a str,
    flags: &'a str,
}

impl<'a> Traceparent<'a> {
    /// Reads a traceparent; `None` where it is none: a broken one is worse than none. All hex digits are lower-case, no id is all zero.
    pub fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace_id, span_id, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_id = |text: &str, digits| is_hex(text, digits) && text.bytes().any(|b| b != b'0');
        let good = parts.next().is_none()
            && is_hex(version, 2)
            && version != "ff"
            && is_id(trace_id, 32)
            && is_id(span_id, 16)
            && is_hex(flags, 2);
        good.then_some(Self { trace_id, span_id, flags })
    }

    /// Checks a traceparent that a caller gave in `field`.
    pub fn check(field: &str, text: &'a str) -> Result<Self, Invalid> {
        Self::parse(text).ok_or_else(|| {
            let expected =
                "expected a W3C traceparent, like 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
            Invalid::new(field, text, expected)
        })
    }

    /// The trace: 32 hex digits.
    pub fn trace_id(&self) -> &'a str {
        self.trace_id
    }

    /// The span that was current: 16 hex digits.
    pub fn span_id(&self) -> &'a str {
        self.span_id
    }

    /// Whether the caller records its trace.
    pub fn is_sampled(&self) -> bool {
        u8::from_str_radix(self.flags, 16).is_ok_and(|flags| flags & 1 == 1)
    }

    /// The traceparent of a span below it: same trace and flags, a new span id.
    pub fn child(&self) -> String {
        // All zeros means "no parent".
        format!("00-{}-{:016x}-{}", self.trace_id, fastrand::u64(1..), self.flags)
    }
}

impl fmt::Display for Traceparent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{}", self.trace_id, self.span_id, self.flags)
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// The traceparent of a request made for an order now: of the call's own trace where that is exported, else of a span below the one
/// that the order was enqueued in; `None` where there is neither.
pub fn outgoing(enqueued: Option<&str>) -> Option<String> {
    Call::current().or_else(|| enqueued.and_then(Traceparent::parse).map(|parent| parent.child()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_taken_as_the_standard_has_it() {
        let parsed = Traceparent::parse(GOOD).unwrap();
        assert_eq!((parsed.trace_id(), parsed.is_sampled()), ("4bf92f3577b34da6a3ce929d0e0e4736", true));
        assert_eq!(parsed.to_string(), GOOD);
        let child = parsed.child();
        let child = Traceparent::parse(&child).unwrap();
        assert_eq!(child.trace_id(), parsed.trace_id());
        assert_ne!(child.span_id(), parsed.span_id());
        for bad in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-00",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473*/-00f067aa0ba902b7-01",
        ] {
            assert!(Traceparent::parse(bad).is_none(), "{bad}");
        }
    }
}
