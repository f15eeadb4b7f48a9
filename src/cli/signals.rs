//! What signals ask of a program that goes on until it is told to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit::Exit;
use super::failure::Failure;

/// What a signal asks for.
pub enum Asked {
    /// To end, with this code where it is the second time.
    End(Exit),
    /// To read the configuration again.
    Reload,
}

/// The signals of a program that goes on until it is told to stop.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// From here on none is lost.
    pub fn listen() -> Result<Self, Failure> {
        let listen =
            |kind| signal(kind).map_err(|e| Failure::Stopped(Exit::Failure, format!("signals: {e}")));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::End(Exit::Interrupted),
            _ = self.terminate.recv() => Asked::End(Exit::Terminated),
            _ = self.hangup.recv() => Asked::Reload,
        }
    }

    /// The end that a signal asks for before the work has begun: nothing is in hand, so it is a clean one.
    pub async fn ended(&mut self) -> Exit {
        while let Asked::Reload = self.next().await {}
        Exit::Done
    }
}
