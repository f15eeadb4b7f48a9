//! The operator page as a person meets it: in Chromium, by hand and by keyboard, by day and by night, on a phone, without JavaScript, and
//! with everything on it that strangers can write. tests/browser/*.mjs are the journeys; any word on the console, dialog, report of the
//! content security policy or failed request on the way fails them.

#[path = "browser/acts.rs"]
mod acts;
#[path = "browser/doors.rs"]
mod doors;
#[path = "browser/drill.rs"]
mod drill;
#[path = "browser/hostile.rs"]
mod hostile;
#[path = "browser/pictures.rs"]
mod pictures;
#[path = "browser/screens.rs"]
mod screens;

use std::time::Duration;

use duewheel::deadline::{Deadline, OnConflict, Payload};
use duewheel::wheel::Wheel;

use crate::rig::chromium::Chromium;
use crate::rig::page::Page;
use crate::rig::redis::RedisServer;
use crate::rig::wheel::{after, deadline};
use crate::rig::worker::{Fleet, Plan};

/// The browser, or the end of the test where this machine has none.
macro_rules! browser {
    () => {
        match Chromium::shared() {
            Some(browser) => browser,
            None => return,
        }
    };
}
use browser;

/// A wheel of its own with its page; nothing works on it.
struct Scene {
    fleet: Fleet,
    page: Page,
}

impl Scene {
    async fn set(redis: &RedisServer) -> Self {
        Self::with(redis, &Plan::new(redis.url()).shards(4)).await
    }

    async fn with(redis: &RedisServer, plan: &Plan) -> Self {
        let fleet = Fleet::new(redis, plan).await;
        let page = Page::serve(fleet.command());
        Self { fleet, page }
    }

    fn wheel(&self) -> &Wheel {
        &self.fleet.wheel
    }

    fn name(&self) -> &str {
        self.fleet.wheel.name().as_str()
    }

    /// A path of this wheel.
    fn path(&self, rest: &str) -> String {
        format!("/wheels/{}{rest}", self.name())
    }
}

/// An id as it stands in a query.
fn in_path(id: &str) -> String {
    id.bytes().fold(String::new(), |mut path, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            path += &format!("%{byte:02X}");
        }
        path
    })
}
