//! What a reconciliation found, for people and machines.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Class, Finding, Level};
use crate::clock::{Moment, show_duration};
use crate::error::escaped;
use crate::wheel::Wheel;

/// Examples that are kept of each class in the record of a run.
const KEPT: usize = 5;

/// The findings of one class or rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The class or the rule.
    pub name: String,
    /// How grave a finding of it is.
    pub level: Level,
    /// How many were found; at least so many where `capped`.
    pub count: u64,
    /// How many of them were mended.
    pub healed: u64,
    /// There are more, which were not read.
    pub capped: bool,
    /// Why the question could not be answered: nobody knows then whether all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The first ones.
    pub first: Vec<Finding>,
}

impl Section {
    pub(super) fn new(name: &str, level: Level) -> Self {
        Self {
            name: name.to_owned(),
            level,
            count: 0,
            healed: 0,
            capped: false,
            error: None,
            first: Vec::new(),
        }
    }

    /// How many are left as they were found.
    pub fn left(&self) -> u64 {
        self.count.saturating_sub(self.healed)
    }

    /// Whether it needs anybody's attention.
    pub fn is_open(&self) -> bool {
        self.left() > 0 || self.error.is_some()
    }

    fn found(&self) -> String {
        let more = if self.capped { "+" } else { "" };
        if self.error.is_some() { "?".to_owned() } else { format!("{}{more}", self.count) }
    }
}

/// What one run saw and found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconciliation {
    /// Which wheel.
    pub wheel: String,
    /// Who ran it.
    pub runner: String,
    /// When it began, by Redis's clock, milliseconds since 1970.
    pub began_at_ms: u64,
    /// How long it took.
    pub took_ms: u64,
    /// Open rows of the table.
    pub rows: u64,
    /// Rows that cannot be deadlines: no canonical key, or no id of ours.
    pub refused: u64,
    /// Scheduled, leased and dead deadlines of the wheel.
    pub deadlines: u64,
    /// Ends that the wheel remembers.
    pub ended: u64,
    /// Closes of the audit table.
    pub audited: u64,
    /// What did not agree at the first look and had moved or agreed at the second.
    pub moved: u64,
    /// Findings that may be mended and were left, because the limit of the run was reached.
    pub heal_left: u64,
    /// The gravest level that is left; `None` where all is well.
    pub level: Option<Level>,
    /// The classes, the gravest first.
    pub classes: Vec<Section>,
    /// The rules, as configured.
    pub rules: Vec<Section>,
}

impl Reconciliation {
    pub(super) fn new() -> Self {
        let classes = Class::ALL.map(|class| Section::new(class.as_str(), class.level())).to_vec();
        Self { classes, ..Self::default() }
    }

    /// The findings of a class.
    pub fn class(&self, class: Class) -> Option<&Section> {
        self.classes.iter().find(|section| section.name == class.as_str())
    }

    pub(super) fn class_mut(&mut self, class: Class) -> Option<&mut Section> {
        self.classes.iter_mut().find(|section| section.name == class.as_str())
    }

    pub(super) fn sign(&mut self, wheel: &Wheel, runner: &str, began_at: Moment, took: Duration) {
        self.wheel = wheel.name().as_str().to_owned();
        self.runner = runner.to_owned();
        self.began_at_ms = began_at.as_millis();
        self.took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.level = self.sections().filter(|section| section.is_open()).map(|section| section.level).max();
        for section in self.classes.iter_mut().chain(&mut self.rules) {
            // Numbers by value.
            section.first.sort_by(|a, b| (a.id.len(), &a.id).cmp(&(b.id.len(), &b.id)));
        }
    }

    /// Classes and rules.
    pub fn sections(&self) -> impl Iterator<Item = &Section> {
        self.classes.iter().chain(&self.rules)
    }

    /// How many findings there are in all.
    pub fn count(&self) -> u64 {
        self.sections().map(|section| section.count).sum()
    }

    /// How many were mended.
    pub fn healed(&self) -> u64 {
        self.sections().map(|section| section.healed).sum()
    }

    /// As it is kept in Redis: with few examples.
    pub(super) fn record(&self) -> String {
        let mut kept = self.clone();
        kept.classes.retain(|section| section.count > 0);
        kept.classes.iter_mut().chain(&mut kept.rules).for_each(|section| section.first.truncate(KEPT));
        serde_json::to_string(&kept).unwrap_or_default()
    }

    /// What was seen, in one line.
    pub fn summary(&self) -> String {
        let level = self.level.map_or("nothing", Level::as_str);
        format!(
            "{}: {} open rows, {} deadlines, {} ends, {} audited closes; {} found, {} healed, level {level}; took {}",
            self.wheel,
            self.rows,
            self.deadlines,
            self.ended,
            self.audited,
            self.count(),
            self.healed(),
            show_duration(Duration::from_millis(self.took_ms))
        )
    }

    /// One row for each class and rule: name, level, found, healed, left.
    pub fn overview(&self) -> Vec<Vec<String>> {
        let row = |section: &Section| {
            vec![
                section.name.clone(),
                section.level.as_str().to_owned(),
                section.found(),
                section.healed.to_string(),
                if section.error.is_some() { "?".to_owned() } else { section.left().to_string() },
            ]
        };
        self.sections().map(row).collect()
    }

    /// One row for each example: class, id, table, wheel, what was done.
    pub fn examples(&self) -> Vec<Vec<String>> {
        let rows = |section: &Section| -> Vec<Vec<String>> {
            let row = |finding: &Finding| {
                let healed = finding.healed.as_deref().unwrap_or_default();
                let texts = [&section.name, &finding.id, &finding.table, &finding.wheel].map(|t| escaped(t));
                [texts.to_vec(), vec![escaped(healed)]].concat()
            };
            section.first.iter().map(row).collect()
        };
        self.sections().flat_map(rows).collect()
    }

    /// Sentences beside the tables: what is not complete, and why.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        for section in self.sections() {
            if let Some(error) = &section.error {
                remarks.push(format!("{} could not be answered: {}", section.name, escaped(error)));
            }
            if section.capped {
                remarks
                    .push(format!("{} has more than rows_max answers; only so many were read", section.name));
            }
        }
        if self.heal_left > 0 {
            remarks.push(format!("{} more may be healed: the limit of the run was reached", self.heal_left));
        }
        if self.refused > 0 {
            remarks.push(format!("{} rows cannot be deadlines: no canonical key, or no id", self.refused));
        }
        remarks
    }

    /// The whole report as Markdown.
    pub fn markdown(&self) -> String {
        let began = Moment::from_millis(self.began_at_ms).map(|at| at.to_string()).unwrap_or_default();
        let mut text = format!("# Reconciliation of {}\n\n", self.wheel);
        text.push_str(&format!("- began: {began}\n- runner: {}\n- {}\n", cell(&self.runner), self.summary()));
        for remark in self.remarks() {
            text.push_str(&format!("- **{}**\n", cell(&remark)));
        }
        text.push_str("\n| finding | level | found | healed | left |\n|---|---|--:|--:|--:|\n");
        self.overview().iter().for_each(|row| push_row(&mut text, row));
        for section in self.sections().filter(|section| !section.first.is_empty()) {
            text.push_str(&format!("\n## {} ({})\n\n", section.name, section.level.as_str()));
            if section.first.len() as u64 != section.count {
                text.push_str(&format!("The first {} of {}.\n\n", section.first.len(), section.found()));
            }
            text.push_str("| id | table | wheel | healed |\n|---|---|---|---|\n");
            for finding in &section.first {
                let healed = finding.healed.as_deref().unwrap_or_default();
                push_row(
                    &mut text,
                    &[&finding.id, &finding.table, &finding.wheel, healed].map(str::to_owned),
                );
            }
        }
        text
    }
}

fn push_row(text: &mut String, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
    text.push_str(&format!("| {} |\n", cells.join(" | ")));
}

/// Text of others as a cell: nothing in it may end the cell or the line, or become a link or a tag.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in escaped(text).chars() {
        if matches!(c, '|' | '\\' | '`' | '*' | '<' | '>' | '[' | ']' | '#') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
