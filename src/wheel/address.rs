//! Where Redis is, as its URL says: one server, the sentinels that know the master of a service, or some nodes of a Cluster.
//!
//! `redis://host:port/db` and its kin (`rediss`, `valkey`, `valkeys`, `unix`); `redis+sentinel://[user:password@]host[:26379],…/service[/db]`,
//! with `?sentinel_username=` and `?sentinel_password=` where the sentinels ask for a login of their own; `redis+cluster://[user:password@]host:port,…`.
//! `rediss+…` is the same over TLS. There is no standard for the last two; these forms are what other clients read.

use redis::{ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo};

/// The service that sentinels are asked for where the URL names none.
const SERVICE: &str = "mymaster";
/// What a URL may be, for an error.
const FORMS: &str = "expected redis://host:port/db, rediss://…, valkey://…, unix:///path, \
                     redis+sentinel://host,…/service or redis+cluster://host,…";

/// Where Redis is.
#[derive(Debug)]
pub enum Address {
    /// One server.
    One(ConnectionInfo),
    /// The master of a service.
    Master {
        /// Sentinels, with the login of the servers and not their own.
        sentinels: Vec<ConnectionInfo>,
        /// The login at the sentinels themselves.
        login: RedisConnectionInfo,
        /// What they call the master.
        service: String,
    },
    /// A Cluster, by some of its nodes.
    Cluster(Vec<ConnectionInfo>),
}

impl Address {
    /// Reads a URL. The error says what is wrong, and never holds the URL: it may bear a password.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or(FORMS)?;
        if let "unix" | "redis+unix" | "valkey+unix" = scheme {
            return socket(url, rest).map(Self::One);
        }
        let (scheme, kind) = match scheme.rsplit_once(['+', '-']) {
            Some((scheme, kind @ ("sentinel" | "cluster"))) => (scheme, kind),
            _ => (scheme, "one"),
        };
        if !matches!(scheme, "redis" | "rediss" | "valkey" | "valkeys") {
            return Err(FORMS.to_owned());
        }
        if kind == "one" {
            return server(url).map(Self::One);
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match place.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), place),
        };
        let (path, db) =
            path.trim_end_matches('/').split_once('/').unwrap_or((path.trim_end_matches('/'), ""));
        if kind == "cluster" {
            if !query.is_empty() || !matches!((path, db), ("" | "0", "")) {
                return Err(
                    "a Cluster has database 0 and no other: expected nothing behind the hosts".to_owned()
                );
            }
            let node = |host: &str| info(&format!("{scheme}://{login}{host}/"));
            return hosts.split(',').map(node).collect::<Result<_, _>>().map(Self::Cluster);
        }
        number_of_database(db)?;
        let sentinel = |host: &str| {
            let has_port = host.rsplit_once(']').map_or(host, |(_, behind)| behind).contains(':');
            let port = if has_port { "" } else { ":26379" };
            info(&format!("{scheme}://{login}{host}{port}/{db}"))
        };
        Ok(Self::Master {
            sentinels: hosts.split(',').map(sentinel).collect::<Result<_, _>>()?,
            login: own_login(query)?,
            service: if path.is_empty() { SERVICE.to_owned() } else { path.to_owned() },
        })
    }
}

/// One server. The client itself would find some of this out only when it connects.
fn server(url: &str) -> Result<ConnectionInfo, String> {
    let parsed = url::Url::parse(url).map_err(|e| format!("{e}; {FORMS}"))?;
    if parsed.host_str().is_none_or(str::is_empty) {
        return Err(format!("names no host; {FORMS}"));
    }
    if parsed.port() == Some(0) {
        return Err("port 0 is no port".to_owned());
    }
    number_of_database(parsed.path().trim_matches('/'))?;
    info(url)
}

/// One server of this machine, by its socket.
fn socket(url: &str, path: &str) -> Result<ConnectionInfo, String> {
    if !path.starts_with('/') {
        return Err(FORMS.to_owned());
    }
    info(url)
}

fn number_of_database(text: &str) -> Result<(), String> {
    if text.is_empty() || text.parse::<u16>().is_ok() {
        return Ok(());
    }
    Err(format!("\"{}\" is no database number", crate::error::shown(text)))
}

/// The login at the sentinels, from the URL's query.
fn own_login(query: &str) -> Result<RedisConnectionInfo, String> {
    let (mut username, mut password) = ("", None);
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        match name {
            "sentinel_username" => username = value,
            "sentinel_password" => password = Some(value),
            _ => {
                let name = crate::error::shown(name);
                return Err(format!("\"{name}\": expected sentinel_username or sentinel_password"));
            }
        }
    }
    let Some(password) = password else { return Ok(RedisConnectionInfo::default()) };
    // The client's own reading of a URL takes care of what is percent-encoded.
    info(&format!("redis://{username}:{password}@host/")).map(|info| info.redis_settings().clone())
}

fn info(url: &str) -> Result<ConnectionInfo, String> {
    let read = url.into_connection_info();
    read.map_err(|e| format!("not a Redis URL: {}; {FORMS}", e.detail().unwrap_or("see the documentation")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        let place = |info: &ConnectionInfo| info.addr().to_string();
        let login =
            |info: &RedisConnectionInfo| format!("{:?} {:?} {}", info.username(), info.password(), info.db());
        match Address::parse(url) {
            Ok(Address::One(info)) => format!("one {}", place(&info)),
            Ok(Address::Master { sentinels, login: own, service }) => {
                let places: Vec<_> = sentinels.iter().map(place).collect();
                format!(
                    "{service} by {}; {}; {}",
                    places.join(" "),
                    login(sentinels[0].redis_settings()),
                    login(&own)
                )
            }
            Ok(Address::Cluster(nodes)) => {
                let places: Vec<_> = nodes.iter().map(place).collect();
                format!("cluster {}; {}", places.join(" "), login(nodes[0].redis_settings()))
            }
            Err(reason) => reason,
        }
    }

    #[test]
    fn sentinels_are_read_with_their_service_database_and_both_logins() {
        assert_eq!(
            shown(
                "redis+sentinel://me:p%40ss@a,b:5000,[::1]/shop/3?sentinel_username=w&sentinel_password=x%26y"
            ),
            "shop by a:26379 b:5000 ::1:26379; Some(\"me\") Some(\"p@ss\") 3; Some(\"w\") Some(\"x&y\") 0"
        );
        assert_eq!(shown("redis-sentinel://a"), "mymaster by a:26379; None None 0; None None 0");
        assert!(shown("rediss+sentinel://a/s").starts_with("s by "));
    }

    #[test]
    fn nodes_of_a_cluster_are_read_with_their_login() {
        let read = shown("redis+cluster://me:pw@a:7000,b:7001");
        assert_eq!(read, "cluster a:7000 b:7001; Some(\"me\") Some(\"pw\") 0");
        assert_eq!(shown("valkey-cluster://a"), "cluster a:6379; None None 0");
        assert_eq!(shown("redis://a:7/1"), "one a:7");
    }

    #[test]
    fn what_is_no_address_is_refused_and_no_password_is_shown() {
        for (url, reason) in [
            ("redis+cluster://a/5", "database 0"),
            ("redis+cluster://a,,b", "not a Redis URL"),
            ("redis+sentinel://:hush@/s", "not a Redis URL"),
            ("redis+sentinel://a/s/x", "no database number"),
            ("redis+sentinel://a/s?password=hush", "expected sentinel_username"),
            ("http+cluster://a", "expected redis://"),
            ("a:6379", "expected redis://"),
            ("http://a", "expected redis://"),
            ("redis://:hush@/0", "expected redis://"),
            ("redis://a:0", "port 0"),
            ("redis://a/one", "no database number"),
            ("unix://run/redis", "expected redis://"),
            ("rediss+unix:///run/redis", "expected redis://"),
        ] {
            let read = shown(url);
            assert!(read.contains(reason) && !read.contains("hush"), "{url}: {read}");
        }
    }
}
