//! Just enough of Redis's protocol to count commands and replies on one connection.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The order to lose one reply, shared by all connections of a proxy.
#[derive(Default)]
pub struct LostReply {
    armed: Mutex<Option<(u32, Vec<u8>)>>,
    happened: AtomicBool,
}

impl LostReply {
    pub fn arm(&self, nth: u32, needle: &[u8]) {
        self.happened.store(false, Ordering::SeqCst);
        *self.armed.lock().expect("no test panics with it") = Some((nth, needle.to_owned()));
    }

    pub fn note(&self) {
        self.happened.store(true, Ordering::SeqCst);
    }

    pub fn happened(&self) -> bool {
        self.happened.load(Ordering::SeqCst)
    }

    /// Whether this is the command whose reply is to be lost.
    fn takes(&self, command: &[u8]) -> bool {
        let mut armed = self.armed.lock().expect("no test panics with it");
        let Some((left, needle)) = armed.as_mut() else { return false };
        if !command.windows(needle.len().max(1)).any(|w| w == needle.as_slice()) && !needle.is_empty() {
            return false;
        }
        *left -= 1;
        if *left == 0 {
            *armed = None;
            return true;
        }
        false
    }
}

/// One connection's commands and replies, cut into frames.
#[derive(Default)]
pub struct Frames(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    request: Vec<u8>,
    reply: Vec<u8>,
    requests: u64,
    replies: u64,
    /// The number of the request whose reply is to be lost.
    doomed: Option<u64>,
    lost: bool,
}

impl Frames {
    /// Takes in bytes of requests.
    pub fn request(&self, bytes: &[u8], lost_reply: &LostReply) {
        let mut counts = self.0.lock().expect("no test panics with it");
        counts.request.extend_from_slice(bytes);
        while let Some(length) = frame(&counts.request, 0) {
            let command: Vec<u8> = counts.request.drain(..length).collect();
            counts.requests += 1;
            if counts.doomed.is_none() && lost_reply.takes(&command) {
                counts.doomed = Some(counts.requests);
            }
        }
    }

    /// Takes in bytes of replies; answers how many of them may be passed on.
    pub fn reply(&self, bytes: &[u8]) -> usize {
        let mut counts = self.0.lock().expect("no test panics with it");
        let before = counts.reply.len();
        counts.reply.extend_from_slice(bytes);
        let mut whole = 0;
        while let Some(end) = frame(&counts.reply, whole) {
            // A push message answers no command.
            if counts.reply.get(whole) != Some(&b'>') {
                counts.replies += 1;
            }
            if counts.doomed == Some(counts.replies) {
                counts.lost = true;
                // A doomed reply of several pieces may have begun in bytes that are out already: the client has a torn reply then,
                // and the reset that follows loses it just the same.
                return whole.saturating_sub(before);
            }
            whole = end;
        }
        counts.reply.drain(..whole);
        bytes.len()
    }

    /// Whether the doomed reply has come and was dropped.
    pub fn reply_lost(&self) -> bool {
        self.0.lock().expect("no test panics with it").lost
    }
}

/// Where the frame that begins at `start` ends; `None` while it is not whole. Other protocols than RESP never form a frame that
/// matters, since nothing is lost there.
fn frame(bytes: &[u8], start: usize) -> Option<usize> {
    let line_end = start + bytes.get(start..)?.windows(2).position(|w| w == b"\r\n")?;
    let after_line = line_end + 2;
    let number = || std::str::from_utf8(bytes.get(start + 1..line_end)?).ok()?.parse::<i64>().ok();
    match bytes.get(start)? {
        b'$' | b'=' | b'!' => match number()? {
            length @ 0.. => {
                Some(after_line + usize::try_from(length).ok()? + 2).filter(|end| *end <= bytes.len())
            }
            _ => Some(after_line),
        },
        kind @ (b'*' | b'~' | b'>' | b'%') => {
            let members = number()?.max(0) * if *kind == b'%' { 2 } else { 1 };
            (0..members).try_fold(after_line, |at, _| frame(bytes, at))
        }
        _ => Some(after_line),
    }
}
