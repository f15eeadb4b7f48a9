//! The sessions to one database: a bounded number, each given back only when it is known to be at rest.
//!
//! sqlx's own pool does I/O without a limit when a connection is dropped, and takes a session back that was left in the middle of a
//! BEGIN. Here a session that was not given back is simply gone, and its place is free at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::database::Database;
use super::failure::Failure;
use super::session::Session;

/// A session at rest this long is asked whether it still lives before it is used: the other side may have closed it for idleness.
const PING_AFTER: Duration = Duration::from_secs(1);
/// A session older than this is replaced, so that a fleet finds its way back to a database that moved behind its name.
const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// The sessions to one database.
pub(super) struct Pool {
    pub(super) database: Database,
    /// The same database, by the user and password of today.
    login: Mutex<Database>,
    size: usize,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle>>,
    connect_timeout: Duration,
}

struct Idle {
    session: Session,
    born_at: Instant,
    idle_since: Instant,
}

/// A session in use. Dropped without [`Pool::give_back`], it is closed and its place becomes free.
pub(super) struct Held {
    pub(super) session: Session,
    born_at: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    /// A pool of at most `size` sessions; none is opened yet.
    pub(super) fn new(database: Database, size: u32, connect_timeout: Duration) -> Self {
        let size = usize::try_from(size).unwrap_or(1);
        Self {
            login: Mutex::new(database.clone()),
            database,
            size,
            permits: Arc::new(Semaphore::new(size)),
            idle: Mutex::new(Vec::with_capacity(size)),
            connect_timeout,
        }
    }

    /// How it stands.
    pub(super) fn sessions(&self) -> crate::hook::Sessions {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).len();
        let in_use = self.size.saturating_sub(self.permits.available_permits());
        crate::hook::Sessions { endpoint: self.database.shown.clone(), in_use, idle, max: self.size }
    }

    /// A session at rest that answers, or a new one, within the connect timeout.
    pub(super) async fn acquire(&self) -> Result<Held, Failure> {
        let limit = self.connect_timeout;
        let asked_at = Instant::now();
        let permit = match tokio::time::timeout(limit, Arc::clone(&self.permits).acquire_owned()).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(Failure::Unavailable("the hook is shut down".to_owned())),
            Err(_) => {
                return Err(Failure::Unavailable(format!(
                    "no free session to {} within {limit:?}: all are in use",
                    self.database.shown
                )));
            }
        };
        while let Some(Idle { mut session, born_at, idle_since }) = self.take_idle() {
            let left = limit.saturating_sub(asked_at.elapsed());
            let fresh = idle_since.elapsed() < PING_AFTER;
            if born_at.elapsed() < MAX_AGE
                && (fresh || matches!(tokio::time::timeout(left, session.ping()).await, Ok(Ok(()))))
            {
                return Ok(Held { session, born_at, _permit: permit });
            }
        }
        let session = self.connect(limit.saturating_sub(asked_at.elapsed())).await?;
        Ok(Held { session, born_at: Instant::now(), _permit: permit })
    }

    /// The longest wait for a session, and for an answer that any server gives at once.
    pub(super) fn patience(&self) -> Duration {
        self.connect_timeout
    }

    /// A session of its own, beside the pool.
    pub(super) async fn fresh(&self) -> Result<Session, Failure> {
        self.connect(self.connect_timeout).await
    }

    /// Takes back a session whose transaction has ended.
    pub(super) fn give_back(&self, held: Held) {
        let Held { session, born_at, _permit } = held;
        let idle = Idle { session, born_at, idle_since: Instant::now() };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(idle);
    }

    /// Forgets every session at rest: one of them was found dead, so the others likely are.
    pub(super) fn forget_idle(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Closes every session at rest as the database expects it.
    pub(super) async fn close_idle(&self) {
        while let Some(Idle { session, .. }) = self.take_idle() {
            let _ = tokio::time::timeout(self.connect_timeout, session.close()).await;
        }
    }

    fn take_idle(&self) -> Option<Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Opens new sessions by another user or password from now on; those that are open stay.
    pub(super) fn set_login(&self, login: Database) {
        *self.login.lock().unwrap_or_else(PoisonError::into_inner) = self.database.with_login_of(login);
    }

    async fn connect(&self, limit: Duration) -> Result<Session, Failure> {
        let database = self.login.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match tokio::time::timeout(limit, database.connect()).await {
            Ok(connected) => connected,
            Err(_) => Err(Failure::Away(format!(
                "connecting to {}: no answer within {:?}",
                self.database.shown, self.connect_timeout
            ))),
        }
    }
}
