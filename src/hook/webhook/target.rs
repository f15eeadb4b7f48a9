//! The endpoint's URL, read strictly: what a person reads in it is what is called.

use std::net::IpAddr;

use url::{Host, Url};

use super::address::why_not_public;
use crate::error::Invalid;

/// Where calls go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// A name to look up, or an address as it stands.
    pub host: TargetHost,
    /// The port, never 0.
    pub port: u16,
    /// The request line's target. May hold a token: never shown.
    pub path_and_query: String,
    /// The `Host` header: the port is left out where it is the scheme's own.
    pub authority: String,
}

/// The two kinds of host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TargetHost {
    /// A name, in lower case.
    Name(String),
    /// An address literal.
    Address(IpAddr),
}

impl Target {
    /// Reads `url`; an address literal that is not public is refused unless `allow_private`.
    pub fn parse(url: &str, allow_private: bool) -> Result<Self, Invalid> {
        // The value is not shown: a password or a token may stand in it.
        let refuse = |reason: String| Err(Invalid::new("url", "", reason));
        if !url.bytes().all(|b| b.is_ascii_graphic() && b != b'\\') {
            return refuse(
                "expected printable ASCII without spaces or backslashes; write a name of another script in its xn-- form"
                    .to_owned(),
            );
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return refuse("expected http:// or https:// and a host".to_owned());
        };
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            other => return refuse(format!("scheme \"{other}\", expected http or https")),
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return refuse("user or password in the URL; send a header instead".to_owned());
        }
        if url.contains('#') {
            return refuse("a fragment (#…) is never sent; leave it out".to_owned());
        }
        let written = written_host(authority);
        if written.is_empty() {
            return refuse("no host".to_owned());
        }
        let parsed = match Url::parse(url) {
            Ok(parsed) => parsed,
            Err(e) => return refuse(e.to_string()),
        };
        let host = match parsed.host() {
            Some(Host::Ipv4(v4)) if written != v4.to_string() => {
                return refuse(format!("host \"{written}\" is a disguise of {v4}; write it so"));
            }
            Some(Host::Ipv4(v4)) => TargetHost::Address(IpAddr::V4(v4)),
            Some(Host::Ipv6(v6)) => TargetHost::Address(IpAddr::V6(v6)),
            Some(Host::Domain(name)) if name.ends_with('.') => {
                return refuse(format!("host \"{name}\" ends with a dot; leave it out"));
            }
            Some(Host::Domain(name)) if !name.eq_ignore_ascii_case(written) => {
                return refuse(format!("host \"{written}\" is a disguise of {name}; write it so"));
            }
            Some(Host::Domain(name)) => TargetHost::Name(name.to_owned()),
            None => return refuse("no host".to_owned()),
        };
        if let TargetHost::Address(address) = host
            && !allow_private
            && let Some(kind) = why_not_public(address)
        {
            return refuse(format!("address {address} is not public ({kind}); allow_private permits it"));
        }
        let port = parsed.port_or_known_default().unwrap_or_default();
        if port == 0 {
            return refuse("port 0, expected 1 to 65535".to_owned());
        }
        let path_and_query = match parsed.query() {
            Some(query) => format!("{}?{query}", parsed.path()),
            None => parsed.path().to_owned(),
        };
        let host_str = parsed.host_str().unwrap_or_default();
        let authority = match parsed.port() {
            Some(port) => format!("{host_str}:{port}"),
            None => host_str.to_owned(),
        };
        Ok(Self { tls, host, port, path_and_query, authority })
    }

    /// What is called, without the query.
    pub fn resource(&self) -> (String, &str) {
        (self.origin(), self.path_and_query.split('?').next().unwrap_or_default())
    }

    /// Scheme, host and port: what errors and warnings may show.
    pub fn origin(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }
}

/// The host as it was typed, between user and port.
fn written_host(authority: &str) -> &str {
    if authority.starts_with('[') {
        authority.split_inclusive(']').next().unwrap_or_default()
    } else {
        authority.split(':').next().unwrap_or_default()
    }
}
