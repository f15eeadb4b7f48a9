//! One wheel as the API serves it.

use super::combiner::Combiner;
use super::served::ServedWheel;
use crate::wheel::Wheel;

/// A wheel, what is known of it, and what gathers its enqueues.
#[derive(Debug)]
pub(super) struct Door {
    pub wheel: Wheel,
    /// What the page and the explanation ask for.
    #[cfg(any(feature = "page", feature = "sql"))]
    pub served: ServedWheel,
    pub combiner: Combiner,
}

impl Door {
    pub fn new(served: ServedWheel) -> Self {
        let wheel = served.wheel.clone();
        Self {
            combiner: Combiner::start(wheel.clone()),
            wheel,
            #[cfg(any(feature = "page", feature = "sql"))]
            served,
        }
    }
}
