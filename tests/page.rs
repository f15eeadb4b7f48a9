//! The operator page as it is fetched, without a browser: who may see and do what, every screen in every state, and what others wrote.

#[path = "page/acts.rs"]
mod acts;
#[path = "page/door.rs"]
mod door;
#[path = "page/screens.rs"]
mod screens;
#[path = "page/speed.rs"]
mod speed;

use duewheel::deadline::{Deadline, OnConflict, Payload};
use duewheel::http::{HttpSettings, Scope};
use duewheel::wheel::Wheel;

use crate::rig::api::{Answer, ApiServer, Client, settings, token};
use crate::rig::redis::RedisServer;
use crate::rig::wheel::{after, bury, deadline};

/// A browser's headers for a page that a person opens.
const OPENS: [(&str, &str); 3] =
    [("accept", "text/html,*/*;q=0.8"), ("sec-fetch-site", "none"), ("sec-fetch-dest", "document")];

/// Somebody with a browser, perhaps logged in.
struct Visitor {
    client: Client,
    cookie: String,
}

impl Visitor {
    /// Somebody that the server knows nothing of.
    async fn stranger(api: &ApiServer) -> Self {
        Self { client: api.client().await, cookie: String::new() }
    }

    /// Logged in with this token.
    async fn with(api: &ApiServer, secret: &str) -> Self {
        let mut visitor = Self::stranger(api).await;
        let answer = visitor.post("/login", &[("token", secret)]).await.is(303);
        visitor.cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        visitor
    }

    async fn get(&mut self, path: &str) -> Answer {
        let mut headers = OPENS.to_vec();
        headers.push(("cookie", &self.cookie));
        self.client.send("GET", path, &headers, "").await
    }

    /// The text of a page that must be there.
    async fn page(&mut self, path: &str) -> String {
        let answer = self.get(path).await.is(200);
        assert_eq!(answer.header("content-type"), "text/html; charset=utf-8", "{path}");
        let text = String::from_utf8(answer.body).unwrap();
        assert!(
            text.starts_with("<!doctype html>") && text.trim_end().ends_with("</html>"),
            "{path}: {text}"
        );
        text
    }

    /// Sends a form of the page.
    async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.post_as(path, fields, &[("sec-fetch-site", "same-origin")]).await
    }

    /// Sends a form with these headers.
    async fn post_as(&mut self, path: &str, fields: &[(&str, &str)], from: &[(&str, &str)]) -> Answer {
        let mut form = url::form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let mut headers = from.to_vec();
        headers.extend([
            ("content-type", "application/x-www-form-urlencoded"),
            ("accept", "text/html"),
            ("cookie", &self.cookie),
        ]);
        self.client.send("POST", path, &headers, &form.finish()).await
    }
}

/// Every screen and export, below `/wheels/{wheel}`.
const SCREENS: [&str; 8] = [
    "",
    "/wheel",
    "/deadlines",
    "/deadlines?state=ended",
    "/deadlines?id=o",
    "/dead",
    "/deadline?id=o-1",
    "/deadlines?state=dead",
];

fn at(api: &ApiServer, path: &str) -> String {
    format!("/wheels/{}{path}", api.wheel.name())
}

/// Settings with these tokens.
fn guarded(tokens: &[duewheel::http::Token]) -> HttpSettings {
    HttpSettings { tokens: tokens.to_vec(), ..settings() }
}

/// Places one with this payload, due in so many milliseconds.
async fn place(wheel: &Wheel, id: &str, millis: u64, payload: &str) {
    let one = Deadline { payload: Payload::from_json(payload).unwrap(), ..deadline(id, after(millis)) };
    wheel.enqueue(&one, OnConflict::Keep, false).await.unwrap().unwrap();
}

/// Places all of these, which must be taken.
async fn place_all(wheel: &Wheel, batch: &[Deadline]) {
    for part in batch.chunks(5000) {
        for answer in wheel.enqueue_batch(part, OnConflict::Keep, false).await {
            answer.unwrap().unwrap();
        }
    }
}
