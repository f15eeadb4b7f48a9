//! What Redis's errors mean: the table of docs/protocol.md in code.

use redis::{ErrorKind, RedisError};

use crate::error::{Error, StoreKind};

/// Turns a client error into ours. `attempted` says what was being done.
pub fn from_redis(error: &RedisError, attempted: impl Into<String>) -> Error {
    if let Some(problem) = misconfigured(error) {
        return Error::Config(vec![problem]);
    }
    Error::Store { kind: kind_of(error), attempted: attempted.into(), message: message_of(error) }
}

/// Turns a pool error into ours.
pub fn from_pool(error: deadpool_redis::PoolError, attempted: impl Into<String>) -> Error {
    match error {
        deadpool_redis::PoolError::Backend(error) => from_connect(&error, attempted),
        other => Error::Store {
            kind: StoreKind::Unreachable,
            attempted: attempted.into(),
            message: other.to_string(),
        },
    }
}

/// Turns an error of making a connection into ours.
pub fn from_connect(error: &RedisError, attempted: impl Into<String>) -> Error {
    match from_redis(error, attempted) {
        // Nothing was sent yet, so nothing can have happened.
        Error::Store { kind: StoreKind::Unknown, attempted, message } => {
            let message = format!("{message}{}", advice(&message));
            Error::Store { kind: StoreKind::Unreachable, attempted, message }
        }
        other => other,
    }
}

/// What no later try can mend: the address names a database that there is not.
fn misconfigured(error: &RedisError) -> Option<String> {
    let detail = error.detail().unwrap_or_default();
    let problem =
        || format!("redis.url: names a database that this server does not have ({})", message_of(error));
    (detail.contains("DB index is out of range") || detail.contains("invalid DB index")).then(problem)
}

/// What to look at when the server's certificate is not believed.
fn advice(message: &str) -> &'static str {
    if message.contains("UnknownIssuer") {
        "; redis.ca_file names the authorities that may vouch for it"
    } else if message.contains("not valid for name") {
        "; a certificate must be for the host that redis.url names, or that the sentinels and nodes announce"
    } else {
        ""
    }
}

fn message_of(error: &RedisError) -> String {
    // The whole Display repeats code and detail; neither ever holds credentials.
    crate::error::escaped(&error.to_string())
}

fn kind_of(error: &RedisError) -> StoreKind {
    if error.is_connection_refusal() {
        return StoreKind::Unreachable;
    }
    // Whoever answers is no Redis: a wrong port, or a proxy that speaks HTTP. Or no sentinel, or none that knows the master; or no node.
    if matches!(
        error.kind(),
        ErrorKind::Parse
            | ErrorKind::InvalidClientConfig
            | ErrorKind::MasterNameNotFoundBySentinel
            | ErrorKind::ClusterConnectionNotFound
    ) {
        return StoreKind::Unreachable;
    }
    if error.is_timeout() || error.is_connection_dropped() || error.is_io_error() {
        return StoreKind::Unknown;
    }
    let detail = error.detail().unwrap_or_default();
    match error.code().unwrap_or_default() {
        "LOADING" => StoreKind::Loading,
        "BUSY" => StoreKind::Busy,
        "OOM" => StoreKind::OutOfMemory,
        "READONLY" | "MASTERDOWN" => StoreKind::ReadOnly,
        "NOREPLICAS" => StoreKind::NoReplicas,
        "MISCONF" => StoreKind::CannotPersist,
        "NOAUTH" | "WRONGPASS" | "NOPERM" => StoreKind::Denied,
        "TRYAGAIN" | "MOVED" | "ASK" | "CLUSTERDOWN" => StoreKind::Moving,
        "UNFORMATTED" => StoreKind::Unformatted,
        "LAYOUT" => StoreKind::Layout,
        "WRONGTYPE" | "BADHEADER" | "BADCALL" => StoreKind::Corrupt,
        // The connection was refused, and nothing was sent; there may be room for one later.
        _ if detail.contains("max number of clients") => StoreKind::Unreachable,
        // Scripts of a shard meet this on the source of a hash-slot migration, before their first write.
        _ if detail.contains("non local key") => StoreKind::Moving,
        _ if detail.contains("script:") || detail.contains("user_script") => StoreKind::Corrupt,
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => StoreKind::Denied,
        _ => StoreKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> RedisError {
        match redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).unwrap() {
            redis::Value::ServerError(error) => error.into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_error_of_redis_has_the_kind_that_the_protocol_names() {
        for (text, kind) in [
            ("LOADING Redis is loading the dataset in memory", StoreKind::Loading),
            ("BUSY Redis is busy running a script", StoreKind::Busy),
            ("OOM command not allowed when used memory > 'maxmemory'.", StoreKind::OutOfMemory),
            ("READONLY You can't write against a read only replica.", StoreKind::ReadOnly),
            ("MASTERDOWN Link with MASTER is down", StoreKind::ReadOnly),
            ("NOREPLICAS Not enough good replicas to write.", StoreKind::NoReplicas),
            ("MISCONF Errors writing to the AOF file: No space left on device", StoreKind::CannotPersist),
            ("NOAUTH Authentication required.", StoreKind::Denied),
            ("WRONGPASS invalid username-password pair or user is disabled.", StoreKind::Denied),
            ("NOPERM this user has no permissions to run the 'evalsha' command", StoreKind::Denied),
            ("TRYAGAIN Multiple keys request during rehashing of slot", StoreKind::Moving),
            ("CLUSTERDOWN The cluster is down", StoreKind::Moving),
            ("UNFORMATTED shard", StoreKind::Unformatted),
            ("LAYOUT 2", StoreKind::Layout),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", StoreKind::Corrupt),
            ("ERR max number of clients reached", StoreKind::Unreachable),
            ("ERR Script attempted to access a non local key in a cluster node", StoreKind::Moving),
            ("ERR unknown command 'EVALSHA'", StoreKind::Other),
        ] {
            assert_eq!(kind_of(&said(text)), kind, "{text}");
        }
    }

    #[test]
    fn a_database_that_there_is_not_is_a_mistake_in_the_configuration() {
        let error = from_redis(&said("ERR DB index is out of range"), "connect");
        assert!(
            matches!(&error, Error::Config(problems) if problems[0].starts_with("redis.url: ")),
            "{error}"
        );
    }
}
