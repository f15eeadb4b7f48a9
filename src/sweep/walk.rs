//! A walk through the rows of one database, page by page.

use std::collections::{HashSet, VecDeque};

use crate::error::{Error, Result};
use crate::hook::sql::pages::{OrdersTable, Position, Reader, Row, Which};

/// Keys that are remembered; no group of keys that a collation takes for equal is nearly as large.
const MOST: usize = 20_000;

/// Pages that are read, and asked about, together.
const TOGETHER: u32 = 4;

/// Where a walk stands.
pub struct Walk<'a> {
    reader: Reader<'a>,
    /// Pages read so far.
    pub pages: u64,
    /// Pages of one step: never more than a quarter of a second's rows.
    ahead: u32,
    which: Which<'a>,
    page: usize,
    after: Option<Position>,
    /// The last keys: a page of text keys may begin with some of them again.
    seen: HashSet<String>,
    /// The same, oldest first, to be forgotten.
    order: VecDeque<String>,
    is_over: bool,
}

impl<'a> Walk<'a> {
    /// From the beginning, or behind a position.
    pub fn new(
        table: &'a OrdersTable,
        database: usize,
        which: Which<'a>,
        page: usize,
        after: Option<Position>,
        rows_per_second: u32,
    ) -> Result<Self> {
        let quarter = rows_per_second / 4 / u32::try_from(page).unwrap_or(u32::MAX).max(1);
        Ok(Self {
            reader: table.reader(database)?,
            pages: 0,
            ahead: quarter.clamp(1, TOGETHER),
            which,
            page,
            after,
            seen: HashSet::new(),
            order: VecDeque::new(),
            is_over: false,
        })
    }

    /// The next rows, of several pages where the pace allows it; empty at the end.
    pub async fn next(&mut self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for _ in 0..self.ahead {
            let page = Box::pin(self.page()).await?;
            if page.is_empty() {
                break;
            }
            self.pages += 1;
            rows.extend(page);
        }
        self.reader.rest().await;
        Ok(rows)
    }

    async fn page(&mut self) -> Result<Vec<Row>> {
        let mut limit = self.page;
        while !self.is_over {
            let mut rows = self.reader.page(self.which, self.after.as_ref(), limit).await?;
            self.is_over = rows.len() < limit;
            rows.retain(|row| !self.seen.contains(&row.position.key));
            if let Some(last) = rows.last() {
                self.after = Some(last.position.clone());
                self.remember(&rows);
                return Ok(rows);
            }
            // Nothing but rows that were seen, and more behind them.
            limit = limit.saturating_mul(2);
            if limit > self.page.saturating_mul(1024).min(MOST) {
                return Err(Error::Hook(format!(
                    "more than {limit} keys are equal by the column's collation"
                )));
            }
        }
        Ok(Vec::new())
    }

    fn remember(&mut self, rows: &[Row]) {
        for row in rows {
            self.seen.insert(row.position.key.clone());
            self.order.push_back(row.position.key.clone());
        }
        while self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
    }
}
