//! Changing the number of shards: the wheel is closed to everybody, each deadline is carried to the shard it belongs to, the wheel is
//! opened with the new number. Every step may be repeated, so a reshard that was cut off is simply run again.

use super::answer::Row;
use super::carry::Carried;
use super::{Held, JOBS, Wheel, WheelSettings, keys, reply, script};
use crate::clock::Moment;
use crate::deadline::State;
use crate::error::{Error, Invalid, Result, StoreKind, shown};
use crate::shard::{LAYOUT, Shard, ShardCount};

impl Wheel {
    /// Moves this wheel to `to` shards and returns it; `progress` is told how many deadlines were carried so far.
    ///
    /// Workers and callers with the old number are refused from the first moment (`LAYOUT`): stop them, or restart them with the new
    /// number afterwards. Leased deadlines must end first: drain the workers. A pause or trip holds the new shards as it did the old ones.
    ///
    /// Refused, and nothing is changed, while a bulk act is not over, because it has walked some of the shards; and where shards go away:
    /// while a consumer group has not acknowledged all of their events, and, without `drop_history`, while they hold any, because the
    /// events of a shard go with it.
    pub async fn reshard(
        &self,
        to: ShardCount,
        drop_history: bool,
        mut progress: impl FnMut(u64),
    ) -> Result<Self> {
        let most = self.shards().get().max(to.get());
        // Both numbers at once while it lasts: neither old nor new callers get in.
        let between = self.with_shards(ShardCount::new(u32::from(most)).unwrap_or(to), Some(to));
        self.is_known_as(to).await?;
        let begins = match self.stats().await {
            Ok(_) => {
                self.loses_nothing_by(to, drop_history).await?;
                none_leased(self.stats().await?.leased)?;
                true
            }
            // Closed by a run that was cut off: it had looked, and may have carried some.
            Err(e) if e.store_kind() == Some(StoreKind::Layout) => {
                if self.is_open_as(to).await? {
                    none_leased(between.leased().await?)?;
                }
                false
            }
            Err(e) => return Err(e),
        };
        for shard in (0..most).map(Shard) {
            between.mark(shard).await?;
        }
        // Nobody claims from here on, and nothing ends; who did so between the look and the closing keeps the wheel as it was.
        let refused = match none_leased(between.leased().await?) {
            Ok(()) if begins => self.loses_nothing_by(to, drop_history).await,
            other => other,
        };
        if let Err(refused @ Error::Invalid(_)) = refused {
            for shard in self.shards().all() {
                self.mark(shard).await?;
            }
            for shard in (self.shards().get()..most).map(Shard) {
                between.forget_shard(shard).await?;
            }
            return Err(refused);
        }
        refused?;
        let fence = between.highest_fence().await?;
        let mut carried = 0;
        for shard in (0..most).map(Shard) {
            carried += between.empty_shard(shard, to, carried, &mut progress).await?;
        }
        let after = self.with_shards(to, None);
        // Before any of them can be claimed from.
        let held = between.held_for_new_shards().await?;
        for shard in to.all() {
            // An id may come from the shard that had the highest one, and its next fence must be higher still.
            after.raise_fence(shard, fence).await?;
            after.hold_shard(shard, &self.held_by().await?).await?;
            after.mark(shard).await?;
        }
        let now = self.held_by().await?;
        if now != held {
            // Who paused or resumed it meanwhile was refused by the shards that were still closed.
            for shard in to.all() {
                after.hold_shard(shard, &now).await?;
            }
        }
        let mut forget = redis::cmd("HSET");
        forget.arg(keys::wheels()).arg(self.name().as_str()).arg(format!(
            "{LAYOUT} {} {}",
            to.get(),
            self.settings().slot_width.as_millis()
        ));
        self.store().command(&forget, "record the shards").await?;
        for shard in (to.get()..most).map(Shard) {
            between.forget_shard(shard).await?;
        }
        Ok(after)
    }

    /// Whether a run that was cut off had opened the wheel with the new number already: whoever has that works on it.
    async fn is_open_as(&self, to: ShardCount) -> Result<bool> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(&self.inner.keys[0][0]).arg("shards");
        let shards = self.store().command(&cmd, "read the number of shards").await?;
        Ok(reply::number(&shards) == Some(i64::from(to.get())))
    }

    /// Refuses where Redis knows the wheel by a number of shards that is neither this one's nor the new one: some would be left out.
    async fn is_known_as(&self, to: ShardCount) -> Result<()> {
        let name = self.name().as_str();
        let known = Self::known(self.store()).await?.into_iter().find(|(known, _, _)| known == name);
        let numbers = [self.shards().get(), to.get()].map(u64::from);
        match known {
            Some((_, shards, _)) if shards > 0 && !numbers.contains(&shards) => {
                let reason = format!("the wheel has {shards} shards: set wheel.{name}.shards to that first");
                Err(Invalid::new("shards", &self.shards().get().to_string(), reason).into())
            }
            _ => Ok(()),
        }
    }

    /// Refuses where something would be lost that is not carried.
    async fn loses_nothing_by(&self, to: ShardCount, drop_history: bool) -> Result<()> {
        let refused = |reason| Err(Invalid::new("shards", &to.get().to_string(), reason).into());
        if let Some(bulk) = self.bulk_under_way().await? {
            return refused(format!(
                "bulk act {id} ({}, by {}) is not over: let a worker or server end it, or stop it (duewheel bulk stop {id})",
                bulk.act.as_str(),
                shown(&bulk.by),
                id = bulk.id,
            ));
        }
        let mut events = 0;
        for shard in (to.get()..self.shards().get()).map(Shard) {
            let key = &self.inner.keys[usize::from(shard.0)][8];
            if let Some(group) = self.group_behind(key).await? {
                return refused(format!(
                    "shard {shard} goes away with its events, and consumer group {} has not acknowledged all of them: let it read on \
                     while the workers are drained (duewheel drain), or remove a group that nobody reads (XGROUP DESTROY {key} …)",
                    shown(&group)
                ));
            }
            let mut count = redis::cmd("XLEN");
            count.arg(key);
            let count = self.store().command(&count, "count the events of a shard").await?;
            events += reply::number(&count).unwrap_or(0);
        }
        if events > 0 && !drop_history {
            return refused(format!(
                "the shards that go away hold {events} entries of events, of what `explain` and `events` tell: --drop-history goes on \
                 without them"
            ));
        }
        Ok(())
    }

    /// A group that has not acknowledged all entries of a stream.
    async fn group_behind(&self, stream: &str) -> Result<Option<String>> {
        let attempted = "read the consumer groups of a shard";
        let mut cmd = redis::cmd("EXISTS");
        cmd.arg(stream);
        if reply::number(&self.store().command(&cmd, attempted).await?) != Some(1) {
            return Ok(None);
        }
        let mut cmd = redis::cmd("XINFO");
        cmd.arg("GROUPS").arg(stream);
        let mut groups = reply::Reply::array("groups", self.store().command(&cmd, attempted).await?)?;
        while groups.len() > 0 {
            let mut group = reply::Reply::pairs("groups", groups.value()?)?;
            let (mut name, mut pending, mut last) = (String::new(), 0, String::new());
            while group.len() >= 2 {
                match group.word()?.as_str() {
                    "name" => name = group.word()?,
                    "pending" => pending = group.u64()?,
                    "last-delivered-id" => last = group.word()?,
                    _ => drop(group.value()?),
                }
            }
            let mut cmd = redis::cmd("XRANGE");
            cmd.arg(stream).arg(format!("({last}")).arg("+").arg("COUNT").arg(1);
            let unread = reply::Reply::array("events", self.store().command(&cmd, attempted).await?)?;
            if pending > 0 || unread.len() > 0 {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Writes to a shard what holds the wheel, whatever its meta says else.
    async fn hold_shard(&self, shard: Shard, held: &Held) -> Result<()> {
        let meta = &self.inner.keys[usize::from(shard.0)][0];
        for (field, text) in held.fields() {
            let mut cmd = if text.is_empty() { redis::cmd("HDEL") } else { redis::cmd("HSET") };
            cmd.arg(meta).arg(field);
            if !text.is_empty() {
                cmd.arg(text);
            }
            self.store().command(&cmd, "hold a shard").await?;
        }
        Ok(())
    }

    /// Removes the keys of a shard that holds no deadline any more. What could not be carried, because it cannot be read, stays.
    async fn forget_shard(&self, shard: Shard) -> Result<()> {
        let fixed = &self.inner.keys[usize::from(shard.0)];
        let mut count = redis::cmd("HLEN");
        count.arg(&fixed[2]);
        let left = self.store().command(&count, "look into an emptied shard").await?;
        if reply::number(&left) != Some(0) {
            tracing::error!(wheel = %self.name(), %shard, ?left, "deadlines that cannot be read are left in a shard that is gone");
            return Ok(());
        }
        let mut cmd = redis::cmd("UNLINK");
        cmd.arg(&fixed[..]);
        self.store().command(&cmd, "remove an emptied shard").await.map(|_| ())
    }

    /// Leases of all shards, whatever their meta says.
    async fn leased(&self) -> Result<u64> {
        let mut all = 0;
        for keys in &self.inner.keys {
            let mut cmd = redis::cmd("ZCARD");
            cmd.arg(&keys[3]);
            let count = self.store().command(&cmd, "count leases").await?;
            all += reply::number(&count).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        }
        Ok(all)
    }

    async fn fence_of(&self, shard: Shard) -> Result<u64> {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(&self.inner.keys[usize::from(shard.0)][0]).arg("fence");
        let fence = self.store().command(&cmd, "read the fence").await?;
        Ok(reply::number(&fence).and_then(|n| u64::try_from(n).ok()).unwrap_or(0))
    }

    async fn highest_fence(&self) -> Result<u64> {
        let mut highest = 0;
        for shard in self.shards().all() {
            highest = highest.max(self.fence_of(shard).await?);
        }
        Ok(highest)
    }

    async fn raise_fence(&self, shard: Shard, to: u64) -> Result<()> {
        if self.fence_of(shard).await? < to {
            let mut cmd = redis::cmd("HSET");
            cmd.arg(&self.inner.keys[usize::from(shard.0)][0]).arg("fence").arg(to);
            self.store().command(&cmd, "carry the fence").await?;
        }
        Ok(())
    }

    /// Removes a wheel: every shard, roster and record, but for its audit, which outlives it: who removed it stands there. Returns how many
    /// keys of shards went.
    pub async fn drop_wheel(&self) -> Result<u64> {
        let mut removed = 0;
        for shard in self.shards().all() {
            let fixed = keys::of_shard(self.name().as_str(), shard);
            loop {
                let mut cmd = redis::cmd("ZRANGE");
                cmd.arg(&fixed[1]).arg(0).arg(499);
                let mut reply = reply::Reply::array("drop", self.store().command(&cmd, "read slots").await?)?;
                if reply.len() == 0 {
                    break;
                }
                let mut unlink = redis::cmd("UNLINK");
                let mut forget = redis::cmd("ZREM");
                forget.arg(&fixed[1]);
                while reply.len() > 0 {
                    let member = reply.word()?;
                    unlink.arg(fixed[0].replace(":meta", &format!(":slot:{member}")));
                    forget.arg(member);
                }
                let gone = self.store().command(&unlink, "remove slots").await?;
                removed += u64::try_from(reply::number(&gone).unwrap_or(0)).unwrap_or(0);
                self.store().command(&forget, "remove slots").await?;
            }
            let mut cmd = redis::cmd("UNLINK");
            cmd.arg(&fixed[..]);
            let gone = self.store().command(&cmd, "remove a shard").await?;
            removed += u64::try_from(reply::number(&gone).unwrap_or(0)).unwrap_or(0);
        }
        let mut cmd = redis::cmd("UNLINK");
        for name in
            ["seen", "roster", "state", "rate", "breaker", "incidents", "incident_acks", "bulks", "drains"]
        {
            cmd.arg(keys::of_wheel(self.name(), name));
        }
        for job in JOBS.into_iter().chain([super::BULK, super::PREVIEW, super::SCAN]) {
            cmd.arg(&super::job::job_keys(self, job)[..]);
        }
        self.store().command(&cmd, "remove the wheel's records").await?;
        self.forget_hour().await?;
        let mut cmd = redis::cmd("HDEL");
        cmd.arg(keys::wheels()).arg(self.name().as_str());
        self.store().command(&cmd, "forget the wheel").await?;
        Ok(removed)
    }

    fn with_shards(&self, shards: ShardCount, moving_to: Option<ShardCount>) -> Self {
        let settings = WheelSettings { shards, ..self.settings().clone() };
        let mut front = super::front(&settings, "");
        if let Some(to) = moving_to {
            front[1] = format!("moving to {}", to.get());
        }
        let keys = shards.all().map(|shard| keys::of_shard(settings.name.as_str(), shard)).collect();
        Self::of_parts(self.store().clone(), settings, keys, front)
    }

    async fn mark(&self, shard: Shard) -> Result<()> {
        let front = &self.inner.front;
        let mut cmd = redis::cmd("HSET");
        cmd.arg(&self.inner.keys[usize::from(shard.0)][0]);
        cmd.arg("layout").arg(LAYOUT).arg("shards").arg(&front[1]).arg("width").arg(&front[2]);
        self.store().command(&cmd, "close a shard for resharding").await.map(|_| ())
    }

    /// Carries everything that belongs elsewhere out of a shard; returns how much.
    async fn empty_shard(
        &self,
        shard: Shard,
        to: ShardCount,
        before: u64,
        progress: &mut impl FnMut(u64),
    ) -> Result<u64> {
        let target = self.with_shards(to, Some(to));
        let mut carried = 0;
        for state in [State::Scheduled, State::Dead, State::Ended] {
            let mut from = (Moment::EPOCH, Vec::new());
            let mut ended_cursor = Some(0_u64);
            loop {
                let page = match state {
                    State::Ended => {
                        let Some(cursor) = ended_cursor else { break };
                        let (rows, next) = self.ended_rows(shard, cursor).await?;
                        ended_cursor = next;
                        rows
                    }
                    _ => self.live_rows(shard, state, &mut from).await?,
                };
                let Some(page) = page else { break };
                let moving: Vec<_> =
                    page.into_iter().filter(|c| to.shard_of(c.id().as_bytes()) != shard).collect();
                if moving.is_empty() {
                    continue;
                }
                target.adopt(&moving).await?;
                self.evict(shard, &moving).await?;
                carried += moving.len() as u64;
                progress(before + carried);
            }
        }
        Ok(carried)
    }

    async fn live_rows(
        &self,
        shard: Shard,
        state: State,
        from: &mut (Moment, Vec<u8>),
    ) -> Result<Option<Vec<Carried>>> {
        let rows = self.list_shard_rows(shard, state, from.0, &from.1).await?;
        let Some((at, id, _)) = rows.last() else { return Ok(None) };
        *from = (*at, id.clone());
        Ok(Some(rows.into_iter().filter_map(|(_, _, row)| carried_of(row)).collect()))
    }

    async fn ended_rows(&self, shard: Shard, cursor: u64) -> Result<(Option<Vec<Carried>>, Option<u64>)> {
        let value = self
            .call(&script::ENDED_PAGE, shard, |cmd| {
                cmd.arg(cursor).arg(100);
            })
            .await?;
        let mut reply = reply::Reply::array("ended_page", value)?;
        let next = reply.u64()?;
        let mut rows = Vec::new();
        while reply.len() >= 2 {
            let (raw, record) = (reply.bytes()?, reply.bytes()?);
            if let (Ok(id), Some(ended)) =
                (crate::deadline::Id::from_bytes(&raw), super::body::decode_ended(&record))
            {
                rows.push(Carried::Ended { id, ended });
            }
        }
        Ok((Some(rows), (next != 0).then_some(next)))
    }

    async fn evict(&self, shard: Shard, carried: &[Carried]) -> Result<()> {
        for chunk in carried.chunks(100) {
            self.call(&script::EVICT, shard, |cmd| {
                cmd.arg(chunk.len());
                for one in chunk {
                    let stored = match one {
                        Carried::Live { entry, .. } => super::body::encode_stored(entry),
                        Carried::Ended { ended, .. } => super::body::encode_ended(ended),
                    };
                    cmd.arg(one.id().as_bytes()).arg(stored);
                }
            })
            .await?;
        }
        Ok(())
    }
}

fn none_leased(leased: u64) -> Result<()> {
    if leased == 0 {
        return Ok(());
    }
    let reason = format!("{leased} deadlines are leased; drain the workers first");
    Err(Invalid::new("shards", "", reason).into())
}

/// The row as it is carried; `None` for what is no id of ours.
fn carried_of(row: Row) -> Option<Carried> {
    match row {
        Row::Live { state, at, entry, reason } => {
            Some(Carried::Live { state, at, entry, reason: reason.unwrap_or_default() })
        }
        Row::Ended { id, ended } => Some(Carried::Ended { id, ended }),
        Row::Foreign { .. } => None,
    }
}
