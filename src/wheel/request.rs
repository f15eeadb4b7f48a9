//! Requests that their sender gave a key: remembered for a while, with what they were answered, so that a repeat does nothing twice.

use std::time::Duration;

use super::{Wheel, keys, reply, script};
use crate::error::Result;

/// How long a request may be in work before a repeat is taken for a new one: longer than any answer takes.
const WORK: Duration = Duration::from_secs(60);

/// What is known of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// Nothing: it is remembered as one in work from now on.
    New,
    /// The same request is in work.
    InWork,
    /// Another request had this key.
    Other,
    /// It was answered so.
    Answered(Vec<u8>),
}

impl Wheel {
    /// Begins a request. `key` is a hash of its sender and the sender's key, `mark` one of what is asked, both in hexadecimal.
    pub async fn begin_request(&self, key: &str, mark: &str) -> Result<Begun> {
        let mut reply = self.request("begin", self.request_key(key), mark, WORK, b"").await?;
        Ok(match reply.word()?.as_str() {
            "new" => Begun::New,
            "work" => Begun::InWork,
            "other" => Begun::Other,
            "done" => Begun::Answered(reply.bytes()?),
            other => return Err(reply::unexpected("request", &other)),
        })
    }

    /// Remembers what it was answered, for so long.
    pub async fn answer_request(&self, key: &str, mark: &str, answer: &[u8], keep: Duration) -> Result<()> {
        self.request("answer", self.request_key(key), mark, keep, answer).await.map(drop)
    }

    /// Forgets it: it was not carried out, and may be made again.
    pub async fn forget_request(&self, key: &str, mark: &str) -> Result<()> {
        self.request("forget", self.request_key(key), mark, WORK, b"").await.map(drop)
    }

    /// Begins a request and forgets it, on that key of the self-test.
    pub(super) async fn try_request(&self, key: &str) -> Result<()> {
        self.request("begin", key.to_owned(), "selftest", WORK, b"").await?;
        self.request("forget", key.to_owned(), "selftest", WORK, b"").await.map(drop)
    }

    fn request_key(&self, key: &str) -> String {
        keys::of_wheel(self.name(), &format!("request:{key}"))
    }

    async fn request(
        &self,
        verb: &str,
        key: String,
        mark: &str,
        keep: Duration,
        answer: &[u8],
    ) -> Result<reply::Reply> {
        let keys = [key];
        let args = |cmd: &mut redis::Cmd| {
            cmd.arg(verb).arg(mark).arg(keep.as_millis().to_string()).arg(answer);
        };
        let attempted = format!("remember a request on wheel {}", self.name());
        reply::Reply::array("request", self.store().run(&script::REQUEST, &keys, args, &attempted).await?)
    }
}
