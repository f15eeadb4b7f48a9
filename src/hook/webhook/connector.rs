//! Making a connection: resolve, check every address, dial the checked ones and no others.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::address::why_not_public;
use super::resolver::Resolve;
use super::target::{Target, TargetHost};
use super::wire::Wire;

/// How long one address has before the next is tried beside it (RFC 8305 recommends 250 ms): a black hole costs this, not the call.
const HEAD_START: Duration = Duration::from_millis(250);

/// Dials one target.
pub(super) struct Connector {
    target: Target,
    resolver: Arc<dyn Resolve>,
    allow_private: bool,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    timeout: Duration,
}

impl Connector {
    /// A connector for `target`; `tls` is used where the target asks for it.
    pub fn new(
        target: Target,
        resolver: Arc<dyn Resolve>,
        allow_private: bool,
        tls: Option<TlsConnector>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let name = match &target.host {
            TargetHost::Name(name) => ServerName::try_from(name.clone()).ok(),
            TargetHost::Address(address) => Some(ServerName::from(*address)),
        };
        let tls = match (tls, name) {
            (Some(tls), Some(name)) => Some((tls, name)),
            (Some(_), None) => {
                return Err("url: the host is not a name that a certificate can carry".to_owned());
            }
            (None, _) => None,
        };
        Ok(Self { target, resolver, allow_private, tls, timeout })
    }

    /// A new connection, or why there is none, as a fragment.
    pub async fn connect(&self) -> Result<Wire, String> {
        match tokio::time::timeout(self.timeout, self.connect_unbounded()).await {
            Ok(made) => made,
            Err(_) => Err(format!("no connection within {:?}", self.timeout)),
        }
    }

    async fn connect_unbounded(&self) -> Result<Wire, String> {
        let tcp = dial(self.addresses().await?).await?;
        // A call is one small write: waiting for more to fill the packet would only add delay.
        tcp.set_nodelay(true).map_err(|e| e.to_string())?;
        match &self.tls {
            None => Ok(Wire::plain(tcp)),
            Some((tls, name)) => match tls.connect(name.clone(), tcp).await {
                Ok(stream) => Ok(Wire::tls(stream)),
                Err(e) => Err(format!("TLS refused: {e}")),
            },
        }
    }

    /// The addresses that may be dialled.
    async fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let found = match &self.target.host {
            TargetHost::Address(address) => vec![*address],
            TargetHost::Name(name) => {
                self.resolver.resolve(name).await.map_err(|e| format!("the name cannot be resolved: {e}"))?
            }
        };
        if found.is_empty() {
            return Err("the name resolves to no address".to_owned());
        }
        // Checked here, at every connection, and not only at start: a name may answer otherwise the second time.
        let refusal = |address: &IpAddr| if self.allow_private { None } else { why_not_public(*address) };
        let allowed: Vec<_> = found
            .iter()
            .filter(|address| refusal(address).is_none())
            .map(|address| SocketAddr::new(*address, self.target.port))
            .collect();
        if allowed.is_empty() {
            let refused: Vec<_> = found
                .iter()
                .map(|address| format!("{address} ({})", refusal(address).unwrap_or_default()))
                .collect();
            return Err(format!(
                "the name resolves only to addresses that are not public: {}; allow_private permits them",
                refused.join(", ")
            ));
        }
        Ok(interleaved(allowed))
    }
}

/// Families in turn, beginning with the resolver's favourite, so that a broken family costs one head start and not one for each of
/// its addresses.
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (favoured, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let mut other = other.into_iter();
    let mut mixed: Vec<_> =
        favoured.into_iter().flat_map(|address| [Some(address), other.next()]).flatten().collect();
    mixed.extend(other);
    mixed
}

/// The first connection that stands. Each address gets a head start; a refusal starts the next one at once.
async fn dial(addresses: Vec<SocketAddr>) -> Result<TcpStream, String> {
    let mut waiting = addresses.into_iter();
    let mut dialling = FuturesUnordered::new();
    let mut refusals = Vec::new();
    dialling.extend(waiting.next().map(attempt));
    loop {
        tokio::select! {
            ended = dialling.next(), if !dialling.is_empty() => match ended {
                Some((_, Ok(tcp))) => return Ok(tcp),
                Some((address, Err(e))) => {
                    refusals.push(format!("{address}: {e}"));
                    dialling.extend(waiting.next().map(attempt));
                }
                None => {}
            },
            () = tokio::time::sleep(HEAD_START), if !waiting.as_slice().is_empty() => {
                dialling.extend(waiting.next().map(attempt));
            }
            else => return Err(refusals.join("; ")),
        }
    }
}

async fn attempt(address: SocketAddr) -> (SocketAddr, io::Result<TcpStream>) {
    (address, TcpStream::connect(address).await)
}
