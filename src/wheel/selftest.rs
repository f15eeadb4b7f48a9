//! The self-test: every script path once, on a scratch shard of the worker's own, with the program's own Redis user. A right that is
//! missing is met here and not in the middle of a live shard's script.

use std::time::{Duration, Instant};

use super::answer::Settled;
use super::claim::{Ask, Settlement, What};
use super::{Held, Wheel, front, keys};
use crate::deadline::{Cause, Deadline, DueAt, Id, Note, OnConflict, Outcome, Payload};
use crate::error::{Error, Result, StoreKind};
use crate::shard::{Shard, ShardCount};

impl Wheel {
    /// Runs every script on a scratch shard; the first refusal is the answer. The scratch keys expire by themselves.
    pub async fn selftest(&self, worker: &str) -> Result<()> {
        let scratch = self.scratch(worker);
        let outcome = async {
            scratch.every_path().await?;
            scratch.a_job(worker).await?;
            // Nothing else removes a whole key.
            scratch.try_request(&scratch.inner.keys[0][0].replace(":meta", ":request:selftest")).await
        };
        let outcome = outcome.await;
        let swept = scratch.sweep_scratch().await;
        outcome.and(swept)
    }

    /// A one-shard wheel whose tag no wheel can have (names hold no `~`), so that it is in no listing.
    fn scratch(&self, worker: &str) -> Self {
        let mut settings = self.settings().clone();
        settings.shards = ShardCount::new(1).unwrap_or_default();
        settings.ended_keep = settings.ended_keep.max(Duration::from_secs(60));
        settings.cancelled_keep = settings.cancelled_keep.max(Duration::from_secs(60));
        settings.events_keep = settings.events_keep.max(Duration::from_secs(60));
        settings.hold_max_count = 1;
        settings.hold_max_for = Duration::from_secs(7200);
        settings.channels = crate::deadline::Channels::default();
        settings.remind = crate::deadline::Reminders::default();
        settings.hold_max_total = Duration::from_secs(3600);
        let front = front(&settings, "");
        let keys = vec![keys::of_shard(&format!("~{worker}"), Shard(0))];
        Self::of_parts(self.store().clone(), settings, keys, front)
    }

    async fn every_path(&self) -> Result<()> {
        const HOUR: Duration = Duration::from_secs(3600);
        let shard = Shard(0);
        self.format_shard(shard, &Held::default()).await?;
        let id = |text: &str| Id::new(text).map_err(Error::from);
        let deadline = |id: Id, due_at| Deadline {
            id,
            due_at,
            payload: Payload::default(),
            traceparent: None,
            cause: Cause::Due,
            reminders: None,
        };
        let now = DueAt::After(Duration::ZERO);
        let (a, b, c, d) = (id("a")?, id("b")?, id("c")?, id("d")?);
        let batch = [
            deadline(a.clone(), now),
            deadline(b.clone(), now),
            deadline(c.clone(), DueAt::After(HOUR)),
            deadline(d.clone(), DueAt::After(HOUR)),
        ];
        for answer in self.enqueue_batch(&batch, OnConflict::Replace, true).await {
            answer?.ok();
        }
        self.hold(&c, HOUR * 2).await?.ok();
        self.release(&c).await?.ok();
        self.reschedule(&c, DueAt::After(HOUR * 2), None).await?.ok();
        let note = Note { actor: "selftest".to_owned(), reason: "selftest".to_owned() };
        self.close(&c, &note).await?.ok();
        let claimed = self.claim_scratch(1).await?;
        let verdict = |lease: &crate::lease::Lease| match lease.id.as_str() {
            "a" => What::End { outcome: Outcome::Closed, lease: std::sync::Arc::new(lease.clone()) },
            "b" => What::Bury("selftest".to_owned()),
            _ => What::Retry(Duration::ZERO, "selftest".to_owned()),
        };
        // One of a claim leaves the leases by its name, all that are left as a range: two commands, two rights.
        let (first, rest) = claimed.split_at(claimed.len().min(1));
        self.settle_scratch(first, verdict).await?;
        self.settle_scratch(rest, verdict).await?;
        self.revive(&b).await?.ok();
        let claimed = self.claim_scratch(2).await?;
        let fences: Vec<_> = claimed.iter().map(|lease| (lease.id.clone(), lease.fence)).collect();
        self.renew(shard, &fences, Duration::from_secs(1)).await?;
        self.inspect(&a).await?;
        self.held(&[&a, &b]).await?;
        self.list(
            crate::deadline::State::Scheduled,
            crate::clock::Moment::EPOCH,
            crate::clock::Moment::MAX,
            None,
            10,
        )
        .await?;
        self.list(
            crate::deadline::State::Ended,
            crate::clock::Moment::EPOCH,
            crate::clock::Moment::MAX,
            None,
            10,
        )
        .await?;
        for answer in self.cancel(&[d, b, c, a]).await {
            answer?.ok();
        }
        self.shard_stats(shard).await?;
        self.forecast(crate::clock::Moment::EPOCH, HOUR, 2).await?;
        // The shard's part only: the wheel's own record of a pause is a person's, and stays as it is.
        self.pause_shards("pause", "selftest").await?;
        self.pause_shards("trip", "selftest").await?;
        self.pause_shards("resume", "").await?;
        self.prune(shard, 0).await?;
        self.verify_shard(shard, true, &mut super::answer::Verification::default()).await
    }

    /// A job is taken, saved and finished, under the scratch shard's tag.
    async fn a_job(&self, worker: &str) -> Result<()> {
        let keys =
            ["job", "runs"].map(|what| self.inner.keys[0][0].replace(":meta", &format!(":{what}:selftest")));
        let lease = Duration::from_secs(5);
        let taken = self.take_job_at(keys.clone(), "selftest", worker, lease, None).await?;
        if let super::Taken::Mine(job) = taken {
            job.save(&[("a", "1"), ("b", "")]).await?;
            job.finish("{}", &[("a", "")]).await?;
        }
        for key in &keys {
            let mut cmd = redis::cmd("PEXPIRE");
            cmd.arg(key).arg(60_000);
            self.store().command(&cmd, "expire the scratch job").await?;
        }
        Ok(())
    }

    async fn claim_scratch(&self, nonce: u64) -> Result<Vec<crate::lease::Lease>> {
        let ask = Ask {
            limit: 10,
            lease: Duration::from_secs(5),
            margin: Duration::ZERO,
            worker: "selftest",
            nonce,
            suspect: true,
            poison_limit: 5,
            late: Duration::ZERO,
            good_until_us: 0,
            sent: Instant::now(),
        };
        Ok(self.claim(Shard(0), &ask).await?.leases)
    }

    async fn settle_scratch(
        &self,
        leases: &[crate::lease::Lease],
        what: impl Fn(&crate::lease::Lease) -> What,
    ) -> Result<()> {
        if leases.is_empty() {
            return Ok(());
        }
        let settlements: Vec<_> = leases
            .iter()
            .map(|lease| Settlement { id: lease.id.clone(), fence: lease.fence, what: what(lease) })
            .collect();
        if self.settle(Shard(0), &settlements).await?.contains(&Settled::Stale) {
            // The clock of Redis jumped, or somebody else writes under our prefix: neither is safe to work on.
            return Err(Error::Store {
                kind: StoreKind::Corrupt,
                attempted: "self-test on the scratch shard".to_owned(),
                message: "a fresh lease was refused as stale".to_owned(),
            });
        }
        Ok(())
    }

    async fn sweep_scratch(&self) -> Result<()> {
        for key in &self.inner.keys[0] {
            let mut cmd = redis::cmd("PEXPIRE");
            cmd.arg(key).arg(60_000);
            self.store().command(&cmd, "expire the scratch shard").await?;
        }
        Ok(())
    }
}
