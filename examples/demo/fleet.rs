//! The fleet: two worker processes of the real binary, with a configuration file as any shop would write it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;

/// What all workers share.
pub struct Fleet {
    duewheel: PathBuf,
    folder: PathBuf,
    redis_url: String,
}

/// One worker process; killed when dropped.
pub struct Worker {
    pub name: &'static str,
    process: Child,
    log: PathBuf,
}

impl Fleet {
    /// Writes the configuration file into the folder.
    pub fn new(duewheel: &Path, folder: &Path, redis_url: &str, wheel: &str) -> Outcome<Self> {
        let database = folder.join("shop.db");
        let config = format!(
            r#"[wheel.{wheel}.worker]
lease        = "8s"   # short, so that one sees the killed worker's orders come back
backoff_base = "100ms"
backoff_cap  = "1s"   # a database that is busy with its other writers is asked again soon

[wheel.{wheel}.hook]
kind         = "sql"
url          = "sqlite://{database}"
table        = "orders"
key          = "id"
guard        = "status = 'unpaid'"
close_at     = "close_at"
set          = "status = 'closed', closed_at = :now"
state        = "status"
timeout      = "6s"
lock_timeout = "5s"   # SQLite has one writer at a time; on a slow disk one waits
then         = [
  """UPDATE item SET reserved = reserved - i.quantity, available = available + i.quantity
     FROM order_item i WHERE i.sku = item.sku AND i.order_id = :id""",
  """INSERT INTO order_log (order_id, action, generation, fence, attempt, cause, due_at, logged_at)
     VALUES (:id, 'close', :generation, :fence, :attempt, :cause, :due_at, :now)""",
]
"#,
            database = database.display(),
        );
        std::fs::write(folder.join("duewheel.toml"), config)?;
        Ok(Self { duewheel: duewheel.to_owned(), folder: folder.to_owned(), redis_url: redis_url.to_owned() })
    }

    /// Starts a worker; what it has to say goes to its log file.
    pub fn start(&self, name: &'static str) -> Outcome<Worker> {
        let log = self.folder.join(format!("{name}.log"));
        let output = std::fs::File::create(&log)?;
        let mut command = Command::new(&self.duewheel);
        // What the caller's own environment says of a wheel is not meant for this one.
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("DUEWHEEL_"))
        {
            command.env_remove(name);
        }
        let process = command
            .arg("worker")
            .arg("--config")
            .arg(self.folder.join("duewheel.toml"))
            .env("REDIS_URL", &self.redis_url)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", self.duewheel.display()))?;
        Ok(Worker { name, process, log })
    }
}

impl Worker {
    /// SIGKILL: no farewell, no clean-up.
    pub fn kill(&mut self) -> Outcome<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// SIGTERM, and time to finish what is in hand.
    pub fn drain(mut self) -> Outcome<ExitStatus> {
        let pid = self.process.id().to_string();
        Command::new("kill").args(["-s", "TERM", &pid]).status()?;
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(format!("worker {} did not end within 10 s of SIGTERM; its log: {}", self.name, self.log())
            .into())
    }

    /// Says so if the worker has ended by itself.
    pub fn check(&mut self) -> Outcome<()> {
        match self.process.try_wait()? {
            None => Ok(()),
            Some(status) => {
                Err(format!("worker {} ended with {status}; its log: {}", self.name, self.log()).into())
            }
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have been killed on purpose already.
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
