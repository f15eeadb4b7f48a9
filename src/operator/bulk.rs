//! Bulk acts: done to all that match, page by page, by any server or worker; whoever takes over goes on where the last one stopped.

mod fit;
mod foreman;

use futures_util::future::try_join_all;

pub use foreman::Foreman;

use super::audited::About;
use super::{Act, Operator};
use crate::clock::show_duration;
use crate::deadline::{Note, State};
use crate::error::{Invalid, Result};
use crate::shard::Shard;
use crate::wheel::{AuditOutcome, Bulk, BulkAct, BulkFilter, BulkState, Wheel};
use fit::Fit;

/// Deadlines that a count looks at: what lies beyond is not counted.
pub const LOOKED_AT: u64 = 20_000;

/// The longest text of a filter, in bytes: a group of reasons is 160 characters.
const LONGEST: usize = 1000;

/// How many match a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Matched {
    /// So many.
    pub matched: u64,
    /// Of so many that are dead, or scheduled.
    pub of: u64,
    /// Whether all were looked at; else there may be more than `matched`.
    pub exact: bool,
}

impl Operator {
    /// How many a bulk act would be done to now: exact as long as there are at most 20,000 dead (or scheduled, between the two moments)
    /// deadlines to look at.
    pub async fn preview(&self, act: BulkAct, filter: &BulkFilter) -> Result<Matched> {
        check(&self.wheel, act, filter)?;
        let now_us = self.wheel.now().await?.as_millis().saturating_mul(1000).saturating_add(999);
        let stats = self.wheel.stats().await?;
        let of = if act.is_of_dead() { stats.dead } else { stats.scheduled };
        if act.is_of_dead() && *filter == BulkFilter::default() {
            return Ok(Matched { matched: of, of, exact: true });
        }
        let most = LOOKED_AT.div_ceil(u64::from(self.wheel.shards().get())).max(500);
        let counts =
            self.wheel.shards().all().map(|shard| count(&self.wheel, shard, act, filter, now_us, most));
        let counts = try_join_all(counts).await?;
        Ok(Matched {
            matched: counts.iter().map(|(matched, _)| matched).sum(),
            of,
            exact: counts.iter().all(|(_, exact)| *exact),
        })
    }

    /// Begins a bulk act and answers at once: it is run by any server or worker of the wheel, one after the other. Only what matches, and
    /// matched before this moment, is touched, and at most `most` deadlines where that is given. `close` needs a reason.
    pub async fn begin_bulk(
        &self,
        act: BulkAct,
        filter: BulkFilter,
        most: Option<u64>,
        reason: &str,
    ) -> Result<Bulk> {
        if act == BulkAct::Close {
            Note::new(self.person.name(), reason)?;
        }
        let count = self.preview(act, &filter).await?;
        let asked = most.map_or(count.matched, |most| count.matched.min(most));
        let about = About::wheel(of(act), reason).with(said(act, &filter, most)).counting(asked);
        let mut entry = self.intent(&about)?;
        entry.entry = self.wheel.write_audit(&entry).await?;
        let bulk = Bulk {
            id: String::new(),
            act,
            filter,
            by: self.person.name().to_owned(),
            door: self.person.door().as_str().to_owned(),
            reason: reason.to_owned(),
            asked_at_ms: 0,
            matched: asked,
            exact: count.exact,
            most,
            audit: entry.entry.clone(),
            state: BulkState::Waiting,
            done: 0,
            refused: 0,
            left: asked,
            runner: String::new(),
            ended_at_ms: None,
            error: None,
        };
        let put = self.wheel.put_bulk(bulk).await;
        if let Err(e) = &put
            && e.store_kind().is_some_and(crate::error::StoreKind::is_harmless)
        {
            (entry.outcome, entry.said) = (AuditOutcome::Failed, Some(crate::error::shown(&e.to_string())));
            drop(self.wheel.write_audit(&entry).await);
        }
        put
    }

    /// Stops a bulk act: what is done stays done. Answers it as it stood; `None` where there is none of that id.
    pub async fn stop_bulk(&self, id: &str, reason: &str) -> Result<Option<Bulk>> {
        let about = About::wheel(Act::Stop, reason).with(format!("bulk {}", crate::error::shown(id)));
        self.audited(about, self.wheel.stop_bulk(id, self.person.name()), |found| match found {
            Some(bulk) if bulk.is_over() => super::audited::Sum::refused("it was over"),
            Some(_) => super::audited::Sum::done(1),
            None => super::audited::Sum::refused("absent"),
        })
        .await
    }
}

/// The word of a bulk act in the audit: that of the act on one.
fn of(act: BulkAct) -> Act {
    match act {
        BulkAct::Revive => Act::Revive,
        BulkAct::Drop => Act::Drop,
        BulkAct::Cancel => Act::Cancel,
        BulkAct::Close => Act::Close,
        BulkAct::Reschedule { .. } => Act::Reschedule,
        BulkAct::Hold { .. } => Act::Hold,
    }
}

fn said(act: BulkAct, filter: &BulkFilter, most: Option<u64>) -> String {
    let long = |ms| show_duration(std::time::Duration::from_millis(ms));
    let mut text = format!("all matching: {}", filter.text());
    match act {
        BulkAct::Reschedule { by_ms } => text += &format!("; by {}", long(by_ms)),
        BulkAct::Hold { for_ms } => text += &format!("; for {}", long(for_ms)),
        _ => {}
    }
    if let Some(most) = most {
        text += &format!("; at most {most}");
    }
    text
}

/// Refuses what makes no sense together.
fn check(wheel: &Wheel, act: BulkAct, filter: &BulkFilter) -> Result<(), Invalid> {
    let texts = [("reason", &filter.reason), ("group", &filter.group), ("prefix", &filter.prefix)];
    for (field, text) in texts {
        if let Some(text) = text
            && (text.is_empty() || text.len() > LONGEST)
        {
            return Err(Invalid::new(field, text, "expected 1 to 1000 bytes"));
        }
    }
    if !act.is_of_dead()
        && let Some(text) = filter.reason.as_ref().or(filter.group.as_ref())
    {
        let field = if filter.reason.is_some() { "reason" } else { "group" };
        return Err(Invalid::new(
            field,
            text,
            format!("expected none for {}: only the dead have one", act.as_str()),
        ));
    }
    if filter.from() > filter.to() {
        return Err(Invalid::new("to", &filter.to().to_string(), "expected no earlier than from"));
    }
    if let BulkAct::Hold { for_ms } = act {
        let settings = wheel.settings();
        let long = std::time::Duration::from_millis(for_ms);
        settings.channels.hold(None, long, settings.hold_limits())?;
    }
    Ok(())
}

/// How many of a shard match, of at most `most` that are looked at, and whether those are all.
async fn count(
    wheel: &Wheel,
    shard: Shard,
    act: BulkAct,
    filter: &BulkFilter,
    now_us: u64,
    most: u64,
) -> Result<(u64, bool)> {
    let state = if act.is_of_dead() { State::Dead } else { State::Scheduled };
    let (mut matched, mut looked, mut after) = (0, 0, None);
    while looked < most {
        let between = filter.from()..=filter.to();
        let (rows, next) = wheel.shard_page_between(shard, state, between, after.as_ref()).await?;
        looked += rows.len() as u64;
        matched += rows.iter().filter(|row| Fit::of_row(act, filter, now_us, row).is_some()).count() as u64;
        match next {
            None => return Ok((matched, true)),
            next => after = next,
        }
    }
    Ok((matched, false))
}
