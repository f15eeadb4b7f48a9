//! The processor time of the machine, as its kernel counts it: on a virtual machine the host takes some away, and what is late then is late
//! whatever the program does.

/// Ticks of all processors since the start of the machine; nothing where the system does not say.
#[derive(Debug, Clone, Copy)]
pub struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    /// As of now.
    pub fn read() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line of proc(5)'s `stat`: user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in user already.
    fn parse(stat: &str) -> Option<Self> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> =
            fields.split_whitespace().take(8).map(|n| n.parse().ok()).collect::<Option<_>>()?;
        Some(Self { all: ticks.iter().sum(), stolen: *ticks.get(7)? })
    }

    /// The share of the time since then that the host took away, in percent.
    pub fn stolen_percent_until(self, later: Self) -> f64 {
        let ticks = |from: u64, to: u64| u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
        let all = ticks(self.all, later.all).max(1);
        f64::from(ticks(self.stolen, later.stolen)) * 100.0 / f64::from(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_took_away_is_a_share_of_all_time() {
        let before = Ticks::parse("cpu  100 0 50 800 10 0 5 35 7 0\ncpu0 1 2").unwrap();
        let after = Ticks::parse("cpu  150 0 80 1000 10 0 5 55 9 0\n").unwrap();
        assert!((before.stolen_percent_until(after) - 20.0 * 100.0 / 300.0).abs() < 1e-9);
        assert!(Ticks::parse("cpu  1 2 3").is_none() && Ticks::parse("intr 5").is_none());
    }
}
