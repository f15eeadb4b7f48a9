//! What a person does to deadlines that they named or picked, and to the wheel as a whole. The wheel decides again whether it may be done;
//! the audit has who did what, and why.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;

use super::fault::{Fault, Outcome};
use super::figure::{count, of};
use super::visit::Visit;
use crate::clock::{Moment, parse_duration};
use crate::deadline::Id;
use crate::error::{Result, escaped};
use crate::operator::{Door, Operator, Person, To};
use crate::wheel::answer::{Answer, Cancelled, Refusal, Scheduled};

/// The most that are picked at once: a page of a listing, and some. For more there are bulk acts.
const MOST: usize = 500;
/// Acts on one deadline each that are under way at once.
const AT_ONCE: usize = 16;

/// What is said where no reason was typed: it is by hand all the same.
const NO_REASON: &str = "by hand, on the page";

/// `POST /wheels/{wheel}/act`: one thing, to each of the deadlines that were picked.
pub(super) async fn act(visit: Visit) -> Outcome {
    let mut ids: Vec<Id> = Vec::new();
    for text in visit.form.all("id") {
        ids.push(Id::new(text).map_err(|bad| Fault::bad(bad.to_string()))?);
    }
    ids.dedup();
    if ids.is_empty() {
        return visit.done(false, "Nothing was picked.");
    }
    if ids.len() > MOST {
        return visit.done(false, format!("At most {MOST} at once; for more, act on all that match."));
    }
    let operator = visit.operator()?;
    let reason = visit.reason();
    let sum = match visit.form.text("act") {
        "cancel" => ended(operator.cancel(&ids, &reason).await),
        "drop" => ended(operator.drop(&ids, &reason).await),
        "revive" => operator
            .revive(&ids, &reason)
            .await
            .map(|answers| answers.into_iter().map(|answer| answer.map(moved)).collect()),
        word => match Single::read(word, &visit) {
            Ok(single) => Ok(each(&operator, ids, &single, &reason).await),
            Err(problem) if problem.is_empty() => {
                return Err(Fault::bad(format!("There is no act \"{}\".", crate::error::shown(word))));
            }
            Err(problem) => return visit.done(false, problem),
        },
    };
    visit.forget_seen().await;
    match sum {
        Ok(each) => {
            let sum = Sum::of(each);
            visit.done(sum.done > 0 && sum.failed == 0, sum.said(visit.form.text("act")))
        }
        Err(e) => visit.done(false, format!("{}.", escaped(&e.to_string()))),
    }
}

/// `POST /wheels/{wheel}/pause`.
pub(super) async fn pause(visit: Visit) -> Outcome {
    let reason = visit.reason();
    if reason.is_empty() {
        return visit.done(false, "Pausing needs a reason: the next one at this page will want to know.");
    }
    let written = visit.operator()?.pause(&reason).await;
    visit.forget_seen().await;
    match written {
        Ok((n, all)) if n == all => visit.done(true, "Closing is paused on every shard."),
        Ok((n, all)) => visit.done(false, format!("Paused on {n} of {all} shards only; pause again.")),
        Err(e) => visit.done(false, format!("{}.", escaped(&e.to_string()))),
    }
}

/// `POST /wheels/{wheel}/resume`.
pub(super) async fn resume(visit: Visit) -> Outcome {
    let reason = visit.reason();
    let resumed = visit.operator()?.resume(reason_or_default(&reason)).await;
    visit.forget_seen().await;
    match resumed {
        Ok((held, (n, all))) => {
            let was = match (&held.trip, &held.paused) {
                (Some(_), _) => "The trip is lifted",
                (None, Some(_)) => "The pause is lifted",
                (None, None) => "Nothing held the wheel; its shards were told to go on all the same",
            };
            let rest = if n == all {
                String::new()
            } else {
                format!(" But {} of {all} shards were not told: resume again.", all - n)
            };
            visit.done(n == all, format!("{was}.{rest}"))
        }
        Err(e) => visit.done(false, format!("{}.", escaped(&e.to_string()))),
    }
}

/// What an act did to one deadline: nothing more to say, or the stable word of its refusal.
type Each = std::result::Result<(), &'static str>;

/// What is done to one deadline after the other.
#[derive(Debug, Clone)]
enum Single {
    Close,
    Reschedule(To),
    Hold(Duration),
    Release,
}

impl Single {
    /// Reads it from the form; an empty problem where there is no such act.
    fn read(word: &str, visit: &Visit) -> std::result::Result<Self, String> {
        match word {
            "close" => Ok(Self::Close),
            "reschedule" => To::parse(visit.form.text("to"), Moment::host_now()).map(Self::Reschedule),
            "hold" => {
                parse_duration("for", visit.form.text("for")).map(Self::Hold).map_err(|bad| format!("{bad}."))
            }
            "release" => Ok(Self::Release),
            _ => Err(String::new()),
        }
    }

    async fn done_to(self, operator: Operator, id: Id, reason: String) -> Result<Each> {
        match self {
            Self::Close => Ok(moved(operator.close(&id, reason_or_default(&reason)).await?)),
            Self::Reschedule(to) => Ok(moved(operator.reschedule_to(&id, to, &reason).await?)),
            Self::Hold(long) => Ok(moved(operator.hold(&id, long, None, &reason).await?)),
            Self::Release => Ok(moved(operator.release(&id, &reason).await?)),
        }
    }
}

async fn each(operator: &Operator, ids: Vec<Id>, single: &Single, reason: &str) -> Vec<Result<Each>> {
    let mut all = Vec::with_capacity(ids.len());
    for ids in ids.chunks(AT_ONCE) {
        let one = |id: &Id| single.clone().done_to(operator.clone(), id.clone(), reason.to_owned());
        all.extend(join_all(ids.iter().map(one)).await);
    }
    all
}

fn moved(answer: Answer<Scheduled>) -> Each {
    answer.map(|_| ()).map_err(|refusal: Refusal| refusal.as_str())
}

fn ended(answers: Result<Vec<Result<Answer<Cancelled>>>>) -> Result<Vec<Result<Each>>> {
    let each = |answer: Answer<Cancelled>| match answer {
        Ok(Cancelled::Cancelled | Cancelled::Already) => Ok(()),
        Ok(Cancelled::Leased) => Err("leased; it is flagged, and never tried again"),
        Ok(Cancelled::Absent) => Err("absent; the cancellation is remembered"),
        Err(refusal) => Err(refusal.as_str()),
    };
    Ok(answers?.into_iter().map(|answer| answer.map(each)).collect())
}

/// What came of all of them.
#[derive(Default)]
struct Sum {
    done: u64,
    failed: u64,
    refused: BTreeMap<&'static str, u64>,
    first_failure: String,
}

impl Sum {
    fn of(each: Vec<Result<Each>>) -> Self {
        let mut sum = Self::default();
        for one in each {
            match one {
                Ok(Ok(())) => sum.done += 1,
                Ok(Err(refusal)) => *sum.refused.entry(refusal).or_default() += 1,
                Err(e) => {
                    sum.failed += 1;
                    if sum.first_failure.is_empty() {
                        sum.first_failure = escaped(&e.to_string());
                    }
                }
            }
        }
        sum
    }

    fn said(&self, act: &str) -> String {
        let word = match act {
            "close" => "to be closed now",
            "reschedule" => "rescheduled",
            "hold" => "held",
            "release" => "released",
            "cancel" => "cancelled",
            "drop" => "dropped",
            "revive" => "revived",
            _ => "done",
        };
        let mut said = format!("{} {word}.", of(self.done, "deadline", "deadlines"));
        if !self.refused.is_empty() {
            let each: Vec<String> =
                self.refused.iter().map(|(why, number)| format!("{} {why}", count(*number))).collect();
            said += &format!(" Refused: {}.", each.join(", "));
        }
        if self.failed > 0 {
            said += &format!(" Failed: {}, the first with: {}.", count(self.failed), self.first_failure);
        }
        said
    }
}

fn reason_or_default(reason: &str) -> &str {
    if reason.is_empty() { NO_REASON } else { reason }
}

impl Visit {
    /// Whoever is here, as the audit knows them.
    pub fn operator(&self) -> std::result::Result<Operator, Fault> {
        let name = self.frame.who.as_ref().map_or_else(|| "page".to_owned(), |who| format!("token {who}"));
        let person = Person::new(&name, Door::Page).map_err(|bad| Fault::bad(bad.to_string()))?;
        Ok(Operator::new(self.wheel().clone(), person))
    }

    /// Why, as it was typed; control characters, which no reason may hold, are left out.
    pub fn reason(&self) -> String {
        self.form.text("reason").chars().filter(|c| !c.is_control()).collect()
    }

    /// Every screen must show what was just done.
    pub async fn forget_seen(&self) {
        if let Ok(seen) = self.seen() {
            seen.glances.forget().await;
            seen.outlooks.forget();
        }
    }
}
