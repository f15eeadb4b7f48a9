//! What Redis's errors mean: the table of docs/protocol.md in code.

use redis::RedisError;

use crate::error::{Error, StoreKind};

/// Turns a client error into ours. `attempted` says what was being done.
pub fn from_redis(error: &RedisError, attempted: impl Into<String>) -> Error {
    Error::Store { kind: kind_of(error), attempted: attempted.into(), message: message_of(error) }
}

/// Turns a pool error into ours.
pub fn from_pool(error: deadpool_redis::PoolError, attempted: impl Into<String>) -> Error {
    match error {
        deadpool_redis::PoolError::Backend(error) => {
            let kind = match kind_of(&error) {
                // Nothing was sent yet, so nothing can have happened.
                StoreKind::Unknown => StoreKind::Unreachable,
                kind => kind,
            };
            Error::Store { kind, attempted: attempted.into(), message: message_of(&error) }
        }
        other => Error::Store {
            kind: StoreKind::Unreachable,
            attempted: attempted.into(),
            message: other.to_string(),
        },
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
    // Whoever answers is no Redis: a wrong port, or a proxy that speaks HTTP.
    if error.kind() == redis::ErrorKind::Parse {
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
