//! What did not agree at the first look, until it is looked at again.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::Class;
use crate::deadline::Id;

/// Candidates that wait at the same time; more of them make a run wait for the oldest.
const MOST: usize = 50_000;
/// Candidates that are looked at again together.
const BATCH: usize = 2000;
/// Ids that are remembered so that none is reported twice.
const REMEMBERED: usize = 200_000;

/// One order that did not agree.
#[derive(Debug)]
pub struct Candidate {
    pub class: Class,
    pub id: Id,
    /// The audit table has a close of it.
    pub audited: bool,
    seen_at: Instant,
}

/// The candidates of a run, oldest first.
#[derive(Debug)]
pub struct Candidates {
    grace: Duration,
    waiting: VecDeque<Candidate>,
    known: HashSet<(Class, Id)>,
}

impl Candidates {
    pub fn new(grace: Duration) -> Self {
        Self { grace, waiting: VecDeque::new(), known: HashSet::new() }
    }

    /// Keeps one, unless it waits already or was looked at again before.
    pub fn add(&mut self, class: Class, id: Id, audited: bool) {
        if self.known.len() < REMEMBERED {
            if !self.known.insert((class, id.clone())) {
                return;
            }
        } else if self.known.contains(&(class, id.clone())) {
            return;
        }
        self.waiting.push_back(Candidate { class, id, audited, seen_at: Instant::now() });
    }

    /// The oldest ones whose grace is over; waits for it where there are too many, or with `all` where there is any.
    pub async fn ripe(&mut self, all: bool) -> Vec<Candidate> {
        let Some(oldest) = self.waiting.front() else { return Vec::new() };
        let left = self.grace.saturating_sub(oldest.seen_at.elapsed());
        if !left.is_zero() {
            if !all && self.waiting.len() < MOST {
                return Vec::new();
            }
            tokio::time::sleep(left).await;
        }
        let mut ripe = Vec::new();
        while ripe.len() < BATCH
            && let Some(one) = self.waiting.pop_front_if(|one| one.seen_at.elapsed() >= self.grace)
        {
            ripe.push(one);
        }
        ripe
    }
}
