//! The SQL hook closes what is unpaid and due, once, and reads why the rest stayed open.

use std::time::Duration;

use duewheel::clock::Moment;
use duewheel::deadline::{Cause, Note, Payload, Stage};
use duewheel::hook::Verdict;
use duewheel::hook::sql::{KeyType, Route, SqlSettings, TimeType};

use crate::rig::shop::{Db, Kind, Shop, hook, judge, judge_one, lease, leases};

fn skipped(state: &str) -> Verdict {
    Verdict::Skipped { state: state.to_owned() }
}

#[tokio::test]
async fn a_batch_of_overdue_orders_is_closed_with_stock_and_audit_in_one_call() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 3).await;
        shop.orders(1..=120, -1000, &[(0, 2), (1, 1)]).await;
        let verdicts = judge(&shop.hook(), &leases(1..=120)).await;
        assert_eq!(verdicts, vec![Verdict::Closed; 120], "{kind:?}");
        assert_eq!(shop.count("FROM orders WHERE status = 'closed' AND closed_at IS NOT NULL").await, 120);
        assert_eq!(shop.count("FROM item WHERE reserved = 0").await, 3);
        shop.balance().await;
    }
}

#[tokio::test]
async fn any_number_of_calls_closes_once() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 1).await;
        shop.orders(1..=10, -1000, &[(0, 3)]).await;
        let hook = shop.hook();
        let first = leases(1..=10);
        assert_eq!(judge(&hook, &first).await, vec![Verdict::Closed; 10]);
        // The same life again, by a later claim: a crash between commit and settle.
        let mut again = first.clone();
        again.iter_mut().for_each(|l| l.fence.0 += 2);
        assert_eq!(judge(&hook, &again).await, vec![Verdict::Closed; 10], "{kind:?}");
        // Another life of the same ids: somebody closed them before.
        assert_eq!(judge(&hook, &leases(1..=10)).await, vec![skipped("closed"); 10], "{kind:?}");
        assert_eq!(shop.count("FROM closes").await, 10);
        shop.balance().await;
    }
}

#[tokio::test]
async fn orders_that_are_not_open_are_skipped_with_the_shops_own_word_and_keep_their_stock() {
    for kind in Kind::ALL {
        let shop = Shop::open_altered(kind, 1, |schema| {
            schema
                .replace(" CHECK (status IN ('unpaid', 'paid', 'closed'))", "")
                .replace(
                    "status     varchar(16) NOT NULL DEFAULT 'unpaid'",
                    "status     varchar(16) DEFAULT 'unpaid'",
                )
                .replace("NOT NULL DEFAULT 'unpaid'", "DEFAULT 'unpaid'")
        })
        .await;
        shop.orders(1..=5, -1000, &[(0, 1)]).await;
        for (id, status) in
            [(1, "'paid'"), (2, "'closed'"), (3, "'cancelled'"), (4, "NULL"), (5, "'Unpaid!'")]
        {
            shop.db.run(&format!("UPDATE orders SET status = {status} WHERE id = {id}")).await;
        }
        let verdicts = judge(&shop.hook(), &leases(1..=6)).await;
        let expected = ["paid", "closed", "cancelled", "unknown", "Unpaid!"].map(skipped);
        assert_eq!(verdicts[..5], expected, "{kind:?}");
        assert!(matches!(verdicts[5], Verdict::Gone { .. }), "{kind:?}: {:?}", verdicts[5]);
        assert_eq!(shop.count("FROM closes").await, 0);
        assert_eq!(shop.db.number("reserved", "FROM item").await, 5);
    }
}

/// The guard is the database's to read: PostgreSQL and SQLite tell `unpaid ` from `unpaid`, MariaDB's usual collations do not.
#[tokio::test]
async fn a_status_with_a_blank_behind_it_is_what_the_database_takes_it_for() {
    for kind in Kind::ALL {
        let shop = Shop::open_altered(kind, 1, |schema| {
            schema.replace(" CHECK (status IN ('unpaid', 'paid', 'closed'))", "")
        })
        .await;
        shop.orders([1], -1000, &[(0, 1)]).await;
        shop.db.run("UPDATE orders SET status = 'unpaid ' WHERE id = 1").await;
        let equal = shop.count("FROM orders WHERE status = 'unpaid'").await == 1;
        assert_eq!(equal, kind == Kind::Mariadb);
        let verdict = judge_one(&shop.hook(), &lease(1)).await;
        let expected = if equal { Verdict::Closed } else { skipped("unpaid ") };
        assert_eq!(verdict, expected, "{kind:?}");
        assert_eq!(shop.count("FROM closes").await, i64::from(equal));
        shop.balance().await;
    }
}

#[tokio::test]
async fn an_order_is_never_closed_before_the_tables_own_time_and_is_asked_again_at_it() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 1).await;
        let hook = shop.hook();
        // The session is there before the clock runs.
        judge_one(&hook, &lease(0)).await;
        shop.orders([1], 3000, &[(0, 1)]).await;
        let before = Moment::host_now();
        let Verdict::NotDue { until: Some(until) } = judge_one(&hook, &lease(1)).await else {
            panic!("{kind:?}: closed early");
        };
        let ahead = until.since(before);
        assert!((300..=3300).contains(&ahead.as_millis()), "{kind:?}: due {ahead:?} from now");
        assert_eq!(shop.status(1).await, "unpaid");
        tokio::time::sleep(ahead + Duration::from_millis(20)).await;
        assert_eq!(judge_one(&hook, &lease(1)).await, Verdict::Closed, "{kind:?}");
        let early = match kind {
            Kind::Sqlite => "unixepoch(closed_at, 'subsec') < unixepoch(close_at, 'subsec')",
            _ => "closed_at < close_at",
        };
        assert_eq!(shop.count(&format!("FROM orders WHERE {early}")).await, 0, "{kind:?}");
        shop.balance().await;
    }
}

#[tokio::test]
async fn a_row_without_a_time_is_never_closed_by_time() {
    for kind in Kind::ALL {
        let shop = Shop::open_altered(kind, 0, |schema| {
            schema
                .replace("close_at   timestamptz NOT NULL", "close_at timestamptz")
                .replace("close_at   datetime(3) NOT NULL", "close_at datetime(3)")
                .replace("close_at   TEXT NOT NULL", "close_at TEXT")
        })
        .await;
        shop.orders([1, 2], -1000, &[]).await;
        shop.db.run("UPDATE orders SET close_at = NULL WHERE id = 1").await;
        let verdicts = judge(&shop.hook(), &leases([1, 2])).await;
        assert!(
            matches!(&verdicts[0], Verdict::Failed { reason } if reason.contains("close_at is null")),
            "{verdicts:?}"
        );
        assert_eq!(verdicts[1], Verdict::Closed);
    }
}

#[tokio::test]
async fn a_person_closes_before_the_time_but_never_a_paid_order() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 1).await;
        shop.orders(1..=3, 3_600_000, &[(0, 1)]).await;
        shop.db.run("UPDATE orders SET status = 'paid' WHERE id = 2").await;
        let mut by_hand = leases(1..=3);
        for lease in &mut by_hand[..2] {
            lease.cause = Cause::Manual;
            lease.note = Some(Note::new("kim", "buyer asked; \"quoted\" 'twice'").unwrap());
            lease.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
        }
        let verdicts = judge(&shop.hook(), &by_hand).await;
        assert_eq!(verdicts[0], Verdict::Closed, "{kind:?}");
        assert_eq!(verdicts[1], skipped("paid"), "{kind:?}");
        assert!(matches!(verdicts[2], Verdict::NotDue { .. }), "{kind:?}");
        let row = shop.db.rows("SELECT action, cause, actor, reason, trace_id FROM closes").await;
        let expected = [
            "MANUAL_CLOSE",
            "manual",
            "kim",
            "buyer asked; \"quoted\" 'twice'",
            "0af7651916cd43dd8448eb211c80319c",
        ];
        assert_eq!(row, [expected.map(|c| Some(c.to_owned())).to_vec()], "{kind:?}");
        shop.balance().await;
    }
}

#[tokio::test]
async fn the_audit_row_says_when_it_was_due_and_by_which_attempt_and_fence_it_was_closed() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 0).await;
        shop.orders([1], -1000, &[]).await;
        let mut lease = lease(1);
        lease.attempt = 3;
        lease.due_at = Moment::from_millis(1_760_000_000_123).unwrap();
        assert_eq!(judge_one(&shop.hook(), &lease).await, Verdict::Closed);
        assert_eq!(shop.db.number("fence", "FROM closes").await, lease.fence.0 as i64);
        assert_eq!(shop.db.number("generation", "FROM closes").await, lease.generation.0 as i64);
        assert_eq!(shop.db.number("attempt", "FROM closes").await, 3);
        let due = match kind {
            Kind::Postgres => "extract(epoch FROM due_at) * 1000",
            Kind::Mariadb => "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', due_at) DIV 1000",
            Kind::Sqlite => "round(unixepoch(due_at, 'subsec') * 1000)",
        };
        assert_eq!(shop.db.number(due, "FROM closes").await, 1_760_000_000_123, "{kind:?}");
        let at = match kind {
            Kind::Postgres => "extract(epoch FROM now() - closed_at)",
            Kind::Mariadb => "TIMESTAMPDIFF(SECOND, closed_at, UTC_TIMESTAMP())",
            Kind::Sqlite => "unixepoch('now') - unixepoch(closed_at)",
        };
        assert!((0..30).contains(&shop.db.number(at, "FROM closes").await), "{kind:?}");
    }
}

#[tokio::test]
async fn an_id_that_is_not_the_keys_own_text_is_gone_and_its_neighbour_stays_open() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 0).await;
        shop.orders([12], -1000, &[]).await;
        let strange = ["012", "+12", "12.0", " 12", "12 ", "1.2e1", "0xc", "12abc", "九"];
        let verdicts = judge(&shop.hook(), &strange.map(lease)).await;
        assert!(verdicts.iter().all(|v| matches!(v, Verdict::Gone { .. })), "{kind:?}: {verdicts:?}");
        assert_eq!(shop.status(12).await, "unpaid", "{kind:?}");
    }
}

/// The shop with text for ids.
async fn text_shop(kind: Kind, key: &str) -> Shop {
    Shop::open_altered(kind, 0, |_| {
        format!(
            "CREATE TABLE orders (id {key}, status varchar(16) NOT NULL DEFAULT 'unpaid', note varchar(64))"
        )
    })
    .await
}

fn text_settings(shop: &Shop) -> SqlSettings {
    SqlSettings {
        key_type: KeyType::Text,
        set: "status = 'closed'".to_owned(),
        close_at: None,
        then: Vec::new(),
        time_zone: None,
        ..shop.settings()
    }
}

#[tokio::test]
async fn text_ids_match_byte_for_byte_whatever_the_collation_thinks_equal() {
    for (kind, key) in [
        (Kind::Mariadb, "varchar(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"),
        (Kind::Mariadb, "varchar(64) CHARACTER SET latin1 COLLATE latin1_swedish_ci"),
        (Kind::Sqlite, "text COLLATE NOCASE"),
        (Kind::Postgres, "text COLLATE ci"),
    ] {
        let shop = Shop::open_altered(kind, 0, |_| {
            let collation =
                "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);";
            let prefix = if kind == Kind::Postgres { collation } else { "" };
            format!("{prefix} CREATE TABLE orders (id {key}, status varchar(16) NOT NULL DEFAULT 'unpaid')")
        })
        .await;
        shop.db
            .run("INSERT INTO orders (id) VALUES ('ORD-a'), ('ORD-A'), ('ORD-b '), ('ORD-b'), ('ORD-é')")
            .await;
        let hook = hook(text_settings(&shop));
        assert_eq!(judge_one(&hook, &lease("ORD-a")).await, Verdict::Closed, "{kind:?} {key}");
        assert_eq!(judge_one(&hook, &lease("ORD-b")).await, Verdict::Closed, "{kind:?} {key}");
        assert!(matches!(judge_one(&hook, &lease("ord-a")).await, Verdict::Gone { .. }), "{kind:?} {key}");
        assert_eq!(judge_one(&hook, &lease("ORD-é")).await, Verdict::Closed, "{kind:?} {key}");
        let open = shop.db.rows("SELECT id FROM orders WHERE status = 'unpaid' ORDER BY id").await;
        let mut open: Vec<String> = open.into_iter().flatten().flatten().collect();
        open.sort();
        assert_eq!(open, ["ORD-A", "ORD-b "], "{kind:?} {key}");
    }
}

#[tokio::test]
async fn an_id_that_two_rows_have_is_rejected_and_both_stay_open() {
    for kind in Kind::ALL {
        let shop = text_shop(kind, "varchar(64)").await;
        shop.db.run("INSERT INTO orders (id) VALUES ('twin'), ('twin'), ('single')").await;
        let verdicts = judge(&hook(text_settings(&shop)), &["single", "twin"].map(lease)).await;
        assert_eq!(verdicts[0], Verdict::Closed, "{kind:?}");
        assert!(
            matches!(&verdicts[1], Verdict::Rejected { reason } if reason.contains("matched 2 rows")),
            "{kind:?}: {verdicts:?}"
        );
        assert_eq!(shop.count("FROM orders WHERE id = 'twin' AND status = 'unpaid'").await, 2, "{kind:?}");
    }
}

#[tokio::test]
async fn nasty_text_ids_are_bound_and_never_read_as_sql() {
    for kind in Kind::ALL {
        let shop = text_shop(kind, "varchar(200)").await;
        let nasty = [
            "'; DROP TABLE orders; --",
            "x' OR '1'='1",
            "x'/**/OR/**/1=1--",
            "x\\' OR 1=1 -- ",
            "${x}",
            "?",
            "$1",
            ":id",
            "a\"b",
            "a\\",
            "订单-1",
            "🧾",
            "%",
            "_",
            "{1,2}",
            "null",
            "a,b",
            "\u{202e}x",
        ];
        for id in nasty {
            let quoted = id.replace('\'', "''");
            let quoted = if kind == Kind::Mariadb { quoted.replace('\\', "\\\\") } else { quoted };
            shop.db.run(&format!("INSERT INTO orders (id) VALUES ('{quoted}')")).await;
        }
        // What each of them would reach, if it were read as SQL or as a pattern.
        let neighbours = ["x", "a", "1", "ab", "zz"];
        for id in neighbours {
            shop.db.run(&format!("INSERT INTO orders (id) VALUES ('{id}')")).await;
        }
        let verdicts = judge(&hook(text_settings(&shop)), &nasty.map(lease)).await;
        assert_eq!(verdicts, vec![Verdict::Closed; nasty.len()], "{kind:?}");
        assert_eq!(shop.count("FROM closes").await, nasty.len() as i64);
        let open = shop.count("FROM orders WHERE status = 'unpaid'").await;
        assert_eq!(open, neighbours.len() as i64, "{kind:?}: a neighbour was closed");
    }
}

#[tokio::test]
async fn uuid_keys_are_closed_by_their_canonical_text_only() {
    for (kind, key) in [
        (Kind::Postgres, "uuid"),
        (Kind::Mariadb, "uuid"),
        (Kind::Mariadb, "char(36)"),
        (Kind::Sqlite, "text"),
    ] {
        let shop = text_shop(kind, key).await;
        let id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        shop.db.run(&format!("INSERT INTO orders (id) VALUES ('{id}')")).await;
        let hook = hook(SqlSettings { key_type: KeyType::Uuid, ..text_settings(&shop) });
        let upper = id.to_uppercase();
        assert!(matches!(judge_one(&hook, &lease(upper)).await, Verdict::Gone { .. }), "{kind:?}");
        assert_eq!(judge_one(&hook, &lease(id)).await, Verdict::Closed, "{kind:?} {key}");
    }
}

#[tokio::test]
async fn statements_after_a_close_see_what_came_with_the_order() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 0).await;
        shop.db
            .run(
                "CREATE TABLE seen (id bigint, due varchar(40), at varchar(40), fence bigint, attempt int, generation bigint, \
                 cause varchar(20), actor varchar(20), reason varchar(20), trace varchar(40), coupon varchar(40), deep varchar(40), none varchar(9))",
            )
            .await;
        shop.orders(1..=3, -1000, &[]).await;
        let mut settings = shop.settings();
        let text = |what: &str| match kind {
            Kind::Mariadb => format!("CAST({what} AS CHAR)"),
            _ => format!("CAST({what} AS text)"),
        };
        settings.then = vec![format!(
            "INSERT INTO seen SELECT :id, {}, {}, :fence, :attempt, :generation, :cause, :actor, :reason, :trace_id, \
             :payload.coupon, :payload.a.b, :payload.nothing /* :id in a comment */",
            text(":due_at"),
            text(":now")
        )];
        let mut lease = lease(1);
        lease.payload =
            Payload::from_json(r#"{"coupon": "C'1", "a": {"b": 9007199254740993}, "nothing": null}"#)
                .unwrap();
        lease.due_at = Moment::from_millis(1_760_000_000_123).unwrap();
        assert_eq!(judge_one(&hook(settings), &lease).await, Verdict::Closed, "{kind:?}");
        let row = shop.db.rows("SELECT due, cause, actor, coupon, deep, none FROM seen").await.remove(0);
        let expected = ["due", "", "C'1", "9007199254740993", ""];
        let rest: Vec<String> = row[1..].iter().map(|c| c.clone().unwrap_or_default()).collect();
        assert_eq!(rest, expected, "{kind:?}");
        assert!(row[0].as_ref().unwrap().starts_with("2025-10-09 08:53:20.123"), "{kind:?}: {row:?}");
        assert_eq!(shop.db.number("fence", "FROM seen").await, lease.fence.0 as i64);
        // One time for the whole transaction.
        let same = match kind {
            Kind::Postgres => "at = CAST(closed_at AS text)",
            Kind::Mariadb => "at = CAST(closed_at AS CHAR)",
            Kind::Sqlite => "at = closed_at",
        };
        assert_eq!(
            shop.count(&format!("FROM seen JOIN orders USING (id) WHERE {same}")).await,
            1,
            "{kind:?}"
        );
    }
}

#[tokio::test]
async fn the_rows_of_a_batch_reach_a_statement_as_json() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 0).await;
        shop.db.run("CREATE TABLE seen (id bigint, fence bigint, coupon varchar(40))").await;
        shop.orders(1..=4, -1000, &[]).await;
        shop.db.run("UPDATE orders SET status = 'paid' WHERE id = 3").await;
        let mut settings = shop.settings();
        settings.then = vec![
            match kind {
                Kind::Postgres => {
                    "INSERT INTO seen SELECT id, fence, payload->>'coupon' FROM json_to_recordset(:rows) AS r(id bigint, fence bigint, payload json)"
                }
                Kind::Mariadb => {
                    "INSERT INTO seen SELECT id, fence, coupon FROM JSON_TABLE(:rows, '$[*]' COLUMNS(id bigint PATH '$.id', \
                     fence bigint PATH '$.fence', coupon varchar(40) PATH '$.payload.coupon')) AS r"
                }
                Kind::Sqlite => {
                    "INSERT INTO seen SELECT value->>'id', value->>'fence', value->>'$.payload.coupon' FROM json_each(:rows)"
                }
            }
            .to_owned(),
        ];
        let mut leases = leases(1..=4);
        for lease in &mut leases {
            lease.payload = Payload::from_json(format!("{{\"coupon\": \"订'{}\"}}", lease.id)).unwrap();
        }
        judge(&hook(settings), &leases).await;
        let seen = shop.db.rows("SELECT coupon FROM seen ORDER BY id").await;
        let seen: Vec<String> = seen.into_iter().flatten().flatten().collect();
        assert_eq!(seen, ["订'1", "订'2", "订'4"], "{kind:?}");
        let fences = leases.iter().filter(|l| l.id.as_str() != "3").map(|l| l.fence.0 as i64).sum::<i64>();
        assert_eq!(shop.db.number("sum(fence)", "FROM seen").await, fences, "{kind:?}");
    }
}

#[tokio::test]
async fn a_number_of_seconds_or_milliseconds_serves_as_the_close_time() {
    for kind in Kind::ALL {
        for (close_at_type, factor) in [(TimeType::UnixSeconds, 1.0), (TimeType::UnixMillis, 1000.0)] {
            let shop = Shop::open_altered(kind, 0, |_| {
                "CREATE TABLE orders (id bigint PRIMARY KEY, status varchar(9) DEFAULT 'unpaid', close_at double precision)".to_owned()
            })
            .await;
            let now = Moment::host_now().as_millis() as f64 / 1000.0;
            for (id, at) in [(1, now - 2.0), (2, now + 60.25)] {
                shop.db
                    .run(&format!("INSERT INTO orders (id, close_at) VALUES ({id}, {})", at * factor))
                    .await;
            }
            let settings = SqlSettings {
                close_at_type,
                set: "status = 'closed'".to_owned(),
                then: Vec::new(),
                ..shop.settings()
            };
            let verdicts = judge(&hook(settings), &leases([1, 2])).await;
            assert_eq!(verdicts[0], Verdict::Closed, "{kind:?} {close_at_type:?}");
            let Verdict::NotDue { until: Some(until) } = verdicts[1] else {
                panic!("{kind:?}: {verdicts:?}")
            };
            let off = until.as_millis() as f64 - (now + 60.25) * 1000.0;
            assert!((0.0..=1.5).contains(&off), "{kind:?} {close_at_type:?}: off by {off} ms");
        }
    }
}

#[tokio::test]
async fn orders_go_to_their_own_database_by_id_or_by_a_field_of_the_payload() {
    for kind in Kind::ALL {
        let shops = [Shop::open(kind, 0).await, Shop::open(kind, 0).await, Shop::open(kind, 0).await];
        let urls = shops.iter().map(|s| s.url.clone().into()).collect::<Vec<secrecy::SecretString>>();
        for (n, shop) in shops.iter().enumerate() {
            shop.orders((0..30).filter(|id| id % 3 == n as i64), -1000, &[]).await;
        }
        let settings = SqlSettings { urls, ..shops[0].settings() };
        assert_eq!(
            judge(&hook(settings.clone()), &leases(0..30)).await,
            vec![Verdict::Closed; 30],
            "{kind:?}"
        );

        let by_user = hook(SqlSettings { route: Route::Payload("user_id".to_owned()), ..settings });
        shops[2].orders([100], -1000, &[]).await;
        let mut routed = lease(100);
        routed.payload = Payload::from_json(r#"{"user_id": 8}"#).unwrap();
        assert_eq!(judge_one(&by_user, &routed).await, Verdict::Closed, "{kind:?}");
        let lost = judge_one(&by_user, &lease(100)).await;
        assert!(
            matches!(&lost, Verdict::Rejected { reason } if reason.contains("user_id")),
            "{kind:?}: {lost:?}"
        );
    }
}

#[tokio::test]
async fn one_database_that_is_down_leaves_the_others_closing() {
    let shop = Shop::open(Kind::Postgres, 0).await;
    shop.orders((0..20).filter(|id| id % 2 == 0), -1000, &[]).await;
    let dead = format!("postgres://nobody:x@127.0.0.1:{}/none", crate::rig::free_port());
    let settings = SqlSettings { urls: vec![shop.url.clone().into(), dead.into()], ..shop.settings() };
    let verdicts = judge(&hook(settings), &leases(0..20)).await;
    for (id, verdict) in verdicts.iter().enumerate() {
        if id % 2 == 0 {
            assert_eq!(*verdict, Verdict::Closed);
        } else {
            assert_eq!(verdict.as_str(), "unavailable", "{verdict:?}");
        }
    }
}

#[tokio::test]
async fn a_reminder_never_closes_an_order() {
    let shop = Shop::open(Kind::Sqlite, 0).await;
    shop.orders([1], -1000, &[]).await;
    let mut reminder = lease(1);
    reminder.stage = Stage(1);
    assert!(matches!(judge_one(&shop.hook(), &reminder).await, Verdict::Failed { .. }));
    assert_eq!(shop.status(1).await, "unpaid");
}

#[tokio::test]
async fn a_stored_procedure_answers_a_verdict_for_each_order() {
    for kind in Kind::SERVERS {
        let shop = Shop::open(kind, 0).await;
        shop.orders(1..=3, -1000, &[]).await;
        shop.db.run("UPDATE orders SET status = 'paid' WHERE id = 2").await;
        let (create, one) = match kind {
            Kind::Postgres => (
                "CREATE FUNCTION close_order(wanted bigint) RETURNS TABLE (verdict text, detail text) AS $$ BEGIN \
                 UPDATE orders SET status = 'closed' WHERE id = wanted AND status = 'unpaid'; \
                 IF FOUND THEN RETURN QUERY SELECT 'closed', NULL::text; \
                 ELSE RETURN QUERY SELECT 'skipped', status FROM orders WHERE id = wanted; END IF; END $$ LANGUAGE plpgsql",
                "SELECT verdict, detail FROM close_order(:id)",
            ),
            _ => (
                "CREATE PROCEDURE close_order(wanted bigint) BEGIN \
                 UPDATE orders SET status = 'closed' WHERE id = wanted AND status = 'unpaid'; \
                 IF ROW_COUNT() = 1 THEN SELECT 'closed' AS verdict, NULL AS detail; \
                 ELSE SELECT 'skipped' AS verdict, status AS detail FROM orders WHERE id = wanted; END IF; END",
                "CALL close_order(:id)",
            ),
        };
        shop.db.run(create).await;
        let settings = SqlSettings {
            urls: vec![shop.url.clone().into()],
            call: Some(one.to_owned()),
            audit: Some("closes".to_owned()),
            ..SqlSettings::default()
        };
        let verdicts = judge(&hook(settings.clone()), &leases(1..=4)).await;
        assert_eq!(verdicts[..3], [Verdict::Closed, skipped("paid"), Verdict::Closed], "{kind:?}");
        assert!(
            matches!(&verdicts[3], Verdict::Failed { reason } if reason.contains("answered no row")),
            "{verdicts:?}"
        );
        assert_eq!(shop.count("FROM closes").await, 2, "{kind:?}");
    }
    // The set form, and a word that is none.
    let shop = Shop::open(Kind::Postgres, 0).await;
    shop.db
        .run("CREATE FUNCTION judge_orders(wanted bigint[]) RETURNS TABLE (id bigint, verdict text, detail text) AS $$ \
              SELECT w, CASE w % 4 WHEN 0 THEN 'not_due' WHEN 1 THEN 'rejected' WHEN 2 THEN 'oops' ELSE 'gone' END, \
              CASE w % 4 WHEN 0 THEN '1760000000000' ELSE 'because' END FROM unnest(wanted) w $$ LANGUAGE sql")
        .await;
    let settings = SqlSettings {
        urls: vec![shop.url.clone().into()],
        call: Some("SELECT id, verdict, detail FROM judge_orders(:ids)".to_owned()),
        ..SqlSettings::default()
    };
    let verdicts = judge(&hook(settings), &leases(0..4)).await;
    assert_eq!(verdicts[0], Verdict::NotDue { until: Some(Moment::from_millis(1_760_000_000_000).unwrap()) });
    assert_eq!(verdicts[1], Verdict::Rejected { reason: "because".to_owned() });
    assert!(matches!(&verdicts[2], Verdict::Failed { reason } if reason.contains("oops")));
    assert!(matches!(verdicts[3], Verdict::Gone { .. }));
}

#[tokio::test]
async fn naive_times_are_read_in_the_configured_zone() {
    for kind in Kind::SERVERS {
        for (zone, hours) in [("+08:00", 8), ("-05:00", -5), ("Asia/Shanghai", 8), ("UTC", 0)] {
            let kind_of_time = if kind == Kind::Postgres { "timestamp(3)" } else { "datetime(3)" };
            let shop = Shop::open_altered(kind, 0, |_| {
                format!("CREATE TABLE orders (id bigint PRIMARY KEY, status varchar(9) DEFAULT 'unpaid', close_at {kind_of_time}, closed_at {kind_of_time})")
            })
            .await;
            let utc = if kind == Kind::Postgres { "(now() AT TIME ZONE 'UTC')" } else { "UTC_TIMESTAMP(3)" };
            for (id, seconds) in [(1, -5), (2, 60)] {
                let seconds = hours * 3600 + seconds;
                let shift = match kind {
                    Kind::Postgres => format!("interval '{seconds} seconds'"),
                    _ => format!("INTERVAL {seconds} SECOND"),
                };
                shop.db
                    .run(&format!("INSERT INTO orders (id, close_at) VALUES ({id}, {utc} + {shift})"))
                    .await;
            }
            let settings =
                SqlSettings { time_zone: Some(zone.to_owned()), then: Vec::new(), ..shop.settings() };
            let began = Moment::host_now();
            let verdicts = judge(&hook(settings), &leases([1, 2])).await;
            assert_eq!(verdicts[0], Verdict::Closed, "{kind:?} {zone}");
            let Verdict::NotDue { until: Some(until) } = verdicts[1] else {
                panic!("{kind:?} {zone}: {verdicts:?}")
            };
            let ahead = until.since(began).as_secs();
            assert!((50..=61).contains(&ahead), "{kind:?} {zone}: due {ahead} s from now");
            // What set writes is in the same zone.
            let off = match kind {
                Kind::Postgres => {
                    format!("extract(epoch FROM closed_at - (now() AT TIME ZONE 'UTC')) - {hours} * 3600")
                }
                _ => format!("TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), closed_at) - {hours} * 3600"),
            };
            let off = shop.db.number(&off, "FROM orders WHERE id = 1").await;
            assert!((-30..=1).contains(&off), "{kind:?} {zone}: closed_at is off by {off} s");
        }
    }
}

#[tokio::test]
async fn an_order_asked_twice_in_one_call_is_closed_once() {
    let shop = Shop::open(Kind::Postgres, 1).await;
    shop.orders([1], -1000, &[(0, 5)]).await;
    let verdicts = judge(&shop.hook(), &leases([1, 1])).await;
    assert_eq!(verdicts[0], Verdict::Closed);
    assert_eq!(verdicts[1].as_str(), "unavailable");
    shop.balance().await;
}

#[tokio::test]
async fn a_batch_larger_than_a_transaction_is_closed_in_several() {
    let shop = Shop::open(Kind::Sqlite, 1).await;
    shop.orders(1..=25, -1000, &[(0, 1)]).await;
    let hook = hook(SqlSettings { max_batch: 10, ..shop.settings() });
    assert_eq!(judge(&hook, &leases(1..=25)).await, vec![Verdict::Closed; 25]);
    let Db::Sqlite(_) = &shop.db else { panic!("a file") };
    shop.balance().await;
}
