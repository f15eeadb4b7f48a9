//! How a reconciliation is run.

use std::time::Duration;

use super::Level;
use crate::error::{Error, Result};
use crate::hook::sql::Dialect;
use crate::hook::sql::pages::rules::Question;
use crate::sweep::Schedule;

/// A question of the shop's whose every answer is a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its name in the report.
    pub name: String,
    /// How grave an answer is.
    pub level: Level,
    /// One SELECT; the first column is the order's id, the others are shown.
    pub sql: String,
}

/// How table, wheel and close log are compared.
#[derive(Debug, Clone)]
pub struct ReconcileSettings {
    /// When a run is due.
    pub every: Schedule,
    /// How long what does not agree must stand still to be a finding.
    pub grace: Duration,
    /// How far apart the close times of wheel and table may be.
    pub tolerance: Duration,
    /// A lease that ended so long ago and was not reaped is stuck.
    pub stuck_after: Duration,
    /// A deadline whose lease was lost so many times is stuck.
    pub stuck_losses: u32,
    /// How far back the audit table's closes are looked at.
    pub audit_within: Duration,
    /// Orders shown for each class and rule.
    pub examples: usize,
    /// Answers that are read of one question.
    pub rows_max: usize,
    /// Whether a scheduled run mends what it may.
    pub heal: bool,
    /// Orders that one run may mend.
    pub heal_max: u64,
    /// One SELECT: ids of orders that were closed and whose stock, coupon, … was not given back.
    pub closed_without_release: Option<String>,
    /// One SELECT: ids of orders that were closed and are paid, beside what wheel and audit table say.
    pub paid_after_close: Option<String>,
    /// The shop's own rules.
    pub rules: Vec<Rule>,
}

impl Default for ReconcileSettings {
    /// The defaults of `config/default.toml`.
    fn default() -> Self {
        Self {
            every: Schedule::parse("0 3 * * *").unwrap_or_default(),
            grace: Duration::from_secs(10),
            tolerance: Duration::from_secs(5),
            stuck_after: Duration::from_secs(60),
            stuck_losses: 3,
            audit_within: Duration::from_secs(7 * 86_400),
            examples: 20,
            rows_max: 1000,
            heal: false,
            heal_max: 100,
            closed_without_release: None,
            paid_after_close: None,
            rules: Vec::new(),
        }
    }
}

impl ReconcileSettings {
    /// Checks every question; every problem found is in the error and begins with its key.
    pub fn check(&self, dialect: Dialect) -> Result<()> {
        let texts = [
            ("closed_without_release".to_owned(), self.closed_without_release.as_deref()),
            ("paid_after_close".to_owned(), self.paid_after_close.as_deref()),
        ];
        let rules =
            self.rules.iter().map(|rule| (format!("rules.{}.sql", rule.name), Some(rule.sql.as_str())));
        let problems: Vec<String> = texts
            .into_iter()
            .chain(rules)
            .filter_map(|(field, text)| Question::parse(dialect, &field, text?).err())
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(Error::Config(problems)) }
    }
}
