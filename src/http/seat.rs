//! Seats: how many connections there may be, and which one makes room when all are taken. A client that opens connections and says
//! nothing must not keep others out. And what was begun for a client that has left its seat: it goes on.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::body::{Body, HttpBody as _};
use axum::response::Response;
use http_body_util::BodyExt as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The seats of a server.
#[derive(Debug)]
pub(super) struct Seats {
    most: usize,
    began: Instant,
    next: AtomicU64,
    taken: Mutex<HashMap<u64, Arc<Seat>>>,
    /// What is carried out whether or not its client waits for it.
    acts: TaskTracker,
}

/// The seat of one connection. A handler that finds it in a request's extensions may say that it works.
#[derive(Debug)]
pub struct Seat {
    began: Instant,
    /// Milliseconds of the server's life when its last request began or its last work ended, or it was opened.
    since_ms: AtomicU64,
    /// Requests in work: while there are any, nobody takes the seat away.
    working: AtomicU32,
    /// Answers that are told piece by piece, without an end of their own: they make room where nobody is idle.
    telling: AtomicU32,
    leave: CancellationToken,
    acts: TaskTracker,
}

/// A seat, until dropped.
#[derive(Debug)]
pub(super) struct Taken {
    seats: Arc<Seats>,
    number: u64,
    pub(super) seat: Arc<Seat>,
}

/// Says that a request is in work, until dropped.
#[derive(Debug)]
pub struct Working(Arc<Seat>);

/// Says that an answer is being told, until dropped.
#[derive(Debug)]
struct Telling(Arc<Seat>);

impl Seats {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            began: Instant::now(),
            next: AtomicU64::new(0),
            taken: Mutex::new(HashMap::new()),
            acts: TaskTracker::new(),
        })
    }

    /// Waits until nothing more is carried out for clients that have left. No further requests may come.
    pub(super) async fn acts_end(&self) {
        self.acts.close();
        self.acts.wait().await;
    }

    /// Takes a seat. Where all are taken, the connection that has been without work for longest is sent away, or where none is without,
    /// the one whose answer has been told for longest; `None` where all work.
    pub(super) fn take(self: &Arc<Self>) -> Option<Taken> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let seat = Arc::new(Seat {
            began: self.began,
            since_ms: AtomicU64::new(0),
            working: AtomicU32::new(0),
            telling: AtomicU32::new(0),
            leave: CancellationToken::new(),
            acts: self.acts.clone(),
        });
        seat.touch();
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.len() >= self.most && !make_room(&taken) {
            return None;
        }
        taken.insert(number, seat.clone());
        Some(Taken { seats: self.clone(), number, seat })
    }

    /// Sends one connection away, whatever the number of seats: the process has no more files.
    pub(super) fn make_room(&self) -> bool {
        make_room(&self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn make_room(taken: &HashMap<u64, Arc<Seat>>) -> bool {
    let free =
        taken.values().filter(|seat| seat.working.load(Ordering::Relaxed) == 0 && !seat.leave.is_cancelled());
    // Who tells comes back and goes on where it was; who is idle loses nothing.
    let longest = free
        .min_by_key(|seat| (seat.telling.load(Ordering::Relaxed) > 0, seat.since_ms.load(Ordering::Relaxed)));
    longest.map(|seat| seat.leave.cancel()).is_some()
}

impl Seat {
    /// A request begins.
    pub(super) fn touch(&self) {
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.since_ms.store(ms, Ordering::Relaxed);
    }

    /// Waits until the seat is needed for another connection.
    pub(super) async fn wanted(&self) {
        self.leave.cancelled().await;
    }

    /// From here on the request is worth keeping the connection for: it has been read, and its sender is known.
    pub fn work(self: &Arc<Self>) -> Working {
        self.working.fetch_add(1, Ordering::Relaxed);
        Working(self.clone())
    }
}

/// Begins something that is not left half done when its client hangs up, which drops all that the connection's own task does. A server
/// that stops waits for it as it does for a request in work.
pub(super) fn carry_on<T: Send + 'static>(
    seat: Option<&Arc<Seat>>,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    match seat {
        Some(seat) => seat.acts.spawn(work),
        // Another server than ours serves the routes.
        None => tokio::spawn(work),
    }
}

impl Working {
    /// Hands the answer on. One that is told piece by piece, a stream or a file, keeps the seat from being idle until it ends.
    pub(super) fn hand_on(self, response: Response) -> Response {
        if response.body().size_hint().exact().is_some() {
            return response;
        }
        self.0.telling.fetch_add(1, Ordering::Relaxed);
        let telling = Telling(self.0.clone());
        response.map(|body| {
            Body::new(body.map_frame(move |frame| {
                // The body keeps it, and is dropped with its end or its connection.
                let _ = &telling;
                frame
            }))
        })
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        // Idle from now on.
        self.0.touch();
        self.0.working.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.touch();
        self.0.telling.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_connection_makes_room_and_one_that_works_does_not() {
        let seats = Seats::new(2);
        let first = seats.take().unwrap();
        let second = seats.take().unwrap();
        first.seat.since_ms.store(1, Ordering::Relaxed);
        second.seat.since_ms.store(2, Ordering::Relaxed);
        let work = first.seat.work();
        let third = seats.take().unwrap();
        assert!(!first.seat.leave.is_cancelled() && second.seat.leave.is_cancelled());
        let more = third.seat.work();
        assert!(seats.take().is_none(), "all work");
        drop(work);
        assert!(seats.take().is_some());
        assert!(first.seat.leave.is_cancelled());
        drop(more);
        drop((first, second, third));
        assert!(seats.taken.lock().unwrap().is_empty());
    }

    #[test]
    fn an_answer_that_is_still_told_makes_room_only_where_nobody_is_idle() {
        let seats = Seats::new(2);
        let follower = seats.take().unwrap();
        let stream = futures_util::stream::pending::<Result<&str, std::io::Error>>();
        let whole = follower.seat.work().hand_on(Response::new(Body::from("whole")));
        assert_eq!(follower.seat.telling.load(Ordering::Relaxed), 0, "{whole:?}");
        let told = follower.seat.work().hand_on(Response::new(Body::from_stream(stream)));
        assert_eq!(follower.seat.working.load(Ordering::Relaxed), 0);
        let idle = seats.take().unwrap();
        follower.seat.since_ms.store(1, Ordering::Relaxed);
        idle.seat.since_ms.store(2, Ordering::Relaxed);
        assert!(seats.make_room());
        assert!(idle.seat.leave.is_cancelled() && !follower.seat.leave.is_cancelled());
        assert!(seats.make_room());
        assert!(follower.seat.leave.is_cancelled());
        drop(told);
        assert_eq!(follower.seat.telling.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn what_was_begun_goes_on_without_its_client_and_is_waited_for() {
        let seats = Seats::new(1);
        let taken = seats.take().unwrap();
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let done = Arc::new(AtomicU32::new(0));
        let counted = done.clone();
        let handle = carry_on(Some(&taken.seat), async move {
            wait.await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
        });
        drop((handle, taken));
        let ending = seats.acts_end();
        tokio::pin!(ending);
        let soon = std::time::Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, ending.as_mut()).await.is_err(), "it waits");
        go.send(()).unwrap();
        ending.await;
        assert_eq!(done.load(Ordering::Relaxed), 1);
    }
}
