//! Scheduled jobs of a wheel (feed, sweep, rebuild, …): one runner in the fleet at a time, by a lease with a rising fence.
//!
//! What a job has come to (a watermark, a cursor) is kept beside the lease and written only by who still holds it, so that a runner that
//! was paused for longer than its lease changes nothing when it goes on.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::{Wheel, keys, reply, script};
use crate::clock::Moment;
use crate::error::{Error, Result};

/// What became of the wish to run a job.
#[derive(Debug)]
pub enum Taken {
    /// This runner has it.
    Mine(Job),
    /// Another runner has it.
    Held {
        /// Which.
        runner: String,
        /// How long its lease lasts, unless it renews it.
        left: Duration,
    },
    /// It ran lately enough.
    Fresh {
        /// When that run began, by Redis's clock.
        began_at: Moment,
    },
}

/// A job that this runner holds. Dropped without [`Job::finish`] or [`Job::release`], it is let go.
#[derive(Debug)]
pub struct Job {
    wheel: Wheel,
    name: &'static str,
    keys: [String; 2],
    runner: String,
    lease: Duration,
    fence: u64,
    began_at: Moment,
    fields: BTreeMap<String, String>,
    /// Until when the lease is trusted on this process's own clock, counted from before the call that granted it.
    trusted_until: Mutex<Instant>,
    /// Finished, let go or lost.
    is_over: AtomicBool,
}

/// What Redis keeps of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobRecord {
    /// Who has it or had it last.
    pub runner: Option<String>,
    /// Until when, by Redis's clock; `None` when nobody has it.
    pub held_until: Option<Moment>,
    /// When the last run that was finished began.
    pub ran_at: Option<Moment>,
    /// When somebody asked for a run, as an emptied wheel asks for a rebuild.
    pub asked_at: Option<Moment>,
    /// What the runners keep of their progress.
    pub fields: BTreeMap<String, String>,
}

/// The words of the script.
const TAKE: &str = "take";
const SAVE: &str = "save";
const FINISH: &str = "finish";
const RELEASE: &str = "release";

impl Wheel {
    /// Takes a job for `lease`, unless another runner has it, or a run that began at `since` or later makes this one needless and nobody has
    /// asked for another one since the last.
    ///
    /// `runner` must be unique for each process and run: who asks again under the same name takes it over from itself.
    pub async fn take_job(
        &self,
        name: &'static str,
        runner: &str,
        lease: Duration,
        since: Option<Moment>,
    ) -> Result<Taken> {
        self.take_job_at(job_keys(self, name), name, runner, lease, since).await
    }

    /// Takes a job where somebody has asked for a run since the last one.
    pub async fn take_asked_job(&self, name: &'static str, runner: &str, lease: Duration) -> Result<Taken> {
        self.take_job_since(job_keys(self, name), name, runner, lease, "asked").await
    }

    pub(super) async fn take_job_at(
        &self,
        keys: [String; 2],
        name: &'static str,
        runner: &str,
        lease: Duration,
        since: Option<Moment>,
    ) -> Result<Taken> {
        let since = since.map_or(0, |moment| moment.as_millis().saturating_mul(1000)).to_string();
        self.take_job_since(keys, name, runner, lease, &since).await
    }

    /// Takes a job in a task of its own: a caller that is dropped on the way, because its worker drains, must not leave the job with
    /// nobody who knows of it until the lease ends.
    async fn take_job_since(
        &self,
        keys: [String; 2],
        name: &'static str,
        runner: &str,
        lease: Duration,
        since: &str,
    ) -> Result<Taken> {
        let (told, taken) = oneshot::channel();
        let (wheel, runner, since) = (self.clone(), runner.to_owned(), since.to_owned());
        self.inner.releases.spawn(async move {
            let taken = wheel.take_job_whole(keys, name, runner, lease, &since).await;
            // Where nobody waits for it any more, the job is dropped here, and so let go.
            drop(told.send(taken));
        });
        let ended = |_| Error::Overtaken(format!("job {name} is not taken: the process ends"));
        taken.await.map_err(ended)?
    }

    async fn take_job_whole(
        &self,
        keys: [String; 2],
        name: &'static str,
        runner: String,
        lease: Duration,
        since: &str,
    ) -> Result<Taken> {
        let asked_at = Instant::now();
        let attempted = format!("take job {name} of wheel {}", self.name());
        let args = |cmd: &mut redis::Cmd| {
            cmd.arg(TAKE).arg(&runner).arg(micros(lease)).arg(since);
        };
        let value = self.store().run(&script::JOB, &keys, args, &attempted).await?;
        let mut reply = reply::Reply::array("job", value)?;
        let word = reply.word()?;
        let now = moment(reply.u64()?);
        match word.as_str() {
            "held" => {
                let left = Duration::from_micros(reply.u64()?);
                Ok(Taken::Held { left, runner: reply.word()? })
            }
            "fresh" => Ok(Taken::Fresh { began_at: moment(reply.u64()?) }),
            "mine" => {
                let fence = reply.u64()?;
                let fields = progress(&pairs(reply)?);
                Ok(Taken::Mine(Job {
                    wheel: self.clone(),
                    name,
                    keys,
                    runner,
                    lease,
                    fence,
                    began_at: now,
                    fields,
                    trusted_until: Mutex::new(asked_at + lease),
                    is_over: AtomicBool::new(false),
                }))
            }
            other => Err(reply::unexpected("job", &other)),
        }
    }

    /// What Redis keeps of a job.
    pub async fn job_record(&self, name: &'static str) -> Result<JobRecord> {
        let mut cmd = redis::cmd("HGETALL");
        cmd.arg(&job_keys(self, name)[0]);
        let value = self.store().command(&cmd, &format!("read job {name} of wheel {}", self.name())).await?;
        let all = pairs(reply::Reply::pairs("job", value)?)?;
        let at = |field: &str| {
            let micros = all.get(field)?.parse::<u64>().ok()?;
            (micros > 0).then(|| moment(micros))
        };
        Ok(JobRecord {
            runner: all.get("runner").cloned(),
            held_until: at("until"),
            ran_at: at("ran"),
            asked_at: at("asked"),
            fields: progress(&all),
        })
    }

    /// The records of the last finished runs, newest first, as their runners wrote them; at most 100 are kept.
    pub async fn job_runs(&self, name: &'static str, limit: usize) -> Result<Vec<String>> {
        let mut cmd = redis::cmd("XREVRANGE");
        cmd.arg(&job_keys(self, name)[1]).arg("+").arg("-").arg("COUNT").arg(limit);
        let value =
            self.store().command(&cmd, &format!("read runs of {name} of wheel {}", self.name())).await?;
        let mut entries = reply::Reply::array("runs", value)?;
        let mut runs = Vec::with_capacity(entries.len());
        while entries.len() > 0 {
            let mut entry = reply::Reply::array("runs", entries.value()?)?;
            entry.value()?;
            let mut fields = reply::Reply::array("runs", entry.value()?)?;
            fields.value()?;
            runs.push(fields.word()?);
        }
        Ok(runs)
    }

    /// Asks for a run of a job at the next look of any worker.
    pub async fn ask_for_job(&self, name: &'static str) -> Result<()> {
        let now_us = self.store().read_clock().await?.us;
        let mut cmd = redis::cmd("HSET");
        cmd.arg(&job_keys(self, name)[0]).arg("asked").arg(now_us);
        self.store().command(&cmd, &format!("ask for job {name} of wheel {}", self.name())).await.map(drop)
    }

    /// Waits until the jobs that were dropped on the way are let go, for `patience` at most: a process that ended before would make the
    /// next runner wait for the end of their leases.
    pub async fn let_go(&self, patience: Duration) {
        let releases = &self.inner.releases;
        releases.close();
        let _ = tokio::time::timeout(patience, releases.wait()).await;
    }
}

impl Job {
    /// When this run began, by Redis's clock.
    pub fn began_at(&self) -> Moment {
        self.began_at
    }

    /// What an earlier run, or this run's predecessor that was cut off, had saved under this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// Saves progress and extends the lease. An empty value removes a field. Fails with [`Error::Overtaken`] where another runner has
    /// the job by now; nothing was written then.
    pub async fn save(&self, fields: &[(&str, &str)]) -> Result<()> {
        let sent_at = Instant::now();
        self.write(SAVE, "", fields).await?;
        *self.trusted_until.lock().unwrap_or_else(PoisonError::into_inner) = sent_at + self.lease;
        Ok(())
    }

    /// Ends the run: saves, remembers that it was finished, keeps `record` among the last runs (nothing where it is empty), and lets the
    /// job go.
    pub async fn finish(&self, record: &str, fields: &[(&str, &str)]) -> Result<()> {
        self.write(FINISH, record, fields).await
    }

    /// Lets the job go without having finished it: the next runner may take it at once.
    pub async fn release(&self, fields: &[(&str, &str)]) -> Result<()> {
        self.write(RELEASE, "", fields).await
    }

    /// Does `work` while the lease is extended each time a third of it has passed. The work is dropped, wherever it stands, once the
    /// lease is another's or can be trusted no more.
    pub async fn hold<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            lost = self.keep() => Err(lost),
        }
    }

    async fn keep(&self) -> Error {
        loop {
            let trusted_until = *self.trusted_until.lock().unwrap_or_else(PoisonError::into_inner);
            let left = trusted_until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Error::Overtaken(format!("the lease of job {} ran out", self.name));
            }
            // A third has passed when two thirds are left; after that, tries again while there is time.
            let pause = left.saturating_sub(self.lease * 2 / 3).max(self.lease / 12).min(left);
            tokio::time::sleep(pause).await;
            if let Err(e @ Error::Overtaken(_)) = self.save(&[]).await {
                return e;
            }
        }
    }

    async fn write(&self, verb: &str, record: &str, fields: &[(&str, &str)]) -> Result<()> {
        let attempted = format!("{verb} job {} of wheel {}", self.name, self.wheel.name());
        let args = |cmd: &mut redis::Cmd| {
            cmd.arg(verb).arg(&self.runner).arg(micros(self.lease)).arg(self.fence).arg(record);
            for (field, value) in fields {
                cmd.arg(format!(":{field}")).arg(*value);
            }
        };
        let value = self.wheel.store().run(&script::JOB, &self.keys, args, &attempted).await?;
        let answer = reply::number(&value);
        if verb != SAVE || answer == Some(0) {
            self.is_over.store(true, Ordering::Relaxed);
        }
        match answer {
            Some(1) => Ok(()),
            Some(0) => Err(Error::Overtaken(format!("job {} was taken over by another runner", self.name))),
            _ => Err(reply::unexpected("job", &value)),
        }
    }
}

impl Drop for Job {
    /// A run that is dropped on the way, because its worker drains, lets the job go in the background ([`Wheel::let_go`] waits for that);
    /// where it cannot, its lease ends.
    fn drop(&mut self) {
        if self.is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let rest = Self {
            wheel: self.wheel.clone(),
            name: self.name,
            keys: self.keys.clone(),
            runner: self.runner.clone(),
            lease: self.lease,
            fence: self.fence,
            began_at: self.began_at,
            fields: BTreeMap::new(),
            trusted_until: Mutex::new(Instant::now()),
            is_over: AtomicBool::new(true),
        };
        self.wheel.inner.releases.spawn_on(async move { rest.release(&[]).await }, &runtime);
    }
}

/// The keys of a job: its record and its last runs.
pub(super) fn job_keys(wheel: &Wheel, name: &str) -> [String; 2] {
    ["job", "runs"].map(|what| keys::of_wheel(wheel.name(), &format!("{what}:{name}")))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).clamp(1, 9_000_000_000_000_000)
}

fn moment(micros: u64) -> Moment {
    Moment::EPOCH.plus(Duration::from_micros(micros))
}

fn pairs(mut reply: reply::Reply) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    while reply.len() > 0 {
        all.insert(reply.word()?, reply.word()?);
    }
    Ok(all)
}

/// The runners' own fields, without the mark that tells them from the lease's.
fn progress(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    all.iter().filter_map(|(name, value)| Some((name.strip_prefix(':')?.to_owned(), value.clone()))).collect()
}
