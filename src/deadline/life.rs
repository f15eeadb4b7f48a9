//! The life cycle as one table: which verb takes a deadline from which state to which. The scripts in lua/ make these moves; a test runs
//! each of them from each state and compares.

use super::State;

/// What may be asked of a deadline, or happen to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verb {
    /// enqueue, answering *conflict* where it is scheduled for another moment.
    Enqueue,
    /// enqueue that replaces what is scheduled.
    Replace,
    /// enqueue that gives an ended id a new life.
    Force,
    /// cancel.
    Cancel,
    /// `dead drop`.
    Drop,
    /// reschedule.
    Reschedule,
    /// hold.
    Hold,
    /// release, of a held deadline.
    Release,
    /// close by hand.
    Close,
    /// revive.
    Revive,
    /// claim, once it is due.
    Claim,
    /// renew, by the holder of the lease.
    Renew,
    /// settle, by the holder: closed or skipped.
    End,
    /// settle, by the holder: again later (retry, wait, not due, next stage, given back).
    Again,
    /// settle, by the holder: buried.
    Bury,
    /// The lease ran out (its worker died).
    Reap,
    /// The time of remembering is over.
    Prune,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Enqueue,
        Self::Replace,
        Self::Force,
        Self::Cancel,
        Self::Drop,
        Self::Reschedule,
        Self::Hold,
        Self::Release,
        Self::Close,
        Self::Revive,
        Self::Claim,
        Self::Renew,
        Self::End,
        Self::Again,
        Self::Bury,
        Self::Reap,
        Self::Prune,
    ];
}

impl State {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Absent, Self::Scheduled, Self::Leased, Self::Dead, Self::Ended];

    /// The state that a verb leads to from this one; `None` where it is refused (*absent*, *leased*, *dead*, *ended*, *stale*, …) and
    /// changes nothing.
    ///
    /// A cancelled id that was leased stays leased until its attempt is settled or its lease runs out; then it has ended, closed if that
    /// attempt closed it, else cancelled. A lease lost too often alone leads to dead instead of scheduled.
    pub fn after(self, verb: Verb) -> Option<Self> {
        match (self, verb) {
            (Self::Absent, Verb::Enqueue | Verb::Replace | Verb::Force) => Some(Self::Scheduled),
            // Remembered, so that a create event that comes after the payment does not bring the order back.
            (Self::Absent, Verb::Cancel) => Some(Self::Ended),

            (
                Self::Scheduled,
                Verb::Replace | Verb::Reschedule | Verb::Hold | Verb::Release | Verb::Close,
            ) => Some(Self::Scheduled),
            (Self::Scheduled, Verb::Claim) => Some(Self::Leased),
            (Self::Scheduled, Verb::Cancel) => Some(Self::Ended),

            (Self::Leased, Verb::Renew | Verb::Cancel) => Some(Self::Leased),
            (Self::Leased, Verb::End) => Some(Self::Ended),
            (Self::Leased, Verb::Again | Verb::Reap) => Some(Self::Scheduled),
            (Self::Leased, Verb::Bury) => Some(Self::Dead),

            (Self::Dead, Verb::Revive | Verb::Close) => Some(Self::Scheduled),
            (Self::Dead, Verb::Cancel | Verb::Drop) => Some(Self::Ended),

            (Self::Ended, Verb::Force) => Some(Self::Scheduled),
            (Self::Ended, Verb::Prune) => Some(Self::Absent),

            _ => None,
        }
    }
}
