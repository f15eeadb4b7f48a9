//! The wire between the hook and a database, and what may happen on it. It knows no protocol: it looks for bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the wire does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Pass,
    /// Connections end at once, open and new ones.
    Dead,
    /// Bytes vanish in both directions; connections stay open.
    Silent,
    /// Replies come this much later.
    Late(Duration),
    /// When these bytes are on their way to the server they are passed on, and the connection ends before the reply.
    CutAfter(&'static [u8]),
    /// The same, without passing them on.
    CutBefore(&'static [u8]),
    /// MariaDB: the client's wish to count matched rows instead of changed ones is taken out of its greeting.
    ChangedRowsOnly,
}

/// A wire to one server.
pub struct Wire {
    port: u16,
    mood: watch::Sender<Mood>,
    cuts: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Wire {
    /// A wire to the server of `url`, and the URL through it.
    pub async fn to(url: &str) -> (Self, String) {
        let parsed = url::Url::parse(url).expect("a url");
        let server = parsed.port().expect("a port");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (mood, moods) = watch::channel(Mood::Pass);
        let cuts = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&cuts);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (moods, cuts) = (moods.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    if *moods.borrow() != Mood::Dead
                        && let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await
                    {
                        carry(client, server, moods, &cuts).await;
                    }
                });
            }
        });
        let mut through = parsed;
        through.set_port(Some(port)).expect("a port");
        (Self { port, mood, cuts, task }, through.to_string())
    }

    pub fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    /// Connections that were cut by their bytes so far.
    pub fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::Relaxed)
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn carry(client: TcpStream, server: TcpStream, moods: watch::Receiver<Mood>, cuts: &AtomicU64) {
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let mut watched = moods.clone();
    let cut = std::sync::atomic::AtomicBool::new(false);
    let up = async {
        let mut buffer = vec![0; 64 * 1024];
        let mut first = true;
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            let bytes = &mut buffer[..read];
            let mood = *moods.borrow();
            let holds = |needle: &[u8]| bytes.windows(needle.len()).any(|w| w == needle);
            match mood {
                Mood::Silent => continue,
                Mood::CutBefore(needle) if holds(needle) => {
                    cuts.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Mood::CutAfter(needle) if holds(needle) => {
                    cut.store(true, Ordering::Relaxed);
                    cuts.fetch_add(1, Ordering::Relaxed);
                    to_server.write_all(bytes).await.ok();
                    // The server does what it was asked before it sees the end.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    return;
                }
                // The capabilities follow the header of four bytes; CLIENT_FOUND_ROWS is their second bit.
                Mood::ChangedRowsOnly if first => bytes[4] &= !2,
                _ => {}
            }
            first = false;
            if to_server.write_all(bytes).await.is_err() {
                return;
            }
        }
    };
    let down = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from_server.read(&mut buffer).await {
            let mood = *moods.borrow();
            match mood {
                Mood::Silent => continue,
                Mood::Late(by) => tokio::time::sleep(by).await,
                // The reply to what is being cut must not arrive.
                Mood::CutAfter(_) if cut.load(Ordering::Relaxed) => continue,
                _ => {}
            }
            if to_client.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = up => {}
        () = down => {}
        _ = watched.wait_for(|m| *m == Mood::Dead) => {}
    }
}
