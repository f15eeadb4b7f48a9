//! Whether what Redis loses would be found again: the orders table, read beside the wheel.

use super::Findings;
use crate::config::{HookSettings, WheelConfig};
use crate::wheel::Wheel;

/// The advice where there is no table to go back to.
const NO_TABLE: &str =
    "there is no table behind this hook: losing Redis loses orders; appendfsync always, and a replica";

/// Feed, sweep and rebuild of one wheel.
pub(super) async fn net(config: &WheelConfig, wheel: &Wheel, name: &str, findings: &mut Findings) {
    match &config.hook {
        HookSettings::None => {}
        #[cfg(feature = "sql")]
        HookSettings::Sql(_) => table::net(config, wheel, name, findings).await,
        _ => {
            let _ = wheel;
            findings.warning(name, "no sweep is possible", NO_TABLE);
        }
    }
}

#[cfg(feature = "sql")]
mod table {
    use super::{Findings, NO_TABLE, Wheel, WheelConfig};
    use crate::cli::net::{Net, declared};
    use crate::error::{Error, Result};
    use crate::hook::sql::SqlSettings;
    use crate::hook::sql::pages::{OrdersTable, Which};
    use crate::sweep::Reconcile;

    const LOST: &str = "what Redis loses is closed only when it is enqueued again";
    const INDEX: &str = "make an index on the columns of the guard, then the time column, then the key";

    pub async fn net(config: &WheelConfig, wheel: &Wheel, name: &str, findings: &mut Findings) {
        let Some(hook) = declared(config) else {
            findings.warning(name, "a close that is a procedure declares no table to sweep", NO_TABLE);
            return;
        };
        let net = match Net::of(config, wheel) {
            Ok(net) => net,
            Err(e) => return findings.problem(name, e.to_string(), "the table could not be read"),
        };
        match &net.sweep {
            None if config.sweep.every.is_off() => findings.warning(name, "the sweep is off", LOST),
            None => {
                findings.warning(name, "no sweep is possible: the table says no close time", "set close_at")
            }
            Some(sweep) => {
                say(
                    sweep.table().check(Which::Overdue).await,
                    "sweep",
                    &config.sweep.every.to_string(),
                    name,
                    findings,
                );
            }
        }
        match &net.rebuild {
            None if hook.close_at.is_none() => {}
            None => findings.warning(
                name,
                "an emptied wheel is not filled by itself",
                "set sweep.rebuild, or run duewheel rebuild",
            ),
            Some(rebuild) => say(
                open(rebuild.table()).await,
                "rebuild",
                "when the wheel is new or was emptied",
                name,
                findings,
            ),
        }
        if let Some(feed) = &net.feed {
            let every = crate::clock::show_duration(config.feed.every);
            let mark = Which::Since { mark: None, overlap: std::time::Duration::ZERO };
            say(feed.table().check(mark).await, "feed", &every, name, findings);
        }
        questions(hook, config, wheel, name, findings).await;
    }

    /// The shop's own questions are asked once: one that cannot be answered would be found out in the night.
    async fn questions(
        hook: &SqlSettings,
        config: &WheelConfig,
        wheel: &Wheel,
        name: &str,
        findings: &mut Findings,
    ) {
        let reconcile = Reconcile::new(wheel.clone(), hook, &config.sweep, config.reconcile.clone());
        let checked = match &reconcile {
            Ok(reconcile) => reconcile.check_questions().await,
            // What is wrong with the table was said above.
            Err(_) => return,
        };
        match checked {
            Ok((0, _)) => {}
            Ok((count, failed)) => {
                for (rule, why) in &failed {
                    let text = format!("reconcile: {rule} could not be answered: {why}");
                    findings.problem(name, text, "see its sql in [wheel.NAME.reconcile]");
                }
                findings.ok(name, format!("reconcile: {} of {count} questions answer", count - failed.len()));
            }
            Err(e) => findings.problem(name, format!("reconcile: {e}"), "see [wheel.NAME.reconcile]"),
        }
    }

    /// A rebuild reads every open row once; without an index for that it only takes longer.
    async fn open(table: &OrdersTable) -> Result<Vec<String>> {
        table.page(0, Which::Open, None, 1).await.map(|_| Vec::new())
    }

    fn say(checked: Result<Vec<String>>, job: &str, every: &str, name: &str, findings: &mut Findings) {
        match checked {
            Ok(warnings) => {
                warnings
                    .iter()
                    .for_each(|warning| findings.warning(name, format!("{job}: {warning}"), INDEX));
                let every = if job == "rebuild" { every.to_owned() } else { format!("every {every}") };
                findings.ok(name, format!("{job} {every}"));
            }
            Err(e @ Error::HookAway(_)) => {
                findings.problem(name, format!("{job}: {e}"), "see that this database answers")
            }
            Err(e) => findings.problem(name, format!("{job}: {e}"), "the table could not be read"),
        }
    }
}
