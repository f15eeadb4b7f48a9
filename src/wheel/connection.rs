//! A connection to Redis, and how one is made: to one server, to the master that sentinels name just then, or to the nodes of a Cluster.

use std::path::Path;
use std::time::Duration;

use deadpool_redis::{Manager, Pool, Runtime, Timeouts};
use redis::aio::MultiplexedConnection;
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, RedisConnectionInfo, RedisResult,
    TlsCertificates, Value,
};
use secrecy::ExposeSecret;
use tokio::sync::Mutex;

use super::address::Address;
use super::fault;
use super::settings::RedisSettings;
use crate::error::{Error, Invalid, Result, StoreKind};

/// How often the client of a Cluster follows a slot to where it has moved. What it sends again is told apart by nonce and fence.
const REDIRECTS: u32 = 3;

/// A connection that many callers share.
#[derive(Clone)]
pub enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connection {
    pub async fn ask(&mut self, cmd: &Cmd) -> RedisResult<Value> {
        match self {
            Self::One(connection) => cmd.query_async(connection).await,
            Self::Cluster(connection) => cmd.query_async(connection).await,
        }
    }
}

/// Makes connections.
pub enum Connector {
    One(Pool),
    Master { sentinels: Mutex<SentinelClient>, config: AsyncConnectionConfig, limit: Duration },
    Cluster { client: ClusterClient, limit: Duration },
}

impl Connector {
    pub fn new(settings: &RedisSettings) -> Result<Self> {
        let bad_url = |reason: String| Error::Invalid(Invalid::new("redis.url", "", reason));
        let bad_client = |e: redis::RedisError| {
            bad_url(format!("not a Redis URL: {}", e.detail().unwrap_or("see the documentation")))
        };
        let authorities = settings.ca_file.as_deref().map(authorities).transpose().map_err(|reason| {
            let file = settings.ca_file.as_deref().unwrap_or(Path::new("")).to_string_lossy().into_owned();
            Error::Invalid(Invalid::new("redis.ca_file", &file, reason))
        })?;
        // Calls of many callers share a connection: one that is ready must not wait until an earlier one was answered (Nagle's algorithm).
        let tcp = TcpSettings::default().set_nodelay(true);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(settings.connect_timeout))
            .set_response_timeout(Some(settings.response_timeout));
        match Address::parse(settings.url.expose_secret()).map_err(bad_url)? {
            Address::One(info) => {
                let mut info = info.set_tcp_settings(tcp);
                if let Some(authorities) = authorities {
                    let client = redis::Client::build_with_tls(info, authorities).map_err(bad_client)?;
                    info = client.get_connection_info().clone();
                }
                pool(info, config, settings).map(Self::One)
            }
            Address::Master { sentinels, login, service } => {
                let client = master(&sentinels, &login, &service, authorities, tcp).map_err(bad_client)?;
                // Sentinels that do not answer are passed over, each in its time.
                let limit = settings.connect_timeout * u32::try_from(sentinels.len() + 1).unwrap_or(1);
                Ok(Self::Master { sentinels: Mutex::new(client), config, limit })
            }
            Address::Cluster(nodes) => {
                let limit = settings.connect_timeout * u32::try_from(nodes.len() + 1).unwrap_or(1);
                let mut builder = ClusterClientBuilder::new(nodes)
                    .connection_timeout(settings.connect_timeout)
                    .response_timeout(settings.response_timeout)
                    .overall_response_timeout(Some(settings.response_timeout * 2))
                    .retries(REDIRECTS)
                    .tcp_settings(tcp);
                if let Some(authorities) = authorities {
                    builder = builder.certs(authorities);
                }
                Ok(Self::Cluster { client: builder.build().map_err(bad_client)?, limit })
            }
        }
    }

    /// Whether the keys of a shard may be anywhere, and move.
    pub fn is_cluster(&self) -> bool {
        matches!(self, Self::Cluster { .. })
    }

    pub async fn connect(&self, attempted: &str) -> Result<Connection> {
        let late = || Error::Store {
            kind: StoreKind::Unreachable,
            attempted: attempted.to_owned(),
            message: "no connection within redis.connect_timeout".to_owned(),
        };
        match self {
            Self::One(pool) => {
                let pooled = pool.get().await.map_err(|e| fault::from_pool(e, attempted))?;
                Ok(Connection::One(deadpool_redis::Connection::take(pooled)))
            }
            Self::Master { sentinels, config, limit } => {
                let made = async { sentinels.lock().await.get_async_connection_with_config(config).await };
                let made = tokio::time::timeout(*limit, made).await.map_err(|_| late())?;
                made.map(Connection::One).map_err(|e| fault::from_connect(&e, attempted))
            }
            Self::Cluster { client, limit } => {
                let made =
                    tokio::time::timeout(*limit, client.get_async_connection()).await.map_err(|_| late())?;
                made.map(Connection::Cluster).map_err(|e| fault::from_connect(&e, attempted))
            }
        }
    }
}

fn pool(info: ConnectionInfo, config: AsyncConnectionConfig, settings: &RedisSettings) -> Result<Pool> {
    let bad_url = |reason: String| Error::Invalid(Invalid::new("redis.url", "", reason));
    let manager = Manager::new_with_config(info, config).map_err(|e| {
        bad_url(format!("not a Redis URL: {}", e.detail().unwrap_or("see the documentation")))
    })?;
    Pool::builder(manager)
        .max_size(settings.pool_size)
        .runtime(Runtime::Tokio1)
        .timeouts(Timeouts {
            wait: Some(settings.response_timeout),
            create: Some(settings.connect_timeout),
            recycle: Some(Duration::from_secs(1)),
        })
        .build()
        .map_err(|e| bad_url(e.to_string()))
}

/// Asks the sentinels for the master each time a connection is made, and the server that they name whether it is one.
fn master(
    sentinels: &[ConnectionInfo],
    login: &RedisConnectionInfo,
    service: &str,
    authorities: Option<TlsCertificates>,
    tcp: TcpSettings,
) -> RedisResult<SentinelClient> {
    let addresses: Vec<ConnectionAddr> = sentinels.iter().map(|sentinel| sentinel.addr().clone()).collect();
    let is_tls = matches!(addresses.first(), Some(ConnectionAddr::TcpTls { .. }));
    let mut builder = SentinelClientBuilder::new(addresses, service, SentinelServerType::Master)?
        .set_client_to_redis_tcp_settings(tcp.clone())
        .set_client_to_sentinel_tcp_settings(tcp);
    if let Some(sentinel) = sentinels.first() {
        let redis = sentinel.redis_settings();
        builder = builder.set_client_to_redis_db(redis.db());
        if let Some(username) = redis.username() {
            builder = builder.set_client_to_redis_username(username);
        }
        if let Some(password) = redis.password() {
            builder = builder.set_client_to_redis_password(password);
        }
    }
    if is_tls {
        builder = builder.set_client_to_redis_tls_mode(redis::TlsMode::Secure);
    }
    if let Some(authorities) = authorities {
        builder = builder.set_client_to_redis_certificates(authorities.clone());
        builder = builder.set_client_to_sentinel_certificates(authorities);
    }
    if let Some(username) = login.username() {
        builder = builder.set_client_to_sentinel_username(username);
    }
    if let Some(password) = login.password() {
        builder = builder.set_client_to_sentinel_password(password);
    }
    builder.build()
}

/// The authorities of this PEM file, which vouch for the server.
fn authorities(file: &Path) -> Result<TlsCertificates, String> {
    let pem = std::fs::read(file).map_err(|e| e.to_string())?;
    let begins = b"-----BEGIN CERTIFICATE-----";
    if !pem.windows(begins.len()).any(|part| part == begins) {
        return Err("holds no certificate, expected PEM".to_owned());
    }
    Ok(TlsCertificates { client_tls: None, root_cert: Some(pem) })
}
