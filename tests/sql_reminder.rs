//! Reminders in the shop's database: only for orders that are still unpaid, once each, and without a word about the close.

use duewheel::deadline::Stage;
use duewheel::hook::Verdict;
use duewheel::hook::sql::{SqlHook, SqlSettings};
use duewheel::lease::Lease;

use crate::rig::shop::{Kind, Shop, hook, judge, lease};

/// A shop that writes a mail for each reminder.
async fn shop(kind: Kind) -> (Shop, SqlHook) {
    let shop = Shop::open(kind, 1).await;
    shop.db.run("CREATE TABLE mail (order_id bigint NOT NULL, stage integer NOT NULL)").await;
    let remind = vec!["INSERT INTO mail (order_id, stage) VALUES (:id, :stage)".to_owned()];
    let hook = hook(SqlSettings { remind, ..shop.settings() });
    (shop, hook)
}

fn reminder(id: i64, stage: u8) -> Lease {
    Lease { stage: Stage(stage), ..lease(id) }
}

async fn mails(shop: &Shop) -> Vec<(String, String)> {
    let rows = shop
        .db
        .rows("SELECT CAST(order_id AS char(9)), CAST(stage AS char(9)) FROM mail ORDER BY 1, 2")
        .await;
    let text = |cell: &Option<String>| cell.as_deref().unwrap_or_default().trim().to_owned();
    rows.iter().map(|row| (text(&row[0]), text(&row[1]))).collect()
}

fn mail(id: &str, stage: &str) -> (String, String) {
    (id.to_owned(), stage.to_owned())
}

#[tokio::test]
async fn only_unpaid_orders_are_reminded_and_nothing_else_of_them_is_touched() {
    for kind in Kind::ALL {
        let (shop, hook) = shop(kind).await;
        // Due in an hour: a reminder comes before the close.
        shop.orders(1..=4, 3_600_000, &[(0, 2)]).await;
        shop.db.run("UPDATE orders SET status = 'paid' WHERE id = 2").await;
        shop.db.run("UPDATE orders SET status = 'closed' WHERE id = 3").await;
        let leases: Vec<Lease> = [1, 2, 3, 4, 5].map(|id| reminder(id, 2)).into();
        let verdicts = judge(&hook, &leases).await;
        let skipped = |state: &str| Verdict::Skipped { state: state.to_owned() };
        let expected = [Verdict::Closed, skipped("paid"), skipped("closed"), Verdict::Closed];
        assert_eq!(verdicts[..4], expected, "{kind:?}");
        assert!(matches!(verdicts[4], Verdict::Gone { .. }), "{kind:?}: {verdicts:?}");
        assert_eq!(mails(&shop).await, [mail("1", "2"), mail("4", "2")], "{kind:?}");
        assert_eq!(shop.status(1).await, "unpaid");
        assert_eq!(shop.count("FROM closes WHERE action = 'REMINDER_2'").await, 2);
    }
}

#[tokio::test]
async fn a_reminder_that_is_asked_again_is_given_once_and_another_stage_is_another_reminder() {
    for kind in Kind::ALL {
        let (shop, hook) = shop(kind).await;
        shop.orders(1..=2, 3_600_000, &[(0, 1)]).await;
        let first = [reminder(1, 2), reminder(2, 2)];
        // The first settle was lost: the same life, by a later claim.
        let mut again = first.clone();
        again.iter_mut().for_each(|lease| lease.fence.0 += 2);
        for leases in [&first, &again] {
            assert_eq!(judge(&hook, leases).await, [Verdict::Closed, Verdict::Closed], "{kind:?}");
        }
        let next = Lease { stage: Stage(1), ..first[0].clone() };
        assert_eq!(judge(&hook, &[next]).await, [Verdict::Closed], "{kind:?}");
        assert_eq!(mails(&shop).await, [mail("1", "1"), mail("1", "2"), mail("2", "2")], "{kind:?}");
    }
}

#[tokio::test]
async fn a_reminder_before_it_is_never_taken_for_the_close() {
    for kind in Kind::ALL {
        let (shop, hook) = shop(kind).await;
        shop.orders(1..=2, 60, &[(0, 1)]).await;
        let reminded = [reminder(1, 1), reminder(2, 1)];
        assert_eq!(judge(&hook, &reminded).await, [Verdict::Closed, Verdict::Closed], "{kind:?}");
        shop.db.run("UPDATE orders SET status = 'paid' WHERE id = 2").await;
        shop.db.run("UPDATE item SET available = available, reserved = reserved").await;
        tokio::time::sleep(std::time::Duration::from_millis(120)).await;
        // The closes of the same lives: one closes, and one finds the order paid, whatever its reminder's audit row says.
        let close = |lease: &Lease| Lease { stage: Stage::CLOSE, ..lease.clone() };
        let closes: Vec<Lease> = reminded.iter().map(close).collect();
        let verdicts = judge(&hook, &closes).await;
        assert_eq!(verdicts, [Verdict::Closed, Verdict::Skipped { state: "paid".to_owned() }], "{kind:?}");
        assert_eq!(shop.count("FROM closes WHERE action = 'AUTO_CLOSE'").await, 1);
    }
}

#[tokio::test]
async fn a_broken_reminder_is_told_of_and_changes_nothing() {
    for kind in Kind::ALL {
        let (shop, _) = shop(kind).await;
        shop.orders([1], 3_600_000, &[(0, 1)]).await;
        let remind = vec!["INSERT INTO mail (order_id, stage) VALUES (:id, NULL)".to_owned()];
        let hook = hook(SqlSettings { remind, ..shop.settings() });
        let verdict = judge(&hook, &[reminder(1, 1)]).await.remove(0);
        assert!(
            matches!(&verdict, Verdict::Failed { reason } if reason.contains("remind 1")),
            "{kind:?}: {verdict:?}"
        );
        assert_eq!((mails(&shop).await.len(), shop.count("FROM closes").await), (0, 0), "{kind:?}");
    }
}
