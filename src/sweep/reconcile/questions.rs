//! The shop's questions: rules, and the two checks that only the shop can write.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use super::{Class, Finding, Reconcile, Reconciliation, Section};
use crate::error::{Error, Result};
use crate::hook::sql::pages::rules::{Answered, Question};

/// One question and the answers of the first look.
pub struct Asked {
    section: Section,
    /// The class that its answers belong to; `None` for a rule.
    class: Option<Class>,
    question: Question,
    first: HashSet<String>,
    asked_at: Instant,
}

impl Reconcile {
    /// Asks everything once.
    pub(super) async fn ask_all(&self) -> Result<Vec<Asked>> {
        let settings = &self.settings;
        let checks = [
            (Class::ClosedWithoutRelease, &settings.closed_without_release),
            (Class::PaidAfterClose, &settings.paid_after_close),
        ];
        let mut all = Vec::new();
        for (class, sql) in checks {
            if let Some(sql) = sql {
                all.push(self.first(Section::new(class.as_str(), class.level()), Some(class), sql).await?);
            }
        }
        for rule in &settings.rules {
            all.push(self.first(Section::new(&rule.name, rule.level), None, &rule.sql).await?);
        }
        Ok(all)
    }

    /// Tries every question; answers how many there are, and those that could not be answered: name and why.
    pub async fn check_questions(&self) -> Result<(usize, Vec<(String, String)>)> {
        let asked = self.ask_all().await?;
        let count = asked.len();
        let failed = asked.into_iter().filter_map(|one| Some((one.section.name, one.section.error?)));
        Ok((count, failed.collect()))
    }

    async fn first(&self, mut section: Section, class: Option<Class>, sql: &str) -> Result<Asked> {
        let question = Question::parse(self.runner.table.dialect(), &section.name, sql)
            .map_err(|problem| Error::Config(vec![problem]))?;
        let answers = self.answers(&question, &mut section).await;
        let first = answers.into_iter().map(|answer| answer.id).collect();
        Ok(Asked { section, class, question, first, asked_at: Instant::now() })
    }

    /// A question that cannot be answered is itself a finding, and keeps nothing else from being looked at.
    async fn answers(&self, question: &Question, section: &mut Section) -> Vec<Answered> {
        match self.runner.table.ask(question, self.settings.rows_max).await {
            Ok((answers, capped)) => {
                section.capped = capped;
                answers
            }
            Err(e) => {
                section.error = Some(e.to_string());
                Vec::new()
            }
        }
    }

    /// Asks again what had answers: those that are there both times are findings.
    ///
    /// `paid` are the orders that are known to be paid after their close.
    pub(super) async fn ask_again(
        &self,
        asked: Vec<Asked>,
        paid: &HashSet<String>,
        report: &mut Reconciliation,
    ) {
        for mut one in asked {
            if !one.first.is_empty() {
                let left = self.settings.grace.saturating_sub(one.asked_at.elapsed());
                if left > Duration::ZERO {
                    tokio::time::sleep(left).await;
                }
                let answers = self.answers(&one.question, &mut one.section).await;
                for answer in answers {
                    if !one.first.contains(&answer.id) {
                        report.moved += 1;
                    } else if one.class != Some(Class::PaidAfterClose) || !paid.contains(&answer.id) {
                        // Wheel and audit table may have said it before.
                        self.note(&mut one.section, finding(answer));
                    }
                }
            }
            match one.class.and_then(|class| report.class_mut(class)) {
                None => report.rules.push(one.section),
                Some(section) => self.merge(section, one.section),
            }
        }
    }

    /// Adds what a question found to what wheel and table said.
    fn merge(&self, section: &mut Section, more: Section) {
        section.capped |= more.capped;
        section.error = more.error;
        section.count += more.count;
        let room = self.settings.examples.saturating_sub(section.first.len());
        section.first.extend(more.first.into_iter().take(room));
    }

    /// Counts a finding, and keeps it among the first ones.
    pub(super) fn note(&self, section: &mut Section, finding: Finding) {
        section.count += 1;
        if section.first.len() < self.settings.examples {
            section.first.push(finding);
        }
    }
}

fn finding(answer: Answered) -> Finding {
    let column = |(name, value): (String, Option<String>)| match value {
        Some(value) => format!("{name} {value}"),
        None => format!("{name} NULL"),
    };
    let columns: Vec<String> = answer.columns.into_iter().map(column).collect();
    Finding { id: answer.id, table: columns.join(", "), wheel: String::new(), healed: None }
}
