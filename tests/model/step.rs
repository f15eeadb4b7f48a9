//! What may happen in a history, and how often.

use std::time::Duration;

use proptest::prelude::*;

/// Milliseconds before the close to remind; half of the deadlines have none.
pub const REMIND: [&[u64]; 5] = [&[], &[1], &[1000, 2000], &[999, 60_000, 299_000], &[4_000, 4_095_999]];

/// When a step's deadline is due.
#[derive(Debug, Clone, Copy)]
pub enum Due {
    /// A moment of the history's own, so that ids meet again at the same one.
    Fixed(u64),
    /// Milliseconds before or after now, as a moment.
    FromNow(i64),
    /// A window in microseconds.
    After(u64),
}

/// What a settle says of one lease.
#[derive(Debug, Clone, Copy)]
pub enum Verdict {
    Closed,
    Skipped,
    Retry(u64),
    Wait(u64),
    Until(i64),
    Back,
    Bury,
    /// To any stage at any moment.
    Stage(u8, u64),
    /// A reminder is over: told as `reminded`, as `reminder_failed`, or not at all.
    Reminded(u8),
}

/// Which generation a reschedule expects.
#[derive(Debug, Clone, Copy)]
pub enum Expected {
    Any,
    Stored,
    Another,
}

#[derive(Debug, Clone)]
pub enum Verb {
    Enqueue {
        ids: Vec<usize>,
        due: Due,
        on_conflict: u8,
        force: bool,
        cause: u8,
        payload: u8,
        /// Which reminders.
        remind: usize,
    },
    Cancel {
        ids: Vec<usize>,
        only_dead: bool,
    },
    Reschedule {
        id: usize,
        due: Due,
        expected: Expected,
    },
    Hold {
        id: usize,
        ms: u64,
    },
    Release {
        id: usize,
    },
    Close {
        id: usize,
    },
    Revive {
        id: usize,
    },
    Claim {
        worker: usize,
        again: bool,
        limit: usize,
        lease_us: u64,
        suspect: bool,
        poison: u32,
        late_ms: u64,
    },
    /// Leases by their number, counted from the latest that the worker knows.
    Settle {
        worker: usize,
        items: Vec<(usize, Verdict)>,
    },
    Renew {
        worker: usize,
        items: Vec<usize>,
        extension_us: u64,
    },
    Prune,
    Pause,
    Resume,
    Inspect {
        id: usize,
    },
}

#[derive(Debug, Clone)]
pub enum Step {
    /// Redis's clock moves, in microseconds.
    Clock(i64),
    Call(Verb),
    /// The call is made, its answer is lost, and the same call is made again so many microseconds later.
    Lost(Verb, u64),
}

pub fn history() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 50)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => clock().prop_map(Step::Clock),
        14 => verb().prop_map(Step::Call),
        3 => (verb(), prop::sample::select(vec![0, 1, 2_000, 31_000_000])).prop_map(|(v, us)| Step::Lost(v, us)),
    ]
}

fn clock() -> impl Strategy<Value = i64> {
    let (ms, s, h) = (1_000, 1_000_000, 3_600_000_000);
    prop_oneof![
        6 => prop::sample::select(vec![1, 500, 999, ms, 2 * ms, 20 * ms, 999 * ms, s]),
        4 => prop::sample::select(vec![5 * s, 31 * s, 64 * s, 700 * s]),
        // Past retentions, past 2^31 and 2^32 milliseconds.
        2 => prop::sample::select(vec![h, 2 * h, 73 * h, 25 * 24 * h, 50 * 24 * h]),
        1 => prop::sample::select(vec![-1, -ms, -2 * s, -700 * s]),
    ]
}

fn id() -> impl Strategy<Value = usize> {
    0..3_usize
}

fn ids() -> impl Strategy<Value = Vec<usize>> {
    prop::sample::subsequence(vec![0, 1, 2], 1..=3)
}

fn due() -> impl Strategy<Value = Due> {
    prop_oneof![
        3 => prop::sample::select(vec![0, 1, 1000, 64_000, 4_096_000]).prop_map(Due::Fixed),
        3 => prop::sample::select(vec![-5000, -1, 0, 1, 999, 4_095_999, 4_096_000, 262_144_000, 16_777_216_000])
            .prop_map(Due::FromNow),
        3 => prop::sample::select(vec![0, 1, 1_000, 1_001, 5_000_000, 300_000_000, 4_320_000_000_000])
            .prop_map(Due::After),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    let wait = || prop::sample::select(vec![0, 1, 2_000, 300_000]);
    prop_oneof![
        3 => Just(Verdict::Closed),
        2 => Just(Verdict::Skipped),
        4 => wait().prop_map(Verdict::Retry),
        1 => wait().prop_map(Verdict::Wait),
        1 => prop::sample::select(vec![-10_000, 1, 60_000, 5_000_000]).prop_map(Verdict::Until),
        1 => Just(Verdict::Back),
        2 => Just(Verdict::Bury),
        1 => (0..3_u8, wait()).prop_map(|(stage, ms)| Verdict::Stage(stage, ms)),
        3 => (0..3_u8).prop_map(Verdict::Reminded),
    ]
}

fn verb() -> impl Strategy<Value = Verb> {
    prop_oneof![
        16 => (ids(), due(), 0..4_u8, prop::bool::weighted(0.3), 0..5_u8, 0..3_u8, 0..2 * REMIND.len()).prop_map(
            |(ids, due, on_conflict, force, cause, payload, remind)| Verb::Enqueue {
                ids, due, on_conflict, force, cause, payload, remind: remind % REMIND.len() * (remind % 2)
            }
        ),
        6 => (ids(), prop::bool::weighted(0.3)).prop_map(|(ids, only_dead)| Verb::Cancel { ids, only_dead }),
        5 => (id(), due(), prop::sample::select(vec![Expected::Any, Expected::Stored, Expected::Another]))
            .prop_map(|(id, due, expected)| Verb::Reschedule { id, due, expected }),
        5 => (id(), prop::sample::select(vec![0, 1, 60_000, 1_800_000, 3_600_001]))
            .prop_map(|(id, ms)| Verb::Hold { id, ms }),
        4 => id().prop_map(|id| Verb::Release { id }),
        4 => id().prop_map(|id| Verb::Close { id }),
        5 => id().prop_map(|id| Verb::Revive { id }),
        26 => claim(),
        20 => (0..2_usize, prop::collection::vec((0..4_usize, verdict()), 1..4))
            .prop_map(|(worker, items)| Verb::Settle { worker, items }),
        5 => (0..2_usize, prop::collection::vec(0..4_usize, 1..4), prop::sample::select(vec![1, 1_000, 30_000_000]))
            .prop_map(|(worker, items, extension_us)| Verb::Renew { worker, items, extension_us }),
        2 => Just(Verb::Prune),
        1 => Just(Verb::Pause),
        2 => Just(Verb::Resume),
        3 => id().prop_map(|id| Verb::Inspect { id }),
    ]
}

fn claim() -> impl Strategy<Value = Verb> {
    let lease = prop::sample::select(vec![1, 1_000, 1_001, 30_000_000]);
    let late = prop::sample::select(vec![0, 0, 0, 1_000]);
    (0..2_usize, prop::bool::weighted(0.15), 1..4_usize, lease, prop::bool::weighted(0.7), 0..3_u32, late)
        .prop_map(|(worker, again, limit, lease_us, suspect, poison, late_ms)| Verb::Claim {
            worker,
            again,
            limit,
            lease_us,
            suspect,
            poison,
            late_ms,
        })
}

/// A wait as the wheel takes it.
pub fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
