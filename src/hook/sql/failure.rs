//! What a database's error means for the orders of the transaction that met it.

use crate::error::escaped;

/// Why a transaction did not close its orders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// The database asks for the whole transaction again: deadlock, serialization, busy, a statement it has forgotten.
    Again(String),
    /// The session was lost before the commit was sent: nothing happened, a fresh one may do.
    Lost(String),
    /// Somebody else has some row locked for too long: one order may hold up the others.
    Blocked(String),
    /// A statement took too long: of one order, or because the database is slow with all of them.
    Slow(String),
    /// The data of some order does not pass: counted as that order's failed attempt.
    Data(String),
    /// The close matched other rows than the one that was meant: refused for good.
    Mismatch(String),
    /// No session could be made because nobody answers.
    Away(String),
    /// The database answers that it cannot serve just now: too many sessions, disk full, memory short. It may without a person.
    Full(String),
    /// The database cannot be asked, or the configuration does not fit it: no order's fault.
    Unavailable(String),
    /// The commit was sent and its answer did not come.
    Unknown(String),
}

impl Failure {
    /// What the database or the connection said.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Again(r)
            | Self::Lost(r)
            | Self::Blocked(r)
            | Self::Slow(r)
            | Self::Data(r)
            | Self::Mismatch(r)
            | Self::Away(r)
            | Self::Full(r)
            | Self::Unavailable(r)
            | Self::Unknown(r) => r,
        }
    }

    /// The same failure, with what was attempted in front.
    pub(super) fn during(self, attempted: &str) -> Self {
        let say = |reason: String| format!("{attempted}: {reason}");
        match self {
            Self::Again(r) => Self::Again(say(r)),
            Self::Lost(r) => Self::Lost(say(r)),
            Self::Blocked(r) => Self::Blocked(say(r)),
            Self::Slow(r) => Self::Slow(say(r)),
            Self::Data(r) => Self::Data(say(r)),
            Self::Mismatch(r) => Self::Mismatch(say(r)),
            Self::Away(r) => Self::Away(say(r)),
            Self::Full(r) => Self::Full(say(r)),
            Self::Unavailable(r) => Self::Unavailable(say(r)),
            Self::Unknown(r) => Self::Unknown(say(r)),
        }
    }

    /// Whether waiting may help, without a person: the database is away, busy, or was lost on the way.
    pub(super) fn may_pass(&self) -> bool {
        !matches!(self, Self::Data(_) | Self::Mismatch(_) | Self::Unavailable(_))
    }

    /// Whether a smaller part of the batch may fare better.
    pub(super) fn is_of_one_order(&self) -> bool {
        matches!(self, Self::Blocked(_) | Self::Slow(_) | Self::Data(_) | Self::Mismatch(_))
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        let reason = cut(&escaped(&describe(&error)));
        match &error {
            sqlx::Error::Database(database) => {
                if let Some(postgres) = database.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
                    return of_postgres(postgres.code(), reason);
                }
                if let Some(mysql) = database.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
                    return of_mysql(mysql.number(), mysql.code().unwrap_or_default(), reason);
                }
                let code = database.code().and_then(|c| c.parse::<i32>().ok());
                of_sqlite(code.unwrap_or(1), reason)
            }
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => Self::Lost(reason),
            sqlx::Error::Encode(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                Self::Data(reason)
            }
            _ => Self::Unavailable(reason),
        }
    }
}

/// The error in words: for PostgreSQL with its code and detail, which name the constraint and the value.
fn describe(error: &sqlx::Error) -> String {
    let sqlx::Error::Database(database) = error else { return error.to_string() };
    let code = match database.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        Some(mysql) => mysql.number().to_string(),
        None => database.code().unwrap_or_default().into_owned(),
    };
    let detail = database
        .try_downcast_ref::<sqlx::postgres::PgDatabaseError>()
        .and_then(|postgres| postgres.detail())
        .map_or_else(String::new, |detail| format!(" ({detail})"));
    format!("{} [{code}]{detail}", database.message())
}

/// At most 2 KiB: what is stored with a deadline has its limit, and a statement in front of it has its place.
fn cut(text: &str) -> String {
    let end = (0..=text.len().min(2048)).rev().find(|&n| text.is_char_boundary(n)).unwrap_or(0);
    text[..end].to_owned()
}

fn of_postgres(code: &str, reason: String) -> Failure {
    match code {
        // Named statements under a pooler; a plan that a change of the schema made stale.
        "26000" | "42P05" | "0A000" => Failure::Again(reason),
        "55P03" => Failure::Blocked(reason),
        "57014" => Failure::Slow(reason),
        "25P03" | "57P01" | "57P02" | "57P03" | "57P05" => Failure::Lost(reason),
        _ => match code.get(..2) {
            Some("40") => Failure::Again(reason),
            Some("08") => Failure::Lost(reason),
            // Too little of something; stopped by somebody; the system around it.
            Some("53" | "57" | "58") => Failure::Full(reason),
            // 42: a name or a right is missing. 25006: this is a standby. XX: the server itself.
            Some("25" | "28" | "3D" | "3F" | "42" | "F0" | "XX") => Failure::Unavailable(reason),
            _ => Failure::Data(reason),
        },
    }
}

fn of_mysql(number: u16, state: &str, reason: String) -> Failure {
    match number {
        // Deadlock; record changed since last read; statement to be prepared again, or forgotten; table changed; the engine would not
        // commit, and rolled back (met on MariaDB 10.11 by checks that ran side by side).
        1213 | 1020 | 1615 | 1243 | 1412 | 1180 => Failure::Again(reason),
        // Lock wait; NOWAIT.
        1205 | 3572 => Failure::Blocked(reason),
        // Statement time (MariaDB, MySQL); KILL QUERY.
        1969 | 3024 | 1317 => Failure::Slow(reason),
        // Killed, shut down, gone, lost, idle for too long, network.
        1053 | 1927 | 2006 | 2013 | 4031 | 1158..=1161 | 1184 | 1152 => Failure::Lost(reason),
        // Too many connections, in all or of this user; host blocked; disk or table full; out of memory.
        1040 | 1203 | 1226 | 1129 | 1021 | 1114 | 1041 | 1037 | 1038 => Failure::Full(reason),
        // Host not allowed, read-only, and what names or rights are missing.
        1130 | 1290 | 1792 | 1836 | 1044 | 1045 | 1142 | 1143 | 1227 | 1370 | 1054 | 1064 | 1146 | 1049
        | 1305 | 1046 | 1149 | 1267 => Failure::Unavailable(reason),
        _ if state.starts_with("08") => Failure::Lost(reason),
        _ if state.starts_with("42") && number != 1644 => Failure::Unavailable(reason),
        _ => Failure::Data(reason),
    }
}

fn of_sqlite(code: i32, reason: String) -> Failure {
    match code & 0xff {
        // Busy, locked, schema changed.
        5 | 6 | 17 => Failure::Again(reason),
        // Constraint, mismatch, too big, range.
        18 | 19 | 20 | 25 => Failure::Data(reason),
        // Out of memory, input or output, disk full.
        7 | 10 | 13 => Failure::Full(reason),
        _ => Failure::Unavailable(reason),
    }
}
