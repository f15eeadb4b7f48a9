//! The combiner: enqueues for one shard that arrive together go to Redis together. A request that comes alone is sent at once; while a
//! call for its shard is on its way, or enough others are, what comes is gathered and follows as one.

use std::collections::{BTreeMap, HashSet, VecDeque};

use futures_util::future::join_all;
use tokio::sync::{mpsc, oneshot};

use crate::deadline::{Deadline, Id, OnConflict};
use crate::error::{Error, Result, StoreKind};
use crate::shard::Shard;
use crate::wheel::answer::{Answer, Enqueued};
use crate::wheel::{MAX_BATCH, Wheel};

/// Calls on their way to Redis at once: one that is being run there, the others being packed or unpacked here. More would make smaller
/// calls of the same work, and a worker's claim wait behind all of them.
const CALLS: usize = 4;
/// Bytes of payload of one call, unless one request alone has more.
const MOST_BYTES: usize = 1024 * 1024;
/// Parts of requests that may wait.
const WAITING: usize = 8192;

/// Gathers the enqueues of one wheel.
#[derive(Debug, Clone)]
pub(super) struct Combiner {
    wheel: Wheel,
    parts: mpsc::Sender<Part>,
}

/// What one request wants placed in one shard.
#[derive(Debug)]
struct Part {
    shard: Shard,
    deadlines: Vec<Deadline>,
    on_conflict: OnConflict,
    answers: oneshot::Sender<Vec<Result<Answer<Enqueued>>>>,
}

impl Combiner {
    /// Starts it; it ends when nobody holds it any more.
    pub fn start(wheel: Wheel) -> Self {
        let (parts, arriving) = mpsc::channel(WAITING);
        tokio::spawn(run(wheel.clone(), arriving));
        Self { wheel, parts }
    }

    /// Places deadlines, one answer for each, in the same order.
    pub async fn enqueue(
        &self,
        deadlines: Vec<Deadline>,
        on_conflict: OnConflict,
    ) -> Vec<Result<Answer<Enqueued>>> {
        if let [deadline] = deadlines.as_slice() {
            let shard = self.wheel.shard_of(&deadline.id);
            let answers = self.ask(shard, deadlines, on_conflict).await;
            return if answers.is_empty() { vec![Err(lost())] } else { answers };
        }
        let count = deadlines.len();
        let mut by_shard: BTreeMap<Shard, (Vec<usize>, Vec<Deadline>)> = BTreeMap::new();
        for (at, deadline) in deadlines.into_iter().enumerate() {
            let (places, part) = by_shard.entry(self.wheel.shard_of(&deadline.id)).or_default();
            places.push(at);
            part.push(deadline);
        }
        let parts = by_shard.into_iter().map(async |(shard, (places, deadlines))| {
            (places, self.ask(shard, deadlines, on_conflict).await)
        });
        let mut whole: Vec<_> = (0..count).map(|_| None).collect();
        for (places, answers) in join_all(parts).await {
            for (at, answer) in places.into_iter().zip(answers) {
                whole[at] = Some(answer);
            }
        }
        whole.into_iter().map(|answer| answer.unwrap_or_else(|| Err(lost()))).collect()
    }

    /// One part's answers; none where the runtime ends under it.
    async fn ask(
        &self,
        shard: Shard,
        deadlines: Vec<Deadline>,
        on_conflict: OnConflict,
    ) -> Vec<Result<Answer<Enqueued>>> {
        let (answers, answered) = oneshot::channel();
        let sent = self.parts.send(Part { shard, deadlines, on_conflict, answers }).await.is_ok();
        let answers = if sent { answered.await.ok() } else { None };
        answers.unwrap_or_default()
    }
}

/// Only where the runtime ends under a request: whether it was sent is not known.
fn lost() -> Error {
    Error::Store {
        kind: StoreKind::Unknown,
        attempted: "enqueue".to_owned(),
        message: "the server is ending".to_owned(),
    }
}

/// What waits, by shard, and whose turn is next.
#[derive(Debug, Default)]
struct Queues {
    waiting: BTreeMap<Shard, VecDeque<Part>>,
    /// Parts that wait.
    count: usize,
    /// Shards that have something waiting and no call on its way, in the order in which that began.
    turns: VecDeque<Shard>,
    under_way: HashSet<Shard>,
}

impl Queues {
    fn push(&mut self, part: Part) {
        let shard = part.shard;
        let queue = self.waiting.entry(shard).or_default();
        if queue.is_empty() && !self.under_way.contains(&shard) {
            self.turns.push_back(shard);
        }
        queue.push_back(part);
        self.count += 1;
    }

    /// The next call, whose shard is under way from now on.
    fn next(&mut self) -> Option<Vec<Part>> {
        if self.under_way.len() >= CALLS {
            return None;
        }
        let shard = self.turns.pop_front()?;
        let call = cut(self.waiting.get_mut(&shard)?);
        self.count -= call.len();
        self.under_way.insert(shard);
        Some(call)
    }

    fn over(&mut self, shard: Shard) {
        self.under_way.remove(&shard);
        if self.waiting.get(&shard).is_some_and(|queue| !queue.is_empty()) {
            self.turns.push_back(shard);
        }
    }
}

/// The turn of a shard: while it is held, no other call for the shard is made.
#[derive(Debug)]
struct Turn {
    shard: Shard,
    over: mpsc::UnboundedSender<Shard>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Nobody hears it only where all ends.
        let _ = self.over.send(self.shard);
    }
}

async fn run(wheel: Wheel, mut arriving: mpsc::Receiver<Part>) {
    let mut queues = Queues::default();
    let (over, mut ended) = mpsc::unbounded_channel();
    loop {
        tokio::select! {
            part = arriving.recv(), if queues.count < WAITING => match part {
                Some(part) => queues.push(part),
                // What waits has nobody left who waits for it.
                None => return,
            },
            Some(shard) = ended.recv() => queues.over(shard),
        }
        while queues.count < WAITING
            && let Ok(part) = arriving.try_recv()
        {
            queues.push(part);
        }
        while let Some(call) = queues.next() {
            let turn = Turn { shard: call[0].shard, over: over.clone() };
            tokio::spawn(place(wheel.clone(), call, turn));
        }
    }
}

/// The parts of the next call. An id stands once in it: the wheel would have to make a second call for the second.
fn cut(waiting: &mut VecDeque<Part>) -> Vec<Part> {
    let (mut call, mut rest) = (Vec::new(), VecDeque::new());
    let (mut count, mut bytes) = (0, 0);
    let mut ids: HashSet<Id> = HashSet::new();
    let mut rule = None;
    while let Some(part) = waiting.pop_front() {
        let more = part.deadlines.len();
        let more_bytes: usize = part.deadlines.iter().map(|d| d.payload.as_bytes().len()).sum();
        let full = count > 0 && (count + more > MAX_BATCH || bytes + more_bytes > MOST_BYTES);
        if full {
            rest.push_back(part);
            break;
        }
        let fits = rule.is_none_or(|rule| rule == part.on_conflict)
            && !part.deadlines.iter().any(|deadline| ids.contains(&deadline.id));
        if !fits {
            rest.push_back(part);
            continue;
        }
        (count, bytes, rule) = (count + more, bytes + more_bytes, Some(part.on_conflict));
        ids.extend(part.deadlines.iter().map(|deadline| deadline.id.clone()));
        call.push(part);
    }
    // What was passed over goes first the next time.
    while let Some(part) = rest.pop_back() {
        waiting.push_front(part);
    }
    call
}

async fn place(wheel: Wheel, call: Vec<Part>, turn: Turn) {
    let on_conflict = call[0].on_conflict;
    let (mut deadlines, mut senders) = (Vec::new(), Vec::with_capacity(call.len()));
    for part in call {
        senders.push((part.deadlines.len(), part.answers));
        deadlines.extend(part.deadlines);
    }
    let mut answers = wheel.enqueue_batch(&deadlines, on_conflict, false).await.into_iter();
    drop(turn);
    for (count, sender) in senders {
        // A client that went away does not hear it.
        let _ = sender.send(answers.by_ref().take(count).collect());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::{Cause, DueAt, Payload};

    fn part(shard: u16, ids: &[&str], on_conflict: OnConflict, bytes: usize) -> Part {
        let deadline = |id: &&str| Deadline {
            id: Id::new(id).unwrap(),
            due_at: DueAt::After(std::time::Duration::ZERO),
            payload: Payload::from_stored(vec![b'1'; bytes]),
            traceparent: None,
            cause: Cause::Due,
            reminders: None,
        };
        Part {
            shard: Shard(shard),
            deadlines: ids.iter().map(deadline).collect(),
            on_conflict,
            answers: oneshot::channel().0,
        }
    }

    fn ids(call: &[Part]) -> Vec<&str> {
        call.iter().map(|part| part.deadlines[0].id.as_str()).collect()
    }

    fn cuts(parts: Vec<Part>) -> Vec<Vec<String>> {
        let mut waiting = VecDeque::from(parts);
        let mut calls = Vec::new();
        while !waiting.is_empty() {
            calls.push(ids(&cut(&mut waiting)).into_iter().map(str::to_owned).collect());
        }
        calls
    }

    #[test]
    fn a_call_holds_an_id_once_and_one_rule() {
        let (keep, later) = (OnConflict::Keep, OnConflict::Later);
        let parts = vec![
            part(0, &["a"], keep, 0),
            part(0, &["a"], keep, 0),
            part(0, &["b"], later, 0),
            part(0, &["c"], keep, 0),
        ];
        assert_eq!(cuts(parts), [vec!["a", "c"], vec!["a"], vec!["b"]]);
    }

    #[test]
    fn a_call_is_bounded_by_count_and_bytes_and_what_one_request_brings_is_never_cut() {
        let keep = OnConflict::Keep;
        let big = MOST_BYTES / 2 + 1;
        let parts = vec![part(0, &["a"], keep, big), part(0, &["b"], keep, big), part(0, &["c"], keep, 9)];
        assert_eq!(cuts(parts), [vec!["a"], vec!["b", "c"]]);
        assert_eq!(cuts(vec![part(0, &["a"], keep, 3 * big)]), [vec!["a"]]);
    }

    #[test]
    fn a_shard_has_one_call_under_way_and_what_comes_meanwhile_is_the_next() {
        let keep = OnConflict::Keep;
        let mut queues = Queues::default();
        queues.push(part(0, &["a"], keep, 0));
        assert_eq!(ids(&queues.next().unwrap()), ["a"]);
        queues.push(part(0, &["b"], keep, 0));
        queues.push(part(0, &["c"], keep, 0));
        assert!(queues.next().is_none());
        queues.over(Shard(0));
        assert_eq!(ids(&queues.next().unwrap()), ["b", "c"]);
        queues.over(Shard(0));
        assert!(queues.next().is_none());
        assert_eq!(queues.count, 0);
    }

    #[test]
    fn no_more_calls_than_allowed_are_under_way_and_shards_take_turns() {
        let keep = OnConflict::Keep;
        let mut queues = Queues::default();
        let shards = 0..CALLS as u16 + 2;
        for shard in shards.clone() {
            queues.push(part(shard, &["a"], keep, 0));
        }
        let begun: Vec<u16> = std::iter::from_fn(|| queues.next()).map(|call| call[0].shard.0).collect();
        assert_eq!(begun, shards.clone().take(CALLS).collect::<Vec<_>>());
        queues.push(part(0, &["b"], keep, 0));
        queues.over(Shard(0));
        assert_eq!(queues.next().unwrap()[0].shard, Shard(CALLS as u16));
        queues.over(Shard(1));
        queues.over(Shard(2));
        assert_eq!(queues.next().unwrap()[0].shard, Shard(CALLS as u16 + 1));
        assert_eq!(ids(&queues.next().unwrap()), ["b"]);
    }
}
