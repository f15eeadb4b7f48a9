//! What one sees while it runs: a bar on a terminal, a line each second elsewhere.

use std::cell::Cell;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::shop::Tally;

/// Between two lines where nobody looks at a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

pub struct Progress {
    bar: Option<ProgressBar>,
    orders: u64,
    last_line: Cell<Instant>,
}

impl Progress {
    /// A bar as long as there are orders.
    pub fn start(orders: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(orders);
            let style = ProgressStyle::with_template("{elapsed:>4} [{bar:40}] {pos}/{len} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar
        });
        Self { bar, orders, last_line: Cell::new(Instant::now()) }
    }

    /// Where the orders are now.
    pub fn show(&self, tally: Tally, leased: u64) {
        let Tally { paid, closed, unpaid } = tally;
        if let Some(bar) = &self.bar {
            bar.set_position(paid + closed);
            bar.set_message(format!("paid {paid}, closed {closed}, waiting {unpaid}, at a worker {leased}"));
        } else if self.last_line.get().elapsed() >= LINE_INTERVAL {
            self.last_line.set(Instant::now());
            println!(
                "{:>5} of {}: paid {paid}, closed {closed}, waiting {unpaid}",
                paid + closed,
                self.orders
            );
        }
    }

    /// Something worth a line of its own.
    pub fn say(&self, what: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| println!("{what}")),
            None => println!("{what}"),
        }
    }

    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}
