//! A login that may do what a close needs and nothing else, as docs/hook-sql.md lists it, closes orders.

use duewheel::hook::sql::SqlSettings;
use duewheel::hook::{Hook as _, Verdict};

use crate::rig::shop::{Db, Kind, Shop, database_name, hook, judge, lease};

const PAGE: &str = include_str!("../docs/hook-sql.md");

/// The statements of the page for this database: the block below the heading that begins with its name.
fn grants(name: &str) -> Vec<String> {
    let section = PAGE.split_once("\n## Rights\n").expect("a section").1;
    let block = section.split_once(&format!("-- {name}\n")).expect("a block").1;
    let block = block.split_once("```").expect("an end").0;
    block.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

/// The shop's URL with another login.
fn with_login(url: &str, user: &str, password: &str) -> String {
    let (scheme, rest) = url.split_once("://").expect("a url");
    let (_, place) = rest.split_once('@').expect("a login");
    format!("{scheme}://{user}:{password}@{place}")
}

/// A login of its own with the rights of the page: its name, and the shop's URL for it.
async fn login(shop: &Shop, name: &str) -> (String, String) {
    // Names of logins are the server's, and at most 32 bytes long.
    let unique = database_name();
    let user = format!("dw_{}", &unique[unique.len().saturating_sub(20)..]);
    for statement in grants(name) {
        let statement = statement.replace("duewheel", &user).replace("'...'", "'of-the-test'");
        shop.db.run(statement.trim_end_matches(';')).await;
    }
    let url = with_login(&shop.url, &user, "of-the-test");
    (user, url)
}

#[tokio::test]
async fn a_login_with_the_rights_that_the_page_lists_closes_orders_and_can_do_nothing_else() {
    for (kind, name) in [(Kind::Postgres, "PostgreSQL"), (Kind::Mariadb, "MariaDB")] {
        let shop = Shop::open(kind, 2).await;
        shop.orders(1..=4, -1000, &[(0, 1), (1, 2)]).await;
        shop.db.run("UPDATE orders SET status = 'paid' WHERE id = 4").await;
        let (_, url) = login(&shop, name).await;
        let hook = hook(SqlSettings { urls: vec![url.clone().into()], ..shop.settings() });
        let warnings = hook.check().await.unwrap();
        println!("{kind:?}: {warnings:?}");
        let verdicts = judge(&hook, &[1, 2, 3, 4].map(lease)).await;
        assert_eq!(
            verdicts[..3],
            [Verdict::Closed, Verdict::Closed, Verdict::Closed],
            "{kind:?}: {verdicts:?}"
        );
        assert!(matches!(verdicts[3], Verdict::Skipped { .. }), "{kind:?}: {verdicts:?}");
        assert_eq!(shop.count("FROM closes").await, 3);
        shop.balance().await;
        let login = Db::open(&url).await;
        for forbidden in [
            "DELETE FROM orders",
            "INSERT INTO orders (id) VALUES (9)",
            "UPDATE orders SET id = 9 WHERE id = 1",
            "DELETE FROM closes",
            "UPDATE closes SET attempt = 9",
            "DROP TABLE orders",
            "CREATE TABLE mine (n int)",
        ] {
            assert!(login.try_run(forbidden).await.is_err(), "{kind:?}: {forbidden}");
        }
    }
}

#[tokio::test]
async fn a_right_to_the_audit_that_is_missing_is_met_by_the_check_and_not_by_the_first_order() {
    for (kind, name) in [(Kind::Postgres, "PostgreSQL"), (Kind::Mariadb, "MariaDB")] {
        for right in ["SELECT", "INSERT"] {
            let shop = Shop::open(kind, 1).await;
            let (user, url) = login(&shop, name).await;
            shop.db.run(&format!("REVOKE {right} ON closes FROM {user}")).await;
            let hook = hook(SqlSettings { urls: vec![url.into()], ..shop.settings() });
            let refused = hook.check().await.unwrap_err().to_string();
            assert!(refused.contains("audit") && refused.contains("closes"), "{kind:?} {right}: {refused}");
            assert_eq!(shop.count("FROM closes").await, 0, "nothing of a trial is left");
        }
    }
}
