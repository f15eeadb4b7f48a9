//! The connections to Redis. A connector makes them and bounds how long that may take; a few *lanes* hold one each and share it between
//! all callers, because a checkout costs a round trip of its own and scripts are short. A lane that failed is made anew by its next
//! user, so a restart, a kill or a demotion costs one error and no restart of ours.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use redis::{Cmd, ErrorKind, ServerErrorKind, Value};
use tokio::sync::Mutex;

use super::connection::{Connection, Connector};
use super::fault;
use super::measures::Measures;
use super::script::Script;
use super::settings::RedisSettings;
use crate::error::{Error, Result, StoreKind};
use crate::metrics::Metrics;

/// Redis, reached.
pub struct Store {
    connector: RwLock<Arc<Connector>>,
    lanes: Vec<Lane>,
    turn: AtomicUsize,
    reconnects: AtomicU64,
    measures: Measures,
}

#[derive(Default)]
struct Lane {
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    held: Option<Held>,
    /// When a connection could not be made last, and why.
    refused: Option<(Instant, StoreKind, String)>,
}

#[derive(Clone)]
struct Held {
    connection: Connection,
    /// Tells this connection from the one that replaced it, so that two callers who saw the same failure drop it once.
    number: u64,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("lanes", &self.lanes.len()).finish_non_exhaustive()
    }
}

impl Store {
    /// Prepares the connections; the first use makes the first one.
    pub fn new(settings: &RedisSettings) -> Result<Self> {
        let connector = RwLock::new(Arc::new(Connector::new(settings)?));
        // Two: one carries claims and settles while the other is being made anew or carries a long listing.
        let lanes = (0..2).map(|_| Lane::default()).collect();
        Ok(Self {
            connector,
            lanes,
            turn: AtomicUsize::new(0),
            reconnects: AtomicU64::new(0),
            measures: Measures::new(&Metrics::new()),
        })
    }

    /// The same connections, counting into these metrics.
    pub fn measured_by(self, metrics: &Metrics) -> Self {
        Self { measures: Measures::new(metrics), ..self }
    }

    /// Makes new connections by these settings from now on: the same Redis, with a password that was changed. Those that are open stay,
    /// since Redis goes on serving them.
    pub fn set_login(&self, settings: &RedisSettings) -> Result<()> {
        let connector = Arc::new(Connector::new(settings)?);
        *self.connector.write().unwrap_or_else(PoisonError::into_inner) = connector;
        Ok(())
    }

    /// How often a lane had to be made anew.
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    /// Runs a script: EVALSHA, and EVAL once where the server does not know it (restart, failover, SCRIPT FLUSH).
    pub async fn run(
        &self,
        script: &Script,
        keys: &[String],
        args: impl FnOnce(&mut Cmd),
        attempted: &str,
    ) -> Result<Value> {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(script.sha()).arg(keys.len()).arg(keys);
        args(&mut cmd);
        let lane = self.lane();
        let mut held = self.hold(lane, attempted).await?;
        let (_under_way, began) = (self.measures.begin(), Instant::now());
        let outcome = match held.connection.ask(&cmd).await {
            Err(e) if e.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                held.connection.ask(&with_source(&cmd, script.source())).await
            }
            other => other,
        };
        self.measures.took(script, began.elapsed());
        self.judge(lane, &held, outcome, attempted).await
    }

    /// Runs one plain command.
    pub async fn command(&self, cmd: &Cmd, attempted: &str) -> Result<Value> {
        let lane = self.lane();
        let mut held = self.hold(lane, attempted).await?;
        let _under_way = self.measures.begin();
        let outcome = held.connection.ask(cmd).await;
        self.judge(lane, &held, outcome, attempted).await
    }

    /// Runs a plain command that the program's user may not be allowed: that it is refused is an answer and no failure.
    pub(super) async fn command_if_allowed(&self, cmd: &Cmd, attempted: &str) -> Result<Value> {
        let lane = self.lane();
        let mut held = self.hold(lane, attempted).await?;
        let outcome = held.connection.ask(cmd).await;
        match outcome.map_err(|e| (fault::from_redis(&e, attempted), e)) {
            Ok(value) => Ok(value),
            Err((error, _)) if matches!(error.store_kind(), Some(StoreKind::Denied | StoreKind::Other)) => {
                Err(error)
            }
            Err((_, e)) => self.judge(lane, &held, Err(e), attempted).await,
        }
    }

    /// Whether this is a node of a Redis Cluster, where keys may move to another node at any time.
    pub(super) async fn is_cluster(&self) -> Result<bool> {
        if self.connector().is_cluster() {
            return Ok(true);
        }
        let hello = self.command(&redis::cmd("HELLO"), "ask for the mode of Redis").await?;
        let words: Vec<Value> = match hello {
            Value::Map(pairs) => pairs.into_iter().flat_map(|(name, value)| [name, value]).collect(),
            Value::Array(words) => words,
            _ => Vec::new(),
        };
        let text = |value: &Value| match value {
            Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::SimpleString(text) => text.clone(),
            _ => String::new(),
        };
        Ok(words.windows(2).any(|pair| text(&pair[0]) == "mode" && text(&pair[1]) == "cluster"))
    }

    async fn judge(
        &self,
        lane: &Lane,
        held: &Held,
        outcome: redis::RedisResult<Value>,
        attempted: &str,
    ) -> Result<Value> {
        let error = match outcome {
            Ok(value) => {
                self.measures.answered();
                return Ok(value);
            }
            Err(e) => fault::from_redis(&e, attempted),
        };
        self.measures.failed(&error);
        // A demoted node keeps its sockets open, and a half-open one never says so: both need another connection.
        let drop_it = matches!(
            error.store_kind(),
            Some(StoreKind::Unknown | StoreKind::Unreachable | StoreKind::ReadOnly | StoreKind::Denied)
        );
        if drop_it {
            let mut slot = lane.slot.lock().await;
            if slot.held.as_ref().is_some_and(|now| now.number == held.number) {
                slot.held = None;
                self.measures.disconnected();
            }
        }
        Err(error)
    }

    fn connector(&self) -> Arc<Connector> {
        self.connector.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lane(&self) -> &Lane {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        &self.lanes[turn % self.lanes.len()]
    }

    async fn hold(&self, lane: &Lane, attempted: &str) -> Result<Held> {
        let came = Instant::now();
        let mut slot = lane.slot.lock().await;
        if let Some(held) = &slot.held {
            return Ok(held.clone());
        }
        // Boxed, because it is rare: every call of the wheel would carry its thousands of bytes about.
        Box::pin(self.renew(&mut slot, came, attempted)).await
    }

    /// Makes the connection of a lane that has none.
    async fn renew(&self, slot: &mut Slot, came: Instant, attempted: &str) -> Result<Held> {
        // Who waited while the connection could not be made has tried as well: one after the other, many would wait for ever.
        if let Some((at, kind, message)) = &slot.refused
            && *at >= came
        {
            return Err(Error::Store {
                kind: *kind,
                attempted: attempted.to_owned(),
                message: message.clone(),
            });
        }
        let connection = self.connector().connect(attempted).await.inspect_err(|e| {
            self.measures.failed(e);
            if let Error::Store { kind, message, .. } = e {
                slot.refused = Some((Instant::now(), *kind, message.clone()));
            }
        })?;
        self.measures.connected();
        let number = self.reconnects.fetch_add(1, Ordering::Relaxed);
        let held = Held { connection, number };
        slot.held = Some(held.clone());
        Ok(held)
    }
}

/// The same call with the script's text instead of its SHA.
fn with_source(cmd: &Cmd, source: &'static str) -> Cmd {
    let mut eval = redis::cmd("EVAL");
    eval.arg(source);
    for arg in cmd.args_iter().skip(2) {
        if let redis::Arg::Simple(bytes) = arg {
            eval.arg(bytes);
        }
    }
    eval
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_does_not_carry_the_making_of_a_connection_about() {
        let store = Store::new(&RedisSettings::new("redis://localhost".into())).unwrap();
        let call = store.run(&super::super::script::CLAIM, &[], |_| {}, "claim");
        assert!(size_of_val(&call) < 1500, "{} bytes", size_of_val(&call));
    }
}
