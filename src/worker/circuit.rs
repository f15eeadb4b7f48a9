//! The circuit: while the hook cannot be asked, nothing is claimed for it but a few probes, and the first that succeeds lets everything
//! flow again. An endpoint that asks for a pause (429, `Retry-After`) gets it from the whole fleet.
//!
//! What is due stays due meanwhile, and no attempt is counted.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::shard::WheelName;

/// Probes under way at once.
const PROBES: usize = 2;
/// The share of unavailable calls is counted over this and the stretch before it.
const STRETCH: Duration = Duration::from_secs(1);
/// A hold that was over for so long while nothing was due, so that no call looked behind it, is no news any more.
const LAPSE: Duration = Duration::from_secs(60);
/// A share of fewer calls says nothing.
const LEAST_CALLS: u32 = 20;

/// When an endpoint counts as away, and how often it is asked then.
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitSettings {
    /// Calls in a row that found it unavailable (1 to 1000).
    pub streak: u32,
    /// Or the share of unavailable calls within one to two seconds, of at least 20 calls; above 1 it never is.
    pub ratio: f64,
    /// Between two probes.
    pub probe_interval: Duration,
}

impl Default for CircuitSettings {
    fn default() -> Self {
        Self { streak: 4, ratio: 0.5, probe_interval: Duration::from_millis(500) }
    }
}

/// The endpoints of a hook, as one worker sees them.
#[derive(Debug)]
pub struct Circuit {
    wheel: WheelName,
    settings: CircuitSettings,
    endpoints: Mutex<Vec<Endpoint>>,
    probes: Arc<Semaphore>,
    changed: Arc<Notify>,
    /// Told when an endpoint asked for a pause, which the others should learn.
    asked: Notify,
}

#[derive(Debug)]
struct Endpoint {
    name: String,
    streak: u32,
    calls: Share,
    hold: Option<Hold>,
}

/// An endpoint that is not asked.
#[derive(Debug, Clone)]
struct Hold {
    /// Not before this; then by probes.
    until: Instant,
    /// Whether it asked for the pause itself.
    asked: bool,
    reason: String,
}

/// Calls and unavailable ones, of the current stretch and of the one before.
#[derive(Debug)]
struct Share {
    began: Instant,
    now: (u32, u32),
    before: (u32, u32),
}

/// What one call found out about an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It answers, whatever it said.
    There,
    /// It could not be asked; with the pause that it wants.
    Away {
        /// Why.
        reason: String,
        /// `Retry-After`.
        pause: Option<Duration>,
    },
}

/// Whether claiming makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// At full speed.
    Open,
    /// One order at a time, to see whether the hook is back.
    Probe,
    /// Not before this.
    Held(Instant),
}

impl Circuit {
    /// All endpoints are taken to be there. `changed` is told when that changes.
    pub fn new(
        wheel: WheelName,
        settings: CircuitSettings,
        names: Vec<String>,
        changed: Arc<Notify>,
    ) -> Self {
        let now = Instant::now();
        let endpoint = |name| Endpoint { name, streak: 0, calls: Share::new(now), hold: None };
        let endpoints = Mutex::new(names.into_iter().map(endpoint).collect());
        let probes = Arc::new(Semaphore::new(PROBES));
        Self { wheel, settings, endpoints, probes, changed, asked: Notify::new() }
    }

    /// Whether claiming makes sense at `now`: while one endpoint is there it does.
    pub fn pass(&self, now: Instant) -> Pass {
        let endpoints = self.at(now);
        let holds = endpoints.iter().map(|endpoint| endpoint.hold.as_ref());
        match holds.collect::<Option<Vec<_>>>().and_then(|holds| holds.iter().map(|hold| hold.until).min()) {
            None => Pass::Open,
            Some(until) if until <= now => Pass::Probe,
            Some(until) => Pass::Held(until),
        }
    }

    /// The right to probe; it ends when it is dropped. Waits while others probe.
    pub async fn probe(&self) -> Option<OwnedSemaphorePermit> {
        self.probes.clone().acquire_owned().await.ok()
    }

    /// Until when this endpoint is not to be asked; `None` where it may be, now. One that counts as away may be asked once an interval, to
    /// see whether it is back; the rest waits for what that call finds out, since it may hang for as long as a call may.
    pub fn admit(&self, endpoint: usize, now: Instant) -> Option<Instant> {
        let mut endpoints = self.at(now);
        let hold = endpoints.get_mut(endpoint)?.hold.as_mut()?;
        if hold.until > now {
            return Some(hold.until);
        }
        // A pause that it had asked for is over.
        (hold.until, hold.asked) = (now + self.settings.probe_interval, false);
        None
    }

    /// Whether any endpoint asked for a pause that is not over.
    pub fn any_pause(&self, now: Instant) -> bool {
        self.lock()
            .iter()
            .any(|endpoint| endpoint.hold.as_ref().is_some_and(|hold| hold.asked && hold.until > now))
    }

    /// The end of the pause that this endpoint asked for; `None` where it did not, or it is over.
    pub fn paused(&self, endpoint: usize, now: Instant) -> Option<Instant> {
        let endpoints = self.lock();
        let hold = endpoints.get(endpoint)?.hold.as_ref()?;
        (hold.asked && hold.until > now).then_some(hold.until)
    }

    /// Whether any endpoint counts as away.
    pub fn any_away(&self) -> bool {
        self.lock().iter().any(|endpoint| endpoint.hold.is_some())
    }

    /// Whether this endpoint counts as away.
    pub fn is_away(&self, endpoint: usize) -> bool {
        self.lock().get(endpoint).is_some_and(|endpoint| endpoint.hold.is_some())
    }

    /// Takes what a call found out.
    pub fn note(&self, endpoint: usize, answer: Answer, now: Instant) {
        let mut endpoints = self.lock();
        let Some(endpoint) = endpoints.get_mut(endpoint) else { return };
        match answer {
            Answer::There => self.there(endpoint, now),
            Answer::Away { reason, pause } => self.away(endpoint, reason, pause, now),
        }
    }

    fn there(&self, endpoint: &mut Endpoint, now: Instant) {
        endpoint.streak = 0;
        endpoint.calls.count(now, false);
        // A call that was under way when the endpoint asked for a pause does not take the request back.
        if endpoint.hold.as_ref().is_some_and(|hold| !hold.asked || hold.until <= now) {
            endpoint.hold = None;
            endpoint.calls = Share::new(now);
            tracing::info!(wheel = %self.wheel, endpoint = endpoint.name, "circuit: the hook answers again");
            self.changed.notify_waiters();
        }
    }

    fn away(&self, endpoint: &mut Endpoint, reason: String, pause: Option<Duration>, now: Instant) {
        endpoint.streak = endpoint.streak.saturating_add(1);
        endpoint.calls.count(now, true);
        if let Some(pause) = pause.filter(|pause| !pause.is_zero()) {
            if self.hold(endpoint, now + pause, true, reason) {
                tracing::warn!(wheel = %self.wheel, endpoint = endpoint.name, ?pause, "circuit: the hook asks for a pause");
                self.asked.notify_one();
            }
            return;
        }
        let settings = &self.settings;
        let until = now + settings.probe_interval.mul_f64(0.9 + fastrand::f64() * 0.2);
        match &endpoint.hold {
            // Calls that were under way when it went away say nothing new.
            Some(hold) if hold.until > now => {}
            Some(_) => drop(self.hold(endpoint, until, false, reason)),
            None if endpoint.streak >= settings.streak || endpoint.calls.exceeds(settings.ratio) => {
                tracing::warn!(wheel = %self.wheel, endpoint = endpoint.name, reason, "circuit: the hook is away; only probes are claimed");
                self.hold(endpoint, until, false, reason);
            }
            None => {}
        }
    }

    /// Holds an endpoint back until then, unless it is for longer already; answers whether that is news.
    fn hold(&self, endpoint: &mut Endpoint, until: Instant, asked: bool, reason: String) -> bool {
        if endpoint.hold.as_ref().is_some_and(|hold| hold.until >= until) {
            return false;
        }
        endpoint.hold = Some(Hold { until, asked, reason });
        self.changed.notify_waiters();
        true
    }

    /// The pauses that endpoints asked for: name, and how long from `now` on.
    pub fn asked_pauses(&self, now: Instant) -> Vec<(String, Duration)> {
        let endpoints = self.lock();
        let asked = endpoints.iter().filter_map(|endpoint| {
            let hold = endpoint.hold.as_ref().filter(|hold| hold.asked && hold.until > now)?;
            Some((endpoint.name.clone(), hold.until - now))
        });
        asked.collect()
    }

    /// Learns of a pause that another worker was asked for.
    pub fn learn(&self, name: &str, pause: Duration, now: Instant) {
        let mut endpoints = self.lock();
        if let Some(endpoint) = endpoints.iter_mut().find(|endpoint| endpoint.name == name) {
            let reason = "it asked another worker for a pause".to_owned();
            self.hold(endpoint, now + pause, true, reason);
        }
    }

    /// Each endpoint: its name, whether it could not be asked of late, and whether it has a pause that it asked for.
    pub fn endpoints(&self, now: Instant) -> Vec<(String, bool, bool)> {
        let endpoints = self.at(now);
        let each = endpoints.iter().map(|endpoint| {
            let hold = endpoint.hold.as_ref();
            let paused = hold.is_some_and(|hold| hold.asked && hold.until > now);
            (endpoint.name.clone(), hold.is_some_and(|hold| !hold.asked), paused)
        });
        each.collect()
    }

    /// Whether it keeps claims back. A pause that is over does not: the first claim after it is a probe, and nothing may be due.
    pub fn stops(&self, now: Instant) -> bool {
        self.at(now)
            .iter()
            .all(|endpoint| endpoint.hold.as_ref().is_some_and(|hold| !hold.asked || hold.until > now))
    }

    /// Waits until an endpoint asks for a pause.
    pub async fn pause_asked(&self) {
        self.asked.notified().await;
    }

    /// Why endpoints are not asked, each one a sentence.
    pub fn reasons(&self, now: Instant) -> Vec<String> {
        let endpoints = self.at(now);
        let held = endpoints.iter().filter_map(|endpoint| {
            let hold = endpoint.hold.as_ref().filter(|hold| !hold.asked || hold.until > now)?;
            let (name, reason) = (&endpoint.name, &hold.reason);
            let left = hold.until.saturating_duration_since(now).as_millis();
            Some(if hold.asked {
                format!("{name} asked for a pause, {left} ms of it are left: {reason}")
            } else {
                format!("{name} is away, probed every {:?}: {reason}", self.settings.probe_interval)
            })
        });
        held.collect()
    }

    /// The endpoints at that moment. A hold that nothing was claimed to look behind for so long says nothing any more.
    fn at(&self, now: Instant) -> std::sync::MutexGuard<'_, Vec<Endpoint>> {
        let mut endpoints = self.lock();
        for endpoint in endpoints.iter_mut() {
            if endpoint.hold.as_ref().is_some_and(|hold| hold.until + LAPSE <= now) {
                (endpoint.hold, endpoint.streak, endpoint.calls) = (None, 0, Share::new(now));
                tracing::info!(wheel = %self.wheel, endpoint = endpoint.name, "circuit: nothing was due to ask the hook for; taken to be there");
            }
        }
        endpoints
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Endpoint>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    fn new(began: Instant) -> Self {
        Self { began, now: (0, 0), before: (0, 0) }
    }

    fn count(&mut self, now: Instant, unavailable: bool) {
        let since = now.saturating_duration_since(self.began);
        if since >= STRETCH {
            self.before = if since >= 2 * STRETCH { (0, 0) } else { self.now };
            (self.now, self.began) = ((0, 0), now);
        }
        self.now.0 += 1;
        self.now.1 += u32::from(unavailable);
    }

    fn exceeds(&self, ratio: f64) -> bool {
        let (all, unavailable) = (self.now.0 + self.before.0, self.now.1 + self.before.1);
        all >= LEAST_CALLS && f64::from(unavailable) >= ratio * f64::from(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn circuit(names: &[&str]) -> Circuit {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Circuit::new(WheelName::new("orders").unwrap(), CircuitSettings::default(), names, Arc::default())
    }

    fn away(pause_ms: Option<u32>) -> Answer {
        Answer::Away { reason: "status 503".to_owned(), pause: pause_ms.map(|ms| ms * MS) }
    }

    #[test]
    fn a_hold_that_nothing_is_claimed_to_look_behind_is_over_and_a_pause_that_is_over_is_no_alarm() {
        let (circuit, start) = (circuit(&["shop"]), Instant::now());
        circuit.learn("shop", 2000 * MS, start);
        assert_eq!(circuit.endpoints(start), [("shop".to_owned(), false, true)]);
        assert!(circuit.stops(start) && circuit.reasons(start).len() == 1);
        let over = start + 2000 * MS;
        assert_eq!(circuit.pass(over), Pass::Probe, "the first claim after it is a probe");
        assert_eq!(circuit.endpoints(over), [("shop".to_owned(), false, false)]);
        assert!(!circuit.stops(over) && circuit.reasons(over).is_empty());
        assert_eq!(circuit.pass(over + LAPSE), Pass::Open);

        for _ in 0..4 {
            circuit.note(0, away(None), over + LAPSE);
        }
        let Pass::Held(until) = circuit.pass(over + LAPSE) else { panic!("a streak of four") };
        assert_eq!(circuit.endpoints(until), [("shop".to_owned(), true, false)]);
        assert!(circuit.stops(until) && circuit.reasons(until).len() == 1);
        // Asked now and then, it stays away.
        circuit.note(0, away(None), until + LAPSE / 2);
        assert!(circuit.stops(until + LAPSE));
        assert_eq!(circuit.pass(until + LAPSE * 2), Pass::Open);
        assert!(circuit.reasons(until + LAPSE * 2).is_empty());
    }

    #[test]
    fn a_streak_holds_then_probes_and_one_success_opens() {
        let (circuit, start) = (circuit(&["shop"]), Instant::now());
        for _ in 0..3 {
            circuit.note(0, away(None), start);
        }
        circuit.note(0, Answer::There, start);
        for _ in 0..3 {
            circuit.note(0, away(None), start);
        }
        assert_eq!(circuit.pass(start), Pass::Open);
        circuit.note(0, away(None), start);
        let Pass::Held(until) = circuit.pass(start) else { panic!("a streak of four") };
        assert!((450 * MS..=550 * MS).contains(&(until - start)));
        assert_eq!(circuit.pass(until), Pass::Probe);
        // What was under way changes nothing; a failed probe holds anew.
        circuit.note(0, away(None), start + 10 * MS);
        assert_eq!(circuit.pass(until), Pass::Probe);
        circuit.note(0, away(None), until);
        assert!(matches!(circuit.pass(until), Pass::Held(_)));
        circuit.note(0, Answer::There, until + 600 * MS);
        assert_eq!(circuit.pass(until + 600 * MS), Pass::Open);
    }

    #[test]
    fn a_share_of_half_holds_and_a_few_failures_among_many_do_not() {
        let (circuit, start) = (circuit(&["shop"]), Instant::now());
        for n in 0..200 {
            circuit.note(0, if n % 3 == 0 { away(None) } else { Answer::There }, start + n * MS);
        }
        assert_eq!(circuit.pass(start), Pass::Open);
        let later = start + 5000 * MS;
        for n in 0..20 {
            circuit.note(0, if n % 2 == 0 { Answer::There } else { away(None) }, later + n * MS);
        }
        assert!(matches!(circuit.pass(later), Pass::Held(_)));
    }

    #[test]
    fn a_pause_that_was_asked_for_is_kept_to_the_end_by_all() {
        let (circuit, start) = (circuit(&["shop"]), Instant::now());
        circuit.note(0, away(Some(3000)), start);
        circuit.note(0, away(Some(1000)), start + MS);
        circuit.note(0, Answer::There, start + 2 * MS);
        assert_eq!(circuit.pass(start + 2 * MS), Pass::Held(start + 3000 * MS), "the longer one stands");
        let told = circuit.asked_pauses(start + 1000 * MS);
        assert_eq!(told, [("shop".to_owned(), 2000 * MS)]);
        let other = super::tests::circuit(&["shop"]);
        other.learn("shop", told[0].1, start + 1000 * MS);
        other.learn("elsewhere", 9000 * MS, start);
        assert_eq!(other.pass(start + 1000 * MS), Pass::Held(start + 3000 * MS));
        assert_eq!(circuit.pass(start + 3000 * MS), Pass::Probe);
        circuit.note(0, Answer::There, start + 3000 * MS);
        assert_eq!(circuit.pass(start + 3000 * MS), Pass::Open);
    }

    #[test]
    fn one_call_an_interval_asks_whether_an_endpoint_is_back_however_long_it_hangs() {
        let (circuit, start) = (circuit(&["a", "b"]), Instant::now());
        (0..4).for_each(|_| circuit.note(0, away(None), start));
        let back = start + 600 * MS;
        assert_eq!(circuit.admit(0, back), None);
        assert_eq!(circuit.admit(0, back), Some(back + 500 * MS), "the others wait");
        assert_eq!(circuit.admit(0, back + 500 * MS), None, "the first still hangs");
        circuit.note(0, Answer::There, back + 600 * MS);
        assert_eq!(circuit.admit(0, back + 600 * MS), None);
        assert_eq!(circuit.admit(0, back + 600 * MS), None, "it is back");
        // So it is after a pause that it asked for.
        circuit.note(0, away(Some(1000)), back + 700 * MS);
        assert_eq!(circuit.admit(0, back + 1700 * MS), None);
        circuit.note(0, Answer::There, back + 1800 * MS);
        assert!(!circuit.is_away(0));
    }

    #[test]
    fn while_one_endpoint_is_there_claiming_goes_on() {
        let (circuit, start) = (circuit(&["a", "b"]), Instant::now());
        (0..4).for_each(|_| circuit.note(0, away(None), start));
        assert_eq!(circuit.pass(start), Pass::Open);
        assert!(circuit.admit(0, start).is_some() && circuit.admit(1, start).is_none());
        assert!(circuit.is_away(0) && !circuit.is_away(1));
        (0..4).for_each(|_| circuit.note(1, away(None), start + 100 * MS));
        let Pass::Held(until) = circuit.pass(start + 100 * MS) else { panic!("both are away") };
        assert!(until < start + 600 * MS, "the first to be probed");
    }
}
