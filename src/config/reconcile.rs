//! `[wheel.NAME.reconcile]` and `[wheel.NAME.reconcile.rules.RULE]`: what is compared, and the shop's own rules.

use std::time::Duration;

use super::draft::Draft;
use super::hook::HookSettings;
use super::net::declared;
use super::section::{Findings, Section};
use crate::error::Error;
use crate::hook::sql::Dialect;
use crate::sweep::reconcile::{Level, Rule};
use crate::sweep::{ReconcileSettings, Schedule, SweepSettings};

const DAY: Duration = Duration::from_secs(86_400);

/// Reads the section of a wheel; its questions are checked in the dialect of its hook, where that one declares a table.
pub(super) fn resolve(
    draft: &Draft,
    findings: &mut Findings,
    name: &str,
    hook: &HookSettings,
    sweep: &SweepSettings,
) -> ReconcileSettings {
    let path = ["wheel", name, "reconcile"];
    let dialect = declared(hook).and_then(|hook| Some(sweep.table(hook).ok()?.dialect()));
    let rules = rules(draft, findings, name, dialect);
    let mut section = Section::new(draft, findings, &path, Some(&["defaults", "reconcile"]));
    section.is_table();
    let mut settings = read(&mut section);
    if let Some(dialect) = dialect
        && let Err(Error::Config(problems)) = settings.check(dialect)
    {
        section.foreign_problems(&problems);
    }
    settings.rules = rules;
    settings
}

/// What no wheel needs is known all the same.
pub(super) fn know_the_defaults(draft: &Draft, scratch: &mut Findings) {
    read(&mut Section::new(draft, scratch, &["defaults", "reconcile"], None));
}

fn read(section: &mut Section<'_>) -> ReconcileSettings {
    ReconcileSettings {
        every: section.parsed("every", Schedule::parse),
        grace: section.duration("grace", Duration::ZERO..=DAY / 24),
        tolerance: section.duration("tolerance", Duration::ZERO..=DAY),
        stuck_after: section.duration("stuck_after", Duration::from_secs(1)..=DAY),
        stuck_losses: section.whole("stuck_losses", 1..=1000),
        audit_within: section.duration("audit_within", Duration::ZERO..=366 * DAY),
        examples: section.whole("examples", 0..=1000) as usize,
        rows_max: section.whole("rows_max", 1..=100_000) as usize,
        heal: section.flag("heal"),
        heal_max: section.whole("heal_max", 0..=1_000_000).into(),
        closed_without_release: section.text("closed_without_release"),
        paid_after_close: section.text("paid_after_close"),
        rules: Vec::new(),
    }
}

/// Each rule is a section of its own, so that no name is given twice.
fn rules(draft: &Draft, findings: &mut Findings, name: &str, dialect: Option<Dialect>) -> Vec<Rule> {
    let place = ["wheel", name, "reconcile", "rules"].map(str::to_owned);
    let below = draft.values.keys().filter(|key| key.starts_with(&place));
    let mut names: Vec<String> = below.filter_map(|key| key.get(place.len())).cloned().collect();
    names.dedup();
    // Known even when empty, so that an empty section is none that is unknown.
    findings.known.insert(place.iter().cloned().chain(["*".to_owned(), "sql".to_owned()]).collect());
    let mut rules = Vec::new();
    for rule in names {
        let mut section = Section::new(draft, findings, &["wheel", name, "reconcile", "rules", &rule], None);
        section.is_table();
        if rule.len() > 64 || !rule.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') {
            section.problem("level", "expected a rule's name of at most 64 letters, digits, _ and -");
        }
        let level = section.parsed("level", Level::parse);
        let Some(sql) = section.text("sql") else {
            if !section.has_problem("sql") {
                section.problem("sql", "is missing: one SELECT whose first column is the order's id");
            }
            continue;
        };
        let question = dialect.map(|dialect| crate::sweep::reconcile::check_question(dialect, "sql", &sql));
        if let Some(Err(problem)) = question {
            section.foreign_problems(&[problem]);
        }
        rules.push(Rule { name: rule, level, sql });
    }
    rules
}
