//! What is measured of the calls to Redis: how long they take, how they fail, how many are under way.

use std::collections::HashMap;
use std::time::Duration;

use super::script::{self, Script};
use crate::error::{Error, StoreKind};
use crate::metrics::{Counter, Gauge, Histogram, Metrics, catalog};

/// The series of one store.
#[derive(Debug)]
pub(super) struct Measures {
    calls: HashMap<&'static str, Histogram>,
    errors: HashMap<StoreKind, Counter>,
    up: Gauge,
    in_flight: Gauge,
    connections: Gauge,
    connects: Counter,
}

impl Measures {
    pub fn new(metrics: &Metrics) -> Self {
        let of_wheel = [&script::GRANT, &script::BREAKER, &script::JOB, &script::RECORD_HOUR, &script::HOUR];
        let scripts = script::ALL.into_iter().chain(of_wheel);
        let calls = |script: &'static Script| {
            (script.verb, metrics.histogram(&catalog::REDIS_CALL_DURATION, &[script.verb]))
        };
        let errors = |kind: StoreKind| (kind, metrics.counter(&catalog::REDIS_ERRORS, &[kind.as_str()]));
        Self {
            calls: scripts.map(calls).collect(),
            errors: StoreKind::ALL.into_iter().map(errors).collect(),
            up: metrics.gauge(&catalog::REDIS_UP, &[]),
            in_flight: metrics.gauge(&catalog::REDIS_CALLS_IN_FLIGHT, &[]),
            connections: metrics.gauge(&catalog::REDIS_CONNECTIONS, &[]),
            connects: metrics.counter(&catalog::REDIS_CONNECTS, &[]),
        }
    }

    /// A call begins; it ends with what is answered.
    pub fn begin(&self) -> UnderWay<'_> {
        self.in_flight.inc();
        UnderWay(self)
    }

    /// A script took so long.
    pub fn took(&self, script: &Script, duration: Duration) {
        if let Some(calls) = self.calls.get(script.verb) {
            calls.observe(duration, 1);
        }
    }

    /// A connection was made.
    pub fn connected(&self) {
        self.connects.inc();
        self.connections.inc();
    }

    /// A connection was given up.
    pub fn disconnected(&self) {
        self.connections.dec();
    }

    /// Redis answered; also with an error of its own.
    pub fn answered(&self) {
        self.up.set(1.0);
    }

    /// A call failed.
    pub fn failed(&self, error: &Error) {
        let Some(kind) = error.store_kind() else { return };
        self.up.set(if matches!(kind, StoreKind::Unreachable | StoreKind::Unknown) { 0.0 } else { 1.0 });
        if let Some(counter) = self.errors.get(&kind) {
            counter.inc();
        }
    }
}

/// A call under way.
pub(super) struct UnderWay<'a>(&'a Measures);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}
