//! The three walks: table against wheel, wheel against table, close log against table; and the second look at what did not agree.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::future::try_join_all;

use super::candidate::{Candidate, Candidates};
use super::judge::{Seen, closed, fact_text, is_paid, judge};
use super::{Class, Finding, Reconcile, Reconciliation};
use crate::clock::Moment;
use crate::deadline::{Id, Outcome, State};
use crate::error::Result;
use crate::hook::sql::pages::Which;
use crate::hook::sql::pages::facts::Fact;
use crate::shard::Shard;
use crate::sweep::pace::Pace;
use crate::sweep::walk::Walk;
use crate::wheel::answer::{Cursor, Row};
use crate::wheel::{Payment, Place};

/// Ids of one read of the audit table.
const AUDIT_PAGE: usize = 1000;

/// Pages of a shard that are asked of the table together.
const TOGETHER: usize = 4;

/// Late payments that are recorded at once.
const SIDE_BY_SIDE: usize = 16;

/// A run on its way.
pub(super) struct Run {
    pub(super) report: Reconciliation,
    pub(super) candidates: Candidates,
    /// How much may still be mended; `None`: nothing is.
    pub(super) heal: Option<u64>,
    paid: HashSet<String>,
    pace: Pace,
}

/// One order that was looked at again, and what was seen then.
pub(super) struct Confirmed {
    pub(super) class: Class,
    pub(super) id: Id,
    pub(super) seen: Seen,
    pub(super) fact: Option<Fact>,
}

impl Reconcile {
    pub(super) async fn compare(
        &self,
        heal: Option<u64>,
        progress: &mut (impl FnMut(&Reconciliation) + Send),
    ) -> Result<Reconciliation> {
        let mut run = Run {
            report: Reconciliation::new(),
            candidates: Candidates::new(self.settings.grace),
            heal,
            paid: HashSet::new(),
            pace: Pace::new(self.rows_per_second),
        };
        let asked = self.ask_all().await?;
        self.table_against_wheel(&mut run, progress).await?;
        self.wheel_against_table(&mut run, progress).await?;
        if self.runner.table.knows_states() {
            self.ends_against_table(&mut run, progress).await?;
            self.audit_against_table(&mut run, progress).await?;
        }
        while Box::pin(self.look_again(&mut run, true)).await? {
            progress(&run.report);
        }
        self.ask_again(asked, &run.paid, &mut run.report).await;
        Ok(run.report)
    }

    /// Every open row is on the wheel.
    async fn table_against_wheel(
        &self,
        run: &mut Run,
        progress: &mut (impl FnMut(&Reconciliation) + Send),
    ) -> Result<()> {
        for database in 0..self.runner.table.databases() {
            let (table, page) = (&self.runner.table, self.page);
            let mut walk = Walk::new(table, database, Which::Open, page, None, self.rows_per_second)?;
            let mut rows = walk.next().await?;
            while !rows.is_empty() {
                let count = rows.len();
                run.report.rows += count as u64;
                let good = |row: &crate::hook::sql::pages::Row| {
                    row.canonical.then(|| Id::new(&row.position.key).ok()).flatten()
                };
                let ids: Vec<Id> = rows.iter().filter_map(good).collect();
                run.report.refused += (count - ids.len()) as u64;
                let asked: Vec<&Id> = ids.iter().collect();
                // The database reads the next pages while the wheel is asked about these.
                let (states, next) = tokio::join!(Box::pin(self.runner.wheel.held(&asked)), walk.next());
                for (id, state) in ids.iter().cloned().zip(states?) {
                    match state {
                        State::Absent | State::Ended => {
                            run.candidates.add(Class::MissingPending, id, false);
                        }
                        State::Dead => run.candidates.add(Class::DeadOpen, id, false),
                        State::Scheduled | State::Leased => {}
                    }
                }
                rows = next?;
                self.between_pages(run, count, progress).await?;
            }
        }
        Ok(())
    }

    /// Every deadline of the wheel is an open row with the same close time, and no lease of it is stuck.
    async fn wheel_against_table(
        &self,
        run: &mut Run,
        progress: &mut (impl FnMut(&Reconciliation) + Send),
    ) -> Result<()> {
        for shard in self.runner.wheel.shards().all() {
            for state in [State::Leased, State::Scheduled] {
                let mut page = self.wheel_page(shard, state, None).await?;
                loop {
                    let (now, rows, place) = page;
                    let ids: Vec<&str> = rows.iter().filter_map(live_id).map(Id::as_str).collect();
                    let count = rows.len();
                    run.report.deadlines += count as u64;
                    // The wheel is read on while the table is asked about this page.
                    let following = async {
                        match &place {
                            Some(place) => self.wheel_page(shard, state, Some(place)).await.map(Some),
                            None => Ok(None),
                        }
                    };
                    let (facts, next) =
                        tokio::join!(Box::pin(self.runner.table.facts(&ids, false)), Box::pin(following));
                    let (facts, next) = (facts?, next?);
                    for row in rows {
                        let Row::Live { state, at, entry, .. } = row else { continue };
                        let seen = Seen::of_entry(state, at, &entry, now);
                        if let Some(class) = judge(&seen, facts.get(entry.id.as_str()), &self.settings) {
                            run.candidates.add(class, entry.id, false);
                        }
                    }
                    self.between_pages(run, count, progress).await?;
                    let Some(next) = next else { break };
                    page = next;
                }
            }
        }
        Ok(())
    }

    /// The next deadlines of a shard, Redis's clock before they were read, and the place behind them.
    async fn wheel_page(
        &self,
        shard: Shard,
        state: State,
        after: Option<&Place>,
    ) -> Result<(Moment, Vec<Row>, Option<Place>)> {
        let now = self.runner.wheel.now().await?;
        let (mut rows, mut place) = self.runner.wheel.shard_page(shard, state, after).await?;
        for _ in 1..TOGETHER {
            let Some(from) = &place else { break };
            let (more, next) = self.runner.wheel.shard_page(shard, state, Some(from)).await?;
            rows.extend(more);
            place = next;
        }
        Ok((now, rows, place))
    }

    /// What the wheel remembers as closed is not paid.
    async fn ends_against_table(
        &self,
        run: &mut Run,
        progress: &mut (impl FnMut(&Reconciliation) + Send),
    ) -> Result<()> {
        let mut cursor: Option<Cursor> = None;
        loop {
            let page = self
                .runner
                .wheel
                .list(State::Ended, Moment::EPOCH, Moment::MAX, cursor.as_ref(), 500)
                .await?;
            run.report.ended += page.rows.len() as u64;
            let closes = |row: Row| match row {
                Row::Ended { id, ended } if ended.outcome == Outcome::Closed => Some(id),
                _ => None,
            };
            let ids: Vec<Id> = page.rows.into_iter().filter_map(closes).collect();
            self.add_paid(run, ids, false).await?;
            self.between_pages(run, 0, progress).await?;
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// What the audit table has a close of is not paid.
    async fn audit_against_table(
        &self,
        run: &mut Run,
        progress: &mut (impl FnMut(&Reconciliation) + Send),
    ) -> Result<()> {
        for database in 0..self.runner.table.databases() {
            let mut after: Option<String> = None;
            loop {
                let within = self.settings.audit_within;
                let texts = self.runner.table.audited(database, within, after.as_deref(), AUDIT_PAGE).await?;
                let Some(last) = texts.last().cloned() else { break };
                let count = texts.len();
                run.report.audited += count as u64;
                let ids = texts.iter().filter_map(|text| Id::new(text).ok()).collect();
                self.add_paid(run, ids, true).await?;
                self.between_pages(run, count, progress).await?;
                after = Some(last);
            }
        }
        Ok(())
    }

    async fn add_paid(&self, run: &mut Run, ids: Vec<Id>, audited: bool) -> Result<()> {
        let keys: Vec<&str> = ids.iter().map(Id::as_str).collect();
        let facts = self.runner.table.facts(&keys, false).await?;
        for id in ids {
            if is_paid(facts.get(id.as_str())) {
                run.candidates.add(Class::PaidAfterClose, id, audited);
            }
        }
        Ok(())
    }

    async fn between_pages(
        &self,
        run: &mut Run,
        rows: usize,
        progress: &mut (impl FnMut(&Reconciliation) + Send),
    ) -> Result<()> {
        progress(&run.report);
        run.pace.spend(rows).await;
        while Box::pin(self.look_again(run, false)).await? {
            progress(&run.report);
        }
        Ok(())
    }

    /// Looks again at some candidates whose grace is over, with `all` at any; `false` where there were none.
    async fn look_again(&self, run: &mut Run, all: bool) -> Result<bool> {
        let ripe = run.candidates.ripe(all).await;
        if ripe.is_empty() {
            return Ok(false);
        }
        let ids: Vec<&Id> = ripe.iter().map(|one| &one.id).collect();
        // The wheel is asked before and after the row, so that an order that is closed in between is not taken for a lost one.
        let before = self.inspect(&ids).await?;
        let keys: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
        let mut facts = self.runner.table.facts(&keys, true).await?;
        let after = self.inspect(&ids).await?;
        let mut confirmed = Vec::new();
        for ((one, before), after) in ripe.into_iter().zip(before).zip(after) {
            match self.confirm(&one, &before, &after, &facts) {
                Some(class) => {
                    let fact = facts.remove(one.id.as_str());
                    confirmed.push(Confirmed { class, id: one.id, seen: after, fact });
                }
                None => run.report.moved += 1,
            }
        }
        let healed = self.heal(&confirmed, run).await?;
        self.record_late(&confirmed).await?;
        for (one, healed) in confirmed.iter().zip(healed) {
            self.found(one, healed, run);
        }
        Ok(true)
    }

    /// A payment after a close that the wheel remembers is an incident, as if `paid` had reported it now; one for each life of an order.
    async fn record_late(&self, found: &[Confirmed]) -> Result<()> {
        let mut late = Vec::new();
        for one in found.iter().filter(|one| one.class == Class::PaidAfterClose && closed(&one.seen)) {
            late.push(Payment { id: one.id.clone(), paid_at: None, amount: None });
        }
        for some in late.chunks(SIDE_BY_SIDE) {
            try_join_all(some.iter().map(|payment| self.runner.wheel.paid(payment, Duration::ZERO))).await?;
        }
        Ok(())
    }

    fn confirm(
        &self,
        one: &Candidate,
        before: &Seen,
        after: &Seen,
        facts: &HashMap<String, Fact>,
    ) -> Option<Class> {
        let fact = facts.get(one.id.as_str());
        if one.class == Class::PaidAfterClose {
            // A payment that came late is final, whatever the wheel has forgotten meanwhile.
            return (is_paid(fact) && (one.audited || closed(after))).then_some(one.class);
        }
        let class = judge(after, fact, &self.settings)?;
        (before.stood_still(after) && class.is_like(one.class)).then_some(class)
    }

    async fn inspect(&self, ids: &[&Id]) -> Result<Vec<Seen>> {
        let looks = self.runner.wheel.inspect_all(ids).await?;
        Ok(looks.iter().map(Seen::of_inspection).collect())
    }

    fn found(&self, one: &Confirmed, healed: Option<Result<&'static str, String>>, run: &mut Run) {
        if one.class == Class::PaidAfterClose && !run.paid.insert(one.id.as_str().to_owned()) {
            return;
        }
        let Some(section) = run.report.class_mut(one.class) else { return };
        section.healed += u64::from(matches!(healed, Some(Ok(_))));
        let healed = healed.map(|done| done.map_or_else(|why| format!("not: {why}"), str::to_owned));
        let finding = Finding {
            id: one.id.as_str().to_owned(),
            table: fact_text(one.fact.as_ref()),
            wheel: one.seen.text(),
            healed,
        };
        self.note(section, finding);
    }
}

fn live_id(row: &Row) -> Option<&Id> {
    match row {
        Row::Live { entry, .. } => Some(&entry.id),
        _ => None,
    }
}
