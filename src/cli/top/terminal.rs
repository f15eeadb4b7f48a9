//! The terminal: taken for the screen, and given back whatever happens. The keys are read by a thread of their own, because reading them
//! waits.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// How long the thread waits for a key before it looks whether it should end.
const LOOK: Duration = Duration::from_millis(100);

/// The terminal while it is ours. Dropping it gives it back.
pub struct Taken {
    /// What is drawn on.
    pub canvas: Terminal<CrosstermBackend<io::Stdout>>,
}

impl Taken {
    /// Takes it: raw mode, the other screen, no cursor.
    pub fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        // From here on everything is undone when this ends early.
        let undo = Undo;
        execute!(io::stdout(), EnterAlternateScreen)?;
        let canvas = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        std::mem::forget(undo);
        Ok(Self { canvas })
    }

    /// Gives it back, stops this process as Ctrl-Z does, and takes it again when the process goes on.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        // There is no signal to oneself without unsafe code or another dependency; every shell has a kill of its own.
        let stopped = std::process::Command::new("sh").args(["-c", "kill -STOP $PPID"]).status();
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        self.canvas.clear()?;
        stopped.map(drop)
    }

    /// Takes it again after somebody else has stopped and continued this process.
    pub fn retake(&mut self) -> io::Result<()> {
        disable_raw_mode()?;
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        self.canvas.clear()
    }

    /// Hands text to the terminal's clipboard (OSC 52); terminals that know of none pass it over.
    pub fn copy(&mut self, text: &str) -> io::Result<()> {
        let text = base64::engine::general_purpose::STANDARD.encode(text);
        let mut stdout = io::stdout().lock();
        write!(stdout, "\x1b]52;c;{text}\x07")?;
        stdout.flush()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

struct Undo;

impl Drop for Undo {
    fn drop(&mut self) {
        give_back();
    }
}

/// A terminal that is gone cannot be given back, and nobody is left to be told.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
}

/// The keys and changes of size, as they come.
pub struct Events {
    receiver: UnboundedReceiver<io::Result<Event>>,
    end: Arc<AtomicBool>,
}

impl Events {
    /// Begins to read.
    pub fn read() -> Self {
        let (sender, receiver) = unbounded_channel();
        let end = Arc::new(AtomicBool::new(false));
        let ended = end.clone();
        std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let next = match event::poll(LOOK) {
                    Ok(false) => continue,
                    Ok(true) => event::read(),
                    Err(e) => Err(e),
                };
                let failed = next.is_err();
                if sender.send(next).is_err() || failed {
                    return;
                }
            }
        });
        Self { receiver, end }
    }

    /// The next one; an error where the terminal is gone.
    pub async fn next(&mut self) -> io::Result<Event> {
        self.receiver.recv().await.unwrap_or_else(|| Err(io::Error::other("the terminal is gone")))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
    }
}
