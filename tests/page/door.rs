//! Who is let in, who may act, from where; and what every answer carries.

use std::time::Duration;

use super::*;

#[tokio::test]
async fn whoever_is_not_logged_in_is_led_to_the_login_and_back() {
    let (secret, kept) = token("night", &[Scope::Read]);
    let api = ApiServer::start_with(RedisServer::shared(), guarded(&[kept])).await;
    let mut stranger = Visitor::stranger(&api).await;
    for path in ["/", "/wheels", &at(&api, ""), &at(&api, "/dead?group=a%20b")] {
        let answer = stranger.get(path).await.is(303);
        assert!(
            answer.header("location").starts_with("/login?next=%2F"),
            "{path}: {}",
            answer.header("location")
        );
    }
    let login = stranger.page("/login").await;
    assert!(login.contains("name=\"token\"") && !login.contains(api.wheel.name().as_str()), "{login}");
    // What a script asks for is no page.
    let headers =
        [("accept", "text/event-stream"), ("sec-fetch-site", "same-origin"), ("sec-fetch-dest", "empty")];
    stranger.client.send("GET", &at(&api, "/live"), &headers, "").await.is(401);

    for wrong in ["", "dwt_wrong", "' OR 1=1", &secret[1..]] {
        let answer = stranger.post("/login", &[("token", wrong), ("next", "/wheels")]).await.is(401);
        assert!(answer.header("set-cookie").is_empty());
    }
    let answer = stranger.post("/login", &[("token", &secret), ("next", &at(&api, "/dead"))]).await.is(303);
    assert_eq!(answer.header("location"), at(&api, "/dead"));
    let cookie = answer.header("set-cookie").to_owned();
    for part in ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=43200"] {
        assert!(cookie.split("; ").any(|one| one == part), "{cookie}");
    }
    assert!(!cookie.contains("Secure") && !cookie.contains(&secret), "{cookie}");
    for evil in ["//evil.example", "https://evil.example", "/\\evil", "javascript:alert(1)"] {
        let answer = stranger.post("/login", &[("token", &secret), ("next", evil)]).await.is(303);
        assert_eq!(answer.header("location"), "/", "{evil}");
    }
    // Behind a proxy that speaks TLS the cookie stays off plain connections.
    let from = [("sec-fetch-site", "same-origin"), ("x-forwarded-proto", "https")];
    let answer = stranger.post_as("/login", &[("token", &secret)], &from).await.is(303);
    assert!(answer.header("set-cookie").contains("; Secure"));
}

#[tokio::test]
async fn a_session_ends_with_its_owner_and_with_its_token() {
    let (secret, kept) = token("night", &[Scope::Read]);
    let (_, other) = token("other", &[Scope::Read]);
    let api = ApiServer::start_with(RedisServer::shared(), guarded(std::slice::from_ref(&kept))).await;
    let mut first = Visitor::with(&api, &secret).await;
    let mut second = Visitor::with(&api, &secret).await;
    assert!(first.page(&at(&api, "")).await.contains("night"));
    first.post("/logout", &[]).await.is(303);
    first.get(&at(&api, "")).await.is(303);
    second.page(&at(&api, "")).await;
    // Another server with the same tokens takes it, and so does this one after a restart.
    let elsewhere = ApiServer::of(api.wheel.clone(), guarded(&[other.clone(), kept])).await;
    let mut moved = Visitor { client: elsewhere.client().await, cookie: second.cookie.clone() };
    moved.page(&at(&api, "")).await;
    assert!(elsewhere.api.set_tokens(vec![other]));
    moved.get(&at(&api, "")).await.is(303);
}

#[tokio::test]
async fn whoever_lacks_the_scope_is_shown_no_button_and_refused() {
    let (read, a) = token("looks", &[Scope::Read]);
    let (places, b) = token("places", &[Scope::Enqueue]);
    let (acts, c) = token("acts", &[Scope::Read, Scope::Operate]);
    let api = ApiServer::start_with(RedisServer::shared(), guarded(&[a, b, c])).await;
    place(&api.wheel, "o-1", 3_600_000, "{}").await;
    bury(&api.wheel, "o-2", "HTTP 500").await;
    let refused = Visitor::stranger(&api).await.post("/login", &[("token", &places)]).await.is(401);
    assert!(String::from_utf8(refused.body).unwrap().contains("lacks the scope read"));

    let mut reader = Visitor::with(&api, &read).await;
    let mut operator = Visitor::with(&api, &acts).await;
    for path in SCREENS.iter().chain(&["/deadline?id=o-2"]) {
        let text = reader.page(&at(&api, path)).await;
        let forms: Vec<&str> = text
            .split("method=\"post\" action=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        assert_eq!(forms, ["/theme", "/logout"], "{path}");
        operator.page(&at(&api, path)).await;
    }
    assert_eq!(api.wheel.stats().await.unwrap().dead, 1);
}

#[tokio::test]
async fn every_answer_tells_the_browser_to_do_nothing_but_show_it() {
    let api = ApiServer::start().await;
    let mut visitor = Visitor::stranger(&api).await;
    let policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
    let paths = SCREENS
        .iter()
        .map(|path| at(&api, path))
        .chain(["/login", "/", "/nowhere", "/wheels/none"].map(str::to_owned));
    for path in paths.chain([at(&api, "/deadlines.csv"), at(&api, "/payload?id=x")]) {
        let answer = visitor.get(&path).await;
        assert_eq!(answer.header("content-security-policy"), policy, "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert_eq!(answer.header("x-request-id").len(), 32, "{path}");
    }
    let page = visitor.page(&at(&api, "")).await;
    for kind in ["css", "js"] {
        let path = page.split('"').find(|part| part.starts_with("/assets/") && part.ends_with(kind)).unwrap();
        let answer = visitor.get(path).await.is(200);
        assert!(answer.header("cache-control").contains("immutable") && answer.body.len() > 1000);
        visitor.get(&path.replace("page.", "page.0")).await.is(404);
    }
    for bad in ["<style", "style=", "<script>", "onclick", "http://", "https://"] {
        assert!(!page.contains(bad), "{bad}");
    }
}

#[tokio::test]
async fn what_a_page_of_others_sends_is_refused() {
    let (acts, kept) = token("acts", &[Scope::Read, Scope::Operate]);
    let api = ApiServer::start_with(RedisServer::shared(), guarded(&[kept])).await;
    let open = ApiServer::of(api.wheel.clone(), settings()).await;
    let mut known = Visitor::with(&api, &acts).await;
    let mut anybody = Visitor::stranger(&open).await;
    let evil = [
        vec![("sec-fetch-site", "cross-site")],
        vec![("sec-fetch-site", "same-site")],
        vec![("origin", "https://evil.example")],
        vec![("origin", "http://localhost.evil.example")],
        vec![("sec-fetch-site", "cross-site"), ("origin", "http://localhost")],
    ];
    for from in &evil {
        for path in ["/logout", "/theme", "/login"] {
            known.post_as(path, &[("theme", "dark")], from).await.is(403);
        }
    }
    known.page(&at(&api, "")).await;
    // Without tokens a link may be followed from anywhere, and nothing else may be asked for.
    let followed =
        [("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "document"), ("accept", "text/html")];
    anybody.client.send("GET", &at(&api, ""), &followed, "").await.is(200);
    let fetched = [("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "empty")];
    anybody.client.send("GET", &at(&api, ""), &fetched, "").await.is(403);
    let rebound =
        [("host", "evil.example"), ("sec-fetch-site", "same-origin"), ("sec-fetch-dest", "document")];
    anybody.client.send("GET", &at(&api, ""), &rebound, "").await.is(403);
}

#[tokio::test]
async fn a_link_in_a_message_leads_whoever_is_logged_in_to_its_page() {
    let (read, kept) = token("looks", &[Scope::Read]);
    let api = ApiServer::start_with(RedisServer::shared(), guarded(&[kept])).await;
    let mut visitor = Visitor::with(&api, &read).await;
    // The browser keeps a strict cookie back for a link of others.
    let foreign = [("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "document"), ("accept", "text/html")];
    let answer = visitor.client.send("GET", &at(&api, "/dead"), &foreign, "").await.is(303);
    let login = answer.header("location").to_owned();
    let answer = visitor.client.send("GET", &login, &foreign, "").await.is(200);
    let text = String::from_utf8(answer.body).unwrap();
    let again = text.split("0;url=").nth(1).unwrap().split('"').next().unwrap().replace("&#38;", "&");
    let answer = visitor.get(&again).await.is(303);
    assert_eq!(answer.header("location"), at(&api, "/dead"));
}

#[tokio::test]
async fn a_path_that_leads_nowhere_is_a_page_for_people_and_a_problem_for_programs() {
    let api = ApiServer::start().await;
    let mut visitor = Visitor::stranger(&api).await;
    for path in ["/nowhere", "/wheels/none", &at(&api, "/nothing"), "/deadlines"] {
        let answer = visitor.get(path).await.is(404);
        let text = String::from_utf8(answer.body).unwrap();
        assert!(
            text.contains("<h1>There is no such page</h1>") && text.contains("Overview"),
            "{path}: {text}"
        );
    }
    visitor.get("/v1/nowhere").await.problem(404, "no_such_path");
    visitor.client.bare("GET", "/nowhere").await.problem(404, "no_such_path");
}

#[tokio::test]
async fn under_a_base_path_every_link_carries_it_whether_a_proxy_takes_it_off_or_not() {
    let (read, kept) = token("looks", &[Scope::Read]);
    let behind = HttpSettings { base_path: "/ops/duewheel".to_owned(), ..guarded(&[kept]) };
    let api = ApiServer::start_with(RedisServer::shared(), behind).await;
    let mut visitor = Visitor::stranger(&api).await;
    let answer = visitor.post("/ops/duewheel/login", &[("token", &read)]).await.is(303);
    assert!(answer.header("set-cookie").contains("Path=/ops/duewheel;"), "{}", answer.header("set-cookie"));
    assert_eq!(answer.header("location"), "/ops/duewheel/");
    visitor.cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
    let home = visitor.get("/ops/duewheel/").await.is(303);
    assert_eq!(home.header("location"), format!("/ops/duewheel{}", at(&api, "")));
    for stripped in ["", "/ops/duewheel"] {
        let page = visitor.page(&format!("{stripped}{}", at(&api, "/deadlines"))).await;
        let links = page
            .split("href=\"")
            .skip(1)
            .chain(page.split("action=\"").skip(1))
            .chain(page.split("src=\"").skip(1));
        for link in links.map(|rest| rest.split('"').next().unwrap()).filter(|link| !link.starts_with('#')) {
            assert!(link.starts_with("/ops/duewheel/"), "{link}");
        }
    }
    visitor.get("/ops/duewheel/nowhere").await.is(404);
    visitor.client.token = Some(read);
    visitor.client.bare("GET", &format!("/ops/duewheel{}", api.path("/stats"))).await.is(200);
}

#[tokio::test]
async fn light_and_dark_are_kept() {
    let api = ApiServer::start().await;
    let mut visitor = Visitor::stranger(&api).await;
    assert!(!visitor.page(&at(&api, "")).await.contains("data-theme"));
    let answer = visitor.post("/theme", &[("theme", "dark"), ("back", &at(&api, "/dead"))]).await.is(303);
    assert_eq!(answer.header("location"), at(&api, "/dead"));
    visitor.cookie = answer.header("set-cookie").split(';').next().unwrap().to_owned();
    assert!(visitor.page(&at(&api, "")).await.contains("<html lang=\"en\" data-theme=\"dark\">"));
    visitor.cookie = "duewheel_theme=\"><script>".to_owned();
    assert!(!visitor.page(&at(&api, "")).await.contains("data-theme"));
}

/// Anybody may send to these two: little of it is read, and nothing of what a page of others sends.
#[tokio::test]
async fn nobody_makes_the_server_hold_a_long_form_without_a_token() {
    let (_, kept) = token("night", &[Scope::Read]);
    let api = ApiServer::start_with(RedisServer::shared(), guarded(&[kept])).await;
    let long = "x".repeat(20 * 1024);
    for path in ["/login", "/theme"] {
        let mut stranger = Visitor::stranger(&api).await;
        stranger.post(path, &[("token", &long), ("theme", "dark")]).await.is(413);
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 1000\r\n\r\n"
        );
        let heard = crate::rig::api::raw(api.address, head.as_bytes(), Duration::from_secs(5)).await;
        assert!(heard.starts_with("HTTP/1.1 403"), "{heard}");
    }
    // The longest path that a login leads on to fits into its form, as does the longest token.
    let mut stranger = Visitor::stranger(&api).await;
    let next = format!("/wheels/{}", "%".repeat(4000));
    stranger.post("/login", &[("token", &"t".repeat(200)), ("next", &next)]).await.is(401);
    api.stop().await;
}
