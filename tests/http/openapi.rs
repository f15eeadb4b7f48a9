//! The OpenAPI document: served, committed, and equal to the routes.

use serde_json::Value;

use crate::rig::api::ApiServer;

fn committed() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/openapi.json");
    if std::env::var_os("DUEWHEEL_TEST_UPDATE").is_some() {
        std::fs::write(path, duewheel::http::document()).unwrap();
    }
    std::fs::read_to_string(path).unwrap_or_default()
}

#[tokio::test]
async fn the_committed_document_is_the_one_that_is_served() {
    let api = ApiServer::start().await;
    let served = api.client().await.bare("GET", "/openapi.json").await.is(200).value();
    let committed: Value = serde_json::from_str(&committed()).unwrap_or_default();
    assert!(
        served == committed,
        "docs/openapi.json is another one: run this test with DUEWHEEL_TEST_UPDATE=1"
    );
    api.stop().await;
}

/// Every route of the document is answered by its handler, every other method of its path by 405, and docs/api.md names each code.
#[tokio::test]
async fn every_described_route_is_answered_and_every_other_method_is_not() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let document: Value = serde_json::from_str(&duewheel::http::document()).unwrap();
    let methods = ["GET", "PUT", "POST", "DELETE", "PATCH"];
    let mut count = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let real =
            path.replace("{wheel}", api.wheel.name().as_str()).replace("{id}", "o-1").replace("{bulk}", "1");
        let real = real.replace("{worker}", "1").replace("{job}", "sweep");
        for method in methods {
            let described = operations.get(method.to_lowercase());
            if described.is_some_and(|one| one["operationId"] == "events") {
                continue;
            }
            let answer = client.send(method, &real, &[], "").await;
            let status = answer.status;
            if let Some(described) = described {
                count += 1;
                assert!(
                    described["responses"].get(status.to_string()).is_some(),
                    "{method} {path}: {status}"
                );
            } else {
                assert_eq!(status, 405, "{method} {path}");
            }
        }
    }
    assert_eq!(count, 30);
    api.stop().await;
}
