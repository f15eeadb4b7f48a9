//! What is to come, shard by shard, as far as it is counted by the time a page is due. A count looks into every slot of its stretches, and a
//! wheel that is full for days has tens of thousands. So it is made once for all who look, goes on behind a page that does not wait for
//! its end, and is shown again for a while.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use tokio::sync::watch;

use crate::clock::Moment;
use crate::error::Result;
use crate::wheel::Wheel;

/// A page waits no longer than this.
const PATIENCE: Duration = Duration::from_millis(150);
/// A count is shown again for so many times as long as it took: looking takes no more than a tenth of Redis's time, however many look.
const REST: u32 = 9;

/// What is counted: so many stretches of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Stretches {
    pub from: Moment,
    pub step: Duration,
    pub count: u32,
}

/// A count, as far as it has come.
#[derive(Debug, Clone)]
pub(super) struct Outlook {
    /// The counts of each shard, one for each stretch; `None` where nobody has looked yet.
    pub shards: Vec<Option<Vec<u64>>>,
    began: Instant,
    /// When it came to its end, and how.
    ended: Option<(Instant, Result<()>)>,
}

impl Outlook {
    fn begin(shards: usize) -> Self {
        Self { shards: vec![None; shards], began: Instant::now(), ended: None }
    }

    /// How many shards are counted.
    pub fn counted(&self) -> usize {
        self.shards.iter().flatten().count()
    }

    fn is_fresh(&self, now: Instant) -> bool {
        match &self.ended {
            None => true,
            Some((at, Ok(()))) => now.duration_since(*at) < (*at - self.began) * REST,
            Some((_, Err(_))) => false,
        }
    }
}

/// The counts of one wheel that are being taken, or were taken a moment ago.
#[derive(Debug, Default)]
pub(super) struct Outlooks(Mutex<HashMap<Stretches, watch::Receiver<Outlook>>>);

impl Outlooks {
    /// The count of these stretches: all of it, or what there is of it when patience ends.
    pub async fn look(&self, wheel: &Wheel, stretches: Stretches) -> Result<Outlook> {
        let mut count = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            known.retain(|_, count| count.borrow().is_fresh(now));
            known.entry(stretches).or_insert_with(|| begin(wheel.clone(), stretches)).clone()
        };
        drop(tokio::time::timeout(PATIENCE, count.wait_for(|outlook| outlook.ended.is_some())).await);
        let outlook = count.borrow().clone();
        match outlook.ended {
            Some((_, Err(e))) => Err(e),
            _ => Ok(outlook),
        }
    }

    /// The next look begins anew: something was done.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Begins to count, and goes on whoever looks.
fn begin(wheel: Wheel, stretches: Stretches) -> watch::Receiver<Outlook> {
    let (progress, count) = watch::channel(Outlook::begin(usize::from(wheel.shards().get())));
    tokio::spawn(async move {
        let outcome = take(&wheel, stretches, &progress).await;
        progress.send_modify(|outlook| outlook.ended = Some((Instant::now(), outcome)));
    });
    count
}

async fn take(wheel: &Wheel, stretches: Stretches, progress: &watch::Sender<Outlook>) -> Result<()> {
    let Stretches { from, step, count } = stretches;
    let mut shards = std::pin::pin!(wheel.forecast_shards(from, step, count)?);
    while let Some((shard, counts)) = shards.try_next().await? {
        progress.send_modify(|outlook| {
            if let Some(place) = outlook.shards.get_mut(usize::from(shard.0)) {
                *place = Some(counts);
            }
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_shown_again_for_nine_times_as_long_as_it_took_and_one_that_failed_is_not() {
        let began = Instant::now();
        let ended = began + Duration::from_millis(200);
        let mut outlook = Outlook { began, ..Outlook::begin(2) };
        assert!(outlook.is_fresh(began + Duration::from_secs(60)), "it is being taken");
        outlook.ended = Some((ended, Ok(())));
        assert!(outlook.is_fresh(ended + Duration::from_millis(1799)));
        assert!(!outlook.is_fresh(ended + Duration::from_millis(1800)));
        let away = crate::error::Invalid::new("forecast", "0", "expected more").into();
        outlook.ended = Some((ended, Err(away)));
        assert!(!outlook.is_fresh(ended));
    }
}
