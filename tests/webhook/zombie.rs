//! RELIABILITY 3a, row 6: a worker is frozen after it has seen that its lease is good and before its call arrives. Another worker closes
//! its orders meanwhile; then the call arrives all the same. The shop sees two fences and closes once.

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::receiver::sample;
use crate::rig::proxy::{Proxy, Way};
use crate::rig::redis::RedisServer;
use crate::rig::worker::{Fleet, Plan, soon};
use crate::rig::{PATIENCE, eventually};

/// That of [`Plan::calling`].
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const ORDERS: usize = 3;

/// The sample shop, and all that was said to it and by it.
struct Shop {
    address: SocketAddr,
    said: Arc<Mutex<Said>>,
}

#[derive(Default)]
struct Said {
    /// One text for each connection.
    calls: Vec<String>,
    answers: String,
}

impl Shop {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shop = listener.local_addr().unwrap();
        std::thread::spawn(move || sample::run(&listener, SECRET).unwrap());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, said) = (listener.local_addr().unwrap(), Arc::<Mutex<Said>>::default());
        let heard = said.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (heard, server) = (heard.clone(), TcpStream::connect(shop).await.unwrap());
                let own = {
                    let calls = &mut heard.lock().unwrap().calls;
                    calls.push(String::new());
                    calls.len() - 1
                };
                tokio::spawn(async move {
                    let (mut from_client, mut to_client) = client.into_split();
                    let (mut from_shop, mut to_shop) = server.into_split();
                    let asks = async {
                        let mut bytes = [0; 8192];
                        while let Ok(read @ 1..) = from_client.read(&mut bytes).await {
                            heard.lock().unwrap().calls[own] += &String::from_utf8_lossy(&bytes[..read]);
                            to_shop.write_all(&bytes[..read]).await.unwrap();
                        }
                    };
                    let answers = async {
                        let mut bytes = [0; 8192];
                        while let Ok(read @ 1..) = from_shop.read(&mut bytes).await {
                            heard.lock().unwrap().answers += &String::from_utf8_lossy(&bytes[..read]);
                            // Nobody may be listening any more.
                            to_client.write_all(&bytes[..read]).await.ok();
                        }
                    };
                    tokio::select! { () = asks => {}, () = answers => {} }
                });
            }
        });
        let shop = Self { address, said };
        for n in 1..=ORDERS {
            shop.ask("PUT", &format!("/orders/{n}")).await;
        }
        shop
    }

    /// A request of the shop's own.
    async fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(format!("{method} {path} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = vec![0; 8192];
        let read = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..read]).into_owned()
    }

    /// How often the shop has answered so.
    fn answered(&self, what: &str) -> usize {
        self.said.lock().unwrap().answers.matches(what).count()
    }

    /// The fences of the calls about that order.
    fn fences(&self, order: usize) -> Vec<u64> {
        let said = self.said.lock().unwrap();
        let about = format!("\"id\":\"{order}\"");
        let calls = said.calls.iter().flat_map(|text| text.split("POST /").skip(1));
        let fence = |call: &str| {
            let rest = call.split("duewheel-fence: ").nth(1).unwrap_or_else(|| panic!("no fence: {call}"));
            rest.split("\r\n").next().unwrap().parse().unwrap()
        };
        calls.filter(|call| call.contains(&about)).map(fence).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_a_frozen_worker_sends_after_its_lease_is_told_by_its_fence_and_closes_nothing() {
    let (server, shop) = (RedisServer::shared(), Shop::start().await);
    let wire = Proxy::start(shop.address.port());
    let plan = |port: u16| {
        let plan = Plan::new(server.url()).calling(&format!("http://127.0.0.1:{port}/hooks/close"));
        let plan = plan.worker("lease", "\"2500ms\"").worker("lease_margin", "\"100ms\"");
        plan.hook("timeout", "\"2200ms\"")
    };
    let fleet = Fleet::new(server, &plan(wire.port())).await;
    let frozen = fleet.start_serving().await;
    // Its calls are on their way and do not arrive.
    let before = wire.bytes(Way::Up);
    wire.hold(Way::Up);
    fleet.enqueue(1..=ORDERS as i64, |_| soon(0)).await;
    let sent = async || (wire.bytes(Way::Up) - before > 700 * ORDERS as u64).then_some(());
    eventually(PATIENCE, sent).await;
    frozen.signal("STOP");
    // Another one has the way free, takes them when their leases are over, and closes them.
    let direct = Fleet::unformatted(&plan(shop.address.port()), fleet.wheel.clone());
    let other = direct.start();
    fleet.idle(PATIENCE).await;
    assert_eq!(shop.answered("\"verdict\":\"closed\""), ORDERS);

    wire.heal();
    eventually(PATIENCE, async || (shop.answered("a later claim was seen") == ORDERS).then_some(())).await;
    frozen.signal("CONT");
    for order in 1..=ORDERS {
        let fences = shop.fences(order);
        assert!(fences.len() == 2 && fences[0] != fences[1], "order {order}: {fences:?}");
    }
    // It goes on, and what it was told too late changes nothing.
    let tally = frozen.drain().await;
    let of = |what: &str| tally[what].as_u64().unwrap();
    assert_eq!(
        (of("closed"), of("retried"), of("distrusted") + of("stale")),
        (0, 0, ORDERS as u64),
        "{tally}"
    );
    assert_eq!(other.drain().await["closed"], ORDERS as u64);
    assert_eq!(shop.answered("\"verdict\":\"closed\""), ORDERS, "closed once");
    assert_eq!(shop.ask("GET", "/orders").await.matches("closed").count(), ORDERS);
    let stats = fleet.wheel.stats().await.unwrap();
    assert_eq!((stats.totals["closed"], stats.totals["retried"], stats.dead), (ORDERS as u64, 0, 0));
}
