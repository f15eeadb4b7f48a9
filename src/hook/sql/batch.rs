//! A batch against one database: tried whole, cut into pieces where one order spoils it, tried again where the database asks for it,
//! and always ended within its time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::hook::Verdict;

use super::failure::Failure;
use super::order::Order;
use super::plan::Plan;
use super::pool::Pool;
use super::transaction::{self, Manner, Outcome, Transaction};
use super::verdict::Finding;

/// A transaction is tried this often when the database asks for it again: deadlocks resolve at the second try unless the shop's own
/// load keeps making them, and then a later claim does better than a faster repeat.
const TRIES: u32 = 6;
/// A lost session is replaced this often within one call; a database that ends more of them is not available.
const LOST_TRIES: u32 = 3;

/// The batch of one call that one database is to close.
pub(super) struct Batch<'a> {
    pub(super) plan: &'a Plan,
    pub(super) pool: &'a Pool,
    /// Whether a person closes these.
    pub(super) manual: bool,
    /// Whether these are reminders.
    pub(super) reminds: bool,
    /// Until when transactions may run.
    pub(super) deadline: Instant,
    /// When the call must have answered, a little later: time to read what became of a commit.
    pub(super) answer_by: Instant,
}

/// A piece of the batch that waits for its transaction.
struct Piece<'o, 'a> {
    orders: &'o [Order<'a>],
    patient: bool,
    hurried: bool,
}

impl Batch<'_> {
    /// Judges the orders; pairs of place and verdict, one for each.
    pub(super) async fn judge(&self, orders: &[Order<'_>]) -> Vec<(usize, Verdict)> {
        let mut verdicts = Vec::with_capacity(orders.len());
        let mut waiting = VecDeque::from([Piece { orders, patient: false, hurried: false }]);
        while let Some(piece) = waiting.pop_front() {
            if self.deadline <= Instant::now() {
                let reason = "no time was left in the call";
                answer_all(&mut verdicts, piece.orders, &unavailable(reason));
                continue;
            }
            match self.close(&piece).await {
                Ok(findings) => {
                    for (n, finding) in findings.into_iter().enumerate() {
                        if finding == Finding::Busy && !piece.patient {
                            // Now alone, so that waiting for this row keeps nobody else waiting.
                            let orders = &piece.orders[n..=n];
                            waiting.push_back(Piece { orders, patient: true, hurried: false });
                        } else {
                            let order = piece.orders[n];
                            let looked_for = format!("no row of key {}", order.key());
                            verdicts.push((order.place, finding.into_verdict(&looked_for)));
                        }
                    }
                }
                Err(failure) if failure.is_of_one_order() && piece.orders.len() > 1 => {
                    let (left, right) = piece.orders.split_at(piece.orders.len() / 2);
                    for orders in [right, left] {
                        waiting.push_front(Piece { orders, patient: false, hurried: true });
                    }
                }
                Err(failure) => {
                    let stop = matches!(
                        failure,
                        Failure::Unavailable(_) | Failure::Full(_) | Failure::Lost(_) | Failure::Away(_)
                    );
                    let verdict = into_verdict(failure);
                    answer_all(&mut verdicts, piece.orders, &verdict);
                    if stop {
                        // What one piece met, the others would meet too, each after its own wait.
                        for piece in waiting.drain(..) {
                            answer_all(&mut verdicts, piece.orders, &verdict);
                        }
                    }
                }
            }
        }
        verdicts
    }

    /// One piece, with the repeats that the database asks for.
    async fn close(&self, piece: &Piece<'_, '_>) -> Outcome {
        let (mut tries, mut lost) = (0, 0);
        loop {
            let outcome = self.attempt(piece).await;
            match &outcome {
                Err(Failure::Again(_)) if tries + 1 < TRIES => {
                    tries += 1;
                    // 2 ms doubling to 64 ms, with full jitter: two victims of each other must not meet again.
                    let wait = Duration::from_millis(fastrand::u64(1..=(1 << tries)));
                    if self.left() < wait {
                        return outcome;
                    }
                    tokio::time::sleep(wait).await;
                }
                Err(Failure::Lost(_)) if lost + 1 < LOST_TRIES && !self.left().is_zero() => {
                    lost += 1;
                    self.pool.forget_idle();
                }
                Err(Failure::Unknown(reason)) => return self.resolve(piece.orders, reason).await,
                _ => return outcome,
            }
        }
    }

    /// One transaction in one session, within the time that is left. A session whose transaction did not end is dropped with it.
    async fn attempt(&self, piece: &Piece<'_, '_>) -> Outcome {
        let mut held = match tokio::time::timeout(self.left(), self.pool.acquire()).await {
            Ok(held) => held?,
            Err(_) => return Err(Failure::Unavailable("no time was left to get a session".to_owned())),
        };
        let mut committing = false;
        let mut transaction = Transaction {
            plan: self.plan,
            database: &self.pool.database,
            session: &mut held.session,
            committing: &mut committing,
        };
        let (manual, reminds) = (self.manual, self.reminds);
        let manner = Manner { manual, patient: piece.patient, hurried: piece.hurried, reminds };
        match tokio::time::timeout(self.left(), transaction.run(piece.orders, manner)).await {
            Ok((outcome, at_rest)) => {
                if at_rest {
                    self.pool.give_back(held);
                }
                outcome
            }
            Err(_) if committing => Err(Failure::Unknown("commit: no answer in time".to_owned())),
            Err(_) => {
                self.pool.forget_idle();
                Err(Failure::Unavailable(format!("{}: no answer in time", self.pool.database.shown)))
            }
        }
    }

    /// The commit was sent and not answered: what became of it is read by a fresh session.
    async fn resolve(&self, orders: &[Order<'_>], reason: &str) -> Outcome {
        let limit = self.answer_by.saturating_duration_since(Instant::now());
        let read = async {
            let mut session = self.pool.fresh().await?;
            let findings = transaction::resolve(
                &self.pool.database,
                self.plan,
                &mut session,
                orders,
                (self.manual, self.reminds),
            )
            .await;
            session.close().await;
            findings
        };
        let unanswered =
            |why: &str| Failure::Unavailable(format!("{reason}; its outcome is not known yet ({why})"));
        match tokio::time::timeout(limit, read).await {
            Ok(Ok(findings)) => Ok(findings.into_iter().map(|f| still_open(f, reason)).collect()),
            Ok(Err(failure)) => Err(unanswered(failure.reason())),
            Err(_) => Err(unanswered("no answer in time")),
        }
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// A row that is open after an unanswered commit: the commit failed, or is still on its way. Asked again, either is found out.
fn still_open(finding: Finding, reason: &str) -> Finding {
    match finding {
        Finding::Busy => Finding::Unavailable(format!("{reason}, and the row is open")),
        other => other,
    }
}

fn into_verdict(failure: Failure) -> Verdict {
    match failure {
        Failure::Data(reason) => Verdict::Failed { reason },
        Failure::Mismatch(reason) => Verdict::Rejected { reason },
        Failure::Blocked(reason) => Verdict::Held { reason },
        Failure::Again(reason)
        | Failure::Lost(reason)
        | Failure::Slow(reason)
        | Failure::Away(reason)
        | Failure::Full(reason)
        | Failure::Unavailable(reason)
        | Failure::Unknown(reason) => unavailable(&reason),
    }
}

fn unavailable(reason: &str) -> Verdict {
    Verdict::Unavailable { reason: reason.to_owned(), retry_after: None }
}

fn answer_all(verdicts: &mut Vec<(usize, Verdict)>, orders: &[Order<'_>], verdict: &Verdict) {
    verdicts.extend(orders.iter().map(|order| (order.place, verdict.clone())));
}
