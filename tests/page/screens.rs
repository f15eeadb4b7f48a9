//! What is on the screens: nothing, one, many, the hostile; and Redis away.

use std::time::Duration;

use duewheel::wheel::answer::Cursor;
use http_body_util::BodyExt as _;

use super::*;
use crate::rig::redis::RedisOptions;
use crate::rig::wheel::id;

#[tokio::test]
async fn every_screen_says_what_it_has_when_that_is_nothing_one_and_many() {
    let api = ApiServer::start().await;
    let mut visitor = Visitor::stranger(&api).await;
    for path in SCREENS {
        visitor.page(&at(&api, path)).await;
    }
    assert!(visitor.page(&at(&api, "")).await.contains("No worker is alive"));
    assert!(visitor.page(&at(&api, "/dead")).await.contains("nothing waits for a person"));
    assert!(visitor.page(&at(&api, "/deadline?id=o-1")).await.contains("nothing is known of it"));

    place(&api.wheel, "o-1", 90_000, r#"{"user_id":9007199254740993}"#).await;
    let one = visitor.page(&at(&api, "/deadline?id=o-1")).await;
    assert!(one.contains("&#34;user_id&#34;: 9007199254740993") && one.contains("it fires in 1m"), "{one}");
    for path in ["/deadlines", "/deadlines?id=o-1", "/deadlines?id=o"] {
        assert!(visitor.page(&at(&api, path)).await.contains(">o-1</a>"), "{path}");
    }
    for n in 2..=120 {
        place(&api.wheel, &format!("o-{n}"), 60_000 + n, "{}").await;
    }
    bury(&api.wheel, "d-1", "HTTP 500: order 17 is locked").await;
    bury(&api.wheel, "d-2", "HTTP 500: order 18 is locked").await;
    bury(&api.wheel, "d-3", "HTTP 404: gone").await;
    for path in SCREENS {
        visitor.page(&at(&api, path)).await;
    }
    let dead = visitor.page(&at(&api, "/dead")).await;
    assert!(dead.contains("HTTP 500: order # is locked") && dead.contains("1 to 3 of 3"), "{dead}");
    let link = dead.split("href=\"").find(|rest| rest.contains("order # is locked</a>")).unwrap();
    let group = visitor.page(&link.split('"').next().unwrap().replace("&#38;", "&")).await;
    assert!(group.contains("d-1") && group.contains("d-2") && !group.contains("d-3"), "{group}");
    visitor.page(&at(&api, "/deadline?id=d-1")).await;
}

#[tokio::test]
async fn pages_follow_each_other_without_a_gap_and_keep_the_filter() {
    let api = ApiServer::start().await;
    let mut visitor = Visitor::stranger(&api).await;
    for n in 0..75 {
        let payload = format!(r#"{{"user_id":{}}}"#, n % 7);
        place(&api.wheel, &format!("p{n:03}"), 600_000 + n * 1000, &payload).await;
    }
    let (mut path, mut seen) = (at(&api, "/deadlines?limit=20&from=now&to=%2B1h"), Vec::new());
    loop {
        let page = visitor.page(&path).await;
        let ids = page.split("/deadline?id=").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
        seen.extend(ids);
        let Some(next) = page.split("rel=\"next\" href=\"").nth(1) else { break };
        path = next.split('"').next().unwrap().replace("&#38;", "&");
        assert!(path.contains("to=%2B1h") && path.contains("limit=20"), "{path}");
    }
    assert_eq!(seen, (0..75).map(|n| format!("p{n:03}")).collect::<Vec<_>>());
    let one_shard = visitor.page(&at(&api, "/deadlines?shard=0&limit=200")).await;
    let shard_of = |n: u32| api.wheel.shard_of(&id(&format!("p{n:03}"))).0;
    assert_eq!(one_shard.matches("/deadline?id=p").count(), (0..75).filter(|n| shard_of(*n) == 0).count());
    let of_one_user = visitor.page(&at(&api, "/deadlines?payload=user_id%3D3&limit=200")).await;
    assert_eq!(of_one_user.matches("/deadline?id=p").count(), (0..75).filter(|n| n % 7 == 3).count());
    assert!(of_one_user.contains("deadlines.csv?payload=user_id%3D3"), "{of_one_user}");
    assert!(!of_one_user.contains("Act on all that match"), "a bulk act cannot be narrowed so");
}

#[tokio::test]
async fn a_search_by_the_beginning_of_an_id_finds_all_of_them_a_stretch_at_a_time() {
    let api = ApiServer::start().await;
    let batch: Vec<_> = (0..6000)
        .map(|n| deadline(&format!("{}-{n}", if n % 50 == 0 { "night*" } else { "day" }), after(3_600_000)))
        .collect();
    place_all(&api.wheel, &batch).await;
    // The page's own limits are beyond what a test should place: what goes on is the same.
    let (mut found, mut cursor, mut turns): (Vec<String>, Option<Cursor>, u32) = (Vec::new(), None, 0);
    loop {
        let part =
            api.wheel.find("night*-", cursor.as_ref(), 10, 1000, Duration::from_secs(60)).await.unwrap();
        assert!(part.looked_at <= 1000 + 2000, "{}", part.looked_at);
        found.extend(part.ids.iter().map(|id| id.as_str().to_owned()));
        turns += 1;
        cursor = part.next;
        if cursor.is_none() {
            break;
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 120);
    assert!(turns > 5, "{turns}");
    let mut visitor = Visitor::stranger(&api).await;
    let page = visitor.page(&at(&api, "/deadlines?id=night*-1")).await;
    assert!(page.contains(">night*-150</a>") && !page.contains(">day-"), "{page}");
}

#[tokio::test]
async fn a_value_that_makes_no_sense_is_said_and_does_not_blank_the_page() {
    let api = ApiServer::start().await;
    place(&api.wheel, "o-1", 90_000, "{}").await;
    let mut visitor = Visitor::stranger(&api).await;
    for bad in [
        "state=open",
        "from=soon",
        "to=12%3A00",
        "limit=7",
        "limit=-1",
        "shard=99",
        "shard=x",
        "cursor=zzz",
        "cursor=%00",
        "state=%ff",
        "from=%2B99999999999d",
        "state=ended&from=now",
        "state=ended&payload=x",
        "from=%2B1h&to=now",
    ] {
        let page = visitor.page(&at(&api, &format!("/deadlines?{bad}"))).await;
        assert!(page.contains("class=\"complaints\""), "{bad}: {page}");
    }
    for (path, said) in [
        ("/deadlines?id=a%0Ab", "complaints"),
        ("/deadlines?id=o&cursor=7", "complaints"),
        ("/wheel?span=9y", "complaints"),
        ("/wheel?first=99999", "complaints"),
        ("/dead?skip=-1", "complaints"),
        ("/dead?group=%3Cnothing%3E", "None died"),
        ("/dead?skip=19999", "None: nothing"),
        ("/deadlines?unknown=1&a=2", "o-1"),
    ] {
        assert!(visitor.page(&at(&api, path)).await.contains(said), "{path}");
    }
    visitor.get(&at(&api, "/deadline?id=")).await.is(422);
    visitor.get(&at(&api, "/deadlines.csv?from=soon")).await.is(422);
}

/// What somebody might put into an order's id, payload or error to run something in an operator's browser.
pub const HOSTILE: [&str; 14] = [
    "<script>alert(1)</script>",
    "\"><script>alert(1)</script>",
    "'><img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "<iframe src=javascript:alert(1)>",
    "javascript:alert(1)",
    "\" onmouseover=\"alert(1)",
    "' autofocus onfocus='alert(1)",
    "{{7*7}}${7*7}<%= 7*7 %>",
    "<!--<script>alert(1)//-->",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "</pre></main><meta http-equiv=refresh content=0;url=//evil>",
];

#[tokio::test]
async fn what_others_wrote_is_text_wherever_it_is_shown() {
    let api = ApiServer::start().await;
    for (n, text) in HOSTILE.iter().enumerate() {
        let payload = serde_json::json!({ *text: text }).to_string();
        place(&api.wheel, &format!("{text}{n}"), 60_000, &payload).await;
        bury(&api.wheel, &format!("dead{n} {text}"), text).await;
    }
    let mut visitor = Visitor::stranger(&api).await;
    let encode = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let mut paths: Vec<String> = SCREENS.iter().map(|path| at(&api, path)).collect();
    for (n, text) in HOSTILE.iter().enumerate() {
        let (scheduled, dead) = (encode(&format!("{text}{n}")), encode(&format!("dead{n} {text}")));
        paths.push(at(&api, &format!("/deadline?id={scheduled}")));
        paths.push(at(&api, &format!("/deadline?id={dead}")));
        for parameter in [
            "/deadlines?id",
            "/deadlines?from",
            "/deadlines?state",
            "/deadlines?payload",
            "/deadlines?cursor",
            "/dead?group",
            "/wheel?span",
        ] {
            paths.push(at(&api, &format!("{parameter}={}", encode(text))));
        }
    }
    for path in paths {
        let page = visitor.page(&path).await.to_lowercase();
        // All that begins with < is ours: no tag of theirs, and no attribute of theirs within ours.
        for bad in [
            "<script>",
            "<img",
            "<svg/",
            "<iframe",
            "</textarea",
            "<meta http-equiv",
            "<!--",
            "onerror=alert(1)>",
            "\" onmouseover=\"",
            "' autofocus",
            "href=\"javascript",
            "<%=",
        ] {
            assert!(!page.contains(bad), "{path}: {bad}\n{page}");
        }
        assert_eq!(page.matches("<title>").count() - page.matches("</rect><title>").count(), 1, "{path}");
    }
}

#[tokio::test]
async fn a_payload_that_is_huge_is_cut_and_whole_behind_its_link() {
    let api = ApiServer::start().await;
    let huge = format!("{{\"text\":\"{}\"}}", "订".repeat(20_000));
    place(&api.wheel, "o-1", 60_000, &huge).await;
    let mut visitor = Visitor::stranger(&api).await;
    let page = visitor.page(&at(&api, "/deadline?id=o-1")).await;
    assert!(page.len() < 40_000 && page.contains("this is the beginning"), "{}", page.len());
    let whole = visitor.get(&at(&api, "/payload?id=o-1")).await.is(200);
    assert_eq!(whole.body, huge.as_bytes());
    assert!(whole.header("content-disposition").starts_with("attachment"));
}

#[tokio::test]
async fn an_export_holds_every_line_once_and_a_cell_is_no_formula() {
    let api = ApiServer::start().await;
    let batch: Vec<_> = (0..1234).map(|n| deadline(&format!("=o-{n}"), after(3_600_000 + n))).collect();
    place_all(&api.wheel, &batch).await;
    let mut visitor = Visitor::stranger(&api).await;
    let lines = |answer: Answer| {
        String::from_utf8(answer.body).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let ndjson = visitor.get(&at(&api, "/deadlines.ndjson")).await.is(200);
    assert_eq!(ndjson.header("content-type"), "application/x-ndjson");
    let mut ids: Vec<String> = lines(ndjson)
        .iter()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned()
        })
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 1234);
    let csv = lines(visitor.get(&at(&api, "/deadlines.csv?from=now&to=%2B2h")).await.is(200));
    assert_eq!(csv.len(), 1235);
    assert!(csv[0].starts_with("id,state,due_at") && csv[1].starts_with("'=o-"), "{}", csv[1]);
}

#[tokio::test]
async fn the_numbers_go_on_by_themselves() {
    let api = ApiServer::start().await;
    place(&api.wheel, "o-1", 3_600_000, "{}").await;
    let stream = tokio::net::TcpStream::connect(api.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = hyper::Request::get(at(&api, "/live"))
        .header("host", "localhost")
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    let mut heard = String::new();
    let mut placed = false;
    let began = std::time::Instant::now();
    while !heard.contains("\"scheduled\":\"2\"") {
        assert!(began.elapsed() < crate::rig::PATIENCE, "never told of the second one: {heard}");
        let frame = tokio::time::timeout(crate::rig::PATIENCE, body.frame()).await.unwrap().unwrap().unwrap();
        heard.push_str(&String::from_utf8_lossy(&frame.into_data().unwrap()));
        if heard.contains("\"scheduled\":\"1\"") && !placed {
            placed = true;
            place(&api.wheel, "o-2", 3_600_000, "{}").await;
        }
    }
    assert!(heard.contains("No worker is alive"), "{heard}");
}

#[tokio::test]
async fn while_redis_is_away_every_screen_says_so_and_comes_back_with_it() {
    let mut redis = RedisServer::start(RedisOptions::default());
    let store = duewheel::wheel::RedisSettings {
        response_timeout: Duration::from_secs(1),
        connect_timeout: Duration::from_secs(1),
        ..duewheel::wheel::RedisSettings::new(redis.url().into())
    };
    let store = std::sync::Arc::new(duewheel::wheel::Store::new(&store).unwrap());
    let wheel = Wheel::new(store, crate::rig::wheel::settings(4));
    wheel.format().await.unwrap();
    let api = ApiServer::of(wheel, settings()).await;
    let mut visitor = Visitor::stranger(&api).await;
    visitor.page(&at(&api, "/dead")).await;
    redis.kill9();
    for path in ["", "/wheel", "/deadlines", "/deadlines?id=o", "/dead", "/deadline?id=o-1", "/deadlines.csv"]
    {
        let answer = visitor.get(&at(&api, path)).await;
        // A glance that is younger than a second may still be shown.
        if path.is_empty() && answer.status == 200 {
            continue;
        }
        let answer = answer.is(503);
        assert_eq!(answer.header("retry-after"), "2", "{path}");
        let text = String::from_utf8(answer.body).unwrap();
        assert!(
            text.contains("<h1>Redis does not answer</h1>") && text.contains("aria-label=\"Screens\""),
            "{path}: {text}"
        );
    }
    redis.restart();
    let began = std::time::Instant::now();
    loop {
        let status = visitor.get(&at(&api, "/dead")).await.status;
        if status == 200 {
            break;
        }
        assert!(began.elapsed() < crate::rig::PATIENCE, "Redis is back, and the page answers {status}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
