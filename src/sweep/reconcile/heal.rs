//! Mending: the table wins. Only what the wheel can have wrong by itself is mended; what is dead, paid or a rule's waits for a person.

use futures_util::future::try_join_all;

use super::compare::{Confirmed, Run};
use super::{Class, Reconcile};
use crate::clock::Moment;
use crate::deadline::{Cause, Deadline, DueAt, Id, OnConflict, Payload, State};
use crate::error::Result;
use crate::hook::sql::pages::facts::Fact;
use crate::wheel::answer::{Cancelled, EnqueuedHow};

/// What was done about a finding or why it was not; `None` where it may not be mended or nobody wants it.
type Healed = Option<std::result::Result<&'static str, String>>;

impl Reconcile {
    /// Mends findings that were looked at just now, together; one answer for each.
    pub(super) async fn heal(&self, found: &[Confirmed], run: &mut Run) -> Result<Vec<Healed>> {
        let mut healed: Vec<Healed> = found.iter().map(|_| None).collect();
        let (mut lost, mut ended, mut orphans, mut moved) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (at, one) in found.iter().enumerate() {
            let may = matches!(
                one.class,
                Class::MissingOverdue | Class::MissingPending | Class::Orphan | Class::DeadlineMismatch
            );
            let Some(left) = run.heal.filter(|_| may) else { continue };
            if left == 0 {
                run.report.heal_left += 1;
                continue;
            }
            run.heal = Some(left - 1);
            match one.class {
                Class::Orphan => orphans.push((at, one.id.clone())),
                Class::DeadlineMismatch => moved.push((at, one)),
                _ => match self.deadline(&one.id, one.fact.as_ref()) {
                    Ok(deadline) if one.seen.state == State::Ended => ended.push((at, deadline)),
                    Ok(deadline) => lost.push((at, deadline)),
                    Err(why) => healed[at] = Some(Err(why.to_owned())),
                },
            }
        }
        self.enqueue(lost, false, &mut healed).await?;
        self.enqueue(ended, true, &mut healed).await?;
        self.cancel(orphans, &mut healed).await?;
        let moves = moved.iter().map(|(_, one)| self.reschedule(one));
        for ((at, _), done) in moved.iter().zip(try_join_all(moves).await?) {
            healed[*at] = Some(done);
        }
        Ok(healed)
    }

    async fn enqueue(&self, lost: Vec<(usize, Deadline)>, force: bool, healed: &mut [Healed]) -> Result<()> {
        let (at, deadlines): (Vec<usize>, Vec<Deadline>) = lost.into_iter().unzip();
        let answers = self.runner.wheel.enqueue_batch(&deadlines, OnConflict::Keep, force).await;
        for (at, answer) in at.into_iter().zip(answers) {
            healed[at] = Some(match answer? {
                Ok(placed) if placed.how == EnqueuedHow::Resurrected => Ok("resurrected"),
                Ok(_) => Ok("enqueued"),
                Err(refusal) => Err(refusal.as_str().to_owned()),
            });
        }
        Ok(())
    }

    /// The order as the sweep would enqueue it.
    fn deadline(&self, id: &Id, fact: Option<&Fact>) -> std::result::Result<Deadline, &'static str> {
        let fact = fact.ok_or("no such row")?;
        let overdue = fact.overdue.then(Moment::host_now);
        let due_at = fact.close_at.or(overdue).ok_or("the table says no close time")?;
        if due_at > Moment::host_now().plus(self.runner.wheel.settings().max_ahead) {
            return Err("its close time is further ahead than max_ahead");
        }
        let payload = match &fact.payload {
            Some(text) => {
                Payload::from_json(text.clone()).map_err(|_| "its payload is no JSON of at most 64 KiB")?
            }
            None => Payload::default(),
        };
        let due_at = DueAt::Moment(due_at);
        let cause = Cause::Rebuild;
        Ok(Deadline { id: id.clone(), due_at, payload, traceparent: None, cause, reminders: None })
    }

    async fn cancel(&self, orphans: Vec<(usize, Id)>, healed: &mut [Healed]) -> Result<()> {
        let (at, ids): (Vec<usize>, Vec<Id>) = orphans.into_iter().unzip();
        for (at, answer) in at.into_iter().zip(self.runner.wheel.cancel(&ids).await) {
            healed[at] = Some(match answer? {
                Ok(Cancelled::Leased) => Err("leased".to_owned()),
                Ok(_) => Ok("cancelled"),
                Err(refusal) => Err(refusal.as_str().to_owned()),
            });
        }
        Ok(())
    }

    async fn reschedule(&self, one: &Confirmed) -> Result<std::result::Result<&'static str, String>> {
        let Some(close_at) = one.fact.as_ref().and_then(|fact| fact.close_at) else {
            return Ok(Err("the table says no close time".to_owned()));
        };
        if one.seen.held {
            // Another close time would end the hold in the middle of a payment.
            return Ok(Err("held".to_owned()));
        }
        let due_at = DueAt::Moment(close_at);
        Ok(match self.runner.wheel.reschedule(&one.id, due_at, one.seen.generation).await? {
            Ok(_) => Ok("rescheduled"),
            Err(refusal) => Err(refusal.as_str().to_owned()),
        })
    }
}
