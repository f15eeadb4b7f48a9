//! The program that serves: TLS, tokens that follow each other, signals, and a worker that serves beside its work.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use crate::rig::cli::Cli;
use crate::rig::redis::{RedisOptions, RedisServer};
use crate::rig::{PATIENCE, eventually_blocking, signal};

/// A program that goes on, with its log in a file.
struct Serving {
    child: Child,
    log: std::path::PathBuf,
    address: String,
}

impl Serving {
    fn start(cli: &Cli, args: &[&str]) -> Self {
        Self::of(cli, cli.command(args))
    }

    fn of(cli: &Cli, mut command: Command) -> Self {
        let log = cli.dir.path().join("server.log");
        command.stderr(std::fs::File::create(&log).unwrap()).stdout(Stdio::null());
        let child = command.spawn().unwrap();
        let mut serving = Self { child, log, address: String::new() };
        serving.address =
            serving.says("listening").split("address=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        serving
    }

    /// The first line of the log that holds this, once it is there.
    fn says(&self, text: &str) -> String {
        eventually_blocking(PATIENCE, || {
            let log = std::fs::read_to_string(&self.log).unwrap();
            log.lines().find(|line| line.contains(text)).map(str::to_owned)
        })
    }

    fn ends(mut self, name: &str) {
        signal(self.child.id(), name);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", std::fs::read_to_string(&self.log).unwrap());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The status that curl gets.
fn status(args: &[&str]) -> String {
    let ran = Command::new("curl")
        .args(["-s", "-o", "/dev/null", "-w", "%{http_code}"])
        .args(args)
        .output()
        .unwrap();
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

fn token(cli: &Cli, name: &str) -> (String, String) {
    let made = cli.run(&["token", "new", name, "--scope", "read", "--json"]).ends(0).object();
    (made["token"].as_str().unwrap().to_owned(), made["line"].as_str().unwrap().to_owned())
}

fn certificate(cli: &Cli) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    cli.write("tls.crt", made.cert.pem());
    cli.write("tls.key", made.signing_key.serialize_pem());
}

#[test]
fn tokens_and_certificate_follow_each_other_without_a_restart() {
    let cli = Cli::new(RedisServer::shared());
    let (old, old_line) = token(&cli, "old");
    let (new, new_line) = token(&cli, "new");
    certificate(&cli);
    cli.write("tokens", &old_line);
    cli.write(
        "duewheel.toml",
        "[http]\nlisten = '127.0.0.1:0'\ntokens_file = 'tokens'\ntls_cert_file = 'tls.crt'\ntls_key_file = 'tls.key'\n",
    );
    let serving = Serving::start(&cli, &["serve"]);
    let port = serving.address.rsplit(':').next().unwrap().to_owned();
    let url = format!("https://localhost:{port}/v1/wheels");
    let trusted = cli.dir.path().join("tls.crt").display().to_string();
    let ask =
        |token: &str| status(&["--cacert", &trusted, "-H", &format!("Authorization: Bearer {token}"), &url]);
    assert_eq!(ask(&old), "200");
    assert_eq!(ask(&new), "401");
    assert_eq!(status(&[&url]), "000", "nobody vouches for it");
    assert_eq!(status(&[&format!("http://localhost:{port}/v1/wheels")]), "000", "it speaks TLS only");

    cli.write("tokens", format!("# both for a while\n{old_line}\n{new_line}\n"));
    certificate(&cli);
    signal(serving.child.id(), "HUP");
    serving.says("certificate was read again");
    assert_eq!((ask(&old), ask(&new)), ("200".to_owned(), "200".to_owned()));
    cli.write("tokens", "# nobody\n");
    signal(serving.child.id(), "HUP");
    serving.says("tokens are not taken over");
    assert_eq!(ask(&old), "200");
    serving.ends("TERM");
}

#[test]
fn a_password_of_redis_is_changed_without_a_restart_of_the_server() {
    let server = RedisServer::start(RedisOptions::default());
    let cli = Cli::new(&server);
    server.command::<String>(&["ACL", "SETUSER", "shop", "on", ">one", "~*", "&*", "+@all"]);
    let url = |password: &str| format!("redis://shop:{password}@127.0.0.1:{}\n", server.port());
    cli.write("url", url("one"));
    cli.write("duewheel.toml", "[redis]\nurl_file = 'url'\n[http]\nlisten = '127.0.0.1:0'\n");
    let mut command = cli.command(&["serve"]);
    command.env_remove("REDIS_URL");
    let serving = Serving::of(&cli, command);
    let stats = format!("http://{}/v1/wheels/{}/stats", serving.address, cli.wheel);
    assert_eq!(status(&[&stats]), "200");
    server.command::<String>(&["ACL", "SETUSER", "shop", "<one", ">two"]);
    cli.write("url", url("two"));
    signal(serving.child.id(), "HUP");
    // With the old password nobody would come back from this; the signal may be seen a moment later.
    eventually_blocking(PATIENCE, || {
        server.command::<i64>(&["CLIENT", "KILL", "USER", "shop"]);
        (status(&[&stats]) == "200").then_some(())
    });
    serving.ends("TERM");
}

#[test]
fn a_worker_serves_beside_its_work_and_both_end_together() {
    let cli = Cli::new(RedisServer::shared());
    cli.write("duewheel.toml", format!("[wheel.{}.hook]\nkind = 'log'\n", cli.wheel));
    let serving = Serving::start(&cli, &["worker", "--listen", "127.0.0.1:0"]);
    let url = format!("http://{}/v1/wheels/{}/deadlines/o-1", serving.address, cli.wheel);
    let json = "Content-Type: application/json";
    assert_eq!(status(&["-X", "PUT", &url, "-H", json, "-d", r#"{"in":"0"}"#]), "201");
    eventually_blocking(PATIENCE, || {
        let seen = Command::new("curl").args(["-s", &url]).output().unwrap();
        String::from_utf8_lossy(&seen.stdout).contains(r#""outcome":"closed""#).then_some(())
    });
    serving.ends("TERM");
}

#[test]
fn what_it_cannot_serve_it_says_at_the_start() {
    let cli = Cli::new(RedisServer::shared());
    let open = cli.run(&["serve", "--listen", "0.0.0.0:0"]).ends(78);
    assert!(open.stderr.contains("--listen") && open.stderr.contains("tokens"), "{open:?}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let taken = cli.run(&["serve", "--listen", &address]).ends(2);
    assert!(taken.stderr.contains(&address), "{taken:?}");
    let mut file = std::fs::File::create(cli.dir.path().join("tls.crt")).unwrap();
    file.write_all(b"no certificate").unwrap();
    cli.write(
        "duewheel.toml",
        "[http]\nlisten = '127.0.0.1:0'\ntls_cert_file = 'tls.crt'\ntls_key_file = 'tls.key'\n",
    );
    let broken = cli.run(&["serve"]).ends(2);
    assert!(broken.stderr.contains("tls_cert_file"), "{broken:?}");
    cli.run(&["token", "new", "a b", "--scope", "read"]).ends(2);
    cli.run(&["token", "new", "a", "--scope", "write"]).ends(2);
    let made = cli.run(&["token", "new", "a", "--scope", "read"]).ends(0);
    assert_eq!(made.stdout.matches("dwt_").count(), 1);
    assert!(made.stdout.contains("a read sha256:"));
}
