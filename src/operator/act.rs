//! The words of what people do.

use crate::error::Invalid;

/// What a person does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Closes an order now.
    Close,
    /// Gives a deadline another moment.
    Reschedule,
    /// Ends a deadline that must not fire any more.
    Cancel,
    /// Keeps a deadline from firing for a while.
    Hold,
    /// Ends a hold early.
    Release,
    /// Gives a dead deadline a new life.
    Revive,
    /// Ends a dead deadline as cancelled.
    Drop,
    /// Stops closing.
    Pause,
    /// Goes on closing; of a worker, goes on claiming.
    Resume,
    /// Tells a worker to claim nothing more.
    Drain,
    /// Sees to a late payment.
    Acknowledge,
    /// Runs a job, or asks for a run.
    Run,
    /// Stops a bulk act.
    Stop,
    /// Mends what a scan finds damaged.
    Heal,
    /// Takes over what was exported.
    Import,
    /// Moves the wheel to another number of shards.
    Reshard,
    /// Removes the wheel.
    Remove,
    /// The breaker's own act: it stops closing. No person does it.
    Trip,
}

impl Act {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::Close,
        Self::Reschedule,
        Self::Cancel,
        Self::Hold,
        Self::Release,
        Self::Revive,
        Self::Drop,
        Self::Pause,
        Self::Resume,
        Self::Drain,
        Self::Acknowledge,
        Self::Run,
        Self::Stop,
        Self::Heal,
        Self::Import,
        Self::Reshard,
        Self::Remove,
        Self::Trip,
    ];

    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Close => "close",
            Self::Reschedule => "reschedule",
            Self::Cancel => "cancel",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Revive => "revive",
            Self::Drop => "drop",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Drain => "drain",
            Self::Acknowledge => "acknowledge",
            Self::Run => "run",
            Self::Stop => "stop",
            Self::Heal => "heal",
            Self::Import => "import",
            Self::Reshard => "reshard",
            Self::Remove => "remove",
            Self::Trip => "trip",
        }
    }

    /// The act of that word.
    pub fn parse(word: &str) -> Result<Self, Invalid> {
        let known = Self::ALL.into_iter().find(|act| act.as_str() == word);
        known
            .ok_or_else(|| Invalid::new("act", word, format!("expected one of {}", Self::words().join(", "))))
    }

    /// The words of all of them.
    pub fn words() -> Vec<&'static str> {
        Self::ALL.into_iter().map(Self::as_str).collect()
    }
}
