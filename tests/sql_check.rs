//! A declaration that could not close, or could close wrongly, is refused at start with the reason.

use duewheel::error::Error;
use duewheel::hook::Hook;
use duewheel::hook::sql::{Dialect, KeyType, SqlHook, SqlSettings, TimeType, audit_ddl};

use crate::rig::shop::{Kind, Shop, database_name, hook};

/// A declaration that is fine, on a server that is never asked.
fn fine(scheme: &str) -> SqlSettings {
    SqlSettings {
        urls: vec![format!("{scheme}://user:pass@127.0.0.1:1/shop").into()],
        table: "orders".to_owned(),
        guard: "status = 0".to_owned(),
        set: "status = 4".to_owned(),
        close_at: Some("close_at".to_owned()),
        ..SqlSettings::default()
    }
}

fn refusal(settings: SqlSettings) -> String {
    match SqlHook::new(settings) {
        Ok(_) => panic!("was accepted"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn every_problem_of_a_declaration_is_reported_together_and_begins_with_its_key() {
    let text = refusal(SqlSettings {
        table: "orders; drop table x".to_owned(),
        key: "a.b".to_owned(),
        guard: String::new(),
        set: "status = 4 WHERE 1 = 1".to_owned(),
        time_zone: Some("Mars/Olympus".to_owned()),
        then: vec!["UPDATE item SET n = 1".to_owned(), "DELETE FROM item WHERE id = :idd".to_owned()],
        max_batch: 0,
        ..fine("postgres")
    });
    for start in ["max_batch", "time_zone", "table", "key", "guard", "set", "then 1", "then 2"] {
        assert!(text.lines().any(|line| line.starts_with(start)), "nothing about {start} in:\n{text}");
    }
}

#[test]
fn a_guard_is_needed_and_must_look_at_what_set_changes() {
    assert!(
        refusal(SqlSettings { guard: "  ".to_owned(), ..fine("mysql") })
            .contains("guard: expected an expression")
    );
    assert!(refusal(SqlSettings { guard: "deleted = 0".to_owned(), ..fine("mysql") }).contains("(status)"));
    assert!(refusal(SqlSettings { guard: "1 = 1".to_owned(), ..fine("mysql") }).contains("guard"));
    assert!(SqlHook::new(SqlSettings { guard: "`STATUS` = 0".to_owned(), ..fine("mysql") }).is_ok());
}

#[test]
fn an_expression_cannot_end_or_swallow_the_statement_around_it() {
    for guard in [
        "status = 0; DELETE FROM orders",
        "status = 0) OR (1 = 1",
        "status = 0 -- x",
        "status = 0 /* x",
        "status = 'x",
    ] {
        let text = refusal(SqlSettings { guard: guard.to_owned(), ..fine("postgres") });
        assert!(text.contains("guard:"), "{guard}: {text}");
    }
    for set in [
        "status = 4; DROP TABLE orders",
        "status = 4 WHERE id = 1",
        "status",
        "",
        "4 = status",
        "status = :fence",
    ] {
        let text = refusal(SqlSettings { set: set.to_owned(), ..fine("sqlite") });
        assert!(text.contains("set"), "{set}: {text}");
    }
}

#[test]
fn a_follow_up_statement_must_be_one_and_name_the_orders() {
    for (then, why) in [
        ("UPDATE item SET n = n + 1 WHERE id = :id; DELETE FROM item", "one statement"),
        ("UPDATE item SET n = n + 1 WHERE id = 7", "which orders"),
        ("UPDATE item SET n = n + 1", "WHERE"),
        ("DELETE FROM item", "WHERE"),
        ("DROP TABLE item", "found \"DROP\""),
        ("COMMIT", "found \"COMMIT\""),
        ("INSERT INTO log VALUES (:id, :nonsense)", ":nonsense"),
        ("INSERT INTO log VALUES (?, :id)", "named placeholders"),
        ("UPDATE item SET f = :fence WHERE id IN (:ids)", "from :rows"),
        ("UPDATE item SET f = 1 WHERE id NOT IN (:ids)", "NOT IN"),
        ("INSERT INTO log SELECT ':id'", "which orders"),
    ] {
        let text = refusal(SqlSettings { then: vec![then.to_owned()], ..fine("mysql") });
        assert!(text.contains(why), "{then}: {text}");
    }
    let text = refusal(SqlSettings {
        then: vec!["UPDATE item SET n = $1 WHERE id = :id".to_owned()],
        ..fine("postgres")
    });
    assert!(text.contains("named placeholders"), "{text}");
    let text = refusal(SqlSettings {
        ensure: vec!["UPDATE item SET n = 1 WHERE id = :id".to_owned()],
        ..fine("mysql")
    });
    assert!(text.contains("ensure 1"), "{text}");
}

#[test]
fn a_url_that_cannot_be_read_is_refused_without_its_password() {
    for url in [
        "postgres://user:s3cr%zzt@host/db",
        "mysql://user:s3cret@host:notaport/db",
        "postgres://user:s3cret@[::1/db",
        "redis://user:s3cret@host/0",
        "s3cret",
        "",
        "sqlite://s3cret?mode=nonsense",
    ] {
        let refused = SqlHook::new(SqlSettings { urls: vec![url.to_owned().into()], ..fine("mysql") });
        let text = refused.map(drop).expect_err(url).to_string();
        assert!(text.contains("url"), "{url}: {text}");
        assert!(!text.contains("s3cr"), "the password is in: {text}");
    }
    let two = vec!["mysql://a@h/x".to_owned().into(), "postgres://a@h/x".to_owned().into()];
    assert!(refusal(SqlSettings { urls: two, ..fine("mysql") }).contains("one kind"));
    assert!(
        refusal(SqlSettings { urls: Vec::new(), ..fine("mysql") }).contains("url: expected at least one")
    );
}

#[tokio::test]
async fn a_password_with_special_characters_works_percent_encoded_and_is_never_shown() {
    let shop = Shop::open(Kind::Postgres, 0).await;
    let odd = database_name();
    shop.db.run(&format!("CREATE ROLE {odd} LOGIN SUPERUSER PASSWORD 'p%@:/?#[]ö'")).await;
    let url = |password: &str| {
        let (_, rest) = shop.url.rsplit_once('@').unwrap();
        format!("postgres://{odd}:{password}@{rest}")
    };
    let good = SqlSettings { urls: vec![url("p%25%40%3A%2F%3F%23%5B%5D%C3%B6").into()], ..shop.settings() };
    hook(good).check().await.unwrap();
    let wrong = SqlSettings { urls: vec![url("wrongpass").into()], ..shop.settings() };
    let text = hook(wrong).check().await.unwrap_err().to_string();
    assert!(text.contains("password authentication failed") && !text.contains("wrongpass"), "{text}");
}

#[tokio::test]
async fn a_password_is_changed_without_a_restart_but_not_the_database() {
    let shop = Shop::open(Kind::Postgres, 0).await;
    let role = database_name();
    shop.db.run(&format!("CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'one'")).await;
    let (_, place) = shop.url.rsplit_once('@').unwrap();
    let url = |password: &str, place: &str| vec![format!("postgres://{role}:{password}@{place}").into()];
    let hook = hook(SqlSettings { urls: url("one", place), ..shop.settings() });
    shop.db.run(&format!("ALTER ROLE {role} PASSWORD 'two'")).await;
    hook.check().await.expect_err("a session by the old password");
    let elsewhere = hook.set_urls(&url("two", "127.0.0.1:1/other")).unwrap_err().to_string();
    assert!(elsewhere.contains("restart") && !elsewhere.contains("two"), "{elsewhere}");
    hook.check().await.expect_err("nothing was taken over");
    hook.set_urls(&url("two", place)).unwrap();
    hook.check().await.unwrap();
}

#[tokio::test]
async fn a_database_that_is_full_at_the_start_is_waited_for_and_one_that_refuses_is_not() {
    let shop = Shop::open(Kind::Postgres, 0).await;
    let role = database_name();
    shop.db.run(&format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT 0 PASSWORD 'one'")).await;
    let (_, place) = shop.url.rsplit_once('@').unwrap();
    let of = |password: &str| SqlSettings {
        urls: vec![format!("postgres://{role}:{password}@{place}").into()],
        ..shop.settings()
    };
    let full = hook(of("one")).check().await.unwrap_err();
    assert!(matches!(&full, Error::HookAway(why) if why.contains("too many connections")), "{full:?}");
    let wrong = hook(of("two")).check().await.unwrap_err();
    assert!(matches!(wrong, Error::Hook(_)), "{wrong:?}");

    let shop = Shop::open(Kind::Mariadb, 0).await;
    let user = database_name();
    let made = format!(
        "CREATE USER {user} IDENTIFIED BY 'x' WITH MAX_CONNECTIONS_PER_HOUR 1; GRANT ALL ON *.* TO {user}"
    );
    for statement in made.split("; ") {
        shop.db.run(statement).await;
    }
    let (_, place) = shop.url.rsplit_once('@').unwrap();
    let of = || SqlSettings { urls: vec![format!("mysql://{user}:x@{place}").into()], ..shop.settings() };
    drop(hook(of()).check().await);
    let full = hook(of()).check().await.unwrap_err();
    assert!(matches!(&full, Error::HookAway(why) if why.contains("1226")), "{full:?}");
}

async fn check(settings: SqlSettings) -> Result<Vec<String>, String> {
    hook(settings).check().await.map_err(|e| {
        assert!(matches!(e, Error::Hook(_) | Error::HookAway(_)), "{e:?}");
        e.to_string()
    })
}

#[tokio::test]
async fn the_shops_own_declaration_is_accepted_without_a_word_and_changes_nothing() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 1).await;
        assert_eq!(check(shop.settings()).await, Ok(vec![]), "{kind:?} when empty");
        shop.orders(1..=200, -1000, &[(0, 1)]).await;
        assert_eq!(check(shop.settings()).await, Ok(vec![]), "{kind:?} with orders");
        assert_eq!(shop.count("FROM orders WHERE status = 'unpaid'").await, 200);
        shop.balance().await;
    }
}

#[tokio::test]
async fn names_that_are_not_there_are_refused_by_their_key() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 1).await;
        let base = shop.settings();
        for (why, settings) in [
            ("table: no table nosuch", SqlSettings { table: "nosuch".to_owned(), ..base.clone() }),
            (
                "key: table orders has no column nosuch",
                SqlSettings { key: "nosuch".to_owned(), ..base.clone() },
            ),
            (
                "set: table orders has no column nosuch",
                SqlSettings { set: "status = 'closed', nosuch = 1".to_owned(), ..base.clone() },
            ),
            (
                "guard, close_at",
                SqlSettings { guard: "status = 'unpaid' AND nosuch = 1".to_owned(), ..base.clone() },
            ),
            ("state: ", SqlSettings { state: Some("nosuch".to_owned()), ..base.clone() }),
            (
                "then 1: ",
                SqlSettings {
                    then: vec!["UPDATE nosuch SET a = 1 WHERE id = :id".to_owned()],
                    ..base.clone()
                },
            ),
            (
                "ensure 1: ",
                SqlSettings {
                    ensure: vec!["SELECT 1 FROM nosuch WHERE id = :id".to_owned()],
                    ..base.clone()
                },
            ),
            ("audit", SqlSettings { audit: Some("nosuch".to_owned()), ..base.clone() }),
            ("key_type text: column id", SqlSettings { key_type: KeyType::Text, ..base.clone() }),
            ("close_at", SqlSettings { close_at: Some("user_id".to_owned()), ..base.clone() }),
            ("close_at", SqlSettings { close_at_type: TimeType::UnixMillis, ..base.clone() }),
        ] {
            if kind == Kind::Sqlite && why == "close_at" {
                // Types belong to values there; one row tells.
                shop.db.run("DELETE FROM order_item; DELETE FROM orders").await;
                shop.orders([1], -1000, &[]).await;
            }
            match check(settings).await {
                Ok(warnings) => panic!("{kind:?}: {why} was accepted: {warnings:?}"),
                Err(text) => assert!(text.contains(why), "{kind:?}: no \"{why}\" in {text}"),
            }
        }
    }
}

#[tokio::test]
async fn naive_times_need_a_zone_and_summer_time_a_warning() {
    let shop = Shop::open(Kind::Mariadb, 0).await;
    let text = check(SqlSettings { time_zone: None, ..shop.settings() }).await.unwrap_err();
    assert!(text.contains("time_zone: column close_at is datetime(3)"), "{text}");
    let warnings =
        check(SqlSettings { time_zone: Some("Europe/Berlin".to_owned()), ..shop.settings() }).await.unwrap();
    assert!(warnings.iter().any(|w| w.contains("summer time")), "{warnings:?}");

    let shop =
        Shop::open_altered(Kind::Postgres, 0, |s| s.replace("close_at   timestamptz", "close_at timestamp"))
            .await;
    let text = check(shop.settings()).await.unwrap_err();
    assert!(text.contains("time_zone: column close_at is timestamp"), "{text}");
    check(SqlSettings { time_zone: Some("+08:00".to_owned()), ..shop.settings() }).await.unwrap();

    let shop = Shop::open(Kind::Sqlite, 0).await;
    let text = refusal(SqlSettings { time_zone: Some("+08:00".to_owned()), ..shop.settings() });
    assert!(text.contains("time_zone: sqlite"), "{text}");
}

#[tokio::test]
async fn a_missing_index_is_warned_of() {
    for kind in Kind::ALL {
        let shop = Shop::open_altered(kind, 0, |s| {
            s.replace("CREATE INDEX", "-- CREATE INDEX").replace(",\n  -- The safety net looks for overdue unpaid orders.\n  KEY orders_unpaid (status, close_at, id)", "")
        })
        .await;
        let warnings = check(shop.settings()).await.unwrap();
        assert_eq!(warnings.len(), 1, "{kind:?}: {warnings:?}");
        assert!(warnings[0].contains("overdue: no index"), "{kind:?}: {warnings:?}");
        let shop = Shop::open_altered(kind, 0, |_| {
            "CREATE TABLE orders (id bigint, status varchar(9), close_at bigint)".to_owned()
        })
        .await;
        let settings = SqlSettings {
            close_at_type: TimeType::UnixMillis,
            set: "status = 'closed'".to_owned(),
            then: Vec::new(),
            ..shop.settings()
        };
        let warnings = check(settings).await.unwrap();
        assert!(warnings.iter().any(|w| w.contains("key: no index")), "{kind:?}: {warnings:?}");
    }
}

#[tokio::test]
async fn numbers_that_cannot_be_what_they_are_said_to_be_are_refused() {
    for kind in Kind::ALL {
        let shop = Shop::open_altered(kind, 0, |_| {
            "CREATE TABLE orders (id bigint PRIMARY KEY, status varchar(9) DEFAULT 'unpaid', close_at bigint)"
                .to_owned()
        })
        .await;
        shop.db.run("INSERT INTO orders (id, close_at) VALUES (1, 1760000000)").await;
        let settings = SqlSettings {
            close_at_type: TimeType::UnixMillis,
            set: "status = 'closed'".to_owned(),
            then: Vec::new(),
            ..shop.settings()
        };
        let text = check(settings).await.unwrap_err();
        assert!(text.contains("look like seconds"), "{kind:?}: {text}");
    }
}

#[tokio::test]
async fn a_set_that_leaves_the_guard_true_is_found_by_a_trial_that_changes_nothing() {
    for kind in Kind::ALL {
        let shop = Shop::open(kind, 0).await;
        shop.orders([1], -1000, &[]).await;
        let settings = SqlSettings { guard: "status IN ('unpaid', 'closed')".to_owned(), ..shop.settings() };
        let text = check(settings).await.unwrap_err();
        assert!(text.contains("leaves the guard true"), "{kind:?}: {text}");
        let settings = SqlSettings { set: "status = 'nonsense'".to_owned(), ..shop.settings() };
        let text = check(settings).await.unwrap_err();
        assert!(text.contains("set: closing an order on trial failed"), "{kind:?}: {text}");
        assert_eq!(shop.status(1).await, "unpaid", "{kind:?}");
    }
}

#[tokio::test]
async fn a_table_without_transactions_is_refused() {
    let shop = Shop::open_altered(Kind::Mariadb, 0, |_| {
        "CREATE TABLE orders (id bigint PRIMARY KEY, status varchar(9), close_at datetime, closed_at datetime) ENGINE = MyISAM"
            .to_owned()
    })
    .await;
    let text = check(SqlSettings { then: Vec::new(), ..shop.settings() }).await.unwrap_err();
    assert!(text.contains("engine MyISAM"), "{text}");
}

#[tokio::test]
async fn a_database_that_cannot_be_reached_is_named_without_its_password() {
    for scheme in ["postgres", "mysql"] {
        let url = format!("{scheme}://user:s3cret@127.0.0.1:{}/shop", crate::rig::free_port());
        let text = check(SqlSettings { urls: vec![url.into()], ..fine(scheme) }).await.unwrap_err();
        assert!(
            text.contains("connecting to") && text.contains("127.0.0.1") && !text.contains("s3cret"),
            "{text}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}/missing.db", folder.path().display());
    let text = check(SqlSettings { urls: vec![url.into()], ..fine("sqlite") }).await.unwrap_err();
    assert!(text.contains("missing.db"), "{text}");
    assert!(!folder.path().join("missing.db").exists(), "the check made a file");
}

#[tokio::test]
async fn a_file_or_user_that_may_only_read_is_refused() {
    let shop = Shop::open(Kind::Sqlite, 0).await;
    let text = check(SqlSettings { urls: vec![format!("{}?mode=ro", shop.url).into()], ..shop.settings() })
        .await
        .unwrap_err();
    assert!(text.contains("readonly") || text.contains("read-only"), "{text}");

    let shop = Shop::open(Kind::Postgres, 0).await;
    // Roles belong to the server, not to the database.
    let reader = database_name();
    shop.db
        .run(&format!(
            "CREATE ROLE {reader} LOGIN PASSWORD 'r'; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}"
        ))
        .await;
    shop.orders([1], -1000, &[]).await;
    let (_, rest) = shop.url.rsplit_once('@').unwrap();
    let url = format!("postgres://{reader}:r@{rest}");
    let text = check(SqlSettings { urls: vec![url.into()], ..shop.settings() }).await.unwrap_err();
    assert!(text.contains("permission denied"), "{text}");
}

#[tokio::test]
async fn reserved_words_and_other_letters_are_good_names() {
    for kind in Kind::ALL {
        let quote = if kind == Kind::Mariadb { '`' } else { '"' };
        let shop = Shop::open_altered(kind, 0, |_| {
            format!("CREATE TABLE {quote}order{quote} ({quote}键{quote} bigint PRIMARY KEY, status varchar(9) DEFAULT 'unpaid')")
        })
        .await;
        shop.db.run(&format!("INSERT INTO {quote}order{quote} ({quote}键{quote}) VALUES (1)")).await;
        let settings = SqlSettings {
            table: "order".to_owned(),
            key: "键".to_owned(),
            close_at: None,
            set: "status = 'closed'".to_owned(),
            then: Vec::new(),
            ..shop.settings()
        };
        let warnings = check(settings).await.unwrap();
        assert!(warnings.iter().all(|w| w.contains("close_at: none")), "{kind:?}: {warnings:?}");
    }
}

#[test]
fn the_documented_audit_table_is_the_one_that_the_library_prints() {
    let squeezed = |text: &str| {
        let code = text.lines().map(|line| line.split("--").next().unwrap_or_default());
        code.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
    };
    let page = squeezed(include_str!("../docs/hook-sql.md"));
    for dialect in [Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite] {
        let ddl = audit_ddl(dialect, "duewheel_audit").unwrap();
        let ddl = squeezed(&ddl.replace(['"', '`'], ""));
        assert!(page.contains(&ddl), "not in docs/hook-sql.md: {ddl}");
    }
    assert!(audit_ddl(Dialect::Sqlite, "a; DROP TABLE b").is_err());
}
