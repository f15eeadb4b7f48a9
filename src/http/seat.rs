//! Seats: how many connections there may be, and which one makes room when all are taken. A client that opens connections and says
//! nothing must not keep others out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

/// The seats of a server.
#[derive(Debug)]
pub(super) struct Seats {
    most: usize,
    began: Instant,
    next: AtomicU64,
    taken: Mutex<HashMap<u64, Arc<Seat>>>,
}

/// The seat of one connection. A handler that finds it in a request's extensions may say that it works.
#[derive(Debug)]
pub struct Seat {
    began: Instant,
    /// Milliseconds of the server's life when its last request began, or it was opened.
    since_ms: AtomicU64,
    /// Requests in work: while there are any, nobody takes the seat away.
    working: AtomicU32,
    leave: CancellationToken,
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

impl Seats {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            began: Instant::now(),
            next: AtomicU64::new(0),
            taken: Mutex::new(HashMap::new()),
        })
    }

    /// Takes a seat. Where all are taken, the connection that has been without work for longest is sent away; `None` where all work.
    pub(super) fn take(self: &Arc<Self>) -> Option<Taken> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let seat = Arc::new(Seat {
            began: self.began,
            since_ms: AtomicU64::new(0),
            working: AtomicU32::new(0),
            leave: CancellationToken::new(),
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
    let idle =
        taken.values().filter(|seat| seat.working.load(Ordering::Relaxed) == 0 && !seat.leave.is_cancelled());
    let longest = idle.min_by_key(|seat| seat.since_ms.load(Ordering::Relaxed));
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

impl Drop for Working {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Relaxed);
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
}
