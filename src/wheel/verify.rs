//! The structural scan: every id in exactly one place, every place with a body, every slot in the index. It is the only net under a
//! shop without a table.

use super::answer::{Finding, Verification};
use super::{Wheel, reply, script};
use crate::error::{Error, Result, StoreKind};
use crate::shard::Shard;

const PARTS: [&str; 5] = ["bodies", "slots", "leases", "dead", "totals"];

impl Wheel {
    /// Scans every shard, and mends what it finds where `heal` asks for it. Each id is judged in one piece, inside Redis, so what moves
    /// while the scan runs is no finding.
    pub async fn verify(&self, heal: bool) -> Result<Verification> {
        let mut all = Verification::default();
        for shard in self.shards().all() {
            self.verify_shard(shard, heal, &mut all).await?;
        }
        Ok(all)
    }

    /// Scans one shard into `all`.
    pub async fn verify_shard(&self, shard: Shard, heal: bool, all: &mut Verification) -> Result<()> {
        let mut seen = std::collections::HashSet::new();
        let may_move = heal && self.store().is_cluster().await?;
        for part in PARTS {
            let mut cursor = 0;
            loop {
                let Some((next, scanned, findings)) = self.verify_page(shard, part, cursor).await? else {
                    return Ok(());
                };
                all.scanned += scanned;
                let mut mended = false;
                for found in findings {
                    if seen.insert(found.clone()) {
                        let healed = heal && self.heal(shard, &found, may_move).await?;
                        mended |= healed;
                        all.findings.push(Finding {
                            shard: shard.0,
                            kind: found.kind.clone(),
                            subject: found.subject(),
                            healed,
                        });
                    }
                }
                match next {
                    // What was mended may have left its place, and what stood behind it moved up: the page is read again.
                    _ if mended => {}
                    0 => break,
                    next => cursor = next,
                }
            }
        }
        Ok(())
    }

    async fn verify_page(
        &self,
        shard: Shard,
        part: &str,
        cursor: u64,
    ) -> Result<Option<(u64, u64, Vec<Found>)>> {
        let outcome = self
            .call(&script::VERIFY, shard, |cmd| {
                cmd.arg(part).arg(cursor);
            })
            .await;
        let value = match outcome {
            Err(Error::Store { kind: StoreKind::Unformatted, .. }) => return Ok(None),
            other => other?,
        };
        let mut reply = reply::Reply::array("verify", value)?;
        let (next, scanned) = (reply.u64()?, reply.u64()?);
        let mut findings = Vec::new();
        while reply.len() >= 3 {
            findings.push(Found { kind: reply.word()?, id: reply.bytes()?, place: reply.word()? });
        }
        Ok(Some((next, scanned, findings)))
    }

    async fn heal(&self, shard: Shard, found: &Found, may_move: bool) -> Result<bool> {
        let value = self
            .call(&script::HEAL, shard, |cmd| {
                cmd.arg(&found.kind).arg(&found.id).arg(&found.place).arg(u8::from(may_move));
            })
            .await?;
        Ok(reply::number(&value) == Some(1))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Found {
    kind: String,
    id: Vec<u8>,
    place: String,
}

impl Found {
    fn subject(&self) -> String {
        let id = match std::str::from_utf8(&self.id) {
            Ok(text) => crate::error::escaped(text),
            Err(_) => self.id.escape_ascii().to_string(),
        };
        match (id.is_empty(), self.place.is_empty()) {
            (true, _) => self.place.clone(),
            (false, true) => id,
            (false, false) => format!("{id} ({})", self.place),
        }
    }
}
