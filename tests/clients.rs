//! The shops of examples/clients, each in its own language with nothing but that language's standard library: they tell duewheel of
//! orders and payments, and close only what duewheel, and nobody else, asks them to close.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::rig::redis::RedisServer;
use crate::rig::stub::{Answer, Stub};
use crate::rig::worker::{Fleet, Plan};
use crate::rig::{PATIENCE, eventually, free_port, on_path};

/// Both are valid: the shop's secret is being exchanged.
const OLD: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDHCWhkn+hgSA=";
const NEW: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const STRANGER: &str = "whsec_bm90IHRoZSBmaXJzdCBzZWNyZXQsIGJ1dCBpdHMgaGVpcg==";

/// A shop under way; ended when dropped.
struct Shop {
    child: Child,
    address: SocketAddr,
}

/// What a shop is told of duewheel.
struct Told<'a> {
    duewheel: &'a str,
    token: &'a str,
    wheel: &'a str,
    window: &'a str,
    /// Where it is to listen; 0 for anywhere.
    port: u16,
}

impl Shop {
    /// Starts the shop of that language, or answers `None` where this machine does not speak it.
    fn start(language: &str, built: &Path, told: &Told<'_>) -> Option<Self> {
        let mut command = program(language, built)?;
        command.arg(format!("127.0.0.1:{}", told.port));
        command
            .env("SHOP_DUEWHEEL", told.duewheel)
            .env("SHOP_TOKEN", told.token)
            .env("SHOP_WHEEL", told.wheel);
        command.env("SHOP_WINDOW_SECONDS", told.window).env("SHOP_WEBHOOK_SECRET", format!("{OLD} {NEW}"));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the shop starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{language}: {line}"));
        Some(Self { child, address: address.parse().unwrap() })
    }

    /// One request, answered with status and JSON.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split_whitespace().nth(1).and_then(|code| code.parse().ok());
        let from = answer.find('{').unwrap_or_else(|| panic!("{method} {path}: {answer}"));
        let to = answer.rfind('}').unwrap();
        (status.unwrap(), serde_json::from_str(&answer[from..=to]).unwrap())
    }

    fn status_of(&self, order: &str) -> Value {
        self.ask("GET", "/orders", &[], b"").1[order].clone()
    }

    fn call(&self, call: &Call) -> (u16, Value) {
        let headers: Vec<_> = call.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.ask("POST", "/hooks/close", &headers, call.body.as_bytes())
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn folder(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/clients").join(language)
}

/// What runs the shop. Languages that need a compiler are compiled into `built`.
fn program(language: &str, built: &Path) -> Option<Command> {
    let folder = folder(language);
    let compiled = |compiler: &mut Command| {
        let ran = compiler.current_dir(&folder).output().expect("the compiler runs");
        assert!(ran.status.success(), "{language}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    let mut command = match language {
        "python" => {
            let mut command = Command::new(on_path("python3")?);
            // No compiled modules beside the sources.
            command.arg("-B").arg(folder.join("shop.py"));
            command
        }
        "node" => {
            let mut command = Command::new(on_path("node")?);
            command.arg(folder.join("shop.mjs"));
            command
        }
        "java" => {
            let (java, javac) = (on_path("java")?, on_path("javac")?);
            if !built.join("Shop.class").exists() {
                let mut compiler = Command::new(javac);
                compiler.args(["-Xlint:all", "-Werror", "-d"]).arg(built);
                compiled(compiler.args(["Duewheel.java", "Shop.java"]));
            }
            let mut command = Command::new(java);
            command.args(["-Xmx64m", "-cp"]).arg(built).arg("Shop");
            command
        }
        "go" => {
            let go = on_path("go")?;
            if !built.join("shop").exists() {
                let mut compiler = Command::new(go);
                compiler.args(["build", "-o"]).arg(built.join("shop")).arg(".");
                compiled(compiler.env("GOCACHE", built.join("cache")));
            }
            Command::new(built.join("shop"))
        }
        other => panic!("no shop in {other}"),
    };
    command.current_dir(built);
    Some(command)
}

/// A call as duewheel makes it, to be spoiled.
#[derive(Clone)]
struct Call {
    headers: Vec<(&'static str, String)>,
    body: String,
}

impl Call {
    /// Signed by `secret` as of now plus `ahead` seconds.
    fn new(secret: &str, ahead: i64, id: &str, webhook_id: &str, fence: u64) -> Self {
        // The order of the members is the program's own. A payload says of itself what it likes.
        let payload = json!({"id": "another", "fence": 0, "type": "order.reminder_due"});
        let data = format!(
            r#"{{"wheel":"orders","id":{},"generation":1,"stage":0,"attempt":1,"fence":{fence},"payload":{payload}}}"#,
            json!(id)
        );
        let body =
            format!(r#"{{"type":"order.close_due","timestamp":"2026-09-21T14:13:20.412Z","data":{data}}}"#);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        Self::signed(secret, i64::try_from(now).unwrap() + ahead, webhook_id, body)
    }

    fn signed(secret: &str, at: i64, webhook_id: &str, body: String) -> Self {
        let signature = Webhook::new(secret).unwrap().sign(webhook_id, at, body.as_bytes()).unwrap();
        let headers = vec![
            ("webhook-id", webhook_id.to_owned()),
            ("webhook-timestamp", at.to_string()),
            ("webhook-signature", signature),
        ];
        Self { headers, body }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(own, _)| *own != name);
        self.headers.push((name, value.into()));
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(own, _)| *own != name);
        self
    }

    fn header(&self, name: &str) -> String {
        self.headers.iter().find(|(own, _)| *own == name).unwrap().1.clone()
    }
}

/// Every way to forge a call that the page names, and some more.
fn forgeries(order: &str) -> Vec<(&'static str, Call)> {
    let good = Call::new(OLD, 0, order, "orders_x_1_0", 7);
    let signature = good.header("webhook-signature");
    let digest = signature.strip_prefix("v1,").unwrap().to_owned();
    let mut flipped = digest.clone().into_bytes();
    flipped[0] = if flipped[0] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).unwrap();
    let tampered = Call { body: good.body.replace("\"attempt\":1", "\"attempt\":2"), ..good.clone() };
    vec![
        ("another's secret", Call::new(STRANGER, 0, order, "orders_x_1_0", 7)),
        ("another body", tampered),
        ("another id", good.clone().with("webhook-id", "orders_y_1_0")),
        ("another moment", {
            let at: i64 = good.header("webhook-timestamp").parse().unwrap();
            good.clone().with("webhook-timestamp", (at + 1).to_string())
        }),
        ("too old", Call::new(OLD, -310, order, "orders_x_1_0", 7)),
        ("from the future", Call::new(OLD, 310, order, "orders_x_1_0", 7)),
        ("no signature", good.clone().without("webhook-signature")),
        ("no timestamp", good.clone().without("webhook-timestamp")),
        ("no id", good.clone().without("webhook-id")),
        ("an empty signature", good.clone().with("webhook-signature", "v1,")),
        ("no version", good.clone().with("webhook-signature", digest.clone())),
        ("another version", good.clone().with("webhook-signature", format!("v1a,{digest}"))),
        ("half a signature", good.clone().with("webhook-signature", &signature[..20])),
        ("more than a signature", good.clone().with("webhook-signature", format!("{signature}AAAA"))),
        ("a bit is wrong", good.clone().with("webhook-signature", format!("v1,{flipped}"))),
        ("words for a moment", good.clone().with("webhook-timestamp", "now")),
        ("a moment below zero", good.clone().with("webhook-timestamp", "-1")),
        ("a moment beyond all numbers", good.with("webhook-timestamp", "99999999999999999999")),
    ]
}

/// What every shop must do, whatever its language.
async fn keeps_the_contract(language: &str) {
    let duewheel = Stub::start().await;
    duewheel.otherwise(Answer::status(200).body("{}"));
    let built = tempfile::Builder::new().prefix("duewheel-shop-").tempdir().unwrap();
    let address = duewheel.url("");
    let told = Told { duewheel: &address, token: "a-token", wheel: "orders", window: "1800", port: 0 };
    let Some(shop) = Shop::start(language, built.path(), &told) else {
        assert!(
            std::env::var_os("DUEWHEEL_TEST_TOOLS").is_none() || language == "go" || language == "java",
            "{language} is not installed"
        );
        eprintln!("{language} is not installed: its client is left out");
        return;
    };

    // Told of an order and of its payment, at the right address, by the right person; asked again where duewheel was busy.
    duewheel.otherwise(Answer::status(503).header("retry-after", "1"));
    let asked = std::thread::scope(|scope| {
        let placing = scope.spawn(|| shop.ask("PUT", "/orders/A-17", &[], b""));
        while duewheel.calls().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        duewheel.otherwise(Answer::status(200).body("{}"));
        placing.join().unwrap()
    });
    assert_eq!(asked, (201, json!({"status": "unpaid"})), "{language}");
    let calls = duewheel.calls();
    assert_eq!(calls.len(), 2, "{language}: {calls:?}");
    assert!(calls[1].arrived_ms - calls[0].arrived_ms >= 900, "{language}: did not wait as asked");
    for call in &calls {
        assert_eq!((call.method.as_str(), call.path.as_str()), ("PUT", "/v1/wheels/orders/deadlines/A-17"));
        assert_eq!(call.header("authorization"), Some("Bearer a-token"), "{language}");
        assert_eq!(call.header("content-type"), Some("application/json"), "{language}");
        let body: Value = serde_json::from_slice(&call.body).unwrap();
        assert_eq!(body["payload"], json!({"shop": language}), "{language}");
        let window = body["at"].as_u64().unwrap() - call.arrived_ms;
        assert!((1_790_000..=1_800_000).contains(&window), "{language}: {window} ms");
    }
    assert_eq!(calls[0].body, calls[1].body, "{language}: a repeat meant another moment");
    shop.ask("PUT", "/orders/paid", &[], b"");
    assert_eq!(shop.ask("PATCH", "/orders/paid", &[], b""), (200, json!({"status": "paid"})), "{language}");
    let last = duewheel.calls().pop().unwrap();
    assert_eq!((last.method.as_str(), last.path.as_str()), ("DELETE", "/v1/wheels/orders/deadlines/paid"));
    assert_eq!(last.header("authorization"), Some("Bearer a-token"), "{language}");
    // What was unknown, or had ended, needs no cancelling.
    for code in ["absent", "ended"] {
        duewheel.otherwise(
            Answer::status(if code == "absent" { 404 } else { 409 })
                .body(format!(r#"{{"code":"{code}","title":"no"}}"#)),
        );
        shop.ask("PUT", "/orders/unknown", &[], b"");
        let (status, answer) = shop.ask("PATCH", "/orders/unknown", &[], b"");
        assert_eq!((status, answer), (200, json!({"status": "paid"})), "{language}: {code}");
    }
    // A no is final; the shop has its order all the same, and its payment.
    let before = duewheel.calls().len();
    duewheel.otherwise(Answer::status(403).body(r#"{"code":"forbidden","title":"no"}"#));
    let (status, answer) = shop.ask("PUT", "/orders/refused", &[], b"");
    assert_eq!((status, &answer["status"]), (503, &"unpaid".into()), "{language}: {answer}");
    assert!(answer["deadline"].as_str().unwrap().contains("403"), "{language}: {answer}");
    assert_eq!(duewheel.calls().len(), before + 1, "{language}: a no was asked again");

    // Forgeries change nothing.
    for (what, call) in forgeries("A-17") {
        assert_eq!(shop.call(&call).0, 401, "{language}: {what}");
    }
    assert_eq!(shop.status_of("A-17"), "unpaid", "{language}");

    // Duewheel's own calls are understood. A reminder closes nothing.
    let good = Call::new(OLD, 0, "A-17", "orders_A-17_1_0", 7);
    let at = good.header("webhook-timestamp").parse().unwrap();
    let reminder = good.body.replace("order.close_due", "order.reminder_due");
    assert_eq!(shop.call(&Call::signed(NEW, at, "orders_A-17_1_1", reminder)).0, 200, "{language}");
    assert_eq!(shop.status_of("A-17"), "unpaid", "{language}: a reminder closed it");
    let closed = (200, json!({"verdict": "closed"}));
    let both = format!("v1,AAAA {}", good.header("webhook-signature"));
    assert_eq!(shop.call(&good.clone().with("webhook-signature", both)), closed, "{language}");
    assert_eq!(shop.status_of("A-17"), "closed", "{language}");
    // Repeated, by the other secret and later in the tolerance: the same answer. Another life: another.
    assert_eq!(shop.call(&Call::new(NEW, -200, "A-17", "orders_A-17_1_0", 9)), closed, "{language}");
    let (status, answer) = shop.call(&Call::new(OLD, 0, "A-17", "orders_A-17_2_0", 11));
    assert_eq!((status, &answer["verdict"]), (200, &"already_closed".into()), "{language}");
    let (_, answer) = shop.call(&Call::new(OLD, 0, "A-17", "orders_A-17_1_0", 8));
    assert_eq!(answer["verdict"], "failed", "{language}: a frozen worker was believed");
    let (_, answer) = shop.call(&Call::new(OLD, 0, "paid", "orders_paid_1_0", 7));
    assert_eq!((&answer["verdict"], &answer["state"]), (&"skipped".into(), &"paid".into()), "{language}");
    assert_eq!(shop.status_of("paid"), "paid", "{language}");
    let (_, answer) = shop.call(&Call::new(OLD, 0, "nobody's", "orders_n_1_0", 7));
    assert_eq!(answer["verdict"], "gone", "{language}");

    drop(shop);
    closes_through_the_api(language, built.path()).await;
}

/// The same shop with a server and a worker of this program: their own tokens, answers, signatures and connections.
async fn closes_through_the_api(language: &str, built: &Path) {
    let port = free_port();
    let plan =
        Plan::new(RedisServer::shared().url()).calling(&format!("http://127.0.0.1:{port}/hooks/close"));
    let fleet = Fleet::new(RedisServer::shared(), &plan).await;
    let made = fleet.run(&["token", "new", language, "--scope", "enqueue", "--json"]).ends(0).object();
    let (token, line) = (made["token"].as_str().unwrap(), made["line"].as_str().unwrap());
    let tokens = built.join("tokens");
    std::fs::write(&tokens, format!("{line}\n")).unwrap();
    let (api, tokens_file) =
        (format!("127.0.0.1:{}", free_port()), format!("http.tokens_file={}", tokens.display()));
    let _server = Served(fleet.spawn_silent(&["serve", "--listen", &api, "--set", &tokens_file]));
    let listens = async || TcpStream::connect(&api).ok().map(drop);
    eventually(PATIENCE, listens).await;

    let url = format!("http://{api}");
    let told = Told { duewheel: &url, token, wheel: fleet.wheel.name().as_str(), window: "5", port };
    let shop = Shop::start(language, built, &told).unwrap();
    let worker = fleet.start();
    let ids: Vec<String> = (1..=40).map(|n| format!("A-{n}.x~{n}")).collect();
    for (n, id) in ids.iter().enumerate() {
        let answer = shop.ask("PUT", &format!("/orders/{id}"), &[], b"");
        assert_eq!(answer, (201, json!({"status": "unpaid"})), "{language}");
        if n % 4 == 0 {
            let answer = shop.ask("PATCH", &format!("/orders/{id}"), &[], b"");
            assert_eq!(answer, (200, json!({"status": "paid"})), "{language}");
        }
    }
    let done = async || {
        let orders = shop.ask("GET", "/orders", &[], b"").1;
        ids.iter().all(|id| orders[id] != "unpaid").then_some(orders)
    };
    let orders = eventually(PATIENCE, done).await;
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(orders[id], if n % 4 == 0 { "paid" } else { "closed" }, "{language}: {id}");
    }
    let stats = fleet.idle(PATIENCE).await;
    assert_eq!((stats.dead, stats.ended), (0, 40), "{language}");
    let tally = worker.drain().await;
    // On a machine that is slow enough an order comes due while it is being paid: skipped, then.
    assert_eq!(tally["closed"], 30, "{language}: {tally}");
}

/// A server under way; ended when dropped.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_shop_keeps_the_contract() {
    keeps_the_contract("python").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_shop_keeps_the_contract() {
    keeps_the_contract("node").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_java_shop_keeps_the_contract() {
    keeps_the_contract("java").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_go_shop_keeps_the_contract() {
    keeps_the_contract("go").await;
}

/// Nothing but the standard library: a shop may paste the file into its own code.
#[test]
fn the_clients_need_nothing_to_be_installed() {
    for (language, forbidden) in [
        ("python", &["requirements.txt", "pyproject.toml"][..]),
        ("node", &["package.json"]),
        ("java", &["pom.xml", "build.gradle"]),
        ("go", &["go.sum"]),
    ] {
        for name in forbidden {
            assert!(!folder(language).join(name).exists(), "{language}/{name}");
        }
    }
    let module = std::fs::read_to_string(folder("go").join("go.mod")).unwrap();
    assert!(!module.contains("require"), "{module}");
}
