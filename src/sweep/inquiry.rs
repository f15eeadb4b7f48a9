//! The orders table as explanations ask it: one order at a time, as many at once as there are who ask, over two sessions to each database.
//!
//! A door of a server is open to every reader, and the shop's database must not feel how many there are: whoever finds both sessions in use
//! waits for one, and is told that the table is away where that takes too long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use secrecy::SecretString;

use super::explanation::Table;
use crate::deadline::Id;
use crate::error::Result;
use crate::hook::sql::SqlSettings;
use crate::hook::sql::pages::{OrdersTable, TableSettings};

/// Sessions that nobody has used for so long are closed.
const IDLE: Duration = Duration::from_secs(60);

/// The table that a hook declares, to be asked. Nothing is opened before the first question.
#[derive(Debug)]
pub struct Inquiry {
    /// A table that cannot be read this way (its orders are routed by a payload that only feed and sweep know) fails like one that is away.
    table: Result<OrdersTable>,
    idle: Duration,
    used_at: Mutex<Instant>,
    /// Whether somebody waits to close the sessions.
    is_watched: AtomicBool,
}

impl Inquiry {
    /// Of the table that this hook declares.
    pub fn new(hook: &SqlSettings) -> Self {
        Self::closing_after(hook, IDLE)
    }

    /// The same with another time after which sessions that nobody uses are closed.
    pub fn closing_after(hook: &SqlSettings, idle: Duration) -> Self {
        // One row by its key: what a close may take is enough.
        let settings = TableSettings { statement_timeout: hook.statement_timeout, ..TableSettings::of(hook) };
        Self {
            table: OrdersTable::new(hook, &settings),
            idle,
            used_at: Mutex::new(Instant::now()),
            is_watched: AtomicBool::new(false),
        }
    }

    /// The row of an order, and what the audit table says of it; [`Table::Away`] where the database could not be asked.
    pub async fn ask(self: &Arc<Self>, id: &Id) -> Table {
        let table = match &self.table {
            Ok(table) => table,
            Err(e) => return Table::Away(e.to_string()),
        };
        // Before as well: whoever asks may hang up on the way, and leave a session behind.
        self.keep_open();
        let answer = asked(table, id).await;
        self.keep_open();
        answer.unwrap_or_else(|e| Table::Away(e.to_string()))
    }

    /// Keeps the sessions for a while from now, and sees to it that they are closed then.
    fn keep_open(self: &Arc<Self>) {
        *self.used_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        if !self.is_watched.swap(true, Ordering::AcqRel) {
            tokio::spawn(close_when_idle(Arc::downgrade(self)));
        }
    }

    /// Takes over the users and passwords in these URLs, those of the hook, for sessions that are opened from now on.
    pub fn set_urls(&self, urls: &[SecretString]) -> Result<()> {
        self.table.as_ref().map_or(Ok(()), |table| table.set_urls(urls, &[]))
    }

    /// How long its sessions still may rest.
    fn left(&self) -> Duration {
        let used_at = *self.used_at.lock().unwrap_or_else(PoisonError::into_inner);
        self.idle.saturating_sub(used_at.elapsed())
    }
}

async fn asked(table: &OrdersTable, id: &Id) -> Result<Table> {
    let mut facts = table.facts(&[id.as_str()], true).await?;
    Ok(Table::Asked(facts.remove(id.as_str()), table.trail(id.as_str()).await?))
}

/// Waits until nobody has asked for a while, and closes what is open.
async fn close_when_idle(inquiry: Weak<Inquiry>) {
    loop {
        let Some(left) = inquiry.upgrade().map(|inquiry| inquiry.left()) else { return };
        if left.is_zero() {
            break;
        }
        tokio::time::sleep(left).await;
    }
    let Some(inquiry) = inquiry.upgrade() else { return };
    // First, so that whoever asks meanwhile sees to what it opens.
    inquiry.is_watched.store(false, Ordering::Release);
    if let Ok(table) = &inquiry.table {
        table.close_idle().await;
    }
}
