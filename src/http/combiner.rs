//! The combiner: enqueues that arrive together go to Redis together. A request that comes alone is sent at once; while earlier ones are on
//! their way, those that come are gathered and follow as one.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::deadline::{Deadline, Id, OnConflict};
use crate::error::{Error, Result, StoreKind};
use crate::wheel::answer::{Answer, Enqueued};
use crate::wheel::{MAX_BATCH, Wheel};

/// Rounds on their way to Redis at once: one that is being run there, one that is being packed or unpacked here.
const ROUNDS: usize = 2;
/// Deadlines of one round, unless one request alone has more. Cut by shard they are a call of a fraction of a millisecond each.
const MOST: usize = 4 * MAX_BATCH;
/// Bytes of payload of one round, unless one request alone has more.
const MOST_BYTES: usize = 1024 * 1024;
/// Requests that may wait.
const WAITING: usize = 8192;

/// Gathers the enqueues of one wheel.
#[derive(Debug, Clone)]
pub(super) struct Combiner {
    orders: mpsc::Sender<Order>,
}

/// What one request wants placed.
#[derive(Debug)]
struct Order {
    deadlines: Vec<Deadline>,
    on_conflict: OnConflict,
    answer: oneshot::Sender<Vec<Result<Answer<Enqueued>>>>,
}

impl Combiner {
    /// Starts it; it ends when nobody holds it any more.
    pub fn start(wheel: Wheel) -> Self {
        let (orders, waiting) = mpsc::channel(WAITING);
        tokio::spawn(run(wheel, waiting));
        Self { orders }
    }

    /// Places deadlines, one answer for each, in the same order.
    pub async fn enqueue(
        &self,
        deadlines: Vec<Deadline>,
        on_conflict: OnConflict,
    ) -> Vec<Result<Answer<Enqueued>>> {
        let count = deadlines.len();
        let (answer, answered) = oneshot::channel();
        let order = Order { deadlines, on_conflict, answer };
        if self.orders.send(order).await.is_ok()
            && let Ok(answers) = answered.await
        {
            return answers;
        }
        // Only where the runtime ends under a request: whether it was sent is not known.
        let lost = Error::Store {
            kind: StoreKind::Unknown,
            attempted: "enqueue".to_owned(),
            message: "the server is ending".to_owned(),
        };
        vec![Err(lost); count]
    }
}

async fn run(wheel: Wheel, mut orders: mpsc::Receiver<Order>) {
    let rounds = Arc::new(Semaphore::new(ROUNDS));
    let mut waiting = VecDeque::new();
    loop {
        if waiting.is_empty() {
            match orders.recv().await {
                Some(order) => waiting.push_back(order),
                None => return,
            }
        }
        let Ok(turn) = rounds.clone().acquire_owned().await else { return };
        while waiting.len() < WAITING
            && let Ok(order) = orders.try_recv()
        {
            waiting.push_back(order);
        }
        let round = cut(&mut waiting);
        let wheel = wheel.clone();
        tokio::spawn(async move {
            place(&wheel, round).await;
            drop(turn);
        });
    }
}

/// The orders of the next round. An id stands once in it: the wheel would have to make a second call for the second.
fn cut(waiting: &mut VecDeque<Order>) -> Vec<Order> {
    let (mut round, mut rest) = (Vec::new(), VecDeque::new());
    let (mut count, mut bytes) = (0, 0);
    let mut ids: HashSet<Id> = HashSet::new();
    let mut rule = None;
    while let Some(order) = waiting.pop_front() {
        let more = order.deadlines.len();
        let more_bytes: usize = order.deadlines.iter().map(|d| d.payload.as_bytes().len()).sum();
        let full = count > 0 && (count + more > MOST || bytes + more_bytes > MOST_BYTES);
        if full {
            rest.push_back(order);
            break;
        }
        let fits = rule.is_none_or(|rule| rule == order.on_conflict)
            && !order.deadlines.iter().any(|deadline| ids.contains(&deadline.id));
        if !fits {
            rest.push_back(order);
            continue;
        }
        (count, bytes, rule) = (count + more, bytes + more_bytes, Some(order.on_conflict));
        ids.extend(order.deadlines.iter().map(|deadline| deadline.id.clone()));
        round.push(order);
    }
    // What was passed over goes first the next time.
    while let Some(order) = rest.pop_back() {
        waiting.push_front(order);
    }
    round
}

async fn place(wheel: &Wheel, round: Vec<Order>) {
    let Some(on_conflict) = round.first().map(|order| order.on_conflict) else { return };
    let (mut deadlines, mut senders) = (Vec::new(), Vec::with_capacity(round.len()));
    for order in round {
        senders.push((order.deadlines.len(), order.answer));
        deadlines.extend(order.deadlines);
    }
    let mut answers = wheel.enqueue_batch(&deadlines, on_conflict, false).await.into_iter();
    for (count, sender) in senders {
        // A client that went away does not hear it.
        let _ = sender.send(answers.by_ref().take(count).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::{Cause, DueAt, Payload};

    fn order(ids: &[&str], on_conflict: OnConflict, bytes: usize) -> Order {
        let deadline = |id: &&str| Deadline {
            id: Id::new(id).unwrap(),
            due_at: DueAt::After(std::time::Duration::ZERO),
            payload: Payload::from_stored(vec![b'1'; bytes]),
            traceparent: None,
            cause: Cause::Due,
            reminders: None,
        };
        Order { deadlines: ids.iter().map(deadline).collect(), on_conflict, answer: oneshot::channel().0 }
    }

    fn cuts(orders: Vec<Order>) -> Vec<Vec<String>> {
        let mut waiting = VecDeque::from(orders);
        let mut rounds = Vec::new();
        while !waiting.is_empty() {
            let ids = |order: Order| order.deadlines[0].id.as_str().to_owned();
            rounds.push(cut(&mut waiting).into_iter().map(ids).collect());
        }
        rounds
    }

    #[test]
    fn a_round_holds_an_id_once_and_one_rule() {
        let (keep, later) = (OnConflict::Keep, OnConflict::Later);
        let orders = vec![
            order(&["a"], keep, 0),
            order(&["a"], keep, 0),
            order(&["b"], later, 0),
            order(&["c"], keep, 0),
        ];
        assert_eq!(cuts(orders), [vec!["a", "c"], vec!["a"], vec!["b"]]);
    }

    #[test]
    fn a_round_is_bounded_by_count_and_bytes_and_one_request_is_never_cut() {
        let keep = OnConflict::Keep;
        let big = MOST_BYTES / 2 + 1;
        let orders = vec![order(&["a"], keep, big), order(&["b"], keep, big), order(&["c"], keep, 9)];
        assert_eq!(cuts(orders), [vec!["a"], vec!["b", "c"]]);
        assert_eq!(cuts(vec![order(&["a"], keep, 3 * big)]), [vec!["a"]]);
    }
}
