//! So many rows a second at most: a sweep must not take the database from the shop.

use std::time::{Duration, Instant};

/// Spreads rows over time.
pub struct Pace {
    rows_per_second: u32,
    began: Instant,
    rows: u64,
}

impl Pace {
    pub fn new(rows_per_second: u32) -> Self {
        Self { rows_per_second: rows_per_second.max(1), began: Instant::now(), rows: 0 }
    }

    /// The limit.
    pub fn rows_per_second(&self) -> u32 {
        self.rows_per_second
    }

    /// Waits until these rows, with all before them, fit into the time that has passed.
    pub async fn spend(&mut self, rows: usize) {
        self.rows += rows as u64;
        let due = Duration::from_secs_f64(self.rows as f64 / f64::from(self.rows_per_second));
        let early = due.saturating_sub(self.began.elapsed());
        if !early.is_zero() {
            tokio::time::sleep(early).await;
        }
    }
}
