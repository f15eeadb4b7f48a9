//! The books: what must be true of the shop's tables after all windows have passed, read from the tables alone.

use crate::Outcome;
use crate::shop::{SHELF, Shop, Tally};

/// What the tables say. Only zeros, and a balanced stock, will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Books {
    pub tally: Tally,
    /// Closed before the order's own close time, by the database's clock.
    pub early: i64,
    /// Unpaid although the window has passed.
    pub lost: i64,
    /// Closes beyond the first of an order.
    pub twice: i64,
    /// Closed orders without a log row, or log rows of orders that are not closed.
    pub unlogged: i64,
    /// Paid orders that were closed too.
    pub paid_and_closed: i64,
    /// Items whose pieces do not add up, or that still hold something back.
    pub unbalanced_items: i64,
    /// Close time to close, in milliseconds, ascending.
    pub late_ms: [i64; 3],
}

impl Books {
    /// Reads the tables.
    pub async fn read(shop: &Shop) -> Outcome<Self> {
        let late = shop
            .numbers(
                "SELECT CAST(round((unixepoch(l.logged_at, 'subsec') - unixepoch(o.close_at, 'subsec')) * 1000) AS INTEGER)
                 FROM order_log l JOIN orders o ON o.id = l.order_id WHERE l.action = 'close' ORDER BY 1",
            )
            .await?;
        let at =
            |share: f64| late.get(((late.len() as f64 * share) as usize).min(late.len().saturating_sub(1)));
        Ok(Self {
            tally: shop.tally().await?,
            early: shop
                .number(
                    "SELECT count(*) FROM order_log l JOIN orders o ON o.id = l.order_id
                     WHERE l.action = 'close' AND (l.logged_at < o.close_at OR o.closed_at < o.close_at)",
                )
                .await?,
            lost: shop.number("SELECT count(*) FROM orders WHERE status = 'unpaid'").await?,
            twice: shop
                .number("SELECT count(*) - count(DISTINCT order_id) FROM order_log WHERE action = 'close'")
                .await?,
            unlogged: shop
                .number(
                    "SELECT count(*) FROM orders o WHERE (o.status = 'closed')
                     <> EXISTS (SELECT 1 FROM order_log l WHERE l.order_id = o.id AND l.action = 'close')",
                )
                .await?,
            paid_and_closed: shop
                .number(
                    "SELECT count(*) FROM orders o WHERE (o.paid_at IS NOT NULL AND o.closed_at IS NOT NULL)
                     OR (o.status = 'paid' AND EXISTS (SELECT 1 FROM order_log l WHERE l.order_id = o.id))",
                )
                .await?,
            unbalanced_items: shop.number(UNBALANCED).await?,
            late_ms: [0.5, 0.99, 1.0].map(|share| at(share).copied().unwrap_or(0)),
        })
    }

    /// Whether all of it is as it must be.
    pub fn balance(&self, orders: u64) -> bool {
        let Self { early, lost, twice, unlogged, paid_and_closed, unbalanced_items, tally, .. } = *self;
        [early, lost, twice, unlogged, paid_and_closed, unbalanced_items].iter().all(|n| *n == 0)
            && tally.paid + tally.closed == orders
            && tally.closed > 0
    }
}

/// Every piece is on the shelf or was sold, none is reserved any more, and what was sold is what paid orders hold.
const UNBALANCED: &str = "SELECT count(*) FROM item WHERE reserved <> 0 OR available + sold <> 1000
    OR sold <> (SELECT coalesce(sum(i.quantity), 0) FROM order_item i JOIN orders o ON o.id = i.order_id
                WHERE i.sku = item.sku AND o.status = 'paid')";
const _: () = assert!(SHELF == 1000, "the query above knows the number of pieces");
