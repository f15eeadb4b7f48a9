//! The SQL hook: the close is declared, and duewheel writes the statement, so that it cannot be written wrong.
//!
//! One transaction closes a whole batch: the guard and the table's own close time stand in the UPDATE's own WHERE, so a payment that
//! commits first wins; the shop's follow-up statements run only for the rows really closed; the audit rows are written beside them.
//! Then the commit, and only then the worker settles. docs/hook-sql.md tells a shop how to declare its close.

mod audit;
mod batch;
mod check;
mod clock;
mod database;
mod declared;
mod dialect;
mod expression;
mod failure;
mod key;
mod order;
pub mod pages;
mod placeholder;
mod plan;
mod pool;
mod query;
mod session;
mod settings;
mod statement;
mod text;
mod transaction;
mod verdict;
mod zone;

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use crate::clock::Reading;
use crate::deadline::{Cause, Stage};
use secrecy::SecretString;

use crate::error::{Error, Result};
use crate::hook::{BoxFuture, Hook, Verdict};
use crate::lease::Lease;
use crate::shard::WheelName;

use batch::Batch;
use database::Database;
use order::Order;
use plan::Plan;
use pool::Pool;

pub use audit::audit_ddl;
pub use dialect::Dialect;
pub use settings::{KeyType, Route, SqlSettings, TimeType};

/// Kept back from the time of a call, but at most a third of it: to read what became of an unanswered commit, and to answer.
const RESOLVE_MARGIN: Duration = Duration::from_millis(600);
/// A lease that is trusted for less than this is not begun with.
const LEAST_TRUST: Duration = Duration::from_millis(100);

/// Closes orders in the shop's own database.
pub struct SqlHook {
    settings: SqlSettings,
    plan: Plan,
    pools: Vec<Pool>,
    zone: Option<zone::Zone>,
}

impl SqlHook {
    /// Checks the declaration, without a connection; [`Hook::check`] asks the database. Every problem found is in the error.
    pub fn new(settings: SqlSettings) -> Result<Self> {
        let mut problems = settings.limits();
        let zone = settings
            .time_zone
            .as_deref()
            .and_then(|text| zone::Zone::parse(text).map_err(|problem| problems.push(problem)).ok());
        let mut databases = Vec::new();
        for url in &settings.urls {
            match Database::parse(url, &settings, zone.clone()) {
                Ok(database) => databases.push(database),
                Err(problem) => problems.push(problem),
            }
        }
        let dialect = databases.first().map_or(Dialect::Postgres, Database::dialect);
        if databases.iter().any(|d| d.dialect() != dialect) {
            problems.push("urls: expected databases of one kind".to_owned());
        }
        if dialect == Dialect::Sqlite && zone.as_ref().is_some_and(|z| !z.is_utc()) {
            problems
                .push("time_zone: sqlite knows none, its times are UTC; expected UTC or nothing".to_owned());
        }
        let plan = Plan::compile(dialect, &settings, &mut problems);
        match plan {
            Some(plan) if problems.is_empty() => {
                let size = if dialect == Dialect::Sqlite { 1 } else { settings.pool_size };
                let pools =
                    databases.into_iter().map(|d| Pool::new(d, size, settings.connect_timeout)).collect();
                Ok(Self { settings, plan, pools, zone })
            }
            _ => Err(Error::Config(problems)),
        }
    }

    /// Takes over the users and passwords in `urls` (rotation without a restart): new sessions use them, those that are open stay. The
    /// databases must be the same, in the same order; on [`Error::Config`] nothing changes.
    pub fn set_urls(&self, urls: &[SecretString]) -> Result<()> {
        let mut logins = Vec::new();
        let mut problems = Vec::new();
        for url in urls {
            match Database::parse(url, &self.settings, self.zone.clone()) {
                Ok(database) => logins.push(database),
                Err(problem) => problems.push(problem),
            }
        }
        let same = logins.len() == self.pools.len()
            && logins.iter().zip(&self.pools).all(|(login, pool)| login.shown == pool.database.shown);
        if problems.is_empty() && !same {
            problems.push("url: names other databases than at the start, which needs a restart".to_owned());
        }
        if !problems.is_empty() {
            return Err(Error::Config(problems));
        }
        self.pools.iter().zip(logins).for_each(|(pool, login)| pool.set_login(login));
        Ok(())
    }

    /// Which database the order lives in.
    fn route(&self, order: Order<'_>) -> std::result::Result<usize, Verdict> {
        match &self.settings.route {
            _ if self.pools.len() == 1 => Ok(0),
            Route::Id => Ok(key::route(order.key(), self.pools.len())),
            Route::Payload(field) => {
                let path: Vec<String> = field.split('.').map(str::to_owned).collect();
                match order.payload_field(&path) {
                    Some(value) => Ok(key::route(&value, self.pools.len())),
                    None => Err(Verdict::Rejected {
                        reason: format!(
                            "route: the payload has no field {field}, so its database is not known"
                        ),
                    }),
                }
            }
        }
    }

    /// What can be answered without a database.
    fn refused(&self, order: Order<'_>) -> Option<Verdict> {
        if order.lease.stage != Stage::CLOSE && self.plan.remind.is_empty() {
            // A reminder's stage must never close an order.
            let reason = "the sql hook closes orders; it has nothing for a reminder".to_owned();
            return Some(Verdict::Failed { reason });
        }
        if !key::is_canonical(self.plan.kind, order.key()) {
            let reason = format!("\"{}\" is no {} key", order.key(), self.plan.kind.as_str());
            return Some(Verdict::Gone { reason });
        }
        None
    }

    async fn judge_all(&self, leases: &[Lease]) -> Vec<Verdict> {
        let started_at = Instant::now();
        let mut verdicts: Vec<Option<Verdict>> = vec![None; leases.len()];
        let mut groups: BTreeMap<(usize, bool, bool), Vec<Order<'_>>> = BTreeMap::new();
        let mut seen = HashSet::with_capacity(leases.len());
        for (place, lease) in leases.iter().enumerate() {
            let order = Order { place, lease };
            if let Some(verdict) = self.refused(order) {
                verdicts[place] = Some(verdict);
            } else if !seen.insert(order.key()) {
                // Two leases of one order in one call: the later is asked again, when the first is known.
                let reason = "asked twice in one call".to_owned();
                verdicts[place] = Some(Verdict::Unavailable { reason, retry_after: None });
            } else {
                match self.route(order) {
                    Ok(database) => {
                        let (manual, reminds) = (lease.cause == Cause::Manual, lease.stage != Stage::CLOSE);
                        groups.entry((database, manual, reminds)).or_default().push(order);
                    }
                    Err(verdict) => verdicts[place] = Some(verdict),
                }
            }
        }
        let judged = groups.iter().map(|((database, manual, reminds), orders)| {
            self.judge_group(&self.pools[*database], (*manual, *reminds), orders, started_at)
        });
        for (place, verdict) in futures_util::future::join_all(judged).await.into_iter().flatten() {
            verdicts[place] = Some(verdict);
        }
        let unanswered = || Verdict::Unavailable { reason: "not judged".to_owned(), retry_after: None };
        verdicts.into_iter().map(|v| v.unwrap_or_else(unanswered)).collect()
    }

    /// The orders of one database, in transactions of the configured size.
    async fn judge_group(
        &self,
        pool: &Pool,
        (manual, reminds): (bool, bool),
        orders: &[Order<'_>],
        started_at: Instant,
    ) -> Vec<(usize, Verdict)> {
        let mut verdicts = Vec::with_capacity(orders.len());
        let (mut orders, late): (Vec<_>, Vec<_>) =
            orders.iter().copied().partition(|o| o.lease.trust_left() > LEAST_TRUST);
        for order in late {
            let reason = "no time was left in the lease".to_owned();
            verdicts.push((order.place, Verdict::Unavailable { reason, retry_after: None }));
        }
        orders.sort_by(|a, b| key::compare(self.plan.kind, a.key(), b.key()));
        let trusted = orders.iter().map(|o| o.lease.trusted_until).min().unwrap_or(started_at);
        let answer_by = (started_at + self.settings.timeout).min(trusted);
        let time = answer_by.saturating_duration_since(started_at);
        let deadline = started_at + (time - RESOLVE_MARGIN.min(time / 3));
        let batch = Batch { plan: &self.plan, pool, manual, reminds, deadline, answer_by };
        for part in orders.chunks(self.settings.max_batch) {
            verdicts.extend(batch.judge(part).await);
        }
        verdicts
    }
}

impl Hook for SqlHook {
    fn judge<'a>(&'a self, _wheel: &'a WheelName, leases: &'a [Lease]) -> BoxFuture<'a, Vec<Verdict>> {
        Box::pin(self.judge_all(leases))
    }

    fn timeout(&self) -> Duration {
        self.settings.timeout
    }

    fn batch_size(&self) -> usize {
        self.settings.max_batch
    }

    fn check(&self) -> BoxFuture<'_, Result<Vec<String>>> {
        Box::pin(check::check(self))
    }

    fn endpoints(&self) -> Vec<String> {
        self.pools.iter().map(|pool| pool.database.shown.clone()).collect()
    }

    fn endpoint(&self, lease: &Lease) -> usize {
        self.route(Order { place: 0, lease }).unwrap_or(0)
    }

    fn sessions(&self) -> Vec<crate::hook::Sessions> {
        self.pools.iter().map(Pool::sessions).collect()
    }

    fn clocks(&self) -> BoxFuture<'_, Vec<(String, Reading)>> {
        Box::pin(async move {
            let read = self.pools.iter().map(|pool| clock::read(pool, self.settings.prepared));
            futures_util::future::join_all(read).await.into_iter().flatten().collect()
        })
    }
}
