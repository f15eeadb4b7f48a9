//! What is done from the page: to one, to those that were picked, to all that match, to the wheel; and who is kept from it.

use std::time::Duration;

use duewheel::deadline::State;
use duewheel::operator::Foreman;

use super::*;
use crate::rig::wheel::id;
use crate::rig::{PATIENCE, eventually};

/// A wheel that somebody may operate, and that somebody.
async fn operated() -> (ApiServer, Visitor) {
    let (acts, kept) = token("acts", &[Scope::Read, Scope::Operate]);
    let api = ApiServer::start_with(RedisServer::shared(), guarded(&[kept])).await;
    let visitor = Visitor::with(&api, &acts).await;
    (api, visitor)
}

impl Visitor {
    /// Sends an act, follows it back, and answers what the page says of it.
    async fn does(&mut self, api: &ApiServer, path: &str, fields: &[(&str, &str)]) -> String {
        let answer = self.post(&at(api, path), fields).await.is(303);
        let flash = answer.header("set-cookie").split(';').next().unwrap().to_owned();
        let logged_in = self.cookie.clone();
        self.cookie = format!("{logged_in}; {flash}");
        let to = answer.header("location").to_owned();
        let page = self.get(&to).await.is(200);
        // It is said once.
        assert!(
            page.headers
                .get_all("set-cookie")
                .iter()
                .any(|set| set.to_str().unwrap().starts_with("duewheel_flash=; ")),
            "{to}"
        );
        self.cookie = logged_in;
        let text = String::from_utf8(page.body).unwrap();
        text.split("role=\"status\">").nth(1).unwrap().split("</p>").next().unwrap().to_owned()
    }
}

async fn state(api: &ApiServer, name: &str) -> State {
    api.wheel.inspect(&id(name)).await.unwrap().state
}

#[tokio::test]
async fn each_act_does_to_one_deadline_what_its_button_says_and_the_audit_has_it() {
    let (api, mut visitor) = operated().await;
    for name in ["a", "b", "c", "d"] {
        place(&api.wheel, name, 3_600_000, "{}").await;
    }
    bury(&api.wheel, "dead-1", "HTTP 500").await;
    bury(&api.wheel, "dead-2", "HTTP 500").await;
    let before = api.wheel.inspect(&id("b")).await.unwrap().entry.unwrap();
    let said = visitor.does(&api, "/act", &[("act", "close"), ("id", "a"), ("reason", "fraud")]).await;
    assert_eq!(said, "<b>Done.</b> 1 deadline to be closed now.");
    let closing = api.wheel.inspect(&id("a")).await.unwrap().entry.unwrap();
    assert_eq!((closing.cause.as_str(), closing.note.unwrap().actor.as_str()), ("manual", "token acts"));

    visitor.does(&api, "/act", &[("act", "reschedule"), ("id", "b"), ("to", "+15m")]).await;
    let moved = api.wheel.inspect(&id("b")).await.unwrap().entry.unwrap();
    assert_eq!(moved.due_at, before.due_at.plus(Duration::from_secs(900)));
    visitor.does(&api, "/act", &[("act", "reschedule"), ("id", "b"), ("to", "2036-03-01 12:00")]).await;
    assert_eq!(
        api.wheel.inspect(&id("b")).await.unwrap().entry.unwrap().due_at.to_string(),
        "2036-03-01T12:00:00.000Z"
    );

    visitor.does(&api, "/act", &[("act", "hold"), ("id", "c"), ("for", "10m")]).await;
    assert_eq!(api.wheel.inspect(&id("c")).await.unwrap().entry.unwrap().hold_count, 1);
    let said = visitor.does(&api, "/act", &[("act", "cancel"), ("id", "d"), ("id", "dead-9")]).await;
    assert!(said.contains("1 deadline cancelled. Refused: 1 absent"), "{said}");
    assert_eq!(state(&api, "d").await, State::Ended);
    visitor.does(&api, "/act", &[("act", "revive"), ("id", "dead-1")]).await;
    assert_eq!(state(&api, "dead-1").await, State::Scheduled);
    visitor.does(&api, "/act", &[("act", "drop"), ("id", "dead-2")]).await;
    assert_eq!(state(&api, "dead-2").await, State::Ended);

    for (fields, said) in [
        (
            vec![("act", "close"), ("id", "d"), ("reason", "x")],
            "Not done.</b> 0 deadlines to be closed now. Refused: 1 ended",
        ),
        (vec![("act", "release"), ("id", "b")], "Refused: 1 not_held"),
        (vec![("act", "hold"), ("id", "b"), ("for", "soon")], "Not done.</b> for"),
        (vec![("act", "reschedule"), ("id", "b"), ("to", "soon")], "Not done.</b> to"),
        (vec![("act", "revive")], "Nothing was picked"),
    ] {
        let answer = visitor.does(&api, "/act", &fields).await;
        assert!(answer.contains(said), "{answer}");
    }
    visitor.post(&at(&api, "/act"), &[("act", "explode"), ("id", "b")]).await.is(422);
    let audit = api.wheel.audit(&duewheel::wheel::AuditFilter::default(), None, 500).await.unwrap().entries;
    let acts: Vec<&str> = audit.iter().rev().map(|entry| entry.act.as_str()).collect();
    assert_eq!(
        &acts[..8],
        ["close", "reschedule", "reschedule", "hold", "cancel", "revive", "drop", "close"]
    );
    assert!(
        audit.iter().all(|entry| entry.by == "token acts" && entry.door.as_deref() == Some("page")),
        "{audit:?}"
    );
}

#[tokio::test]
async fn a_wheel_is_paused_with_a_reason_and_resumed() {
    let (api, mut visitor) = operated().await;
    let said = visitor.does(&api, "/pause", &[("reason", "  ")]).await;
    assert!(said.contains("needs a reason"), "{said}");
    visitor.does(&api, "/pause", &[("reason", "stock <b>counted</b>")]).await;
    let page = visitor.page(&at(&api, "")).await;
    assert!(page.contains("Closing is paused") && page.contains("stock &#60;b&#62;counted"), "{page}");
    assert_eq!(api.wheel.stats().await.unwrap().paused_shards, 4);
    let said = visitor.does(&api, "/resume", &[]).await;
    assert!(said.contains("The pause is lifted"), "{said}");
    assert!(!visitor.page(&at(&api, "")).await.contains("Closing is paused"));
    assert_eq!(api.wheel.stats().await.unwrap().paused_shards, 0);
}

#[tokio::test]
async fn a_group_of_the_dead_is_revived_after_it_was_counted_and_confirmed() {
    let (api, mut visitor) = operated().await;
    for n in 0..120 {
        bury(&api.wheel, &format!("locked-{n}"), &format!("HTTP 500: order {} is locked", n + 1000)).await;
    }
    bury(&api.wheel, "gone", "HTTP 404: gone").await;
    let group = "HTTP 500: order # is locked";
    let query = url::form_urlencoded::byte_serialize(group.as_bytes()).collect::<String>();
    let confirm = visitor.page(&at(&api, &format!("/bulk/confirm?act=revive&group={query}"))).await;
    assert!(
        confirm.contains("Revive: 120 of 121 dead match") && confirm.contains("Type <b>revive</b>"),
        "{confirm}"
    );
    let fields = [("act", "revive"), ("group", group)];
    let said = visitor.does(&api, "/bulk/begin", &fields).await;
    assert!(said.contains("Type the word revive to confirm it for 120"), "{said}");
    let said = visitor
        .does(&api, "/bulk/begin", &[fields[0], fields[1], ("typed", "revive"), ("reason", "unlocked")])
        .await;
    assert!(said.contains("It is begun"), "{said}");
    let bulks = visitor.page(&at(&api, "/bulks")).await;
    assert!(bulks.contains("Revive") && bulks.contains("0 of 120"), "{bulks}");
    let one = format!("/bulk?id={}", api.wheel.bulks().await.unwrap()[0].id);
    assert!(visitor.page(&at(&api, &one)).await.contains("Stop it"));
    let foreman = Foreman::new(api.wheel.clone());
    eventually(PATIENCE, async || foreman.look().await.unwrap()).await;
    let over = visitor.page(&at(&api, &one)).await;
    assert!(over.contains("120 of 120") && !over.contains("Stop it"), "{over}");
    assert_eq!((api.wheel.stats().await.unwrap().dead, state(&api, "gone").await), (1, State::Dead));
    let none = visitor.page(&at(&api, &format!("/bulk/confirm?act=revive&group={query}"))).await;
    assert!(none.contains("there is nothing to do"), "{none}");
    for bad in ["act=explode", "act=hold", "act=hold&for=soon", "act=revive&from=soon", "act=close&group=x"] {
        visitor.get(&at(&api, &format!("/bulk/confirm?{bad}"))).await.is(422);
    }
}

#[tokio::test]
async fn whoever_may_only_look_or_comes_from_elsewhere_does_nothing() {
    let (read, a) = token("looks", &[Scope::Read]);
    let (acts, b) = token("acts", &[Scope::Read, Scope::Operate]);
    let api = ApiServer::start_with(RedisServer::shared(), guarded(&[a, b])).await;
    place(&api.wheel, "o-1", 3_600_000, "{}").await;
    bury(&api.wheel, "d-1", "HTTP 500").await;
    let (mut reader, mut operator) = (Visitor::with(&api, &read).await, Visitor::with(&api, &acts).await);
    let mut stranger = Visitor::stranger(&api).await;
    let fields = [("act", "cancel"), ("id", "o-1"), ("reason", "x"), ("typed", "cancel")];
    let own = [("sec-fetch-site", "same-origin")];
    for path in ["/act", "/pause", "/resume", "/bulk/begin", "/bulk/stop"] {
        reader.post_as(&at(&api, path), &fields, &own).await.is(403);
        stranger.post_as(&at(&api, path), &fields, &own).await.is(401);
        for from in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "none"),
            ("origin", "null"),
            ("origin", "https://evil.example"),
        ] {
            operator.post_as(&at(&api, path), &fields, &[from]).await.is(403);
        }
        operator.post_as(&at(&api, path), &fields, &[]).await.is(403);
        operator.get(&at(&api, path)).await.is(405);
    }
    reader.get(&at(&api, "/bulk/confirm?act=revive")).await.is(403);
    let stats = api.wheel.stats().await.unwrap();
    assert_eq!((stats.scheduled, stats.dead, stats.paused_shards), (1, 1, 0));
    assert!(
        api.wheel.audit(&duewheel::wheel::AuditFilter::default(), None, 10).await.unwrap().entries.is_empty()
    );
    // A browser of before Sec-Fetch-Site says where the form was.
    operator.post_as(&at(&api, "/act"), &fields, &[("origin", "http://localhost")]).await.is(303);
    assert_eq!(state(&api, "o-1").await, State::Ended);
}
