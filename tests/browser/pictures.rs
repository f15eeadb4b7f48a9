//! Pictures of every screen, for people: scripts/screenshots takes them.

use serde_json::json;

use super::*;

#[tokio::test]
async fn of_every_screen_for_people() {
    let Some(folder) = std::env::var_os("DUEWHEEL_SCREENSHOTS") else { return };
    let browser = browser!();
    let scene = Scene::set(RedisServer::shared()).await;
    screens::fill(scene.wheel()).await;
    let more = json!({"deadline": scene.path("/deadline?id=A-001"), "dead-deadline": scene.path("/deadline?id=D-0")});
    let with = json!({"wheel": scene.name(), "folder": folder.to_string_lossy(), "more": more});
    browser.journey("pictures", &scene.page.anna(), with).await;
}
