//! Pictures of every screen, for people: scripts/screenshots takes them.

use serde_json::json;

use super::*;

#[tokio::test]
async fn of_every_screen_for_people() {
    let Some(folder) = std::env::var_os("DUEWHEEL_SCREENSHOTS") else { return };
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    screens::fill(&scene).await;
    let bulk = scene.wheel().bulks().await.unwrap().remove(0).id;
    let more = json!({
        "deadline": scene.path("/deadline?id=A-001"),
        "dead-deadline": scene.path("/deadline?id=D-0"),
        "found": scene.path("/deadlines?id=A-00"),
        "bulk-confirm": scene.path("/bulk/confirm?act=revive"),
        "bulk": scene.path(&format!("/bulk?id={bulk}")),
        "not-found": "/nowhere",
    });
    let with = json!({"wheel": scene.name(), "folder": folder.to_string_lossy(), "more": more});
    browser.journey("pictures", &scene.page.anna(), with).await;
    let empty = Scene::set(RedisServer::shared()).await;
    let only = ["overview", "dead", "deadlines"];
    let with = json!({"wheel": empty.name(), "folder": folder.to_string_lossy(), "more": {}, "stem": "empty-", "only": only});
    browser.journey("pictures", &empty.page.anna(), with).await;
}
