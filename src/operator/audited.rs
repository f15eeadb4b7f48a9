//! How an act is written to the audit: the intent, the act, the outcome.

use super::{Act, Operator};
use crate::deadline::{Id, Note};
use crate::error::{Error, Result, StoreKind};
use crate::wheel::answer::{Answer, Cancelled};
use crate::wheel::{AuditEntry, AuditOutcome};

/// What an act is about.
#[derive(Debug, Clone)]
pub(super) struct About<'a> {
    act: Act,
    ids: Vec<String>,
    more: Option<String>,
    asked: u64,
    reason: &'a str,
}

impl<'a> About<'a> {
    /// One order.
    pub fn one(act: Act, id: &Id, reason: &'a str) -> Self {
        Self::these(act, std::slice::from_ref(id), reason)
    }

    /// Some orders.
    pub fn these(act: Act, ids: &[Id], reason: &'a str) -> Self {
        let ids: Vec<String> = ids.iter().map(|id| id.as_str().to_owned()).collect();
        Self { act, asked: ids.len() as u64, ids, more: None, reason }
    }

    /// The wheel as a whole.
    pub fn wheel(act: Act, reason: &'a str) -> Self {
        Self { act, ids: Vec::new(), more: None, asked: 1, reason }
    }

    /// The same, about so many.
    pub fn counting(self, asked: u64) -> Self {
        Self { asked, ..self }
    }

    /// The same, with what else says what it is about.
    pub fn with(self, more: String) -> Self {
        Self { more: Some(more), ..self }
    }
}

/// What came of an act, in sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sum {
    outcome: AuditOutcome,
    done: u64,
    /// How many there turned out to be, where that was not known before.
    asked: Option<u64>,
    said: Option<String>,
}

impl Sum {
    pub fn done(done: u64) -> Self {
        Self { outcome: AuditOutcome::Done, done, asked: None, said: None }
    }

    /// Done to so many that nobody had counted before.
    pub fn changed(done: u64) -> Self {
        Self { asked: Some(done), ..Self::done(done) }
    }

    /// Done to so many of those there turned out to be; the others are what `rest` says.
    pub fn some(done: u64, of: u64, rest: &str) -> Self {
        if done == of {
            return Self::changed(done);
        }
        let said = Some(format!("{} {rest}", of - done.min(of)));
        Self { outcome: AuditOutcome::Partial, done, asked: Some(of), said }
    }

    pub fn refused(said: &str) -> Self {
        Self { outcome: AuditOutcome::Refused, done: 0, asked: None, said: Some(said.to_owned()) }
    }

    fn failed(error: &Error) -> Self {
        let outcome = match error {
            Error::Store { kind: StoreKind::Unknown, .. } => AuditOutcome::Unknown,
            Error::Invalid(_) | Error::Overtaken(_) => AuditOutcome::Refused,
            _ => AuditOutcome::Failed,
        };
        Self { outcome, done: 0, asked: None, said: Some(crate::error::shown(&error.to_string())) }
    }

    /// The answer about one order.
    pub fn of_answer<T>(answer: &Answer<T>) -> Self {
        match answer {
            Ok(_) => Self::done(1),
            Err(refusal) => Self::refused(refusal.as_str()),
        }
    }

    /// Whether there was what it was about.
    pub fn of_known(known: &bool) -> Self {
        if *known { Self::done(1) } else { Self::refused("absent") }
    }

    /// Shards that were written, of all.
    pub fn of_shards((written, shards): (u64, u64)) -> Self {
        if written == shards {
            return Self::done(1);
        }
        let said = format!("{written} of {shards} shards");
        Self { outcome: AuditOutcome::Partial, done: 0, asked: None, said: Some(said) }
    }

    /// Answers about several orders.
    pub fn of_answers<T: Told>(answers: &[Result<Answer<T>>]) -> Self {
        let mut done = 0;
        let mut first: Option<(AuditOutcome, String)> = None;
        for answer in answers {
            let (outcome, said) = match answer {
                Ok(Ok(told)) => match told.not_done() {
                    None => {
                        done += 1;
                        continue;
                    }
                    Some(word) => (AuditOutcome::Refused, word.to_owned()),
                },
                Ok(Err(refusal)) => (AuditOutcome::Refused, refusal.as_str().to_owned()),
                Err(error) => {
                    let sum = Self::failed(error);
                    (sum.outcome, sum.said.unwrap_or_default())
                }
            };
            // What failed weighs more than what was rightly refused.
            if first
                .as_ref()
                .is_none_or(|(known, _)| *known == AuditOutcome::Refused && outcome != AuditOutcome::Refused)
            {
                first = Some((outcome, said));
            }
        }
        match first {
            None => Self::done(done),
            Some((outcome, said)) => {
                let outcome = if done > 0 { AuditOutcome::Partial } else { outcome };
                Self { outcome, done, asked: None, said: Some(said) }
            }
        }
    }
}

/// An answer that may say that nothing was done although it is no refusal.
pub(super) trait Told {
    /// The word for it.
    fn not_done(&self) -> Option<&'static str>;
}

impl Told for crate::wheel::answer::Scheduled {
    fn not_done(&self) -> Option<&'static str> {
        None
    }
}

impl Told for Cancelled {
    fn not_done(&self) -> Option<&'static str> {
        match self {
            Self::Cancelled | Self::Already => None,
            Self::Absent | Self::Leased => Some(self.as_str()),
        }
    }
}

impl Operator {
    /// Writes the intent, does the work, writes what came of it.
    pub(super) async fn audited<T>(
        &self,
        about: About<'_>,
        work: impl Future<Output = Result<T>>,
        sum: impl FnOnce(&T) -> Sum,
    ) -> Result<T> {
        let mut entry = self.intent(&about)?;
        entry.entry = self.wheel.write_audit(&entry).await?;
        let done = work.await;
        let sum = done.as_ref().map_or_else(Sum::failed, sum);
        entry.asked = sum.asked.unwrap_or(entry.asked);
        (entry.outcome, entry.done, entry.said) = (sum.outcome, sum.done, sum.said);
        if let Err(e) = self.wheel.write_audit(&entry).await {
            // What was done is done, and its intent is written; the caller must hear of the act itself.
            tracing::warn!(wheel = %self.wheel.name(), act = entry.act, error = %e, "the outcome of an act is not in the audit");
        }
        done
    }

    /// The entry of an act that is not done yet. Refuses a reason that is too long or holds control characters.
    pub(super) fn intent(&self, about: &About<'_>) -> Result<AuditEntry> {
        if !about.reason.is_empty() {
            Note::new(self.person.name(), about.reason)?;
        }
        Ok(AuditEntry {
            act: about.act.as_str().to_owned(),
            by: self.person.name().to_owned(),
            door: Some(self.person.door().as_str().to_owned()),
            ids: about.ids.clone(),
            about: about.more.clone(),
            reason: about.reason.to_owned(),
            asked: about.asked,
            outcome: AuditOutcome::Begun,
            ..AuditEntry::default()
        })
    }
}
