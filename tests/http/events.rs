//! The stream of events: what happened arrives, once, also for a client that was away.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::rig::PATIENCE;
use crate::rig::api::ApiServer;

/// An open stream.
struct Listening {
    lines: Lines<BufReader<OwnedReadHalf>>,
    _writer: OwnedWriteHalf,
}

/// One event: name, place, data.
type Told = (String, String, Value);

impl Listening {
    async fn open(api: &ApiServer, query: &str, last: Option<&str>) -> Self {
        let (reader, mut writer) = TcpStream::connect(api.address).await.unwrap().into_split();
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        let head = format!("GET {}{query} HTTP/1.1\r\nHost: localhost\r\n{last}\r\n", api.path("/events"));
        writer.write_all(head.as_bytes()).await.unwrap();
        let mut listening = Self { lines: BufReader::new(reader).lines(), _writer: writer };
        assert_eq!(listening.line().await.unwrap(), "HTTP/1.1 200 OK");
        // Open: from here on nothing is missed.
        while listening.line().await.unwrap() != ": open" {}
        listening
    }

    /// The next line; `None` at the end of the stream.
    async fn line(&mut self) -> Option<String> {
        tokio::time::timeout(PATIENCE, self.lines.next_line()).await.unwrap().unwrap_or(None)
    }

    async fn next(&mut self) -> Told {
        let (mut name, mut id) = (String::new(), String::new());
        loop {
            let line = self.line().await.unwrap();
            match line.split_once(": ") {
                Some(("event", text)) => name = text.to_owned(),
                Some(("id", text)) => id = text.to_owned(),
                Some(("data", text)) => return (name, id, serde_json::from_str(text).unwrap()),
                _ => {}
            }
        }
    }
}

async fn cancelled(api: &ApiServer, names: &[&str]) {
    let mut client = api.client().await;
    for name in names {
        let path = api.path(&format!("/deadlines/{name}"));
        client.json("PUT", &path, r#"{"in":"1h"}"#).await.is(201);
        client.bare("DELETE", &path).await.is(200);
    }
}

#[tokio::test]
async fn a_client_that_comes_back_misses_nothing_and_sees_nothing_twice() {
    let api = ApiServer::start().await;
    let mut listening = Listening::open(&api, "", None).await;
    cancelled(&api, &["a", "b", "c", "d"]).await;
    let (name, _, data) = listening.next().await;
    assert_eq!(
        (name.as_str(), data["what"].as_str(), data["id"].as_str()),
        ("cancelled", Some("cancelled"), Some("a"))
    );
    let (_, place, data) = listening.next().await;
    assert_eq!(data["id"], "b");
    drop(listening);
    cancelled(&api, &["e"]).await;
    let mut again = Listening::open(&api, "", Some(&place)).await;
    for expected in ["c", "d", "e"] {
        assert_eq!(again.next().await.2["id"], expected);
    }
    cancelled(&api, &["f"]).await;
    assert_eq!(again.next().await.2["id"], "f");
    api.stop().await;
}

#[tokio::test]
async fn a_stream_goes_back_as_far_as_asked_tells_what_was_asked_and_ends_with_the_server() {
    let api = ApiServer::start().await;
    cancelled(&api, &["a"]).await;
    crate::rig::wheel::bury(&api.wheel, "b", "rejected").await;
    let mut listening = Listening::open(&api, "?since=1h&type=dead,closed", None).await;
    let (name, _, data) = listening.next().await;
    assert_eq!((name.as_str(), data["id"].as_str()), ("dead", Some("b")));
    let mut client = api.client().await;
    client.bare("GET", &api.path("/events?type=opened")).await.problem(422, "invalid");
    client
        .send("GET", &api.path("/events"), &[("last-event-id", "yesterday")], "")
        .await
        .problem(400, "bad_last_event_id");
    let (_, stopped) = tokio::join!(
        async { while listening.line().await.is_some() {} },
        tokio::time::timeout(Duration::from_secs(5), api.stop())
    );
    stopped.expect("an open stream does not hold the server");
}

#[tokio::test]
async fn a_backlog_is_told_whole_and_gone_on_with_in_the_middle_of_an_entry() {
    let redis = crate::rig::redis::RedisServer::shared();
    let api = ApiServer::start().await;
    let expected = crate::events::write_backlog(redis, &api.wheel, 4, 5);
    // From the beginning of time, in milliseconds.
    let mut listening = Listening::open(&api, "?since=253402300799999ms", None).await;
    let mut place = String::new();
    for id in &expected[..2345] {
        let (_, at, data) = listening.next().await;
        assert_eq!(data["id"], id.as_str());
        place = at;
    }
    drop(listening);
    let mut again = Listening::open(&api, "", Some(&place)).await;
    for id in &expected[2345..] {
        assert_eq!(again.next().await.2["id"], id.as_str());
    }
    cancelled(&api, &["now"]).await;
    assert_eq!(again.next().await.2["id"], "now");
    api.stop().await;
}
