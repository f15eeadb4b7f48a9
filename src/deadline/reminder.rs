//! Reminders before the close: stages of one deadline, so that whatever ends or moves the deadline ends or moves them too.

use std::time::Duration;

use super::Stage;
use crate::clock::{Moment, show_duration};
use crate::error::Invalid;

/// How long before the close to remind, each a stage of the deadline: stage 1 is the nearest to the close. At most 16, each from 1 ms to
/// 45 days, no two alike. One whose moment has passed when the deadline is placed is left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Reminders(Vec<u32>);

impl Reminders {
    /// The most reminders of one deadline.
    pub const MAX: usize = 16;
    /// The furthest before the close.
    pub const MAX_BEFORE: Duration = Duration::from_secs(45 * 86_400);

    /// Checks how long before the close to remind, in any order.
    pub fn new(before: &[Duration]) -> Result<Self, Invalid> {
        if before.len() > Self::MAX {
            let reason = format!("expected at most {} reminders", Self::MAX);
            return Err(Invalid::new("remind", &before.len().to_string(), reason));
        }
        let mut millis = Vec::with_capacity(before.len());
        for one in before {
            let whole = u32::try_from(one.as_millis()).unwrap_or(u32::MAX);
            if one.as_millis() == 0 || *one > Self::MAX_BEFORE {
                return Err(Invalid::new(
                    "remind",
                    &show_duration(*one),
                    "expected 1ms to 45d before the close",
                ));
            }
            if millis.contains(&whole) {
                return Err(Invalid::new("remind", &show_duration(*one), "is given twice"));
            }
            millis.push(whole);
        }
        millis.sort_unstable();
        Ok(Self(millis))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How long before the close, nearest first: the first is stage 1.
    pub fn before(&self) -> impl DoubleEndedIterator<Item = Duration> {
        self.0.iter().map(|ms| Duration::from_millis((*ms).into()))
    }

    /// How long before the close a stage fires; `None` for the close, and where there is no such reminder.
    pub fn before_of(&self, stage: Stage) -> Option<Duration> {
        let place = usize::from(stage.0).checked_sub(1)?;
        self.0.get(place).map(|ms| Duration::from_millis((*ms).into()))
    }

    /// When a stage fires. A reminder that is not there counts as the close.
    pub fn moment(&self, stage: Stage, due_at: Moment) -> Moment {
        let before = self.before_of(stage).unwrap_or_default();
        let before = u64::try_from(before.as_millis()).unwrap_or(u64::MAX);
        Moment::EPOCH.plus(Duration::from_millis(due_at.as_millis().saturating_sub(before)))
    }

    /// The stage that comes after `stage`, at `now`: the first whose moment is still to come, else the close. With its moment.
    pub fn after(&self, stage: Stage, due_at: Moment, now: Moment) -> (Stage, Moment) {
        let highest = stage.0.min(u8::try_from(self.0.len() + 1).unwrap_or(u8::MAX));
        (1..highest)
            .rev()
            .map(|n| (Stage(n), self.moment(Stage(n), due_at)))
            .find(|(_, moment)| *moment > now)
            .unwrap_or((Stage::CLOSE, due_at))
    }

    /// As they are stored: 4 bytes each, big endian, nearest first.
    pub fn to_stored(&self) -> Vec<u8> {
        self.0.iter().flat_map(|ms| ms.to_be_bytes()).collect()
    }

    /// What was stored. A part of a number at the end is left out.
    pub fn from_stored(stored: &[u8]) -> Self {
        let (whole, _) = stored.as_chunks::<4>();
        Self(whole.iter().map(|bytes| u32::from_be_bytes(*bytes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(all: &[u64]) -> Reminders {
        Reminders::new(&all.iter().map(|m| Duration::from_secs(60 * m)).collect::<Vec<_>>()).unwrap()
    }

    fn at(minute: u64) -> Moment {
        Moment::from_millis(minute * 60_000).unwrap()
    }

    #[test]
    fn stages_count_down_to_the_close_and_leave_out_what_has_passed() {
        let reminders = minutes(&[1, 15, 5]);
        assert_eq!(reminders, Reminders::from_stored(&reminders.to_stored()));
        assert_eq!(reminders.moment(Stage(3), at(30)), at(15));
        assert_eq!(reminders.moment(Stage::CLOSE, at(30)), at(30));
        assert_eq!(reminders.after(Stage(3), at(30), at(15)), (Stage(2), at(25)));
        assert_eq!(reminders.after(Stage(3), at(30), at(25)), (Stage(1), at(29)));
        assert_eq!(reminders.after(Stage(2), at(30), at(29)), (Stage::CLOSE, at(30)));
        assert_eq!(reminders.after(Stage(200), at(30), at(26)), (Stage(1), at(29)));
        assert_eq!(reminders.after(Stage::CLOSE, at(30), at(0)), (Stage::CLOSE, at(30)));
    }

    #[test]
    fn what_is_no_reminder_is_refused_with_the_range() {
        let seconds = |s: u64| Duration::from_secs(s);
        for bad in
            [&[seconds(0)][..], &[seconds(46 * 86_400)], &[seconds(60), seconds(60)], &[seconds(1); 17]]
        {
            assert_eq!(Reminders::new(bad).unwrap_err().field, "remind");
        }
        assert!(Reminders::new(&[]).unwrap().is_empty());
    }
}
