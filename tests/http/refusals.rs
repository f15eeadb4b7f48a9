//! What is wrong with a request is said by status, code and field, and nothing is stored: the HTTP rows of the bad-input matrix.

use std::time::Duration;

use duewheel::http::Scope;

use crate::rig::api::{ApiServer, raw, settings, token};
use crate::rig::redis::RedisServer;

#[tokio::test]
async fn a_body_that_is_no_object_of_known_members_is_refused_and_stores_nothing() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let path = api.path("/deadlines/o-1");
    let deep = format!(r#"{{"in":"1h","payload":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let keys: String = (0..15_000).map(|n| format!("\"k{n}\":1,")).collect();
    let number = format!(r#"{{"in":"1h","payload":{}}}"#, "9".repeat(70_000));
    for (body, status, code, field) in [
        ("", 400, "bad_json", ""),
        ("not json", 400, "bad_json", ""),
        ("[]", 400, "bad_json", ""),
        ("[{\"in\":\"1h\"}]", 400, "bad_json", ""),
        (r#"{"in":"1h"} x"#, 400, "bad_json", ""),
        (r#"{"in":"1h"}{"in":"1h"}"#, 400, "bad_json", ""),
        (r#"{"in":"1h","in":"2h"}"#, 400, "bad_json", ""),
        ("{}", 422, "invalid", "in"),
        (r#"{"in":"1h","at":1893427200000}"#, 422, "invalid", "at"),
        (r#"{"at":1893427200000,"due_at":1893427200000}"#, 422, "invalid", "due_at"),
        (r#"{"inn":"1h"}"#, 422, "unknown_field", "inn"),
        (r#"{"in":"1h","id":"o-2"}"#, 422, "unknown_field", "id"),
        (r#"{"in":30}"#, 422, "invalid", "in"),
        (r#"{"in":"30"}"#, 422, "invalid", "in"),
        (r#"{"in":"-5m"}"#, 422, "invalid", "in"),
        (r#"{"in":"1h90m"}"#, 422, "invalid", "in"),
        (r#"{"in":"99999999999h"}"#, 422, "invalid", "in"),
        (r#"{"in":"7000y"}"#, 422, "invalid", "in"),
        (r#"{"in":null}"#, 422, "invalid", "in"),
        (r#"{"at":"12"}"#, 422, "invalid", "at"),
        (r#"{"at":"2026-10-25T02:30"}"#, 422, "invalid", "at"),
        (r#"{"at":"tomorrow"}"#, 422, "invalid", "at"),
        (r#"{"at":1772337600}"#, 422, "invalid", "at"),
        (r#"{"at":true}"#, 422, "invalid", "at"),
        (r#"{"at":1.5}"#, 422, "invalid", "at"),
        (r#"{"at":1e400}"#, 422, "invalid", "at"),
        (r#"{"at":-1}"#, 422, "invalid", "at"),
        (r#"{"at":null}"#, 422, "invalid", "at"),
        (r#"{"at":"9999-12-31T23:59:59Z"}"#, 422, "invalid", "at"),
        (r#"{"in":"1h","on_conflict":"latest"}"#, 422, "invalid", "on_conflict"),
        (r#"{"in":"1h","remind":"5m"}"#, 422, "invalid", "remind"),
        (r#"{"in":"1h","remind":["5"]}"#, 422, "invalid", "remind"),
        (r#"{"in":"1h","remind":["5m","5m"]}"#, 422, "invalid", "remind"),
        (r#"{"in":"1h","channel":"nobody"}"#, 422, "invalid", "channel"),
        (r#"{"in":"1h","created_at":"2026-03-01T00:00:00Z"}"#, 422, "invalid", "created_at"),
        (deep.as_str(), 422, "invalid", "payload"),
        (number.as_str(), 422, "invalid", "payload"),
        (&format!("{{{keys}\"in\":\"1h\"}}"), 422, "unknown_field", "k0"),
    ] {
        let answer = client.json("PUT", &path, body).await;
        let shown: String = body.chars().take(60).collect();
        assert_eq!(answer.status, status, "{shown}: {}", String::from_utf8_lossy(&answer.body));
        assert_eq!(
            answer.problem(status, code).value()["field"].as_str().unwrap_or_default(),
            field,
            "{shown}"
        );
    }
    client.json("PUT", &path, "{\"in\":\"\u{0}\"}").await.problem(400, "bad_json");
    assert_eq!(api.wheel.stats().await.unwrap().scheduled, 0);
    api.stop().await;
}

#[tokio::test]
async fn a_body_of_another_kind_or_size_is_refused_before_it_is_read() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let path = api.path("/deadlines/o-1");
    let body = r#"{"in":"1h"}"#;
    for kind in [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "application/x-ndjson",
        "application/json; charset=gbk",
    ] {
        client
            .send("PUT", &path, &[("content-type", kind)], body)
            .await
            .problem(415, "unsupported_media_type");
    }
    client.send("PUT", &path, &[], body).await.problem(415, "unsupported_media_type");
    let gzip = [("content-type", "application/json"), ("content-encoding", "gzip")];
    client.send("PUT", &path, &gzip, body).await.problem(415, "unsupported_media_type");

    let host = "Host: localhost\r\nContent-Type: application/json\r\n";
    let long = format!("PUT {path} HTTP/1.1\r\n{host}Content-Length: 999999999\r\n\r\n{{");
    let heard = raw(api.address, long.as_bytes(), Duration::from_secs(5)).await;
    assert!(
        heard.starts_with("HTTP/1.1 413")
            && heard.contains("body_too_large")
            && heard.contains("connection: close"),
        "{heard}"
    );
    let mut endless = format!("PUT {path} HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n");
    for _ in 0..40 {
        endless.push_str(&format!("2000\r\n{}\r\n", " ".repeat(0x2000)));
    }
    let heard = raw(api.address, endless.as_bytes(), Duration::from_secs(5)).await;
    assert!(heard.starts_with("HTTP/1.1 413"), "{heard}");
    for broken in [
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n\r\n{\"in\"",
        "Content-Length: -1\r\n\r\n",
        "Transfer-Encoding: gzip\r\n\r\n",
    ] {
        let heard = raw(
            api.address,
            format!("PUT {path} HTTP/1.1\r\n{host}{broken}").as_bytes(),
            Duration::from_secs(5),
        )
        .await;
        assert!(heard.starts_with("HTTP/1.1 400"), "{broken}: {heard}");
    }
    assert_eq!(api.wheel.stats().await.unwrap().scheduled, 0);
    api.stop().await;
}

#[tokio::test]
async fn a_path_names_a_wheel_and_an_id_or_is_refused() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    for id in ["%00", "a%0Ab", "%7F", &"x".repeat(201)] {
        client
            .json("PUT", &api.path(&format!("/deadlines/{id}")), r#"{"in":"1h"}"#)
            .await
            .problem(400, "bad_id");
    }
    client.json("PUT", &api.path("/deadlines/%ff%fe"), r#"{"in":"1h"}"#).await.problem(400, "bad_path");
    for path in [
        "/v1",
        "/v2/wheels",
        "/v1/wheels/",
        "/metrics",
        &api.path("/deadlines/"),
        &api.path("/deadlines/a/b/c"),
        &api.path("/deadlines/a/open"),
    ] {
        client.bare("GET", path).await.problem(404, "no_such_path");
    }
    client.bare("GET", "/v1/wheels/..%2f/stats").await.problem(404, "no_such_wheel");
    for (method, path, allow) in [
        ("POST", "/deadlines/a", "DELETE,GET,HEAD,PATCH,PUT"),
        ("TRACE", "/deadlines/a", "DELETE,GET,HEAD,PATCH,PUT"),
        ("OPTIONS", "/deadlines/a", "DELETE,GET,HEAD,PATCH,PUT"),
        ("GET", "/pause", "POST"),
        ("DELETE", "/stats", "GET,HEAD"),
        ("BREW", "/stats", "GET,HEAD"),
    ] {
        let foreign = [("origin", "https://evil.example"), ("access-control-request-method", "DELETE")];
        let answer =
            client.send(method, &api.path(path), &foreign, "").await.problem(405, "method_not_allowed");
        let mut allowed: Vec<&str> = answer.header("allow").split(',').map(str::trim).collect();
        allowed.sort_unstable();
        assert_eq!(allowed.join(","), allow, "{method} {path}");
        assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("access-control")));
    }
    let head = client.bare("HEAD", &api.path("/stats")).await.is(200);
    assert!(head.body.is_empty());
    api.stop().await;
}

#[tokio::test]
async fn a_head_that_is_no_http_is_refused_and_the_server_lives() {
    let api = ApiServer::start().await;
    let many = "X-A: 1\r\n".repeat(200);
    let long = format!("X-A: {}\r\n", "a".repeat(64 * 1024));
    let path = api.path("/stats");
    for (bytes, statuses) in [
        ("GET /\r\n\r\n".to_owned(), &["HTTP/1.1 400", ""][..]),
        (format!("GET {path} HTTP/1.1\r\n\r\n"), &["HTTP/1.1 400"]),
        (format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n"), &["HTTP/1.1 400"]),
        (format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"), &["HTTP/1.1 431"]),
        (format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{long}\r\n"), &["HTTP/1.1 431"]),
        (
            format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(70_000)),
            &["HTTP/1.1 414", "HTTP/1.1 431"],
        ),
        ("\u{16}\u{3}\u{1}hello tls\r\n\r\n".to_owned(), &["HTTP/1.1 400", ""]),
        (format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n\r\n"), &["HTTP/1.1 403"]),
        (
            "GET http://evil.example/v1/wheels HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(),
            &["HTTP/1.1 403"],
        ),
    ] {
        let heard = raw(api.address, bytes.as_bytes(), Duration::from_millis(700)).await;
        let shown: String = bytes.chars().take(70).collect();
        assert!(
            statuses
                .iter()
                .any(|status| heard.starts_with(status) && (!status.is_empty() || heard.is_empty())),
            "{shown}: {heard}"
        );
    }
    api.client().await.bare("GET", &path).await.is(200);
    api.stop().await;
}

#[tokio::test]
async fn without_tokens_no_page_of_a_browser_may_ask() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    for host in ["evil.example", "localhost.evil.example", "10.0.0.1:8480", "127.0.0.1.nip.io"] {
        client.send("GET", &api.path("/stats"), &[("host", host)], "").await.problem(403, "not_local");
    }
    for host in ["localhost:8480", "127.0.0.1", "[::1]:8480", "LOCALHOST"] {
        client.send("GET", &api.path("/stats"), &[("host", host)], "").await.is(200);
    }
    let form = [("sec-fetch-site", "cross-site")];
    client.send("POST", &api.path("/resume"), &form, "").await.problem(403, "not_local");
    client.send("POST", &api.path("/resume"), &[("sec-fetch-site", "same-origin")], "").await.is(200);
    api.stop().await;
}

#[tokio::test]
async fn a_token_opens_what_its_scopes_say_and_nothing_else() {
    let (mut kept, mut secrets) = (Vec::new(), Vec::new());
    for (name, scopes) in [("r", &[Scope::Read][..]), ("e", &[Scope::Enqueue]), ("o", &[Scope::Operate])] {
        let (secret, token) = token(name, scopes);
        kept.push(token);
        secrets.push((name, secret));
    }
    let settings = duewheel::http::HttpSettings { tokens: kept.clone(), ..settings() };
    let api = ApiServer::start_with(RedisServer::shared(), settings).await;
    let mut client = api.client().await;
    let routes = [
        ("GET", "/deadlines", "r"),
        ("GET", "/deadlines/a", "r"),
        ("GET", "/stats", "r"),
        ("GET", "/forecast", "r"),
        ("GET", "/dead", "r"),
        ("PUT", "/deadlines/a", "e"),
        ("POST", "/deadlines", "e"),
        ("DELETE", "/deadlines/a", "e"),
        ("PATCH", "/deadlines/a", "e"),
        ("POST", "/deadlines/a/hold", "e"),
        ("POST", "/deadlines/a/release", "e"),
        ("POST", "/deadlines/a/paid", "e"),
        ("POST", "/deadlines/a/close", "o"),
        ("POST", "/dead/revive", "o"),
        ("POST", "/dead/drop", "o"),
        ("POST", "/pause", "o"),
        ("POST", "/resume", "o"),
    ];
    for (method, path, needs) in routes {
        let path = api.path(path);
        for (name, secret) in &secrets {
            client.token = Some(secret.clone());
            let answer = client.json(method, &path, "{}").await;
            if *name == needs {
                assert!(![401, 403].contains(&answer.status), "{method} {path} with {name}: {answer:?}");
            } else {
                let challenge = answer.problem(403, "out_of_scope");
                assert!(challenge.header("www-authenticate").contains("insufficient_scope"));
            }
        }
        client.token = None;
        for bad in ["", "Bearer", "Bearer ", "Bearer dwt_wrong", "Basic dXNlcjpwYXNz", &secrets[0].1] {
            let headers = [("authorization", bad), ("content-type", "application/json")];
            let refused = client.send(method, &path, &headers, "{}").await.problem(401, "unauthorized");
            assert!(refused.header("www-authenticate").starts_with("Bearer"));
        }
        let queried = format!("{path}?access_token={}", secrets[0].1);
        client.json(method, &queried, "{}").await.problem(401, "unauthorized");
    }
    client.bare("GET", "/openapi.json").await.is(200);

    // One follows another without a gap, and the door is never opened to everybody by mistake.
    let (fresh, line) = token("fresh", &[Scope::Read]);
    kept.push(line);
    assert!(api.api.set_tokens(kept.split_off(1)));
    client.token = Some(secrets[0].1.clone());
    client.bare("GET", &api.path("/stats")).await.problem(401, "unauthorized");
    client.token = Some(fresh);
    client.bare("GET", &api.path("/stats")).await.is(200);
    assert!(!api.api.set_tokens(Vec::new()));
    client.bare("GET", &api.path("/stats")).await.is(200);
    api.stop().await;
}

#[tokio::test]
async fn every_answer_carries_the_request_id_that_was_given_or_a_new_one() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    for path in ["/stats", "/nowhere"] {
        let answer = client.send("GET", &api.path(path), &[("x-request-id", "shop-1:a_b.C")], "").await;
        assert_eq!(answer.header("x-request-id"), "shop-1:a_b.C");
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
    }
    let mut seen = std::collections::BTreeSet::new();
    for bad in ["a b", "<script>", &"x".repeat(129), "a/b"] {
        let answer = client.send("GET", &api.path("/stats"), &[("x-request-id", bad)], "").await;
        assert_eq!(answer.header("x-request-id").len(), 32);
        seen.insert(answer.header("x-request-id").to_owned());
    }
    assert_eq!(seen.len(), 4);
    api.stop().await;
}

#[tokio::test]
async fn what_others_wrote_comes_back_as_data_and_nothing_of_it_as_a_header() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let id = "<script>\u{202e}alert(1)";
    let path = api.path(&format!(
        "/deadlines/{}",
        url::form_urlencoded::byte_serialize(id.as_bytes()).collect::<String>()
    ));
    let body = r#"{"in":"1h","payload":{"x":"\u001b[31m<img src=x>"}}"#;
    let placed = client.json("PUT", &path, body).await.is(201);
    assert_eq!(placed.value()["id"], id);
    assert_eq!(placed.header("content-type"), "application/json");
    let seen = client.bare("GET", &path).await.is(200);
    assert_eq!(seen.value()["deadline"]["payload"]["x"], "\u{1b}[31m<img src=x>");
    let refused =
        client.json("PUT", &path, r#"{"in":"1h","\u001b[2J":1}"#).await.problem(422, "unknown_field");
    assert!(!refused.body.contains(&0x1b));
    api.stop().await;
}

/// A number that is too large for a script is said to be so, or is as good as another; it is never a fault of the server.
#[tokio::test]
async fn no_number_however_large_is_a_fault_of_the_server() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let path = api.path("/deadlines/o-1");
    client.json("PUT", &path, r#"{"in":"1h"}"#).await.is(201);
    let numbers = [
        "9007199254740993",
        "9999999999999999",
        "18446744073709551615",
        "18446744073709551616",
        "253402300799999",
    ];
    for number in numbers {
        for (method, rest, body) in [
            ("PATCH", "/deadlines/o-1", format!(r#"{{"at":{number}}}"#)),
            ("PATCH", "/deadlines/o-1", format!(r#"{{"in":"{number}ms"}}"#)),
            ("PUT", "/deadlines/o-2", format!(r#"{{"in":"1h","remind":["{number}ms"]}}"#)),
            ("PUT", "/deadlines/o-2", format!(r#"{{"in":"1h","channel":"x","created_at":{number}}}"#)),
            ("POST", "/deadlines/o-1/hold", format!(r#"{{"for":"{number}ms"}}"#)),
            ("POST", "/deadlines/o-1/paid", format!(r#"{{"at":{number},"wait":"0"}}"#)),
            ("POST", "/deadlines/o-1/paid", format!(r#"{{"wait":"{number}ms"}}"#)),
            ("POST", "/dead/drop", format!(r#"{{"filter":{{"from":{number},"to":{number}}}}}"#)),
            ("POST", "/bulk", format!(r#"{{"act":"drop","filter":{{"from":{number}}},"count":true}}"#)),
            ("POST", "/bulk", format!(r#"{{"act":"drop","filter":{{"all":true}},"most":{number}}}"#)),
            ("POST", "/bulk", format!(r#"{{"act":"hold","for":"{number}ms","filter":{{"all":true}}}}"#)),
        ] {
            let answer = client.json(method, &api.path(rest), &body).await;
            assert!(answer.status < 500, "{method} {rest} {body}: {}", String::from_utf8_lossy(&answer.body));
        }
        for query in [
            format!("/deadlines?from={number}"),
            format!("/deadlines?to={number}"),
            format!("/deadlines?limit={number}"),
            format!("/deadlines?attempts={number}"),
            format!("/deadlines?cursor={number}.61"),
            format!("/deadlines?state=ended&cursor={number}.{number}"),
            format!("/deadlines?state=ended&cursor=0.{number}"),
            format!("/deadlines?state=dead&cursor={number}.61"),
            format!("/deadlines?attempts=1&cursor={number}.61"),
            format!("/deadlines?state=ended&attempts=1&cursor=0.{number}"),
            format!("/dead?cursor={number}.61"),
            format!("/forecast?step={number}ms&count=2"),
            format!("/forecast?count={number}"),
            format!("/audit?cursor={number}-{number}"),
            format!("/audit?limit={number}"),
            format!("/jobs?limit={number}"),
            format!("/bulk/{number}-{number}"),
            format!("/events?since={number}h"),
        ] {
            let answer = client.bare("GET", &api.path(&query)).await;
            assert!(answer.status < 500, "{query}: {}", String::from_utf8_lossy(&answer.body));
        }
        for tag in [number.to_owned(), format!("\"{number}\"")] {
            let headers = [("if-match", tag.as_str()), ("content-type", "application/json")];
            let answer = client.send("PATCH", &path, &headers, r#"{"in":"1h"}"#).await;
            assert!([400, 404, 412, 409].contains(&answer.status), "{tag}: {answer:?}");
        }
    }
    api.stop().await;
}
