//! Every verb, asked over HTTP: what it answers, and what the wheel holds then.

use duewheel::deadline::State;
use duewheel::wheel::Begun;
use serde_json::json;

use crate::rig::api::ApiServer;
use crate::rig::redis::RedisServer;
use crate::rig::wheel::id;

#[tokio::test]
async fn a_deadline_is_placed_once_looked_at_moved_and_cancelled() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let path = api.path("/deadlines/o-1");
    let body = r#"{"in":"30m","payload":{"order_id":9007199254740993},"remind":["5m"]}"#;
    let placed = client.json("PUT", &path, body).await.is(201);
    let (value, tag) = (placed.value(), placed.header("etag").to_owned());
    assert_eq!(value["outcome"], "enqueued");
    assert_eq!(value["id"], "o-1");
    assert_eq!(tag, format!("\"{}\"", value["generation"]));

    let at = json!({"at": value["due_at"]}).to_string();
    assert_eq!(client.json("PUT", &path, &at).await.is(200).value()["outcome"], "exists");
    let other = client.json("PUT", &path, r#"{"in":"2h"}"#).await.problem(409, "conflict");
    assert_eq!(other.value()["due_at"], value["due_at"]);
    let later = client.json("PUT", &path, r#"{"in":"2h","on_conflict":"later"}"#).await.is(200);
    assert_eq!(later.value()["outcome"], "replaced");

    let seen = client.bare("GET", &path).await.is(200);
    let tag = seen.header("etag").to_owned();
    assert_eq!(seen.value()["state"], "scheduled");
    assert_eq!(tag, later.header("etag"));

    let stale = [("if-match", "\"1772337600000000\""), ("content-type", "application/json")];
    let problem = client.send("PATCH", &path, &stale, r#"{"in":"1h"}"#).await.problem(412, "generation");
    assert_eq!(format!("\"{}\"", problem.value()["generation"]), tag);
    // A number beyond all generations is another's tag, too.
    for tag in ["\"9000000000000001\"", "\"9999999999999999\"", "9999999999999999", "\"0\""] {
        let headers = [("if-match", tag), ("content-type", "application/json")];
        client.send("PATCH", &path, &headers, r#"{"in":"1h"}"#).await.problem(412, "generation");
    }
    let fresh = [("if-match", tag.as_str()), ("content-type", "application/json")];
    let moved = client.send("PATCH", &path, &fresh, r#"{"in":"1h"}"#).await.is(200);
    assert_eq!(moved.value()["outcome"], "rescheduled");
    assert_ne!(moved.header("etag"), tag);

    assert_eq!(client.bare("DELETE", &path).await.is(200).value()["outcome"], "cancelled");
    assert_eq!(client.bare("DELETE", &path).await.is(200).value()["outcome"], "already_cancelled");
    assert_eq!(
        client.json("PUT", &path, r#"{"in":"1h"}"#).await.problem(409, "ended").value()["ended"]["outcome"],
        "cancelled"
    );
    let ended = client.bare("GET", &path).await.is(200).value();
    assert_eq!((&ended["state"], &ended["ended"]["outcome"]), (&json!("ended"), &json!("cancelled")));
    client.json("PATCH", &path, r#"{"in":"1h"}"#).await.problem(409, "ended");
    api.stop().await;
}

#[tokio::test]
async fn a_payload_comes_back_byte_for_byte_and_an_id_as_it_was_given() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let payload = r#"{"n":1e400,"big":9007199254740993, "a":1,"a":2}"#;
    let body = format!(r#"{{"payload": {payload} ,"in":"1h"}}"#);
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (raw, text) in [
        ("a%2Fb", "a/b"),
        ("..%2fx", "../x"),
        ("%E8%AE%A2%E5%8D%95", "订单"),
        ("%257B", "%7B"),
        ("a%20b+c", "a b+c"),
    ] {
        let path = api.path(&format!("/deadlines/{raw}"));
        let headers = [("content-type", "application/json; charset=utf-8"), ("traceparent", trace)];
        client.send("PUT", &path, &headers, &body).await.is(201);
        let seen = api.wheel.inspect(&id(text)).await.unwrap();
        let entry = seen.entry.unwrap();
        assert_eq!(entry.payload.as_bytes(), payload.as_bytes());
        assert_eq!(entry.traceparent.as_deref(), Some(trace));
        let shown = client.bare("GET", &path).await.is(200);
        assert!(String::from_utf8_lossy(&shown.body).contains(payload));
        // Not parsed: no reader takes 1e400.
        let id = serde_json::to_string(text).unwrap();
        assert!(String::from_utf8_lossy(&shown.body).contains(&format!("\"id\":{id}")));
    }
    // A traceparent that is none is as good as none.
    let headers = [("content-type", "application/json"), ("traceparent", "00-zz")];
    client.send("PUT", &api.path("/deadlines/none"), &headers, r#"{"in":"1h"}"#).await.is(201);
    assert_eq!(api.wheel.inspect(&id("none")).await.unwrap().entry.unwrap().traceparent, None);
    api.stop().await;
}

#[tokio::test]
async fn an_id_that_nobody_knows_is_not_found_and_its_cancellation_is_remembered() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let path = api.path("/deadlines/early");
    client.bare("GET", &path).await.problem(404, "absent");
    client.json("PATCH", &path, r#"{"in":"1h"}"#).await.problem(404, "absent");
    client.bare("POST", &format!("{path}/release")).await.problem(404, "absent");
    client.bare("DELETE", &path).await.problem(404, "absent");
    client.json("PUT", &path, r#"{"in":"1h"}"#).await.problem(409, "ended");
    api.stop().await;
}

#[tokio::test]
async fn a_payment_holds_releases_and_ends_a_deadline() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let path = api.path("/deadlines/o-2");
    client.json("PUT", &path, r#"{"in":"1m"}"#).await.is(201);
    let held = client.json("POST", &format!("{path}/hold"), r#"{"for":"10m"}"#).await.is(200).value();
    assert_eq!(held["outcome"], "held");
    assert!(held["next_at_ms"].as_u64() > held["due_at_ms"].as_u64());
    let released = client.bare("POST", &format!("{path}/release")).await.is(200).value();
    assert_eq!(released["next_at"], released["due_at"]);
    client.bare("POST", &format!("{path}/release")).await.problem(409, "not_held");
    for _ in 0..2 {
        client.json("POST", &format!("{path}/hold"), r#"{"for":"1m"}"#).await.is(200);
    }
    client.json("POST", &format!("{path}/hold"), r#"{"for":"1h"}"#).await.problem(409, "hold_cap");
    let nobody = client.json("POST", &format!("{path}/hold"), r#"{"for":"1m","channel":"x"}"#).await;
    assert_eq!(nobody.problem(422, "invalid").value()["field"], "channel");
    let paid = client.json("POST", &format!("{path}/paid"), r#"{"amount":"99.00 CNY"}"#).await.is(200);
    assert_eq!(paid.value()["outcome"], "cancelled");
    let again = client.bare("POST", &format!("{path}/paid")).await.is(200);
    assert_eq!(again.value()["outcome"], "already_cancelled");
    let unknown = client.bare("POST", &api.path("/deadlines/never/paid")).await.is(200);
    assert_eq!(unknown.value()["outcome"], "absent");
    api.stop().await;
}

#[tokio::test]
async fn a_person_closes_by_hand_and_stands_in_the_note() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let path = api.path("/deadlines/o-3");
    client.json("PUT", &path, r#"{"in":"1h"}"#).await.is(201);
    let body = r#"{"reason":"fraud","actor":"alice"}"#;
    let closing = client.json("POST", &format!("{path}/close"), body).await.is(202).value();
    assert_eq!(closing["outcome"], "closing");
    let entry = api.wheel.inspect(&id("o-3")).await.unwrap().entry.unwrap();
    assert_eq!(entry.cause.as_str(), "manual");
    let note = entry.note.unwrap();
    assert_eq!((note.actor.as_str(), note.reason.as_str()), ("alice (token http)", "fraud"));
    let missing = client.json("POST", &format!("{path}/close"), "{}").await.problem(422, "invalid");
    assert_eq!(missing.value()["field"], "reason");
    api.stop().await;
}

#[tokio::test]
async fn a_batch_answers_each_item_in_its_place() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let path = api.path("/deadlines");
    let items = json!([
        {"id": "a", "in": "1h", "payload": {"n": 1}},
        {"id": "b", "in": "soon"},
        {"id": "c", "at": "2030-01-01T00:00:00+08:00"},
        {"id": "a", "in": "2h"},
        {"in": "1h"},
        {"id": "d", "in": "1h", "clos_at": 1},
        7,
    ]);
    let answer = client.json("POST", &path, &items.to_string()).await.is(207).value();
    assert_eq!((&answer["placed"], &answer["refused"]), (&json!(2), &json!(5)));
    let results = answer["results"].as_array().unwrap();
    let codes: Vec<_> =
        results.iter().map(|one| (one["status"].as_u64().unwrap(), one["code"].as_str())).collect();
    assert_eq!(
        codes,
        [
            (201, None),
            (422, Some("invalid")),
            (201, None),
            (409, Some("conflict")),
            (422, Some("invalid")),
            (422, Some("unknown_field")),
            (400, Some("bad_json")),
        ]
    );
    assert_eq!(results[1]["field"], "in");
    assert_eq!(results[5]["field"], "clos_at");
    assert_eq!(results[4]["index"], 4);

    let lines = "{\"id\":\"e\",\"in\":\"1h\"}\r\n\n{\"id\":\"f\",\"due_at\":1893427200000}\n";
    let answer = client.send("POST", &path, &[("content-type", "application/x-ndjson")], lines).await.is(200);
    assert_eq!(answer.value()["placed"], 2);
    let later = format!("{path}?on_conflict=later");
    let answer = client.json("POST", &later, r#"[{"id":"e","in":"2h"}]"#).await.is(200).value();
    assert_eq!(answer["results"][0]["outcome"], "replaced");

    for (body, count) in [("[]".to_owned(), 0), (many(1001), 1001)] {
        let refused = client.json("POST", &path, &body).await.problem(422, "batch_size");
        assert!(refused.value()["detail"].as_str().unwrap().starts_with(&format!("{count} items")));
    }
    client.json("POST", &path, &many(1000)).await.is(200);
    assert_eq!(api.wheel.stats().await.unwrap().scheduled, 4 + 1000);
    api.stop().await;
}

fn many(count: usize) -> String {
    let items: Vec<_> = (0..count).map(|n| json!({"id": format!("m-{n}"), "in": "1h"})).collect();
    json!(items).to_string()
}

#[tokio::test]
async fn a_listing_goes_page_by_page_over_all_shards() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    client.json("POST", &api.path("/deadlines"), &many(25)).await.is(200);
    let (mut seen, mut next) = (Vec::new(), String::new());
    loop {
        let page = client.bare("GET", &api.path(&format!("/deadlines?limit=10{next}"))).await.is(200).value();
        let ids =
            page["deadlines"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned());
        seen.extend(ids);
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => break,
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 25);
    let due = client.bare("GET", &api.path("/deadlines?state=due")).await.is(200).value();
    assert_eq!(due["deadlines"], json!([]));
    client.bare("DELETE", &api.path("/deadlines/m-3")).await.is(200);
    let ended = client.bare("GET", &api.path("/deadlines?state=ended")).await.is(200).value();
    assert_eq!(ended["deadlines"][0]["id"], "m-3");
    for bad in [
        "state=open",
        "limit=0",
        "limit=501",
        "limit=-1",
        "limit=1e9",
        "cursor=forged",
        "from=today",
        "state=ended&from=1772337600000",
        "lmit=1",
    ] {
        client.bare("GET", &api.path(&format!("/deadlines?{bad}"))).await.is(422);
    }
    api.stop().await;
}

#[tokio::test]
async fn the_wheel_is_counted_forecast_paused_and_resumed() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    client.json("POST", &api.path("/deadlines"), &many(30)).await.is(200);
    let stats = client.bare("GET", &api.path("/stats")).await.is(200).value();
    assert_eq!((&stats["scheduled"], &stats["wheel"]), (&json!(30), &json!(api.wheel.name().as_str())));
    let forecast = client.bare("GET", &api.path("/forecast?step=1h&count=3")).await.is(200).value();
    let counts = forecast["stretches"].as_array().unwrap().iter().map(|one| one["count"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), 30);
    client.bare("GET", &api.path("/forecast?step=0")).await.problem(422, "invalid");
    let paused = client.json("POST", &api.path("/pause"), r#"{"reason":"provider is down"}"#).await.is(200);
    assert_eq!(paused.value()["written"], 4);
    assert_eq!(client.bare("GET", &api.path("/stats")).await.value()["paused_shards"], 4);
    let resumed = client.bare("POST", &api.path("/resume")).await.is(200).value();
    assert_eq!(resumed["lifted"][0]["why"], "provider is down");
    let wheels = client.bare("GET", "/v1/wheels").await.is(200).value();
    assert_eq!(wheels["wheels"][0]["name"], api.wheel.name().as_str());
    client.bare("GET", "/v1/wheels/other/stats").await.problem(404, "no_such_wheel");
    api.stop().await;
}

#[tokio::test]
async fn the_dead_are_revived_and_dropped_by_id_and_by_what_they_have_in_common() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    for n in 0..6 {
        let reason = if n < 4 { "shop said 500" } else { "rejected" };
        crate::rig::wheel::bury(&api.wheel, &format!("d-{n}"), reason).await;
    }
    let dead = client.bare("GET", &api.path("/dead")).await.is(200).value();
    assert_eq!(dead["deadlines"].as_array().unwrap().len(), 6);
    assert_eq!(dead["deadlines"][0]["reason"], "shop said 500");
    let revived =
        client.json("POST", &api.path("/dead/revive"), r#"{"ids":["d-0","d-0x"]}"#).await.is(207).value();
    assert_eq!((&revived["revived"], &revived["refused"]), (&json!(1), &json!(1)));
    assert_eq!(revived["results"][1]["code"], "absent");
    for bad in ["{}", r#"{"filter":{}}"#, r#"{"ids":[]}"#, r#"{"ids":["a"],"filter":{"all":true}}"#] {
        client.json("POST", &api.path("/dead/drop"), bad).await.problem(422, "invalid");
    }
    let filter = r#"{"filter":{"reason":"500"}}"#;
    let dropped = client.json("POST", &api.path("/dead/drop"), filter).await.is(200).value();
    assert_eq!((&dropped["dropped"], &dropped["more"]), (&json!(3), &json!(false)));
    let revived =
        client.json("POST", &api.path("/dead/revive"), r#"{"filter":{"all":true}}"#).await.is(200).value();
    assert_eq!(revived["revived"], 2);
    assert_eq!(api.wheel.inspect(&id("d-5")).await.unwrap().state, State::Scheduled);
    assert_eq!(api.wheel.stats().await.unwrap().dead, 0);
    api.stop().await;
}

#[tokio::test]
async fn a_hold_with_a_key_is_done_once_however_often_it_is_sent() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let path = api.path("/deadlines/o-1");
    client.json("PUT", &path, r#"{"in":"1m"}"#).await.is(201);
    let hold = format!("{path}/hold");
    let with = |key: &'static str| [("content-type", "application/json"), ("idempotency-key", key)];
    let first = client.send("POST", &hold, &with("\"k-1\""), r#"{"for":"10m"}"#).await.is(200);
    for _ in 0..5 {
        let again = client.send("POST", &hold, &with("k-1"), r#"{"for":"10m"}"#).await.is(200);
        assert_eq!((again.value(), again.header("etag")), (first.value(), first.header("etag")));
        assert_eq!(again.header("idempotency-replayed"), "true");
    }
    assert_eq!(api.wheel.inspect(&id("o-1")).await.unwrap().entry.unwrap().hold_count, 1);
    let other = client.send("POST", &hold, &with("k-1"), r#"{"for":"11m"}"#).await;
    other.problem(409, "idempotency_key_reused");
    client.send("POST", &hold, &with("k 1"), "{}").await.problem(400, "bad_idempotency_key");

    // What was refused may be sent again, and one in work waits for itself.
    let late = api.path("/deadlines/o-2");
    client
        .send("POST", &format!("{late}/release"), &[("idempotency-key", "k-2")], "")
        .await
        .problem(404, "absent");
    client.json("PUT", &late, r#"{"in":"1m"}"#).await.is(201);
    client
        .send("POST", &format!("{late}/release"), &[("idempotency-key", "k-2")], "")
        .await
        .problem(409, "not_held");
    assert_eq!(api.wheel.begin_request("k-3", "m").await.unwrap(), Begun::New);
    assert_eq!(api.wheel.begin_request("k-3", "m").await.unwrap(), Begun::InWork);
    api.stop().await;
}

#[tokio::test]
async fn a_key_stands_for_its_query_too() {
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let with = [("content-type", "application/json"), ("idempotency-key", "k-1")];
    let batch = r#"[{"id":"o-1","in":"1h"}]"#;
    let path = |query: &str| api.path(&format!("/deadlines{query}"));
    let first = client.send("POST", &path("?on_conflict=keep"), &with, batch).await.is(200);
    let other = client.send("POST", &path("?on_conflict=replace"), &with, batch).await;
    assert_eq!(other.problem(409, "idempotency_key_reused").value()["field"], "Idempotency-Key");
    client.send("POST", &path(""), &with, batch).await.problem(409, "idempotency_key_reused");
    let again = client.send("POST", &path("?on_conflict=keep"), &with, batch).await.is(200);
    assert_eq!((again.value(), again.header("idempotency-replayed")), (first.value(), "true"));
    api.stop().await;
}

#[tokio::test]
async fn a_long_answer_is_kept_too_and_one_that_is_not_kept_is_no_reason_to_act_again() {
    let redis = RedisServer::shared();
    let api = ApiServer::start().await;
    let mut client = api.client().await;
    let with = |key: &'static str| [("content-type", "application/json"), ("idempotency-key", key)];
    for n in 0..80 {
        crate::rig::wheel::bury(&api.wheel, &format!("{n:0200}"), "shop said 500").await;
    }
    let (path, all) = (api.path("/dead/drop"), r#"{"filter":{"all":true}}"#);
    let first = client.send("POST", &path, &with("k-1"), all).await.is(200);
    assert!(first.body.len() > 16 * 1024, "{}", first.body.len());
    // The next ones are not meant.
    crate::rig::wheel::bury(&api.wheel, "next", "shop said 500").await;
    let again = client.send("POST", &path, &with("k-1"), all).await.is(200);
    assert_eq!((again.value(), again.header("idempotency-replayed")), (first.value(), "true"));
    assert_eq!(api.wheel.stats().await.unwrap().dead, 1);

    // The longest of all: a thousand refusals of the longest ids, of which each byte is two in JSON.
    let item = |n: u32, at: u64| json!({"id": format!("{n:\"<200}"), "at": at});
    let batch = |at: u64| json!((0..1000).map(|n| item(n, at)).collect::<Vec<_>>()).to_string();
    let path = api.path("/deadlines");
    client.json("POST", &path, &batch(1_893_427_200_000)).await.is(200);
    let refused = client.send("POST", &path, &with("k-2"), &batch(1_893_427_300_000)).await.is(207);
    println!("the longest answer: {} bytes", refused.body.len());
    let again = client.send("POST", &path, &with("k-2"), &batch(1_893_427_300_000)).await.is(207);
    assert_eq!((again.header("idempotency-replayed"), &again.body), ("true", &refused.body));

    // What a batch was answered at length is not kept for a day.
    let pattern = format!("*{}*request:*", api.wheel.name());
    let keys: Vec<String> = redis.command(&["KEYS", &pattern]);
    let mut lives: Vec<i64> = keys.iter().map(|key| redis.command::<i64>(&["PTTL", key])).collect();
    lives.sort_unstable();
    assert!(matches!(lives[..], [0..=600_000, 80_000_000..=86_400_000]), "{lives:?}");
    for key in &keys {
        redis.command::<i64>(&["HSET", key, "answer", ""]);
    }
    for (path, key, body) in [(api.path("/dead/drop"), "k-1", all), (path, "k-2", &batch(1_893_427_300_000))]
    {
        client.send("POST", &path, &with(key), body).await.problem(409, "answer_not_kept");
    }
    assert_eq!(api.wheel.stats().await.unwrap().dead, 1);
    api.stop().await;
}
