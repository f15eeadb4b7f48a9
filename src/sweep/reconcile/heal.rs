//! Mending: the table wins. Only what the wheel can have wrong by itself is mended; what is dead, paid or a rule's waits for a person.

use super::compare::{Confirmed, Run};
use super::{Class, Reconcile};
use crate::clock::Moment;
use crate::deadline::{Cause, Deadline, DueAt, Id, OnConflict, Payload, State};
use crate::error::Result;
use crate::hook::sql::pages::facts::Fact;
use crate::wheel::answer::{Cancelled, EnqueuedHow};

impl Reconcile {
    /// Mends one finding that was looked at just now; answers what was done or why it was not, and nothing where it may not be mended or
    /// nobody wants it.
    pub(super) async fn heal(
        &self,
        one: &Confirmed,
        run: &mut Run,
    ) -> Result<Option<std::result::Result<&'static str, String>>> {
        let may = matches!(
            one.class,
            Class::MissingOverdue | Class::MissingPending | Class::Orphan | Class::DeadlineMismatch
        );
        let Some(left) = run.heal.filter(|_| may) else { return Ok(None) };
        if left == 0 {
            run.report.heal_left += 1;
            return Ok(None);
        }
        run.heal = Some(left - 1);
        let done = match one.class {
            Class::Orphan => self.cancel(&one.id).await?,
            Class::DeadlineMismatch => self.reschedule(one).await?,
            _ => self.enqueue(one).await?,
        };
        Ok(Some(done))
    }

    async fn enqueue(&self, one: &Confirmed) -> Result<std::result::Result<&'static str, String>> {
        let deadline = match self.deadline(&one.id, one.fact.as_ref()) {
            Ok(deadline) => deadline,
            Err(why) => return Ok(Err(why.to_owned())),
        };
        let force = one.seen.state == State::Ended;
        Ok(match self.wheel.enqueue(&deadline, OnConflict::Keep, force).await? {
            Ok(placed) if placed.how == EnqueuedHow::Resurrected => Ok("resurrected"),
            Ok(_) => Ok("enqueued"),
            Err(refusal) => Err(refusal.as_str().to_owned()),
        })
    }

    /// The order as the sweep would enqueue it.
    fn deadline(&self, id: &Id, fact: Option<&Fact>) -> std::result::Result<Deadline, &'static str> {
        let fact = fact.ok_or("no such row")?;
        let overdue = fact.overdue.then(Moment::host_now);
        let due_at = fact.close_at.or(overdue).ok_or("the table says no close time")?;
        if due_at > Moment::host_now().plus(self.wheel.settings().max_ahead) {
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

    async fn cancel(&self, id: &Id) -> Result<std::result::Result<&'static str, String>> {
        let Some(answer) = self.wheel.cancel(std::slice::from_ref(id)).await.pop() else {
            return Ok(Err("no answer".to_owned()));
        };
        Ok(match answer? {
            Ok(Cancelled::Leased) => Err("leased".to_owned()),
            Ok(_) => Ok("cancelled"),
            Err(refusal) => Err(refusal.as_str().to_owned()),
        })
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
        Ok(match self.wheel.reschedule(&one.id, due_at, one.seen.generation).await? {
            Ok(_) => Ok("rescheduled"),
            Err(refusal) => Err(refusal.as_str().to_owned()),
        })
    }
}
