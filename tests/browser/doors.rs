//! Who is let in, who may act, and that nobody acts through somebody else's browser.

use serde_json::json;

use super::*;
use crate::rig::stub::{Answer, Stub};

#[tokio::test]
async fn a_token_opens_the_page_and_its_cookie_is_of_no_use_elsewhere() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    let seen = browser.journey("unknown", &scene.page.anna(), json!({"wheel": scene.name()})).await;
    let cookie = &seen["cookie"];
    assert_eq!((&cookie["httpOnly"], &cookie["sameSite"]), (&true.into(), &"Strict".into()), "{cookie}");
    assert!(!cookie["value"].as_str().unwrap().contains(&scene.page.operator), "the cookie is the token");
}

#[tokio::test]
async fn whoever_may_only_read_is_shown_nothing_to_press_and_refused_what_they_send() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    crate::rig::wheel::enqueue(scene.wheel(), "A-1", after(3_600_000)).await.unwrap();
    crate::rig::wheel::bury(scene.wheel(), "D-1", "no such order").await;
    let more = [scene.path("/deadline?id=A-1"), scene.path("/deadline?id=D-1")];
    let acts = json!([
        [scene.path("/pause"), {"reason": "x"}],
        [scene.path("/act"), {"act": "cancel", "id": "A-1"}],
        [scene.path("/bulk/begin"), {"act": "revive"}],
        [scene.path("/workers/drain"), {"worker": "w-1", "reason": "x"}],
        [scene.path("/runs/run"), {"job": "sweep"}],
    ]);
    let with = json!({"wheel": scene.name(), "more": more, "acts": acts});
    browser.journey("reader", &scene.page.rita(), with).await;
    assert_eq!(scene.wheel().held_by().await.unwrap(), duewheel::wheel::Held::default());
}

#[tokio::test]
async fn what_another_site_sends_in_the_name_of_somebody_who_is_logged_in_is_refused() {
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    let other = Stub::start().await;
    other.otherwise(
        Answer::status(200).header("content-type", "text/html").body("<!doctype html><title>shop</title>"),
    );
    // Another site, and another port of the same one, which gets the cookie.
    let port = other.address().port();
    let strangers = [format!("http://localhost:{port}"), format!("http://127.0.0.1:{port}")];
    let acts = json!([[scene.path("/pause"), {"reason": "x"}], ["/logout", {}]]);
    browser.journey("foreign", &scene.page.anna(), json!({"strangers": strangers, "acts": acts})).await;
    assert_eq!(scene.wheel().held_by().await.unwrap(), duewheel::wheel::Held::default());
}
