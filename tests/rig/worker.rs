//! `duewheel worker` as processes of their own on one wheel: what a test may kill, stop, end and start again.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::deadline::{DueAt, OnConflict};
use duewheel::shard::ShardCount;
use duewheel::wheel::Wheel;
use duewheel::wheel::answer::Stats;

use super::cli::{Ran, build, duewheel};
use super::redis::{RedisServer, watch};
#[cfg(feature = "sql")]
use super::shop::Shop;
use super::wheel::{deadline, settings};
use super::{PATIENCE, eventually, eventually_blocking, signal};

/// A wheel on a private Redis, the configuration of its workers, and the test's own way into it.
pub struct Fleet {
    /// The test's own connection; it never goes through a proxy.
    pub wheel: Wheel,
    dir: tempfile::TempDir,
}

/// How workers of a test are configured: short leases, so that what must outlast one takes seconds.
pub struct Plan {
    redis: String,
    response_timeout: &'static str,
    shards: u32,
    worker: Vec<(&'static str, String)>,
    hook: Vec<(&'static str, String)>,
    net: String,
}

/// The lease of [`Plan`], unless it says otherwise.
pub const LEASE: Duration = Duration::from_secs(5);

impl Plan {
    /// Workers that reach Redis at `redis`; 16 shards.
    pub fn new(redis: impl Into<String>) -> Self {
        let text = |text: &str| format!("{text:?}");
        let worker = vec![
            ("lease", text("5s")),
            ("lease_margin", text("200ms")),
            ("backoff_base", text("50ms")),
            ("backoff_cap", text("200ms")),
            ("grace", text("5s")),
        ];
        // What a test enqueues is all that is to happen, unless it wants the net.
        let net = "[wheel.WHEEL.sweep]\nevery = \"off\"\nrebuild = false\n".to_owned();
        Self { redis: redis.into(), response_timeout: "2s", shards: 16, worker, hook: Vec::new(), net }
    }

    pub fn shards(self, shards: u32) -> Self {
        Self { shards, ..self }
    }

    pub fn response_timeout(self, response_timeout: &'static str) -> Self {
        Self { response_timeout, ..self }
    }

    /// Sets a key of the worker, in TOML.
    pub fn worker(mut self, key: &'static str, value: &str) -> Self {
        set(&mut self.worker, key, value);
        self
    }

    /// Sets a key of the hook, in TOML.
    pub fn hook(mut self, key: &'static str, value: &str) -> Self {
        set(&mut self.hook, key, value);
        self
    }

    /// Feed, sweep and rebuild, as TOML with WHEEL for the wheel's name; without it there is none of them.
    pub fn net(self, toml: &str) -> Self {
        Self { net: toml.to_owned(), ..self }
    }

    /// Closes in the shop's database.
    #[cfg(feature = "sql")]
    pub fn closing(self, shop: &Shop) -> Self {
        let close = shop.settings();
        let text = |text: &str| format!("{text:?}");
        let mut plan = self
            .hook("kind", "\"sql\"")
            .hook("url", &text(&shop.url))
            .hook("table", &text(&close.table))
            .hook("guard", &text(&close.guard))
            .hook("close_at", &text(close.close_at.as_deref().unwrap_or_default()))
            .hook("set", &text(&close.set))
            .hook("state", &text(close.state.as_deref().unwrap_or_default()))
            .hook("then", &format!("{:?}", close.then))
            .hook("audit", &text(close.audit.as_deref().unwrap_or_default()))
            .hook("statement_timeout", "\"3s\"")
            .hook("lock_timeout", "\"1s\"")
            .hook("timeout", "\"4s\"");
        if let Some(zone) = &close.time_zone {
            plan = plan.hook("time_zone", &text(zone));
        }
        plan
    }

    /// Calls this endpoint of 127.0.0.1.
    pub fn calling(self, url: &str) -> Self {
        self.hook("kind", "\"webhook\"")
            .hook("url", &format!("{url:?}"))
            .hook("secret", "\"whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"")
            .hook("allow_private", "true")
            .hook("timeout", "\"4s\"")
            .hook("connect_timeout", "\"500ms\"")
    }

    fn toml(&self, wheel: &str) -> String {
        let lines = |pairs: &[(&str, String)]| {
            pairs.iter().map(|(key, value)| format!("{key} = {value}\n")).collect::<String>()
        };
        format!(
            "[redis]\nurl = {:?}\nresponse_timeout = {:?}\nconnect_timeout = \"1s\"\n[wheel.{wheel}]\nshards = {}\n\
             [wheel.{wheel}.worker]\n{}[wheel.{wheel}.hook]\n{}{}",
            self.redis,
            self.response_timeout,
            self.shards,
            lines(&self.worker),
            lines(&self.hook),
            self.net.replace("WHEEL", wheel)
        )
    }
}

fn set(pairs: &mut Vec<(&'static str, String)>, key: &'static str, value: &str) {
    pairs.retain(|(name, _)| *name != key);
    pairs.push((key, value.to_owned()));
}

impl Fleet {
    /// A formatted wheel of its own name on `server`, and workers by this plan.
    pub async fn new(server: &RedisServer, plan: &Plan) -> Self {
        let mut own = settings(plan.shards);
        own.shards = ShardCount::new(plan.shards).unwrap();
        let fleet = Self::unformatted(plan, Wheel::new(store(server), own));
        // A machine that does other things may be slow to connect.
        eventually(PATIENCE, async || fleet.wheel.format().await.ok()).await;
        fleet
    }

    /// The same for a Redis that does not answer yet.
    pub fn unformatted(plan: &Plan, wheel: Wheel) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::Builder::new().prefix("duewheel-fleet-").tempdir().expect("a temp dir");
        let file = dir.path().join("duewheel.toml");
        std::fs::write(&file, plan.toml(wheel.name().as_str())).expect("a file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        Self { wheel, dir }
    }

    /// The program with the workers' configuration.
    pub fn command(&self) -> Command {
        let mut command = duewheel();
        command.current_dir(self.dir.path());
        command
    }

    /// Runs another command with the workers' configuration.
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command().args(args))
    }

    /// Starts another command with the workers' configuration, its output on pipes.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command();
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the program starts")
    }

    /// [`Self::spawn`] with its output thrown away.
    pub fn spawn_silent(&self, args: &[&str]) -> Child {
        let mut command = self.command();
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the program starts")
    }

    /// Starts a worker.
    pub fn start(&self) -> Process {
        self.start_with(&[])
    }

    /// Starts a worker with something in its environment.
    pub fn start_with(&self, environment: &[(&str, &str)]) -> Process {
        let mut command = self.command();
        command.envs(environment.iter().copied()).args(["worker", "--json"]);
        Process::spawn(command)
    }

    /// Starts a worker of another build of the program.
    pub fn start_build(&self, program: &std::path::Path) -> Process {
        let mut command = build(program);
        command.current_dir(self.dir.path()).args(["worker", "--json"]);
        Process::spawn(command)
    }

    /// Starts a worker as the first process of a PID namespace, as a container does; signals go to the worker itself.
    pub fn start_as_first_process(&self) -> Process {
        let worker = self.command();
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        command.arg(worker.get_program()).args(["worker", "--json"]).current_dir(self.dir.path());
        command.envs(worker.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut process = Process::spawn(command);
        let children = format!("/proc/{pid}/task/{pid}/children", pid = process.child.id());
        process.signalled = Some(eventually_blocking(PATIENCE, || {
            std::fs::read_to_string(&children).ok()?.split_whitespace().next()?.parse().ok()
        }));
        process
    }

    /// Starts a worker that aborts at this point of src/worker/failpoint.rs.
    pub fn start_doomed(&self, failpoint: &str) -> Process {
        self.start_with(&[("DUEWHEEL_FAILPOINT", failpoint)])
    }

    /// Starts a worker and waits until it serves.
    pub async fn start_serving(&self) -> Process {
        let worker = self.start();
        eventually(PATIENCE, async || worker.log().contains("serving").then_some(())).await;
        worker
    }

    /// Starts so many, and waits until each one is known to the others.
    pub async fn start_known(&self, count: usize) -> Vec<Process> {
        let started: Vec<_> = (0..count).map(|_| self.start()).collect();
        self.known(&started.iter().collect::<Vec<_>>()).await;
        started
    }

    /// Waits until these are in the roster and each has looked at it since.
    pub async fn known(&self, processes: &[&Process]) {
        let seen = async || {
            let presence = self.wheel.presence().await.ok()?;
            let pids: Vec<u32> = presence.workers.iter().map(|worker| worker.pid).collect();
            processes.iter().all(|process| pids.contains(&process.pid())).then_some(())
        };
        eventually(PATIENCE, seen).await;
        // A worker reads the roster once a second.
        tokio::time::sleep(Duration::from_millis(1200)).await;
    }

    /// Enqueues these ids, due at the moment that `due` gives, and asks again until each is taken: what a caller does.
    pub async fn enqueue(&self, ids: impl IntoIterator<Item = i64>, due: impl Fn(i64) -> Moment) {
        let batch: Vec<_> =
            ids.into_iter().map(|n| deadline(&n.to_string(), DueAt::Moment(due(n)))).collect();
        let left = std::sync::Mutex::new(batch);
        eventually(PATIENCE, async || {
            let asked: Vec<_> = left.lock().unwrap().clone();
            let answers = self.wheel.enqueue_batch(&asked, OnConflict::Keep, false).await;
            let open = asked.into_iter().zip(answers).filter(|(_, answer)| answer.is_err());
            *left.lock().unwrap() = open.map(|(one, _)| one).collect();
            left.lock().unwrap().is_empty().then_some(())
        })
        .await;
    }

    /// Waits until nothing is scheduled or leased; answers what the wheel then says of itself.
    pub async fn idle(&self, timeout: Duration) -> Stats {
        eventually(timeout, async || {
            let stats = self.wheel.stats().await.ok()?;
            if stats.scheduled == 0 && stats.leased == 0 {
                return Some(stats);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        })
        .await
    }

    /// Waits until so many are leased.
    pub async fn leased(&self, at_least: u64) {
        eventually(PATIENCE, async || (self.wheel.stats().await.ok()?.leased >= at_least).then_some(()))
            .await;
    }
}

fn store(server: &RedisServer) -> std::sync::Arc<duewheel::wheel::Store> {
    let settings = duewheel::wheel::RedisSettings::new(server.url().into());
    std::sync::Arc::new(duewheel::wheel::Store::new(&settings).unwrap())
}

/// `millis` from now by the clock of this host, which is Redis's too.
pub fn soon(millis: u64) -> Moment {
    Moment::host_now().plus(Duration::from_millis(millis))
}

/// A running worker; killed when dropped.
pub struct Process {
    child: Child,
    /// Who is signalled, where it is not the child itself.
    signalled: Option<u32>,
    watchdog: Child,
    dir: tempfile::TempDir,
}

impl Process {
    /// Starts this command, its output in files.
    pub fn spawn(mut command: Command) -> Self {
        let dir = tempfile::Builder::new().prefix("duewheel-worker-").tempdir().expect("a temp dir");
        let file = |name: &str| std::fs::File::create(dir.path().join(name)).expect("a file");
        command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr"));
        let child = command.spawn().expect("the program starts");
        let watchdog = watch(child.id(), dir.path());
        Self { child, signalled: None, watchdog, dir }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.read("stderr")
    }

    /// The processor time that it has used so far.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).expect("it runs");
        let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
        // User and system, in hundredths of a second.
        let ticks = [11, 12].map(|at| fields[at].parse::<u64>().expect("a number"));
        Duration::from_millis(10 * ticks.iter().sum::<u64>())
    }

    /// Where its output is kept.
    pub fn dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default()
    }

    pub fn signal(&self, name: &str) {
        signal(self.signalled.unwrap_or(self.pid()), name);
    }

    /// Ends it as a crash would.
    pub fn kill9(&mut self) {
        self.child.kill().ok();
        self.child.wait().expect("it has ended");
    }

    /// Fails the test unless it is still the process it was.
    #[track_caller]
    pub fn still_runs(&mut self) {
        let ended = self.child.try_wait().expect("a child");
        assert!(ended.is_none(), "the worker ended: {ended:?}\n{}", self.log());
    }

    /// Waits for its end.
    pub fn ends(&mut self, timeout: Duration) -> ExitStatus {
        let ended = eventually_blocking(timeout, || self.child.try_wait().expect("a child"));
        let log = self.log();
        assert!(!log.contains("panicked"), "{log}");
        ended
    }

    /// [`Self::ends`] beside other work of the test's own runtime.
    pub async fn ended(&mut self, timeout: Duration) -> ExitStatus {
        eventually(timeout, || std::future::ready(self.child.try_wait().expect("a child"))).await
    }

    /// Asks it to drain, which must succeed; answers its tally.
    pub async fn drain(mut self) -> serde_json::Value {
        self.still_runs();
        // A process that has only just begun would simply end.
        eventually(PATIENCE, async || self.heeds_sigterm().then_some(())).await;
        self.signal("TERM");
        let ended = self.ended(Duration::from_secs(10)).await;
        assert!(ended.success(), "{ended:?}\n{}", self.log());
        self.tally()
    }

    /// Whether it has come so far that SIGTERM tells it something.
    fn heeds_sigterm(&self) -> bool {
        const SIGTERM: u64 = 1 << 14;
        let pid = self.signalled.unwrap_or(self.pid());
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & SIGTERM != 0)
    }

    /// What it says at its end that it has done.
    pub fn tally(&self) -> serde_json::Value {
        let said = self.read("stdout");
        let object: serde_json::Value =
            serde_json::from_str(said.trim()).unwrap_or_else(|e| panic!("{e}: {said}"));
        object["tally"].clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        use std::io::Write as _;
        // Kill and wait act on the child itself, so no other process can be meant.
        self.child.kill().ok();
        self.child.wait().ok();
        if let Some(mut stdin) = self.watchdog.stdin.take() {
            stdin.write_all(b"done\n").ok();
        }
        self.watchdog.wait().ok();
        if std::thread::panicking() {
            eprintln!("worker {}:\n{}", self.pid(), self.log());
        }
    }
}
