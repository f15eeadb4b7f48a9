//! What signals ask of a program that goes on until it is told to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::Exit;
use super::failure::Failure;

/// SIGTSTP and SIGCONT, which have no names in tokio.
#[cfg(feature = "top")]
const STOP: i32 = if cfg!(target_os = "linux") { 20 } else { 18 };
#[cfg(feature = "top")]
const CONTINUE: i32 = if cfg!(target_os = "linux") { 18 } else { 19 };

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// To end, with this code where it is the second time, or where nothing is in hand.
    End(Exit),
    /// SIGHUP: to read the configuration again; to a program with a terminal, that the terminal is gone.
    Hangup,
    /// To give the terminal back and rest.
    Stop,
    /// To take the terminal again.
    Continue,
}

/// The signals of a program that goes on until it is told to stop.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    /// SIGTSTP and SIGCONT, where the program has a terminal to give back.
    job_control: Option<(Signal, Signal)>,
}

impl Signals {
    /// From here on none is lost.
    pub fn listen() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            job_control: None,
        })
    }

    /// The same for a program with a terminal, which is told to rest, too.
    #[cfg(feature = "top")]
    pub fn listen_in_terminal() -> Result<Self, Failure> {
        let kinds = (SignalKind::from_raw(STOP), SignalKind::from_raw(CONTINUE));
        let job_control = Some((listen(kinds.0)?, listen(kinds.1)?));
        Ok(Self { job_control, ..Self::listen()? })
    }

    /// The next one.
    pub async fn next(&mut self) -> Asked {
        let job_control = self.job_control.as_mut();
        let rest = async {
            match job_control {
                None => std::future::pending().await,
                Some((stop, go_on)) => tokio::select! {
                    _ = stop.recv() => Asked::Stop,
                    _ = go_on.recv() => Asked::Continue,
                },
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Asked::End(Exit::Interrupted),
            _ = self.terminate.recv() => Asked::End(Exit::Terminated),
            _ = self.hangup.recv() => Asked::Hangup,
            asked = rest => asked,
        }
    }

    /// The end that a signal asks for before the work has begun: nothing is in hand, so it is a clean one.
    pub async fn ended(&mut self) -> Exit {
        while !matches!(self.next().await, Asked::End(_)) {}
        Exit::Done
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|e| Failure::Stopped(Exit::Failure, format!("signals: {e}")))
}
