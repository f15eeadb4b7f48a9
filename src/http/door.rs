//! One wheel as the API serves it.

use super::combiner::Combiner;
use crate::wheel::Wheel;

/// A wheel and what gathers its enqueues.
#[derive(Debug)]
pub(super) struct Door {
    pub wheel: Wheel,
    pub combiner: Combiner,
}

impl Door {
    pub fn new(wheel: Wheel) -> Self {
        Self { combiner: Combiner::start(wheel.clone()), wheel }
    }
}
