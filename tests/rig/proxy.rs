//! A TCP proxy that behaves as badly as a network can: holds, cuts, resets, delays, swallows, loses one reply.
//!
//! It runs on a thread of its own, so that a test that blocks its runtime does not stop it. Every fault is switched at once and holds
//! for open and new connections until [`Proxy::heal`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::resp::{Frames, LostReply};

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the client to the server: requests.
    Up,
    /// From the server to the client: replies.
    Down,
}

/// What happens to the bytes of one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Fault {
    #[default]
    None,
    /// Kept back until healed.
    Hold,
    /// Read and thrown away: the half-open connection.
    Swallow,
    /// Passed on this much later.
    Delay(Duration),
}

/// What the proxy does at the moment.
#[derive(Debug, Clone, Copy, Default)]
struct Mood {
    up: Fault,
    down: Fault,
    /// Whether new connections are closed as soon as they are made.
    refuse: bool,
    /// Connections made before this count changed are ended: by FIN, or by RST.
    cuts: u64,
    resets: u64,
}

/// A proxy in front of one server.
pub struct Proxy {
    address: SocketAddr,
    mood: watch::Sender<Mood>,
    shared: Arc<Shared>,
    // Dropped last: stops the thread and all connections with it.
    runtime: Option<tokio::runtime::Runtime>,
}

#[derive(Default)]
struct Shared {
    server_port: AtomicU16,
    lost_reply: LostReply,
    connections: AtomicU64,
    bytes_up: AtomicU64,
    bytes_down: AtomicU64,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 and passes everything on to `127.0.0.1:server_port`.
    pub fn start(server_port: u16) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name("proxy").enable_all().build().expect("a runtime");
        // Not by blocking on the runtime: a test may be inside one already.
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a listener for the runtime");
        let guard = runtime.enter();
        let listener = TcpListener::from_std(listener).expect("a listener for the runtime");
        drop(guard);
        let address = listener.local_addr().expect("an address");
        let (mood, moods) = watch::channel(Mood::default());
        let shared = Arc::new(Shared { server_port: AtomicU16::new(server_port), ..Shared::default() });
        runtime.spawn(accept(listener, moods, Arc::clone(&shared)));
        Self { address, mood, shared, runtime: Some(runtime) }
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// `redis://127.0.0.1:PORT` of the proxy.
    pub fn redis_url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Keeps the bytes of one way back until [`Self::heal`]; nothing is lost.
    pub fn hold(&self, way: Way) {
        self.set(way, Fault::Hold);
    }

    /// Reads the bytes of one way and throws them away; the connection stays open.
    pub fn swallow(&self, way: Way) {
        self.set(way, Fault::Swallow);
    }

    /// Passes the bytes of one way on later, in order.
    pub fn delay(&self, way: Way, by: Duration) {
        self.set(way, Fault::Delay(by));
    }

    /// Closes every open connection in good order (FIN). New ones are served.
    pub fn cut(&self) {
        self.mood.send_modify(|m| m.cuts += 1);
    }

    /// Closes every open connection with a reset (RST). New ones are served.
    pub fn reset(&self) {
        self.mood.send_modify(|m| m.resets += 1);
    }

    /// Resets every connection, open or new, until [`Self::heal`]: the server is down.
    pub fn down(&self) {
        self.mood.send_modify(|m| {
            m.refuse = true;
            m.resets += 1;
        });
    }

    /// Leads new connections to `127.0.0.1:server_port` from now on; open ones stay where they are: a name that was moved.
    pub fn lead_to(&self, server_port: u16) {
        self.shared.server_port.store(server_port, Ordering::Relaxed);
    }

    /// Ends every fault but a lost reply that still waits for its command.
    pub fn heal(&self) {
        self.mood.send_modify(|m| (m.up, m.down, m.refuse) = (Fault::None, Fault::None, false));
    }

    /// Redis only: the `nth` (from 1) command from now on whose bytes contain `needle` is carried out, its reply is dropped and the
    /// connection reset. Replies of the connection before it are delivered.
    pub fn lose_reply(&self, nth: u32, needle: &[u8]) {
        self.shared.lost_reply.arm(nth, needle);
    }

    /// Whether the reply of [`Self::lose_reply`] has been lost.
    pub fn lost_a_reply(&self) -> bool {
        self.shared.lost_reply.happened()
    }

    /// Connections made so far.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Bytes that came from one side so far, passed on or not.
    pub fn bytes(&self, way: Way) -> u64 {
        self.shared.bytes(way).load(Ordering::Relaxed)
    }

    fn set(&self, way: Way, fault: Fault) {
        self.mood.send_modify(|m| match way {
            Way::Up => m.up = fault,
            Way::Down => m.down = fault,
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // A runtime may not wait for its threads inside another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn bytes(&self, way: Way) -> &AtomicU64 {
        match way {
            Way::Up => &self.bytes_up,
            Way::Down => &self.bytes_down,
        }
    }
}

impl Mood {
    fn fault(&self, way: Way) -> Fault {
        match way {
            Way::Up => self.up,
            Way::Down => self.down,
        }
    }
}

async fn accept(listener: TcpListener, moods: watch::Receiver<Mood>, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::Relaxed);
        if moods.borrow().refuse {
            client.set_zero_linger().ok();
            continue;
        }
        let (moods, shared) = (moods.clone(), Arc::clone(&shared));
        tokio::spawn(async move {
            let server_port = shared.server_port.load(Ordering::Relaxed);
            let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)).await else { return };
            carry(client, server, moods, &shared).await;
        });
    }
}

/// Carries one connection until a side closes it or a fault ends it.
async fn carry(client: TcpStream, server: TcpStream, mut moods: watch::Receiver<Mood>, shared: &Shared) {
    client.set_nodelay(true).ok();
    server.set_nodelay(true).ok();
    let born = *moods.borrow();
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let frames = Frames::default();
    let reset = tokio::select! {
        () = pump(Way::Up, &mut from_client, &mut to_server, moods.clone(), shared, &frames) => false,
        () = pump(Way::Down, &mut from_server, &mut to_client, moods.clone(), shared, &frames) => frames.reply_lost(),
        changed = moods.wait_for(|m| m.cuts != born.cuts || m.resets != born.resets) => {
            changed.is_ok_and(|m| m.resets != born.resets)
        }
    };
    if reset {
        from_client.unsplit(to_client).set_zero_linger().ok();
        from_server.unsplit(to_server).set_zero_linger().ok();
    }
}

/// Carries one way of a connection until its source ends.
async fn pump(
    way: Way,
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    mut moods: watch::Receiver<Mood>,
    shared: &Shared,
    frames: &Frames,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        shared.bytes(way).fetch_add(read as u64, Ordering::Relaxed);
        let fault = moods.borrow().fault(way);
        match fault {
            Fault::None => {}
            Fault::Swallow => continue,
            Fault::Delay(by) => tokio::time::sleep(by).await,
            Fault::Hold => {
                if moods.wait_for(|m| m.fault(way) != Fault::Hold).await.is_err() {
                    return;
                }
            }
        }
        let Some(bytes) = buffer.get(..read) else { return };
        let allowed = match way {
            Way::Up => {
                frames.request(bytes, &shared.lost_reply);
                read
            }
            Way::Down => frames.reply(bytes),
        };
        if to.write_all(&bytes[..allowed]).await.is_err() || allowed < read || frames.reply_lost() {
            if frames.reply_lost() {
                shared.lost_reply.note();
            }
            return;
        }
    }
}
