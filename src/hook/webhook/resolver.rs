//! From a host name to addresses. A trait, so that an embedder with its own name service can bring it, and a test can lie.

use std::io;
use std::net::IpAddr;

use crate::hook::BoxFuture;

/// Finds the addresses of a host. Asked once for each connection; what it answers is checked before anything is dialled, and exactly
/// the checked addresses are dialled.
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of `host`, in the order of preference; an error, or none, where there is no such host.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's own name service (`getaddrinfo`), with its hosts file, search rules and caching.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
